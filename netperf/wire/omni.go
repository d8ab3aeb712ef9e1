package wire

import (
	"math"
	"net/netip"
)

// Flags are the switches of an OmniRequest, and of an OmniResponse those in
// effect (netperf 2.7, message layout).
type Flags uint32

// The flags. In a response only FlagNoDelay and FlagMeasureCPU mean anything.
const (
	FlagNoDelay         Flags = 1 << 0 // TCP_NODELAY on
	FlagUseSendfile     Flags = 1 << 1 // ignored by servers
	FlagConnectTest     Flags = 1 << 2 // a new connection for each transaction
	FlagMeasureCPU      Flags = 1 << 3 // measure the server's CPU utilization
	FlagChecksumOff     Flags = 1 << 4 // never set
	FlagRoutingAllowed  Flags = 1 << 5 // clear: SO_DONTROUTE on; see FlagWantCongControl
	FlagWantIfname      Flags = 1 << 6 // this and the next three: ignored by 2.7
	FlagWantIfslot      Flags = 1 << 7
	FlagWantIfids       Flags = 1 << 8
	FlagWantDrvinfo     Flags = 1 << 9
	FlagCheckInterval   Flags = 1 << 10 // never set
	FlagFastOpen        Flags = 1 << 11 // TCP_FASTOPEN on the listening socket
	FlagManageFirewall  Flags = 1 << 12 // never set
	FlagUsePktinfo      Flags = 1 << 13 // answer from the address that a datagram was sent to
	FlagUseConnected    Flags = 1 << 14 // connect the UDP socket to the first sender
	FlagWantDeferAccept Flags = 1 << 15 // TCP_DEFER_ACCEPT on the listening socket
	FlagUseMTUDiscover  Flags = 1 << 16 // IP_MTU_DISCOVER set to IP_PMTUDISC_DO
	FlagWantKeepalive   Flags = 1 << 31 // SO_KEEPALIVE on the data socket

	// FlagWantCongControl asks for the name of the congestion control in the
	// results. netperf gave it the bit of FlagRoutingAllowed.
	FlagWantCongControl = FlagRoutingAllowed
)

// Direction says which way data flows, as the server sees it (netperf 2.7,
// message layout). Both bits are a request/response test, none is a test that
// only connects and closes.
type Direction uint32

// The bits of a Direction.
const (
	DirectionTransmit Direction = 2 // the server transmits
	DirectionReceive  Direction = 4 // the server receives
)

// A SocketType is a kind of socket in netperf's own numbers.
type SocketType uint32

// The socket types (netperf 2.7, message layout).
const (
	SocketStream    SocketType = 1
	SocketDatagram  SocketType = 2
	SocketDCCP      SocketType = 3
	SocketSeqpacket SocketType = 4
	SocketUnknown   SocketType = math.MaxUint32
)

// ServerChooses is a message size in an OmniRequest that is left to the server.
const ServerChooses uint32 = math.MaxUint32

// CPUMethod is how an end measures its CPU utilization (netperf 2.7).
type CPUMethod uint32

// The methods.
const (
	CPUUnknown   CPUMethod = 0 // not measured yet
	CPUIdle      CPUMethod = 1 // HP-UX idle counter
	CPUPstat     CPUMethod = 2
	CPUTimes     CPUMethod = 3
	CPULooper    CPUMethod = 4
	CPUGetrusage CPUMethod = 5
	CPUNT        CPUMethod = 6
	CPUKstat     CPUMethod = 7
	CPUProcStat  CPUMethod = 8 // Linux /proc/stat
	CPUSysctl    CPUMethod = 9
	CPUPerfstat  CPUMethod = 10
	CPUKstat10   CPUMethod = 11
	CPUOSX       CPUMethod = 12
)

