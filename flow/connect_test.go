package flow_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/stats"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// only allows one address.
func only(a netip.Addr) func(netip.Addr) bool {
	return func(peer netip.Addr) bool { return peer == a }
}

// listen returns a listening socket on loopback, the test's, and its address.
func listen(t testing.TB, backlog int) (int, netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	own(t, fd)
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, backlog))
	at, _ := sys.Names(fd)
	return fd, at
}

// A street is what connections come by: an acceptor, and what a client says
// before each request.
type street struct {
	to       netip.AddrPort
	acceptor flow.Acceptor
	greeting []byte
}

// streets are the kinds of acceptors.
var streets = map[string]func(t testing.TB) street{
	"listener": func(t testing.TB) street {
		fd, at := listen(t, 512)
		l, err := flow.NewListener(fd, only(loopback), nil)
		must(t, err)
		return street{to: at, acceptor: l}
	},
	"queue": func(t testing.TB) street {
		greeting := []byte("the greeting")
		fd, at := listen(t, 512)
		q, err := flow.NewQueue(nil)
		must(t, err)
		var porter sync.WaitGroup
		porter.Go(func() { // who takes the greeting off and hands the connection on
			for {
				c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
				if err != nil {
					return
				}
				b := make([]byte, len(greeting))
				if n, _, err := unix.Recvfrom(c, b, unix.MSG_WAITALL); n != len(b) || err != nil || !q.Put(c) {
					_ = unix.Close(c)
				}
			}
		})
		t.Cleanup(func() { // after the groups, which were made later
			_ = unix.Shutdown(fd, unix.SHUT_RDWR)
			porter.Wait()
			q.Close()
		})
		return street{at, q, greeting}
	},
}

// eachStreet runs f as a parallel sub-test for each kind of acceptor.
func eachStreet(t *testing.T, f func(t *testing.T, s street)) {
	t.Helper()
	t.Parallel()
	for name, build := range streets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, build(t))
		})
	}
}

// standingPairs are n connections that carry nothing.
func standingPairs(t testing.TB, n int) (one, two []int) {
	for range n {
		a, b := tcpPair(t, buffers{})
		one, two = append(one, a), append(two, b)
	}
	return one, two
}

// connections is a group's configuration for an end of a connection test.
func connections(r plan.Role, request, response int) flow.Config {
	return flow.Config{
		Direction: plan.Both, Role: r, Carrier: plan.Connections, Burst: 1, RequestSize: request, ResponseSize: response,
	}
}

// clients is a requester's group that connects by s.
func (s street) clients(t testing.TB, cfg flow.Config, fds ...int) *flow.Group {
	t.Helper()
	cfg.Dialer = &flow.Dialer{To: s.to, Greeting: s.greeting}
	return group(t, cfg, fds...)
}

// lastOf is a finished group's closing sample.
func lastOf(h *result.Half) *result.Sample { return &h.Series[len(h.Series)-1] }

func count(t testing.TB, histogram string) int64 {
	t.Helper()
	h, err := stats.DecodeHistogram(histogram)
	must(t, err)
	return h.TotalCount()
}

