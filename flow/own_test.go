package flow_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/plan"
	"gperf/result"
	"gperf/stats"
)

// The window that is one end's own business closes by its clock, whatever its
// role: nobody is waited for.
func TestOwnWindowByTime(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver, plan.Requester, plan.Responder} {
			fd, far := unixPair(t)
			own(t, far) // who says nothing
			g := group(t, roleOf(role, threads, 100), fd)
			const length = 60 * time.Millisecond
			half := <-measured(t, g, flow.Window{Own: true, Duration: length, Interval: 10 * time.Millisecond})
			must(t, g.Finish(half), half.Check(1))
			// It's as long as between its samples, of which the first may be late.
			if d := half.ClosedNs - half.OpenedNs; d < int64(length)/2 {
				t.Errorf("%s: open for %d ns", role, d)
			}
		}
	})
}

// It closes, too, when its streams have ended: by a limit, or because the peer
// has ended them, which is no error.
func TestOwnWindowUntilTheEnd(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, duration := range []time.Duration{0, time.Hour} {
			const n, size = 50, 100
			for _, role := range []plan.Role{plan.Sender, plan.Receiver, plan.Requester, plan.Responder} {
				fd, far := tcpPair(t, buffers{})
				p := peer{t, own(t, far)}
				cfg := roleOf(role, threads, size)
				cfg.UntilEOF = true
				switch role {
				case plan.Sender:
					cfg.Limits = []uint64{n * size}
				case plan.Requester:
					cfg.Limits = []uint64{n}
				case plan.Receiver, plan.Responder:
				}
				g := group(t, cfg, fd)
				done := measured(t, g, flow.Window{Own: true, Duration: duration})
				drive(p, role, make([]byte, size), n)
				if role == plan.Receiver || role == plan.Responder {
					must(t, unix.Shutdown(far, unix.SHUT_WR))
				}
				half := <-done
				must(t, g.Finish(half), half.Check(1))
				last := lastOf(half)
				got := map[plan.Role]uint64{
					plan.Sender: last.Sent[0] / size, plan.Receiver: last.Received[0] / size,
					plan.Requester: last.Transactions[0], plan.Responder: last.Transactions[0],
				}[role]
				if got != n {
					t.Errorf("%s, for %v: %d, not %d", role, duration, got, n)
				}
				if d := time.Duration(half.ClosedNs - half.OpenedNs); d <= 0 || d > time.Minute {
					t.Errorf("%s, for %v: open for %v", role, duration, d)
				}
			}
		}
	})
}

// The end may come in the middle of anything.
func TestUntilEOF(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, role := range []plan.Role{plan.Receiver, plan.Requester, plan.Responder} {
			for _, until := range []bool{true, false} {
				fd, far := tcpPair(t, buffers{})
				p := peer{t, own(t, far)}
				cfg := roleOf(role, threads, 100)
				cfg.UntilEOF = until
				g := group(t, cfg, fd)
				done := failing(t, g, flow.Window{Own: true, Duration: time.Hour})
				p.send(make([]byte, 50))
				must(t, unix.Shutdown(far, unix.SHUT_WR))
				half, err := done()
				if until && err != nil || !until && (err == nil || !strings.Contains(err.Error(), "the peer closed the connection after 50 bytes")) {
					t.Errorf("%s, until the end %v: %v", role, until, err)
				}
				must(t, g.Finish(half))
				if n := lastOf(half).Received[0]; n != 50 {
					t.Errorf("%s: %d bytes", role, n)
				}
			}
		}
	})
}

// Cut closes it before its time.
func TestOwnWindowCut(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver, plan.Requester, plan.Responder} {
			fd, far := unixPair(t)
			own(t, far)
			g := group(t, roleOf(role, threads, 100), fd)
			cut := make(chan struct{})
			done := measured(t, g, flow.Window{Own: true, Duration: time.Hour, Cut: cut, Live: func(s result.Sample) {
				if s.Tick == 0 {
					close(cut)
				}
			}})
			half := <-done
			must(t, g.Finish(half), half.Check(1))
			if d := time.Duration(half.ClosedNs - half.OpenedNs); d > time.Minute {
				t.Errorf("%s: open for %v", role, d)
			}
		}
	})
}

// Each call that moves something is timed once, from its first attempt: what
// another program would wait for in one call, the socket's time-out cuts here.
func TestTimeCalls(t *testing.T) {
	t.Parallel()
	for _, udp := range []bool{false, true} {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver} {
			const n, size = 20, 100
			pair := tcpPairs
			cfg := roleOf(role, 0, size)
			if udp {
				pair, cfg = udpPair, datagrams(role, size)
				cfg.Plain = true
			}
			cfg.TimeCalls, cfg.UntilEOF = true, true
			if role == plan.Sender {
				cfg.Limits = []uint64{n * size}
			}
			fd, far := pair(t)
			p := peer{t, own(t, far)}
			g := group(t, cfg, fd)
			done := measured(t, g, flow.Window{Own: true})
			const pause = 2 * flow.Timeout // the time that is to be measured, if the receiver begins soon
			if role == plan.Receiver {
				time.Sleep(pause)
			}
			drive(p, role, make([]byte, size), n)
			if role == plan.Receiver {
				awaitSample(t, g, "all has come", func(s *result.Sample) bool { return s.Received[0] == n*size })
				if udp {
					p.say(nil)
				} else {
					must(t, unix.Shutdown(far, unix.SHUT_WR))
				}
			}
			half := <-done
			must(t, g.Finish(half))
			last := lastOf(half)
			h, err := stats.DecodeHistogram(half.Threads[0].Latency)
			must(t, err)
			if calls := last.SendCalls[0] + last.ReceiveCalls[0]; h.TotalCount() != int64(calls) || calls == 0 {
				t.Errorf("UDP %v, %s: %d latencies of %d calls", udp, role, h.TotalCount(), calls)
			}
			if role == plan.Receiver && h.Max() < int64(flow.Timeout) {
				t.Errorf("UDP %v: the longest call took %d ns, the first byte came after %v", udp, h.Max(), pause)
			}
		}
	}
}

