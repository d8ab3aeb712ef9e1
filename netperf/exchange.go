package netperf

import (
	"errors"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"gperf/netperf/options"
	"gperf/netperf/output"
	"gperf/netperf/wire"
	"gperf/plan"
)

// An exchange is how a client's test is asked for and told of: the other side of a
// dialect.
type exchange struct {
	request  func(*trial) (wire.Message, error)
	response func(*trial, *wire.Message) error // fills in the trial's remote side
	results  func(*trial, *wire.Message) error
	// refused is the exit status when the server reports an error.
	refused int
}

var omniExchange = &exchange{omniRequest, readOmniResponse, readOmniResults, 255}

// exchanges are those of the tests that never moved to omni.
var exchanges = map[options.Test]*exchange{
	options.TCPSendfile: {sendfileRequest, readStreamResponse, readStreamResults, 1},
	options.TCPMSS:      {sendfileRequest, readStreamResponse, readStreamResults, 1},
	options.TCPCC:       {ccRequest, readCCResponse, readCCResults, 1},
}

// reverse is a direction as the server sees it.
func reverse(d options.Direction) (r wire.Direction) {
	if d&options.Transmit != 0 {
		r |= wire.DirectionReceive
	}
	if d&options.Receive != 0 {
		r |= wire.DirectionTransmit
	}
	return r
}

func wireFamily(a netip.Addr) wire.Family {
	if a.Is4() {
		return wire.FamilyIPv4
	}
	return wire.FamilyIPv6
}

// choice is a size, or that the server is to choose it.
func choice(n int) uint32 {
	if n <= 0 {
		return wire.ServerChooses
	}
	return uint32(n)
}

func omniRequest(t *trial) (wire.Message, error) {
	o, c := t.options, t.client
	r := wire.NewOmniRequest()
	r.SendBufSize, r.RecvBufSize = int32(o.Socket.Remote.Send), int32(o.Socket.Remote.Recv)
	r.SendSize, r.ReceiveSize = choice(o.SendSize.Remote), choice(o.RecvSize.Remote)
	r.SendAlignment, r.RecvAlignment = uint32(o.Align.Remote.Send), uint32(o.Align.Remote.Recv)
	r.SendOffset, r.RecvOffset = uint32(o.Offset.Remote.Send), uint32(o.Offset.Remote.Recv)
	r.SendWidth, r.RecvWidth = uint32(t.local.SendWidth), uint32(t.local.RecvWidth)
	r.RequestSize, r.ResponseSize = int32(o.Request), int32(o.Response)
	r.TestLength = int32(o.Length)
	r.CPURate = float32(o.CPURate.Remote)
	r.RecvAvoid, r.SendAvoid = o.CopyAvoidance, o.CopyAvoidance
	r.SendDirty, r.RecvDirty, r.RecvClean = int32(o.Dirty.Remote.Send), int32(o.Dirty.Remote.Send), int32(o.Dirty.Remote.Recv)
	r.DataPort = uint32(t.port)
	r.IPFamily = wireFamily(c.dataTarget)
	r.SocketType, r.Protocol = wire.SocketStream, unix.IPPROTO_TCP
	if c.datagrams() {
		r.SocketType, r.Protocol = wire.SocketDatagram, unix.IPPROTO_UDP
	}
	r.Direction = reverse(o.Direction)
	r.NetperfPort, r.NetperfIP = uint32(t.bound.Port()), t.bound.Addr()
	if o.DataTarget.Name != "" {
		r.NetserverIP = c.dataTarget
	}
	r.IntervalBurst, r.IntervalMicros = uint32(o.Pace.Remote.Burst), uint32(o.Pace.Remote.Interval.Microseconds())
	r.SocketPrio, r.SocketTOS = int32(o.Priority.Remote), int32(o.TOS.Remote)
	r.CongControl, r.FillFile = o.Congestion.Remote, o.Fill.Remote
	for _, f := range []struct {
		on   bool
		flag wire.Flags
	}{
		{t.noDelayWanted(), wire.FlagNoDelay},
		{o.Connection, wire.FlagConnectTest},
		{t.cpuWanted(), wire.FlagMeasureCPU},
		{c.routing(), wire.FlagRoutingAllowed},
		{o.FastOpen, wire.FlagFastOpen},
		{o.PacketInfo, wire.FlagUsePktinfo},
		{o.Connected.Remote, wire.FlagUseConnected},
		{o.DeferAccept, wire.FlagWantDeferAccept},
		{o.MTUDiscover, wire.FlagUseMTUDiscover},
		{o.KeepAlive, wire.FlagWantKeepalive},
	} {
		if f.on {
			r.Flags |= f.flag
		}
	}
	return r.Encode(int32(o.Bind.Remote))
}

