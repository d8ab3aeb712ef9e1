package options

import (
	"fmt"
	"strings"
)

// omniOptions are the options of the tests that are forms of OMNI.
var omniOptions = []option[*netperfParser]{
	{letter: 'a', help: "TCP_DEFER_ACCEPT on the remote end",
		set: flag(func(p *netperfParser) *bool { return &p.DeferAccept })},
	burstOption,
	{letter: 'B', help: "UDP: answer from the address that was asked",
		set: flag(func(p *netperfParser) *bool { return &p.PacketInfo })},
	{letter: 'c', help: "a connection for each transaction",
		set: flag(func(p *netperfParser) *bool { return &p.Connection })},
	corkOption,
	{letter: 'd', takes: value, shown: "direction", help: "OMNI: send, recv or rr, or bits: 2 to send, 4 to receive; several joined by |",
		set: setDirection},
	noDelayOption,
	{letter: 'e', takes: value, shown: "secs", help: "time limit for receiving on UDP sockets",
		set: func(p *netperfParser, arg argument) (err error) {
			p.Timeout, err = parseWait(arg.whole)
			return err
		}},
	{letter: 'f', help: "path MTU discovery on, both ends: don't fragment",
		set: flag(func(p *netperfParser) *bool { return &p.MTUDiscover })},
	{letter: 'F', help: "TCP Fast Open, both ends",
		set: flag(func(p *netperfParser) *bool { return &p.FastOpen })},
	{letter: 'g', help: "SO_DEBUG", idle: "Linux records nothing for it"},
	{letter: 'G', takes: value, shown: "bytes", help: "TCP_MAXSEG of the local end",
		set: one(count, func(p *netperfParser) *int { return &p.MSS })},
	helpOption,
	dataTargetOption,
	{letter: 'i', takes: value, shown: "x", help: "an option of the past", idle: "netperf has removed it"},
	{letter: 'I', help: "write() instead of send()", idle: "what goes through the kernel is the same",
		set: flag(func(p *netperfParser) *bool { return &p.UseWrite })},
	{letter: 'j', takes: value, shown: "n", help: "an option without a use", idle: "netperf doesn't use it either"},
	{letter: 'k', takes: spec, shown: "selectors", help: "print NAME=value for each selector: a list, a file that has one, all, or ? to list them",
		set: styled(Keyval)},
	{letter: 'K', takes: copied, shown: "local,remote", help: "names of congestion controls",
		set: each(storeCongestion, func(p *netperfParser) (_, _ *string) { return &p.Congestion.Local, &p.Congestion.Remote })},
	{letter: 'l', takes: value, shown: "hops", help: "time to live of multicast",
		set: one(hops, func(p *netperfParser) *int { return &p.TTL })},
	dataSourceOption,
	{letter: 'm', takes: apart, shown: "local,remote", help: "bytes per send, here and there",
		set: sizes(Transmit, Receive, func(p *netperfParser) (_, _ *int) { return &p.SendSize.Local, &p.SendSize.Remote })},
	{letter: 'M', takes: apart, shown: "remote,local", help: "bytes per receive, there and here: the remote end comes first",
		set: sizes(Transmit, Receive, func(p *netperfParser) (_, _ *int) { return &p.RecvSize.Remote, &p.RecvSize.Local })},
	connectedOption, remoteConnectedOption,
	{letter: 'o', takes: spec, shown: "selectors", help: "as -k, but a line of comma-separated values",
		set: styled(CSV)},
	{letter: 'O', takes: spec, shown: "selectors", help: "as -k, but aligned columns",
		set: styled(Human)},
	portRangeOption, dataPortOption,
	{letter: 'q', takes: value, shown: "n", help: "SO_MAX_PACING_RATE of the local end, bytes per second",
		set: func(p *netperfParser, arg argument) (err error) {
			p.PacingRate, err = pacingRate.parse(arg.whole)
			return err
		}},
	exchangeOption, routingOption, socketOption, remoteSocketOption,
	{letter: 't', takes: value, shown: "type", help: "type of socket: stream or dgram",
		set: func(p *netperfParser, arg argument) error {
			switch strings.ToLower(arg.whole) {
			case "stream":
				p.Datagram = ptr(false)
			case "dgram":
				p.Datagram = ptr(true)
			default:
				return fmt.Errorf("%q is not a type of socket", arg.whole)
			}
			return nil
		}},
	{letter: 'T', takes: value, shown: "protocol", help: "tcp, udp, udplite, sctp, dccp or sdp",
		set: func(p *netperfParser, arg argument) error {
			name := strings.ToLower(arg.whole)
			datagram, ok := protocols[name]
			if !ok {
				return fmt.Errorf("%q is not a protocol", arg.whole)
			}
			p.Protocol = name
			if datagram != nil {
				p.Datagram = ptr(*datagram)
			}
			return nil
		}},
	{letter: 'u', takes: value, shown: "text", help: "UUID of this run",
		set: func(p *netperfParser, arg argument) error {
			p.Data.UUID = arg.whole[:min(len(arg.whole), maxUUID)]
			return nil
		}},
	{letter: 'U', help: "try failing connects of connection tests again", idle: "they always are, and counted",
		set: flag(func(p *netperfParser) *bool { return &p.Retry })},
	copyAvoidanceOption,
	{letter: 'w', takes: value, shown: "x", help: "an option of the past", idle: waitIdle},
	widthOption, data4Option, data6Option,
}

