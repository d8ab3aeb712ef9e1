// Package control is gperf's own control protocol: its messages and their
// framing. It does no I/O of its own: a Conn frames whatever stream it's given.
//
// A frame is a 4-byte big-endian length, at most MaxFrame, and a JSON object
// {"type": ..., "body": ...}. Unknown fields of a body are ignored, except
// inside a plan, where nothing is (see plan.Parse). docs/protocol.md draws the
// exchange; in short:
//
//	client                           server
//	hello {magic, version}  ──────►
//	                        ◄──────  hello {version, nonce}
//	ping × n                ◄─────►  pong                    (clock offset)
//	plan {plan, mac}        ──────►
//	                        ◄──────  ready {port, token, host} | error
//	        n data connections, each with a Preamble
//	                        ◄──────  audit {rows}            | error
//	start                   ──────►
//	                        ◄──────  started
//	                        ◄──────  sample ...
//	closed {direction}      ◄─────►  closed {direction}      (last sample taken)
//	finish                  ──────►
//	                        ◄──────  series × n, streams × n, audit × n, report
//	heartbeat               ◄─────►  heartbeat, each second
package control

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// Magic opens the first frame of each side.
const Magic = "gperf"

// Port is the server's port unless told otherwise.
const Port = 12866

// MaxFrame bounds a frame's JSON, in bytes.
const MaxFrame = 1 << 20

// Version of the protocol. Ends of different minor versions work together,
// ends of different major versions don't.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

// Current is the version that this program speaks.
var Current = Version{1, 0}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Type is a message's type.
type Type string

// The message types, each with the body named beside it.
const (
	TypeHello     Type = "hello"     // Hello, both ways, first
	TypePing      Type = "ping"      // none, client
	TypePong      Type = "pong"      // Pong, server
	TypePlan      Type = "plan"      // Plan, client
	TypeReady     Type = "ready"     // Ready, server
	TypeAudit     Type = "audit"     // Audit, server, before the start and with the report
	TypeStart     Type = "start"     // none, client
	TypeStarted   Type = "started"   // none, server
	TypeSample    Type = "sample"    // Sample, server
	TypeStop      Type = "stop"      // none, client: close the windows now
	TypeClosed    Type = "closed"    // Closed, both ways
	TypeFinish    Type = "finish"    // none, client
	TypeStreams   Type = "streams"   // Streams, server, a piece of a half's streams
	TypeSeries    Type = "series"    // Sample, server, one sample of a half, or a piece of it
	TypeReport    Type = "report"    // result.Report, server, last
	TypeHeartbeat Type = "heartbeat" // none, both ways
	TypeError     Type = "error"     // Error, both ways, last
)

// Hello is the first message of each side.
type Hello struct {
	Magic   string  `json:"magic"`
	Version Version `json:"version"`
	Program string  `json:"program"` // "gperf 1.2.3", for messages only
	// Nonce is 32 random bytes in hex. The server's means that it wants the
	// plan authenticated; the client's is answered in Ready.
	Nonce string `json:"nonce,omitempty"`
}

// Pong answers a ping with the server's CLOCK_MONOTONIC.
type Pong struct {
	MonotonicNs int64 `json:"monotonic_ns"`
}

// Plan carries the plan as raw JSON, since the MAC is over its very bytes.
type Plan struct {
	Plan json.RawMessage `json:"plan"`
	MAC  string          `json:"mac,omitempty"`
}

// Ready tells the client where to connect its data streams.
type Ready struct {
	Port  int          `json:"port"`  // data port
	Token string       `json:"token"` // TokenSize bytes in hex
	MAC   string       `json:"mac,omitempty"`
	Host  *result.Host `json:"host"` // the server's machine
	// Greeted is set when each connection of a connection test begins with a
	// preamble, as stream 0.
	Greeted bool `json:"greeted,omitempty"`
}

// Audit is the server's audit, or a piece of it.
type Audit struct {
	Rows []sockopt.Row `json:"rows"`
	More bool          `json:"more,omitempty"` // another piece follows
}

// Streams is a piece of the streams of a half, in order.
type Streams struct {
	Direction plan.Direction      `json:"direction"`
	Streams   []result.HalfStream `json:"streams"`
}

// How much goes into one frame of what grows with the number of streams. A
// stream's end is about 1.2 KB of JSON, a row of the audit 300 bytes, a sample
// 200 bytes per stream.
const (
	StreamsPerFrame = 400
	RowsPerFrame    = 1000
	SamplePerFrame  = 2000 // streams
)

