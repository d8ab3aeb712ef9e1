package wire

// The tests from before omni. Clients of today still send TypeTCPStream for
// TCP_SENDFILE and TCP_MSS, and TypeTCPCC for TCP_CC; the other types come
// from clients built without omni.

// A StreamRequest asks for a classic stream test over TCP: TypeTCPStream, in
// which the server receives, or TypeTCPMaerts, in which it sends (netperf 2.7,
// message layout). Sizes are in bytes and about the server.
type StreamRequest struct {
	Type        int32   // TypeTCPStream or TypeTCPMaerts
	SendBufSize int32   // SO_SNDBUF to set; negative: leave
	RecvBufSize int32   // SO_RCVBUF to set; negative: leave
	MessageSize int32   // receive_size or send_size, per call; 0: the server chooses
	Alignment   int32   // of the buffers
	Offset      int32   // of the buffers, past the alignment
	NoDelay     bool    // TCP_NODELAY on
	MeasureCPU  bool    // measure the server's CPU utilization
	CPURate     float32 // calibration that is given, in the unit of CPUCalibration; 0: none
	TestLength  int32   // seconds; in a counted test the bytes, and nothing tells which it is
	RecvAvoid   bool    // so_rcvavoid: receive without copying
	SendAvoid   bool    // so_sndavoid: send without copying
	DirtyCount  int32   // 0: not asked for
	CleanCount  int32   // 0: not asked for
	Port        int32   // to bind; 0: any
	IPFamily    Family
	RecvAIO     int32 // asynchronous receives; netperf 2.7.1, not for TypeTCPMaerts
}

func (r *StreamRequest) walk(c *cursor) {
	c.i32(&r.SendBufSize, &r.RecvBufSize, &r.MessageSize, &r.Alignment, &r.Offset)
	c.flag(&r.NoDelay, &r.MeasureCPU)
	c.f32(&r.CPURate)
	c.i32(&r.TestLength)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
	c.i32(&r.DirtyCount, &r.CleanCount, &r.Port)
	c.u32((*uint32)(&r.IPFamily))
	if r.Type == TypeTCPStream {
		c.i32(&r.RecvAIO)
	}
}

var streamTypes = []int32{TypeTCPStream, TypeTCPMaerts}

// Encode returns the request as a message. affinity is the CPU that the server
// is to bind itself to, or NoAffinity. Another Type is an error.
func (r StreamRequest) Encode(affinity int32) (Message, error) {
	if err := checkType(r.Type, streamTypes); err != nil {
		return Message{}, err
	}
	return encode(r.Type, affinity, r.walk)
}

// ParseStreamRequest reads a request. A message of another type is an error.
func ParseStreamRequest(m *Message) (StreamRequest, error) {
	if err := m.checkType(streamTypes...); err != nil {
		return StreamRequest{}, err
	}
	r := StreamRequest{Type: m.Type()}
	decode(m, r.walk)
	return r, nil
}

// A StreamResponse answers a StreamRequest (netperf 2.7, message layout). It
// says what is in effect before there is a connection. Sizes are in bytes.
type StreamResponse struct {
	RecvBufSize int32   // SO_RCVBUF
	MessageSize int32   // receive_size or send_size, per call
	NoDelay     bool    // TCP_NODELAY is on
	MeasureCPU  bool    // CPU utilization will be measured
	TestLength  int32   // never set: junk
	SendBufSize int32   // SO_SNDBUF
	DataPort    int32   // to connect to
	CPURate     float32 // see CPUCalibration; 0: CPU isn't measured
	RecvAvoid   bool    // as requested
	SendAvoid   bool    // as requested
}

func (r *StreamResponse) walk(c *cursor) {
	c.i32(&r.RecvBufSize, &r.MessageSize)
	c.flag(&r.NoDelay, &r.MeasureCPU)
	c.i32(&r.TestLength, &r.SendBufSize, &r.DataPort)
	c.f32(&r.CPURate)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
}

// Encode returns the response as a message with a serv_errno of 0. request is
// the Type of the request that it answers. A server that refuses sends New
// instead, with request+1 and the errno.
func (r StreamResponse) Encode(request int32) Message { return encodePlain(request+1, r.walk) }