// An OmniRequest asks for a test of type TypeOmni: what the server's data
// socket is to be like and what to do with it (netperf 2.6 and 2.7, message
// layout). Many fields are not 0 when nothing is asked for: begin with
// NewOmniRequest. Unless a field says otherwise it is about the server, and
// sizes are in bytes.
type OmniRequest struct {
	SendBufSize   int32  // SO_SNDBUF to set; negative: leave
	SendSize      uint32 // per send in a stream test, or ServerChooses
	SendAlignment uint32 // of send buffers
	SendOffset    uint32 // of send buffers, past the alignment
	SendWidth     uint32 // buffers in the ring that the client sends from; 0: it doesn't
	RequestSize   int32  // of a request; -1: no request/response test
	RecvBufSize   int32  // SO_RCVBUF to set; negative: leave
	ReceiveSize   uint32 // per receive in a stream test, or ServerChooses
	RecvAlignment uint32 // of receive buffers
	RecvOffset    uint32 // of receive buffers, past the alignment
	RecvWidth     uint32 // buffers in the ring that the client receives into; 0: it doesn't
	ResponseSize  int32  // of a response; -1: no request/response test
	Flags         Flags
	CPURate       float32 // calibration that is given, in the unit of CPUCalibration; 0: none
	TestLength    int32   // seconds; negative: minus the bytes (streams) or transactions; 0: until the client stops
	RecvAvoid     bool    // so_rcvavoid: receive without copying
	SendAvoid     bool    // so_sndavoid: send without copying; no effect on Linux
	SendDirty     int32   // send_dirty_count; -1: not asked for
	RecvDirty     int32   // recv_dirty_count; -1: not asked for
	RecvClean     int32   // recv_clean_count; -1: not asked for
	DataPort      uint32  // to bind; 0: any
	IPFamily      Family  // of the data socket and the addresses below
	SocketType    SocketType
	Protocol      uint32 // IP protocol number: 6 TCP, 17 UDP
	Direction     Direction
	NetperfPort   uint32 // of the client's data socket; 0: not bound yet

	IntervalBurst  uint32 // sends or receives per interval; 0: no pacing
	IntervalMicros uint32 // interval_usecs: microseconds from burst to burst

	// NetperfIP is the address of the client's data socket and NetserverIP the
	// one for the server to bind. The zero Addr is the wildcard address, or
	// none; unspecified addresses are written and read as that. Others must be
	// of IPFamily, and with a family other than IPv4 and IPv6 there are none.
	// A zone isn't sent.
	NetperfIP, NetserverIP netip.Addr

	SocketPrio  int32  // SO_PRIORITY to set; negative: leave
	SocketTOS   int32  // IP_TOS or IPV6_TCLASS to set; 0 and negative: leave
	CongControl string // TCP_CONGESTION to set, at most 15 bytes; empty: leave
	FillFile    string // file that the server fills its send buffers from, at most 31 bytes; empty: none
}

// NewOmniRequest returns a request that asks for nothing: the values that a
// netperf client sends in fields that no option has set. What test it is, and
// its family, are still to be filled in.
func NewOmniRequest() OmniRequest {
	return OmniRequest{
		SendBufSize: -1, SendSize: ServerChooses, SendAlignment: 8, RequestSize: -1,
		RecvBufSize: -1, ReceiveSize: ServerChooses, RecvAlignment: 8, ResponseSize: -1,
		SendDirty: -1, RecvDirty: -1, RecvClean: -1,
		SocketPrio: -1, SocketTOS: -1,
	}
}

func (r *OmniRequest) walk(c *cursor) {
	c.i32(&r.SendBufSize)
	c.u32(&r.SendSize, &r.SendAlignment, &r.SendOffset, &r.SendWidth)
	c.i32(&r.RequestSize, &r.RecvBufSize)
	c.u32(&r.ReceiveSize, &r.RecvAlignment, &r.RecvOffset, &r.RecvWidth)
	c.i32(&r.ResponseSize)
	c.u32((*uint32)(&r.Flags))
	c.f32(&r.CPURate)
	c.i32(&r.TestLength)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
	c.i32(&r.SendDirty, &r.RecvDirty, &r.RecvClean)
	c.u32(&r.DataPort, (*uint32)(&r.IPFamily), (*uint32)(&r.SocketType), &r.Protocol)
	c.u32((*uint32)(&r.Direction), &r.NetperfPort, &r.IntervalBurst, &r.IntervalMicros)
	c.addr("netperf_ip", &r.NetperfIP, r.IPFamily)
	c.addr("netserver_ip", &r.NetserverIP, r.IPFamily)
	c.i32(&r.SocketPrio, &r.SocketTOS)
	c.text("cong_control", &r.CongControl, 16)
	c.text("fill_file", &r.FillFile, 32)
}