// SendAudit sends rows in as many pieces as they need, at least one.
func (c *Conn) SendAudit(rows []sockopt.Row) error {
	for {
		n := min(len(rows), RowsPerFrame)
		if err := c.Send(TypeAudit, Audit{Rows: rows[:n], More: n < len(rows)}); err != nil {
			return err
		}
		if rows = rows[n:]; len(rows) == 0 {
			return nil
		}
	}
}

// SendReport sends a report: the halves' samples, their streams and the audit
// in pieces, then the rest.
func (c *Conn) SendReport(r *result.Report) error {
	rest := *r
	rest.Halves = slices.Clone(r.Halves)
	rest.Audit = nil
	for i := range rest.Halves {
		h := &rest.Halves[i]
		for _, s := range h.Series {
			for from := 0; from == 0 || from < s.Width(); from += SamplePerFrame {
				piece := s.Slice(from, min(from+SamplePerFrame, s.Width()))
				if err := c.Send(TypeSeries, Sample{Direction: h.Direction, Sample: piece}); err != nil {
					return err
				}
			}
		}
		for piece := range slices.Chunk(h.Streams, StreamsPerFrame) {
			if err := c.Send(TypeStreams, Streams{Direction: h.Direction, Streams: piece}); err != nil {
				return err
			}
		}
		h.Streams = nil
	}
	if err := c.SendAudit(r.Audit); err != nil {
		return err
	}
	return c.Send(TypeReport, rest)
}

// A Collector puts a report together from its pieces.
type Collector struct {
	audit   []sockopt.Row
	series  map[plan.Direction][]result.Sample
	streams map[plan.Direction][]result.HalfStream
}

// Add takes the next message of a report. It returns the report with its last
// message, else nil. What comes is bounded by limit, in streams and samples.
func (c *Collector) Add(m Message, limit int) (*result.Report, error) {
	if c.series == nil {
		c.series, c.streams = map[plan.Direction][]result.Sample{}, map[plan.Direction][]result.HalfStream{}
	}
	switch m.Type {
	case TypeAudit:
		var piece Audit
		if err := Unmarshal(m.Type, m.Body, &piece); err != nil {
			return nil, err
		}
		c.audit = append(c.audit, piece.Rows...)
	case TypeSeries:
		var piece Sample
		if err := Unmarshal(m.Type, m.Body, &piece); err != nil {
			return nil, err
		}
		all := c.series[piece.Direction]
		// Pieces of one sample follow one another.
		if last := len(all) - 1; last >= 0 && all[last].Tick == piece.Sample.Tick {
			all[last].Append(&piece.Sample)
		} else {
			all = append(all, piece.Sample)
		}
		c.series[piece.Direction] = all
		if len(all) > limit {
			return nil, fmt.Errorf("control: more than %d samples", limit)
		}
	case TypeStreams:
		var piece Streams
		if err := Unmarshal(m.Type, m.Body, &piece); err != nil {
			return nil, err
		}
		c.streams[piece.Direction] = append(c.streams[piece.Direction], piece.Streams...)
		if len(c.streams[piece.Direction]) > limit || len(c.audit) > limit {
			return nil, fmt.Errorf("control: more than %d streams", limit)
		}
	case TypeReport:
		r := new(result.Report)
		if err := Unmarshal(m.Type, m.Body, r); err != nil {
			return nil, err
		}
		for i := range r.Halves {
			h := &r.Halves[i]
			h.Series, h.Streams = c.series[h.Direction], c.streams[h.Direction]
		}
		r.Audit = c.audit
		return r, nil
	default:
		return nil, fmt.Errorf("control: unexpected %q in a report", m.Type)
	}
	return nil, nil
}

// Sample is one sample of one direction.
type Sample struct {
	Direction plan.Direction `json:"direction"`
	Sample    result.Sample  `json:"sample"`
}

// Closed says that the sender has taken its last sample of a direction.
type Closed struct {
	Direction plan.Direction `json:"direction"`
}

// Error ends a session. Its kinds are those of result.Error.
type Error result.Error

func (e *Error) Error() string { return e.Message }