// ParseStreamResponse reads a response, whatever its type says. A serv_errno
// is returned as a RemoteError, with what else is in the message.
func ParseStreamResponse(m *Message) (StreamResponse, error) {
	var r StreamResponse
	decode(m, r.walk)
	return r, m.remoteError()
}

// StreamResults is what the server of a classic stream test over TCP counted
// (netperf 2.7, message layout). The fields from CPUPercent to NumCPUs are junk
// unless the response had MeasureCPU.
type StreamResults struct {
	Bytes          float64 // bytes_received or bytes_sent, a whole number
	Calls          uint32  // recv_calls or send_calls, modulo 1<<32
	ElapsedSeconds float32 // elapsed_time, by the server's clock
	CPUPercent     float32 // cpu_util, over all CPUs
	ServiceDemand  float32 // serv_dem; never set: junk
	CPUMethod      CPUMethod
	NumCPUs        int32
	RecvBufSize    int32 // never set: junk
	SendBufSize    int32 // never set: junk
}

func (r *StreamResults) walk(c *cursor) {
	c.f64(&r.Bytes)
	c.u32(&r.Calls)
	c.f32(&r.ElapsedSeconds, &r.CPUPercent, &r.ServiceDemand)
	c.u32((*uint32)(&r.CPUMethod))
	c.i32(&r.NumCPUs, &r.RecvBufSize, &r.SendBufSize)
}

// Encode returns the results as a message with a serv_errno of 0. request is
// the Type of the request of the test. The message's type is the response's,
// as real servers have no other either.
func (r StreamResults) Encode(request int32) Message { return encodePlain(request+1, r.walk) }

// ParseStreamResults reads results, whatever their type says. A serv_errno is
// returned as a RemoteError, with what else is in the message.
func ParseStreamResults(m *Message) (StreamResults, error) {
	var r StreamResults
	decode(m, r.walk)
	return r, m.remoteError()
}

// A TransactionRequest asks for a classic test that counts transactions:
// TypeTCPRR, TypeTCPCRR, TypeUDPRR or TypeTCPCC (netperf 2.7, message layout).
// Sizes are in bytes and about the server.
type TransactionRequest struct {
	Type          int32   // TypeTCPRR, TypeTCPCRR, TypeUDPRR or TypeTCPCC
	RecvBufSize   int32   // SO_RCVBUF to set; negative: leave
	SendBufSize   int32   // SO_SNDBUF to set; negative: leave
	RecvAlignment int32   // of the receive buffers
	RecvOffset    int32   // of the receive buffers, past the alignment
	SendAlignment int32   // of the send buffers
	SendOffset    int32   // of the send buffers, past the alignment
	RequestSize   int32   // of a request
	ResponseSize  int32   // of a response
	NoDelay       bool    // TCP_NODELAY on
	MeasureCPU    bool    // measure the server's CPU utilization
	CPURate       float32 // calibration that is given, in the unit of CPUCalibration; 0: none
	TestLength    int32   // seconds; negative: minus the transactions
	RecvAvoid     bool    // so_rcvavoid: receive without copying
	SendAvoid     bool    // so_sndavoid: send without copying
	Port          int32   // to bind; 0: any
	IPFamily      Family
}

func (r *TransactionRequest) walk(c *cursor) {
	c.i32(&r.RecvBufSize, &r.SendBufSize)
	c.i32(&r.RecvAlignment, &r.RecvOffset, &r.SendAlignment, &r.SendOffset)
	c.i32(&r.RequestSize, &r.ResponseSize)
	c.flag(&r.NoDelay, &r.MeasureCPU)
	c.f32(&r.CPURate)
	c.i32(&r.TestLength)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
	c.i32(&r.Port)
	c.u32((*uint32)(&r.IPFamily))
}

var transactionTypes = []int32{TypeTCPRR, TypeTCPCRR, TypeUDPRR, TypeTCPCC}

// Encode returns the request as a message. affinity is the CPU that the server
// is to bind itself to, or NoAffinity. Another Type is an error.
func (r TransactionRequest) Encode(affinity int32) (Message, error) {
	if err := checkType(r.Type, transactionTypes); err != nil {
		return Message{}, err
	}
	return encode(r.Type, affinity, r.walk)
}

