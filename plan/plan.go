// Package plan says what a test is to do, as plain data that any machine can
// build, print, send and compare: the test type, how long or how much, how
// many streams, which sizes, and the knobs of each end.
//
// It opens no socket and knows no command line. A plan that Validate accepts
// means the same on both ends; whether a machine can honour it is for sockopt
// and the two ends to find out.
package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gperf/sockopt"
	"gperf/splice"
)

// Type is a test type, written as netperf writes it.
type Type string

// The test types.
const (
	TCPStream Type = "TCP_STREAM" // the client sends, the server receives
	TCPMaerts Type = "TCP_MAERTS" // the server sends, the client receives
	TCPRR     Type = "TCP_RR"     // request and response over a standing connection
	TCPCRR    Type = "TCP_CRR"    // connect, request, response and close, again and again
	TCPCC     Type = "TCP_CC"     // connect and close, again and again
	UDPStream Type = "UDP_STREAM" // the client sends datagrams, the server receives
	UDPRR     Type = "UDP_RR"     // request and response in datagrams
)

// Direction is the way in which the payload of a stream travels.
type Direction string

// The directions. Both is a request/response stream.
const (
	ClientToServer Direction = "client_to_server"
	ServerToClient Direction = "server_to_client"
	Both           Direction = "both"
)

// Role is what one end does with one stream.
type Role string

// The roles of an end.
const (
	Sender    Role = "sender"
	Receiver  Role = "receiver"
	Requester Role = "requester" // sends requests, awaits responses
	Responder Role = "responder" // awaits requests, sends responses
)

// Measures reports whether the window of an end in this role is the measure of
// the direction: the receiver's, or the requester's.
func (r Role) Measures() bool { return r == Receiver || r == Requester }

// Carrier is what carries the payload of a stream.
type Carrier int

// The carriers.
const (
	Connection  Carrier = iota // one standing TCP connection
	Connections                // a TCP connection for each transaction
	Datagrams                  // UDP
)

// row is what a test type fixes. Adding a type is adding a row here and a loop
// in flow.
type row struct {
	doc        string
	directions []Direction
	carrier    Carrier
}

var rows = map[Type]row{
	TCPStream: {"bulk transfer, client to server", []Direction{ClientToServer}, Connection},
	TCPMaerts: {"bulk transfer, server to client", []Direction{ServerToClient}, Connection},
	TCPRR:     {"request and response over one connection", []Direction{Both}, Connection},
	TCPCRR:    {"connect, request, response and close", []Direction{Both}, Connections},
	TCPCC:     {"connect and close", []Direction{Both}, Connections},
	UDPStream: {"datagrams, client to server", []Direction{ClientToServer}, Datagrams},
	UDPRR:     {"request and response in datagrams", []Direction{Both}, Datagrams},
}

// Types returns the test types in the order in which help lists them.
func Types() []Type {
	return []Type{TCPStream, TCPMaerts, TCPRR, TCPCRR, TCPCC, UDPStream, UDPRR}
}

// Doc is one line about the type, empty for an unknown one.
func (t Type) Doc() string { return rows[t].doc }

// Carrier is what carries the payload of the type's streams.
func (t Type) Carrier() Carrier { return rows[t].carrier }

// RequestResponse reports whether the type counts transactions, not bytes.
func (t Type) RequestResponse() bool {
	return len(rows[t].directions) == 1 && rows[t].directions[0] == Both
}

// Role is what end does in direction d.
func (d Direction) Role(end sockopt.End) Role {
	switch client := end == sockopt.Client; {
	case d == Both && client:
		return Requester
	case d == Both:
		return Responder
	case (d == ClientToServer) == client:
		return Sender
	default:
		return Receiver
	}
}

