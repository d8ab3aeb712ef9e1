package flow

import (
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// The loops of connection tests: a connection for each transaction. The client
// connects, sends a request, receives the response and waits for the server's
// close; without sizes it connects and waits for the close. The server closes
// first, so that TIME_WAIT stays there. The stream's own socket is a standing
// connection that carries none of it.

// A Dialer says how a requester makes its connections.
type Dialer struct {
	To       netip.AddrPort
	Bind     netip.Addr // local address; invalid: the kernel's choice
	Ports    [2]int     // range of local ports, used in turn; 0, 0: the kernel's choice
	Protocol int        // of socket(2)
	// Prepare sets what a socket needs before it connects; nil: nothing.
	Prepare func(fd int) error
	// Connected sets what it needs once it has; nil: nothing.
	Connected func(fd int) error
	// Greeting goes before each request, in the same send.
	Greeting []byte
}

// An Acceptor brings a responder its connections. Several workers share it.
type Acceptor interface {
	// Accept returns the next connection, whose SO_RCVTIMEO and SO_SNDTIMEO are
	// set; EAGAIN when none came within Timeout.
	Accept() (fd int, errno unix.Errno)
	// Stop makes Accept return for good.
	Stop()
}

// greetedRequest is the buffer for a request and what goes before it.
func greetedRequest(c *Config) int { return len(c.Dialer.Greeting) + c.RequestSize }

// A dialing is a Dialer at work for one stream.
type dialing struct {
	*Dialer
	family   int
	to, from sys.RawAddr
	bind     bool
	port     int // the next one to bind
}

func (d *Dialer) start() (*dialing, error) {
	x := &dialing{Dialer: d, family: sys.Family(d.To.Addr()), port: d.Ports[0]}
	var err error
	if x.to, err = sys.NewRawAddr(d.To); err != nil {
		return nil, err
	}
	from := d.Bind
	if x.bind = from.IsValid() || d.Ports[1] != 0; !x.bind {
		return x, nil
	}
	if !from.IsValid() {
		from = sys.Unspecified(x.family)
	}
	x.from, err = sys.NewRawAddr(netip.AddrPortFrom(from, 0))
	return x, err
}

// connectLoop is the loop of a requester.
func connectLoop(s *stream) {
	d, err := s.group.cfg.Dialer.start()
	if err != nil {
		s.fail(fmt.Errorf("stream %d: %w", s.id, err))
		return
	}
	s.connectErrors = map[string]uint64{}
	for !s.stopped() {
		if s.paced() {
			if !s.awaitDue() {
				continue
			}
			s.spend(0)
		}
		if s.connectOnce(d) == ended {
			return
		}
	}
}

// failedConnectPause is how long a stream waits after a connect that failed, so
// that running out of ports is not a busy loop.
const failedConnectPause = time.Millisecond

// connectOnce makes one connection and one transaction on it.
func (s *stream) connectOnce(d *dialing) outcome {
	began := sys.Monotonic()
	if began >= s.group.closeAt.Load() {
		return ended
	}
	fd, call, errno := d.connect(s)
	if fd < 0 {
		return s.connectFailed(call, errno)
	}
	defer sys.Close(fd)
	if errno != 0 {
		return s.connectFailed(call, errno)
	}
	connected := sys.Monotonic()
	if d.Connected != nil {
		if err := d.Connected(fd); err != nil {
			return s.fail(fmt.Errorf("stream %d: %w", s.id, err))
		}
	}
	switch call, errno := s.transact(fd); {
	case s.stopped():
		return ended
	case errno != 0:
		return s.connectFailed(call, errno)
	}
	s.now = sys.Monotonic()
	switch {
	case s.now >= s.group.closeAt.Load():
		return ended
	case s.now < s.group.openAt.Load():
		return progress // warm-up
	}
	s.worker.record(s.worker.connects, connected-began)
	return s.answered(began)
}

// connectFailed counts a connection that was not made, or broke.
func (s *stream) connectFailed(call string, errno unix.Errno) outcome {
	if s.stopped() || s.err != nil {
		return ended
	}
	if now := sys.Monotonic(); now >= s.group.openAt.Load() && now < s.group.closeAt.Load() {
		s.connectErrors[call+": "+errorName(errno)]++
		s.errors.Add(1)
	}
	sys.Nanosleep(int64(failedConnectPause))
	return blocked
}

// errorName is an error's constant, EADDRNOTAVAIL.
func errorName(errno unix.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(errno))
}

