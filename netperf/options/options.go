// Package options reads the command lines of netperf and netserver: their own
// grammar of options, pairs, numbers and suffixes, as scripts have written them
// for twenty years. It opens nothing and prints nothing: what a command line
// asks to be printed comes back as an Exit.
package options

import "time"

// Test is a test's name, in netperf's capitals.
type Test string

// The tests.
const (
	TCPStream   Test = "TCP_STREAM"
	TCPMaerts   Test = "TCP_MAERTS"
	TCPRR       Test = "TCP_RR"
	TCPCRR      Test = "TCP_CRR"
	UDPStream   Test = "UDP_STREAM"
	UDPRR       Test = "UDP_RR"
	Omni        Test = "OMNI"
	TCPSendfile Test = "TCP_SENDFILE"
	TCPCC       Test = "TCP_CC"
	TCPMSS      Test = "TCP_MSS"
	LocalCPU    Test = "LOC_CPU"
	RemoteCPU   Test = "REM_CPU"
	UUID        Test = "UUID"
)

// Family is an address family as the command line names it.
type Family int

// The families.
const (
	Unspecified Family = 0
	IPv4        Family = 4
	IPv6        Family = 6
)

// Ends is one value for each end.
type Ends[T any] struct{ Local, Remote T }

// SendRecv is one value for each direction.
type SendRecv struct{ Send, Recv int }

// Host is a name or address and a family; Name is empty when only a family was
// given.
type Host struct {
	Name   string
	Mask   int // of "name/mask": how many leading bits stay; 0: all
	Family Family
}

// Unset is the value of a number that was not given and has no default. Numbers
// that were given are from 0 to 2^31-1 where nothing else is said.
const Unset = -1

// Style is how the result is laid out.
type Style int

// The styles.
const (
	Classic Style = iota // each test's own table
	Human                // omni, aligned columns (-O, and OMNI's default)
	CSV                  // omni (-o)
	Keyval               // omni (-k)
)

// Direction is which way payload goes, seen from netperf; a set of bits.
type Direction int

// The directions.
const (
	Transmit Direction = 1 << 1
	Receive  Direction = 1 << 2
	Both               = Transmit | Receive
)

// Netperf is a command line of netperf, defaults filled in.
type Netperf struct {
	Args []string // the whole command line, the program's name first
	Test Test     // one that is not Known as it was given, in capitals; Data then has no options
	Data          // test-specific options

	Target        Host   // -H; Name "" : not given, the default applies
	Source        Host   // -L, the control connection's and, by default, the data's
	Port          int    // -p first
	SourcePort    int    // -p second
	Family        Family // of the control connection: -4, -6, or what -H and -L said, of these -H first
	NoControl     bool   // -N
	Passphrase    string // -Z
	HasPassphrase bool

	Length     int            // -l: seconds, or when negative bytes or transactions; 0: until interrupted
	Wait       time.Duration  // -s: between the response and the start
	Interval   Interim        // -D: interim results
	Pace       Ends[Pace]     // -b and -w
	CPU        Ends[bool]     // -c and -C: measure
	CPURate    Ends[float64]  // their optional numbers; 0: none
	Confidence Confidence     // -i, -I and -r
	Bind       Ends[int]      // -T: CPU; Unset
	Align      Ends[SendRecv] // -a, -A
	Offset     Ends[SendRecv] // -o, -O
	Width      SendRecv       // -W: buffers in the local rings; 0: not given
	Dirty      Ends[SendRecv] // -k, -K: dirty and clean counts as Send and Recv; Unset
	Fill       Ends[string]   // -F
	Priority   Ends[int]      // -y; Unset
	TOS        Ends[int]      // -Y; Unset
	KeepAlive  bool           // -S
	CPUs       int            // -n: accepted, without effect

	Unit      byte    // -f: as given, first character; 0: the test's default
	Verbosity int     // -v
	Banner    bool    // -P
	Brand     *string // -B
	Debug     int     // -d
	Histogram bool    // -j: keep latency statistics
	JSON      string  // -J, --json: gperf's own result document; "-": standard output

	// Notes are lines for standard output that come before anything else:
	// things netperf says of options and then goes on ("I don't know how to get
	// dirty." and the like).
	Notes []string
	// NoEffect names, for -d, options that were accepted without effect here,
	// each with the reason.
	NoEffect []string
}

