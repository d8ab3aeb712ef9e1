package result

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/sockopt"
)

// A finding is one thing that bounded a result: a sentence with its evidence,
// and how strong it is. Strength is on the scale of a share of the window in
// percent; loss, which has no such share, is put on it by lossStrength.
type finding struct {
	strength float64
	sentence string
}

// The thresholds below which a rule says nothing.
const (
	rwndFrom    = 20.0 // % of the window
	sndbufFrom  = 20.0 // % of the window
	lossFrom    = 0.05 // % of the segments
	cpuFrom     = 85.0 // % of one CPU
	waitFrom    = 10.0 // % of the window
	pacedFrom   = 0.90 // of the rate asked for
	cwndFrom    = 50.0 // % of the window with data in flight
	smallBelow  = 0.5  // of the MSS: segments that carry less
	smallWeight = 30.0 // strength of "small segments": a cause of cost more than a bound
	cwndWeight  = 50.0 // strength of "congestion window"
)

// diagnose says what bounded the result, the strongest first.
func (r *Run) diagnose() []string {
	var all []finding
	directions := r.Plan.Directions()
	for _, d := range directions {
		v := r.view(d)
		if v == nil {
			continue
		}
		for _, rule := range []func(*view) []finding{
			loss, receiverWindow, sendBuffer, pacing, congestionWindow, smallSegments, roundTrips,
		} {
			for _, f := range rule(v) {
				if len(directions) > 1 {
					f.sentence += " (" + strings.ReplaceAll(string(d), "_", " ") + ")"
				}
				all = append(all, f)
			}
		}
		for _, rule := range []func(*view) []finding{saturatedThread, saturatedCPU, waitingForCPU} {
			all = append(all, rule(v)...)
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(b.strength, a.strength) })
	sentences := make([]string, 0, len(all))
	for _, f := range all {
		if !slices.Contains(sentences, f.sentence) { // the machine's are found in each direction
			sentences = append(sentences, f.sentence)
		}
	}
	return sentences
}

// A view is one direction of a run, as the rules look at it.
type view struct {
	run              *Run
	direction        plan.Direction
	sender, receiver sockopt.End // of a request/response test: requester, responder
	figures          *Figures
	streams          []Stream
}

func (r *Run) view(d plan.Direction) *view {
	v := &view{run: r, direction: d, sender: sockopt.Client, receiver: sockopt.Server, figures: r.Summary.Directions.ClientToServer}
	switch d {
	case plan.ServerToClient:
		v.sender, v.receiver, v.figures = sockopt.Server, sockopt.Client, r.Summary.Directions.ServerToClient
	case plan.Both:
		v.figures = &r.Summary.Figures
	case plan.ClientToServer:
	}
	for _, s := range r.Streams {
		if s.Direction == d {
			v.streams = append(v.streams, s)
		}
	}
	if v.figures == nil || len(v.streams) == 0 {
		return nil
	}
	return v
}

func (s *Stream) of(end sockopt.End) *StreamEnd {
	if end == sockopt.Client {
		return s.Client
	}
	return s.Server
}

// mean averages a figure over the streams' ends that have it; false: none has.
func (v *view) mean(end sockopt.End, figure func(*StreamEnd) *float64) (float64, bool) {
	total, n := 0.0, 0
	for i := range v.streams {
		if e := v.streams[i].of(end); e != nil {
			if f := figure(e); f != nil {
				total += *f
				n++
			}
		}
	}
	if n == 0 {
		return 0, false
	}
	return total / float64(n), true
}

// info is a field of TCP_INFO at the window's end.
func info(f sockopt.TCPField) func(*StreamEnd) *float64 {
	return func(e *StreamEnd) *float64 {
		n := e.TCPInfo.End[f.Name()]
		if n == nil {
			return nil
		}
		v := float64(*n)
		return &v
	}
}