// ParseTransactionRequest reads a request. A message of another type is an
// error.
func ParseTransactionRequest(m *Message) (TransactionRequest, error) {
	if err := m.checkType(transactionTypes...); err != nil {
		return TransactionRequest{}, err
	}
	r := TransactionRequest{Type: m.Type()}
	decode(m, r.walk)
	return r, nil
}

// A TransactionResponse answers a TransactionRequest (netperf 2.7, message
// layout). It says what is in effect before there is a connection. Sizes are
// in bytes.
type TransactionResponse struct {
	RecvBufSize int32   // SO_RCVBUF
	NoDelay     bool    // TCP_NODELAY is on
	MeasureCPU  bool    // CPU utilization will be measured
	TestLength  int32   // as requested for TypeTCPRR; otherwise never set: junk
	SendBufSize int32   // SO_SNDBUF
	DataPort    int32   // to connect or send to
	CPURate     float32 // see CPUCalibration; 0: CPU isn't measured
	RecvAvoid   bool    // as requested
	SendAvoid   bool    // as requested
}

func (r *TransactionResponse) walk(c *cursor) {
	c.i32(&r.RecvBufSize)
	c.flag(&r.NoDelay, &r.MeasureCPU)
	c.i32(&r.TestLength, &r.SendBufSize, &r.DataPort)
	c.f32(&r.CPURate)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
}

// Encode returns the response as a message with a serv_errno of 0. request is
// the Type of the request that it answers. A server that refuses sends New
// instead, with request+1 and the errno.
func (r TransactionResponse) Encode(request int32) Message {
	return encodePlain(request+1, r.walk)
}

// ParseTransactionResponse reads a response, whatever its type says. A
// serv_errno is returned as a RemoteError, with what else is in the message.
func ParseTransactionResponse(m *Message) (TransactionResponse, error) {
	var r TransactionResponse
	decode(m, r.walk)
	return r, m.remoteError()
}

// TransactionResults is what the server of a classic transaction test counted
// (netperf 2.7, message layout). The fields from CPUPercent to NumCPUs are junk
// unless the response had MeasureCPU.
type TransactionResults struct {
	BytesReceived  uint32    // transactions times the sizes of request and response, modulo 1<<32
	RecvCalls      uint32    // never set: junk
	TransReceived  uint32    // transactions
	ElapsedSeconds float32   // elapsed_time, by the server's clock
	CPUPercent     float32   // cpu_util, over all CPUs
	ServiceDemand  float32   // serv_dem; never set: junk
	CPUMethod      CPUMethod // set for TypeTCPRR and TypeUDPRR only
	NumCPUs        int32     // set for TypeTCPRR and TypeUDPRR only
}

func (r *TransactionResults) walk(c *cursor) {
	c.u32(&r.BytesReceived, &r.RecvCalls, &r.TransReceived)
	c.f32(&r.ElapsedSeconds, &r.CPUPercent, &r.ServiceDemand)
	c.u32((*uint32)(&r.CPUMethod))
	c.i32(&r.NumCPUs)
}

// Encode returns the results as a message with a serv_errno of 0. request is
// the Type of the request of the test. The message's type is the response's,
// as real servers have no other either.
func (r TransactionResults) Encode(request int32) Message { return encodePlain(request+1, r.walk) }

// ParseTransactionResults reads results, whatever their type says. A
// serv_errno is returned as a RemoteError, with what else is in the message.
func ParseTransactionResults(m *Message) (TransactionResults, error) {
	var r TransactionResults
	decode(m, r.walk)
	return r, m.remoteError()
}

// A UDPStreamRequest asks for a classic UDP_STREAM test, in which the server
// receives (netperf 2.7, message layout). Sizes are in bytes and about the
// server.
type UDPStreamRequest struct {
	RecvBufSize   int32 // SO_RCVBUF to set; negative: leave
	MessageSize   int32 // of a datagram; a shorter one ends the test
	RecvConnected bool  // connect the socket to the first sender
	RecvAlignment int32 // of the receive buffers
	RecvOffset    int32 // of the receive buffers, past the alignment
	ChecksumOff   bool
	MeasureCPU    bool    // measure the server's CPU utilization
	CPURate       float32 // calibration that is given, in the unit of CPUCalibration; 0: none
	TestLength    int32   // seconds
	RecvAvoid     bool    // so_rcvavoid: receive without copying
	SendAvoid     bool    // so_sndavoid: send without copying
	Port          int32   // to bind; 0: any
	IPFamily      Family
}