// Every transaction has a connection of its own, and both ends count the same:
// also when a message is larger than any buffer, and when there is none.
func TestConnections(t *testing.T) {
	eachStreet(t, func(t *testing.T, s street) {
		const streams = 3
		for _, size := range []struct{ request, response, n int }{
			{0, 0, 40}, {1, 1, 40}, {100, 1 << 20, 5}, {300_007, 3, 5}, {1, 0, 10}, {0, 1, 10},
		} {
			one, two := standingPairs(t, streams)
			rcfg := connections(plan.Responder, size.request, size.response)
			rcfg.Acceptor = keepOpen{s.acceptor} // for the next size
			responder := group(t, rcfg, two...)
			responder.Start()
			ccfg := connections(plan.Requester, size.request, size.response)
			for i := range streams {
				ccfg.Limits = append(ccfg.Limits, uint64(size.n+i))
			}
			requester := s.clients(t, ccfg, one...)
			half := <-measured(t, requester, flow.Window{})
			must(t, requester.Finish(half))
			want := []uint64{uint64(size.n), uint64(size.n + 1), uint64(size.n + 2)}
			last := lastOf(half)
			if diff := cmp.Diff(want, last.Transactions); diff != "" {
				t.Errorf("%+v: transactions (-want +got):\n%s", size, diff)
			}
			for i, n := range want {
				if sent := n * uint64(size.request+len(s.greeting)); last.Sent[i] != sent || last.Received[i] != n*uint64(size.response) {
					t.Errorf("%+v: stream %d sent %d bytes, not %d, and received %d", size, i+1, last.Sent[i], sent, last.Received[i])
				}
				if th := half.Threads[i]; count(t, th.Latency) != int64(n) || count(t, th.Connects) != int64(n) {
					t.Errorf("%+v: stream %d has %d latencies, %d connects", size, i+1, count(t, th.Latency), count(t, th.Connects))
				}
				if e := half.Streams[i].ConnectErrors; len(e) != 0 || last.TCP[result.ConnectErrors][i] != 0 {
					t.Errorf("%+v: stream %d failed: %v", size, i+1, e)
				}
			}
			responder.Close()
			if n := total(responder.Sample().Transactions); n != total(want) {
				t.Errorf("%+v: the responders answered %d of %d", size, n, total(want))
			}
		}
	})
}

// keepOpen is an acceptor that its group can't stop for good.
type keepOpen struct{ flow.Acceptor }

func (keepOpen) Stop() {}

// A timed test counts what is done inside its window.
func TestConnectionsByTime(t *testing.T) {
	eachStreet(t, func(t *testing.T, s street) {
		one, two := standingPairs(t, 2)
		rcfg := connections(plan.Responder, 1, 1)
		rcfg.Acceptor = s.acceptor
		responder := group(t, rcfg, two...)
		responder.Start()
		requester := s.clients(t, connections(plan.Requester, 1, 1), one...)
		const length = 200 * time.Millisecond
		half := <-measured(t, requester, flow.Window{Warmup: 50 * time.Millisecond, Duration: length, Interval: 20 * time.Millisecond})
		must(t, requester.Finish(half), half.Check(2))
		if d := half.ClosedNs - half.OpenedNs; d != int64(length) {
			t.Errorf("open for %d ns", d)
		}
		last := lastOf(half)
		for i := range 2 {
			n := int64(last.Transactions[i])
			if n == 0 || count(t, half.Threads[i].Latency) != n || count(t, half.Threads[i].Connects) != n {
				t.Errorf("stream %d: %d transactions, %d latencies", i+1, n, count(t, half.Threads[i].Latency))
			}
		}
		responder.Close()
		if n := total(responder.Sample().Transactions); n <= total(last.Transactions) {
			t.Errorf("%d answers: nothing happened in the warm-up", n)
		}
	})
}

// A server that breaks connections is counted by what was met, and the test
// goes on.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	reset := func(fd int) {
		must(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}), unix.Close(fd))
	}
	request := func(fd int) { peer{t, fd}.receive(make([]byte, 100)) }
	respond := func(fd, n int) {
		request(fd)
		peer{t, fd}.send(make([]byte, n))
		must(t, unix.Close(fd))
	}
	for _, tt := range []struct {
		name  string
		serve func(fd int)
		want  string
	}{
		{"no response", func(fd int) { respond(fd, 0) }, "recv: ECONNRESET"},
		{"half a response", func(fd int) { respond(fd, 50) }, "recv: ECONNRESET"},
		{"a byte too many", func(fd int) { respond(fd, 101) }, "recv: ECONNRESET"},
		{"reset after the request", func(fd int) { request(fd); reset(fd) }, "recv: ECONNRESET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const bad, good = 5, 10
			fd, at := listen(t, 16)
			one, two := standingPairs(t, 1)
			own(t, two[0])
			cfg := connections(plan.Requester, 100, 100)
			cfg.Limits = []uint64{good}
			g := street{to: at}.clients(t, cfg, one...)
			done := measured(t, g, flow.Window{})
			for i := range bad + good {
				c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
				must(t, err)
				if i < bad {
					tt.serve(c)
				} else {
					respond(c, 100)
				}
			}
			half := <-done
			must(t, g.Finish(half))
			if n := lastOf(half).Transactions[0]; n != good {
				t.Errorf("%d transactions, not %d", n, good)
			}
			if diff := cmp.Diff(map[string]uint64{tt.want: bad}, half.Streams[0].ConnectErrors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if n := lastOf(half).TCP[result.ConnectErrors][0]; n != bad {
				t.Errorf("%d errors in the sample", n)
			}
		})
	}
}