// buffer says what an end's buffer was, asked for or not.
func (v *view) buffer(knob string, end sockopt.End) (text string, bytes int64, asked bool) {
	for _, row := range v.run.Audit {
		if row.Knob == knob && row.End == end.String() {
			now := row.AtEnd
			if !now.IsSet() {
				now = row.Effective
			}
			n, ok := now.Int()
			if !ok {
				break
			}
			if row.Requested.IsSet() {
				return fmt.Sprintf("%s %s asked, %s in force", knob, row.Requested, units.Size(float64(n))), n, true
			}
			return fmt.Sprintf("%s auto-tuned, %s at the end", knob, units.Size(float64(n))), n, false
		}
	}
	return knob + " not known", 0, false
}

func receiverWindow(v *view) []finding {
	share := v.figures.Limited.Rwnd
	if share == nil || *share < rwndFrom || v.direction == plan.Both {
		return nil
	}
	// A receiver that is out of CPU lets its window close: then the window is
	// how the sender learns of it, not the cause.
	strength := *share
	if thread, ok := v.mean(v.receiver, threadPercent); ok && thread >= cpuFrom {
		strength = min(strength, thread-1)
	}
	buffer, _, _ := v.buffer("rcvbuf", v.receiver)
	window := "not known"
	if w, ok := v.mean(v.receiver, info(sockopt.RcvWnd)); ok {
		window = units.Size(w)
	}
	return []finding{{strength, fmt.Sprintf("receiver window: it held the sender %.0f %% of the time (the %s offered %s at the end; %s)",
		*share, v.receiver, window, buffer)}}
}

func sendBuffer(v *view) []finding {
	l := v.figures.Limited
	if v.direction == plan.Both || l.Busy == nil || l.Sndbuf == nil || l.Rwnd == nil {
		return nil
	}
	buffer, bytes, asked := v.buffer("sndbuf", v.sender)
	if l.Blocked != nil {
		// Blocked in send while the kernel had nothing to do for the
		// connection: only the send buffer can be in the way.
		if idle := min(*l.Blocked, 100-*l.Busy); idle >= sndbufFrom {
			return []finding{{idle, fmt.Sprintf("send buffer: the sender was blocked in send %.0f %% of the time, while data was in flight %.0f %% of it (%s)",
				*l.Blocked, *l.Busy, buffer)}}
		}
		// The kernel counts a small blocking write that waits for room as busy.
		// With room in both windows, the buffer it is that has none.
		if asked && *l.Blocked >= sndbufFrom && *l.Rwnd < rwndFrom && v.cwndBytes() > float64(bytes)/2 {
			return []finding{{*l.Blocked - *l.Rwnd, fmt.Sprintf("send buffer: the sender was blocked in send %.0f %% of the time, with room in the congestion window of %s (%s)",
				*l.Blocked, units.Size(v.cwndBytes()), buffer)}}
		}
	}
	if *l.Sndbuf >= sndbufFrom {
		return []finding{{*l.Sndbuf, fmt.Sprintf("send buffer: it held the sender %.0f %% of the time (%s)", *l.Sndbuf, buffer)}}
	}
	return nil
}

// cwndBytes is the streams' mean congestion window, 0 when not known.
func (v *view) cwndBytes() float64 {
	cwnd, ok1 := v.mean(v.sender, info(sockopt.SndCwnd))
	mss, ok2 := v.mean(v.sender, info(sockopt.SndMSS))
	if !ok1 || !ok2 {
		return 0
	}
	return cwnd * mss
}

// lossStrength puts a share of retransmits, in percent, beside shares of time:
// a path that loses one segment in a hundred is bound by that, whatever else.
func lossStrength(percent float64, rtos uint64) float64 {
	s := 50 + 50*min(percent, 1.02)
	if rtos > 0 {
		s += 2
	}
	return s
}

