// Package result is a finished run as plain data: what was asked, what was in
// force, what each end measured, and what follows from both. Merge builds a Run
// from the halves that the two ends measured; the encoders below this folder
// print it.
//
// Every field's meaning and unit stands in its doc tag, from which the JSON
// Schema and docs/result.md are generated. Unknown is a nil pointer, printed as
// null: never 0, never NaN. Within schema gperf/1 fields are only added.
package result

import (
	"time"

	"gperf/plan"
	"gperf/sockopt"
	"gperf/stats"
)

// Schema names the form of the document.
const Schema = "gperf/1"

// Status says how a run ended.
type Status string

// The ways in which a run ends.
const (
	Complete Status = "complete" // everything asked for was measured
	Partial  Status = "partial"  // ended early; what was measured until then is given
	Failed   Status = "failed"   // nothing was measured
)

// Run is one finished run.
type Run struct {
	Schema    string            `json:"schema" doc:"form of this document: gperf/1"`
	ID        string            `json:"id" doc:"random identifier of this run, 32 hex digits"`
	Started   time.Time         `json:"started" doc:"when the client began, RFC 3339 with the client's time zone"`
	Gperf     Build             `json:"gperf" doc:"the program that wrote this document (the client's)"`
	Labels    map[string]string `json:"labels" doc:"labels given with --label"`
	Status    Status            `json:"status" doc:"complete, partial (ended early: the figures are of what was measured) or failed (nothing was measured)"`
	Error     *Error            `json:"error" doc:"why the run is not complete; null when it is"`
	Warnings  []Warning         `json:"warnings" doc:"what a reader must know before trusting or comparing the figures"`
	Trust     Trust             `json:"trust" doc:"whether the figures can be taken at face value"`
	Plan      *plan.Test        `json:"plan" doc:"what was asked for, defaults filled in; null when the command line itself was wrong"`
	Hosts     Ends[*Host]       `json:"hosts" doc:"the machines"`
	Server    *string           `json:"server_address" doc:"address and port of the server, as the client connected to it; null when it didn't"`
	Setup     *Setup            `json:"setup" doc:"how long the set-up took; null when it wasn't reached"`
	Engines   Ends[*Engine]     `json:"engines" doc:"how each end's workers waited for their sockets"`
	Runtime   Ends[*Runtime]    `json:"runtime" doc:"what gperf's own runtime did inside the window"`
	Audit     []sockopt.Row     `json:"audit" doc:"every knob on both ends: asked for, reported by the kernel, judged"`
	Summary   *Summary          `json:"summary" doc:"the figures of the whole run; null when nothing was measured"`
	Streams   []Stream          `json:"streams" doc:"the figures of each stream"`
	Intervals []Interval        `json:"intervals" doc:"the figures of each reporting interval, if intervals were asked for"`
	Stalls    []Stall           `json:"stalls" doc:"times in which a bulk stream moved less than a tenth of its median interval; needs intervals, five at least"`
	Counters  Ends[*Counters]   `json:"counters" doc:"what each end's counters grew by over the window"`
	Repeat    *Repeat           `json:"repeat" doc:"the series of runs that this one is the middle one of; null for a single run"`
	Sweep     *Place            `json:"sweep" doc:"where in a sweep this run belongs; null for a run of its own"`
	Lab       *Lab              `json:"lab" doc:"the private network that the run had; null: the machine's own"`
}

// Place is where in a sweep a run belongs.
type Place struct {
	ID    string            `json:"id" doc:"random identifier of the sweep, 32 hex digits"`
	Cell  map[string]string `json:"cell" doc:"the value of each axis, as written"`
	Index int               `json:"index" doc:"number of the cell, from 0, in the order of the axes' product"`
	Trial int               `json:"trial" doc:"number of the trial of this cell, from 1"`
	Round int               `json:"round" doc:"number of the round, from 1: in each, every cell has one trial"`
	Slot  int               `json:"slot" doc:"place of the trial in the order of all, from 1"`
	Seed  uint64            `json:"seed" doc:"seed of the order"`
	Hosts int               `json:"hosts" doc:"number of the line of the sweep's file, from 1, that describes the hosts, which stand there once; 0: hosts of this document"`
}