func (r *UDPStreamRequest) walk(c *cursor) {
	c.i32(&r.RecvBufSize, &r.MessageSize)
	c.flag(&r.RecvConnected)
	c.i32(&r.RecvAlignment, &r.RecvOffset)
	c.flag(&r.ChecksumOff, &r.MeasureCPU)
	c.f32(&r.CPURate)
	c.i32(&r.TestLength)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
	c.i32(&r.Port)
	c.u32((*uint32)(&r.IPFamily))
}

// Encode returns the request as a message. affinity is the CPU that the server
// is to bind itself to, or NoAffinity.
func (r UDPStreamRequest) Encode(affinity int32) Message {
	m, _ := encode(TypeUDPStream, affinity, r.walk) // numbers only
	return m
}

// ParseUDPStreamRequest reads a request. A message of another type is an
// error.
func ParseUDPStreamRequest(m *Message) (UDPStreamRequest, error) {
	if err := m.checkType(TypeUDPStream); err != nil {
		return UDPStreamRequest{}, err
	}
	var r UDPStreamRequest
	decode(m, r.walk)
	return r, nil
}

// A UDPStreamResponse answers a UDPStreamRequest (netperf 2.7, message
// layout). Sizes are in bytes.
type UDPStreamResponse struct {
	RecvBufSize int32   // SO_RCVBUF
	SendBufSize int32   // SO_SNDBUF
	MeasureCPU  bool    // CPU utilization will be measured
	TestLength  int32   // as requested
	DataPort    int32   // to send to
	CPURate     float32 // see CPUCalibration; 0: CPU isn't measured
	RecvAvoid   bool    // as requested
	SendAvoid   bool    // as requested
}

func (r *UDPStreamResponse) walk(c *cursor) {
	c.i32(&r.RecvBufSize, &r.SendBufSize)
	c.flag(&r.MeasureCPU)
	c.i32(&r.TestLength, &r.DataPort)
	c.f32(&r.CPURate)
	c.flag(&r.RecvAvoid, &r.SendAvoid)
}

// Encode returns the response as a message with a serv_errno of 0. A server
// that refuses sends New instead, with TypeUDPStreamResponse and the errno.
func (r UDPStreamResponse) Encode() Message { return encodePlain(TypeUDPStreamResponse, r.walk) }

// ParseUDPStreamResponse reads a response, whatever its type says. A
// serv_errno is returned as a RemoteError, with what else is in the message.
func ParseUDPStreamResponse(m *Message) (UDPStreamResponse, error) {
	var r UDPStreamResponse
	decode(m, r.walk)
	return r, m.remoteError()
}

// UDPStreamResults is what the server of a classic UDP_STREAM test counted
// (netperf 2.7, message layout).
type UDPStreamResults struct {
	MessagesReceived uint32  // messages_recvd, datagrams
	BytesReceived    uint32  // modulo 1<<32; one less when the server's timer ended the test
	ElapsedSeconds   float32 // elapsed_time, by the server's clock
	CPUPercent       float32 // cpu_util, over all CPUs; -1: not measured
	CPUMethod        CPUMethod
	NumCPUs          int32
}

func (r *UDPStreamResults) walk(c *cursor) {
	c.u32(&r.MessagesReceived, &r.BytesReceived)
	c.f32(&r.ElapsedSeconds, &r.CPUPercent)
	c.u32((*uint32)(&r.CPUMethod))
	c.i32(&r.NumCPUs)
}

// Encode returns the results as a message with a serv_errno of 0.
func (r UDPStreamResults) Encode() Message { return encodePlain(TypeUDPStreamResults, r.walk) }

// ParseUDPStreamResults reads results, whatever their type says. A serv_errno
// is returned as a RemoteError, with what else is in the message.
func ParseUDPStreamResults(m *Message) (UDPStreamResults, error) {
	var r UDPStreamResults
	decode(m, r.walk)
	return r, m.remoteError()
}
