package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/sockopt"
)

// backlog is the queue of connections not yet accepted; the kernel caps it at
// net.core.somaxconn.
const backlog = 4096

// Listen makes a listening socket for a Server at addr. On a kernel without IPv6
// every address means every IPv4 address.
func Listen(addr netip.AddrPort) (fd int, err error) {
	fd, err = listen(addr, nil, sockopt.Options{})
	if err != nil && addr.Addr() == netip.IPv6Unspecified() && errors.Is(err, unix.EAFNOSUPPORT) {
		fd, err = listen(netip.AddrPortFrom(netip.IPv4Unspecified(), addr.Port()), nil, sockopt.Options{})
	}
	return fd, err
}

// listen makes a non-blocking listening socket at addr. An unspecified IPv6
// address serves IPv4 too. On it are set, besides the knobs that must precede
// listen(), SO_REUSEADDR and IPV6_V6ONLY and nothing else.
func listen(addr netip.AddrPort, knobs sockopt.Settings, o sockopt.Options) (fd int, err error) {
	fd, err = unix.Socket(sys.Family(addr.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, knobs.Protocol())
	if err != nil {
		return -1, fmt.Errorf("listen %s: socket: %w", addr, err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return -1, fmt.Errorf("listen %s: setsockopt SO_REUSEADDR: %w", addr, err)
	}
	if sys.Family(addr.Addr()) == unix.AF_INET6 {
		only := 1
		if addr.Addr().IsUnspecified() {
			only = 0
		}
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
			return -1, fmt.Errorf("listen %s: setsockopt IPV6_V6ONLY: %w", addr, err)
		}
	}
	if err = knobs.Apply(fd, sockopt.Server, sockopt.BeforeListen, o); err != nil {
		return -1, fmt.Errorf("listen %s: %w", addr, err)
	}
	sa, err := sys.Sockaddr(addr)
	if err != nil {
		return -1, fmt.Errorf("listen %s: %w", addr, err)
	}
	if err = unix.Bind(fd, sa); err != nil {
		return -1, fmt.Errorf("listen %s: bind: %w", addr, err)
	}
	if err = unix.Listen(fd, backlog); err != nil {
		return -1, fmt.Errorf("listen %s: %w", addr, err)
	}
	return fd, nil
}

// A PortRange is a range of TCP ports, both ends included. Zero: any port.
type PortRange struct{ First, Last uint16 }

// ParsePortRange reads "A-B" or "A".
func ParsePortRange(s string) (PortRange, error) {
	first, last, two := strings.Cut(s, "-")
	if !two {
		last = first
	}
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	if err := errors.Join(err1, err2); err != nil || a == 0 || a > b {
		return PortRange{}, fmt.Errorf("port range %q: want FIRST-LAST, 1 to 65535", s)
	}
	return PortRange{uint16(a), uint16(b)}, nil
}

// listenData makes the listener of one test, at addr and a free port of r.
func listenData(addr netip.Addr, r PortRange, knobs sockopt.Settings, o sockopt.Options) (fd int, err error) {
	for port := int(r.First); port <= int(r.Last); port++ {
		fd, err = listen(netip.AddrPortFrom(addr, uint16(port)), knobs, o)
		if !errors.Is(err, unix.EADDRINUSE) {
			return fd, err
		}
	}
	return -1, fmt.Errorf("no free port in --data-ports %d-%d: %w", r.First, r.Last, err)
}

// CheckListen reports why a text is no address for Config.Listen.
func CheckListen(s string) error {
	_, err := ParseListen(s, 0)
	return err
}

// ParseListen reads an address to listen on: HOST:PORT, :PORT, HOST or [HOST].
// The host is a literal address; empty means every address. port is the port
// when none is given.
func ParseListen(s string, port uint16) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(s)
	if err != nil {
		host, service = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), strconv.Itoa(int(port))
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("listen address %q: port %q is not between 0 and 65535", s, service)
	}
	if host == "" {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(n)), nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("listen address %q: %q is not an address", s, host)
	}
	return netip.AddrPortFrom(addr, uint16(n)), nil
}
