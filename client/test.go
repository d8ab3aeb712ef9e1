package client

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
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

// A test is one run under way.
type test struct {
	cfg    Config
	run    *result.Run
	remote netip.AddrPort // of the control connection

	session  *control.Session
	describe func() // waits for the description of this machine
	nonce    string // the server's; empty: it wants no secret
	ours     string // our nonce
	clock    result.Clock

	own    *result.Report // what this end measured, once it has
	theirs result.Report

	mu   sync.Mutex // guards what samples bring
	peer map[plan.Direction][]result.Sample
	// peerStep is how many ticks lie between two samples that are kept.
	peerStep map[plan.Direction]int
	mergers  map[plan.Direction]*result.Merger
}

// target is the server as messages name it.
func (x *test) target() string {
	if x.remote.IsValid() {
		return x.remote.String()
	}
	return net.JoinHostPort(x.cfg.Host, strconv.Itoa(x.cfg.Port))
}

func (x *test) options() sockopt.Options { return endpoint.Options(x.cfg.Plan) }

// do runs the test from the first connection to the server's report.
func (x *test) do(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	measuring := make(chan struct{})
	go x.interrupt(ctx, cancel, measuring)

	began := sys.Monotonic()
	c, err := x.greet(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer x.session.End()
	x.run.Setup = &result.Setup{Control: since(began)}
	go func() { // a lost control connection ends the test wherever it is
		select {
		case <-x.session.Lost():
			cancel(x.session.Err())
		case <-ctx.Done():
		}
	}()
	end := &endpoint.Endpoint{Plan: x.cfg.Plan, End: sockopt.Client, Files: x.cfg.Files}
	defer end.Close()
	err = x.setUp(ctx, end)
	x.describe() // a document says where it failed, too
	if err == nil {
		close(measuring)
		err = x.measure(ctx, end)
	}
	if err != nil {
		x.tell(c, err)
	}
	return err
}

// since is the time in seconds since a monotonic reading.
func since(began int64) float64 { return float64(sys.Monotonic()-began) / 1e9 }

// stopGrace is how long a test that was told to stop may take to wind up.
const stopGrace = 2 * time.Second

// interrupt turns Config.Stop into an end: at once while the test is being set
// up, within stopGrace once it's measuring.
func (x *test) interrupt(ctx context.Context, cancel context.CancelCauseFunc, measuring <-chan struct{}) {
	select {
	case <-x.cfg.Stop:
	case <-ctx.Done():
		return
	}
	select {
	case <-measuring:
		_ = x.session.Send(control.TypeStop, nil) // its windows close too
		select {
		case <-time.After(stopGrace):
		case <-ctx.Done():
		}
	default:
	}
	cancel(ErrInterrupted)
}

// tell sends the server the reason why this end gives up, so that it need not
// guess.
func (x *test) tell(c net.Conn, err error) {
	e := x.explain(err)
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_ = x.session.Send(control.TypeError, control.Error(e))
}

// timeout bounds one stage of the set-up by the connect time-out.
func (x *test) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, x.cfg.ConnectTimeout, fmt.Errorf("%w within %v", errNoAnswer, x.cfg.ConnectTimeout))
}

// errNoAnswer is a stage of the set-up that took too long.
var errNoAnswer = errors.New("no answer")

