package server

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/endpoint"
	"gperf/flow"
	"gperf/host"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// native is gperf's own control protocol.
type native struct{ *Server }

func (n native) Match(first []byte) control.Match { return control.MatchFrame(first) }

func (n native) Serve(fd int, peer netip.AddrPort) {
	n.sessions.Go(func() { n.serve(fd, peer) })
}

// data is the data connections of admitted tests.
type data struct{ *Server }

func (d data) Match(first []byte) control.Match { return control.MatchPreamble(first) }

// Serve reads the preamble, which is there already, and gives the connection to
// its test. A connection that proves itself by no token is closed.
func (d data) Serve(fd int, peer netip.AddrPort) {
	var b [control.PreambleSize]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
	p, perr := control.ParsePreamble(b[:max(n, 0)])
	if err := cmp.Or(err, perr); err != nil {
		d.log.Warn("data connection", "peer", peer, "error", err)
		_ = unix.Close(fd)
		return
	}
	d.mu.Lock()
	x := d.tests[p.Token]
	d.mu.Unlock()
	if x == nil || !x.arrive(fd, int(p.Stream)) {
		d.log.Warn("data connection that belongs to no test", "peer", peer)
		_ = unix.Close(fd)
	}
}

// A session is one control connection and the test it asks for.
type session struct {
	*control.Session
	server *Server
	log    *slog.Logger
	local  netip.Addr // the address that the client reached
	peer   netip.AddrPort
	host   func() *result.Host // this machine, as seen from the client

	greeting

	plan     *plan.Test
	token    token
	before   host.Counters // from before the data connections
	running  int           // tests that were running when this one was admitted
	begun    uint64        // number of this test
	port     uint16        // data port
	listener int           // own listener, of connections or datagrams; -1: none
	watched  bool          // the door has it
	meeting  *meeting      // of a UDP test's sockets; nil: none, or over
	queue    *flow.Queue   // of a connection test's connections that come by the common port
	arrivals chan flow.Socket
}

// A greeting is what the hellos have settled: the nonces in hex, the client's
// and the server's, which is empty when the server is open to everyone.
type greeting struct{ theirs, nonce string }

