package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

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

// meet lets the client's UDP sockets introduce themselves, until the context ends.
// Each sends the preamble that a data connection would begin with; it's answered,
// with the same, on a socket that is connected to it from then on. Only sockets at
// the address that the control connection comes from are listened to: that
// address has proved by its handshake that it wants to hear from this server.
func (x *session) meet(ctx context.Context) {
	const often = 100 * time.Millisecond // look at the context
	known := map[netip.AddrPort]int{}
	var b [control.PreambleSize + 1]byte
	_ = unix.SetsockoptTimeval(x.listener, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: int64(often / time.Microsecond)})
	for ctx.Err() == nil {
		n, from, err := unix.Recvfrom(x.listener, b[:], 0)
		if err != nil {
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNREFUSED) {
				continue
			}
			x.log.Warn("UDP socket", "error", err)
			return
		}
		peer := sys.AddrPort(from)
		p, err := control.ParsePreamble(b[:max(n, 0)])
		if err != nil || p.Token != x.token || peer.Addr() != x.peer.Addr() {
			x.log.Debug("datagram that belongs to no test", "peer", peer)
			continue
		}
		fd, ok := known[peer]
		if !ok {
			if fd, err = x.connectDatagrams(peer); err != nil {
				x.log.Warn("UDP stream", "peer", peer, "error", err)
				continue
			}
			if !x.arrive(fd, int(p.Stream)) {
				_ = unix.Close(fd)
				continue
			}
			known[peer] = fd
		}
		// A lost answer is asked for again.
		_ = unix.Send(fd, b[:n], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
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