// message is a frame's JSON.
type message struct {
	Type Type            `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Append appends the frame of a message to b.
func Append(b []byte, t Type, body any) ([]byte, error) {
	m := message{Type: t}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return b, fmt.Errorf("control: encode %s: %w", t, err)
		}
		m.Body = raw
	}
	text, err := json.Marshal(m)
	if err != nil {
		return b, fmt.Errorf("control: encode %s: %w", t, err)
	}
	if len(text) > MaxFrame {
		return b, fmt.Errorf("control: %s of %d bytes is over the limit of %d", t, len(text), MaxFrame)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(b, text...), nil
}

// Parse splits a frame's JSON into type and body.
func Parse(text []byte) (Type, json.RawMessage, error) {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return "", nil, fmt.Errorf("control: not a message: %w", err)
	}
	if m.Type == "" {
		return "", nil, fmt.Errorf("control: message without a type")
	}
	return m.Type, m.Body, nil
}

// ForeignError is a peer that doesn't speak this protocol.
type ForeignError struct {
	Begins string // its first bytes, quoted
}

func (e *ForeignError) Error() string { return "not gperf: it begins with " + e.Begins }

// Conn frames messages over a stream. Send may be called by several goroutines
// at once, Receive by one.
type Conn struct {
	stream io.ReadWriter
	mu     sync.Mutex // guards out
	out    []byte
	in     []byte
	met    bool // the peer's first message has come: it speaks this protocol
}

// NewConn returns a Conn over stream.
func NewConn(stream io.ReadWriter) *Conn { return &Conn{stream: stream} }

// Send sends one message in one write.
func (c *Conn) Send(t Type, body any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	frame, err := Append(c.out[:0], t, body)
	if err != nil {
		return err
	}
	c.out = frame
	_, err = c.stream.Write(frame)
	return err
}

// Receive returns the next message. The body is valid until the next call. A
// peer that isn't gperf shows by its first frame, which is too long or no
// message: *ForeignError.
func (c *Conn) Receive() (Type, json.RawMessage, error) {
	var head [4]byte
	if n, err := io.ReadFull(c.stream, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && !c.met {
			return "", nil, &ForeignError{strconv.Quote(string(head[:n]))}
		}
		return "", nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	switch {
	case length > MaxFrame && !c.met:
		return "", nil, c.foreign(head[:])
	case length > MaxFrame:
		return "", nil, fmt.Errorf("control: a frame of %d bytes is over the limit of %d", length, MaxFrame)
	}
	if cap(c.in) < int(length) {
		// Grown as bytes arrive, not on the peer's word.
		c.in = make([]byte, 0, min(int(length), 64<<10))
	}
	c.in = c.in[:0]
	for len(c.in) < int(length) {
		if len(c.in) == cap(c.in) {
			c.in = append(make([]byte, 0, min(2*cap(c.in), int(length))), c.in...)
		}
		n, err := c.stream.Read(c.in[len(c.in):min(cap(c.in), int(length))])
		c.in = c.in[:len(c.in)+n]
		if err != nil && len(c.in) < int(length) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return "", nil, err
		}
	}
	t, body, err := Parse(c.in)
	if err != nil && !c.met {
		return "", nil, &ForeignError{strconv.Quote(string(append(head[:], c.in[:min(len(c.in), enough)]...)))}
	}
	c.met = true
	return t, body, err
}

// enough is how many bytes of a foreign peer's tell what it is.
const enough = 28

// foreign makes the error about a peer whose first bytes are head, adding a few
// more of what it says if they are there.
func (c *Conn) foreign(head []byte) error {
	more := make([]byte, enough)
	n, _ := c.stream.Read(more)
	return &ForeignError{strconv.Quote(string(append(head, more[:n]...)))}
}

// Unmarshal decodes the body of a message of type t.
func Unmarshal(t Type, raw json.RawMessage, body any) error {
	if err := json.Unmarshal(raw, body); err != nil {
		return fmt.Errorf("control: %s: %w", t, err)
	}
	return nil
}

// ParseError decodes the body of an error message.
func ParseError(raw json.RawMessage) error {
	e := new(Error)
	if err := Unmarshal(TypeError, raw, e); err != nil {
		return err
	}
	return e
}

// CheckHello reports why a peer's hello is not acceptable, in words.
func CheckHello(h *Hello) error {
	if h.Magic != Magic {
		return &ForeignError{strconv.Quote(h.Magic)}
	}
	if h.Version.Major != Current.Major {
		return fmt.Errorf("%s speaks control protocol %s, this program %s: both ends need the same major version",
			peerName(h.Program), h.Version, Current)
	}
	return nil
}

func peerName(program string) string {
	const longest = 64
	if program == "" || len(program) > longest {
		return "the other end"
	}
	return strconv.Quote(program)
}

// NewNonce returns 32 random bytes in hex.
func NewNonce() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails, says its documentation
	return hex.EncodeToString(b)
}

// Authenticate is HMAC-SHA256 in hex over a nonce and what is to be proved.
func Authenticate(secret []byte, nonce string, proved []byte) string {
	h := hmac.New(sha256.New, secret)
	fmt.Fprintf(h, "%d:%s", len(nonce), nonce)
	h.Write(proved)
	return hex.EncodeToString(h.Sum(nil))
}

// Authentic reports whether mac is what Authenticate returns, in constant time.
func Authentic(secret []byte, nonce string, proved []byte, mac string) bool {
	return hmac.Equal([]byte(mac), []byte(Authenticate(secret, nonce, proved)))
}
