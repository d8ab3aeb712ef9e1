package netperf

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/netperf/wire"
	"gperf/plan"
	"gperf/sockopt"
)

// A dialect is how a test is asked for and answered, by the type of the request:
// one for nearly all tests of today, and those of the tests that never moved to
// it and of old clients.
type dialect struct {
	parse    func(*wire.Message) (*job, error)
	response func(*job) wire.Message
	results  func(*job, *measured, wire.Layout) wire.Message
}

var dialects = map[int32]*dialect{
	wire.TypeOmni:      {parseOmni, omniResponse, omniResults},
	wire.TypeTCPStream: {parseStream, streamResponse(wire.TypeTCPStream), streamResults(wire.TypeTCPStream)},
	wire.TypeTCPMaerts: {parseStream, streamResponse(wire.TypeTCPMaerts), streamResults(wire.TypeTCPMaerts)},
	wire.TypeTCPRR:     {parseTransaction, transactionResponse(wire.TypeTCPRR), transactionResults(wire.TypeTCPRR)},
	wire.TypeTCPCRR:    {parseTransaction, transactionResponse(wire.TypeTCPCRR), transactionResults(wire.TypeTCPCRR)},
	wire.TypeTCPCC:     {parseTransaction, transactionResponse(wire.TypeTCPCC), transactionResults(wire.TypeTCPCC)},
	wire.TypeUDPRR:     {parseTransaction, transactionResponse(wire.TypeUDPRR), transactionResults(wire.TypeUDPRR)},
	wire.TypeUDPStream: {parseUDPStream, udpStreamResponse, udpStreamResults},
}

// newJob begins a job: the socket's family, buffers (negative: leave) and
// TCP_NODELAY.
func newJob(family wire.Family, datagrams bool, sendBuffer, receiveBuffer int32, noDelay bool) (*job, error) {
	j := &job{socketPlan: socketPlan{datagrams: datagrams, knobs: sockopt.Settings{}}}
	switch family {
	case wire.FamilyIPv4:
		j.family = unix.AF_INET
	case wire.FamilyIPv6:
		j.family = unix.AF_INET6
	case wire.FamilyUnspecified: // the control connection's
	default:
		return nil, fmt.Errorf("address family %d: %w", family, unix.EAFNOSUPPORT)
	}
	if sendBuffer >= 0 {
		j.knobs["sndbuf"] = sockopt.Int(int64(sendBuffer))
	}
	if receiveBuffer >= 0 {
		j.knobs["rcvbuf"] = sockopt.Int(int64(receiveBuffer))
	}
	if noDelay && !datagrams {
		j.knobs["nodelay"] = sockopt.Int(1)
	}
	if datagrams {
		j.carrier = plan.Datagrams
	}
	return j, nil
}

// size is a size on the wire, 0 where the server is to choose.
func size(n uint32) int {
	if n == wire.ServerChooses {
		return 0
	}
	return int(n)
}