// Lab is the private network of a run.
type Lab struct {
	Kind     string       `json:"kind" doc:"loopback or veth"`
	Settings []LabSetting `json:"settings" doc:"what was set in it, as read back"`
	Link     *LabLink     `json:"link" doc:"what gperf's own link counted during the run; null: it wasn't used"`
}

// LabSetting is one setting of a lab.
type LabSetting struct {
	End       string `json:"end" doc:"client or server"`
	Name      string `json:"name" doc:"mtu, sysctl.NAME, offload.NAME and so on"`
	Requested string `json:"requested" doc:"the value asked for"`
	Effective string `json:"effective" doc:"the value read back"`
}

// LabLink is what gperf's own link between the ends counted.
type LabLink struct {
	Packets    uint64 `json:"packets" doc:"packets that came to the link, both ways"`
	Lost       uint64 `json:"lost" doc:"packets that it dropped on purpose"`
	Overflow   uint64 `json:"overflow" doc:"packets that its queue had no room for"`
	MostQueued uint64 `json:"most_queued_bytes" doc:"most bytes in its queue at once, the larger of both ways"`
}

// Build names a gperf binary.
type Build struct {
	Version string `json:"version" doc:"release, or devel"`
	Commit  string `json:"commit" doc:"git commit, empty when not known"`
}

// Error is why a run is not complete.
type Error struct {
	Kind    string `json:"kind" doc:"usage, plan, connect, auth, protocol, peer, timeout, data, signal or internal"`
	Message string `json:"message" doc:"one line: what, where, why"`
	End     string `json:"end" doc:"the end at fault: client or server; empty when not known"`
}

// Warning is something a reader must know.
type Warning struct {
	Code    string `json:"code" doc:"stable word for programs, for example clamped"`
	End     string `json:"end" doc:"client or server; empty: the run as a whole"`
	Stream  *int   `json:"stream" doc:"the stream it's about; null: not a single one"`
	Message string `json:"message" doc:"one sentence"`
}

// Setup is how long the set-up of a test took.
type Setup struct {
	Control float64 `json:"control_seconds" doc:"connecting the control connection and exchanging hellos"`
	Data    float64 `json:"data_seconds" doc:"connecting all data connections, from the first SYN to the last preamble"`
}

// Trust is whether a run's figures can be taken at face value.
type Trust struct {
	OK      bool     `json:"ok" doc:"no reason was found not to"`
	Reasons []string `json:"reasons" doc:"the reasons why not, one sentence each"`
}

// Ends is one value for each end.
type Ends[T any] struct {
	Client T `json:"client" doc:"the client's end"`
	Server T `json:"server" doc:"the server's end"`
}

// Of returns the place of end's value.
func (e *Ends[T]) Of(end sockopt.End) *T {
	if end == sockopt.Client {
		return &e.Client
	}
	return &e.Server
}