// Bounds of a plan, so that neither end can be asked for the absurd. A server
// has limits of its own below these.
const (
	MaxStreams     = 10_000
	MaxMessageSize = 1 << 30
	MaxBurst       = 1 << 20
	MaxDuration    = 30 * 24 * time.Hour
	MinInterval    = 10 * time.Millisecond
	MaxThreads     = 1024
	MaxPipeSize    = 1 << 30
	MaxLiveStreams = 1000    // their samples travel whole, in one frame each
	MinRate        = 1000    // bit/s
	MaxRate        = 1 << 50 // bit/s
	// MaxDatagram is the largest payload of UDP over IPv4, see udp(7), and
	// MinDatagram what the number and the time of a UDP_STREAM's datagram take.
	MaxDatagram = 65507
	MinDatagram = 16
	// MaxThreadStreams is how many streams a test takes that needs a thread for
	// each: those of connection tests and of UDP.
	MaxThreadStreams = 256
	// MaxSamples bounds streams x intervals: about 150 bytes of memory each on
	// either end.
	MaxSamples = 4 << 20
)

// Defaults of a plan. They are stated in every result's header, since they
// matter: netperf sends 16 KiB at a time, iperf3 128 KiB.
const (
	DefaultDuration    = 10 * time.Second
	DefaultMessageSize = 128 << 10 // per send and per receive call, as iperf3
	DefaultDiscardSize = 1 << 20   // per call that drops
	DefaultSpliceSize  = 1 << 20   // per message that is spliced
	DefaultRRSize      = 1         // request and response, as netperf
	DefaultDatagram    = 1400      // of UDP_STREAM: what fits into a frame almost everywhere
	// DefaultResponseTimeout is after what time a UDP_RR's request counts as lost.
	DefaultResponseTimeout = time.Second
)

// Test is one test, normalised: every default is filled in. It is what the
// client sends to the server and what the result shows as "plan".
type Test struct {
	Type            Type    `json:"test" doc:"test type as netperf writes it"`
	Duration        Seconds `json:"duration_seconds" doc:"length of the measuring window in seconds; null when bytes or transactions end the test"`
	Warmup          Seconds `json:"warmup_seconds" doc:"time in seconds before the window opens, left out of every figure"`
	Interval        Seconds `json:"interval_seconds" doc:"length of a reporting interval in seconds; null: none"`
	Bytes           int64   `json:"bytes" doc:"payload bytes that end the test, the sum over the streams of each direction; 0: no such limit"`
	Transactions    int64   `json:"transactions" doc:"transactions that end the test, the sum over the streams; 0: no such limit"`
	Streams         int     `json:"streams" doc:"number of parallel streams in each direction"`
	RequestSize     int     `json:"request_size_bytes" doc:"bytes of a request (request/response tests; else 0)"`
	ResponseSize    int     `json:"response_size_bytes" doc:"bytes of a response (request/response tests; else 0)"`
	Burst           int     `json:"burst" doc:"transactions outstanding at once per stream (request/response tests; else 0)"`
	ResponseTimeout Seconds `json:"response_timeout_seconds" doc:"time after which a request of UDP_RR without a response counts as lost; null in other tests"`
	Bidir           bool    `json:"bidir" doc:"streams in both directions at once, on connections of their own"`
	ForceBuffers    bool    `json:"force_buffers" doc:"buffers were set with SO_SNDBUFFORCE and SO_RCVBUFFORCE"`
	AllowClamp      bool    `json:"allow_clamp" doc:"a clamped or raised knob was to be a warning, not an error"`
	Verify          bool    `json:"verify" doc:"the payload shows its position, and the receiving ends check every byte"`
	LiveStreams     bool    `json:"live_streams" doc:"interval samples of every stream travel during the test, not totals only"`
	Client          End     `json:"client" doc:"what the client's end was asked for"`
	Server          End     `json:"server" doc:"what the server's end was asked for"`
}

// Movers are the ways in which an end can move the bytes of a bulk test. Splice,
// the sender's, takes from a standing pipe by tee.
const (
	Write    = "write" // send, copying
	Read     = "read"  // receive, copying
	Sendfile = "sendfile"
	Splice   = "splice"
	Vmsplice = "vmsplice"
	Zerocopy = "zerocopy"
	Discard  = "discard"
)

// SendMovers and ReceiveMovers are the movers of each kind, the default first.
var (
	SendMovers    = []string{Write, Sendfile, Splice, Vmsplice, Zerocopy}
	ReceiveMovers = []string{Read, Discard, Splice, Zerocopy}
)

