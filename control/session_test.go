package control_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gperf/control"
	"gperf/plan"
	"gperf/result"
)

// A pair is a session and its peer's end of the connection. It lives in a
// synctest bubble.
type pair struct {
	t       *testing.T
	session *control.Session
	stream  net.Conn // the session's end
	peer    *control.Conn
	far     net.Conn // the peer's end
	samples chan control.Sample
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, samples: make(chan control.Sample, 100)}
	p.stream, p.far = net.Pipe()
	p.peer = control.NewConn(p.far)
	p.session = control.NewSession(control.NewConn(p.stream), func(s control.Sample) { p.samples <- s })
	t.Cleanup(func() { // a bubble ends when its goroutines have
		p.session.End()
		_ = p.stream.Close()
		_ = p.far.Close()
	})
	return p
}

// say sends a message as the peer.
func (p *pair) say(typ control.Type, body any) {
	p.t.Helper()
	if err := p.peer.Send(typ, body); err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
}

// lost checks that the session is over, and that its error says so.
func (p *pair) lost(want string) {
	p.t.Helper()
	select {
	case <-p.session.Lost():
	default:
		p.t.Fatal("the session goes on")
	}
	if err := p.session.Err(); err == nil || !strings.Contains(err.Error(), want) {
		p.t.Errorf("error %v, want %q", err, want)
	}
	if _, err := p.session.Next(p.t.Context()); err != p.session.Err() {
		p.t.Errorf("Next says %v", err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func TestSessionSorts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		p.say(control.TypeHeartbeat, nil)
		p.say(control.TypeSample, control.Sample{Direction: plan.Both, Sample: result.Sample{Tick: 3}})
		p.say(control.TypeReady, control.Ready{Port: 7})
		p.say("future", nil)
		p.say(control.TypeClosed, control.Closed{Direction: plan.ServerToClient})
		if s := <-p.samples; s.Direction != plan.Both || s.Sample.Tick != 3 {
			t.Errorf("sample %+v", s)
		}
		for d, want := range map[plan.Direction]bool{plan.ClientToServer: false, plan.ServerToClient: true, plan.Both: false} {
			if isClosed(p.session.PeerClosed(d)) != want {
				t.Errorf("%s closed: %v", d, !want)
			}
		}
		var ready control.Ready
		if err := p.session.Expect(t.Context(), control.TypeReady, &ready); err != nil || ready.Port != 7 {
			t.Errorf("ready: %+v, %v", ready, err)
		}
		if err := p.session.Expect(t.Context(), control.TypeStarted, nil); err == nil || !strings.Contains(err.Error(), `expected started, got "future"`) {
			t.Errorf("an unexpected message: %v", err)
		}
		if isClosed(p.session.Stop()) || p.session.Err() != nil {
			t.Error("stopped or lost")
		}
		p.say(control.TypeStop, nil)
		p.say(control.TypeStop, nil) // once is enough, twice no error
		if !isClosed(p.session.Stop()) || p.session.Err() != nil {
			t.Errorf("stop: %v", p.session.Err())
		}
	})
}

// The body that Next returns stays what it was when more comes in.
func TestSessionKeepsBodies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		p.say(control.TypeReady, control.Ready{Token: "first"})
		p.say(control.TypeReady, control.Ready{Token: "other"})
		var first control.Ready
		if err := p.session.Expect(t.Context(), control.TypeReady, &first); err != nil || first.Token != "first" {
			t.Errorf("%+v, %v", first, err)
		}
	})
}

func TestSessionEnds(t *testing.T) {
	tests := []struct {
		name string
		do   func(p *pair)
		want string
		is   error
	}{
		{"error", func(p *pair) {
			p.say(control.TypeError, control.Error{Kind: "plan", Message: "server: no such knob", End: "server"})
		}, "server: no such knob", nil},
		{"closed", func(p *pair) { _ = p.far.Close() }, "closed by the other end", control.ErrLost},
		{"silence", func(p *pair) { _ = p.stream.SetReadDeadline(time.Now().Add(-1)) }, "nothing heard in time", control.ErrLost},
		{"own close", func(p *pair) { _ = p.stream.Close() }, "control connection lost", control.ErrLost},
		{"closed twice", func(p *pair) {
			p.say(control.TypeClosed, control.Closed{Direction: plan.Both})
			p.say(control.TypeClosed, control.Closed{Direction: plan.Both})
		}, "direction both closed twice", nil},
		{"unknown direction", func(p *pair) { p.say(control.TypeClosed, control.Closed{Direction: "up"}) }, `unknown direction "up"`, nil},
		{"bad closed", func(p *pair) { p.say(control.TypeClosed, 7) }, "closed: ", nil},
		{"bad sample", func(p *pair) { p.say(control.TypeSample, "x") }, "sample: ", nil},
		{"bad error", func(p *pair) { p.say(control.TypeError, 7) }, "error: ", nil},
		{"cut frame", func(p *pair) {
			p.say(control.TypeHeartbeat, nil)
			_, _ = p.far.Write([]byte{0, 0, 1, 0, '{'})
			_ = p.far.Close()
		}, "closed by the other end", control.ErrLost},
		{"foreign", func(p *pair) {
			_, _ = p.far.Write([]byte("HTTP/1.1"))
			_ = p.far.Close()
		}, `not gperf: it begins with "HTTP/1.1"`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t)
				tt.do(p)
				synctest.Wait()
				p.lost(tt.want)
				if tt.is != nil && !errors.Is(p.session.Err(), tt.is) {
					t.Errorf("%v is no %v", p.session.Err(), tt.is)
				}
			})
		})
	}
}

