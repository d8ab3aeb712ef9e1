package sockopt

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// ErrNotSupported is matched by errors about an option that this kernel, or
// this kind of socket, doesn't have.
var ErrNotSupported = errors.New("not supported")

// An Error reports which system call failed on which socket option.
type Error struct {
	Op     string // "setsockopt", "getsockopt" or "socket"
	Option string // man page name, "TCP_CONGESTION"
	Value  Value  // what was being set; unset when reading
	Hint   string // what would help, or ""
	Err    error  // usually a unix.Errno

	missing bool // the option doesn't exist, as opposed to being switched off
}

func (e *Error) Error() string {
	s := e.Op + " " + e.Option
	if e.Value.IsSet() {
		s += "=" + e.Value.String()
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrNotSupported) true if the option doesn't exist
// here.
func (e *Error) Is(target error) bool { return target == ErrNotSupported && e.missing }

// notSupported knows the errnos by which Linux says that an option, or a
// protocol, doesn't exist.
func notSupported(err error) bool {
	return errors.Is(err, unix.ENOPROTOOPT) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EPROTONOSUPPORT)
}

// hint names what a failed setsockopt lacked; "" if it can't tell.
type hint func(v Value, errno error) string

// explain turns the errno of a failed setsockopt into an Error. The call has
// been made first and the reasons are only looked up now, so that what works
// costs nothing.
func (k *Knob) explain(fd int, opt option, v Value, errno error) error {
	e := &Error{Op: "setsockopt", Option: opt.name, Value: v, Err: errno}
	if k.hint != nil {
		e.Hint = k.hint(v, errno)
	}
	switch {
	case e.Hint != "":
	case errors.Is(errno, unix.EPERM) || errors.Is(errno, unix.EACCES):
		e.Hint = cmp.Or(k.needs, "needs CAP_NET_ADMIN")
		if opt == k.force {
			e.Hint += " in the initial user namespace" // capable(), not ns_capable()
		}
	case notSupported(errno):
		e.missing = true
		e.Hint = k.missing(fd)
	}
	return e
}

// missing says why the kernel doesn't know the option.
func (k *Knob) missing(fd int) string {
	if isMPTCP(fd) {
		return "not supported on MPTCP sockets by kernel " + release()
	}
	s := "not supported by kernel " + release()
	if k.since != "" {
		s += "; needs Linux " + k.since + " or newer"
	}
	return s
}

func isMPTCP(fd int) bool {
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && protocol == unix.IPPROTO_MPTCP
}

// release returns the running kernel's release, as uname -r prints it.
func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of unknown release"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// sysctl reads a sysctl by its dotted name, in the calling thread's network
// namespace; "" if it can't.
func sysctl(name string) string {
	b, err := sys.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

func congestionHint(_ Value, errno error) string {
	switch {
	case errors.Is(errno, unix.ENOENT):
		return fmt.Sprintf("available here: %s", sysctl("net.ipv4.tcp_available_congestion_control"))
	case errors.Is(errno, unix.EPERM):
		return fmt.Sprintf("needs CAP_NET_ADMIN, or one of net.ipv4.tcp_allowed_congestion_control=%s",
			sysctl("net.ipv4.tcp_allowed_congestion_control"))
	}
	return ""
}

func fastopenHint(_ Value, errno error) string {
	if errors.Is(errno, unix.EOPNOTSUPP) {
		return "net.ipv4.tcp_fastopen=" + sysctl("net.ipv4.tcp_fastopen") + " lacks bit 1, the client's"
	}
	return ""
}

// readMPTCP tells whether fd speaks MPTCP: 0 for a TCP socket and for one that
// has fallen back to TCP.
func readMPTCP(fd int) (Value, error) {
	var buf [128]byte
	n, err := sys.Getsockopt(fd, unix.IPPROTO_TCP, sys.TCP_IS_MPTCP, buf[:4])
	if err == nil {
		return codecInt.decode(buf[:n]), nil
	}
	if !isMPTCP(fd) {
		return Int(0), nil
	}
	// From 5.16 to 6.9 MPTCP_INFO stops being supported when the connection
	// falls back; before 5.16 nothing tells.
	if _, err = sys.Getsockopt(fd, unix.SOL_MPTCP, sys.MPTCP_INFO, buf[:]); err == nil {
		return Int(1), nil
	}
	if knowsMPTCPInfo() {
		return Int(0), nil
	}
	return Value{}, &Error{Op: "getsockopt", Option: "MPTCP_INFO", Hint: "needs Linux 5.16 or newer", Err: err}
}

// knowsMPTCPInfo asks a socket that can't have fallen back.
func knowsMPTCPInfo() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return false
	}
	defer discard(fd)
	var buf [128]byte
	_, err = sys.Getsockopt(fd, unix.SOL_MPTCP, sys.MPTCP_INFO, buf[:])
	return err == nil
}