// Interim says how interim results are to be shown.
type Interim struct {
	Every time.Duration // 0: not at all
	// EachOperation is the form with a negative time: the clock is read after
	// every operation instead of after an estimated number of them.
	EachOperation bool
	Units         int // the second value: the first estimate; 0: none
}

// Pace holds a sender back: Burst operations, then a wait for the next Interval.
type Pace struct {
	Burst    int           // 0: none; remotely at most 2^32-1
	Interval time.Duration // whole microseconds, at most 2^32-1 of them; more than 0 with a Burst
}

// Confidence says how a test is repeated.
type Confidence struct {
	Min, Max   int     // iterations; 1 and 1 without -i and -I, else 3 to 30
	Level      int     // percent: 95 or 99; 0: not asked for
	Width      float64 // full width of the interval in percent of the mean; -1: not asked for
	ResultOnly bool    // -r: of the result, not of CPU utilisation
}

// Data is the test-specific options.
type Data struct {
	Style     Style
	Selectors string // the spec of -k, -o and -O; "": the default set

	Direction  Direction // OMNI: what -d said or -m, -M and -r implied; the test's own otherwise; 0: connections only
	Connection bool      // -c, and TCP_CRR and TCP_CC: a connection per transaction
	Datagram   *bool     // -t: dgram or stream, or what -T implied; nil: neither given
	Protocol   string    // -T: tcp, udp, ... in lower case; "": the test's

	Socket        Ends[SendRecv] // -s, -S: buffer sizes; Unset
	SendSize      Ends[int]      // -m; Unset, also when 0 was given
	RecvSize      Ends[int]      // -M; Unset, also when 0 was given
	Request       int            // -r, at least 1; Unset: not a request/response test
	Response      int
	Burst         int           // -b: further requests kept outstanding
	NoDelay       bool          // -D
	Cork          bool          // -C
	MSS           int           // -G; 0: not given
	PacingRate    int64         // -q: bytes per second; 0: not given
	Congestion    Ends[string]  // -K
	Routing       *bool         // -R; nil: not given
	CopyAvoidance bool          // -V: receive without copying
	DeferAccept   bool          // -a
	FastOpen      bool          // -F
	PacketInfo    bool          // -B: the server answers from the address it was asked on
	Connected     Ends[bool]    // -n, -N: connected UDP sockets
	MTUDiscover   bool          // -f
	UseWrite      bool          // -I
	Retry         bool          // -U: failing connects of connection tests are tried again
	Timeout       time.Duration // -e: of receives on UDP sockets; 0: none
	TTL           int           // -l: multicast; 0: not given
	Ports         [2]int        // -p: first and last local port of connection tests; 0, 0: the kernel's choice, or no -p
	DataPort      Ends[int]     // -P; 0: any
	DataTarget    Host          // -H; Name "": Target
	DataSource    Host          // -L; Name "": Source
	DataFamily    Family        // -4, -6, or what -H and -L said; Unspecified: not given
	UUID          string        // -u, at most 37 bytes; "": to be made up
}

// An Exit is a command line that asks for nothing but words: help, a version, or
// a mistake in it.
type Exit struct {
	Status         int
	Stdout, Stderr string
}

// Error makes an Exit an error.
func (e *Exit) Error() string { return e.Stderr + e.Stdout }

// Netserver is a command line of netserver, defaults filled in.
type Netserver struct {
	Args          []string
	Listen        Host // -L; Name "": every address
	Port          int  // -p
	Family        Family
	Foreground    bool   // -D
	Serial        bool   // -f: one connection at a time, in the listening process
	Debug         int    // -d
	NoDebug       bool   // -N
	Verbosity     int    // -v
	Passphrase    string // -Z
	HasPassphrase bool
	// Notes are lines for standard output that come before anything else, as of
	// Netperf.
	Notes []string
	// NoEffect names, for -d, options that were accepted without effect here,
	// each with the reason.
	NoEffect []string
}