// What came before the end is delivered before it.
func TestSessionDeliversBeforeEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		p.say(control.TypeReport, nil)
		_ = p.far.Close()
		synctest.Wait()
		if m, err := p.session.Next(t.Context()); err != nil || m.Type != control.TypeReport {
			t.Errorf("%+v, %v", m, err)
		}
		p.lost("closed by the other end")
	})
}

// A peer that talks and talks is held back, and the session still ends.
func TestSessionInboxIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		sent := 0
		go func() {
			for p.peer.Send(control.TypeSeries, nil) == nil {
				sent++
			}
		}()
		synctest.Wait()
		if sent < 1 || sent > 32 {
			t.Errorf("%d messages were taken in, and nobody reads them", sent)
		}
		for range 1000 {
			if _, err := p.session.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		p.session.End()
		synctest.Wait()
		if !isClosed(p.session.Lost()) || !errors.Is(p.session.Err(), control.ErrLost) {
			t.Errorf("after End: %v", p.session.Err())
		}
	})
}

func TestSessionNextByContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		cause := errors.New("no answer within 3s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, cause)
		defer cancel()
		begun := time.Now()
		go func() { _, _ = p.far.Read(make([]byte, 1<<10)) }() // heartbeats
		if _, err := p.session.Next(ctx); !errors.Is(err, cause) || time.Since(begun) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestSessionHeartbeatsAndSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		begun := time.Now()
		for i := range 5 {
			if typ, _, err := p.peer.Receive(); err != nil || typ != control.TypeHeartbeat {
				t.Fatal(typ, err)
			}
			if at, want := time.Since(begun), time.Duration(i+1)*control.HeartbeatEvery; at != want {
				t.Errorf("heartbeat %d came after %v", i, at)
			}
		}
		if s := p.session.Silent(); s != 5*control.HeartbeatEvery {
			t.Errorf("silent for %v", s)
		}
		p.say(control.TypeHeartbeat, nil)
		if s := p.session.Silent(); s != 0 {
			t.Errorf("silent for %v after a heartbeat", s)
		}
		p.session.End()
		p.session.End() // as often as one likes
		_ = p.far.SetReadDeadline(time.Now().Add(time.Minute))
		if _, _, err := p.peer.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after End: %v", err)
		}
	})
}

// Live never blocks, whatever the connection does: it drops.
func TestSessionLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t)
		const many = 1000
		for i := range many { // nobody reads; if Live blocked, the bubble would be deadlocked
			p.session.Live(control.Sample{Direction: plan.Both, Sample: result.Sample{Tick: i}})
		}
		synctest.Wait()
		got, last := 0, -1
		for {
			_ = p.far.SetReadDeadline(time.Now().Add(time.Millisecond))
			typ, body, err := p.peer.Receive()
			if err != nil {
				break
			}
			var s control.Sample
			if err := control.Unmarshal(typ, body, &s); err != nil {
				t.Fatal(err)
			}
			if s.Sample.Tick <= last {
				t.Fatalf("sample %d after %d", s.Sample.Tick, last)
			}
			got, last = got+1, s.Sample.Tick
		}
		if got < 1 || got == many {
			t.Errorf("%d of %d samples were sent", got, many)
		}
	})
}

// Without anyone to look at them, samples are dropped.
func TestSessionWithoutWatcher(t *testing.T) {
	bubble(t, func(t *testing.T) {
		near, far := net.Pipe()
		s := control.NewSession(control.NewConn(near), nil)
		peer := control.NewConn(far)
		if err := errors.Join(peer.Send(control.TypeSample, control.Sample{}), peer.Send(control.TypeStop, nil)); err != nil {
			t.Error(err)
		}
		<-s.Stop()
		s.End()
		_ = far.Close()
		<-s.Lost()
	})
}
