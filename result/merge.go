package result

import (
	"fmt"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"gperf/plan"
	"gperf/sockopt"
	"gperf/stats"
)

// Merge fills in the run's summary, streams and intervals from what the two
// ends measured. Either report may lack halves, and a half may have series but
// no streams (totals only): what can't be known stays null. Plan and hosts must
// be there already.
func (r *Run) Merge(client, server *Report, clock *Clock) error {
	sum := &Summary{Clock: clock, CPU: CPU{Scope: r.scope(), Client: client.CPU, Server: server.CPU}}
	r.Engines = Ends[*Engine]{client.engine(), server.engine()}
	r.Runtime = Ends[*Runtime]{client.Runtime, server.Runtime}
	r.Counters = Ends[*Counters]{client.Counters, server.Counters}
	latency, connects := stats.NewHistogram(), stats.NewHistogram()
	measured := false
	for _, d := range r.Plan.Directions() {
		p := pair{direction: d, client: client.half(d), server: server.half(d)}
		if p.client == nil && p.server == nil {
			continue
		}
		measured = true
		streams, err := p.streams(latency, connects)
		if err != nil {
			return err
		}
		r.Streams = append(r.Streams, streams...)
		if r.Plan.Interval > 0 {
			intervals := p.intervals()
			r.Intervals = append(r.Intervals, intervals...)
			r.Stalls = append(r.Stalls, stalls(intervals)...)
		}
		p.summarise(sum, clock)
	}
	if !measured {
		return nil
	}
	for _, d := range []*Figures{sum.Directions.ClientToServer, sum.Directions.ServerToClient} {
		if d != nil {
			sum.add(d)
		}
	}
	var err error
	if sum.Latency, err = stats.SummariseLatency(latency, true); err != nil {
		return err
	}
	if sum.Connect, err = stats.SummariseLatency(connects, true); err != nil {
		return err
	}
	sum.Sending = client.with(server)
	sum.CPU.charge(&sum.Figures, sockopt.Client, client)
	sum.CPU.charge(&sum.Figures, sockopt.Server, server)
	r.Summary = sum
	r.judge(client, server)
	return nil
}

// with derives the figures of all that both ends sent.
func (r *Report) with(o *Report) Sending {
	var all sendings
	for _, report := range []*Report{r, o} {
		for i := range report.Halves {
			h := &report.Halves[i]
			if h.Role == plan.Receiver || len(h.Series) < 2 {
				continue
			}
			for k := range h.Streams {
				all.add(h, k)
			}
		}
	}
	return all.figures()
}

// scope says whether both ends ran on one boot of one machine.
func (r *Run) scope() string {
	if c, s := r.Hosts.Client, r.Hosts.Server; c != nil && s != nil && c.BootID != nil && s.BootID != nil && *c.BootID == *s.BootID {
		return "shared"
	}
	return "separate"
}

// half is the report's half of direction d, nil when it has none.
func (r *Report) half(d plan.Direction) *Half {
	for i := range r.Halves {
		if h := &r.Halves[i]; h.Direction == d && len(h.Series) > 1 {
			return h
		}
	}
	return nil
}

// pair is what the two ends measured of one direction; either may be nil.
type pair struct {
	direction      plan.Direction
	client, server *Half
}

// measure is the half of the end whose window is the measure: the receiver's or
// the requester's. other is the other end's.
func (p *pair) measure() *Half {
	if p.direction.Role(sockopt.Client).Measures() {
		return p.client
	}
	return p.server
}

func (p *pair) other() *Half {
	if p.direction.Role(sockopt.Client).Measures() {
		return p.server
	}
	return p.client
}

// seconds is the length of the half's window.
func (h *Half) seconds() float64 { return float64(h.ClosedNs-h.OpenedNs) / 1e9 }

// edges are the opening and the closing sample.
func (h *Half) edges() (opening, closing *Sample) { return &h.Series[0], &h.Series[len(h.Series)-1] }