// greet connects the control connection and exchanges hellos.
func (x *test) greet(ctx context.Context) (net.Conn, error) {
	ctx, cancel := x.timeout(ctx)
	defer cancel()
	addrs, err := resolve(ctx, x.cfg.Host, x.cfg.Family)
	switch {
	case errors.Is(err, ErrInterrupted):
		return nil, err
	case errors.Is(err, errWrongFamily), errors.Is(err, errNoScope):
		return nil, refuse("usage", err)
	case err != nil:
		return nil, refuse("connect", fmt.Errorf("%s: %w", x.target(), err))
	}
	if err := x.check(sys.Family(addrs[0])); err != nil {
		return nil, err
	}
	fd, remote, err := dial(ctx, addrs, x.cfg.Port, x.cfg.Bind)
	if errors.Is(err, ErrInterrupted) {
		return nil, err
	} else if err != nil {
		return nil, refuse("connect", err)
	}
	x.remote = remote
	server := remote.String()
	x.run.Server = &server
	c, err := sys.ControlConn(fd)
	if err != nil {
		return nil, err
	}
	// It takes a millisecond or two, in which the exchange goes on.
	described := make(chan *result.Host, 1)
	go func() { described <- host.Describe(remote.Addr()) }()
	x.describe = sync.OnceFunc(func() { x.run.Hosts.Client = <-described })
	if err := x.hello(ctx, c); err != nil {
		x.describe()
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// check tries this end's knobs before any traffic.
func (x *test) check(family int) error {
	err := endpoint.Check(x.cfg.Plan, sockopt.Client, family)
	if err != nil {
		return refuse("plan", err)
	}
	return nil
}

// hello exchanges hellos and starts the session.
func (x *test) hello(ctx context.Context, c net.Conn) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	conn := control.NewConn(c)
	x.ours = control.NewNonce()
	if err := conn.Send(control.TypeHello, control.Hello{
		Magic: control.Magic, Version: control.Current, Program: "gperf " + x.cfg.Build.Version, Nonce: x.ours,
	}); err != nil {
		return x.foreign(ctx, err)
	}
	t, body, err := conn.Receive()
	if err != nil {
		return x.foreign(ctx, err)
	}
	var hello control.Hello
	switch t {
	case control.TypeHello:
		if err := control.Unmarshal(t, body, &hello); err != nil {
			return refuse("protocol", fmt.Errorf("%s: %w", x.remote, err))
		}
	case control.TypeError:
		return control.ParseError(body)
	default:
		return refuse("protocol", fmt.Errorf("%s: answered %q to hello", x.remote, t))
	}
	if err := control.CheckHello(&hello); err != nil {
		return refuse("protocol", fmt.Errorf("%s: %w", x.remote, err))
	}
	x.nonce = hello.Nonce
	if !stop() {
		return context.Cause(ctx)
	}
	_ = c.SetDeadline(time.Time{})
	x.session = control.NewSession(conn, x.onSample)
	return nil
}

// foreign says what it means when the first exchange fails.
func (x *test) foreign(ctx context.Context, err error) error {
	var foreign *control.ForeignError
	switch {
	case errors.Is(context.Cause(ctx), ErrInterrupted):
		return ErrInterrupted
	case errors.As(err, &foreign):
		return refuse("protocol", fmt.Errorf("%s: no gperf server: it begins with %s", x.remote, foreign.Begins))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse("connect", fmt.Errorf("%s: no hello within %v: no gperf server?", x.remote, x.cfg.ConnectTimeout))
	}
	return refuse("connect", fmt.Errorf("%s: closed the connection without a hello: no gperf server, or this client is not allowed (%w)", x.remote, err))
}

// setUp takes the test from the plan to connected, audited sockets with workers
// that wait for the start.
func (x *test) setUp(ctx context.Context, end *endpoint.Endpoint) error {
	ctx, cancel := x.timeout(ctx)
	defer cancel()
	if err := x.readClock(ctx); err != nil {
		return err
	}
	ready, token, err := x.propose(ctx)
	if err != nil {
		return err
	}
	x.run.Hosts.Server = ready.Host
	x.describe()
	end.Host = x.run.Hosts.Client
	x.settleClock()
	began := sys.Monotonic()
	to := netip.AddrPortFrom(x.remote.Addr(), uint16(ready.Port))
	sockets, err := x.connect(ctx, to, token, end)
	if err != nil {
		return err
	}
	if x.cfg.Plan.Type.Carrier() == plan.Connections {
		end.Connections.Dialer = x.dialer(to, token, ready.Greeted)
	}
	x.run.Setup.Data = since(began)
	if err := end.Prepare(sockets); err != nil { // which owns the sockets now
		return refuse("plan", err)
	}
	if err := x.audit(ctx, end); err != nil {
		return err
	}
	flow.AwaitAcked(ctx, sockets)
	return nil
}

// readClock asks for the server's clock a few times; the quickest exchange
// tells most about the offset.
func (x *test) readClock(ctx context.Context) error {
	const (
		exchanges = 5
		enough    = time.Second // on a long path the rest would only cost time
	)
	best, began := int64(1<<63-1), sys.Monotonic()
	for i := range exchanges {
		sent := sys.Monotonic()
		if i > 0 && sent-began > int64(enough) {
			break
		}
		if err := x.session.Send(control.TypePing, nil); err != nil {
			return err
		}
		var pong control.Pong
		if err := x.session.Expect(ctx, control.TypePong, &pong); err != nil {
			return err
		}
		back := sys.Monotonic()
		if trip := back - sent; trip < best {
			best = trip
			x.clock.Offset = float64(pong.MonotonicNs-(sent+trip/2)) / 1e9
			x.clock.Uncertainty = float64(trip) / 2 / 1e9
		}
	}
	return nil
}

// settleClock corrects the measured offset on one machine: the same boot is the
// same clock, unless a time namespace shifts it. Then the offset is far beyond
// its uncertainty.
func (x *test) settleClock() {
	if host.SameMachine(x.run.Hosts.Client, x.run.Hosts.Server) && max(x.clock.Offset, -x.clock.Offset) <= x.clock.Uncertainty {
		x.clock = result.Clock{}
	}
}

// propose sends the plan and returns the server's answer.
func (x *test) propose(ctx context.Context) (ready control.Ready, token [control.TokenSize]byte, err error) {
	secret := x.cfg.Secret
	switch {
	case secret != nil && x.nonce == "":
		return ready, token, refuse("auth", fmt.Errorf("%s: the server asks for no secret, so it can't prove that it has ours", x.remote))
	case secret == nil && x.nonce != "":
		return ready, token, refuse("auth", fmt.Errorf("%s: the server wants a secret (--secret-file)", x.remote))
	}
	raw, err := json.Marshal(x.cfg.Plan)
	if err != nil {
		return ready, token, err
	}
	msg := control.Plan{Plan: raw}
	if secret != nil {
		msg.MAC = control.Authenticate(secret, x.nonce, raw)
	}
	if err := x.session.Send(control.TypePlan, msg); err != nil {
		return ready, token, err
	}
	if err := x.session.Expect(ctx, control.TypeReady, &ready); err != nil {
		return ready, token, err
	}
	b, err := hex.DecodeString(ready.Token)
	if err != nil || len(b) != len(token) || ready.Port < 1 || ready.Port > 65535 {
		return ready, token, refuse("protocol", fmt.Errorf("%s: unusable port or token", x.remote))
	}
	if secret != nil && !control.Authentic(secret, x.ours, b, ready.MAC) {
		return ready, token, refuse("auth", fmt.Errorf("%s: the server doesn't know our secret", x.remote))
	}
	copy(token[:], b)
	return ready, token, nil
}

// connect opens all data connections concurrently: it begins every handshake,
// then awaits them all. Each then gets its preamble, and the knobs that must
// come after it.
func (x *test) connect(ctx context.Context, to netip.AddrPort, token [control.TokenSize]byte, end *endpoint.Endpoint) (sockets []flow.Socket, err error) {
	n := flow.Streams(x.cfg.Plan)
	knobs, o := x.cfg.Plan.Client.Knobs, x.options()
	defer func() {
		if err != nil {
			closeAll(sockets)
			sockets = nil
		}
	}()
	fail := func(i int, kind string, err error) error {
		if errors.Is(err, ErrInterrupted) || errors.Is(err, control.ErrLost) {
			return err
		}
		var told *control.Error
		if errors.As(err, &told) {
			return err
		}
		return refuse(kind, fmt.Errorf("connect data stream %d of %d to %s: %w", i+1, n, to, err))
	}
	fds := make([]int, 0, n)
	kind := unix.SOCK_STREAM
	datagrams := x.cfg.Plan.Type.Carrier() == plan.Datagrams
	if datagrams {
		kind = unix.SOCK_DGRAM
	}
	for i := range n {
		fd, err := begin(to, x.cfg.Bind, kind, knobs.Protocol(), func(fd int) error {
			return knobs.Apply(fd, sockopt.Client, sockopt.BeforeConnect, o)
		})
		if err != nil {
			var knob *sockopt.Error
			if errors.As(err, &knob) {
				return sockets, refuse("plan", err)
			}
			return sockets, fail(i, "connect", err)
		}
		sockets = append(sockets, flow.Socket{Stream: i + 1, FD: fd})
		fds = append(fds, fd)
	}
	if i, err := await(ctx, fds); err != nil {
		return sockets, fail(i, "connect", err)
	}
	preamble := func(i int) []byte {
		return control.Preamble{Token: token, Stream: uint32(i + 1)}.Append(nil)
	}
	if datagrams {
		if i, err := introduce(ctx, fds, preamble); err != nil {
			return sockets, fail(i, "connect", err)
		}
	}
	for i, fd := range fds {
		if !datagrams {
			if err := push(ctx, fd, preamble(i)); err != nil {
				return sockets, fail(i, "connect", err)
			}
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			return sockets, fail(i, "internal", err)
		}
		if err := knobs.Apply(fd, sockopt.Client, sockopt.AfterPreamble, o); err != nil {
			return sockets, refuse("plan", err)
		}
		if err := flow.SetTimeouts(fd); err != nil {
			return sockets, fail(i, "internal", err)
		}
		end.Streams = append(end.Streams, sockopt.StreamReadings{Stream: i + 1, Effective: knobs.Read(fd, sockopt.Client)})
	}
	return sockets, nil
}

// dialer says how the connections of a connection test are made, beside the
// standing ones: with the same knobs and, if they come to the server's common
// port, with a preamble before each request, as stream 0.
func (x *test) dialer(to netip.AddrPort, token [control.TokenSize]byte, greeted bool) *flow.Dialer {
	knobs, o := x.cfg.Plan.Client.Knobs, x.options()
	d := &flow.Dialer{To: to, Bind: x.cfg.Bind, Protocol: knobs.Protocol()}
	if greeted {
		d.Greeting = control.Preamble{Token: token}.Append(nil)
	}
	if len(knobs) > 0 {
		d.Prepare = func(fd int) error { return knobs.Apply(fd, sockopt.Client, sockopt.BeforeConnect, o) }
		d.Connected = func(fd int) error { return knobs.Apply(fd, sockopt.Client, sockopt.AfterPreamble, o) }
	}
	return d
}

func closeAll(sockets []flow.Socket) {
	for _, s := range sockets {
		_ = unix.Close(s.FD)
	}
}

// audit judges this end's knobs, awaits the server's judgement of its own, and
// sees to it that none is missing.
func (x *test) audit(ctx context.Context, end *endpoint.Endpoint) error {
	p := x.cfg.Plan
	own := end.Audit()
	x.run.Audit = own
	if err := sockopt.Refused(own, p.AllowClamp); err != nil {
		return refuse("plan", err)
	}
	for more := true; more; {
		var piece control.Audit
		if err := x.session.Expect(ctx, control.TypeAudit, &piece); err != nil {
			return err
		}
		x.theirs.Audit = append(x.theirs.Audit, piece.Rows...)
		if more = piece.More; len(x.theirs.Audit) > reportLimit {
			return refuse("protocol", fmt.Errorf("%s: more than %d rows of audit", x.remote, reportLimit))
		}
	}
	x.run.Audit = append(own[:len(own):len(own)], x.theirs.Audit...)
	if err := x.covered(); err != nil {
		return err
	}
	if err := sockopt.Refused(x.theirs.Audit, p.AllowClamp); err != nil {
		return refuse("plan", err)
	}
	return nil
}

// covered reports a knob that was asked for and that the audit says nothing of.
func (x *test) covered() error {
	type place struct{ end, knob string }
	seen := map[place]bool{}
	for _, r := range x.run.Audit {
		seen[place{r.End, r.Knob}] = true
	}
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		for knob, v := range x.cfg.Plan.End(end).Knobs {
			if v.IsSet() && !seen[place{end.String(), knob}] {
				return refuse("plan", fmt.Errorf("%s: the audit has no row for %s: it was not set", end, knob))
			}
		}
	}
	return nil
}