// routing reports whether packets may be routed: not those of one-way UDP unless
// that was asked for, as in netperf, so that a mistyped address doesn't flood
// somebody else's network.
func (c *Client) routing() bool {
	if r := c.Options.Routing; r != nil {
		return *r
	}
	return !c.datagrams() || c.Options.Direction == options.Both
}

func readOmniResponse(t *trial, m *wire.Message) error {
	r, err := wire.ParseOmniResponse(m)
	if err != nil {
		return err
	}
	s := &t.remote
	s.SendBuffer, s.RecvBuffer = int(r.SendBufSize), int(r.RecvBufSize)
	s.SendSize, s.RecvSize = int(int32(r.SendSize)), int(int32(r.ReceiveSize))
	s.SendWidth, s.RecvWidth = int(r.SendWidth), int(r.RecvWidth)
	s.NoDelay = r.Flags&wire.FlagNoDelay != 0
	s.Priority, s.TOS = int(r.SocketPrio), int(r.SocketTOS)
	t.remoteCPU = t.cpuWanted() && r.Flags&wire.FlagMeasureCPU != 0
	return t.agree(r.DataPort)
}

func readOmniResults(t *trial, m *wire.Message) error {
	r, err := wire.ParseOmniResults(m, wire.Layout27)
	if err != nil {
		return err
	}
	s := &t.remote
	s.BytesSent, s.BytesReceived = r.BytesSent, r.BytesReceived
	s.SendCalls, s.RecvCalls = uint64(r.SendCalls), uint64(r.RecvCalls)
	s.SendBufferEnd, s.RecvBufferEnd = int(r.SendBufSize), int(r.RecvBufSize)
	s.Retransmits, s.Congestion = int(r.TransportRetrans), r.CongControl
	t.remoteTransactions = uint64(r.TransReceived)
	if t.remoteCPU {
		s.CPU = &output.CPU{
			Util: float64(r.CPUPercent), User: float64(r.CPUPercentUser), System: float64(r.CPUPercentSystem),
			IOWait: float64(r.CPUPercentIowait), IRQ: float64(r.CPUPercentIRQ), SoftIRQ: float64(r.CPUPercentSoftIRQ),
			Count: int(r.NumCPUs), PeakUtil: float64(r.PeakCPUPercent), PeakID: int(r.PeakCPUID), Method: methodLetter(r.CPUMethod),
		}
	}
	return nil
}

// methodLetter is how netperf shows a way of measuring CPU utilisation.
func methodLetter(m wire.CPUMethod) byte {
	letters := map[wire.CPUMethod]byte{
		wire.CPUUnknown: 'U', wire.CPUIdle: 'I', wire.CPUPstat: 'P', wire.CPUTimes: 'T', wire.CPULooper: 'L',
		wire.CPUGetrusage: 'R', wire.CPUNT: 'N', wire.CPUKstat: 'K', wire.CPUProcStat: 'S', wire.CPUSysctl: 'C',
		wire.CPUPerfstat: 'E', wire.CPUKstat10: 'M', wire.CPUOSX: 'O',
	}
	if l, ok := letters[m]; ok {
		return l
	}
	return '?'
}

func sendfileRequest(t *trial) (wire.Message, error) {
	o := t.options
	r := wire.StreamRequest{
		Type:        wire.TypeTCPStream,
		SendBufSize: int32(o.Socket.Remote.Send), RecvBufSize: int32(o.Socket.Remote.Recv),
		MessageSize: int32(max(o.RecvSize.Remote, 0)), Alignment: int32(o.Align.Remote.Recv), Offset: int32(o.Offset.Remote.Recv),
		NoDelay: t.noDelayWanted(), MeasureCPU: t.cpuWanted(), CPURate: float32(o.CPURate.Remote),
		RecvAvoid: o.CopyAvoidance, SendAvoid: o.CopyAvoidance, Port: int32(t.port), IPFamily: wireFamily(t.client.dataTarget),
	}
	// A count has no sign here.
	r.TestLength = int32(min(max(o.Length, -o.Length), math.MaxInt32))
	return r.Encode(int32(o.Bind.Remote))
}