// End is what one end of a test is asked for.
type End struct {
	SendSize    int              `json:"send_size_bytes" doc:"bytes per send call (message size)"`
	ReceiveSize int              `json:"receive_size_bytes" doc:"bytes asked for per receive call"`
	Send        string           `json:"send" doc:"how a bulk sender moves bytes: write, sendfile, splice, vmsplice or zerocopy"`
	Receive     string           `json:"receive" doc:"how a bulk receiver does: read, discard, splice or zerocopy"`
	PipeSize    int              `json:"pipe_size_bytes" doc:"size asked for of the pipes of splice and vmsplice; 0: the kernel's default"`
	SpliceFlags string           `json:"splice_flags" doc:"flags of splice: more, move, nonblock, separated by commas; empty: none"`
	Chunk       int              `json:"chunk_bytes" doc:"most bytes asked for per call; 0: a whole message, or the receive size"`
	More        bool             `json:"more" doc:"every send says that more follows (MSG_MORE)"`
	Threads     int              `json:"threads" doc:"threads of the epoll engine; 0: not asked for (one thread per stream, or the epoll engine when there are many)"`
	Rate        int64            `json:"rate_bits_per_second" doc:"rate to which each stream that this end sends is paced; 0: unpaced"`
	CPUs        []int            `json:"cpus" doc:"CPUs that the streams' threads are pinned to, in turn; null: unpinned"`
	Knobs       sockopt.Settings `json:"knobs" doc:"socket knobs asked for, by name, in the kernel's unit"`
}

// Seconds is a time span that JSON shows as a number of seconds; zero is null.
type Seconds time.Duration

// MarshalJSON prints the seconds as a number, null for zero.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if s == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(time.Duration(s).Seconds())
}

// UnmarshalJSON reads what MarshalJSON prints. Spans outside ±MaxDuration are
// refused here, where they could still be told from an overflow.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*s = 0
		return nil
	}
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if math.Abs(f) > MaxDuration.Seconds() {
		return fmt.Errorf("%g seconds: out of range", f)
	}
	*s = Seconds(math.Round(f * float64(time.Second)))
	return nil
}

// Directions lists the directions of the test's streams. Each has Streams of
// them.
func (t *Test) Directions() []Direction {
	if t.Bidir {
		return []Direction{ClientToServer, ServerToClient}
	}
	return rows[t.Type].directions
}

// End returns what end was asked for.
func (t *Test) End(end sockopt.End) *End {
	if end == sockopt.Client {
		return &t.Client
	}
	return &t.Server
}

// Limited reports whether a count ends the test, not a clock.
func (t *Test) Limited() bool { return t.Bytes > 0 || t.Transactions > 0 }

// Limit is what stream i of the test (from 0) has to move before it ends: bytes
// or, in request/response tests, transactions. The total is split as evenly as
// whole units allow, the first streams taking the remainder. 0: no limit.
func (t *Test) Limit(i int) int64 {
	total, n := t.Bytes+t.Transactions, int64(t.Streams)
	limit := total / n
	if int64(i) < total%n {
		limit++
	}
	return limit
}