// tcp is how much field f of stream i grew between two samples, nil when the
// kernel doesn't report it. Some of these counters are 32 bits wide and wrap.
func tcp(from, to *Sample, f sockopt.TCPField, i int) *uint64 {
	before, ok1 := from.TCP[f.Name()]
	after, ok2 := to.TCP[f.Name()]
	if !ok1 || !ok2 {
		return nil
	}
	n := after[i] - before[i]
	if after[i] < before[i] {
		n = uint64(uint32(n))
	}
	return &n
}

// now is field f of stream i as a sample has it.
func now(s *Sample, f sockopt.TCPField, i int) *uint64 {
	if column, ok := s.TCP[f.Name()]; ok {
		return &column[i]
	}
	return nil
}

// sum adds up what each of n streams gives; nil as soon as one is unknown.
func sum(n int, each func(i int) *uint64) *uint64 {
	total := uint64(0)
	for i := range n {
		v := each(i)
		if v == nil {
			return nil
		}
		total += *v
	}
	return &total
}

// rate is bytes over seconds in bits per second, nil for an empty window.
func rate(bytes uint64, seconds float64) *float64 { return perSecond(8*float64(bytes), seconds) }

func perSecond(n, seconds float64) *float64 {
	if seconds <= 0 {
		return nil
	}
	v := n / seconds
	return &v
}

// width is the number of columns' entries: the streams, or 1 for totals.
func (h *Half) width() int { return len(h.Series[0].Sent) }

// grown is how much one column grew over the window, all streams together.
func (h *Half) grown(column func(*Sample) []uint64) *uint64 {
	opening, closing := h.edges()
	return sum(h.width(), func(i int) *uint64 {
		n := column(closing)[i] - column(opening)[i]
		return &n
	})
}

// grownTCP is grown for a field of TCP_INFO.
func (h *Half) grownTCP(f sockopt.TCPField) *uint64 {
	opening, closing := h.edges()
	return sum(h.width(), func(i int) *uint64 { return tcp(opening, closing, f, i) })
}

// way returns the figures of payload that went from sender to receiver; either
// may be nil.
func way(sender, receiver *Half) *Figures {
	var f Figures
	if sender != nil {
		f.SentBytes = sender.grown(func(s *Sample) []uint64 { return s.Sent })
		f.SendCalls = sender.grown(func(s *Sample) []uint64 { return s.SendCalls })
		f.AckedBytes = sender.grownTCP(sockopt.BytesAcked)
		f.RetransSegs = sender.grownTCP(sockopt.TotalRetrans)
		f.RetransBytes = sender.grownTCP(sockopt.BytesRetrans)
		f.SegmentsOut = sender.grownTCP(sockopt.DataSegsOut)
		f.RTOEvents = sender.grownTCP(sockopt.TotalRTO)
		f.RTT = sender.rtt()
		f.Sending = sender.sending(-1)
	}
	if receiver != nil {
		f.ReceivedBytes = receiver.grown(func(s *Sample) []uint64 { return s.Received })
		f.ReceiveCalls = receiver.grown(func(s *Sample) []uint64 { return s.ReceiveCalls })
		f.Window = receiver.window()
	}
	return &f
}

// window is the mean of the windows that the streams offered at the end; nil when
// one's isn't known.
func (h *Half) window() *float64 {
	_, closing := h.edges()
	total := sum(h.width(), func(i int) *uint64 { return now(closing, sockopt.RcvWnd, i) })
	if total == nil || h.width() == 0 {
		return nil
	}
	mean := float64(*total) / float64(h.width())
	return &mean
}

