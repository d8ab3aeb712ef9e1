package flow_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// closed is a channel that is closed.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// failing starts to measure a group whose other end is the test itself; what it
// returns awaits the end.
func failing(t *testing.T, g *flow.Group, win flow.Window) func() (*result.Half, error) {
	t.Helper()
	win.Begin, win.Opening = func() error { return nil }, func() {}
	if win.Began == nil {
		win.Began = closed
	}
	type end struct {
		half *result.Half
		err  error
	}
	done := make(chan end, 1)
	go func() {
		half, err := g.Measure(t.Context(), win)
		done <- end{half, err}
	}()
	return func() (*result.Half, error) {
		e := <-done
		return e.half, e.err
	}
}

// measured is failing for a group that must not fail.
func measured(t *testing.T, g *flow.Group, win flow.Window) <-chan *result.Half {
	t.Helper()
	wait := failing(t, g, win)
	done := make(chan *result.Half, 1)
	go func() {
		half, err := wait()
		if err != nil {
			t.Error(err)
		}
		done <- half
	}()
	return done
}

// timed is a plan of each type that ends by the clock.
func timed(typ plan.Type, threads int) *plan.Test {
	p := &plan.Test{
		Type: typ, Streams: 2, Duration: plan.Seconds(150 * time.Millisecond), Interval: plan.Seconds(20 * time.Millisecond),
		Warmup: plan.Seconds(60 * time.Millisecond),
	}
	p.Client.Threads, p.Server.Threads = threads, threads
	return p
}

// edges returns the opening and the closing sample.
func edges(h *result.Half) (opening, closing result.Sample) {
	return h.Series[0], h.Series[len(h.Series)-1]
}

func total(column []uint64) (sum uint64) {
	for _, v := range column {
		sum += v
	}
	return sum
}

// A window opens after the warm-up, is as long as asked, and leaves out what
// came before.
func TestWindow(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, typ := range standing {
			p := timed(typ, threads)
			m := newMatch(t, p, buffers{})
			began := sys.Monotonic()
			r := m.pass(t)
			d := p.Directions()[0]
			measure, other := &m.server.halves[0], &m.client.halves[0]
			if d.Role(sockopt.Client).Measures() {
				measure, other = other, measure
			}
			if warm := measure.OpenedNs - began; warm < int64(p.Warmup) {
				t.Errorf("%s: opened %d ns after the start", typ, warm)
			}
			if length := measure.ClosedNs - measure.OpenedNs; typ == plan.TCPRR && length != int64(p.Duration) {
				t.Errorf("%s: open for %d ns", typ, length)
			}
			if end := measure.ClosedNs - began; end < int64(p.Warmup+p.Duration) {
				t.Errorf("%s: closed %d ns after the start", typ, end)
			}
			opening, closing := edges(measure)
			warm, _ := edges(other)
			switch {
			case closing.Tick != result.LastTick || opening.Tick != 0:
				t.Errorf("%s: ticks %d to %d", typ, opening.Tick, closing.Tick)
			case total(opening.Received) == 0 || total(warm.Sent) == 0:
				t.Errorf("%s: nothing moved during the warm-up", typ)
			case typ == plan.TCPRR && total(opening.Transactions) != 0:
				t.Errorf("%s: %d transactions of the warm-up count", typ, total(opening.Transactions))
			case *r.Summary.ReceivedBytes == 0 || typ == plan.TCPRR && *r.Summary.Transactions == 0:
				t.Errorf("%s: nothing moved in the window", typ)
			}
			if typ == plan.TCPRR {
				// The warm-up's transactions are in no histogram either, and the
				// responder's count says that there were some.
				if n := int64(*r.Summary.Transactions); r.Summary.Latency.Count != n || total(other.Series[len(other.Series)-1].Transactions) <= uint64(n) {
					t.Errorf("%d transactions, %d latencies, %d answers", n, r.Summary.Latency.Count, total(other.Series[len(other.Series)-1].Transactions))
				}
			}
			if len(r.Intervals) < 2 {
				t.Errorf("%s: %d intervals", typ, len(r.Intervals))
			}
			for _, s := range r.Streams {
				for _, e := range []*result.StreamEnd{s.Client, s.Server} {
					if e.Error != nil || e.TCPInfo.Start == nil || e.TCPInfo.End == nil || e.Thread == nil || e.Thread.CPUSeconds == nil || !strings.HasPrefix(e.Local, "127.0.0.1:") {
						t.Errorf("%s: stream %d: %+v", typ, s.ID, e)
					}
				}
			}
		}
	})
}