// Encode returns the request as a message. affinity is the CPU that the server
// is to bind itself to, or NoAffinity. A string that doesn't fit and an
// address of another family are errors.
func (r OmniRequest) Encode(affinity int32) (Message, error) {
	return encode(TypeOmni, affinity, r.walk)
}

// ParseOmniRequest reads a request. A message of another type is an error.
func ParseOmniRequest(m *Message) (OmniRequest, error) {
	if err := m.checkType(TypeOmni); err != nil {
		return OmniRequest{}, err
	}
	var r OmniRequest
	decode(m, r.walk)
	return r, nil
}

// An OmniResponse says that the server has its data socket and what is in
// effect on it before there is a connection (netperf 2.6 and 2.7, message
// layout). Sizes are in bytes.
type OmniResponse struct {
	RecvBufSize    int32   // SO_RCVBUF
	ReceiveSize    uint32  // per receive if the server receives, else as requested
	RecvWidth      int32   // buffers in the ring it receives into, or as requested
	SendBufSize    int32   // SO_SNDBUF
	SendSize       uint32  // per send if the server sends, else as requested
	SendWidth      int32   // buffers in the ring it sends from, or as requested
	Flags          Flags   // FlagNoDelay in effect, FlagMeasureCPU will be; others are junk
	CPURate        float32 // see CPUCalibration; 0: CPU isn't measured
	TestLength     uint32  // never set: junk
	RecvAvoid      bool    // as requested
	SendAvoid      bool    // as requested
	DataPort       uint32  // to connect or send to
	IntervalBurst  uint32  // as requested; 0: the server can't pace
	IntervalMicros uint32  // as requested; 0: the server can't pace
	CPUMHz         uint32  // cpu_frequency; 0 in 2.7
	SecurityInfo   uint32  // type<<16 | whether it is enabled; 0 in 2.7
	SocketPrio     int32   // SO_PRIORITY; -1: not set
	SocketTOS      int32   // IP_TOS or IPV6_TCLASS; -1: not set
	SystemModel    string  // at most 32 bytes; empty in 2.7
	CPUModel       string  // at most 79 bytes; empty in 2.7
	SecurityString string  // at most 15 bytes; empty in 2.7
}

func (r *OmniResponse) walk(c *cursor) {
	c.i32(&r.RecvBufSize)
	c.u32(&r.ReceiveSize)
	c.i32(&r.RecvWidth, &r.SendBufSize)
	c.u32(&r.SendSize)
	c.i32(&r.SendWidth)
	c.u32((*uint32)(&r.Flags))
	c.f32(&r.CPURate)
	c.u32(&r.TestLength)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
	c.u32(&r.DataPort, &r.IntervalBurst, &r.IntervalMicros, &r.CPUMHz, &r.SecurityInfo)
	c.i32(&r.SocketPrio, &r.SocketTOS)
	c.text("system_model", &r.SystemModel, 33)
	c.text("cpu_model", &r.CPUModel, 80)
	c.text("security_string", &r.SecurityString, 16)
}

// Encode returns the response as a message with a serv_errno of 0. A string
// that doesn't fit is an error. A server that refuses sends New instead, with
// TypeOmniResponse and the errno.
func (r OmniResponse) Encode() (Message, error) { return encode(TypeOmniResponse, 0, r.walk) }

// ParseOmniResponse reads a response, whatever its type says. A serv_errno is
// returned as a RemoteError, with what else is in the message.
func ParseOmniResponse(m *Message) (OmniResponse, error) {
	var r OmniResponse
	decode(m, r.walk)
	return r, m.remoteError()
}

// A Layout is one of the two ways in which OmniResults are laid out.
type Layout int

// The layouts. Nothing in a request tells which a client reads, but a client
// of 2.6 sends TypeSysInfo first.
const (
	Layout27 Layout = iota // netperf 2.7
	Layout26               // netperf 2.6: without CPUPercentUser to CPUPercentSoftIRQ
)