// rtt gathers the streams' round-trip times at the window's end.
func (h *Half) rtt() *RTT {
	var r RTT
	for i := range h.Streams {
		smoothed, ok1 := h.Streams[i].InfoEnd.Get(sockopt.RTT)
		least, ok2 := h.Streams[i].InfoEnd.Get(sockopt.MinRTT)
		if !ok1 || !ok2 {
			return nil
		}
		if i == 0 {
			r.Min = float64(least)
		}
		r.Min = min(r.Min, float64(least))
		r.Mean += float64(smoothed) / float64(len(h.Streams))
		r.Max = max(r.Max, float64(smoothed))
	}
	if len(h.Streams) == 0 {
		return nil
	}
	return &r
}

// summarise puts the direction's figures into the summary.
func (p *pair) summarise(sum *Summary, clock *Clock) {
	m, o := p.measure(), p.other()
	if p.direction == plan.Both {
		sum.Directions.ClientToServer = way(p.client, p.server)
		sum.Directions.ServerToClient = way(p.server, p.client)
		if m != nil {
			sum.Transactions = m.grown(func(s *Sample) []uint64 { return s.Transactions })
			sum.TPS = perSecond(float64(*sum.Transactions), m.seconds())
			seconds := m.seconds()
			sum.Duration = &seconds
			sum.ConnectErrors = m.connectErrors()
			sum.LostTransactions = m.grownColumn(LostTransactions, 0, m.width())
		}
		return
	}
	f := way(o, m)
	if m != nil {
		f.Datagrams = p.datagrams(0, m.width())
	}
	if m != nil {
		seconds := m.seconds()
		f.Duration = &seconds
		f.Throughput = rate(*f.ReceivedBytes, seconds)
	}
	if m != nil && o != nil && clock != nil {
		// Times of the server's clock minus offset are the client's.
		offset := clock.Offset
		if m == p.server {
			offset = -offset
		}
		start := float64(o.OpenedNs-m.OpenedNs)/1e9 - offset
		stop := float64(o.ClosedNs-m.ClosedNs)/1e9 - offset
		f.StartSkew, f.StopSkew = &start, &stop
	}
	if p.direction == plan.ClientToServer {
		sum.Directions.ClientToServer = f
	} else {
		sum.Directions.ServerToClient = f
	}
}

// add adds a direction's figures to the sums. A sum is null if a part is.
func (s *Summary) add(d *Figures) {
	first := s.Directions.ClientToServer == d || s.Directions.ClientToServer == nil
	plus(first, &s.SentBytes, d.SentBytes)
	plus(first, &s.AckedBytes, d.AckedBytes)
	plus(first, &s.ReceivedBytes, d.ReceivedBytes)
	plus(first, &s.RetransSegs, d.RetransSegs)
	plus(first, &s.RetransBytes, d.RetransBytes)
	plus(first, &s.SegmentsOut, d.SegmentsOut)
	plus(first, &s.RTOEvents, d.RTOEvents)
	plus(first, &s.SendCalls, d.SendCalls)
	plus(first, &s.ReceiveCalls, d.ReceiveCalls)
	plus(first, &s.Throughput, d.Throughput)
	if d.Duration != nil && (s.Duration == nil || *d.Duration > *s.Duration) {
		s.Duration = d.Duration
	}
	s.RTT = s.RTT.with(d.RTT)
	if first {
		s.Window = d.Window
		s.StartSkew, s.StopSkew = d.StartSkew, d.StopSkew
		s.Datagrams = d.Datagrams // UDP_STREAM goes one way
	}
}

func plus[T uint64 | float64](first bool, total **T, part *T) {
	switch {
	case part == nil || *total == nil && !first:
		*total = nil
	case first:
		v := *part
		*total = &v
	default:
		**total += *part
	}
}

// with joins the round-trip times of two ends' streams, equally many.
func (r *RTT) with(o *RTT) *RTT {
	if r == nil || o == nil {
		if r == nil {
			return o
		}
		return r
	}
	return &RTT{Min: min(r.Min, o.Min), Mean: (r.Mean + o.Mean) / 2, Max: max(r.Max, o.Max)}
}