// Figures are what is known of a run, or of one of its directions.
//
// Throughput is the receiver's payload inside its window over that window.
// Bytes handed to the sender's kernel and bytes acknowledged are taken over the
// sender's own window, which opens and closes a little apart (see the skews).
type Figures struct {
	Throughput       *float64          `json:"throughput_bits_per_second" doc:"payload received inside the receiver's window over that window; null in request/response tests"`
	Duration         *float64          `json:"duration_seconds" doc:"length of the measuring end's window, as it really was"`
	SentBytes        *uint64           `json:"sent_bytes" doc:"payload handed to the sender's kernel inside the sender's window, by calls that had returned: what is acknowledged may be ahead by up to a message per stream"`
	AckedBytes       *uint64           `json:"acked_bytes" doc:"payload acknowledged to the sender inside its window"`
	ReceivedBytes    *uint64           `json:"received_bytes" doc:"payload received inside the receiver's window"`
	Transactions     *uint64           `json:"transactions" doc:"transactions completed inside the requester's window"`
	TPS              *float64          `json:"transactions_per_second" doc:"transactions over the window"`
	Latency          *stats.Latency    `json:"latency_us" doc:"latency of the transactions, microseconds; in connection tests from before the connect to after the server's close"`
	Connect          *stats.Latency    `json:"connect_latency_us" doc:"part of it until the connection stood, microseconds; null but in connection tests"`
	ConnectErrors    map[string]uint64 `json:"connect_errors" doc:"connections of a connection test that were not made or broke, by system call and error (connect: EADDRNOTAVAIL); they are no transactions; null in other tests"`
	LostTransactions *uint64           `json:"lost_transactions" doc:"requests in datagrams whose response did not come within response_timeout_seconds; null in other tests"`
	Datagrams        *Datagrams        `json:"datagrams" doc:"what became of the datagrams of a UDP_STREAM; null in other tests"`
	RetransSegs      *uint64           `json:"retransmitted_segments" doc:"segments retransmitted by the sending end inside its window, tail-loss probes included"`
	RetransBytes     *uint64           `json:"retransmitted_bytes" doc:"payload bytes retransmitted"`
	SegmentsOut      *uint64           `json:"segments_out" doc:"segments with payload sent, retransmits included"`
	RTOEvents        *uint64           `json:"rto_events" doc:"retransmission time-outs"`
	RTT              *RTT              `json:"rtt_us" doc:"the sending end's round-trip times, microseconds, over the streams at the window's end"`
	Window           *float64          `json:"receive_window_bytes" doc:"window that the receiving end offered at the end, mean of the streams"`
	SendCalls        *uint64           `json:"send_calls" doc:"send calls that moved bytes, inside the sender's window"`
	ReceiveCalls     *uint64           `json:"receive_calls" doc:"receive calls that moved bytes, inside the receiver's window"`
	StartSkew        *float64          `json:"start_skew_seconds" doc:"how much later the sender's window opened than the receiver's, by one clock"`
	StopSkew         *float64          `json:"stop_skew_seconds" doc:"how much later the sender's window closed than the receiver's, by one clock"`
	Sending
}

// Datagrams is what became of the datagrams of a UDP_STREAM. Loss is told by
// their numbers, inside the receiver's window: those up to the highest that came
// in it, less those that came.
type Datagrams struct {
	Sent        *uint64  `json:"sent" doc:"datagrams that the sender's kernel took, inside the sender's window"`
	SendErrors  *uint64  `json:"send_errors" doc:"datagrams that it had no room for (ENOBUFS); they were not sent and have no number"`
	Received    *uint64  `json:"received" doc:"datagrams received inside the receiver's window, duplicates included"`
	Lost        *uint64  `json:"lost" doc:"datagrams that did not come"`
	LostPercent *float64 `json:"lost_percent" doc:"lost, of those that should have come"`
	OutOfOrder  *uint64  `json:"out_of_order" doc:"datagrams that came after one with a higher number; they are not lost"`
	Duplicates  *uint64  `json:"duplicates" doc:"datagrams that came again"`
	Jitter      *float64 `json:"jitter_us" doc:"variation of the transit time, smoothed as RFC 3550 says, at the window's end, microseconds; the mean over the streams"`
	SocketDrops *uint64  `json:"socket_drops" doc:"packets that the receiver's kernel dropped at the sockets, mostly because their receive buffers were full; part of lost"`
}

// RTT gathers the smoothed round-trip times of several streams.
type RTT struct {
	Min  float64 `json:"min" doc:"smallest tcpi_min_rtt"`
	Mean float64 `json:"mean" doc:"mean of the streams' smoothed RTT (tcpi_rtt)"`
	Max  float64 `json:"max" doc:"largest smoothed RTT"`
}

// Summary is the figures of the whole run. Sums over both directions stand in
// Figures itself; each direction's own in Directions.
type Summary struct {
	Figures
	Diagnosis  []string   `json:"diagnosis" doc:"what bounded the result, by rule, the strongest first, each sentence with its evidence"`
	Directions Directions `json:"directions" doc:"the same figures for each direction; null where nothing flowed"`
	CPU        CPU        `json:"cpu" doc:"what the window cost in CPU time"`
	Clock      *Clock     `json:"clock" doc:"offset between the two ends' monotonic clocks"`
}

// Directions is the figures of each way.
type Directions struct {
	ClientToServer *Figures `json:"client_to_server" doc:"payload from client to server"`
	ServerToClient *Figures `json:"server_to_client" doc:"payload from server to client"`
}

// Clock relates the monotonic clocks of the ends.
type Clock struct {
	Offset      float64 `json:"offset_seconds" doc:"server's clock minus client's"`
	Uncertainty float64 `json:"uncertainty_seconds" doc:"half the round trip of the best exchange; 0 on one machine"`
}

