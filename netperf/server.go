package netperf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/flow"
	"gperf/internal/sys"
	"gperf/netperf/options"
	"gperf/netperf/wire"
	"gperf/plan"
	"gperf/result"
	"gperf/server"
	"gperf/sockopt"
)

// Port is netserver's.
const Port = options.DefaultPort

// Server is netserver's side of the protocol: a server.Protocol.
type Server struct {
	// Passphrase must be the first message of every connection; nil: none.
	Passphrase *string
	// Serial, if not nil, is held by the one connection that is served.
	Serial chan struct{}
}

// Match recognises the two words that a netperf client begins with: a request's
// type, which is a small number, and that of a CPU, or -1. gperf's own frames have
// the brace of their JSON in the place of the second one's first byte.
func (s *Server) Match(first []byte) control.Match {
	const header, types = 8, 1 << 16
	for i, b := range first[:min(len(first), header)] {
		if i < 2 && b != 0 || i == 4 && b != 0 && b != 0xff {
			return control.No
		}
	}
	if len(first) < header {
		return control.More
	}
	if cpu := int32(binary.BigEndian.Uint32(first[4:])); cpu < -1 || cpu >= types {
		return control.No
	}
	return control.Yes
}

// Serve serves one client's control connection.
func (s *Server) Serve(ctx context.Context, v *server.Visit) {
	c, err := sys.ControlConn(v.FD)
	if err != nil {
		v.Log.Error("control connection", "error", err)
		return
	}
	defer c.Close()
	if s.Serial != nil {
		select {
		case s.Serial <- struct{}{}:
			defer func() { <-s.Serial }()
		case <-ctx.Done():
			return
		}
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
	local, _ := sys.Names(v.FD)
	if a, ok := c.LocalAddr().(*net.TCPAddr); ok {
		local = a.AddrPort()
	}
	x := &session{Visit: v, conn: c, local: local.Addr().Unmap(), requests: make(chan wire.Message, ahead), lost: make(chan struct{}), layout: wire.Layout27}
	if s.Passphrase != nil && !x.admitted(*s.Passphrase) {
		v.Log.Warn("wrong passphrase")
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(v.Limits.Patience))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go x.read()
	for {
		select {
		case m := <-x.requests:
			_ = c.SetReadDeadline(time.Time{}) // a test takes what it takes
			if err := x.answer(ctx, &m); err != nil {
				v.Log.Info("session ended", "error", err)
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(v.Limits.Patience))
		case <-x.lost:
			if len(x.requests) > 0 {
				continue // it has said more before it went
			}
			v.Log.Debug("client has gone")
			return
		case <-ctx.Done():
			return
		}
	}
}

// ahead is how many requests may come before their turn. Clients wait for the
// results of one before they send the next; only a passphrase has no answer.
const ahead = 4

// A session is one control connection.
type session struct {
	*server.Visit
	conn     net.Conn
	local    netip.Addr // the address that the client reached
	requests chan wire.Message
	lost     chan struct{} // closed when the client has gone
	layout   wire.Layout
}

// admitted reports whether the first message is the right passphrase.
func (x *session) admitted(want string) bool {
	_ = x.conn.SetReadDeadline(time.Now().Add(x.Limits.Patience))
	var m wire.Message
	if _, err := io.ReadFull(x.conn, m[:]); err != nil {
		return false
	}
	text, err := wire.ParsePassphrase(&m)
	return err == nil && text == want
}

// read brings in the requests. That a client goes is news at any time, so it never
// waits for a request's turn.
func (x *session) read() {
	defer close(x.lost)
	for {
		var m wire.Message
		if _, err := io.ReadFull(x.conn, m[:]); err != nil {
			return
		}
		select {
		case x.requests <- m:
		default:
			x.Log.Info("too many requests at once")
			return
		}
	}
}

// send sends a message.
func (x *session) send(m wire.Message) error {
	_ = x.conn.SetWriteDeadline(time.Now().Add(x.Limits.Patience))
	_, err := x.conn.Write(m[:])
	return err
}

// refuse answers with an errno.
func (x *session) refuse(typ int32, err error) error {
	x.Log.Info("refused", "error", err)
	return x.send(wire.New(typ, int32(errno(err))))
}

// answer serves one request.
func (x *session) answer(ctx context.Context, m *wire.Message) error {
	switch m.Type() {
	case wire.TypeDebugOn, wire.TypeDebugOff:
		return x.send(wire.New(wire.TypeDebugOK, 0))
	case wire.TypePassphrase:
		return nil // nobody asked for one
	case wire.TypeCPUCalibrate:
		return x.send(wire.CPUCalibration{Rate: calibration, NumCPUs: int32(cpuCount())}.Encode())
	case wire.TypeSysInfo:
		x.layout = wire.Layout26 // only such clients ask
		answer, err := wire.DeprecatedSysInfo.Encode()
		if err != nil {
			return err
		}
		return x.send(answer)
	}
	d, ok := dialects[m.Type()]
	if !ok {
		return x.send(wire.New(m.Type(), wire.ErrnoUnknownRequest))
	}
	job, err := d.parse(m)
	if err == nil {
		err = x.check(job)
	}
	if err != nil {
		return x.refuse(m.Type()+1, err)
	}
	if cpu := m.Second(); cpu >= 0 {
		job.cpus = allowedCPUs(int(cpu))
	}
	leave, _, err := x.Admit()
	if err != nil {
		x.Log.Warn("test refused", "error", err)
		return x.refuse(m.Type()+1, unix.EBUSY)
	}
	defer leave()
	return x.run(ctx, m.Type()+1, d, job)
}

// A job is a test that was asked for, as the server's end of it.
type job struct {
	socketPlan
	role                      plan.Role
	carrier                   plan.Carrier
	sendSize, receiveSize     int // per call of a bulk test; 0: the server chooses
	requestSize, responseSize int
	length                    int  // seconds; negative: minus the bytes or transactions; 0: until the client ends
	untilTime                 bool // the client ends nothing: quiet after the time is the end
	splice                    bool // receive without copying
	measureCPU                bool
	pause                     flow.Pause
	port                      uint16         // wanted
	bind                      netip.Addr     // wanted
	elsewhere                 bool           // bind is on another network than the control connection, perhaps
	client                    netip.AddrPort // where the client says its data socket is
	answerFrom                bool           // datagrams are to come from the address that the client reached
	random                    bool           // fill the send buffer with random bytes
	cpus                      []int
	echo                      wire.OmniResponse // what is answered as it was asked

	// What is in force, for the response.
	sendBuffer, receiveBuffer int
	boundPort                 uint16
	priority, tos             int
	noDelay                   bool
}

// check holds a job to the server's limits.
func (x *session) check(j *job) error {
	total := int64(0)
	for _, size := range []int{j.sendSize, j.receiveSize, j.requestSize, j.responseSize} {
		if size < 0 || size > plan.MaxMessageSize {
			return fmt.Errorf("message of %d bytes: %w", size, unix.EINVAL)
		}
		total += int64(size)
	}
	switch {
	case total > x.Limits.Memory:
		return fmt.Errorf("%d bytes of buffers: %w", total, unix.ENOMEM)
	case time.Duration(j.length)*time.Second > x.Limits.Duration:
		return fmt.Errorf("%d seconds: %w", j.length, unix.EINVAL)
	case j.family == 0:
		j.family = sys.Family(x.local)
	}
	j.elsewhere = j.bind.IsValid() && j.bind != x.local.WithZone("") || j.family != sys.Family(x.local)
	return nil
}

// calibration is what a CPU "rate" is with /proc/stat: ticks per second.
const calibration = 100

// run runs one test: response, data, results.
func (x *session) run(ctx context.Context, typ int32, d *dialect, j *job) error {
	at := j.bind
	if !at.IsValid() && j.answerFrom && j.family == sys.Family(x.local) {
		at = x.local
	}
	fd, err := j.listen(at, x.portsFor(j))
	if err != nil {
		return x.refuse(typ, err)
	}
	defer func() {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}()
	local, _ := sys.Names(fd)
	j.boundPort = local.Port()
	j.sendBuffer, j.receiveBuffer = buffers(fd)
	j.noDelay = !j.datagrams && getInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY) == 1
	j.priority, j.tos = readBack(fd, &j.socketPlan)
	j.chooseSizes()
	if err := x.send(d.response(j)); err != nil {
		return err
	}
	answered := time.Now()
	data, err := x.meet(ctx, j, &fd)
	if err != nil {
		return x.refuse(typ, err)
	}
	m := &measured{sendBuffer: j.sendBuffer, receiveBuffer: j.receiveBuffer, retransmits: -1}
	if data.there {
		// A sender's time runs from the response, as netserver's does, so that it ends
		// before the client's; unless the client waited on purpose, or has its data
		// connection so late that the test would be much shorter.
		if j.role != plan.Sender || time.Since(answered) > soon {
			answered = time.Now()
		}
		deadline := j.deadline(answered, x.Limits)
		// The client's own end of a test that it doesn't end is a reset at worst.
		if m, err = x.move(ctx, j, data, deadline); err != nil && !resets(err) {
			return x.refuse(typ, err)
		}
	}
	// A client that has ended its side of the control connection may be waiting for
	// these all the same: nothing else ends a connection test before its time.
	return x.send(d.results(j, m, x.layout))
}