// connect makes a connected socket. fd is -1 when there is none at all, and call
// names the system call that failed.
func (d *dialing) connect(s *stream) (fd int, call string, errno unix.Errno) {
	fd, errno = sys.Socket(d.family, unix.SOCK_STREAM, d.Protocol)
	if errno != 0 {
		return -1, "socket", errno
	}
	if errno := sys.SetTimeouts(fd, int64(Timeout)); errno != 0 {
		return fd, "setsockopt", errno
	}
	if d.Prepare != nil {
		if err := d.Prepare(fd); err != nil {
			s.err = fmt.Errorf("stream %d: %w", s.id, err)
			return fd, "setsockopt", unix.EINVAL
		}
	}
	if d.bind {
		if errno := d.bindNext(fd); errno != 0 {
			return fd, "bind", errno
		}
	}
	errno = sys.Connect(fd, &d.to)
	for errno == unix.EINPROGRESS || errno == unix.EALREADY || errno == unix.EINTR {
		// The time-out, or a signal, has ended the call and not the handshake.
		if s.stopped() {
			return fd, "connect", errno
		}
		ready, perrno := sys.Poll(fd, unix.POLLOUT, int64(Timeout))
		if perrno != 0 || ready == 0 {
			continue
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return fd, "getsockopt", unix.EIO
		}
		errno = unix.Errno(n)
	}
	return fd, "connect", errno
}

// bindNext binds to the local address, and to the next port of the range if there
// is one. Without a range the kernel chooses when it knows where the connection
// goes (IP_BIND_ADDRESS_NO_PORT, Linux 4.2): else it would keep a port free of all
// others for each, and soon search long for one.
func (d *dialing) bindNext(fd int) unix.Errno {
	if d.Ports[1] == 0 {
		if errno := sys.SetInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); errno != 0 && errno != unix.ENOPROTOOPT {
			return errno
		}
		return sys.Bind(fd, &d.from)
	}
	if errno := sys.SetInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); errno != 0 {
		return errno
	}
	var errno unix.Errno
	for range d.Ports[1] - d.Ports[0] + 1 {
		d.from.SetPort(uint16(d.port))
		if d.port++; d.port > d.Ports[1] {
			d.port = d.Ports[0]
		}
		if errno = sys.Bind(fd, &d.from); errno != unix.EADDRINUSE {
			return errno
		}
	}
	return errno
}

// transact sends the request, receives the response and awaits the close.
func (s *stream) transact(fd int) (call string, errno unix.Errno) {
	if request := s.worker.send; len(request) > 0 {
		if errno := s.sendAll(fd, request); errno != 0 {
			return "send", errno
		}
	}
	return s.receiveAll(fd, s.group.cfg.ResponseSize, true)
}

// sendAll sends all of p.
func (s *stream) sendAll(fd int, p []byte) unix.Errno {
	for len(p) > 0 {
		n, errno := sys.Send(fd, p, unix.MSG_NOSIGNAL)
		if errno != 0 {
			if s.retry(errno) {
				continue
			}
			return errno
		}
		s.countSend(n)
		p = p[n:]
	}
	return 0
}

// receiveAll receives n bytes, and the end of the stream after them if toEnd is
// set. Anything else is ECONNRESET, which is how the peer would call it.
func (s *stream) receiveAll(fd, n int, toEnd bool) (call string, errno unix.Errno) {
	into := s.worker.receive
	for n > 0 || toEnd {
		got, errno := sys.Recv(fd, into[:min(len(into), n+1)], 0)
		switch {
		case errno != 0:
			if s.retry(errno) {
				continue
			}
			return "recv", errno
		case got == 0 && n == 0:
			return "", 0
		case got == 0 || got > n:
			return "recv", unix.ECONNRESET
		}
		s.countReceive(got)
		n -= got
	}
	return "", 0
}

// retry reports whether a call that moved nothing is to be made again.
func (s *stream) retry(errno unix.Errno) bool {
	if s.stopped() || errno != unix.EINTR && errno != unix.EAGAIN {
		return false
	}
	s.interruptions.Add(1)
	return true
}

// acceptLoop is the loop of a responder.
func acceptLoop(s *stream) {
	a := s.group.cfg.Acceptor
	for !s.stopped() {
		fd, errno := a.Accept()
		if errno != 0 {
			if o := s.interrupted("accept", errno); o == ended {
				return
			}
			continue
		}
		if s.respondOnce(fd) {
			s.transactions.Store(s.transactions.Load() + 1)
		}
		sys.Close(fd)
		if s.limit > 0 && s.transactions.Load() == s.limit {
			return
		}
	}
}