func parseOmni(m *wire.Message) (*job, error) {
	r, err := wire.ParseOmniRequest(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, unix.EINVAL)
	}
	datagrams := r.Protocol == unix.IPPROTO_UDP || r.Protocol == 0 && r.SocketType == wire.SocketDatagram
	if r.Protocol != unix.IPPROTO_TCP && r.Protocol != unix.IPPROTO_UDP && r.Protocol != 0 {
		return nil, fmt.Errorf("protocol %d: %w", r.Protocol, unix.EOPNOTSUPP)
	}
	if datagrams && r.SocketType == wire.SocketStream || !datagrams && r.SocketType != wire.SocketStream && r.SocketType != wire.SocketUnknown {
		return nil, fmt.Errorf("socket type %d of protocol %d: %w", r.SocketType, r.Protocol, unix.EPROTONOSUPPORT)
	}
	j, err := newJob(r.IPFamily, datagrams, r.SendBufSize, r.RecvBufSize, r.Flags&wire.FlagNoDelay != 0)
	if err != nil {
		return nil, err
	}
	j.sendSize, j.receiveSize = size(r.SendSize), size(r.ReceiveSize)
	switch r.Direction & (wire.DirectionTransmit | wire.DirectionReceive) {
	case wire.DirectionTransmit:
		j.role = plan.Sender
	case wire.DirectionReceive:
		j.role = plan.Receiver
	case 0:
		j.role, j.carrier = plan.Responder, plan.Connections
	default:
		j.role = plan.Responder
		j.requestSize, j.responseSize = max(int(r.RequestSize), 1), max(int(r.ResponseSize), 1)
	}
	if r.Flags&wire.FlagConnectTest != 0 {
		if datagrams || j.role != plan.Responder {
			return nil, fmt.Errorf("connection test of another kind than request/response over TCP: %w", unix.EOPNOTSUPP)
		}
		j.carrier = plan.Connections
	}
	if datagrams && j.carrier == plan.Connections {
		return nil, fmt.Errorf("connection test over UDP: %w", unix.EOPNOTSUPP)
	}
	j.length = int(r.TestLength)
	j.splice = r.RecvAvoid
	j.measureCPU = r.Flags&wire.FlagMeasureCPU != 0
	j.pause = flow.Pause{Burst: int(min(r.IntervalBurst, plan.MaxBurst)), Every: time.Duration(r.IntervalMicros) * time.Microsecond}
	j.port, j.bind = uint16(r.DataPort), r.NetserverIP
	j.client = netip.AddrPortFrom(r.NetperfIP, uint16(r.NetperfPort))
	j.dontRoute = r.Flags&wire.FlagRoutingAllowed == 0
	j.answerFrom = r.Flags&wire.FlagUsePktinfo != 0 && datagrams
	j.deferred = r.Flags&wire.FlagWantDeferAccept != 0 && !datagrams
	for _, k := range []struct {
		on    bool
		name  string
		value sockopt.Value
	}{
		{r.Flags&wire.FlagWantKeepalive != 0 && !datagrams, "keepalive", sockopt.Int(1)},
		{r.SocketPrio >= 0, "priority", sockopt.Int(int64(r.SocketPrio))},
		{r.SocketTOS >= 0, "tos", sockopt.Int(int64(r.SocketTOS))},
		{r.CongControl != "" && !datagrams, "congestion", sockopt.Str(r.CongControl)},
		{r.Flags&wire.FlagFastOpen != 0 && !datagrams, "fastopen", sockopt.Int(fastOpenQueue)},
		{r.Flags&wire.FlagUseMTUDiscover != 0, "mtu_discover", sockopt.Int(unix.IP_PMTUDISC_DO)},
	} {
		if k.on {
			j.knobs[k.name] = k.value
		}
	}
	j.echo = wire.OmniResponse{
		SendSize: r.SendSize, SendWidth: int32(r.SendWidth), ReceiveSize: r.ReceiveSize, RecvWidth: int32(r.RecvWidth),
		RecvAvoid: r.RecvAvoid, SendAvoid: r.SendAvoid, IntervalBurst: r.IntervalBurst, IntervalMicros: r.IntervalMicros,
	}
	if r.FillFile != "" && j.role != plan.Receiver {
		// A server that read any file which a client names would send it out.
		if !randomFiles[r.FillFile] {
			return nil, fmt.Errorf("fill file %q: only /dev/urandom, /dev/random and /dev/zero are read for a client: %w", r.FillFile, unix.EACCES)
		}
		j.random = r.FillFile != "/dev/zero"
	}
	return j, nil
}

var randomFiles = map[string]bool{"/dev/urandom": true, "/dev/random": true, "/dev/zero": true}

// fastOpenQueue is how many half-open connections netserver's listener takes.
const fastOpenQueue = 5

func omniResponse(j *job) wire.Message {
	r := j.echo
	r.RecvBufSize, r.SendBufSize, r.DataPort = int32(j.receiveBuffer), int32(j.sendBuffer), uint32(j.boundPort)
	r.SocketPrio, r.SocketTOS = int32(j.priority), int32(j.tos)
	switch j.role {
	case plan.Sender:
		r.SendSize = uint32(j.sendSize)
		if r.SendWidth <= 0 {
			r.SendWidth = width(j.sendBuffer, j.sendSize)
		}
	case plan.Receiver:
		r.ReceiveSize = uint32(j.receiveSize)
		if r.RecvWidth <= 0 {
			r.RecvWidth = width(j.receiveBuffer, j.receiveSize)
		}
	default:
		if j.requestSize > 0 { // else only connections are made
			r.SendSize, r.ReceiveSize = uint32(j.responseSize), uint32(j.requestSize)
			r.SendWidth, r.RecvWidth = max(r.SendWidth, 1), max(r.RecvWidth, 1)
		}
	}
	if j.noDelay {
		r.Flags |= wire.FlagNoDelay
	}
	if j.measureCPU {
		r.Flags |= wire.FlagMeasureCPU
		r.CPURate = calibration
	}
	m, err := r.Encode()
	if err != nil { // no string in it is set
		return wire.New(wire.TypeOmniResponse, int32(unix.EINVAL))
	}
	return m
}