// soon is how long after the response a data connection is usually there.
const soon = 100 * time.Millisecond

// resets reports whether an error is how a stream looks whose peer has ended it in
// a hurry: with data unread.
func resets(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNREFUSED)
}

// portsFor are the ports to try, in this order.
func (x *session) portsFor(j *job) []uint16 {
	var ports []uint16
	if j.port != 0 {
		ports = append(ports, j.port)
	}
	if r := x.Ports; r.Last != 0 {
		for p := int(r.First); p <= int(r.Last); p++ {
			ports = append(ports, uint16(p))
		}
		return ports
	}
	return append(ports, 0)
}

// readBack is SO_PRIORITY and the type of service as in force, -1 where none was
// asked for.
func readBack(fd int, p *socketPlan) (priority, service int) {
	priority, service = -1, -1
	if p.knobs["priority"].IsSet() {
		priority = getInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY)
	}
	if p.knobs["tos"].IsSet() {
		service = tos(fd, p.family)
	}
	return priority, service
}

// Sizes where nothing better is known.
const (
	leastChosen = 4096
	maxUDP      = plan.MaxDatagram
)

// chooseSizes fills in the sizes that are the server's to choose: its buffers'.
func (j *job) chooseSizes() {
	if j.role == plan.Sender && j.sendSize == 0 {
		j.sendSize = chosen(j.sendBuffer, j.datagrams)
	}
	if j.role == plan.Receiver && j.receiveSize == 0 {
		j.receiveSize = chosen(j.receiveBuffer, false)
	}
}