// charge derives the service demand. On a shared machine the whole machine's
// time can't be split between the ends, so each is charged with its threads'.
func (c *CPU) charge(f *Figures, end sockopt.End, r *Report) {
	cpu := c.Client
	if end == sockopt.Server {
		cpu = c.Server
	}
	if cpu == nil {
		return
	}
	cpu.ThreadSeconds, cpu.RunQueueWait = r.threadSeconds(), r.runQueueWait()
	used := cpu.MachineSeconds
	if c.Scope == "shared" {
		used = cpu.ThreadSeconds
	}
	switch {
	case used == nil:
	case f.Transactions != nil:
		cpu.DemandTrans = stats.ServiceDemandTransaction(*used, *f.Transactions)
	case f.ReceivedBytes != nil:
		cpu.DemandKiB = stats.ServiceDemandKiB(*used, *f.ReceivedBytes)
	}
}

// threadSeconds is the CPU time of one end's workers, nil when one's is unknown.
func (r *Report) threadSeconds() *float64 {
	total, known := 0.0, false
	for i := range r.Halves {
		for _, t := range r.Halves[i].Threads {
			if t.CPUNs == nil {
				return nil
			}
			total += float64(*t.CPUNs) / 1e9
			known = true
		}
	}
	if !known {
		return nil
	}
	return &total
}

// runQueueWait is the longest wait of one of the end's workers for a CPU; nil when
// no worker's is known.
func (r *Report) runQueueWait() *float64 {
	var longest *float64
	for i := range r.Halves {
		for _, t := range r.Halves[i].Threads {
			if t.Use == nil || t.Use.RunQueueWaitSeconds == nil {
				continue
			}
			if wait := *t.Use.RunQueueWaitSeconds; longest == nil || wait > *longest {
				longest = &wait
			}
		}
	}
	return longest
}

// engine is how the report's workers waited for their sockets.
func (r *Report) engine() *Engine {
	var e *Engine
	for i := range r.Halves {
		h := &r.Halves[i]
		if len(h.Threads) == 0 {
			continue
		}
		if e == nil {
			e = &Engine{Name: h.Engine}
		}
		e.Threads += len(h.Threads)
	}
	return e
}

// streams are the two ends' figures of each stream side by side. Latencies are
// merged into latency.
func (p *pair) streams(latency, connects *hdrhistogram.Histogram) ([]Stream, error) {
	n := 0
	for _, h := range []*Half{p.client, p.server} {
		if h == nil || len(h.Streams) == 0 {
			continue
		}
		if n != 0 && n != len(h.Streams) {
			return nil, fmt.Errorf("the ends report %d and %d streams", n, len(h.Streams))
		}
		n = len(h.Streams)
	}
	all := make([]Stream, n)
	for i := range all {
		s := &all[i]
		s.Direction = p.direction
		s.Client, s.Server = p.client.stream(i), p.server.stream(i)
		for _, h := range []*Half{p.client, p.server} {
			if h != nil && len(h.Streams) > 0 {
				s.ID = h.Streams[i].ID
			}
		}
		m := p.measure()
		if m == nil || len(m.Streams) == 0 {
			continue
		}
		opening, closing := m.edges()
		if p.direction != plan.Both {
			s.Throughput = rate(closing.Received[i]-opening.Received[i], m.seconds())
			s.Datagrams = p.datagrams(i, i+1)
			continue
		}
		n := closing.Transactions[i] - opening.Transactions[i]
		s.Transactions = &n
	}
	return all, p.latencies(all, latency, connects)
}

