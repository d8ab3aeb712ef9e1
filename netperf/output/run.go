// Package output writes what netperf writes: banners, the tables of the classic
// tests, the omni forms with their selectors, interim results and confidence
// warnings, byte for byte. It gets finished figures and an io.Writer; it
// measures nothing.
package output

import (
	"time"

	"gperf/netperf/options"
)

// A Side is what is known of one end in one iteration.
type Side struct {
	SendBuffer, RecvBuffer       int // SO_SNDBUF and SO_RCVBUF as reported at first, bytes
	SendBufferEnd, RecvBufferEnd int // and at the end
	SendSize, RecvSize           int // bytes per call of a bulk test; as selectors show it: 0 or -1 where there is none
	SendWidth, RecvWidth         int // buffers in the rings

	BytesSent, BytesReceived uint64
	SendCalls, RecvCalls     uint64
	FailedSends              uint64

	NoDelay, Cork bool // Cork is what was asked for: nothing tells the remote end of it
	Retransmits   int  // segments over the data connection's life; -1: not known
	Congestion    string
	Priority, TOS int // read back; -1: not asked for; -2: failed
	MSS           int // TCP_MAXSEG; -1: not TCP

	CPU *CPU // nil: not measured
}

// CPU is the use of one end's CPUs in one iteration.
type CPU struct {
	Util                               float64 // percent of all CPUs that was not idle, as netperf counts
	User, System, IOWait, IRQ, SoftIRQ float64 // percent
	Count                              int     // CPUs
	PeakUtil                           float64 // of the busiest
	PeakID                             int
	Method                             byte // letter: S
	// Rate is what calibration gives, clock ticks per second on Linux: all that
	// LOC_CPU and REM_CPU print.
	Rate float64
}

// An Iteration is one run of the test; without -i and -I there is one.
type Iteration struct {
	Elapsed       time.Duration
	Local, Remote Side
	Transactions  uint64 // request/response and connection tests
	// Paused is the time that pacing waited, which round-trip latency leaves out.
	Paused time.Duration
}

// An Address is one end of the data connection as the banner shows it.
type Address struct {
	Name string // canonical name or address: 0.0.0.0, ::0, or what was asked for
	Text string // numeric address
	Port int    // of -P; 0
}

// A Run is a finished test with all of its iterations.
type Run struct {
	Options    *options.Netperf
	Iterations []Iteration
	// Latency is of the operations of all iterations, nil when no statistics
	// were kept: transactions, or single send or receive calls in bulk tests.
	Latency *Latency
	UUID    string // of this run, made up or given
	// Family is the data connection's address family, AF_INET or AF_INET6.
	Family int
	// Selection is what Omni is to show, as ParseSelectors read it before the
	// test; zero: the default set of the test.
	Selection Selection
}

// Latency counts durations in netperf's histogram, with exact extremes, sum and
// sum of squares.
type Latency struct {
	// Buckets are eight decades of a hundred buckets each: units of 1 us, 10 us
	// ... 10 s, in tenths.
	Buckets         [8][100]uint64
	Ridiculous      uint64  // 100 s and more, or negative
	Count           uint64  // all but the negative ones
	Sum, SumSquares float64 // microseconds
	Min, Max        float64 // microseconds
}

// An Interim is one interval of a test under way.
type Interim struct {
	Index  int     // from 0
	Units  float64 // bytes, or transactions
	Length time.Duration
	End    time.Time
}