func readStreamResponse(t *trial, m *wire.Message) error {
	r, err := wire.ParseStreamResponse(m)
	if err != nil {
		return err
	}
	s := &t.remote
	s.SendBuffer, s.RecvBuffer, s.RecvSize, s.SendSize = int(r.SendBufSize), int(r.RecvBufSize), int(r.MessageSize), -1
	s.NoDelay = r.NoDelay
	t.remoteCPU = t.cpuWanted() && r.MeasureCPU
	return t.agree(uint32(r.DataPort))
}

func readStreamResults(t *trial, m *wire.Message) error {
	r, err := wire.ParseStreamResults(m)
	if err != nil {
		return err
	}
	t.remote.BytesReceived, t.remote.RecvCalls = uint64(max(r.Bytes, 0)), uint64(r.Calls)
	t.remote.CPU = t.classicCPU(r.CPUPercent, r.CPUMethod, r.NumCPUs)
	return nil
}

// classicCPU is what the classic results tell of the remote CPUs, nil when they
// weren't measured.
func (t *trial) classicCPU(percent float32, method wire.CPUMethod, count int32) *output.CPU {
	if !t.remoteCPU {
		return nil
	}
	return &output.CPU{Util: float64(percent), Count: int(count), Method: methodLetter(method), PeakID: -1, PeakUtil: -1}
}

func ccRequest(t *trial) (wire.Message, error) {
	o := t.options
	r := wire.TransactionRequest{
		Type:        wire.TypeTCPCC,
		RecvBufSize: int32(o.Socket.Remote.Recv), SendBufSize: int32(o.Socket.Remote.Send),
		RecvAlignment: int32(o.Align.Remote.Recv), RecvOffset: int32(o.Offset.Remote.Recv),
		SendAlignment: int32(o.Align.Remote.Send), SendOffset: int32(o.Offset.Remote.Send),
		RequestSize: int32(o.Request), ResponseSize: int32(o.Response), NoDelay: t.noDelayWanted(), MeasureCPU: t.cpuWanted(),
		CPURate: float32(o.CPURate.Remote), TestLength: int32(o.Length), Port: int32(t.port), IPFamily: wireFamily(t.client.dataTarget),
	}
	return r.Encode(int32(o.Bind.Remote))
}

func readCCResponse(t *trial, m *wire.Message) error {
	r, err := wire.ParseTransactionResponse(m)
	if err != nil {
		return err
	}
	t.remote.SendBuffer, t.remote.RecvBuffer, t.remote.NoDelay = int(r.SendBufSize), int(r.RecvBufSize), r.NoDelay
	t.remoteCPU = t.cpuWanted() && r.MeasureCPU
	return t.agree(uint32(r.DataPort))
}

func readCCResults(t *trial, m *wire.Message) error {
	r, err := wire.ParseTransactionResults(m)
	if err != nil {
		return err
	}
	t.remoteTransactions = uint64(r.TransReceived)
	// netserver leaves the method out of these results, and the CPUs with it when
	// no other test came before: then the local number stands in for it.
	t.remote.CPU = t.classicCPU(r.CPUPercent, wire.CPUProcStat, r.NumCPUs)
	return nil
}

// agree notes the data port that the server offers.
func (t *trial) agree(port uint32) error {
	if port == 0 || port > math.MaxUint16 {
		return errNoPort
	}
	t.port = int(port)
	t.client.debug("remote port is %d", port)
	return nil
}

var errNoPort = errors.New("the server offers no port")

// role is what the client does with the test's data.
func (c *Client) role() plan.Role {
	switch c.Options.Direction {
	case options.Transmit:
		return plan.Sender
	case options.Receive:
		return plan.Receiver
	}
	return plan.Requester
}

// carrier is what carries it.
func (c *Client) carrier() plan.Carrier {
	switch {
	case c.datagrams():
		return plan.Datagrams
	case c.Options.Connection:
		return plan.Connections
	}
	return plan.Connection
}

func (c *Client) datagrams() bool {
	switch o := c.Options; {
	case o.Protocol != "":
		return o.Protocol == "udp"
	case o.Datagram != nil:
		return *o.Datagram
	default:
		return o.Test == options.UDPStream || o.Test == options.UDPRR
	}
}