// What keeps connections from being made is counted by name, and trying is no
// busy loop.
func TestConnectErrors(t *testing.T) {
	t.Parallel()
	closedPort := func(t *testing.T) *flow.Dialer {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		own(t, fd)
		must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})) // so that nobody else gets it
		at, _ := sys.Names(fd)
		return &flow.Dialer{To: at}
	}
	for _, tt := range []struct {
		name   string
		dialer func(t *testing.T) *flow.Dialer
		want   []string
	}{
		{"closed port", closedPort, []string{"connect: ECONNREFUSED"}},
		{"foreign address", func(t *testing.T) *flow.Dialer {
			d := closedPort(t)
			d.Bind = netip.MustParseAddr("192.0.2.77")
			return d
		}, []string{"bind: EADDRNOTAVAIL"}},
		{"taken ports", func(t *testing.T) *flow.Dialer {
			d := closedPort(t)
			// A listener's port is nobody else's, also with SO_REUSEADDR.
			fd, at := listen(t, 1)
			must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0))
			d.Ports, d.Bind = [2]int{int(at.Port()), int(at.Port())}, loopback
			return d
		}, []string{"bind: EADDRINUSE"}},
		{"no such protocol", func(t *testing.T) *flow.Dialer {
			d := closedPort(t)
			d.Protocol = 255
			return d
		}, []string{"socket: EPROTONOSUPPORT"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			one, two := standingPairs(t, 1)
			own(t, two[0])
			cfg := connections(plan.Requester, 1, 1)
			cfg.Dialer = tt.dialer(t)
			g := group(t, cfg, one...)
			const length = 300 * time.Millisecond
			half := <-measured(t, g, flow.Window{Duration: length})
			must(t, g.Finish(half))
			errs := half.Streams[0].ConnectErrors
			if got := slices.Sorted(maps.Keys(errs)); !slices.Equal(got, tt.want) {
				t.Fatalf("errors %v, want %v", errs, tt.want)
			}
			// A millisecond each, at the least.
			if n := errs[tt.want[0]]; n == 0 || n > uint64(length/time.Millisecond) || n != lastOf(half).TCP[result.ConnectErrors][0] {
				t.Errorf("%d errors in %v, %d in the sample", n, length, lastOf(half).TCP[result.ConnectErrors][0])
			}
			if n := lastOf(half).Transactions[0]; n != 0 || half.Streams[0].Error != "" {
				t.Errorf("%d transactions, error %q", n, half.Streams[0].Error)
			}
		})
	}
}