// OmniResults is what the server counted and measured in a test (netperf 2.6
// and 2.7, message layout). The fields from CPUPercent to PeakCPUPercent are
// junk unless the response had FlagMeasureCPU.
type OmniResults struct {
	BytesReceived  uint64  // bytes
	RecvCalls      uint32  // receives that returned data, modulo 1<<32
	RecvBufSize    int32   // SO_RCVBUF at the end, bytes
	BytesSent      uint64  // bytes, of complete sends
	SendCalls      uint32  // complete sends, modulo 1<<32
	SendBufSize    int32   // SO_SNDBUF at the end, bytes
	FailedSends    uint32  // never set: junk
	TransReceived  uint32  // transactions; 0 in a stream test
	ElapsedSeconds float32 // elapsed_time, by the server's clock

	CPUPercent        float32 // cpu_util, 0 to 100, over all CPUs
	CPUPercentUser    float32 // this and the next four: parts of CPUPercent, not in Layout26
	CPUPercentSystem  float32
	CPUPercentIowait  float32
	CPUPercentIRQ     float32
	CPUPercentSoftIRQ float32 // cpu_percent_swintr
	ServiceDemand     float32 // serv_dem; never set: junk
	CPUMethod         CPUMethod
	NumCPUs           uint32
	PeakCPUID         int32   // number of the busiest CPU
	PeakCPUPercent    float32 // peak_cpu_util, 0 to 100, of that CPU

	// Of the network device; in 2.7 all zero.
	Vendor, Device, Subvendor, Subdevice int32

	TransportRetrans int32 // retransmitted segments; -1: unknown, as for UDP and connection tests

	// Of the network device; in 2.7 all empty. At most 15 bytes for IfName and
	// IfSlot, 31 for the others.
	IfName, Driver, Version, Firmware, Bus, IfSlot string

	CongControl string // TCP_CONGESTION at the end, at most 15 bytes; empty: unknown
}

func (r *OmniResults) walk(c *cursor, l Layout) {
	c.u64(&r.BytesReceived)
	c.u32(&r.RecvCalls)
	c.i32(&r.RecvBufSize)
	c.u64(&r.BytesSent)
	c.u32(&r.SendCalls)
	c.i32(&r.SendBufSize)
	c.u32(&r.FailedSends, &r.TransReceived)
	c.f32(&r.ElapsedSeconds, &r.CPUPercent)
	if l == Layout27 {
		c.f32(&r.CPUPercentUser, &r.CPUPercentSystem, &r.CPUPercentIowait, &r.CPUPercentIRQ, &r.CPUPercentSoftIRQ)
	}
	c.f32(&r.ServiceDemand)
	c.u32((*uint32)(&r.CPUMethod), &r.NumCPUs)
	c.i32(&r.PeakCPUID)
	c.f32(&r.PeakCPUPercent)
	c.i32(&r.Vendor, &r.Device, &r.Subvendor, &r.Subdevice, &r.TransportRetrans)
	c.text("ifname", &r.IfName, 16)
	c.text("driver", &r.Driver, 32)
	c.text("version", &r.Version, 32)
	c.text("firmware", &r.Firmware, 32)
	c.text("bus", &r.Bus, 32)
	c.text("ifslot", &r.IfSlot, 16)
	c.text("cong_control", &r.CongControl, 16)
}

// Encode returns the results as a message with a serv_errno of 0. Its type is
// the response's, as real servers have no other either. A string that doesn't
// fit is an error. A server whose test failed sends New instead, with
// TypeOmniResponse and the errno.
func (r OmniResults) Encode(l Layout) (Message, error) {
	return encode(TypeOmniResponse, 0, func(c *cursor) { r.walk(c, l) })
}

// ParseOmniResults reads results, whatever their type says. A serv_errno is
// returned as a RemoteError, with what else is in the message.
func ParseOmniResults(m *Message, l Layout) (OmniResults, error) {
	var r OmniResults
	decode(m, func(c *cursor) { r.walk(c, l) })
	return r, m.remoteError()
}