func loss(v *view) []finding {
	f := v.figures
	if f.RetransPercent == nil || f.RetransSegs == nil || *f.RetransPercent < lossFrom {
		return nil
	}
	if f.DSACKs != nil && *f.DSACKs >= *f.RetransSegs {
		return []finding{{1, fmt.Sprintf("needless retransmits: the receiver reported all %d as duplicates (reordering, or tail-loss probes after a delay); nothing was lost", *f.RetransSegs)}}
	}
	rtos := uint64(0)
	timeouts := "time-outs not known"
	if f.RTOEvents != nil {
		rtos = *f.RTOEvents
		timeouts = plural(rtos, "retransmission time-out (RTO)", "retransmission time-outs (RTO)")
	}
	return []finding{{lossStrength(*f.RetransPercent, rtos), fmt.Sprintf("loss: %.2f %% of the segments (%d) were retransmitted, %s", *f.RetransPercent, *f.RetransSegs, timeouts)}}
}

func plural(n uint64, one, many string) string {
	switch n {
	case 0:
		return "no " + many
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// pacing is the one way in which this program's own sending can be the bound.
func pacing(v *view) []finding {
	if v.direction == plan.Both || v.figures.Throughput == nil {
		return nil
	}
	end := v.run.Plan.End(v.sender)
	rates := []struct {
		name string
		rate float64
	}{{"--rate", float64(end.Rate)}, {"--pacing-rate", v.kernelRate()}}
	for _, r := range rates {
		each := *v.figures.Throughput / float64(len(v.streams))
		if r.rate > 0 && each >= pacedFrom*r.rate {
			return []finding{{103, fmt.Sprintf("application limited: pacing by %s held each stream to %s (%s reached)", r.name, units.BitRate(r.rate), units.BitRate(each))}}
		}
	}
	return nil
}

// kernelRate is the pacing rate asked of the kernel, bits per second; 0: none.
func (v *view) kernelRate() float64 {
	bytes, _ := v.run.Plan.End(v.sender).Knobs["pacing_rate"].Int()
	return 8 * float64(bytes)
}

// threadPercent is the share of the window in which a stream's thread ran.
func threadPercent(e *StreamEnd) *float64 {
	if e.Thread == nil || e.Thread.CPUSeconds == nil || e.Duration <= 0 {
		return nil
	}
	v := 100 * *e.Thread.CPUSeconds / e.Duration
	return &v
}

// waitPercent is the share in which it was ready to run and waited for a CPU.
func waitPercent(e *StreamEnd) *float64 {
	if e.Thread == nil || e.Thread.RunQueueWaitSeconds == nil || e.Duration <= 0 {
		return nil
	}
	v := 100 * *e.Thread.RunQueueWaitSeconds / e.Duration
	return &v
}

// wishPercent is the share in which it ran or would have run.
func wishPercent(e *StreamEnd) *float64 {
	ran, waited := threadPercent(e), waitPercent(e)
	if ran == nil || waited == nil {
		return ran
	}
	v := *ran + *waited
	return &v
}

// busiest is the stream whose end has the largest figure.
func (v *view) busiest(end sockopt.End, figure func(*StreamEnd) *float64) (stream int, most float64) {
	for i := range v.streams {
		if e := v.streams[i].of(end); e != nil {
			if f := figure(e); f != nil && *f > most {
				stream, most = v.streams[i].ID, *f
			}
		}
	}
	return stream, most
}

func saturatedThread(v *view) (all []finding) {
	for _, end := range []sockopt.End{v.sender, v.receiver} {
		stream, most := v.busiest(end, threadPercent)
		if most < cpuFrom {
			continue
		}
		verb := map[plan.Role]string{plan.Sender: "sending", plan.Receiver: "receiving", plan.Requester: "requesting", plan.Responder: "responding"}[v.direction.Role(end)]
		all = append(all, finding{most, fmt.Sprintf("CPU: the %s's %s thread (stream %d) used %.0f %% of a CPU", end, verb, stream, most)})
	}
	return all
}

// saturatedCPU is as strong as this test's wish for a CPU: a machine that others
// keep busy doesn't bound a thread that waits for its peer.
func saturatedCPU(v *view) (all []finding) {
	ends := []sockopt.End{sockopt.Client, sockopt.Server}
	where := "%s's "
	if v.run.Summary.CPU.Scope == "shared" {
		ends, where = ends[:1], "machine's "
	}
	for _, end := range ends {
		cpu := v.run.Summary.CPU.Client
		if end == sockopt.Server {
			cpu = v.run.Summary.CPU.Server
		}
		if cpu == nil {
			continue
		}
		var full []string
		most := 0.0
		for _, c := range cpu.PerCPU {
			if c.Total != nil && *c.Total >= saturated {
				full = append(full, fmt.Sprint(c.CPU))
				most = max(most, *c.Total)
			}
		}
		if len(full) == 0 {
			continue
		}
		owner := where
		if strings.Contains(owner, "%s") {
			owner = fmt.Sprintf(owner, end)
		}
		wish := 0.0
		for _, e := range []sockopt.End{v.sender, v.receiver} {
			if e == end || v.run.Summary.CPU.Scope == "shared" {
				_, w := v.busiest(e, wishPercent)
				wish = max(wish, w)
			}
		}
		if wish < cpuFrom {
			continue
		}
		all = append(all, finding{min(most, wish) - 2, fmt.Sprintf("CPU: %sCPU %s busy at least %.0f %% (%d CPUs)", owner, strings.Join(full, ", "), saturated, cpu.CPUs)})
	}
	return all
}

// saturated is from which share on a CPU counts as having nothing left.
const saturated = 95.0

func waitingForCPU(v *view) (all []finding) {
	for _, end := range []sockopt.End{v.sender, v.receiver} {
		if stream, most := v.busiest(end, waitPercent); most >= waitFrom {
			all = append(all, finding{most, fmt.Sprintf("waiting for a CPU: the %s's thread of stream %d was ready to run and waited %.0f %% of the time", end, stream, most)})
		}
	}
	return all
}

// congestionWindow holds when data was in flight most of the time and nothing
// nearer to the ends was in the way.
func congestionWindow(v *view) []finding {
	l := v.figures.Limited
	if v.direction == plan.Both || l.Busy == nil || l.Rwnd == nil || l.Sndbuf == nil || *l.Busy < cwndFrom || *l.Rwnd >= rwndFrom || *l.Sndbuf >= sndbufFrom {
		return nil
	}
	if _, most := v.busiest(v.sender, threadPercent); most >= cpuFrom {
		return nil
	}
	if _, most := v.busiest(v.receiver, threadPercent); most >= cpuFrom {
		return nil
	}
	rtt, ok := v.mean(v.sender, info(sockopt.RTT))
	window := v.cwndBytes()
	if !ok || rtt == 0 || window == 0 || v.figures.Throughput == nil {
		return nil
	}
	carries := 8e6 * window / rtt // bit/s of one stream
	each := *v.figures.Throughput / float64(len(v.streams))
	if each < carries/2 {
		return nil // it would carry more
	}
	return []finding{{cwndWeight, fmt.Sprintf("congestion window: %s per RTT of %v carry %s per stream",
		units.Size(window), time.Duration(rtt)*time.Microsecond, units.BitRate(carries))}}
}

func smallSegments(v *view) []finding {
	f := v.figures
	mss, ok := v.mean(v.sender, info(sockopt.SndMSS))
	if v.direction == plan.Both || !ok || f.PayloadPerSegment == nil || f.MessagesPerSegment == nil || *f.PayloadPerSegment >= smallBelow*mss {
		return nil
	}
	return []finding{{smallWeight, fmt.Sprintf("small segments: %d B messages left in segments of %.0f B, %.1f messages each (MSS %.0f B)",
		v.run.Plan.End(v.sender).SendSize, *f.PayloadPerSegment, *f.MessagesPerSegment, mss)}}
}

// roundTrips is the bound of every request/response test that none of the
// others explains: the time of a transaction.
func roundTrips(v *view) []finding {
	s := v.run.Summary
	if v.direction != plan.Both || s.Latency == nil {
		return nil
	}
	return []finding{{smallWeight, fmt.Sprintf("round trips: %d at a time per stream, a transaction took %.1f us in the median, %.1f us in the mean",
		v.run.Plan.Burst, s.Latency.P50, s.Latency.Mean)}}
}
