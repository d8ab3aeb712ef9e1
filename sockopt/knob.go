package sockopt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// When is the moment in a socket's life at which a knob is set.
type When int

const (
	// Socket knobs are an argument of socket(2): see [Settings.Protocol].
	Socket When = iota
	// Handshake knobs shape what the SYN offers: the server sets them on the
	// listener, the client before connect.
	Handshake
	// Open knobs are set by the client before connect and by the server on the
	// accepted socket.
	Open
	// Ready knobs would hold back or slow down the connection's preamble, or
	// are undone by the handshake. Both ends set them after the preamble.
	Ready
)

// String says the moment in words.
func (w When) String() string {
	switch w {
	case Socket:
		return "at socket creation"
	case Handshake:
		return "before listen or connect"
	case Open:
		return "before connect or after accept"
	case Ready:
		return "after the preamble"
	}
	return "When(" + strconv.Itoa(int(w)) + ")"
}

// A Moment is a point at which [Settings.Apply] is called on a socket.
type Moment int

const (
	BeforeListen  Moment = iota // a server's new listener, before bind
	BeforeConnect               // a client's new socket, before bind and connect
	AfterAccept                 // a server's accepted socket
	AfterPreamble               // either end's connection, once its preamble has gone
)

// String says the moment in words.
func (m Moment) String() string {
	switch m {
	case BeforeListen:
		return "before listen"
	case BeforeConnect:
		return "before connect"
	case AfterAccept:
		return "after accept"
	case AfterPreamble:
		return "after the preamble"
	}
	return "Moment(" + strconv.Itoa(int(m)) + ")"
}

// due reports whether a knob of w is set at m by that end.
func (w When) due(end End, m Moment) bool {
	switch m {
	case BeforeListen:
		return end == Server && w == Handshake
	case BeforeConnect:
		return end == Client && (w == Handshake || w == Open)
	case AfterAccept:
		return end == Server && w == Open
	case AfterPreamble:
		return w == Ready
	}
	return false
}

// A Knob is one row of the table: a socket option that a test may ask for.
type Knob struct {
	// Name is the flag and the sweep axis, "notsent-lowat"; a generic knob is
	// named "LEVEL/NAME".
	Name string
	// Option is the option as the man pages spell it, "TCP_NOTSENT_LOWAT".
	Option string
	// Unit of an integer Value: "bytes", "milliseconds", "microseconds",
	// "seconds", "bytes_per_second", or "" where there is none.
	Unit string
	// Usage is one line of help for the flag.
	Usage string
	// When is the moment at which the knob is set.
	When When
	// IsBool is set for a switch, whose flag may stand without a value.
	IsBool bool

	codec        codec
	min, max     int64      // bounds of an integer Value, inclusive
	parse        parser     // flag text to Value
	judge        judge      // what the readings mean
	listenerOnly bool       // a server's value is not inherited by what it accepts
	always       bool       // read and reported even when not asked for
	since        string     // first kernel with the option, if newer than 3.0
	needs        string     // hint for EPERM, unless CAP_NET_ADMIN is what is missing
	hint         hint       // explains an errno of setsockopt
	read         readerFunc // instead of getsockopt of the option

	opt    option // level and number
	ipv6   option // instead of opt on an IPv6 connection, if its name is set
	server option // instead of opt on the server, if its name is set
	force  option // instead of opt to set with Options.Force, if its name is set
}

// option is a level and number of setsockopt(2) with its man page name.
type option struct {
	name          string
	level, number int
}

type readerFunc func(fd int) (Value, error)

// Key returns the knob's key in JSON: its name with _ for -. A generic knob's
// key is its name.
func (k *Knob) Key() string {
	if k.isGeneric() {
		return k.Name
	}
	return strings.ReplaceAll(k.Name, "-", "_")
}

func (k *Knob) isGeneric() bool { return strings.Contains(k.Name, "/") }

// onDatagrams reports whether a UDP socket has the option, and a use for it.
func (k *Knob) onDatagrams() bool {
	ofConnections := k.opt.level == unix.SOL_SOCKET && (k.opt.number == unix.SO_KEEPALIVE || k.opt.number == unix.SO_LINGER)
	return k.When != Socket && k.opt.level != unix.IPPROTO_TCP && !ofConnections
}

// livesOnListener reports whether that end's value is the listener's alone.
func (k *Knob) livesOnListener(end End) bool {
	return end == Server && k.listenerOnly
}

// option returns what to pass to getsockopt and setsockopt for fd.
func (k *Knob) option(fd int, end End) option {
	switch {
	case end == Server && k.server.name != "":
		return k.server
	case k.ipv6.name != "" && speaksIPv6(fd):
		return k.ipv6
	}
	return k.opt
}

// speaksIPv6 reports whether packets of fd carry an IPv6 header. An AF_INET6
// socket with an IPv4-mapped address, as a dual-stack listener accepts them,
// sends IPv4: there IPV6_TCLASS and IPV6_MTU_DISCOVER are stored and never
// used, while IP_TOS and IP_MTU_DISCOVER work.
func speaksIPv6(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_INET6 {
		return false
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return true
	}
	local, ok := sa.(*unix.SockaddrInet6)
	return !ok || !isMapped(local.Addr)
}

// isMapped reports whether a is in ::ffff:0:0/96 (RFC 4291 section 2.5.5.2).
func isMapped(a [16]byte) bool {
	return [10]byte(a[:10]) == [10]byte{} && a[10] == 0xff && a[11] == 0xff
}