// Normalise fills in the defaults of fields that are zero.
func (t *Test) Normalise() {
	if t.Type == "" {
		t.Type = TCPStream
	}
	if t.Duration == 0 && !t.Limited() {
		t.Duration = Seconds(DefaultDuration)
	}
	if t.Streams == 0 {
		t.Streams = 1
	}
	if t.Type.RequestResponse() {
		if t.Type != TCPCC {
			setDefault(&t.RequestSize, DefaultRRSize)
			setDefault(&t.ResponseSize, DefaultRRSize)
		}
		setDefault(&t.Burst, 1)
	}
	switch t.Type {
	case UDPStream:
		setDefault(&t.Client.SendSize, DefaultDatagram)
		setDefault(&t.Server.ReceiveSize, MaxDatagram)
	case UDPRR:
		setDefault(&t.ResponseTimeout, Seconds(DefaultResponseTimeout))
	}
	for _, end := range []*End{&t.Client, &t.Server} {
		if end.Rate > 0 && end.SendSize == 0 {
			// A paced sender's message is no more than a millisecond's worth,
			// or each would be a burst.
			end.SendSize = int(min(max(end.Rate/8/1000, 1), DefaultMessageSize))
		}
		setDefault(&end.Send, Write)
		setDefault(&end.Receive, Read)
		// A call of a mover should be able to fill its pipe, and a discard to drop
		// all that there is.
		switch end.Send {
		case Splice: // whose pipe holds more than its size
			setDefault(&end.SendSize, max(DefaultSpliceSize, end.PipeSize))
		case Vmsplice:
			setDefault(&end.SendSize, max(DefaultMessageSize, end.PipeSize))
		}
		switch end.Receive {
		case Splice:
			setDefault(&end.ReceiveSize, max(DefaultMessageSize, end.PipeSize))
		case Discard:
			setDefault(&end.ReceiveSize, DefaultDiscardSize)
		}
		setDefault(&end.SendSize, DefaultMessageSize)
		setDefault(&end.ReceiveSize, DefaultMessageSize)
	}
	if t.Client.HasPipe() || t.Server.HasPipe() {
		// What was said of pipes without naming an end is about those that there are.
		for _, end := range []*End{&t.Client, &t.Server} {
			if !end.HasPipe() {
				end.PipeSize, end.SpliceFlags = 0, ""
			}
		}
	}
	for _, end := range []*End{&t.Client, &t.Server} {
		if end.Knobs == nil {
			end.Knobs = sockopt.Settings{}
		}
	}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Validate reports the first thing that makes the plan impossible or absurd,
// naming the field. Both ends call it: the server doesn't trust the client's.
func (t *Test) Validate() error {
	if _, ok := rows[t.Type]; !ok {
		return fmt.Errorf("unknown test %q", t.Type)
	}
	rr := t.Type.RequestResponse()
	duration, warmup, interval := time.Duration(t.Duration), time.Duration(t.Warmup), time.Duration(t.Interval)
	switch {
	case t.Bytes < 0:
		return fmt.Errorf("bytes: %d is negative", t.Bytes)
	case t.Transactions < 0:
		return fmt.Errorf("transactions: %d is negative", t.Transactions)
	case t.Bytes > 0 && rr:
		return fmt.Errorf("bytes: %s counts transactions, not bytes", t.Type)
	case t.Transactions > 0 && !rr:
		return fmt.Errorf("transactions: %s counts bytes, not transactions", t.Type)
	case t.Limited() && t.Duration != 0:
		return fmt.Errorf("duration: a test ends by time or by count, not both")
	case t.Limited() && t.Warmup != 0:
		return fmt.Errorf("warmup: a test that ends by count has none")
	case !t.Limited() && duration <= 0:
		return fmt.Errorf("duration: %v is not a positive time", duration)
	case duration > MaxDuration:
		return fmt.Errorf("duration: longer than %v", MaxDuration)
	case warmup > MaxDuration:
		return fmt.Errorf("warmup: longer than %v", MaxDuration)
	case warmup < 0:
		return fmt.Errorf("warmup: %v is negative", warmup)
	case interval != 0 && interval < MinInterval:
		return fmt.Errorf("interval: %v is below the least, %v", interval, MinInterval)
	case t.Streams < 1 || t.Streams > MaxStreams:
		return fmt.Errorf("streams: %d is not between 1 and %d", t.Streams, MaxStreams)
	case t.Limited() && t.Bytes+t.Transactions < int64(t.Streams):
		return fmt.Errorf("%s: %d over %d streams leaves some with nothing to do", t.Type.unit(), t.Bytes+t.Transactions, t.Streams)
	}
	if t.Bidir && rr {
		return fmt.Errorf("bidir: %s goes both ways by itself", t.Type)
	}
	if rr && (t.Client.Rate != 0 || t.Server.Rate != 0) {
		return fmt.Errorf("rate: it paces bulk senders, not %s", t.Type)
	}
	if interval > 0 {
		if samples := float64(duration) / float64(interval) * float64(t.Streams*len(t.Directions())); samples > MaxSamples {
			return fmt.Errorf("interval: %.0f samples (intervals x streams) are more than %d", samples, MaxSamples)
		}
	}
	if t.LiveStreams && t.Streams > MaxLiveStreams {
		return fmt.Errorf("live_streams: %d streams are more than the %d whose samples can be shown as they come", t.Streams, MaxLiveStreams)
	}
	if err := t.validateCarrier(); err != nil {
		return err
	}
	if rr {
		least, most := 1, MaxMessageSize
		switch {
		case t.Type == TCPCC:
			least, most = 0, 0
		case t.Type.Carrier() == Datagrams:
			most = MaxDatagram
		}
		for _, size := range []struct {
			name  string
			bytes int
		}{{"request_size_bytes", t.RequestSize}, {"response_size_bytes", t.ResponseSize}} {
			if size.bytes < least || size.bytes > most {
				return fmt.Errorf("%s: %d is not between %d and %d", size.name, size.bytes, least, most)
			}
		}
		if t.Burst < 1 || t.Burst > MaxBurst {
			return fmt.Errorf("burst: %d is not between 1 and %d", t.Burst, MaxBurst)
		}
	} else if t.RequestSize != 0 || t.ResponseSize != 0 || t.Burst != 0 {
		return fmt.Errorf("request size, response size and burst belong to request/response tests, not to %s", t.Type)
	}
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		if err := t.End(end).validate(); err != nil {
			return fmt.Errorf("%s: %w", end, err)
		}
		if err := t.validateMovers(end); err != nil {
			return fmt.Errorf("%s: %w", end, err)
		}
	}
	return nil
}