// Nobody times calls unasked.
func TestCallsAreNotTimed(t *testing.T) {
	t.Parallel()
	fd, far := unixPair(t)
	own(t, far)
	g := group(t, roleOf(plan.Receiver, 0, 100), fd)
	half := <-measured(t, g, flow.Window{Own: true, Duration: time.Millisecond})
	must(t, g.Finish(half))
	if half.Threads[0].Latency != "" {
		t.Errorf("latencies %q", half.Threads[0].Latency)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	pause := flow.Pause{Burst: 3, Every: 10 * time.Millisecond}
	for _, tt := range []struct {
		name           string
		left           int
		due, now, due2 int64
	}{
		{"the first", 3, 0, 500 * ms, 500 * ms},
		{"in a burst", 2, 500 * ms, 503 * ms, 500 * ms},
		{"the last of one", 1, 500 * ms, 503 * ms, 510 * ms},
		{"the last of one, late", 1, 500 * ms, 508 * ms, 510 * ms},
		{"bursts that were missed are missed", 1, 500 * ms, 777 * ms, 777 * ms},
	} {
		if got := flow.NextPaused(pause, tt.left, tt.due, tt.now); got != tt.due2 {
			t.Errorf("%s: the next at %d, want %d", tt.name, got, tt.due2)
		}
	}
}

// A stream with pauses does no more than a burst between two of them, and a
// requester's latency has no part of them.
func TestPausedStreams(t *testing.T) {
	t.Parallel()
	const every, bursts, burst = 20 * time.Millisecond, 8, 1
	for _, tt := range []struct {
		name string
		pair func(testing.TB) (int, int)
		cfg  flow.Config
	}{
		{"sender", tcpPairs, roleOf(plan.Sender, 0, 100)},
		{"epoll sender", tcpPairs, roleOf(plan.Sender, 1, 100)},
		{"requester", tcpPairs, roleOf(plan.Requester, 0, 100)},
		{"UDP sender", udpPair, datagrams(plan.Sender, 100)},
		{"UDP requester", udpPair, datagrams(plan.Requester, 100)},
		{"plain UDP requester", udpPair, func() flow.Config { c := datagrams(plan.Requester, 100); c.Plain = true; return c }()},
	} {
		cfg := tt.cfg
		cfg.Pause = flow.Pause{Burst: burst, Every: every}
		cfg.Limits = []uint64{bursts * burst}
		if cfg.Role == plan.Sender {
			cfg.Limits[0] *= 100
		}
		fd, far := tt.pair(t)
		p := peer{t, own(t, far)}
		g := group(t, cfg, fd)
		done := measured(t, g, flow.Window{Own: true})
		drive(p, cfg.Role, make([]byte, 100), bursts*burst)
		half := <-done
		must(t, g.Finish(half))
		if d := time.Duration(half.ClosedNs - half.OpenedNs); d < (bursts-1)*every {
			t.Errorf("%s: %d bursts in %v", tt.name, bursts, d)
		} else if slept := g.Paused(); cfg.Threads == 0 && (slept <= 0 || slept > d) {
			t.Errorf("%s: slept %v of %v", tt.name, slept, d)
		}
		if cfg.Role == plan.Requester {
			h, err := stats.DecodeHistogram(half.Threads[0].Latency)
			must(t, err)
			// Were pauses a part of them, all but the first would be longer.
			if n := int64(bursts * burst); h.TotalCount() != n || h.ValueAtQuantile(30) >= int64(every) {
				t.Errorf("%s: %d latencies, of which few are below %d ns", tt.name, h.TotalCount(), h.ValueAtQuantile(30))
			}
		}
	}
	// A connection test's, too.
	s := streets["listener"](t)
	one, two := standingPairs(t, 1)
	rcfg, ccfg := connections(plan.Responder, 1, 1), connections(plan.Requester, 1, 1)
	rcfg.Acceptor = s.acceptor
	ccfg.Limits, ccfg.Pause = []uint64{bursts * burst}, flow.Pause{Burst: burst, Every: every}
	group(t, rcfg, two...).Start()
	g := s.clients(t, ccfg, one...)
	half := <-measured(t, g, flow.Window{Own: true})
	must(t, g.Finish(half))
	if d := time.Duration(half.ClosedNs - half.OpenedNs); d < (bursts-1)*every || lastOf(half).Transactions[0] != bursts*burst {
		t.Errorf("connections: %d in %v", lastOf(half).Transactions[0], d)
	}
}
