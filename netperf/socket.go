package netperf

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/sockopt"
)

// A socketPlan is what a data socket is to be like, at either end.
type socketPlan struct {
	family    int // AF_INET or AF_INET6
	datagrams bool
	knobs     sockopt.Settings
	options   sockopt.Options
	dontRoute bool
	deferred  bool // TCP_DEFER_ACCEPT on a listener
	ttl       int  // multicast; 0: not asked for
}

func (p *socketPlan) kind() int {
	if p.datagrams {
		return unix.SOCK_DGRAM
	}
	return unix.SOCK_STREAM
}

// open makes the socket and sets what is due before it's bound. The end decides
// what that is: netserver sets on its listener what the connections inherit.
func (p *socketPlan) open(end sockopt.End) (fd int, err error) {
	fd, err = unix.Socket(p.family, p.kind()|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	moments := []sockopt.Moment{sockopt.BeforeConnect}
	if end == sockopt.Server {
		moments = []sockopt.Moment{sockopt.BeforeListen, sockopt.AfterAccept}
	}
	for _, m := range moments {
		if err := p.knobs.Apply(fd, end, m, p.options); err != nil {
			return fd, err
		}
	}
	for _, o := range []struct {
		on                 bool
		level, name, value int
	}{
		{end == sockopt.Server, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		{p.dontRoute, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1},
		{p.deferred && end == sockopt.Server, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds},
		{p.ttl > 0 && p.family == unix.AF_INET, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, p.ttl},
		{p.ttl > 0 && p.family == unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, p.ttl},
	} {
		if !o.on {
			continue
		}
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fd, os.NewSyscallError("setsockopt", err)
		}
	}
	return fd, nil
}

// deferSeconds is how long netserver's listener waits for a connection's first
// data when it was asked to.
const deferSeconds = 5

// bind binds fd to addr.
func bind(fd int, addr netip.AddrPort) error {
	sa, err := sys.Sockaddr(addr)
	if err != nil {
		return err
	}
	return os.NewSyscallError("bind", unix.Bind(fd, sa))
}

// buffers are SO_SNDBUF and SO_RCVBUF as the kernel reports them; -1 where it
// doesn't.
func buffers(fd int) (send, receive int) {
	return getInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF), getInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
}

func getInt(fd, level, name int) int {
	v, err := unix.GetsockoptInt(fd, level, name)
	if err != nil {
		return -1
	}
	return v
}

// tos is IP_TOS or IPV6_TCLASS as in force.
func tos(fd, family int) int {
	if family == unix.AF_INET6 {
		return getInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS)
	}
	return getInt(fd, unix.IPPROTO_IP, unix.IP_TOS)
}

// retransmits is how many segments the connection has retransmitted; -1 when the
// kernel doesn't say.
func retransmits(fd int) int {
	info, err := sockopt.ReadTCPInfo(fd, make([]byte, sockopt.TCPInfoSize))
	if err != nil {
		return -1
	}
	n, ok := info.Get(sockopt.TotalRetrans)
	if !ok {
		return -1
	}
	return int(n)
}

// congestion is the name of the congestion control in force; empty when there is
// none.
func congestion(fd int) string {
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}

// errno is what an error is called on the wire: the errno in it, else EIO.
func errno(err error) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// listen makes the listening socket, or the UDP socket, of a test. A port that
// can't be had is replaced by any other: in the second iteration of a test the
// client asks for the first one's, which may be in use still. An address that can't
// be had is replaced by every address: the client may know this machine by one that
// others translate, and a link-local one (EINVAL) comes without its scope.
func (p *socketPlan) listen(addr netip.Addr, ports []uint16) (fd int, err error) {
	addrs := []netip.Addr{sys.Unspecified(p.family)}
	if addr.IsValid() {
		addrs = []netip.Addr{addr, addrs[0]}
	}
	var first error
	for _, addr := range addrs {
		for _, port := range ports {
			if fd, err = p.listenAt(netip.AddrPortFrom(addr, port)); err == nil {
				return fd, nil
			}
			first = cmp.Or(first, err)
			if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EINVAL) {
				break
			}
			if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EACCES) {
				return -1, fmt.Errorf("data socket: %w", first)
			}
		}
	}
	return -1, fmt.Errorf("data socket: %w", first)
}

func (p *socketPlan) listenAt(addr netip.AddrPort) (int, error) {
	fd, err := p.open(sockopt.Server)
	if err != nil {
		return -1, err
	}
	if err = bind(fd, addr); err == nil && !p.datagrams {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// backlog is of a connection test's: netserver's own of 5 drops connections that
// come faster than they are accepted.
const backlog = 128