// validateCarrier refuses what connection tests and UDP can't do.
func (t *Test) validateCarrier() error {
	c := t.Type.Carrier()
	if udprr := t.Type == UDPRR; udprr != (t.ResponseTimeout != 0) {
		if udprr {
			return fmt.Errorf("response_timeout: %s needs one", t.Type)
		}
		return fmt.Errorf("response_timeout: %s loses no response", t.Type)
	}
	if t.ResponseTimeout < 0 || t.ResponseTimeout > Seconds(MaxDuration) {
		return fmt.Errorf("response_timeout: %v is not between 0 and %v", time.Duration(t.ResponseTimeout), MaxDuration)
	}
	if c == Connection {
		return nil
	}
	switch {
	case t.Streams > MaxThreadStreams:
		return fmt.Errorf("streams: %d are more than the %d of %s, each of which has its thread", t.Streams, MaxThreadStreams, t.Type)
	case t.Client.Threads != 0 || t.Server.Threads != 0:
		return fmt.Errorf("threads: each stream of %s has its own", t.Type)
	case t.Bidir:
		return fmt.Errorf("bidir: %s goes one way", t.Type)
	case t.Verify:
		return fmt.Errorf("verify: it checks TCP's bulk payload, not %s", t.Type)
	case c == Connections && t.Burst != 1:
		return fmt.Errorf("burst: %s has one transaction at a time", t.Type)
	case c == Datagrams && t.Bytes > 0:
		return fmt.Errorf("bytes: %s ends by time, since its last bytes may be lost", t.Type)
	case t.Type == UDPStream && t.Client.SendSize < MinDatagram:
		return fmt.Errorf("client: send_size_bytes: a datagram of %s has %d bytes at least, for its number and its time", t.Type, MinDatagram)
	case t.Type == UDPStream && t.Client.SendSize > MaxDatagram:
		return fmt.Errorf("client: send_size_bytes: %d is more than a datagram holds, %d", t.Client.SendSize, MaxDatagram)
	case t.Type == UDPStream && t.Server.ReceiveSize < t.Client.SendSize:
		return fmt.Errorf("server: receive_size_bytes: %d would cut datagrams of %d", t.Server.ReceiveSize, t.Client.SendSize)
	case t.Type == UDPRR && t.Burst > t.maxDatagramBurst():
		return fmt.Errorf("burst: with responses of so few bytes no more than %d requests can be told apart", t.maxDatagramBurst())
	}
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		e := t.End(end)
		if e.Send != Write || e.Receive != Read {
			return fmt.Errorf("%s: send, receive: %s always writes and reads", end, t.Type)
		}
		if e.Chunk != 0 || e.More {
			return fmt.Errorf("%s: chunk_bytes, more: %s sends each message whole and at once", end, t.Type)
		}
		if c == Datagrams {
			if err := e.Knobs.CheckDatagram(); err != nil {
				return fmt.Errorf("%s: %s: %w", end, t.Type, err)
			}
		}
	}
	return nil
}