// socketsOptions are the options of the tests that kept their own code:
// TCP_SENDFILE, TCP_CC and TCP_MSS.
var socketsOptions = []option[*netperfParser]{
	{letter: 'a', help: "asynchronous local I/O", idle: aioIdle},
	{letter: 'A', help: "asynchronous remote I/O", idle: aioIdle},
	burstOption, corkOption, noDelayOption, helpOption, dataTargetOption, dataSourceOption,
	{letter: 'm', takes: value, shown: "bytes", help: "bytes per send",
		set: size(func(p *netperfParser) *int { return &p.SendSize.Local })},
	{letter: 'M', takes: value, shown: "bytes", help: "bytes per receive of the remote end",
		set: size(func(p *netperfParser) *int { return &p.RecvSize.Remote })},
	connectedOption, remoteConnectedOption, portRangeOption, dataPortOption, exchangeOption,
	routingOption, socketOption, remoteSocketOption,
	{letter: 'T', takes: value, shown: "x", help: "an option of other tests", idle: "these tests are TCP"},
	copyAvoidanceOption,
	{letter: 'w', takes: value, shown: "x", help: "an option of the past", idle: waitIdle},
	widthOption,
	{letter: 'z', help: "an option of the past", idle: "netperf doesn't use it either"},
	data4Option, data6Option,
}

const (
	waitIdle = "netperf ignores it too"
	aioIdle  = "these tests do one operation at a time"
)

// Rows that both tables have.
var (
	burstOption = option[*netperfParser]{letter: 'b', takes: value, shown: "n", help: "so many more requests outstanding",
		set: one(count, func(p *netperfParser) *int { return &p.Data.Burst })}
	corkOption = option[*netperfParser]{letter: 'C', help: "TCP_CORK on the local end",
		set: flag(func(p *netperfParser) *bool { return &p.Cork })}
	noDelayOption = option[*netperfParser]{letter: 'D', help: "TCP_NODELAY on both ends",
		set: flag(func(p *netperfParser) *bool { return &p.NoDelay })}
	helpOption = option[*netperfParser]{letter: 'h', help: "this text",
		set: func(*netperfParser, argument) error { return errHelp }}
	dataTargetOption = option[*netperfParser]{letter: 'H', takes: apart, shown: "name[/mask],family",
		help: "where data connections go; with a mask, random bits behind so many that stay",
		set: func(p *netperfParser, arg argument) error {
			if arg.second != "" {
				p.in(arg.second, &p.DataTarget)
				p.DataFamily = p.DataTarget.Family
			}
			return storeMasked(arg.first, &p.DataTarget)
		}}
	dataSourceOption = option[*netperfParser]{letter: 'L', takes: apart, shown: "name[/mask],family",
		help: "where data connections come from; masked as -H",
		set: func(p *netperfParser, arg argument) error {
			if arg.second != "" {
				p.in(arg.second, &p.DataSource)
				if p.DataFamily == Unspecified {
					p.DataFamily = p.DataSource.Family
				}
			}
			return storeMasked(arg.first, &p.DataSource)
		}}
	connectedOption = option[*netperfParser]{letter: 'n', help: "connected UDP socket, local end", idle: "a socket of datagrams always is",
		set: flag(func(p *netperfParser) *bool { return &p.Connected.Local })}
	remoteConnectedOption = option[*netperfParser]{letter: 'N', help: "connected UDP socket, remote end",
		set: flag(func(p *netperfParser) *bool { return &p.Connected.Remote })}
	portRangeOption = option[*netperfParser]{letter: 'p', takes: copied, shown: "min,max", help: "local ports of connection tests; 0: the kernel's choice",
		set: setPortRange}
	dataPortOption = option[*netperfParser]{letter: 'P', takes: copied, shown: "local,remote", help: "ports of data connections; 0: any",
		set: each(anyPort.store, func(p *netperfParser) (_, _ *int) { return &p.DataPort.Local, &p.DataPort.Remote })}
	exchangeOption = option[*netperfParser]{letter: 'r', takes: copied, shown: "req,rsp", help: "bytes of a request and of its response (1,1)",
		set: func(p *netperfParser, arg argument) error {
			p.implied |= Both
			if err := exchangeSize.store(arg.first, &p.Request); err != nil {
				return err
			}
			return exchangeSize.store(arg.second, &p.Response)
		}}
	routingOption = option[*netperfParser]{letter: 'R', takes: value, shown: "0|1", help: "whether to route; 0: SO_DONTROUTE (0 for UDP streams, else 1)",
		set: func(p *netperfParser, arg argument) error {
			v, err := signed.parse(arg.whole)
			p.Routing = ptr(v != 0)
			return err
		}}
	socketOption = option[*netperfParser]{letter: 's', takes: copied, shown: "send,recv", help: "local socket buffers, bytes; -1: leave",
		set: each(bufferSize.store, func(p *netperfParser) (_, _ *int) { return &p.Socket.Local.Send, &p.Socket.Local.Recv })}
	remoteSocketOption = option[*netperfParser]{letter: 'S', takes: copied, shown: "send,recv", help: "remote socket buffers, bytes; -1: leave",
		set: each(bufferSize.store, func(p *netperfParser) (_, _ *int) { return &p.Socket.Remote.Send, &p.Socket.Remote.Recv })}
	copyAvoidanceOption = option[*netperfParser]{letter: 'V', help: "receive without copying, both ends",
		set: flag(func(p *netperfParser) *bool { return &p.CopyAvoidance })}
	widthOption = option[*netperfParser]{letter: 'W', takes: value, shown: "n", help: "number of local send buffers, used in turn",
		set: one(count, func(p *netperfParser) *int { return &p.Width.Send })}
	data4Option = option[*netperfParser]{letter: '4', help: "data connections over IPv4", set: dataFamilies(IPv4)}
	data6Option = option[*netperfParser]{letter: '6', help: "data connections over IPv6", set: dataFamilies(IPv6)}
)