// asked returns what v means to that end: the value handed to the kernel.
func (k *Knob) asked(end End, v Value) Value {
	// The length of a Fast Open queue is the server's; its client has a switch.
	if n, _ := v.Int(); n > 1 && k.server.name != "" && end == Client {
		return Int(1)
	}
	return v
}

// check reports whether v is a value that the knob can take.
func (k *Knob) check(v Value) error {
	n, isInt := v.Int()
	switch {
	case !v.IsSet():
		return nil
	case k.codec == codecString:
		if isInt || v.s == "" {
			return fmt.Errorf("%s: %q is not a name", k.Name, v.String())
		}
		// The kernel cuts longer names silently (TCP_CONGESTION, 16 bytes with
		// the closing zero) or can't have them (IFNAMSIZ).
		if len(v.s) > maxName {
			return fmt.Errorf("%s: name %q is longer than %d bytes", k.Name, v.s, maxName)
		}
		if strings.ContainsRune(v.s, 0) {
			return fmt.Errorf("%s: name %q contains a zero byte", k.Name, v.s)
		}
		return nil
	case k.codec == codecLinger && v == lingerOff:
		return nil
	case !isInt:
		return fmt.Errorf("%s: %q is not a number", k.Name, v.String())
	case n < k.min || n > k.max:
		return fmt.Errorf("%s: %d is outside %d to %d", k.Name, n, k.min, k.max)
	}
	return nil
}

// maxName is the longest algorithm (TCP_CA_NAME_MAX) or device (IFNAMSIZ).
const maxName = 15

// codec is the form in which an option's value crosses the system call.
type codec uint8

const (
	codecInt    codec = iota // int
	codecUint32              // 32 bits without sign
	codecUint64              // 64 bits without sign, all ones for none
	codecString              // bytes, zero-terminated when read
	codecLinger              // struct linger
)

// lingerOff is SO_LINGER with l_onoff 0, whatever its time.
var lingerOff = Str("off")

func (c codec) encode(v Value) []byte {
	switch c {
	case codecString:
		return []byte(v.s)
	case codecUint64:
		return binary.NativeEndian.AppendUint64(nil, uint64(v.n))
	case codecLinger:
		if v == lingerOff {
			return make([]byte, 8)
		}
		b := binary.NativeEndian.AppendUint32(nil, 1)
		return binary.NativeEndian.AppendUint32(b, uint32(v.n))
	}
	return binary.NativeEndian.AppendUint32(nil, uint32(v.n))
}

// decode reads b, which has the length that getsockopt returned; a length that
// doesn't fit the form gives an unset Value.
func (c codec) decode(b []byte) Value {
	switch {
	case c == codecString:
		name, _, _ := strings.Cut(string(b), "\x00")
		if name == "" {
			return Value{} // no device
		}
		return Str(name)
	case c == codecLinger && len(b) == 8:
		if binary.NativeEndian.Uint32(b) == 0 {
			return lingerOff
		}
		return Int(int64(binary.NativeEndian.Uint32(b[4:])))
	case c == codecUint64 && len(b) == 8:
		n := binary.NativeEndian.Uint64(b)
		if n > math.MaxInt64 {
			return Value{} // all ones: no limit
		}
		return Int(int64(n))
	case c == codecUint32 && len(b) == 4:
		return Int(int64(binary.NativeEndian.Uint32(b)))
	case c == codecInt && len(b) == 4:
		return Int(int64(int32(binary.NativeEndian.Uint32(b))))
	case c == codecInt && len(b) == 1:
		// IP_TTL and its like may answer with one byte (ip(7)).
		return Int(int64(b[0]))
	}
	return Value{}
}

// get reads the knob's value on fd.
func (k *Knob) get(fd int, end End) (Value, error) {
	if k.read != nil {
		return k.read(fd)
	}
	o := k.option(fd, end)
	var buf [16]byte // the longest name; all else is shorter
	n, err := sys.Getsockopt(fd, o.level, o.number, buf[:])
	if err != nil {
		return Value{}, &Error{Op: "getsockopt", Option: o.name, Err: err, missing: notSupported(err)}
	}
	return k.codec.decode(buf[:n]), nil
}

// set makes the one setsockopt call that puts v on fd.
func (k *Knob) set(fd int, end End, v Value, o Options) error {
	opt := k.option(fd, end)
	if o.Force && k.force.name != "" {
		opt = k.force
	}
	v = k.asked(end, v)
	if err := sys.Setsockopt(fd, opt.level, opt.number, k.codec.encode(v)); err != nil {
		return k.explain(fd, opt, v, err)
	}
	return nil
}

// Knobs returns the named knobs in the order of the table, which is also the
// order in which they are set.
func Knobs() []*Knob { return slices.Clone(table) }

// Lookup finds a knob by its flag name or JSON key, or a generic one by
// "LEVEL/NAME". Both parts of a generic name may be numbers or, with or
// without their prefix, names: "SOL_TCP/TCP_SYNCNT", "IPPROTO_TCP/TCP_SYNCNT",
// "TCP/SYNCNT" and "6/7" all give the knob called "SOL_TCP/TCP_SYNCNT". A generic
// name for an option that the table has gives the table's knob, unless which
// option that knob sets depends on the socket's end or family.
func Lookup(name string) (*Knob, error) {
	if strings.Contains(name, "/") {
		return lookupGeneric(name)
	}
	for _, k := range table {
		if name == k.Name || name == k.Key() {
			return k, nil
		}
	}
	return nil, fmt.Errorf("unknown knob %q", name)
}

// compare orders knobs as they are set: the table's, then generic ones by name.
func compare(a, b *Knob) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
}

func rank(k *Knob) int {
	if i := slices.Index(table, k); i >= 0 {
		return i
	}
	return len(table)
}