// serve runs one control connection to its end.
func (s *Server) serve(fd int, peer netip.AddrPort) {
	log := s.log.With("peer", peer)
	local, _ := sys.Names(fd)
	c, err := sys.ControlConn(fd)
	if err != nil {
		log.Error("control connection", "error", err)
		return
	}
	defer c.Close()
	conn := control.NewConn(c)
	// It takes a millisecond or two, in which the exchange goes on.
	described := make(chan *result.Host, 1)
	go func() { described <- host.Describe(peer.Addr()) }()
	greeting, err := s.greet(c, conn)
	if err != nil {
		log.Info("client turned away", "error", err)
		return
	}
	x := &session{
		Session: control.NewSession(conn, nil), server: s, log: log,
		local: local.Addr(), peer: peer, port: local.Port(), listener: -1, greeting: greeting,
		host: sync.OnceValue(func() *result.Host { return <-described }),
	}
	defer x.End()
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	go func() { // a lost control connection ends the session wherever it is
		select {
		case <-x.Lost():
			cancel(x.Err())
		case <-ctx.Done():
		}
	}()
	defer x.farewell(c)
	err = x.run(ctx)
	if x.plan != nil && s.cfg.Once {
		defer s.shut()
	}
	if err == nil {
		return
	}
	log.Info("session ended", "error", err)
	var told *control.Error
	if !errors.As(err, &told) {
		told = &control.Error{Kind: "peer", Message: err.Error(), End: sockopt.Server.String()}
		if errors.Is(err, flow.ErrPayload) {
			told.Kind = "data"
		}
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_ = x.Send(control.TypeError, told)
}

// farewell lets the client have the last word that was sent to it: closing a
// connection on which something has come in unread would reset it, and take the
// word back. The client closes when it has it.
func (x *session) farewell(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	x.End()
	select {
	case <-x.Lost():
	case <-time.After(farewellWait):
	}
}

// farewellWait bounds the wait for a client to close.
const farewellWait = 2 * time.Second

// greet exchanges hellos.
func (s *Server) greet(c net.Conn, conn *control.Conn) (g greeting, err error) {
	_ = c.SetDeadline(time.Now().Add(s.cfg.Limits.Patience))
	defer c.SetDeadline(time.Time{})
	t, body, err := conn.Receive()
	if err != nil {
		return g, err
	}
	var hello control.Hello
	if t != control.TypeHello {
		return g, fmt.Errorf("began with %q, not hello", t)
	}
	if err := control.Unmarshal(t, body, &hello); err != nil {
		return g, err
	}
	g.theirs = hello.Nonce
	if s.cfg.Secret != nil {
		g.nonce = control.NewNonce()
	}
	// The client hears our version even if theirs is not acceptable: it then
	// says the same.
	err = conn.Send(control.TypeHello, control.Hello{
		Magic: control.Magic, Version: control.Current, Program: s.cfg.Program, Nonce: g.nonce,
	})
	return g, cmp.Or(control.CheckHello(&hello), err)
}

// refusal is an error that the client is told in these words.
func refusal(kind string, err error) error {
	return &control.Error{Kind: kind, Message: err.Error(), End: sockopt.Server.String()}
}

// run takes the session from the plan to the report.
func (x *session) run(ctx context.Context) error {
	if err := x.admit(ctx); err != nil {
		return err
	}
	defer x.leave()
	defer x.part()
	sockets, readings, err := x.connect(ctx)
	if err != nil {
		return err
	}
	end := &endpoint.Endpoint{
		Plan: x.plan, End: sockopt.Server, Host: x.host(), Streams: readings, Before: x.before, OtherTests: x.others,
	}
	if end.Connections.Acceptor, err = x.acceptor(); err != nil {
		closeAll(sockets)
		return refusal("internal", err)
	}
	if err := end.Prepare(sockets); err != nil {
		return refusal("plan", fmt.Errorf("server: %w", err))
	}
	defer end.Close()
	audit := end.Audit()
	if err := sockopt.Refused(audit, x.plan.AllowClamp); err != nil {
		return refusal("plan", err)
	}
	if err := x.SendAudit(audit); err != nil {
		return err
	}
	if err := x.await(ctx, control.TypeStart); err != nil {
		return err
	}
	x.part()
	return x.measure(ctx, end)
}

// measure runs the test and reports.
func (x *session) measure(ctx context.Context, end *endpoint.Endpoint) error {
	if x.plan.Limited() {
		// A test that ends by a count has no duration to bound it.
		limit := x.server.cfg.Limits.Duration
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("longer than this server's limit of %v", limit))
		defer cancel()
	}
	report, err := end.Run(ctx, flow.Link{
		Begin: func() error { return x.Send(control.TypeStarted, nil) },
		Began: begun,
		Closed: func(d plan.Direction) error {
			if err := x.Flush(); err != nil { // nobody waits for samples after it
				return err
			}
			return x.Send(control.TypeClosed, control.Closed{Direction: d})
		},
		Live: func(d plan.Direction, s result.Sample) {
			if !x.plan.LiveStreams {
				s = s.Totals()
			}
			x.Live(control.Sample{Direction: d, Sample: s})
		},
		PeerClosed: x.PeerClosed, Cut: x.Stop(), Silent: x.Silent,
	}, func(ctx context.Context) error { return x.await(ctx, control.TypeFinish) })
	if err != nil {
		return err
	}
	x.leave() // before the client can ask for its next test
	return x.SendReport(report)
}

// begun is closed: a client that has sent start has begun.
var begun = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// await awaits a message without a body that the client owes.
func (x *session) await(ctx context.Context, t control.Type) error {
	return x.within(ctx, func(ctx context.Context) error { return x.Expect(ctx, t, nil) })
}

// within bounds one step of the exchange by the server's patience.
func (x *session) within(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, x.server.cfg.Limits.Patience,
		fmt.Errorf("the client said nothing for %v", x.server.cfg.Limits.Patience))
	defer cancel()
	return step(ctx)
}

func (x *session) options() sockopt.Options { return endpoint.Options(x.plan) }