// width is how many buffers of that size netperf would have in its ring.
func width(buffer, size int) int32 {
	if size <= 0 {
		return 1
	}
	return int32(max(buffer/size+1, 2))
}

func omniResults(j *job, m *measured, layout wire.Layout) wire.Message {
	r := wire.OmniResults{
		BytesReceived: m.received, RecvCalls: wrap32(m.receiveCalls), RecvBufSize: int32(m.receiveBuffer),
		BytesSent: m.sent, SendCalls: wrap32(m.sendCalls), SendBufSize: int32(m.sendBuffer), FailedSends: wrap32(m.failedSends),
		ElapsedSeconds: seconds(m.elapsed), TransportRetrans: int32(m.retransmits), CongControl: m.congestion,
	}
	if j.role == plan.Responder {
		r.TransReceived = wrap32(m.transactions)
	}
	if j.measureCPU && m.cpu != nil {
		c := m.cpu
		r.CPUPercent, r.CPUPercentUser, r.CPUPercentSystem = float32(c.Util), float32(c.User), float32(c.System)
		r.CPUPercentIowait, r.CPUPercentIRQ, r.CPUPercentSoftIRQ = float32(c.IOWait), float32(c.IRQ), float32(c.SoftIRQ)
		r.CPUMethod, r.NumCPUs, r.PeakCPUID, r.PeakCPUPercent = wire.CPUProcStat, uint32(c.Count), int32(c.PeakID), float32(c.PeakUtil)
	}
	answer, err := r.Encode(layout)
	if err != nil {
		return wire.New(wire.TypeOmniResponse, int32(unix.EINVAL))
	}
	return answer
}

// parseStream is of the classic stream tests: the server receives, or sends.
func parseStream(m *wire.Message) (*job, error) {
	r, err := wire.ParseStreamRequest(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, unix.EINVAL)
	}
	j, err := newJob(r.IPFamily, false, r.SendBufSize, r.RecvBufSize, r.NoDelay)
	if err != nil {
		return nil, err
	}
	if r.Type == wire.TypeTCPMaerts {
		j.role, j.sendSize = plan.Sender, max(int(r.MessageSize), 0)
	} else {
		j.role, j.receiveSize = plan.Receiver, max(int(r.MessageSize), 0)
	}
	// A number of bytes looks like one of seconds, so a receiver counts on its
	// client's end alone.
	j.length = int(r.TestLength)
	if j.role == plan.Receiver {
		j.length = 0
	}
	j.splice, j.measureCPU, j.port = r.RecvAvoid, r.MeasureCPU, uint16(r.Port)
	return j, nil
}

func streamResponse(typ int32) func(*job) wire.Message {
	return func(j *job) wire.Message {
		r := wire.StreamResponse{
			RecvBufSize: int32(j.receiveBuffer), SendBufSize: int32(j.sendBuffer), MessageSize: int32(j.receiveSize),
			NoDelay: j.noDelay, MeasureCPU: j.measureCPU, DataPort: int32(j.boundPort), RecvAvoid: j.splice,
		}
		if j.role == plan.Sender {
			r.MessageSize = int32(j.sendSize)
		}
		if j.measureCPU {
			r.CPURate = calibration
		}
		return r.Encode(typ)
	}
}