// measure runs this end of the test and collects the server's report.
func (x *test) measure(ctx context.Context, end *endpoint.Endpoint) error {
	for i, d := range x.cfg.Plan.Directions() {
		var ids []int
		if x.cfg.Plan.LiveStreams {
			ids = x.ids(i)
		}
		x.mergers[d] = result.NewMerger(d, ids)
	}
	if x.cfg.OnStart != nil {
		x.cfg.OnStart(x.run)
	}
	var err error
	x.own, err = end.Run(ctx, flow.Link{
		Begin:  func() error { return x.session.Send(control.TypeStart, nil) },
		Began:  x.session.Begun(),
		Closed: func(d plan.Direction) error { return x.session.Send(control.TypeClosed, control.Closed{Direction: d}) },
		Live:   func(d plan.Direction, s result.Sample) { x.live(d, sockopt.Client, s) },

		PeerClosed: x.session.PeerClosed, Cut: x.cfg.Stop, Silent: x.session.Silent,
	}, func(ctx context.Context) error {
		if err := x.session.Send(control.TypeFinish, nil); err != nil {
			return err
		}
		return x.collect(ctx) // after which the server has closed its sockets
	})
	return x.blame(err)
}

// blame prefers the news that the server is gone to the resets that it caused. A
// wrong byte is this end's own finding, of which the server sees the end only.
func (x *test) blame(err error) error {
	if err == nil || errors.Is(err, ErrInterrupted) || errors.Is(err, flow.ErrPayload) {
		return err
	}
	select {
	case <-x.session.Lost():
		return x.session.Err()
	case <-time.After(blameWait):
		return err
	}
}