// admit awaits the plan and answers it: with a port and a token, or with why not.
func (x *session) admit(ctx context.Context) error {
	var m control.Message
	for {
		var err error
		if err = x.within(ctx, func(ctx context.Context) error { m, err = x.Next(ctx); return err }); err != nil {
			return err
		}
		if m.Type != control.TypePing {
			break
		}
		if err := x.Send(control.TypePong, control.Pong{MonotonicNs: sys.Monotonic()}); err != nil {
			return err
		}
	}
	if m.Type != control.TypePlan {
		return fmt.Errorf("control: expected plan, got %q", m.Type)
	}
	var msg control.Plan
	if err := control.Unmarshal(m.Type, m.Body, &msg); err != nil {
		return err
	}
	secret := x.server.cfg.Secret
	if secret != nil && !control.Authentic(secret, x.nonce, msg.Plan, msg.MAC) {
		if msg.MAC == "" {
			return refusal("auth", errors.New("this server wants a secret (--secret-file)"))
		}
		return refusal("auth", errors.New("the secrets of client and server differ"))
	}
	t, err := plan.Parse(msg.Plan)
	if err != nil {
		return refusal("plan", err)
	}
	if err := x.server.cfg.Limits.check(t); err != nil {
		return refusal("plan", err)
	}
	x.plan = t
	if err := x.prepare(); err != nil {
		x.leave()
		x.plan = nil
		return refusal("plan", err)
	}
	ready := control.Ready{Port: int(x.port), Token: hex.EncodeToString(x.token[:]), Host: x.host(), Greeted: x.queue != nil}
	if secret != nil {
		ready.MAC = control.Authenticate(secret, x.theirs, x.token[:])
	}
	x.server.expected.Add(int64(flow.Streams(t)))
	if err := x.Send(control.TypeReady, ready); err != nil {
		x.server.expected.Add(int64(-flow.Streams(t)))
		x.leave()
		return err
	}
	return nil
}

// check reports which limit a plan exceeds.
func (l *Limits) check(t *plan.Test) error {
	streams := flow.Streams(t)
	buffers := int64(streams) * int64(t.Server.SendSize+t.Server.ReceiveSize+t.RequestSize+t.ResponseSize)
	switch span := time.Duration(t.Duration + t.Warmup); {
	case streams > l.Streams:
		return fmt.Errorf("%d streams are more than this server's limit of %d", streams, l.Streams)
	case span > l.Duration:
		return fmt.Errorf("%v is longer than this server's limit of %v", span, l.Duration)
	case buffers > l.Memory:
		return fmt.Errorf("%d bytes of buffers are more than this server's limit of %d", buffers, l.Memory)
	}
	return nil
}