// latencies merges the requester's histograms into total and connects. A thread
// that drives one stream gives that stream's own.
func (p *pair) latencies(streams []Stream, total, connects *hdrhistogram.Histogram) error {
	m := p.measure()
	if m == nil || p.direction != plan.Both {
		return nil
	}
	for _, t := range m.Threads {
		if t.Connects != "" {
			h, err := stats.DecodeHistogram(t.Connects)
			if err != nil {
				return err
			}
			connects.Merge(h)
		}
		if t.Latency == "" {
			continue
		}
		h, err := stats.DecodeHistogram(t.Latency)
		if err != nil {
			return err
		}
		total.Merge(h)
		if len(t.Streams) != 1 {
			continue
		}
		for i := range streams {
			if streams[i].ID == t.Streams[0] {
				if streams[i].Latency, err = stats.SummariseLatency(h, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stream is the half's end of stream i, nil when it knows totals only.
func (h *Half) stream(i int) *StreamEnd {
	if h == nil || len(h.Streams) == 0 {
		return nil
	}
	from := &h.Streams[i]
	opening, closing := h.edges()
	e := &StreamEnd{
		Role: h.Role, Local: from.Local, Remote: from.Remote, Duration: h.seconds(),
		SentBytes:     closing.Sent[i] - opening.Sent[i],
		ReceivedBytes: closing.Received[i] - opening.Received[i],
		SendCalls:     closing.SendCalls[i] - opening.SendCalls[i],
		ReceiveCalls:  closing.ReceiveCalls[i] - opening.ReceiveCalls[i],
		ShortSends:    closing.ShortSends[i] - opening.ShortSends[i],
		Interruptions: closing.Interruptions[i] - opening.Interruptions[i],
		AckedBytes:    tcp(opening, closing, sockopt.BytesAcked, i),
		RetransSegs:   tcp(opening, closing, sockopt.TotalRetrans, i),
		RetransBytes:  tcp(opening, closing, sockopt.BytesRetrans, i),
		SegmentsOut:   tcp(opening, closing, sockopt.DataSegsOut, i),
		RTOEvents:     tcp(opening, closing, sockopt.TotalRTO, i),
		Thread:        h.thread(from.ID),
		Mover:         from.Mover,
		Options:       negotiated(from.InfoEnd),
		Sending:       h.sending(i),
		TCPInfo:       InfoPair{Start: document(from.InfoStart), End: document(from.InfoEnd)},
	}
	if from.Algorithm != "" {
		e.Congestion = Congestion{&from.Algorithm, from.CCInfo}
	}
	if from.Error != "" {
		e.Error = &from.Error
	}
	return e
}

// thread is the worker that drives stream id, nil when it isn't known.
func (h *Half) thread(id int) *Thread {
	for i := range h.Threads {
		from := &h.Threads[i]
		if !slices.Contains(from.Streams, id) {
			continue
		}
		t := &Thread{Streams: len(from.Streams), CPUs: from.CPUs}
		if from.Use != nil {
			t.ThreadUse = *from.Use
		}
		if from.CPUNs != nil { // taken at the very edges
			seconds := float64(*from.CPUNs) / 1e9
			t.CPUSeconds = &seconds
		}
		return t
	}
	return nil
}

// document is TCP_INFO with its fields by name; nil when it wasn't read.
func document(info sockopt.TCPInfo) TCPInfo {
	if info == nil {
		return nil
	}
	fields := sockopt.TCPFields()
	doc := make(TCPInfo, len(fields))
	for _, f := range fields {
		doc[f.Name] = nil
		if v, ok := info.Get(f.Field); ok {
			doc[f.Name] = &v
		}
	}
	return doc
}

// intervals merges the two ends' series.
func (p *pair) intervals() []Interval {
	m, o := p.measure(), p.other()
	if m == nil {
		return nil
	}
	ids := make([]int, len(m.Streams))
	for i := range m.Streams {
		ids[i] = m.Streams[i].ID
	}
	if len(ids) == 0 {
		ids = nil // totals only
	}
	merger := NewMerger(p.direction, ids)
	for _, h := range []*Half{m, o} {
		if h == nil || h.width() != m.width() {
			o = nil
			continue
		}
		for _, s := range h.Series {
			merger.Add(h.Role, s)
		}
	}
	return merger.Intervals(o == nil)
}