// chosen is the size per call that goes with a socket buffer. No larger datagram
// than maxUDP can be sent.
func chosen(buffer int, datagrams bool) int {
	if buffer <= 0 {
		buffer = leastChosen
	}
	if datagrams {
		buffer = min(buffer, maxUDP)
	}
	return buffer
}

// The server gives a client that ends the test by its own clock pad longer than
// the test takes, and one of a connection test until it has been quiet for idle
// after the time: nothing on the wire says that such a test is over.
const (
	pad  = 4 * time.Second
	idle = 500 * time.Millisecond
)

// deadline is when a test is over at the latest. One without a length ends with
// its client, or at the server's limit.
func (j *job) deadline(from time.Time, l server.Limits) time.Time {
	switch {
	case j.length <= 0:
		return from.Add(l.Duration)
	case j.role == plan.Sender:
		return from.Add(time.Duration(j.length) * time.Second)
	default:
		return from.Add(time.Duration(j.length)*time.Second + pad)
	}
}

// A meeting is the data socket of a test that the client has come to.
type meeting struct {
	there  bool // it came in time
	fd     int  // connected; -1 for connection tests
	accept flow.Acceptor
}

// meetWait is how long a client may take from the response to its first datagram
// or its connection: it may wait on purpose (-s).
const meetWait = 10 * time.Minute