// CPU is what the window cost in CPU time.
type CPU struct {
	Scope  string  `json:"scope" doc:"shared: both ends ran on one machine, whose totals are counted once; separate: each end on its own"`
	Client *EndCPU `json:"client" doc:"the client's end"`
	Server *EndCPU `json:"server" doc:"the server's end"`
}

// EndCPU is the CPU time of one end inside its window. The machine's shares
// are of all its CPUs together (100 = every CPU busy) from /proc/stat.
type EndCPU struct {
	User           *float64   `json:"user_percent" doc:"user time, nice included, of all CPUs"`
	System         *float64   `json:"system_percent" doc:"system time of all CPUs"`
	Softirq        *float64   `json:"softirq_percent" doc:"softirq time of all CPUs"`
	IRQ            *float64   `json:"irq_percent" doc:"hard interrupt time of all CPUs"`
	Steal          *float64   `json:"steal_percent" doc:"time taken by the hypervisor"`
	Total          *float64   `json:"total_percent" doc:"all time but idle and waiting for I/O"`
	CoresUsed      *float64   `json:"cores_used" doc:"total_percent as a number of CPUs"`
	Resolution     *float64   `json:"resolution_percent" doc:"what one clock tick of one CPU comes to in these percentages; windows below 1 s have no split"`
	CPUs           int        `json:"cpus" doc:"CPUs online"`
	PerCPU         []CPUShare `json:"per_cpu" doc:"each CPU alone; null when not known"`
	MachineSeconds *float64   `json:"machine_seconds" doc:"CPU time of the whole machine, idle and waiting for I/O left out"`
	ThreadSeconds  *float64   `json:"thread_seconds" doc:"CPU time of this end's worker threads"`
	RunQueueWait   *float64   `json:"run_queue_wait_seconds" doc:"longest time that one of this end's worker threads was ready to run and waited for a CPU"`
	DemandKiB      *float64   `json:"service_demand_us_per_kib,omitempty" doc:"CPU microseconds per KiB moved: of the machine, or of this end's threads when the machine is shared"`
	DemandTrans    *float64   `json:"service_demand_us_per_transaction,omitempty" doc:"CPU microseconds per transaction, likewise"`
}

// Stream is the figures of one stream.
type Stream struct {
	ID           int            `json:"id" doc:"stream number, from 1"`
	Direction    plan.Direction `json:"direction" doc:"client_to_server, server_to_client, or both (request/response)"`
	Throughput   *float64       `json:"throughput_bits_per_second" doc:"as in summary, this stream alone"`
	Transactions *uint64        `json:"transactions" doc:"transactions completed inside the requester's window"`
	Latency      *stats.Latency `json:"latency_us" doc:"latency of this stream's transactions, microseconds"`
	Datagrams    *Datagrams     `json:"datagrams" doc:"as in summary, this stream alone"`
	Client       *StreamEnd     `json:"client" doc:"the client's end of the stream"`
	Server       *StreamEnd     `json:"server" doc:"the server's end of the stream"`
}

// StreamEnd is one end of a stream, inside that end's window.
type StreamEnd struct {
	Role          plan.Role  `json:"role" doc:"sender, receiver, requester or responder"`
	Local         string     `json:"local_address" doc:"this end's address and port"`
	Remote        string     `json:"remote_address" doc:"the other end's address and port"`
	Duration      float64    `json:"duration_seconds" doc:"length of this end's window"`
	SentBytes     uint64     `json:"sent_bytes" doc:"payload handed to this end's kernel"`
	AckedBytes    *uint64    `json:"acked_bytes" doc:"payload acknowledged to this end"`
	ReceivedBytes uint64     `json:"received_bytes" doc:"payload received by this end"`
	SendCalls     uint64     `json:"send_calls" doc:"send calls that moved bytes"`
	ReceiveCalls  uint64     `json:"receive_calls" doc:"receive calls that moved bytes"`
	ShortSends    uint64     `json:"short_sends" doc:"sends that the kernel cut short"`
	Interruptions uint64     `json:"interruptions" doc:"calls that a signal or a socket time-out interrupted before a byte moved"`
	RetransSegs   *uint64    `json:"retransmitted_segments" doc:"segments this end retransmitted"`
	RetransBytes  *uint64    `json:"retransmitted_bytes" doc:"payload bytes this end retransmitted"`
	SegmentsOut   *uint64    `json:"segments_out" doc:"segments with payload this end sent"`
	RTOEvents     *uint64    `json:"rto_events" doc:"retransmission time-outs at this end"`
	Mover         *Mover     `json:"mover" doc:"how the bytes of a bulk stream were moved, inside the window; null in request/response tests"`
	Options       *Options   `json:"options" doc:"what the handshake negotiated"`
	Congestion    Congestion `json:"congestion" doc:"congestion control at the end of the window"`
	Thread        *Thread    `json:"thread" doc:"the worker thread; null when nothing is known of it"`
	TCPInfo       InfoPair   `json:"tcp_info" doc:"TCP_INFO at the edges of the window"`
	Error         *string    `json:"error" doc:"what ended this end of the stream early; null: nothing did"`
	Sending
}

