package result

import (
	"gperf/plan"
	"gperf/sockopt"
)

// A Report is what one end says after a test: the form in which the server's
// measurements travel to the client, and the client's own reach Merge.
type Report struct {
	Halves   []Half        `json:"halves"`
	Audit    []sockopt.Row `json:"audit"`
	CPU      *EndCPU       `json:"cpu"`
	Counters *Counters     `json:"counters"`
	Runtime  *Runtime      `json:"runtime"`
	// SYNCookies is set when this end answered SYNs with cookies while the
	// test's connections were set up.
	SYNCookies bool `json:"syn_cookies"`
	// OtherTests is how many other tests this end ran at some time of this one.
	OtherTests int `json:"other_tests"`
	// Descriptors is how many more this end could have opened.
	Descriptors *int64 `json:"descriptors"`
}

// A Half is what one end measured of one direction of a test. Times are of that
// end's CLOCK_MONOTONIC, in nanoseconds.
type Half struct {
	Direction plan.Direction `json:"direction"`
	Role      plan.Role      `json:"role"`
	Engine    string         `json:"engine"`    // blocking or epoll
	Paced     bool           `json:"paced"`     // a sender held to a rate
	Late      int            `json:"late"`      // ticks that were missed because a sample came late
	OpenedNs  int64          `json:"opened_ns"` // the window's edges, as they really were
	ClosedNs  int64          `json:"closed_ns"`
	Streams   []HalfStream   `json:"streams"`
	Threads   []HalfThread   `json:"threads"`
	// Series are the samples from the opening of the window to its close, both
	// included, in order. It travels apart from the rest, in bounded pieces.
	Series []Sample `json:"-"`
}

// A HalfStream is one stream's end, beyond what its samples say.
type HalfStream struct {
	ID        int             `json:"id"`
	Local     string          `json:"local"`
	Remote    string          `json:"remote"`
	InfoStart sockopt.TCPInfo `json:"info_start"`
	InfoEnd   sockopt.TCPInfo `json:"info_end"`
	Mover     *Mover          `json:"mover"` // bulk streams
	// Congestion control at the window's end, and what it says of itself.
	Algorithm string             `json:"algorithm"`
	CCInfo    map[string]float64 `json:"cc_info,omitempty"`
	// ConnectErrors are the failed connects of a connection test, by error.
	ConnectErrors map[string]uint64 `json:"connect_errors,omitempty"`
	Error         string            `json:"error,omitempty"`
}

// A HalfThread is one worker thread of a half. In the blocking engine it drives
// one stream, in the epoll engine several.
type HalfThread struct {
	Streams []int      `json:"streams"` // their numbers
	CPUs    []int      `json:"cpus"`    // mask read back, if pinned
	CPUNs   *int64     `json:"cpu_ns"`  // CPU time inside the window
	Use     *ThreadUse `json:"use"`     // the rest of its accounts, taken just outside the window
	Latency string     `json:"latency,omitempty"`
	// Connects are how long the connects of a connection test took.
	Connects string `json:"connects,omitempty"`
}

// LastTick is the tick of a series' closing sample. Ticks are numbered from 0,
// the opening, in units of the plan's interval; a late sample has the number of
// the latest edge that it passed, so numbers may be missing.
const LastTick = -1

// A Sample is one reading of a half's counters at one moment, in columns with
// one entry per stream. Counters run from the start of the workers, so that any
// two samples' difference is what happened between them, to the byte.
type Sample struct {
	Tick          int      `json:"tick"`
	AtNs          int64    `json:"at_ns"` // when it was really taken
	Sent          []uint64 `json:"sent"`
	Received      []uint64 `json:"received"`
	SendCalls     []uint64 `json:"send_calls"`
	ReceiveCalls  []uint64 `json:"receive_calls"`
	ShortSends    []uint64 `json:"short_sends"`
	Interruptions []uint64 `json:"interruptions"`
	Transactions  []uint64 `json:"transactions"`
	// TCP holds the columns of TCP_INFO by sockopt's field names. A column is
	// missing when the kernel doesn't report the field.
	TCP map[string][]uint64 `json:"tcp,omitempty"`
}

// Columns of a sample's TCP that aren't TCP_INFO's.
const (
	PipeQueued       = "pipe_queued_bytes" // in the pipes of the streams' movers
	ConnectErrors    = "connect_errors"    // failed connects of a connection test
	SendErrors       = "send_errors"       // datagrams that the sender's kernel refused
	LostTransactions = "lost_transactions" // requests without a response in time
	LostDatagrams    = "lost_datagrams"    // by their numbers, until now: one that comes late makes it less
	OutOfOrder       = "out_of_order_datagrams"
	Duplicates       = "duplicate_datagrams"
	JitterNs         = "jitter_ns"
	SocketDrops      = "socket_drops" // by the receiver's kernel, at the socket
)

// SampleFields are the fields of TCP_INFO that every sample carries.
var SampleFields = []sockopt.TCPField{
	sockopt.TotalRetrans, sockopt.BytesRetrans, sockopt.TotalRTO, sockopt.DataSegsOut, sockopt.BytesAcked,
	sockopt.RTT, sockopt.RTTVar, sockopt.SndCwnd, sockopt.SndMSS, sockopt.SndWnd, sockopt.RcvWnd, sockopt.DeliveryRate,
}

// columns are the sample's columns of counters, in a fixed order.
func (s *Sample) columns() []*[]uint64 {
	return []*[]uint64{&s.Sent, &s.Received, &s.SendCalls, &s.ReceiveCalls, &s.ShortSends, &s.Interruptions, &s.Transactions}
}

// Width is the number of the columns' entries.
func (s *Sample) Width() int { return len(s.Sent) }

// Slice is the sample's entries from up to, not including, to.
func (s Sample) Slice(from, to int) Sample {
	piece := s // its columns are replaced, not written to
	for _, column := range piece.columns() {
		*column = (*column)[from:to]
	}
	piece.TCP = make(map[string][]uint64, len(s.TCP))
	for name, column := range s.TCP {
		piece.TCP[name] = column[from:to]
	}
	return piece
}

// Append adds the entries of the next piece of the same sample.
func (s *Sample) Append(piece *Sample) {
	more := piece.columns()
	for i, column := range s.columns() {
		*column = append(*column, *more[i]...)
	}
	for name, column := range piece.TCP {
		s.TCP[name] = append(s.TCP[name], column...)
	}
}
