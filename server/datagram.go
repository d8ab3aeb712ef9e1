package server

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/internal/sys"
	"gperf/sockopt"
)

// listenDatagrams makes the UDP socket of one test, at addr and a free port of r.
// Its clients' sockets share the port with it, hence SO_REUSEADDR.
func listenDatagrams(addr netip.Addr, r PortRange) (int, error) {
	var err error
	for port := int(r.First); port <= int(r.Last); port++ {
		var fd int
		// First without sharing: a port that another process has is not free.
		if fd, err = bindDatagrams(netip.AddrPortFrom(addr, uint16(port)), false); err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return -1, err
		}
	}
	return -1, fmt.Errorf("no free UDP port in --data-ports %d-%d: %w", r.First, r.Last, err)
}

// bindDatagrams makes a UDP socket at addr. SO_REUSEADDR is set after the bind of
// the first on a port, and before that of the others.
func bindDatagrams(addr netip.AddrPort, others bool, prepare ...func(fd int) error) (fd int, err error) {
	fd, err = unix.Socket(sys.Family(addr.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	share := func() error {
		return os.NewSyscallError("setsockopt SO_REUSEADDR", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	}
	if others {
		if err = share(); err != nil {
			return -1, err
		}
	}
	for _, f := range prepare {
		if err = f(fd); err != nil {
			return -1, err
		}
	}
	sa, err := sys.Sockaddr(addr)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, sa); err != nil {
		return -1, fmt.Errorf("bind UDP %s: %w", addr, err)
	}
	if !others {
		err = share()
	}
	return fd, err
}

// A meeting is the time in which a client's UDP sockets introduce themselves. It
// lasts until the client has begun the test, for only then it's certain that
// every answer has come.
type meeting struct {
	*session
	fds   []int // what is listened to: wake, the test's socket, and copies of the streams'; -1: no longer
	known map[netip.AddrPort]bool
	over  chan struct{}
}

// meet begins the meeting.
func (x *session) meet() error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	x.meeting = &meeting{session: x, fds: []int{wake, x.listener}, known: map[netip.AddrPort]bool{}, over: make(chan struct{})}
	go x.meeting.hold()
	return nil
}

// part ends the meeting, if there is one: from here on the datagrams of the
// streams are the test's.
func (x *session) part() {
	if x.meeting == nil {
		return
	}
	_, _ = unix.Write(x.meeting.fds[0], []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-x.meeting.over
	x.meeting = nil
}

// hold answers introductions. Each socket of the client's sends the preamble that a
// data connection would begin with; it's answered, with the same, on a socket that
// is connected to it from then on. If the answer is lost, it's asked for again on
// that one. Whatever else comes there is the first of the test's own datagrams, for
// whose client all have met: it's left where it is. Only sockets at the address that
// the control connection comes from are listened to: that address has proved by its
// handshake that it wants to hear from this server.
func (m *meeting) hold() {
	defer func() {
		for i, fd := range m.fds {
			if i != 1 && fd >= 0 { // the session's
				_ = unix.Close(fd)
			}
		}
		close(m.over)
	}()
	for {
		waiting := make([]unix.PollFd, len(m.fds))
		for i, fd := range m.fds {
			waiting[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		}
		if _, err := unix.Poll(waiting, -1); err != nil && !errors.Is(err, unix.EINTR) {
			m.log.Warn("UDP sockets", "error", os.NewSyscallError("poll", err))
			return
		}
		if waiting[0].Revents != 0 {
			return
		}
		for i, w := range waiting[1:] {
			if w.Revents == 0 {
				continue
			}
			if i == 0 {
				m.hear()
			} else if !m.hearAgain(int(w.Fd)) {
				_ = unix.Close(int(w.Fd))
				m.fds[i+1] = -1
			}
		}
	}
}

// hear takes one datagram from the test's socket.
func (m *meeting) hear() {
	var b introduction
	n, peer, err := b.receive(m.fds[1], 0)
	if err != nil {
		return
	}
	stream, ours := m.introduces(b[:n], peer)
	if !ours {
		m.log.Debug("datagram that belongs to no test", "peer", peer)
		return
	}
	if m.known[peer] {
		return // it will ask again
	}
	fd, err := m.enter(peer, stream)
	if err != nil {
		m.log.Warn("UDP stream", "peer", peer, "error", err)
		return
	}
	m.answer(fd, b[:n])
}

// hearAgain takes an introduction whose answer was lost from a stream's socket, and
// reports whether there may be more: nothing else is taken.
func (m *meeting) hearAgain(fd int) bool {
	var b introduction
	n, peer, err := b.receive(fd, unix.MSG_PEEK)
	if err != nil {
		return true // ECONNREFUSED among them: of an answer that nobody wanted
	}
	if _, ours := m.introduces(b[:n], peer); !ours {
		return false
	}
	if n, _, err = b.receive(fd, 0); err == nil {
		m.answer(fd, b[:n])
	}
	return true
}

// An introduction has room for a byte too many, which tells other datagrams.
type introduction [control.PreambleSize + 1]byte

func (b *introduction) receive(fd, flags int) (n int, peer netip.AddrPort, err error) {
	n, from, err := unix.Recvfrom(fd, b[:], flags|unix.MSG_DONTWAIT)
	return max(n, 0), sys.AddrPort(from), err
}

// introduces is the stream that a datagram introduces, if it is one of this test's.
func (m *meeting) introduces(b []byte, peer netip.AddrPort) (stream int, ours bool) {
	p, err := control.ParsePreamble(b)
	return int(p.Stream), err == nil && p.Token == m.token && peer.Addr() == m.peer.Addr()
}

func (m *meeting) answer(fd int, b []byte) {
	_ = unix.Send(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// enter makes the socket of one stream, and returns the meeting's copy of it.
func (m *meeting) enter(peer netip.AddrPort, stream int) (int, error) {
	fd, err := m.connectDatagrams(peer)
	if err != nil {
		return -1, err
	}
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("fcntl", err)
	}
	if !m.arrive(fd, stream) {
		_, _ = unix.Close(fd), unix.Close(again)
		return -1, errors.New("more sockets than streams")
	}
	m.known[peer] = true
	m.fds = append(m.fds, again)
	return again, nil
}

// connectDatagrams makes the socket of one stream: at the test's port, connected
// to the client's.
func (x *session) connectDatagrams(peer netip.AddrPort) (int, error) {
	sa, err := sys.Sockaddr(peer)
	if err != nil {
		return -1, err
	}
	fd, err := bindDatagrams(netip.AddrPortFrom(x.local, x.port), true, func(fd int) error {
		return x.plan.Server.Knobs.Apply(fd, sockopt.Server, sockopt.BeforeListen, x.options())
	})
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