func streamResults(typ int32) func(*job, *measured, wire.Layout) wire.Message {
	return func(j *job, m *measured, _ wire.Layout) wire.Message {
		r := wire.StreamResults{Bytes: float64(m.received), Calls: wrap32(m.receiveCalls), ElapsedSeconds: seconds(m.elapsed)}
		if j.role == plan.Sender {
			r.Bytes, r.Calls = float64(m.sent), wrap32(m.sendCalls)
		}
		if j.measureCPU && m.cpu != nil {
			r.CPUPercent, r.CPUMethod, r.NumCPUs = float32(m.cpu.Util), wire.CPUProcStat, int32(m.cpu.Count)
		}
		return r.Encode(typ)
	}
}

// parseTransaction is of the classic request/response and connection tests.
func parseTransaction(m *wire.Message) (*job, error) {
	r, err := wire.ParseTransactionRequest(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, unix.EINVAL)
	}
	j, err := newJob(r.IPFamily, r.Type == wire.TypeUDPRR, r.SendBufSize, r.RecvBufSize, r.NoDelay)
	if err != nil {
		return nil, err
	}
	j.role = plan.Responder
	switch r.Type {
	case wire.TypeTCPCC:
		j.carrier = plan.Connections
	case wire.TypeTCPCRR:
		j.carrier = plan.Connections
		fallthrough
	default:
		j.requestSize, j.responseSize = max(int(r.RequestSize), 1), max(int(r.ResponseSize), 1)
	}
	// The classic client of a request/response test keeps its socket until it has
	// the results: only the time ends it.
	j.untilTime = r.Type == wire.TypeTCPRR || r.Type == wire.TypeUDPRR
	j.length, j.measureCPU, j.port = int(r.TestLength), r.MeasureCPU, uint16(r.Port)
	return j, nil
}

func transactionResponse(typ int32) func(*job) wire.Message {
	return func(j *job) wire.Message {
		r := wire.TransactionResponse{
			RecvBufSize: int32(j.receiveBuffer), SendBufSize: int32(j.sendBuffer), NoDelay: j.noDelay, MeasureCPU: j.measureCPU,
			TestLength: int32(j.length), DataPort: int32(j.boundPort),
		}
		if j.measureCPU {
			r.CPURate = calibration
		}
		return r.Encode(typ)
	}
}

func transactionResults(typ int32) func(*job, *measured, wire.Layout) wire.Message {
	return func(j *job, m *measured, _ wire.Layout) wire.Message {
		r := wire.TransactionResults{
			BytesReceived: wrap32(m.transactions * uint64(j.requestSize+j.responseSize)), RecvCalls: wrap32(m.receiveCalls),
			TransReceived: wrap32(m.transactions), ElapsedSeconds: seconds(m.elapsed),
		}
		if j.measureCPU && m.cpu != nil {
			r.CPUPercent, r.CPUMethod, r.NumCPUs = float32(m.cpu.Util), wire.CPUProcStat, int32(m.cpu.Count)
		}
		return r.Encode(typ)
	}
}

func parseUDPStream(m *wire.Message) (*job, error) {
	r, err := wire.ParseUDPStreamRequest(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, unix.EINVAL)
	}
	j, err := newJob(r.IPFamily, true, -1, r.RecvBufSize, false)
	if err != nil {
		return nil, err
	}
	j.role, j.receiveSize = plan.Receiver, max(int(r.MessageSize), 0)
	j.length, j.measureCPU, j.port = int(r.TestLength), r.MeasureCPU, uint16(r.Port)
	j.untilTime = true
	return j, nil
}

func udpStreamResponse(j *job) wire.Message {
	r := wire.UDPStreamResponse{
		RecvBufSize: int32(j.receiveBuffer), SendBufSize: int32(j.sendBuffer), MeasureCPU: j.measureCPU, DataPort: int32(j.boundPort),
	}
	if j.measureCPU {
		r.CPURate = calibration
	}
	return r.Encode()
}

func udpStreamResults(j *job, m *measured, _ wire.Layout) wire.Message {
	r := wire.UDPStreamResults{
		MessagesReceived: wrap32(m.receiveCalls), BytesReceived: wrap32(m.received), ElapsedSeconds: seconds(m.elapsed), CPUPercent: -1,
	}
	if j.measureCPU && m.cpu != nil {
		r.CPUPercent, r.CPUMethod, r.NumCPUs = float32(m.cpu.Util), wire.CPUProcStat, int32(m.cpu.Count)
	}
	return r.Encode()
}