// A tick that comes late makes one longer interval, and one that comes after
// the end none at all.
func TestLateTicks(t *testing.T) {
	t.Parallel()
	for _, typ := range standing {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			p := timed(typ, 0)
			p.Warmup = 0
			m := newMatch(t, p, buffers{})
			measure := m.server
			if p.Directions()[0].Role(sockopt.Client).Measures() {
				measure = m.client
			}
			var opened int64
			measure.live = func(_ plan.Direction, s result.Sample) {
				// The sampler is held up after ticks 0 and 4.
				until := int64(0)
				switch {
				case s.Tick == 0:
					opened, until = s.AtNs, s.AtNs+3*int64(p.Interval)+int64(p.Interval)/2
				case s.Tick >= 4:
					until = opened + int64(p.Duration) + 2*int64(p.Interval)
				}
				if s.Tick != result.LastTick && until > sys.Monotonic() {
					time.Sleep(time.Duration(until - sys.Monotonic()))
				}
			}
			r := m.pass(t)
			series := measure.halves[0].Series
			if len(series) < 3 || series[1].Tick < 3 {
				t.Fatalf("ticks %v", ticks(series))
			}
			if first := r.Intervals[0]; first.End < 3*time.Duration(p.Interval).Seconds() {
				t.Errorf("the first interval ends at %v", first.End)
			}
			end := opened + int64(p.Duration)
			for _, s := range series[:len(series)-1] {
				if s.AtNs >= end {
					t.Errorf("tick %d was taken %d ns after the end", s.Tick, s.AtNs-end)
				}
			}
		})
	}
}

func ticks(series []result.Sample) (all []int) {
	for _, s := range series {
		all = append(all, s.Tick)
	}
	return all
}

// An early end is no error: both ends have complete, shorter windows.
func TestCut(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, typ := range standing {
			for _, when := range []string{"at once", "in the warm-up", "in the window", "by count"} {
				p := timed(typ, threads)
				p.Duration, p.Warmup = plan.Seconds(time.Hour), 0
				switch when {
				case "in the warm-up":
					p.Warmup = plan.Seconds(time.Hour)
				case "by count":
					p.Duration = 0
					if typ == plan.TCPRR { // the cut comes in the middle of a request
						p.Transactions, p.RequestSize = 1<<50, 1<<20
					} else {
						p.Bytes = 1 << 60
					}
				}
				m := newMatch(t, p, buffers{8 << 10, 8 << 10})
				cut := sync.OnceFunc(func() { close(m.client.cut); close(m.server.cut) })
				m.client.live = func(_ plan.Direction, s result.Sample) {
					if s.Tick > 2 && total(s.Sent)+total(s.Received) > 0 {
						cut()
					}
				}
				switch when {
				case "at once":
					cut()
				case "in the warm-up":
					time.AfterFunc(50*time.Millisecond, cut) // the time of the interruption itself
				}
				r := m.pass(t)
				if d := *r.Summary.Duration; d < 0 || d > 60 {
					t.Errorf("%s cut %s: %v s", typ, when, d)
				}
				moved := *r.Summary.SentBytes + *r.Summary.ReceivedBytes
				if inWindow := when == "in the window" || when == "by count"; inWindow && moved == 0 {
					t.Errorf("%s cut %s: nothing measured", typ, when)
				}
			}
		}
	})
}

// A context that ends, ends the test with its cause and what was measured.
func TestCancel(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, typ := range standing {
			p := timed(typ, threads)
			p.Duration, p.Warmup = plan.Seconds(time.Hour), 0
			m := newMatch(t, p, buffers{})
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("the client is gone")
			m.server.live = func(_ plan.Direction, s result.Sample) {
				if s.Tick > 1 && total(s.Sent)+total(s.Received) > 0 {
					cancel(cause)
				}
			}
			m.run(ctx)
			if !errors.Is(m.clientErr, cause) || !errors.Is(m.serverErr, cause) {
				t.Errorf("%s: %v and %v", typ, m.clientErr, m.serverErr)
			}
			r := m.finish(t)
			if *r.Summary.SentBytes+*r.Summary.ReceivedBytes == 0 || *r.Summary.Duration <= 0 || *r.Summary.Duration > 60 {
				t.Errorf("%s: %d bytes in %v s", typ, *r.Summary.ReceivedBytes, *r.Summary.Duration)
			}
		}
	})
}