// Local ports of a range are used in turn, one connection each; once all are in
// TIME_WAIT, where the client was the first to close, it's told by name.
func TestPortRange(t *testing.T) {
	t.Parallel()
	fd, at := listen(t, 64)
	const first, n = 21_000, 4
	var ports []int
	var seen sync.Mutex
	var server sync.WaitGroup
	server.Go(func() {
		for {
			c, sa, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
			if err != nil {
				return
			}
			seen.Lock()
			ports = append(ports, sa.(*unix.SockaddrInet4).Port)
			seen.Unlock()
			peer{t, c}.receive(make([]byte, 1))
			peer{t, c}.send(make([]byte, 2)) // one too many: the client closes first
			_, _ = unix.Read(c, make([]byte, 1))
			_ = unix.Close(c)
		}
	})
	one, two := standingPairs(t, 1)
	own(t, two[0])
	cfg := connections(plan.Requester, 1, 1)
	cfg.Dialer = &flow.Dialer{To: at, Bind: netip.MustParseAddr("127.0.0.3"), Ports: [2]int{first, first + n - 1}}
	g := group(t, cfg, one...)
	half := <-measured(t, g, flow.Window{Duration: 200 * time.Millisecond})
	must(t, g.Finish(half), unix.Shutdown(fd, unix.SHUT_RDWR))
	server.Wait()
	if len(ports) < n || !slices.Equal(ports[:n], []int{first, first + 1, first + 2, first + 3}) {
		t.Errorf("ports %v", ports)
	}
	errs := half.Streams[0].ConnectErrors
	for name := range errs {
		if name != "recv: ECONNRESET" && !strings.Contains(name, "EADDRNOTAVAIL") && !strings.Contains(name, "EADDRINUSE") {
			t.Errorf("errors %v", errs)
		}
	}
}