// blameWait is how long the end of the control connection may come after that
// of the data connections for both to have one cause.
const blameWait = 200 * time.Millisecond

// ids are the numbers of the streams of the plan's ith direction.
func (x *test) ids(i int) []int {
	ids := make([]int, x.cfg.Plan.Streams)
	for k := range ids {
		ids[k] = i*len(ids) + k + 1
	}
	return ids
}

// onSample receives the server's samples. What it sends is not to be trusted
// to have the right shape.
func (x *test) onSample(s control.Sample) {
	width := 1
	if x.cfg.Plan.LiveStreams {
		width = x.cfg.Plan.Streams
	}
	if s.Sample.Check(width) == nil {
		x.live(s.Direction, sockopt.Server, s.Sample)
	}
}

// live takes one sample of either end as it comes: the server's are kept for
// the case that its report never arrives, and whoever watches sees intervals.
func (x *test) live(d plan.Direction, end sockopt.End, s result.Sample) {
	if !x.cfg.Plan.LiveStreams && end == sockopt.Client {
		s = s.Totals()
	}
	role := d.Role(end)
	x.mu.Lock()
	defer x.mu.Unlock()
	if end == sockopt.Server {
		x.keep(d, s)
	}
	m := x.mergers[d]
	if m == nil || x.cfg.OnInterval == nil {
		return
	}
	// Without intervals the ends' readings serve to show progress only, for
	// which the measuring end's are enough.
	alone := x.cfg.Plan.Interval == 0
	if alone && !role.Measures() {
		return
	}
	m.Add(role, s)
	for _, iv := range m.Intervals(alone) {
		x.cfg.OnInterval(&iv)
	}
}