// maxDatagramBurst is how many requests may be outstanding in a UDP_RR: the
// shorter of request and response carries the request's number, and half of the
// numbers serve to tell a late response from an awaited one.
func (t *Test) maxDatagramBurst() int {
	if min(t.RequestSize, t.ResponseSize) > 1 {
		return 1 << 12
	}
	return 1 << 7 / 2
}

// validateMovers refuses what movers can't do.
func (t *Test) validateMovers(end sockopt.End) error {
	e := t.End(end)
	copies := e.Send == Write && e.Receive == Read
	switch {
	case t.Type.RequestResponse() && !copies:
		return fmt.Errorf("send, receive: %s always writes and reads", t.Type)
	case t.Type.RequestResponse() && t.Verify:
		return fmt.Errorf("verify: it checks bulk payload, not %s", t.Type)
	case t.Verify && e.Receive != Read && e.Receive != Zerocopy && t.receives(end):
		return fmt.Errorf("verify: receive %s doesn't see the bytes", e.Receive)
	case !e.HasPipe() && (e.PipeSize != 0 || e.SpliceFlags != ""):
		return fmt.Errorf("pipe_size_bytes, splice_flags: neither send %s nor receive %s has a pipe", e.Send, e.Receive)
	case e.More && e.Send == Sendfile:
		return fmt.Errorf("more: %s has no flag for it", Sendfile)
	}
	return nil
}

// receives reports whether end receives payload in bulk.
func (t *Test) receives(end sockopt.End) bool {
	return slices.ContainsFunc(t.Directions(), func(d Direction) bool { return d.Role(end) == Receiver })
}

// HasPipe reports whether one of the end's movers works through a pipe.
func (e *End) HasPipe() bool { return e.Send == Splice || e.Send == Vmsplice || e.Receive == Splice }

// unit is what ends a limited test of this type.
func (t Type) unit() string {
	if t.RequestResponse() {
		return "transactions"
	}
	return "bytes"
}

// maxCPU is the highest CPU number that a mask of the kernel's usual size holds.
const maxCPU = 1023

func (e *End) validate() error {
	if e.SendSize < 1 || e.SendSize > MaxMessageSize {
		return fmt.Errorf("send_size_bytes: %d is not between 1 and %d", e.SendSize, MaxMessageSize)
	}
	if e.ReceiveSize < 1 || e.ReceiveSize > MaxMessageSize {
		return fmt.Errorf("receive_size_bytes: %d is not between 1 and %d", e.ReceiveSize, MaxMessageSize)
	}
	if !slices.Contains(SendMovers, e.Send) {
		return fmt.Errorf("send: unknown mover %q", e.Send)
	}
	if !slices.Contains(ReceiveMovers, e.Receive) {
		return fmt.Errorf("receive: unknown mover %q", e.Receive)
	}
	if e.PipeSize < 0 || e.PipeSize > MaxPipeSize {
		return fmt.Errorf("pipe_size_bytes: %d is not between 0 and %d", e.PipeSize, MaxPipeSize)
	}
	if _, err := splice.ParseFlags(e.SpliceFlags); err != nil {
		return fmt.Errorf("splice_flags: %w", err)
	}
	if e.Chunk < 0 || e.Chunk > MaxMessageSize {
		return fmt.Errorf("chunk_bytes: %d is not between 0 and %d", e.Chunk, MaxMessageSize)
	}
	if e.Threads < 0 || e.Threads > MaxThreads {
		return fmt.Errorf("threads: %d is not between 0 and %d", e.Threads, MaxThreads)
	}
	if e.Rate != 0 && (e.Rate < MinRate || e.Rate > MaxRate) {
		return fmt.Errorf("rate: %d bit/s is not between %d and %d", e.Rate, MinRate, int64(MaxRate))
	}
	for _, cpu := range e.CPUs {
		if cpu < 0 || cpu > maxCPU {
			return fmt.Errorf("cpus: %d is not between 0 and %d", cpu, maxCPU)
		}
	}
	return e.Knobs.Validate()
}

// Parse reads a plan as a peer sends it. Inside a plan nothing is ignored: an
// unknown field is an error that names it, and so is whatever Validate refuses.
func Parse(b []byte) (*Test, error) {
	var t Test
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("plan: something comes after it")
	}
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return &t, nil
}
