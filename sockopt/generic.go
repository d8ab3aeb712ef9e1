package sockopt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// level is a level of setsockopt(2): its canonical name and the other names
// that man pages and headers give it.
type level struct {
	name    string
	number  int
	aliases []string
	prefix  string // of its options' names
}

var levels = []level{
	{"SOL_SOCKET", unix.SOL_SOCKET, []string{"SOCKET"}, "SO_"},
	{"SOL_IP", unix.SOL_IP, []string{"IPPROTO_IP", "IP"}, "IP_"},
	{"SOL_TCP", unix.SOL_TCP, []string{"IPPROTO_TCP", "TCP"}, "TCP_"},
	{"SOL_UDP", unix.SOL_UDP, []string{"IPPROTO_UDP", "UDP"}, "UDP_"},
	{"SOL_IPV6", unix.SOL_IPV6, []string{"IPPROTO_IPV6", "IPV6"}, "IPV6_"},
}

// known is an integer option that can be asked for by name.
type known struct {
	option
	when         When
	listenerOnly bool
	codec        codec
	since        string
}

// others lists the integer options of Linux that are not in the table of
// knobs, or that a knob sets only for one end or family.
var others = []known{
	{option: option{"SO_DEBUG", unix.SOL_SOCKET, unix.SO_DEBUG}},
	{option: option{"SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR}, when: Handshake},
	{option: option{"SO_DONTROUTE", unix.SOL_SOCKET, unix.SO_DONTROUTE}},
	{option: option{"SO_BROADCAST", unix.SOL_SOCKET, unix.SO_BROADCAST}},
	{option: option{"SO_OOBINLINE", unix.SOL_SOCKET, unix.SO_OOBINLINE}},
	{option: option{"SO_NO_CHECK", unix.SOL_SOCKET, unix.SO_NO_CHECK}},
	{option: option{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT}, when: Handshake},
	{option: option{"SO_TIMESTAMP", unix.SOL_SOCKET, unix.SO_TIMESTAMP}},
	{option: option{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE}},
	{option: option{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE}, when: Handshake},
	{option: option{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS}},
	{option: option{"SO_TIMESTAMPING", unix.SOL_SOCKET, unix.SO_TIMESTAMPING}},
	{option: option{"SO_RXQ_OVFL", unix.SOL_SOCKET, unix.SO_RXQ_OVFL}},
	{option: option{"SO_PEEK_OFF", unix.SOL_SOCKET, unix.SO_PEEK_OFF}},
	{option: option{"SO_SELECT_ERR_QUEUE", unix.SOL_SOCKET, unix.SO_SELECT_ERR_QUEUE}},
	{option: option{"SO_ZEROCOPY", unix.SOL_SOCKET, unix.SO_ZEROCOPY}, since: "4.14"},
	{option: option{"SO_BINDTOIFINDEX", unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX}, when: Handshake, since: "5.0"},
	{option: option{"SO_PREFER_BUSY_POLL", unix.SOL_SOCKET, unix.SO_PREFER_BUSY_POLL}, since: "5.11"},
	{option: option{"SO_BUSY_POLL_BUDGET", unix.SOL_SOCKET, unix.SO_BUSY_POLL_BUDGET}, since: "5.11"},
	{option: option{"SO_BUF_LOCK", unix.SOL_SOCKET, unix.SO_BUF_LOCK}, since: "5.15"},
	{option: option{"SO_RESERVE_MEM", unix.SOL_SOCKET, unix.SO_RESERVE_MEM}, since: "5.16"},
	{option: option{"SO_TXREHASH", unix.SOL_SOCKET, unix.SO_TXREHASH}, since: "5.18"},
	{option: option{"SO_RCVMARK", unix.SOL_SOCKET, unix.SO_RCVMARK}, since: "5.19"},
	{option: option{"SO_RCVPRIORITY", unix.SOL_SOCKET, unix.SO_RCVPRIORITY}, since: "6.14"},

	{option: option{"IP_TOS", unix.SOL_IP, unix.IP_TOS}},
	{option: option{"IP_TTL", unix.SOL_IP, unix.IP_TTL}},
	{option: option{"IP_PKTINFO", unix.SOL_IP, unix.IP_PKTINFO}},
	{option: option{"IP_MTU_DISCOVER", unix.SOL_IP, unix.IP_MTU_DISCOVER}},
	{option: option{"IP_RECVERR", unix.SOL_IP, unix.IP_RECVERR}},
	{option: option{"IP_RECVTTL", unix.SOL_IP, unix.IP_RECVTTL}},
	{option: option{"IP_RECVTOS", unix.SOL_IP, unix.IP_RECVTOS}},
	{option: option{"IP_FREEBIND", unix.SOL_IP, unix.IP_FREEBIND}, when: Handshake},
	{option: option{"IP_TRANSPARENT", unix.SOL_IP, unix.IP_TRANSPARENT}, when: Handshake},
	{option: option{"IP_MINTTL", unix.SOL_IP, unix.IP_MINTTL}},
	{option: option{"IP_BIND_ADDRESS_NO_PORT", unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT}, when: Handshake, since: "4.2"},
	{option: option{"IP_LOCAL_PORT_RANGE", unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE}, when: Handshake, codec: codecUint32, since: "6.3"},

	{option: option{"TCP_KEEPIDLE", unix.SOL_TCP, unix.TCP_KEEPIDLE}},
	{option: option{"TCP_KEEPINTVL", unix.SOL_TCP, unix.TCP_KEEPINTVL}},
	{option: option{"TCP_KEEPCNT", unix.SOL_TCP, unix.TCP_KEEPCNT}},
	{option: option{"TCP_SYNCNT", unix.SOL_TCP, unix.TCP_SYNCNT}, when: Handshake},
	{option: option{"TCP_LINGER2", unix.SOL_TCP, unix.TCP_LINGER2}},
	{option: option{"TCP_DEFER_ACCEPT", unix.SOL_TCP, unix.TCP_DEFER_ACCEPT}, when: Handshake, listenerOnly: true},
	{option: option{"TCP_THIN_LINEAR_TIMEOUTS", unix.SOL_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS}},
	{option: option{"TCP_THIN_DUPACK", unix.SOL_TCP, unix.TCP_THIN_DUPACK}},
	{option: option{"TCP_FASTOPEN", unix.SOL_TCP, unix.TCP_FASTOPEN}, when: Handshake, listenerOnly: true},
	{option: option{"TCP_SAVE_SYN", unix.SOL_TCP, unix.TCP_SAVE_SYN}, when: Handshake, since: "4.2"},
	{option: option{"TCP_FASTOPEN_CONNECT", unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT}, when: Handshake, since: "4.11"},
	{option: option{"TCP_FASTOPEN_NO_COOKIE", unix.SOL_TCP, unix.TCP_FASTOPEN_NO_COOKIE}, when: Handshake, listenerOnly: true, since: "4.15"},
	{option: option{"TCP_INQ", unix.SOL_TCP, unix.TCP_INQ}, since: "4.18"},
	{option: option{"TCP_TX_DELAY", unix.SOL_TCP, unix.TCP_TX_DELAY}, since: "5.3"},
	{option: option{"TCP_RTO_MAX_MS", unix.SOL_TCP, unix.TCP_RTO_MAX_MS}, since: "6.15"},
	{option: option{"TCP_RTO_MIN_US", unix.SOL_TCP, unix.TCP_RTO_MIN_US}, since: "6.15"},
	{option: option{"TCP_DELACK_MAX_US", unix.SOL_TCP, unix.TCP_DELACK_MAX_US}, since: "6.15"},

	{option: option{"UDP_SEGMENT", unix.SOL_UDP, sys.UDP_SEGMENT}, since: "4.18"},
	{option: option{"UDP_GRO", unix.SOL_UDP, sys.UDP_GRO}, since: "5.0"},

	{option: option{"IPV6_UNICAST_HOPS", unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS}},
	{option: option{"IPV6_MTU_DISCOVER", unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER}},
	{option: option{"IPV6_MTU", unix.SOL_IPV6, unix.IPV6_MTU}},
	{option: option{"IPV6_RECVERR", unix.SOL_IPV6, unix.IPV6_RECVERR}},
	{option: option{"IPV6_RECVTCLASS", unix.SOL_IPV6, unix.IPV6_RECVTCLASS}},
	{option: option{"IPV6_DONTFRAG", unix.SOL_IPV6, unix.IPV6_DONTFRAG}},
	{option: option{"IPV6_TCLASS", unix.SOL_IPV6, unix.IPV6_TCLASS}},
	{option: option{"IPV6_AUTOFLOWLABEL", unix.SOL_IPV6, unix.IPV6_AUTOFLOWLABEL}},
	{option: option{"IPV6_MINHOPCOUNT", unix.SOL_IPV6, unix.IPV6_MINHOPCOUNT}},
	{option: option{"IPV6_TRANSPARENT", unix.SOL_IPV6, unix.IPV6_TRANSPARENT}, when: Handshake},
	{option: option{"IPV6_FREEBIND", unix.SOL_IPV6, unix.IPV6_FREEBIND}, when: Handshake, since: "4.15"},
}

// lookupGeneric finds the option called "LEVEL/NAME"; see [Lookup].
func lookupGeneric(name string) (*Knob, error) {
	levelName, optionName, _ := strings.Cut(name, "/")
	l, ok := findLevel(levelName)
	if !ok {
		return nil, fmt.Errorf("unknown knob %q: no level %q (SOL_SOCKET, SOL_IP, SOL_TCP, SOL_UDP, SOL_IPV6, or a number)", name, levelName)
	}
	number, numeric := parseOptionNumber(optionName)
	is := func(o option) bool {
		return o.level == l.number && o.name != "" &&
			(numeric && o.number == number || !numeric && (o.name == optionName || o.name == l.prefix+optionName))
	}
	for _, k := range table {
		if is(k.opt) && k.ipv6.name == "" && k.server.name == "" {
			return k, nil
		}
	}
	if i := slices.IndexFunc(others, func(o known) bool { return is(o.option) }); i >= 0 {
		return generic(l, others[i]), nil
	}
	if !numeric {
		return nil, fmt.Errorf("unknown knob %q: no integer option of that name at level %s; a number works as well", name, l.name)
	}
	return generic(l, known{option: option{strconv.Itoa(number), l.number, number}, when: Open}), nil
}

// generic makes the knob of an option outside the table.
func generic(l level, o known) *Knob {
	// Socket is the zero When but no moment of setsockopt.
	o.when = cmp.Or(o.when, Open)
	k := &Knob{
		Name:         l.name + "/" + o.name,
		Option:       o.name,
		Usage:        "socket option by level and name or number",
		When:         o.when,
		parse:        parseNumber,
		min:          math.MinInt32,
		max:          math.MaxInt32,
		judge:        judgeGeneric,
		listenerOnly: o.listenerOnly,
		codec:        o.codec,
		since:        o.since,
		opt:          o.option,
	}
	if o.codec == codecUint32 {
		k.min, k.max = 0, math.MaxUint32
	}
	return k
}

func findLevel(name string) (level, bool) {
	number, numeric := parseOptionNumber(name)
	for _, l := range levels {
		if numeric && l.number == number || l.name == name || slices.Contains(l.aliases, name) {
			return l, true
		}
	}
	return level{name: strconv.Itoa(number), number: number}, numeric
}

// parseOptionNumber reads a level's or an option's number, in the one decimal
// spelling that a canonical name has.
func parseOptionNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && s == strconv.FormatUint(n, 10)
}