// keep notes a sample of the server's. When they become too many, those between
// ever longer steps go.
func (x *test) keep(d plan.Direction, s result.Sample) {
	kept := append(x.peer[d], s)
	if len(kept)*len(s.Sent) > peerLimit {
		x.peerStep[d] = max(2*x.peerStep[d], 2)
		kept = result.Thin(kept, x.peerStep[d])
	}
	x.peer[d] = kept
}

// peerLimit bounds the live samples that are kept, in samples times streams.
const peerLimit = 1 << 16

// reportLimit bounds what a server may report: samples, streams, rows of audit.
const reportLimit = plan.MaxSamples

// collect receives the server's report.
func (x *test) collect(ctx context.Context) error {
	var c control.Collector
	for {
		m, err := x.nextOf(ctx)
		if err != nil {
			return err
		}
		report, err := c.Add(m, reportLimit)
		if err != nil {
			return refuse("protocol", fmt.Errorf("%s: %w", x.remote, err))
		}
		if report == nil {
			continue
		}
		for i := range report.Halves {
			if err := report.Halves[i].Check(x.cfg.Plan.Streams); err != nil {
				return refuse("protocol", fmt.Errorf("%s: %w", x.remote, err))
			}
		}
		x.theirs = *report
		return nil
	}
}

// nextOf awaits the next message of the server's report.
func (x *test) nextOf(ctx context.Context) (control.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, flow.Grace, fmt.Errorf("%w: no report within %v", flow.ErrSilent, flow.Grace))
	defer cancel()
	return x.session.Next(ctx)
}

// merge makes the result out of both ends' reports. Where the server's is
// missing, the samples that it sent during the test stand in for it.
func (x *test) merge() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.theirs.Halves == nil {
		for _, d := range x.cfg.Plan.Directions() {
			if samples := x.peer[d]; len(samples) > 1 {
				x.theirs.Halves = append(x.theirs.Halves, result.Half{
					Direction: d, Role: d.Role(sockopt.Server),
					OpenedNs: samples[0].AtNs, ClosedNs: samples[len(samples)-1].AtNs, Series: samples,
				})
			}
		}
	}
	x.run.Audit = append(x.own.Audit[:len(x.own.Audit):len(x.own.Audit)], x.theirs.Audit...)
	return x.run.Merge(x.own, &x.theirs, &x.clock)
}
