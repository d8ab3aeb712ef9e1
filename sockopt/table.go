package sockopt

import (
	"math"

	"golang.org/x/sys/unix"
)

// table holds the knobs in the order in which they are set. Order matters
// where one option disturbs another: IP_TOS rewrites SO_PRIORITY (ip(7)), so
// priority comes later; SO_RCVLOWAT enlarges a receive buffer unless one was
// set before it.
//
// Adding a knob is adding a row: name, help, moment, value and judgement.
var table = []*Knob{
	{
		// socket(7). Linux doubles the value, after capping it at wmem_max; at
		// least 4608 on 64-bit machines. Setting it ends autotuning.
		Name: "sndbuf", Unit: "bytes", When: Open,
		Usage: "send buffer size; the kernel doubles it, up to twice net.core.wmem_max",
		parse: parseSize, max: math.MaxInt32, judge: judgeBuffer("net.core.wmem_max"), always: true,
		opt:   option{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF},
		force: option{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE},
	},
	{
		// socket(7). As sndbuf, with rmem_max and at least 2304. It must precede
		// the handshake, because the window scale is chosen there (tcp(7)).
		Name: "rcvbuf", Unit: "bytes", When: Handshake,
		Usage: "receive buffer size; the kernel doubles it, up to twice net.core.rmem_max",
		parse: parseSize, max: math.MaxInt32, judge: judgeBuffer("net.core.rmem_max"), always: true,
		opt:   option{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF},
		force: option{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE},
	},
	{
		// tcp(7). Setting it also pushes what a cork holds back.
		Name: "nodelay", When: Open, IsBool: true,
		Usage: "send small segments at once instead of collecting them (Nagle off)",
		parse: parseBool, max: 1, judge: judgeExact, always: true,
		opt: option{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY},
	},
	{
		// tcp(7). Corked data leaves after at most 200 ms.
		Name: "cork", When: Ready, IsBool: true,
		Usage: "send full segments only, or after 200 ms",
		parse: parseBool, max: 1, judge: judgeExact,
		opt: option{"TCP_CORK", unix.IPPROTO_TCP, unix.TCP_CORK},
	},
	{
		// tcp(7). Not sticky: the kernel leaves the mode when the connection
		// looks interactive, and enters it at the handshake, whatever was set
		// before (seen on 6.18: off before connect reads on after it).
		Name: "quickack", When: Ready, IsBool: true,
		Usage: "acknowledge at once; the kernel may leave this mode by itself",
		parse: parseBool, max: 1, judge: judgeDrifting("the kernel enters and leaves quick-ACK mode by itself"),
		opt: option{"TCP_QUICKACK", unix.IPPROTO_TCP, unix.TCP_QUICKACK},
	},
	{
		// tcp(7). Set on an established connection it has no effect. Read, it is
		// the current MSS: less TCP's own options, and growing with the window.
		Name: "mss", Unit: "bytes", When: Handshake,
		Usage: "largest segment to offer and to send, before TCP options",
		parse: parseSize, min: 88, max: 32767, judge: judgeMSS, always: true,
		opt: option{"TCP_MAXSEG", unix.IPPROTO_TCP, unix.TCP_MAXSEG},
	},
	{
		// tcp(7). Without CAP_NET_ADMIN only tcp_allowed_congestion_control.
		Name: "congestion", When: Open,
		Usage: "congestion control algorithm by name",
		codec: codecString, parse: parseName, judge: judgeExact, hint: congestionHint, always: true,
		opt: option{"TCP_CONGESTION", unix.IPPROTO_TCP, unix.TCP_CONGESTION},
	},
	{
		// Linux 3.12. 0 stands for the sysctl tcp_notsent_lowat.
		Name: "notsent-lowat", Unit: "bytes", When: Open,
		Usage: "limit of unsent bytes in the send queue before a socket is writable",
		codec: codecUint32, parse: parseSize, max: math.MaxUint32, judge: judgeExact, since: "3.12",
		opt: option{"TCP_NOTSENT_LOWAT", unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT},
	},
	{
		// tcp(7). At least half the smallest receive buffer, 1152. It only
		// shapes the handshake: the kernel moves it as it autotunes (6.18).
		Name: "window-clamp", Unit: "bytes", When: Handshake,
		Usage: "upper bound of the advertised window; newer kernels don't hold it",
		parse: parseSize, min: 1, max: math.MaxInt32, judge: judgeClamp,
		opt: option{"TCP_WINDOW_CLAMP", unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP},
	},
	{
		// tcp(7), Linux 2.6.37. On the client it also bounds connect.
		Name: "user-timeout", Unit: "milliseconds", When: Open,
		Usage: "time that sent data may stay unacknowledged (ms, or 30s)",
		parse: parseMilliseconds, max: math.MaxInt32, judge: judgeExact,
		opt: option{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
	},
	{
		// Linux 3.13, 64 bits since 4.20. All ones, no limit, reads as unset.
		Name: "pacing-rate", Unit: "bytes_per_second", When: Ready,
		Usage: "limit of the sending rate in bits per second (10G, 100Mbit)",
		codec: codecUint64, parse: parseRate, min: 1, max: math.MaxInt64, judge: judgeExact, since: "3.13",
		opt: option{"SO_MAX_PACING_RATE", unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE},
	},
	{
		// ip(7), ipv6(7). The kernel keeps the two ECN bits of a TCP socket for
		// itself. IP_TOS also sets SO_PRIORITY; IPV6_TCLASS doesn't.
		Name: "tos", When: Open,
		Usage: "IP type of service or traffic class: 0-255, 0x.., or a DSCP name (cs1, af41, ef)",
		parse: parseTOS, max: 255, judge: judgeTOS,
		opt:  option{"IP_TOS", unix.IPPROTO_IP, unix.IP_TOS},
		ipv6: option{"IPV6_TCLASS", unix.IPPROTO_IPV6, unix.IPV6_TCLASS},
	},
	{
		// socket(7). Above 6 it needs CAP_NET_ADMIN or, since Linux 5.16, CAP_NET_RAW.
		Name: "priority", When: Open,
		Usage: "queueing priority: 0-6, above with privilege",
		codec: codecUint32, parse: parseNumber, max: math.MaxUint32, judge: judgeExact, needs: "above 6 needs CAP_NET_ADMIN or CAP_NET_RAW",
		opt: option{"SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY},
	},
	{
		// socket(7), Linux 2.6.25. Needs CAP_NET_ADMIN or, since Linux 5.17, CAP_NET_RAW.
		Name: "mark", When: Open,
		Usage: "packet mark for filters and routes; needs privilege",
		codec: codecUint32, parse: parseNumber, max: math.MaxUint32, judge: judgeExact, needs: "needs CAP_NET_ADMIN or CAP_NET_RAW",
		opt: option{"SO_MARK", unix.SOL_SOCKET, unix.SO_MARK},
	},
	{
		// socket(7), Linux 3.11, CONFIG_NET_RX_BUSY_POLL. Does nothing for a
		// socket whose packets came without a NAPI id, as on lo and veth.
		Name: "busy-poll", Unit: "microseconds", When: Open,
		Usage: "time to poll the device's queue when there is no data",
		parse: parseNumber, max: math.MaxInt32, judge: judgeBusyPoll, since: "3.11",
		opt: option{"SO_BUSY_POLL", unix.SOL_SOCKET, unix.SO_BUSY_POLL},
	},
	{
		// socket(7). Inherited by accepted sockets.
		Name: "bind-device", When: Handshake,
		Usage: "network device to send and receive on, by name",
		codec: codecString, parse: parseName, judge: judgeExact, needs: "needs CAP_NET_RAW",
		opt: option{"SO_BINDTODEVICE", unix.SOL_SOCKET, unix.SO_BINDTODEVICE},
	},
	{
		// ip(7), ipv6(7).
		Name: "mtu-discover", When: Open,
		Usage: "path MTU discovery: dont, want, do, probe, interface, omit, or 0-5",
		parse: parseMTUDiscover, max: unix.IP_PMTUDISC_OMIT, judge: judgeExact,
		opt:  option{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER},
		ipv6: option{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER},
	},
	{
		// RFC 7413; client 4.11, server 3.7. Two options under one name: a
		// switch on the client, a queue length on the listener. The sysctl
		// tcp_fastopen has a bit for each (1 client, 2 server).
		Name: "fastopen", When: Handshake,
		Usage: "TCP Fast Open: on, off, or the length of the server's queue",
		parse: parseFastOpen, max: math.MaxInt32, judge: judgeFastOpen, listenerOnly: true,
		hint: fastopenHint, since: "4.11",
		opt:    option{"TCP_FASTOPEN_CONNECT", unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT},
		server: option{"TCP_FASTOPEN", unix.IPPROTO_TCP, unix.TCP_FASTOPEN},
	},
	{
		// RFC 8684, Linux 5.6. An argument of socket(2), read as TCP_IS_MPTCP.
		Name: "mptcp", Option: "IPPROTO_MPTCP", When: Socket, IsBool: true,
		Usage: "use Multipath TCP",
		parse: parseBool, max: 1, judge: judgeMPTCP, since: "5.6", read: readMPTCP,
	},
	{
		// socket(7).
		Name: "keepalive", When: Open, IsBool: true,
		Usage: "send keep-alive probes on an idle connection",
		parse: parseBool, max: 1, judge: judgeExact,
		opt: option{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE},
	},
	{
		// socket(7). 0 makes close send a reset. Larger times may block close.
		Name: "linger", Unit: "seconds", When: Open,
		Usage: "time that close waits for unsent data: seconds, 0 to reset, or off",
		codec: codecLinger, parse: parseLinger, max: math.MaxInt32, judge: judgeExact,
		opt: option{"SO_LINGER", unix.SOL_SOCKET, unix.SO_LINGER},
	},
	{
		// socket(7). Capped at half the receive buffer, or half tcp_rmem[2]
		// while that is autotuned; then it enlarges the buffer to twice itself.
		Name: "rcvlowat", Unit: "bytes", When: Ready,
		Usage: "bytes that must be there before a receive call returns",
		parse: parseSize, min: 1, max: math.MaxInt32, judge: judgeLowat,
		opt: option{"SO_RCVLOWAT", unix.SOL_SOCKET, unix.SO_RCVLOWAT},
	},
	{
		// socket(7), Linux 3.19. On a connection each packet overwrites it with
		// the CPU that handled it, the SYN-ACK first of all.
		Name: "incoming-cpu", When: Open,
		Usage: "CPU whose packets the socket prefers; the kernel overwrites it",
		parse: parseNumber, max: math.MaxInt32, judge: judgeDrifting("on a connection it reads the CPU that handled the last packet"),
		since: "3.19",
		opt:   option{"SO_INCOMING_CPU", unix.SOL_SOCKET, unix.SO_INCOMING_CPU},
	},
}

func init() {
	for _, k := range table {
		if k.Option == "" {
			k.Option = k.opt.name
		}
		if k.server.name != "" {
			k.Option += ", " + k.server.name
		}
		if k.ipv6.name != "" {
			k.Option += ", " + k.ipv6.name
		}
	}
}