// meet brings the two ends' data sockets together: accepts the connection, or
// awaits the first datagram. It owns *fd, and takes it out when it passes it on.
func (x *session) meet(ctx context.Context, j *job, fd *int) (meeting, error) {
	deadline := time.Now().Add(meetWait)
	if err := unix.SetNonblock(*fd, true); err != nil {
		return meeting{}, err
	}
	if j.datagrams && j.role == plan.Sender {
		// It was asked to send first: to the client's own machine, or nowhere.
		to := j.client
		if !to.IsValid() || to.Addr().IsUnspecified() {
			to = netip.AddrPortFrom(x.Peer.Addr(), to.Port())
		}
		if !x.isPeer(to.Addr()) || to.Port() == 0 {
			return meeting{}, fmt.Errorf("datagrams to %s, where the control connection doesn't come from: %w", to, unix.EACCES)
		}
		return x.connected(fd, to)
	}
	for {
		switch {
		case j.carrier == plan.Connections:
			// The first connection stays in the queue; the test's time runs from it.
			if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(*fd), Events: unix.POLLIN}}, 0); n > 0 {
				l, err := flow.NewListener(*fd, x.mayCome(j), nil)
				return meeting{true, -1, l}, err
			}
		case j.datagrams:
			from, err := peek(*fd)
			switch {
			case err != nil && !errors.Is(err, unix.EAGAIN):
				return meeting{}, err
			case err != nil:
			case j.role == plan.Responder && j.elsewhere && !x.isPeer(from.Addr()):
				return meeting{}, fmt.Errorf("datagrams from %s, where the control connection doesn't come from: %w", from, unix.EACCES)
			case !x.mayCome(j)(from.Addr()):
				discardDatagram(*fd)
				continue
			default:
				return x.connected(fd, from)
			}
		default:
			conn, sa, err := unix.Accept4(*fd, unix.SOCK_CLOEXEC)
			switch {
			case err == nil && !x.mayCome(j)(sys.AddrPort(sa).Addr()):
				_ = unix.Close(conn)
				continue
			case err == nil:
				_ = unix.Close(*fd)
				*fd = -1
				return meeting{there: true, fd: conn}, flow.SetTimeouts(conn)
			case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECONNABORTED):
				return meeting{}, err
			}
		}
		select {
		case <-x.lost:
			return meeting{}, nil
		case <-ctx.Done():
			return meeting{}, context.Cause(ctx)
		default:
		}
		if time.Now().After(deadline) {
			return meeting{}, nil
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(*fd), Events: unix.POLLIN}}, int(meetPoll/time.Millisecond))
	}
}

// meetPoll is how long the wait for the client's data socket may go without a look
// at the control connection.
const meetPoll = 50 * time.Millisecond

// mayCome says from which addresses a test's data is taken: the control
// connection's; and where nothing is sent to an address that a datagram may have
// forged, the one that the client said its data would come from, and any if it
// asked for another network than the control connection's.
func (x *session) mayCome(j *job) func(netip.Addr) bool {
	said := j.client.Addr()
	answers := j.datagrams && j.role != plan.Receiver
	return func(a netip.Addr) bool {
		return x.isPeer(a) || !answers && (j.elsewhere || said.IsValid() && a.WithZone("") == said)
	}
}

// isPeer reports whether an address is that of the control connection's other end.
func (x *session) isPeer(a netip.Addr) bool {
	return a.Unmap().WithZone("") == x.Peer.Addr().Unmap().WithZone("")
}