// prepare makes ready for the data connections: it tries the knobs, opens a
// listener of the test's own if they need one, and registers the token.
func (x *session) prepare() error {
	knobs := x.plan.Server.Knobs
	if err := endpoint.Check(x.plan, sockopt.Server, sys.Family(x.local)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	x.before, _ = host.ReadCounters("") // a failed reading compares as unknown
	x.token = randomToken()
	x.arrivals = make(chan flow.Socket, flow.Streams(x.plan))
	switch carrier, ports := x.plan.Type.Carrier(), x.server.cfg.DataPorts; {
	case carrier == plan.Datagrams:
		fd, err := listenDatagrams(x.local, ports)
		if err != nil {
			return err
		}
		local, _ := sys.Names(fd)
		x.listener, x.port = fd, local.Port()
	case knobs.NeedsListener(), carrier == plan.Connections && ports != PortRange{}:
		fd, err := listenData(x.local, ports, knobs, x.options())
		if err != nil {
			return err
		}
		local, _ := sys.Names(fd)
		x.listener, x.port, x.watched = fd, local.Port(), true
		if err := x.server.door.open(fd); err != nil {
			return err
		}
	case carrier == plan.Connections:
		var err error
		if x.queue, err = flow.NewQueue(x.preparer()); err != nil {
			return err
		}
	}
	var err error
	x.begun, x.running, err = x.server.admit(x.token, x)
	return err
}

// others is how many other tests the server has run at some time of this one.
func (x *session) others() int { return x.server.others(x.begun, x.running) }

// leave takes the session's test off the server: no data connection can arrive
// after it.
func (x *session) leave() {
	x.server.dismiss(x.token)
	if x.queue != nil {
		x.queue.Close()
		x.queue = nil
	}
	if x.listener >= 0 {
		if x.watched {
			x.server.door.shut(x.listener)
		} else {
			_ = unix.Close(x.listener)
		}
		x.listener = -1
	}
	for {
		select {
		case s := <-x.arrivals:
			_ = unix.Close(s.FD)
		default:
			return
		}
	}
}

// arrive takes a data connection; false: it doesn't belong here. It may not
// come by another port than the test's, whose listener has the test's knobs.
func (x *session) arrive(fd, stream int) bool {
	if local, _ := sys.Names(fd); local.Port() != x.port {
		return false
	}
	x.server.mu.Lock() // leave must not miss it
	defer x.server.mu.Unlock()
	if x.server.tests[x.token] != x {
		return false
	}
	if stream == 0 && x.queue != nil {
		return x.queue.Put(fd)
	}
	select {
	case x.arrivals <- flow.Socket{Stream: stream, FD: fd}:
		return true
	default:
		return false // more connections than streams
	}
}

// connect awaits the data connections, sets their knobs and reads them back.
func (x *session) connect(ctx context.Context) (sockets []flow.Socket, readings []sockopt.StreamReadings, err error) {
	defer func() {
		if err != nil {
			closeAll(sockets)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout,
		fmt.Errorf("not all data connections came within %v", setupTimeout))
	defer cancel()
	want := flow.Streams(x.plan)
	if x.plan.Type.Carrier() == plan.Datagrams {
		if err := x.meet(); err != nil {
			return nil, nil, refusal("internal", err)
		}
	}
	defer x.server.expected.Add(int64(-want))
	seen := make([]bool, want+1)
	knobs := x.plan.Server.Knobs
	var listener sockopt.Readings
	if x.watched {
		listener = knobs.ReadListener(x.listener)
	}
	for len(sockets) < want {
		var s flow.Socket
		select {
		case s = <-x.arrivals:
		case <-ctx.Done():
			return sockets, nil, context.Cause(ctx)
		}
		sockets = append(sockets, s)
		if s.Stream < 1 || s.Stream > want || seen[s.Stream] {
			return sockets, nil, refusal("protocol", fmt.Errorf("stream number %d is out of range or there twice", s.Stream))
		}
		seen[s.Stream] = true
		for _, moment := range moments {
			if err := knobs.Apply(s.FD, sockopt.Server, moment, x.options()); err != nil {
				return sockets, nil, refusal("plan", fmt.Errorf("server: stream %d: %w", s.Stream, err))
			}
		}
		if err := flow.SetTimeouts(s.FD); err != nil {
			return sockets, nil, fmt.Errorf("stream %d: %w", s.Stream, err)
		}
		readings = append(readings, sockopt.StreamReadings{
			Stream: s.Stream, Listener: listener, Effective: knobs.Read(s.FD, sockopt.Server),
		})
	}
	slices.SortFunc(readings, func(a, b sockopt.StreamReadings) int { return cmp.Compare(a.Stream, b.Stream) })
	return sockets, readings, nil
}

// moments are those at which an accepted socket's knobs are set.
var moments = []sockopt.Moment{sockopt.AfterAccept, sockopt.AfterPreamble}

// preparer sets the knobs of a connection test's accepted sockets; nil: there are
// none.
func (x *session) preparer() func(fd int) error {
	knobs, o := x.plan.Server.Knobs, x.options()
	if len(knobs) == 0 {
		return nil
	}
	return func(fd int) error {
		for _, moment := range moments {
			if err := knobs.Apply(fd, sockopt.Server, moment, o); err != nil {
				return err
			}
		}
		return nil
	}
}

// acceptor is where a connection test's connections come from, nil for others:
// from the test's own listener, once its standing connections have come, or from
// the door.
func (x *session) acceptor() (flow.Acceptor, error) {
	switch {
	case x.plan.Type.Carrier() != plan.Connections:
		return nil, nil
	case x.queue != nil:
		return x.queue, nil
	}
	x.server.door.release(x.listener)
	x.watched = false
	peer := x.peer.Addr().WithZone("")
	return flow.NewListener(x.listener, func(a netip.Addr) bool { return a == peer }, x.preparer())
}

func closeAll(sockets []flow.Socket) {
	for _, s := range sockets {
		_ = unix.Close(s.FD)
	}
}

// setupTimeout bounds the set-up of the data connections. The client's own,
// --connect-timeout, is normally the shorter.
const setupTimeout = 60 * time.Second
