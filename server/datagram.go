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
	fds   []int // what is listened to: wake, the test's socket, and copies of the streams'
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
// that one. Only sockets at the address that the control connection comes from are
// listened to: that address has proved by its handshake that it wants to hear from
// this server.
func (m *meeting) hold() {
	defer func() {
		for i, fd := range m.fds {
			if i != 1 { // the session's
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
			if w.Revents != 0 {
				m.hear(int(w.Fd), i == 0)
			}
		}
	}
}

// hear takes one datagram from the test's socket or from a stream's.
func (m *meeting) hear(fd int, first bool) {
	var b [control.PreambleSize + 1]byte
	n, from, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
	if err != nil {
		return // ECONNREFUSED among them: of an answer that nobody wanted
	}
	p, err := control.ParsePreamble(b[:max(n, 0)])
	peer := sys.AddrPort(from)
	if err != nil || p.Token != m.token || peer.Addr() != m.peer.Addr() {
		m.log.Debug("datagram that belongs to no test", "peer", peer)
		return
	}
	if first {
		if m.known[peer] {
			return // it will ask again
		}
		if fd, err = m.enter(peer, int(p.Stream)); err != nil {
			m.log.Warn("UDP stream", "peer", peer, "error", err)
			return
		}
	}
	_ = unix.Send(fd, b[:n], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
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