// respondOnce does one connection's transaction. A connection that breaks is its
// client's loss only.
func (s *stream) respondOnce(fd int) bool {
	cfg := &s.group.cfg
	deadline := sys.Monotonic() + int64(Grace)
	into := s.worker.receive
	for n := cfg.RequestSize; n > 0; {
		got, errno := sys.Recv(fd, into[:min(len(into), n)], 0)
		if errno != 0 {
			if s.retry(errno) && sys.Monotonic() < deadline {
				continue
			}
			return false
		}
		if got == 0 {
			return false
		}
		s.countReceive(got)
		n -= got
	}
	return len(s.worker.send) == 0 || s.sendAll(fd, s.worker.send) == 0
}

// A Listener is an Acceptor on a listening socket of its own.
type Listener struct {
	fd      int
	allowed func(netip.Addr) bool
	prepare func(fd int) error
	stopped atomic.Bool
}

// NewListener prepares a listening socket for Accept: it blocks, for no longer
// than Timeout. The socket stays the caller's. Connections from addresses that are
// not allowed are closed; nil: all are. prepare sets what a connection needs; nil:
// nothing.
func NewListener(fd int, allowed func(netip.Addr) bool, prepare func(fd int) error) (*Listener, error) {
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := SetTimeouts(fd); err != nil {
		return nil, err
	}
	return &Listener{fd: fd, allowed: allowed, prepare: prepare}, nil
}

// Accept is Acceptor's.
func (l *Listener) Accept() (int, unix.Errno) {
	var from sys.RawAddr
	for {
		fd, errno := sys.Accept(l.fd, &from)
		if errno != 0 {
			if errno == unix.EMFILE || errno == unix.ENFILE {
				sys.Nanosleep(int64(failedConnectPause)) // the connection stays in the queue
				return -1, unix.EAGAIN
			}
			if errno == unix.ECONNABORTED {
				return -1, unix.EAGAIN
			}
			return -1, errno
		}
		if l.allowed != nil && !l.allowed(from.Addr()) || l.prepare != nil && l.prepare(fd) != nil {
			sys.Close(fd)
			continue
		}
		return fd, 0
	}
}

// Stop is Acceptor's.
func (l *Listener) Stop() {
	if !l.stopped.Swap(true) {
		_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
	}
}

// A Queue is an Acceptor of connections that somebody else has accepted.
type Queue struct {
	ends    [2]int // a pair of sockets: descriptors go in at 0 and come out at 1
	prepare func(fd int) error
	stopped atomic.Bool
}

// NewQueue makes a queue. prepare sets what its connections need; nil: nothing.
func NewQueue(prepare func(fd int) error) (*Queue, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	if err := SetTimeouts(ends[1]); err != nil {
		_, _ = unix.Close(ends[0]), unix.Close(ends[1])
		return nil, err
	}
	return &Queue{ends: ends, prepare: prepare}, nil
}

// Put adds a connection, and reports whether there was room for it.
func (q *Queue) Put(fd int) bool {
	number := [4]byte{byte(fd), byte(fd >> 8), byte(fd >> 16), byte(fd >> 24)}
	return unix.Send(q.ends[0], number[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == nil
}

// Accept is Acceptor's.
func (q *Queue) Accept() (int, unix.Errno) {
	var number [4]byte
	n, errno := sys.Recv(q.ends[1], number[:], 0)
	if errno != 0 || n != len(number) {
		return -1, max(errno, unix.EAGAIN)
	}
	fd := int(number[0]) | int(number[1])<<8 | int(number[2])<<16 | int(number[3])<<24
	if sys.SetTimeouts(fd, int64(Timeout)) != 0 || q.prepare != nil && q.prepare(fd) != nil {
		sys.Close(fd)
		return -1, unix.EAGAIN
	}
	return fd, 0
}

// Stop is Acceptor's.
func (q *Queue) Stop() {
	if !q.stopped.Swap(true) {
		_ = unix.Shutdown(q.ends[1], unix.SHUT_RD)
	}
}

// Close closes the queue and the connections left in it. Nobody may use it any
// more.
func (q *Queue) Close() {
	_ = unix.Shutdown(q.ends[0], unix.SHUT_WR)
	var number [4]byte
	for {
		n, _, err := unix.Recvfrom(q.ends[1], number[:], unix.MSG_DONTWAIT)
		if err != nil || n != len(number) {
			break
		}
		_ = unix.Close(int(number[0]) | int(number[1])<<8 | int(number[2])<<16 | int(number[3])<<24)
	}
	_, _ = unix.Close(q.ends[0]), unix.Close(q.ends[1])
}
