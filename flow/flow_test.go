package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// engines are the ways in which streams can be driven, by the number of threads
// that a Config asks for.
var engines = map[string]int{"blocking": 0, "epoll": 2}

// eachEngine runs f as a parallel sub-test for each engine.
func eachEngine(t *testing.T, f func(t *testing.T, threads int)) {
	t.Helper()
	t.Parallel()
	for name, threads := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, threads)
		})
	}
}

// scale is a count, less of it under the race detector, which makes the loops
// many times slower.
func scale(n int) int {
	if raceEnabled {
		return max(n/20, 1)
	}
	return n
}

// must ends the test if any of the errors isn't nil.
func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// buffers are the sizes of a connection's buffers, set before it's made. 0:
// the kernel's.
type buffers struct{ send, receive int }

// tcpPair returns two connected sockets on loopback, with their time-outs set.
// They belong to the caller.
func tcpPair(t testing.TB, b buffers) (one, two int) {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		if b.send > 0 {
			must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, b.send))
		}
		if b.receive > 0 {
			must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, b.receive))
		}
		return fd
	}
	listener := socket()
	defer unix.Close(listener)
	must(t, unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(listener, 8))
	at, err := unix.Getsockname(listener)
	must(t, err)
	one = socket()
	must(t, unix.Connect(one, at))
	two, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(t, err, flow.SetTimeouts(one), flow.SetTimeouts(two))
	return one, two
}

// unixPair is tcpPair with a pair of local sockets, which have no TCP_INFO.
func unixPair(t testing.TB) (one, two int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err, flow.SetTimeouts(fds[0]), flow.SetTimeouts(fds[1]))
	return fds[0], fds[1]
}

// own closes a descriptor when the test ends.
func own(t testing.TB, fd int) int {
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// group is NewGroup for one socket, closed when the test ends.
func group(t testing.TB, cfg flow.Config, fds ...int) *flow.Group {
	t.Helper()
	var sockets []flow.Socket
	for i, fd := range fds {
		sockets = append(sockets, flow.Socket{Stream: i + 1, FD: fd})
	}
	g, err := flow.NewGroup(cfg, sockets)
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

// A peer is the other end of a stream, driven by the test itself: it makes
// blocking calls and never gives up on EINTR. After patience it fails.
type peer struct {
	t  testing.TB
	fd int
}

const patience = 20 * time.Second

// receive reads into p until it's full, and reports whether it was filled
// before the end of the stream.
func (p peer) receive(into []byte) bool {
	for begun := time.Now(); len(into) > 0; {
		n, errno := sys.Recv(p.fd, into, 0)
		switch {
		case errno == unix.EINTR, errno == unix.EAGAIN:
			if time.Since(begun) > patience {
				p.t.Errorf("nothing came for %v, %d bytes are missing", patience, len(into))
				return false
			}
			continue
		case errno != 0:
			p.t.Errorf("recv: %v", errno)
			return false
		case n == 0:
			return false
		}
		into, begun = into[n:], time.Now()
	}
	return true
}

// send sends all of b.
func (p peer) send(b []byte) bool {
	for begun := time.Now(); len(b) > 0; {
		n, errno := sys.Send(p.fd, b, unix.MSG_NOSIGNAL)
		switch {
		case errno == unix.EINTR, errno == unix.EAGAIN:
			if time.Since(begun) > patience {
				p.t.Errorf("no room for %v, %d bytes are left", patience, len(b))
				return false
			}
			continue
		case errno != 0:
			return false // the group has closed
		}
		b, begun = b[n:], time.Now()
	}
	return true
}

// A match is both ends of a test, joined by links that need no network.
type match struct {
	plan           *plan.Test
	client, server *side
	clientErr      error
	serverErr      error
}

// A side is one end of a match.
type side struct {
	test   *flow.Test
	begun  chan struct{}
	closed map[plan.Direction]chan struct{}
	cut    chan struct{}
	live   func(plan.Direction, result.Sample)
	halves []result.Half
	edges  int
}

// newMatch prepares both ends of a plan over loopback TCP.
func newMatch(t *testing.T, p *plan.Test, b buffers) *match {
	t.Helper()
	return newMatchOn(t, p, func(t testing.TB) (int, int) { return tcpPair(t, b) }, flow.Connections{})
}

// tcpPairs is tcpPair with the kernel's buffers.
func tcpPairs(t testing.TB) (one, two int) { return tcpPair(t, buffers{}) }

// newMatchOn is newMatch with other sockets, and other connections for each end.
func newMatchOn(t *testing.T, p *plan.Test, pair func(testing.TB) (int, int), c flow.Connections) *match {
	t.Helper()
	p.Normalise()
	must(t, p.Validate())
	var one, two []flow.Socket
	for i := range flow.Streams(p) {
		a, b := pair(t)
		// In the order of their coming, which is any.
		one, two = append([]flow.Socket{{Stream: i + 1, FD: a}}, one...), append(two, flow.Socket{Stream: i + 1, FD: b})
	}
	m := &match{plan: p}
	for end, sockets := range map[sockopt.End][]flow.Socket{sockopt.Client: one, sockopt.Server: two} {
		own := flow.Connections{Dialer: c.Dialer}
		if end == sockopt.Server {
			own = flow.Connections{Acceptor: c.Acceptor}
		}
		x, err := flow.NewTest(p, end, sockets, flow.Files{}, own)
		must(t, err)
		t.Cleanup(x.Close)
		s := &side{
			test: x, begun: make(chan struct{}), cut: make(chan struct{}),
			closed: map[plan.Direction]chan struct{}{}, live: func(plan.Direction, result.Sample) {},
		}
		for _, d := range p.Directions() {
			s.closed[d] = make(chan struct{})
		}
		if end == sockopt.Client {
			m.client = s
		} else {
			m.server = s
		}
	}
	return m
}

// link joins a side to the other.
func (s *side) link(other *side) flow.Link {
	return flow.Link{
		Closed:     func(d plan.Direction) error { close(s.closed[d]); return nil },
		PeerClosed: func(d plan.Direction) <-chan struct{} { return other.closed[d] },
		Live:       s.live, Cut: s.cut,
		Silent: func() time.Duration { return 0 },
		Begin:  func() error { close(s.begun); return nil },
		Began:  other.begun,
		Edge:   func() { s.edges++ },
	}
}

// run runs both ends to their ends.
func (m *match) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { m.client.halves, m.clientErr = m.client.test.Run(ctx, m.client.link(m.server)) })
	both.Go(func() { m.server.halves, m.serverErr = m.server.test.Run(ctx, m.server.link(m.client)) })
	both.Wait()
}