// A context that has ended before the window is open yields an empty half.
func TestCancelledBefore(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, warmup := range []time.Duration{0, time.Hour} {
			p := timed(plan.TCPRR, threads)
			p.Warmup = plan.Seconds(warmup)
			m := newMatch(t, p, buffers{})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			m.run(ctx)
			if !errors.Is(m.clientErr, context.Canceled) || !errors.Is(m.serverErr, context.Canceled) {
				t.Errorf("%v and %v", m.clientErr, m.serverErr)
			}
			if d := *m.finish(t).Summary.Duration; d < 0 || d > 60 {
				t.Errorf("warm-up %v: open for %v s", warmup, d)
			}
		}
	})
}

// A peer of which nothing is heard, and whose data doesn't move, ends the test;
// so does one that never says that it's done. Time is not the real one here: the
// workers have all ended, so that nothing holds it back.
func TestSilentPeer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		plan   plan.Test
		end    sockopt.End
		silent time.Duration
		want   string
		after  time.Duration
	}{
		{"silent", plan.Test{Type: plan.TCPStream, Bytes: 1000}, sockopt.Client, time.Hour, "no word and no data for 5s", flow.Grace},
		{"never done", plan.Test{Type: plan.TCPRR, Duration: plan.Seconds(2 * time.Second), Warmup: plan.Seconds(time.Second)}, sockopt.Server, 0, "no word 5s after the end of the test", 3*time.Second + flow.Grace},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tt.plan.Normalise()
				must(t, tt.plan.Validate())
				fd, far := unixPair(t)
				own(t, far)
				if tt.end == sockopt.Server {
					must(t, unix.Shutdown(far, unix.SHUT_WR)) // the responder ends
				}
				x, err := flow.NewTest(&tt.plan, tt.end, []flow.Socket{{Stream: 1, FD: fd}}, flow.Files{}, flow.Connections{})
				must(t, err)
				defer x.Close()
				begun := time.Now()
				halves, err := x.Run(t.Context(), flow.Link{
					Closed:     func(plan.Direction) error { return nil },
					PeerClosed: func(plan.Direction) <-chan struct{} { return nil },
					Live:       func(plan.Direction, result.Sample) {},
					Silent:     func() time.Duration { return tt.silent },
					Begin:      func() error { return nil }, Began: closed, Edge: func() {},
				})
				if !errors.Is(err, flow.ErrSilent) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				if took := time.Since(begun); took < tt.after || took > tt.after+time.Second {
					t.Errorf("it took %v", took)
				}
				must(t, x.Finish(halves))
				if err := halves[0].Check(1); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An end that can't tell the other that it begins doesn't begin.
func TestBeginFails(t *testing.T) {
	t.Parallel()
	for _, typ := range standing {
		m := newMatch(t, timed(typ, 0), buffers{})
		refused := errors.New("no connection")
		link := m.client.link(m.server)
		link.Begin = func() error { return refused }
		var err error
		if m.client.halves, err = m.client.test.Run(t.Context(), link); !errors.Is(err, refused) {
			t.Errorf("%s: %v", typ, err)
		}
		must(t, m.client.test.Finish(m.client.halves))
		if err := m.client.halves[0].Check(2); err != nil {
			t.Error(err)
		}
	}
}

func TestAwaitAcked(t *testing.T) {
	t.Parallel()
	fd, far := unixPair(t)
	own(t, fd)
	p := peer{t, own(t, far)}
	must(t, func() error { _, err := unix.Write(fd, []byte("preamble")); return err }())
	begun := time.Now()
	flow.AwaitAcked(t.Context(), []flow.Socket{{Stream: 1, FD: fd}})
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("gave up after %v", took)
	}
	p.receive(make([]byte, 8))
	flow.AwaitAcked(t.Context(), []flow.Socket{{Stream: 1, FD: fd}})
}
