package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/internal/sys"
)

// Target splits HOST[:PORT]. The host may be a name, an IPv4 address, or an
// IPv6 address, bare, scoped (fe80::1%eth0) or in brackets.
func Target(s string, port int) (host string, _ int, err error) {
	switch {
	case s == "":
		return "", 0, errors.New("empty host")
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		return s[1 : len(s)-1], port, nil
	case !strings.HasPrefix(s, "[") && strings.Count(s, ":") != 1:
		return s, port, nil // a name or an address without a port
	}
	host, service, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("host %q: want HOST, HOST:PORT or [ADDRESS]:PORT", s)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("host %q: port %q is not between 1 and 65535", s, service)
	}
	return host, int(n), nil
}

// Literal addresses that can't be reached as asked.
var (
	errWrongFamily = errors.New("not an address of")
	errNoScope     = errors.New("link-local, so it needs a scope")
)

// resolve returns the addresses of host that the family (0, AF_INET, AF_INET6)
// allows, in the resolver's order.
func resolve(ctx context.Context, host string, family int) ([]netip.Addr, error) {
	wrong := map[int]string{unix.AF_INET: "IPv4 (-4)", unix.AF_INET6: "IPv6 (-6)"}
	if addr, err := netip.ParseAddr(host); err == nil {
		if family != 0 && sys.Family(addr) != family {
			return nil, fmt.Errorf("%s: %w %s", host, errWrongFamily, wrong[family])
		}
		if addr.IsLinkLocalUnicast() && addr.Is6() && addr.Zone() == "" {
			return nil, fmt.Errorf("%s: %w, as in %s%%eth0", host, errNoScope, host)
		}
		return []netip.Addr{addr}, nil
	}
	network := map[int]string{0: "ip", unix.AF_INET: "ip4", unix.AF_INET6: "ip6"}[family]
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err != nil {
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns) && dns.IsNotFound:
			return nil, errors.New("unknown host")
		case ctx.Err() != nil:
			return nil, fmt.Errorf("look up the host: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("look up the host: %w", err)
	}
	return addrs, nil
}

// begin makes a non-blocking socket of that kind (SOCK_STREAM, SOCK_DGRAM),
// prepares it, binds it to bind if that's valid, and begins to connect it.
func begin(to netip.AddrPort, bind netip.Addr, kind, protocol int, prepare func(fd int) error) (fd int, err error) {
	fd, err = unix.Socket(sys.Family(to.Addr()), kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err = prepare(fd); err != nil {
		return -1, err
	}
	if bind.IsValid() {
		sa, err := sys.Sockaddr(netip.AddrPortFrom(bind, 0))
		if err != nil {
			return -1, err
		}
		if err = unix.Bind(fd, sa); err != nil {
			return -1, fmt.Errorf("bind %s: %w", bind, err)
		}
	}
	sa, err := sys.Sockaddr(to)
	if err != nil {
		return -1, err
	}
	if err = unix.Connect(fd, sa); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return -1, err
	}
	return fd, nil
}

// pollSlice is how long one poll(2) may take before the context is looked at.
const pollSlice = 50 * time.Millisecond

// await waits until every descriptor is ready for writing, or the context ends,
// and returns the index of the first that failed with its error.
func await(ctx context.Context, fds []int) (int, error) {
	waiting := make([]unix.PollFd, 0, len(fds))
	for _, fd := range fds {
		waiting = append(waiting, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
	}
	for left := len(waiting); left > 0; {
		if ctx.Err() != nil {
			for i := range waiting {
				if waiting[i].Fd >= 0 {
					return i, context.Cause(ctx)
				}
			}
		}
		if _, err := unix.Poll(waiting, int(pollSlice/time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("poll", err)
		}
		for i := range waiting {
			p := &waiting[i]
			if p.Fd < 0 || p.Revents == 0 {
				continue
			}
			n, err := unix.GetsockoptInt(int(p.Fd), unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && n != 0 {
				err = unix.Errno(n)
			}
			if err != nil {
				return i, err
			}
			p.Fd = -1 // poll ignores it from here on
			left--
		}
	}
	return 0, nil
}

// push sends b on a non-blocking socket. It's short enough for an empty send
// buffer, but with TCP Fast Open it's the send that connects.
func push(ctx context.Context, fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINPROGRESS), errors.Is(err, unix.EINTR):
			if _, err := await(ctx, []int{fd}); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		b = b[max(n, 0):]
	}
	return nil
}

// introduce sends b on connected UDP sockets, each its own, until each has come
// back once: the other end then knows the socket.
func introduce(ctx context.Context, fds []int, b func(i int) []byte) (int, error) {
	const least, most = 20 * time.Millisecond, time.Second
	known := make([]bool, len(fds))
	waiting := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		waiting[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	var echo [control.PreambleSize + 1]byte
	again, left := least, len(fds)
	for next := time.Now(); left > 0; {
		if now := time.Now(); !now.Before(next) {
			for i, fd := range fds {
				if known[i] {
					continue
				}
				// What comes of an earlier one, such as ECONNREFUSED, is told by
				// the time running out: the server may not be there yet.
				_ = unix.Send(fd, b(i), unix.MSG_NOSIGNAL)
			}
			next, again = now.Add(again), min(2*again, most)
		}
		if _, err := unix.Poll(waiting, int(min(pollSlice, time.Until(next)+time.Millisecond)/time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("poll", err)
		}
		for i, fd := range fds {
			if waiting[i].Fd < 0 || waiting[i].Revents == 0 {
				continue
			}
			n, _, err := unix.Recvfrom(fd, echo[:], unix.MSG_DONTWAIT)
			if err == nil && bytes.Equal(echo[:n], b(i)) {
				known[i], waiting[i].Fd = true, -1
				left--
			}
		}
		if ctx.Err() != nil && left > 0 {
			return slices.Index(known, false), context.Cause(ctx)
		}
	}
	return 0, nil
}

// dial connects a control connection to the first of the addresses that
// accepts, and returns its descriptor. Each address gets an equal share of the
// time that is left, so that a silent one doesn't use up all of it.
func dial(ctx context.Context, addrs []netip.Addr, port int, bind netip.Addr) (int, netip.AddrPort, error) {
	var first error
	for i, addr := range addrs {
		to := netip.AddrPortFrom(addr, uint16(port))
		fd, err := dialOne(ctx, to, bind, len(addrs)-i)
		if err == nil {
			return fd, to, nil
		}
		if first == nil {
			first = fmt.Errorf("connect %s: %w", to, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return -1, netip.AddrPort{}, first
}

// dialOne connects to one address, within the nth part of the context's time.
func dialOne(ctx context.Context, to netip.AddrPort, bind netip.Addr, n int) (int, error) {
	if deadline, ok := ctx.Deadline(); ok && n > 1 {
		share := time.Until(deadline) / time.Duration(n)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, share, fmt.Errorf("no answer within %v", share.Round(time.Millisecond)))
		defer cancel()
	}
	fd, err := begin(to, bind, unix.SOCK_STREAM, 0, func(int) error { return nil })
	if err != nil {
		return -1, err
	}
	if _, err := await(ctx, []int{fd}); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