// A group that is closed ends soon, whatever its peer does or doesn't.
func TestStopConnections(t *testing.T) {
	t.Parallel()
	const soon = 10 * flow.Timeout // on a busy machine
	for _, tt := range []struct {
		name  string
		group func(t *testing.T, fd int) *flow.Group
	}{
		{"requester awaits a response", func(t *testing.T, fd int) *flow.Group {
			_, at := listen(t, 16) // whose kernel accepts, and nobody else
			return street{to: at}.clients(t, connections(plan.Requester, 1, 1), fd)
		}},
		{"requester can't send", func(t *testing.T, fd int) *flow.Group {
			_, at := listen(t, 16)
			return street{to: at}.clients(t, connections(plan.Requester, 64<<20, 1), fd)
		}},
		{"requester can't connect", func(t *testing.T, fd int) *flow.Group {
			listener, at := listen(t, 0)
			for range 3 { // fill the queue: SYNs get no answer then
				c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				must(t, err)
				own(t, c)
				sa, err := unix.Getsockname(listener)
				must(t, err)
				_ = unix.Connect(c, sa)
			}
			return street{to: at}.clients(t, connections(plan.Requester, 1, 1), fd)
		}},
		{"listener without clients", func(t *testing.T, fd int) *flow.Group {
			listener, _ := listen(t, 16)
			l, err := flow.NewListener(listener, nil, nil)
			must(t, err)
			cfg := connections(plan.Responder, 1, 1)
			cfg.Acceptor = l
			return group(t, cfg, fd)
		}},
		{"queue without clients", func(t *testing.T, fd int) *flow.Group {
			cfg := connections(plan.Responder, 1, 1)
			q, err := flow.NewQueue(nil)
			must(t, err)
			t.Cleanup(q.Close)
			cfg.Acceptor = q
			return group(t, cfg, fd)
		}},
		{"responder awaits a request", func(t *testing.T, fd int) *flow.Group {
			cfg := connections(plan.Responder, 1, 1)
			q, err := flow.NewQueue(nil)
			must(t, err)
			t.Cleanup(q.Close)
			a, b := tcpPair(t, buffers{})
			own(t, a)
			if !q.Put(b) {
				t.Error("no room in an empty queue")
			}
			cfg.Acceptor = q
			return group(t, cfg, fd)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			one, two := standingPairs(t, 1)
			own(t, two[0])
			g := tt.group(t, one[0])
			g.Start()
			select { // it doesn't end by itself, as far as can be seen
			case <-g.Ended():
				t.Error("the group has ended")
			case <-time.After(20 * time.Millisecond):
			}
			begun := time.Now()
			g.Close()
			if took := time.Since(begun); took > soon {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// What can't be set on a connection's socket ends the test.
func TestDialerPrepares(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"Prepare", "Connected"} {
		s := streets["listener"](t)
		one, two := standingPairs(t, 2)
		cfg := connections(plan.Responder, 1, 1)
		cfg.Acceptor = s.acceptor
		group(t, cfg, two[0]).Start()
		own(t, two[1])
		calls := 0
		f := func(fd int) error {
			if !fdOpen(fd) {
				return fmt.Errorf("no descriptor")
			}
			if calls++; calls > 3 {
				return fmt.Errorf("no such option")
			}
			return nil
		}
		ccfg := connections(plan.Requester, 1, 1)
		ccfg.Dialer = &flow.Dialer{To: s.to}
		if when == "Prepare" {
			ccfg.Dialer.Prepare = f
		} else {
			ccfg.Dialer.Connected = f
		}
		g := group(t, ccfg, one[0])
		half, err := failing(t, g, flow.Window{Duration: time.Hour})()
		if err == nil || err.Error() != "stream 1: no such option" {
			t.Errorf("%s: %v", when, err)
		}
		must(t, g.Finish(half))
		if n := lastOf(half).Transactions[0]; n != 3 || len(half.Streams[0].ConnectErrors) != 0 {
			t.Errorf("%s: %d transactions, errors %v", when, n, half.Streams[0].ConnectErrors)
		}
		own(t, one[1])
	}
}

// A listener takes connections from the addresses it's told only, and sets them up.
func TestListener(t *testing.T) {
	t.Parallel()
	fd, at := listen(t, 16)
	prepared := 0
	l, err := flow.NewListener(fd, only(netip.MustParseAddr("127.0.0.2")), func(int) error {
		if prepared++; prepared == 1 {
			return unix.EINVAL
		}
		return nil
	})
	must(t, err)
	connect := func(from string) int {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		own(t, c)
		sa, err := sys.Sockaddr(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
		must(t, err, unix.Bind(c, sa))
		to, err := sys.Sockaddr(at)
		must(t, err, unix.Connect(c, to))
		return c
	}
	foreign, unprepared := connect("127.0.0.1"), connect("127.0.0.2")
	connect("127.0.0.2")
	got, errno := l.Accept()
	for errno == unix.EINTR { // the runtime's signal, which threads of their own don't get
		got, errno = l.Accept()
	}
	if errno != 0 {
		t.Fatal(errno)
	}
	own(t, got)
	if _, peer := sys.Names(got); peer.Addr() != netip.MustParseAddr("127.0.0.2") || prepared != 2 {
		t.Errorf("a connection from %v after %d preparations", peer, prepared)
	}
	if tv, err := unix.GetsockoptTimeval(got, unix.SOL_SOCKET, unix.SO_RCVTIMEO); err != nil || tv.Nano() != int64(flow.Timeout) {
		t.Errorf("its time-out is %v, %v", tv, err)
	}
	for name, c := range map[string]int{"a foreign": foreign, "an unprepared": unprepared} {
		must(t, flow.SetTimeouts(c))
		if (peer{t, c}).receive(make([]byte, 1)) {
			t.Errorf("%s connection got an answer", name)
		}
	}
	if _, errno := l.Accept(); errno != unix.EAGAIN && errno != unix.EINTR {
		t.Errorf("with nobody there: %v", errno)
	}
	l.Stop()
	l.Stop()
	if _, errno := l.Accept(); errno == 0 || errno == unix.EAGAIN {
		t.Errorf("after Stop: %v", errno)
	}
}

// A queue refuses what it has no room for, and closes what nobody took.
func TestQueue(t *testing.T) {
	t.Parallel()
	q, err := flow.NewQueue(func(fd int) error {
		if v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || v != unix.SOCK_STREAM {
			return fmt.Errorf("type %d: %w", v, err)
		}
		return nil
	})
	must(t, err)
	if _, errno := q.Accept(); errno != unix.EAGAIN {
		t.Errorf("an empty one: %v", errno)
	}
	one, two := tcpPair(t, buffers{})
	own(t, two)
	if !q.Put(one) {
		t.Fatal("no room in an empty queue")
	}
	if fd, errno := q.Accept(); fd != one || errno != 0 {
		t.Errorf("descriptor %d, %v, not %d", fd, errno, one)
	}
	// One that can't be prepared is closed.
	unprepared, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	if !q.Put(unprepared) {
		t.Fatal("no room")
	}
	if _, errno := q.Accept(); errno != unix.EAGAIN {
		t.Errorf("an unprepared one: %v", errno)
	}
	n := 0
	for q.Put(one) {
		if n++; n > 1<<20 {
			t.Fatal("its room has no end")
		}
	}
	if n < 64 {
		t.Errorf("room for %d only", n)
	}
	for range n - 1 {
		if _, errno := q.Accept(); errno != 0 {
			t.Fatal(errno)
		}
	}
	q.Close() // and with it the one that is left
	if (peer{t, two}).receive(make([]byte, 1)) {
		t.Error("the connection that was left is open")
	}
}

// The whole of both ends, through Test.
func TestConnectionPlans(t *testing.T) {
	eachStreet(t, func(t *testing.T, s street) {
		for _, typ := range []plan.Type{plan.TCPCRR, plan.TCPCC} {
			for _, p := range []*plan.Test{
				{Type: typ, Transactions: 41, Streams: 3, Interval: plan.Seconds(10 * time.Millisecond)},
				{Type: typ, Duration: plan.Seconds(100 * time.Millisecond), Warmup: plan.Seconds(30 * time.Millisecond), Streams: 2, Interval: plan.Seconds(10 * time.Millisecond)},
			} {
				m := newMatchOn(t, p, tcpPairs, flow.Connections{
					Dialer: &flow.Dialer{To: s.to, Greeting: s.greeting}, Acceptor: keepOpen{s.acceptor},
				})
				r := m.pass(t)
				n := *r.Summary.Transactions
				if n == 0 || p.Transactions != 0 && n != 41 || r.Summary.Latency.Count != int64(n) || r.Summary.Connect.Count != int64(n) {
					t.Errorf("%s: %d transactions, latency %+v, connects %+v", typ, n, r.Summary.Latency, r.Summary.Connect)
				}
				if r.Summary.ConnectErrors == nil || len(r.Summary.ConnectErrors) != 0 || r.Summary.LostTransactions != nil || r.Summary.Datagrams != nil {
					t.Errorf("%s: %+v", typ, r.Summary)
				}
				if r.Summary.Connect.Max > r.Summary.Latency.Max {
					t.Errorf("%s: a connect took %v us, the slowest transaction %v", typ, r.Summary.Connect.Max, r.Summary.Latency.Max)
				}
				for _, c := range r.Trust.Reasons {
					if strings.Contains(c, "moved nothing") || strings.Contains(c, "nothing moved in 0") {
						t.Errorf("%s: %s", typ, c)
					}
				}
			}
		}
	})
}

// A context that ends, ends a connection test and leaves no descriptor.
func TestCancelConnections(t *testing.T) {
	s := streets["listener"](t)
	before := openFDs(t)
	p := &plan.Test{Type: plan.TCPCRR, Duration: plan.Seconds(time.Hour), Streams: 2, Interval: plan.Seconds(10 * time.Millisecond)}
	m := newMatchOn(t, p, tcpPairs, flow.Connections{Dialer: &flow.Dialer{To: s.to}, Acceptor: s.acceptor})
	ctx, cancel := context.WithCancel(t.Context())
	m.client.live = func(_ plan.Direction, sample result.Sample) {
		if total(sample.Transactions) > 10 {
			cancel()
		}
	}
	m.run(ctx)
	if m.clientErr == nil || m.serverErr == nil {
		t.Errorf("%v and %v", m.clientErr, m.serverErr)
	}
	m.finish(t)
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
