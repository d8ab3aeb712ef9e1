package netperf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/netperf/options"
	"gperf/netperf/wire"
)

// A failure is a run that ends: with netperf's words on its streams and its exit
// status.
type failure struct {
	status         int
	stdout, stderr string
}

func (f *failure) Error() string { return f.stdout + f.stderr }

// die is a failure with words on standard error.
func die(status int, format string, args ...any) error {
	return &failure{status: status, stderr: fmt.Sprintf(format, args...) + "\n"}
}

// strerror is an errno as the C library words it.
func strerror(err error) string {
	text := err.Error()
	var e unix.Errno
	if errors.As(err, &e) {
		if text = e.Error(); unix.ErrnoName(e) == "" {
			return fmt.Sprintf("Unknown error %d", int32(e)) // an errno is a C int
		}
	}
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// familyNames are address families as netperf prints them.
var familyNames = map[options.Family]string{
	options.Unspecified: "AF_UNSPEC", options.IPv4: "AF_INET", options.IPv6: "AF_INET6",
}

func familyOf(a netip.Addr) options.Family {
	if a.Unmap().Is4() {
		return options.IPv4
	}
	return options.IPv6
}

// resolve returns the addresses of a host in that family, or of either. Of a name
// for this machine IPv4's come first, as in the files of most machines.
func resolve(ctx context.Context, host string, family options.Family) ([]netip.Addr, error) {
	fits := func(a netip.Addr) bool { return family == options.Unspecified || familyOf(a) == family }
	var addrs []netip.Addr
	literal, err := netip.ParseAddr(wildcards(host))
	switch {
	case err == nil:
		addrs = []netip.Addr{literal}
	default:
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !fits(a) })
	if len(addrs) == 0 {
		return nil, &failure{status: 255, stdout: fmt.Sprintf(
			"resolve_host: could not resolve host '%s' port '(null)' af %s\n\tgetaddrinfo returned -2 Name or service not known\n"+
				"Netperf could not resolve %s as a host name\n", host, familyNames[family], host)}
	}
	if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsLoopback() }) {
		slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return int(familyOf(a)) - int(familyOf(b)) })
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	return addrs, nil
}

// wildcards reads netperf's own ways of writing every address.
func wildcards(host string) string {
	if host == "::0" {
		return "::"
	}
	return host
}

// A link is the client's control connection.
type link struct {
	conn   net.Conn
	remote netip.AddrPort
	wait   time.Duration // for an answer
}

// establish connects the control connection.
func (c *Client) establish(ctx context.Context, targets []netip.Addr) (*link, error) {
	o := c.Options
	var bindTo netip.Addr
	if o.Source.Name != "" {
		addrs, err := resolve(ctx, o.Source.Name, o.Source.Family)
		if err != nil {
			return nil, err
		}
		bindTo = addrs[0]
	}
	for _, target := range targets {
		if bindTo.IsValid() && familyOf(bindTo) != familyOf(target) {
			continue
		}
		from := bindTo
		if !from.IsValid() {
			from = sys.Unspecified(sys.Family(target))
		}
		fd, err := connectControl(ctx, netip.AddrPortFrom(from, uint16(o.SourcePort)), netip.AddrPortFrom(target, uint16(o.Port)))
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			c.debug("establish_control: %s: %s", target, strerror(err))
			continue
		}
		_, remote := sys.Names(fd)
		conn, err := sys.ControlConn(fd)
		if err != nil {
			return nil, die(1, "netperf: control connection: %s", strerror(err))
		}
		return &link{conn, remote, cmp.Or(c.answerWait, answerWait)}, nil
	}
	target, local, localFamily := targets[0], o.Source.Name, o.Source.Family
	if local == "" {
		local = "0.0.0.0"
		if familyOf(target) == options.IPv6 {
			local = "::0"
		}
		localFamily = o.Family
		if o.Target.Family == options.Unspecified && o.Family == familyOf(target) && !c.familyForced() {
			localFamily = options.Unspecified
		}
	}
	host := c.targetName()
	return nil, &failure{status: 255, stdout: fmt.Sprintf(
		"establish control: are you sure there is a netserver listening on %s at port %d?\n"+
			"establish_control could not establish the control connection from %s port %d address family %s to %s port %d address family %s\n",
		host, o.Port, local, o.SourcePort, familyNames[localFamily], host, o.Port, familyNames[familyOf(target)])}
}

// familyForced reports whether -4 or -6 stands on the command line.
func (c *Client) familyForced() bool {
	return slices.ContainsFunc(c.Options.Args[1:], func(a string) bool { return a == "-4" || a == "-6" })
}

// connectControl binds to a local address, as netperf always does, and connects.
func connectControl(ctx context.Context, from, to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(sys.Family(to.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = bind(fd, from)
	}
	if err == nil {
		err = connect(ctx, fd, to)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connect connects a non-blocking socket, and waits for as long as that takes.
func connect(ctx context.Context, fd int, to netip.AddrPort) error {
	sa, err := sys.Sockaddr(to)
	if err != nil {
		return err
	}
	err = unix.Connect(fd, sa)
	for errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, perr := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(meetPoll/time.Millisecond))
		if n <= 0 || perr != nil {
			continue
		}
		e, gerr := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if gerr != nil {
			return gerr
		}
		if e == 0 {
			return nil
		}
		return unix.Errno(e)
	}
	return err
}

func (l *link) send(m wire.Message) error {
	if _, err := l.conn.Write(m[:]); err != nil {
		return die(1, "send_request: %s", strerror(err))
	}
	return nil
}

// answerWait is how long netperf waits for an answer.
const answerWait = 120 * time.Second

// receive awaits a message. Stopping doesn't end the wait: after a signal there are
// still results to come.
func (l *link) receive(ctx context.Context) (*wire.Message, error) {
	_ = l.conn.SetReadDeadline(time.Now().Add(l.wait))
	defer context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Now()) })()
	var m wire.Message
	n, err := io.ReadFull(l.conn, m[:])
	switch {
	case err == nil:
		return &m, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded) && n == 0:
		return nil, &failure{status: 1, stdout: "recv_response_timed_n: no response received. errno 0 counter 0\n"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return nil, die(1, "recv_response: partial response received: %d bytes", n)
	}
	return nil, die(1, "recv_response: %s", strerror(err))
}

// remoteError is what a server's errno ends in.
func remoteError(err error, status int) error {
	var remote wire.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	return &failure{status: status, stdout: fmt.Sprintf("netperf: remote error %d", int32(remote)), stderr: strerror(unix.Errno(remote)) + "\n"}
}

// end ends this side of the control connection. It also tells gperf's server that a
// connection test was stopped, of which it would else wait for the end: netserver's
// own results come when the test's time is over.
func (l *link) end() {
	if tcp, ok := l.conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// goodbye ends the control connection: netserver closes when it sees the end.
func (l *link) goodbye() {
	l.end()
	const patience = 60 * time.Second
	_ = l.conn.SetReadDeadline(time.Now().Add(patience))
	var b [wire.Size]byte
	_, _ = l.conn.Read(b[:])
	_ = l.conn.Close()
}

// targetName is the host as the user wrote it, or the default.
func (c *Client) targetName() string {
	switch o := c.Options; {
	case o.Target.Name != "":
		return o.Target.Name
	case o.Family == options.IPv6:
		return "::1"
	}
	return "localhost"
}

// debug prints under -d.
func (c *Client) debug(format string, args ...any) {
	if c.Options.Debug > 0 {
		_, _ = fmt.Fprintf(c.Stdout, strings.TrimSuffix(format, "\n")+"\n", args...)
	}
}