// Thread is the worker thread that drives one end of a stream.
type Thread struct {
	Streams int   `json:"streams" doc:"streams that the thread drives: 1 in the blocking engine; its figures are of all of them together"`
	CPUs    []int `json:"cpus_allowed" doc:"affinity mask as read back, when pinned; null: unpinned"`
	ThreadUse
}

// Mover is how one end of a bulk stream moved its bytes. The figures of write and
// read are those of the stream itself.
type Mover struct {
	Name              string   `json:"name" doc:"write, sendfile, splice, vmsplice or zerocopy; read, discard, splice or zerocopy"`
	PipeSize          *int     `json:"pipe_size_bytes" doc:"size of the pipe as the kernel made it; null: no pipe"`
	FellBack          bool     `json:"fell_back" doc:"the kernel didn't do it with this socket, and the stream went on by copying"`
	Calls             *uint64  `json:"calls" doc:"calls that moved bytes into or out of the socket; null for write and read"`
	Bytes             *uint64  `json:"bytes" doc:"bytes that they moved"`
	MeanBytes         *float64 `json:"bytes_per_call_mean" doc:"mean bytes per call"`
	P50Bytes          *int     `json:"bytes_per_call_p50" doc:"median bytes per call, to a 32nd"`
	MaxBytes          *int     `json:"bytes_per_call_max" doc:"most bytes of a call, to a 32nd"`
	ShortMoves        *uint64  `json:"short_moves" doc:"calls that moved less than they were asked for and had"`
	Fallbacks         *uint64  `json:"fallbacks" doc:"single calls that copied because the mover's way was closed just then"`
	CopiedBytes       *uint64  `json:"copied_bytes" doc:"bytes of those calls"`
	Completions       *uint64  `json:"completions" doc:"sends with MSG_ZEROCOPY that the kernel reported done; null for other movers"`
	CopiedCompletions *uint64  `json:"copied_completions" doc:"those of them that the kernel copied after all"`
}

// Congestion is the congestion control of one end of a stream.
type Congestion struct {
	Algorithm *string            `json:"algorithm" doc:"its name"`
	Info      map[string]float64 `json:"info" doc:"what it says of itself (TCP_CC_INFO), by name with units; null when it says nothing, as cubic and reno do"`
}

// Engine says how one end's workers waited for their sockets.
type Engine struct {
	Name    string `json:"name" doc:"blocking (a thread per stream and direction) or epoll"`
	Threads int    `json:"threads" doc:"worker threads"`
}

// Runtime is what gperf's own runtime did inside the window.
type Runtime struct {
	Collections  uint64  `json:"collections" doc:"garbage collections that ended inside the window"`
	PauseSeconds float64 `json:"pause_seconds" doc:"at least so long the world was stopped inside the window, for collections or otherwise"`
}

// InfoPair is TCP_INFO at the edges of a window.
type InfoPair struct {
	Start TCPInfo `json:"start" doc:"at the window's start; null when it could not be read"`
	End   TCPInfo `json:"end" doc:"at the window's end; null when it could not be read"`
}

// TCPInfo is TCP_INFO as a document shows it: every field that gperf knows, by
// the names of sockopt.TCPFields, nil where the kernel that was asked has none.
type TCPInfo map[string]*uint64