// connected connects the UDP socket, which from then on hears and talks to that
// peer only.
func (x *session) connected(fd *int, to netip.AddrPort) (meeting, error) {
	if local, _ := sys.Names(*fd); sys.Family(local.Addr()) == unix.AF_INET6 && to.Addr().Is4() {
		return meeting{}, unix.EAFNOSUPPORT
	}
	sa, err := sys.Sockaddr(to)
	if err != nil {
		return meeting{}, err
	}
	if err := unix.Connect(*fd, sa); err != nil {
		return meeting{}, err
	}
	if err := unix.SetNonblock(*fd, false); err != nil {
		return meeting{}, err
	}
	m := meeting{there: true, fd: *fd}
	*fd = -1
	return m, flow.SetTimeouts(m.fd)
}

// peek looks who has sent the first datagram in the queue.
func peek(fd int) (netip.AddrPort, error) {
	var b [1]byte
	_, from, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return sys.AddrPort(from), nil
}

func discardDatagram(fd int) {
	var b [1]byte
	_, _, _ = unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
}

// move moves the test's data.
func (x *session) move(ctx context.Context, j *job, data meeting, deadline time.Time) (*measured, error) {
	cfg := flow.Config{
		Direction: plan.ClientToServer, Role: j.role, Carrier: j.carrier,
		SendSize: j.sendSize, ReceiveSize: j.receiveSize, RequestSize: j.requestSize, ResponseSize: j.responseSize, Burst: 1,
		Pause: j.pause, Acceptor: data.accept, CPUs: j.cpus, UntilEOF: true, Plain: true,
	}
	if j.carrier == plan.Datagrams && j.role == plan.Receiver {
		cfg.ReceiveSize = max(cfg.ReceiveSize, maxUDP) // never cut one short
	}
	if j.splice && j.role == plan.Receiver && j.carrier == plan.Connection {
		cfg.Moving.Receive = plan.Splice
	}
	if j.random {
		cfg.Moving.Payload = randomPayload(j.sendSize)
	}
	var win flow.Window
	cut := make(chan struct{})
	win.Cut = cut
	done := make(chan struct{})
	defer close(done)
	if j.length < 0 && (j.role == plan.Sender || j.carrier != plan.Connection || j.untilTime) {
		// What a client that counts receives, it needs to the end; what it sends, it
		// ends by itself, unless it's one that ends nothing.
		cfg.Limits = []uint64{uint64(-j.length)}
	}
	if j.role == plan.Sender && j.length > 0 {
		win.Duration = max(time.Until(deadline), time.Millisecond)
	}
	var moved atomic.Uint64
	win.Live = func(s result.Sample) { moved.Store(s.Transactions[0] + s.ReceiveCalls[0]) }
	quiet := func() bool { return false }
	if j.length > 0 && (j.untilTime || j.carrier == plan.Connections) {
		seen, since, over := uint64(0), time.Now(), deadline.Add(-pad)
		quiet = func() bool {
			now := time.Now()
			if n := moved.Load(); n != seen {
				seen, since = n, now
			}
			return now.After(over) && now.Sub(since) >= idle
		}
	}
	go func() {
		tick := time.NewTicker(meetPoll)
		defer tick.Stop()
		defer close(cut)
		for {
			select {
			case <-done:
				return
			case <-x.lost:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if quiet() || gone(data.fd, j) || j.role != plan.Sender && time.Now().After(deadline) {
					return
				}
			}
		}
	}()
	m, err := measure(ctx, cfg, data.fd, win, j.knobs, sockopt.Server, false, false)
	if m != nil && data.fd < 0 {
		m.sendBuffer, m.receiveBuffer = j.sendBuffer, j.receiveBuffer
	}
	return m, err
}

// gone reports whether the client of a test in which the server only sends wants no
// more: it has ended its side of the stream, which a client does that was stopped.
func gone(fd int, j *job) bool {
	if j.role != plan.Sender || j.carrier != plan.Connection {
		return false
	}
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&unix.POLLRDHUP != 0
}

// seconds is a duration as the wire has it.
func seconds(d time.Duration) float32 { return float32(d.Seconds()) }

// wrap32 is a count in the 32 bits that it has on the wire.
func wrap32(n uint64) uint32 { return uint32(n & math.MaxUint32) }