// finish completes both ends' halves and checks all that has to hold of every
// test: the halves' shape, and that streams and intervals add up to the totals.
func (m *match) finish(t *testing.T) *result.Run {
	t.Helper()
	must(t, m.client.test.Finish(m.client.halves), m.server.test.Finish(m.server.halves))
	for _, s := range []*side{m.client, m.server} {
		for i := range s.halves {
			if err := s.halves[i].Check(m.plan.Streams); err != nil {
				t.Error(err)
			}
		}
		if s.edges != 2 {
			t.Errorf("the window had %d edges", s.edges)
		}
		if len(s.test.AtStart) != flow.Streams(m.plan) || len(s.test.AtEnd) != flow.Streams(m.plan) {
			t.Errorf("knobs were read of %d and %d sockets", len(s.test.AtStart), len(s.test.AtEnd))
		}
	}
	r := &result.Run{Plan: m.plan}
	must(t, r.Merge(&result.Report{Halves: m.client.halves}, &result.Report{Halves: m.server.halves}, &result.Clock{}))
	for _, d := range m.plan.Directions() {
		addsUp(t, r, d)
	}
	return r
}

// pass runs both ends and fails the test if either does.
func (m *match) pass(t *testing.T) *result.Run {
	t.Helper()
	m.run(t.Context())
	must(t, m.clientErr, m.serverErr)
	return m.finish(t)
}

// addsUp checks that the streams and the intervals of a direction add up to its
// totals, and that the intervals leave no gap.
func addsUp(t *testing.T, r *result.Run, d plan.Direction) {
	t.Helper()
	var sent, received, retrans, done uint64
	for _, s := range r.Streams {
		if s.Direction != d {
			continue
		}
		sender, receiver := s.Client, s.Server
		if d == plan.ServerToClient {
			sender, receiver = receiver, sender
		}
		sent, received = sent+sender.SentBytes, received+receiver.ReceivedBytes
		if sender.RetransSegs != nil {
			retrans += *sender.RetransSegs
		}
		if s.Transactions != nil {
			done += *s.Transactions
		}
	}
	f := r.Summary.Directions.ClientToServer
	if d == plan.ServerToClient {
		f = r.Summary.Directions.ServerToClient
	}
	if sent != *f.SentBytes || received != *f.ReceivedBytes || f.RetransSegs != nil && retrans != *f.RetransSegs {
		t.Errorf("%s: the streams add up to %d sent, %d received, %d retransmitted, the totals are %d, %d, %d",
			d, sent, received, retrans, *f.SentBytes, *f.ReceivedBytes, *f.RetransSegs)
	}
	if d == plan.Both && done != *r.Summary.Transactions {
		t.Errorf("the streams add up to %d transactions, not %d", done, *r.Summary.Transactions)
	}
	var ivBytes, ivSent, ivDone uint64
	end := 0.0
	for _, iv := range r.Intervals {
		if iv.Direction != d {
			continue
		}
		if iv.Start != end || iv.End < iv.Start {
			t.Errorf("%s: an interval from %v to %v after %v", d, iv.Start, iv.End, end)
		}
		end = iv.End
		ivBytes += iv.Bytes
		for _, s := range iv.Streams {
			ivSent += *s.SentBytes
			if s.Transactions != nil {
				ivDone += *s.Transactions
			}
		}
	}
	if r.Plan.Interval == 0 {
		return
	}
	if d == plan.Both {
		received = *r.Summary.Directions.ServerToClient.ReceivedBytes // the requester's
	}
	if ivBytes != received || ivSent != sent || ivDone != done {
		t.Errorf("%s: the intervals add up to %d bytes, %d sent, %d transactions, the totals are %d, %d, %d", d, ivBytes, ivSent, ivDone, received, sent, done)
	}
}

// roleOf is a group's configuration for one role with sizes for all loops.
func roleOf(r plan.Role, threads, size int) flow.Config {
	d := plan.ClientToServer
	if r == plan.Requester || r == plan.Responder {
		d = plan.Both
	}
	return flow.Config{
		Direction: d, Role: r, Threads: threads, SendSize: size, ReceiveSize: size,
		RequestSize: size, ResponseSize: size, Burst: 1,
	}
}

// pattern fills b with bytes from which every position can be told.
func pattern(b []byte) {
	x := uint32(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}

// fdOpen reports whether a descriptor is open.
func fdOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// signal sends SIGURG, which Go's runtime takes for its own, to a thread.
func signal(tid int) error {
	if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != nil {
		return fmt.Errorf("tgkill: %w", err)
	}
	return nil
}

// standing are the test types whose streams are a TCP connection each.
var standing = slices.DeleteFunc(plan.Types(), func(t plan.Type) bool { return t.Carrier() != plan.Connection })