// Interval is the figures of one reporting interval of one direction.
type Interval struct {
	Direction        plan.Direction   `json:"direction" doc:"the direction it's about"`
	Start            float64          `json:"start_seconds" doc:"when the interval really began, from the opening of the measuring end's window"`
	End              float64          `json:"end_seconds" doc:"when it really ended"`
	SenderStart      *float64         `json:"sender_start_seconds" doc:"the sending end's edge for the same interval, from the opening of its window; null in request/response tests"`
	SenderEnd        *float64         `json:"sender_end_seconds" doc:"likewise its end"`
	Bytes            uint64           `json:"bytes" doc:"payload received by the measuring end"`
	Throughput       *float64         `json:"throughput_bits_per_second" doc:"bytes over the interval; null in request/response tests"`
	Transactions     *uint64          `json:"transactions" doc:"transactions completed"`
	TPS              *float64         `json:"transactions_per_second" doc:"transactions over the interval"`
	RetransSegs      *uint64          `json:"retransmitted_segments" doc:"segments retransmitted by the sending end"`
	Failed           *uint64          `json:"connect_errors" doc:"connections that were not made or broke; null but in connection tests"`
	LostTransactions *uint64          `json:"lost_transactions" doc:"requests whose response did not come in time; null but in UDP_RR"`
	Lost             *int64           `json:"lost_datagrams" doc:"sum over the streams; null but in UDP_STREAM"`
	Jitter           *float64         `json:"jitter_us" doc:"mean over the streams; null but in UDP_STREAM"`
	Streams          []IntervalStream `json:"streams" doc:"each stream"`
}

// IntervalStream is one stream inside an interval. Counts are differences,
// the rest is as read at the interval's end, by the sending end (or the
// requester).
type IntervalStream struct {
	ID           int      `json:"id" doc:"stream number"`
	Bytes        uint64   `json:"bytes" doc:"payload received by the measuring end"`
	Transactions *uint64  `json:"transactions" doc:"transactions completed; null in bulk tests"`
	SentBytes    *uint64  `json:"sent_bytes" doc:"payload handed to the sender's kernel"`
	AckedBytes   *uint64  `json:"acked_bytes" doc:"payload acknowledged to the sender"`
	RetransSegs  *uint64  `json:"retransmitted_segments" doc:"segments retransmitted"`
	RetransBytes *uint64  `json:"retransmitted_bytes" doc:"payload bytes retransmitted"`
	RTOEvents    *uint64  `json:"rto_events" doc:"retransmission time-outs"`
	RTT          *uint64  `json:"rtt_us" doc:"smoothed round-trip time, microseconds"`
	RTTVar       *uint64  `json:"rttvar_us" doc:"round-trip time variance, microseconds"`
	Cwnd         *uint64  `json:"cwnd_segments" doc:"congestion window, segments"`
	MSS          *uint64  `json:"snd_mss_bytes" doc:"maximum segment size for sending"`
	SndWnd       *uint64  `json:"snd_wnd_bytes" doc:"window offered by the peer"`
	RcvWnd       *uint64  `json:"rcv_wnd_bytes" doc:"window offered to the peer by the receiving end"`
	DeliveryRate *uint64  `json:"delivery_rate_bytes_per_second" doc:"the kernel's latest delivery rate sample"`
	Lost         *int64   `json:"lost_datagrams" doc:"datagrams that did not come, by their numbers, less those of earlier intervals that came late, which can make it negative; null but in UDP_STREAM"`
	Jitter       *float64 `json:"jitter_us" doc:"variation of the transit time at the interval's end, microseconds; null but in UDP_STREAM"`
	PipeQueued   *uint64  `json:"pipe_queued_bytes" doc:"bytes in the pipe of the stream's mover, the receiver's or else the sender's; null: no pipe"`
}

// Stall is a time in which a stream moved less than a tenth of what it moves in
// its median interval.
type Stall struct {
	Stream    int            `json:"stream" doc:"stream number"`
	Direction plan.Direction `json:"direction" doc:"its direction"`
	Start     float64        `json:"start_seconds" doc:"when it began, from the opening of the measuring end's window"`
	Length    float64        `json:"length_seconds" doc:"how long it lasted, in whole intervals"`
	Bytes     uint64         `json:"bytes" doc:"payload received all the same"`
	Median    float64        `json:"median_bits_per_second" doc:"rate of the stream's median interval"`
	At        IntervalStream `json:"at" doc:"the stream at the end of its first stalled interval"`
}
