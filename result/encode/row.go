package encode

import (
	"maps"
	"slices"
	"strconv"

	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// A row is what a table shows of one stream, or of all of them: what the
// measuring end received, and how the sending end got it there. In
// request/response tests the requester is both.
type row struct {
	stream    string
	direction plan.Direction

	duration, throughput, tps *float64
	transactions              *uint64
	latency                   stats.Latency // empty when not known
	sent, acked, received     *uint64

	retransSegs, retransBytes, segmentsOut, rtoEvents *uint64

	rtt, cwnd                  *float64          // microseconds, segments
	datagrams                  *result.Datagrams // of a UDP_STREAM
	lostTransactions, failed   *uint64           // of UDP_RR; of connection tests
	clientCPU, serverCPU       *float64          // seconds of the worker threads
	clientWindow, serverWindow *float64          // seconds in which they were spent
	err                        string
}

func streamRow(s *result.Stream) row {
	f := row{
		stream: strconv.Itoa(s.ID), direction: s.Direction,
		throughput: s.Throughput, transactions: s.Transactions, datagrams: s.Datagrams,
	}
	if s.Latency != nil {
		f.latency = *s.Latency
	}
	for _, end := range []*result.StreamEnd{s.Client, s.Server} {
		if end == nil {
			continue
		}
		if end.Role.Measures() {
			f.duration, f.received = &end.Duration, &end.ReceivedBytes
		}
		if end.Role == plan.Sender || end.Role == plan.Requester {
			f.sent, f.acked = &end.SentBytes, end.AckedBytes
			f.retransSegs, f.retransBytes = end.RetransSegs, end.RetransBytes
			f.segmentsOut, f.rtoEvents = end.SegmentsOut, end.RTOEvents
			f.rtt, f.cwnd = info(end, sockopt.RTT), info(end, sockopt.SndCwnd)
		}
		if end.Error != nil && f.err == "" {
			f.err = *end.Error
		}
	}
	if s.Client != nil {
		f.clientCPU, f.clientWindow = ownCPU(s.Client.Thread), &s.Client.Duration
	}
	if s.Server != nil {
		f.serverCPU, f.serverWindow = ownCPU(s.Server.Thread), &s.Server.Duration
	}
	if f.transactions != nil {
		f.tps = ratio(float64(*f.transactions), f.duration)
	}
	return f
}

// info reads a field of TCP_INFO at the end of the window.
func info(end *result.StreamEnd, field sockopt.TCPField) *float64 {
	return float(end.TCPInfo.End[field.Name()])
}

func totalRow(r *result.Run) row {
	f := row{stream: "total", direction: direction(r)}
	if r.Error != nil {
		f.err = r.Error.Message
	}
	s := r.Summary
	if s == nil {
		return f
	}
	f.duration, f.throughput, f.transactions, f.tps = s.Duration, s.Throughput, s.Transactions, s.TPS
	if s.Latency != nil {
		f.latency = *s.Latency
	}
	f.sent, f.acked, f.received = s.SentBytes, s.AckedBytes, s.ReceivedBytes
	f.retransSegs, f.retransBytes, f.segmentsOut, f.rtoEvents = s.RetransSegs, s.RetransBytes, s.SegmentsOut, s.RTOEvents
	f.datagrams, f.lostTransactions, f.failed = s.Datagrams, s.LostTransactions, failures(&s.Figures)
	if s.RTT != nil {
		f.rtt = &s.RTT.Mean
	}
	f.clientCPU, f.clientWindow = threads(s.CPU.Client), s.Duration
	f.serverCPU, f.serverWindow = threads(s.CPU.Server), s.Duration
	return f
}

// failures is how many connections failed in all, nil but in connection tests.
func failures(f *result.Figures) *uint64 {
	if f.ConnectErrors == nil {
		return nil
	}
	n := uint64(0)
	for _, times := range f.ConnectErrors {
		n += times
	}
	return &n
}

// carrier is what carried the run's payload.
func carrier(r *result.Run) plan.Carrier { return testType(r).Carrier() }

func threads(c *result.EndCPU) *float64 {
	if c == nil {
		return nil
	}
	return c.ThreadSeconds
}

// direction is the one that all streams share, "" if they differ.
func direction(r *result.Run) (d plan.Direction) {
	for i, s := range r.Streams {
		if i > 0 && s.Direction != d {
			return ""
		}
		d = s.Direction
	}
	return d
}

// testType is the test's type, "" when the run has no plan.
func testType(r *result.Run) plan.Type {
	if r.Plan == nil {
		return ""
	}
	return r.Plan.Type
}

// askedKnobs are the keys of the knobs asked for on either end, sorted.
func askedKnobs(t *plan.Test) []string {
	asked := map[string]bool{}
	for _, settings := range []sockopt.Settings{t.Client.Knobs, t.Server.Knobs} {
		for key, v := range settings {
			if v.IsSet() {
				asked[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(asked))
}

func float(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// ratio returns n over d, nil when d is not known or not positive.
func ratio(n float64, d *float64) *float64 {
	if d == nil || *d <= 0 {
		return nil
	}
	f := n / *d
	return &f
}

// ownCPU is the CPU time of a thread that drives one stream alone; of a shared
// one nobody can say which stream's it was.
func ownCPU(t *result.Thread) *float64 {
	if t == nil || t.Streams != 1 {
		return nil
	}
	return t.CPUSeconds
}