func dataFamilies(f Family) setter {
	return func(p *netperfParser, _ argument) error {
		p.DataFamily, p.DataTarget.Family, p.DataSource.Family = f, f, f
		return nil
	}
}

// styled chooses a layout. The last choice counts, with its own selectors or
// the default set, whatever an earlier one listed.
func styled(s Style) setter {
	return func(p *netperfParser, arg argument) error {
		p.Style, p.Selectors = s, arg.whole
		return nil
	}
}

func setDirection(p *netperfParser, arg argument) error {
	d, err := parseDirection(arg.whole)
	if err != nil {
		return err
	}
	if p.Test != Omni {
		p.noEffect("-- -d: only OMNI has a direction to choose")
		return nil
	}
	p.Direction, p.directed = d, true
	return nil
}

// size stores a message size. 0 leaves the choice to the end, as no size does.
func size(at func(*netperfParser) *int) setter {
	return func(p *netperfParser, arg argument) error {
		if _, err := messageSize.parse(arg.whole); err != nil {
			return err
		}
		return storeSize(arg.whole, at(p))
	}
}

func storeSize(s string, to *int) error {
	err := messageSize.store(s, to)
	if *to == 0 {
		*to = Unset
	}
	return err
}

// sizes stores message sizes of both ends, and the directions that OMNI takes
// each as a sign of.
func sizes(first, second Direction, at func(*netperfParser) (first, second *int)) setter {
	return func(p *netperfParser, arg argument) error {
		if arg.first != "" {
			p.implied |= first
		}
		if arg.second != "" {
			p.implied |= second
		}
		return each(storeSize, at)(p, arg)
	}
}

func storeMasked(s string, to *Host) error {
	if s == "" {
		return nil
	}
	name, mask, err := parseMasked(s)
	if err == nil {
		to.Name, to.Mask = name, mask
	}
	return err
}

// Bounds of the local ports of connection tests when only one was given.
const (
	firstPort = 5000
	lastPort  = 65535
)

func setPortRange(p *netperfParser, arg argument) error {
	ports := [2]int{firstPort, lastPort}
	if arg.second == "0" && arg.first == "" {
		ports[0] = 0
	}
	if err := anyPort.store(arg.first, &ports[0]); err != nil {
		return err
	}
	if ports[0] == 0 {
		ports[1] = 0
	}
	if err := anyPort.store(arg.second, &ports[1]); err != nil {
		return err
	}
	if ports[0] > ports[1] || ports[0] == 0 && ports[1] != 0 {
		return fmt.Errorf("%q is not a range of ports", arg.whole)
	}
	p.Ports = ports
	return nil
}

func testUsage(names string, table []option[*netperfParser]) string {
	return usageHead + "\nTest options of " + names + ":\n" + usage(table) + usagePairs +
		"\nGlobal options: netperf -h\n"
}

func omniUsage() string {
	return testUsage("TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR, UDP_STREAM, UDP_RR and OMNI", omniOptions)
}

func socketsUsage() string {
	return testUsage("TCP_SENDFILE, TCP_CC and TCP_MSS", socketsOptions)
}
