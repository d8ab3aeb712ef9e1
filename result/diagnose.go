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
	rwndFrom    = 20.0    // % of the window
	sndbufFrom  = 20.0    // % of the window
	lossFrom    = 0.05    // % of the segments
	cpuFrom     = 85.0    // % of one CPU
	waitFrom    = 10.0    // % of the window
	pacedFrom   = 0.90    // of the rate asked for
	cwndFrom    = 50.0    // % of the window with data in flight
	smallBelow  = 0.5     // of the MSS: segments that carry less
	smallWeight = 30.0    // strength of "small segments": a cause of cost more than a bound
	cwndWeight  = 50.0    // strength of "congestion window", and of "path" whose window it is
	windowUsed  = 0.1     // of the receiver's window: less per RTT means that not its size is in the way
	ownFrom     = 2.0 / 3 // of the time that a CPU was busy
	softirqFrom = 50.0    // % of one CPU
	queueFrom   = 2.0     // times the least RTT, and
	queueLeast  = 1000    // us above it: less may be a busy machine's
	calmBelow   = 25.0    // % of the window: more waiting for a CPU makes RTTs long, too
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
			loss, datagramLoss, lostTransactions, receiverWindow, sendBuffer, pacing, congestionWindow, path, smallSegments, roundTrips,
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
	// A receiver that is out of CPU, or doesn't get one, lets its window close:
	// then the window is how the sender learns of it, not the cause. (Nor is it
	// when the thread waits but the window is too small for the path: while it
	// waits for a CPU, it could have read no more than a window.)
	strength := *share
	if ran, ok := v.mean(v.receiver, threadPercent); ok {
		wish, _ := v.mean(v.receiver, wishPercent)
		switch {
		case ran >= cpuFrom:
			strength = min(strength, ran-1)
		case wish >= cpuFrom && !v.fillsWindow():
			strength = min(strength, max(ran, wish-ran)-1)
		}
	}
	buffer, _, _ := v.buffer("rcvbuf", v.receiver)
	window := "not known"
	if w, ok := v.mean(v.receiver, info(sockopt.RcvWnd)); ok {
		window = units.Size(w)
	}
	return []finding{{strength, fmt.Sprintf("receiver window: it held the sender %.0f %% of the time (the %s offered %s at the end; %s)",
		*share, v.receiver, window, buffer)}}
}

// fillsWindow reports whether a good part of the receiver's window is on its way
// at any time, as it is when the window's size is what bounds the rate. A
// receiver that reads too slowly has a window that is closed, but is wide enough.
func (v *view) fillsWindow() bool {
	window, ok1 := v.mean(v.receiver, info(sockopt.RcvWnd))
	rtt, ok2 := v.mean(v.sender, info(sockopt.RTT))
	if !ok1 || !ok2 || v.figures.Throughput == nil {
		return true // as far as can be known
	}
	each := *v.figures.Throughput / 8 / float64(len(v.streams))
	return each*rtt/1e6 >= windowUsed*window
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
		// With room in both windows, the buffer it is that has none. (Unless the
		// path's queue is where the data waits: a larger buffer lengthens that.)
		if asked && !v.queued() && *l.Blocked >= sndbufFrom && *l.Rwnd < rwndFrom && v.cwndBytes() > float64(bytes)/2 {
			return []finding{{*l.Blocked - *l.Rwnd, fmt.Sprintf("send buffer: the sender was blocked in send %.0f %% of the time, with room in the congestion window of %s (%s)",
				*l.Blocked, units.Size(v.cwndBytes()), buffer)}}
		}
	}
	if *l.Sndbuf >= sndbufFrom && !v.queued() {
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
	// What the receiver says it got twice wasn't lost: tail-loss probes after a
	// delay, or reordering.
	lost, needless := *f.RetransPercent, uint64(0)
	if f.DSACKs != nil {
		needless = min(*f.DSACKs, *f.RetransSegs)
		lost *= 1 - float64(needless)/float64(*f.RetransSegs)
	}
	if lost < lossFrom {
		return []finding{{1, fmt.Sprintf("needless retransmits: the receiver reported %d of %d as duplicates (reordering, or tail-loss probes after a delay); next to nothing was lost",
			needless, *f.RetransSegs)}}
	}
	rtos := uint64(0)
	timeouts := "time-outs not known"
	if f.RTOEvents != nil {
		rtos = *f.RTOEvents
		timeouts = plural(rtos, "retransmission time-out (RTO)", "retransmission time-outs (RTO)")
	}
	sentence := fmt.Sprintf("loss: %.2f %% of the segments (%d) were retransmitted, %s", *f.RetransPercent, *f.RetransSegs, timeouts)
	if needless > 0 {
		sentence += fmt.Sprintf("; %d of them arrived twice", needless)
	}
	return []finding{{lossStrength(lost, rtos), sentence + v.backlogDrops()}}
}

// backlogDrops says that the receiver's machine dropped packets itself, of which
// nothing but this counter tells. Empty: it didn't, or doesn't tell.
func (v *view) backlogDrops() string {
	c := *v.run.Counters.Of(v.receiver)
	if c == nil || c.Softnet == nil || c.Softnet.Dropped == nil || *c.Softnet.Dropped == 0 {
		return ""
	}
	return fmt.Sprintf("; the %s's machine dropped %s of all its traffic because the backlog of a CPU was full (net.core.netdev_max_backlog)",
		v.receiver, plural(*c.Softnet.Dropped, "packet", "packets"))
}

// datagramLoss says where the datagrams went that didn't come: a socket whose
// buffer is full drops them at the receiver, which a larger buffer helps against as
// far as the receiver is fast enough on average. Of the rest only the path knows.
func datagramLoss(v *view) (all []finding) {
	d := v.figures.Datagrams
	if d == nil || d.Lost == nil || d.LostPercent == nil || *d.LostPercent < lossFrom {
		return nil
	}
	should := 100 * float64(*d.Lost) / *d.LostPercent
	atSocket := uint64(0)
	if d.SocketDrops != nil {
		// They are counted also behind the last datagram that came, the lost are not.
		atSocket = min(*d.SocketDrops, *d.Lost)
	}
	if share := 100 * float64(atSocket) / should; share >= lossFrom {
		buffer, bytes, asked := v.buffer("rcvbuf", v.receiver)
		if bytes > 0 && !asked {
			buffer = "rcvbuf by default, " + units.Size(float64(bytes)) // which the kernel doesn't tune here
		}
		all = append(all, finding{lossStrength(share, 0), fmt.Sprintf("receive buffer: %.2f %% of the datagrams (%d) were dropped at the %s's sockets, whose buffers were full (%s): raise --rcvbuf, or send more slowly",
			share, atSocket, v.receiver, buffer)})
	}
	elsewhere := *d.Lost - atSocket
	where := "on the way"
	if d.SocketDrops == nil {
		where = "on the way or at the receiver's sockets, whose drops this kernel doesn't tell"
	}
	if share := 100 * float64(elsewhere) / should; share >= lossFrom {
		all = append(all, finding{lossStrength(share, 0), fmt.Sprintf("loss: %.2f %% of the datagrams (%d) were lost %s%s", share, elsewhere, where, v.backlogDrops())})
	}
	return all
}

// lostTransactions is the loss of a UDP_RR, which costs a time-out each.
func lostTransactions(v *view) []finding {
	s := v.run.Summary
	if v.direction != plan.Both || s.LostTransactions == nil || s.Transactions == nil || *s.LostTransactions == 0 {
		return nil
	}
	percent := 100 * float64(*s.LostTransactions) / float64(*s.LostTransactions+*s.Transactions)
	if percent < lossFrom {
		return nil
	}
	return []finding{{lossStrength(percent, 0), fmt.Sprintf("loss: %.2f %% of the requests (%d) had no response within %v", percent, *s.LostTransactions, time.Duration(v.run.Plan.ResponseTimeout))}}
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

// saturatedCPU is about CPUs that this test's own work fills: its threads', or
// the softirqs of its packets. Where others do, its threads wait for a CPU, which
// has a rule of its own. A single thread that fills one is the nearer cause.
func saturatedCPU(v *view) (findings []finding) {
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
		busy := slices.DeleteFunc(slices.Clone(cpu.PerCPU), func(c CPUShare) bool { return c.Total == nil || *c.Total < saturated })
		var full []string
		most, ours := 0.0, 0.0
		for _, c := range busy {
			own := v.ownPercent(end, c.CPU, len(busy))
			if own >= ownFrom**c.Total || softirqs(&c) >= softirqFrom {
				full = append(full, fmt.Sprint(c.CPU))
				most, ours = max(most, *c.Total), max(ours, own)
			}
		}
		if len(full) == 0 {
			continue
		}
		owner := where
		if strings.Contains(owner, "%s") {
			owner = fmt.Sprintf(owner, end)
		}
		ran, wish := 0.0, 0.0
		for _, e := range v.ends(end) {
			_, r := v.busiest(e, threadPercent)
			_, w := v.busiest(e, wishPercent)
			ran, wish = max(ran, r), max(wish, w)
		}
		// A machine that is busy doesn't bound a thread that waits for its peer,
		// unless the peer is what keeps it busy.
		if wish = max(wish, ours); wish < cpuFrom {
			continue
		}
		strength := min(most, wish) - 2
		if ran >= cpuFrom {
			strength = min(strength, ran-1)
		}
		findings = append(findings, finding{strength, fmt.Sprintf("CPU: %sCPU %s busy at least %.0f %% (%d CPUs)", owner, strings.Join(full, ", "), saturated, cpu.CPUs)})
	}
	return findings
}

// saturated is from which share on a CPU counts as having nothing left.
const saturated = 95.0

// ends are those whose threads may run on the CPUs of end's machine.
func (v *view) ends(end sockopt.End) []sockopt.End {
	if v.run.Summary.CPU.Scope == "shared" {
		return []sockopt.End{v.sender, v.receiver}
	}
	return []sockopt.End{end}
}

// ownPercent is how much of one CPU of end's machine, of so many that are busy,
// the test's threads used, in all directions. Of a thread that may have been on
// any of them each gets its part.
func (v *view) ownPercent(end sockopt.End, cpu, busy int) (percent float64) {
	for i := range v.run.Streams {
		for _, e := range v.ends(end) {
			s := v.run.Streams[i].of(e)
			if s == nil {
				continue
			}
			ran := threadPercent(s)
			if ran == nil {
				continue
			}
			percent += *ran / float64(max(s.Thread.Streams, 1)) * s.Thread.shareOn(cpu, busy)
		}
	}
	return percent
}

// shareOn is which part of its time the thread spent on a CPU, one of so many
// busy ones, as far as is known.
func (t *Thread) shareOn(cpu, busy int) float64 {
	where := t.CPUs
	if t.Migrations != nil && *t.Migrations == 0 && t.LastCPU != nil {
		where = []int{*t.LastCPU}
	}
	switch {
	case where == nil:
		return 1 / float64(busy)
	case slices.Contains(where, cpu):
		return 1 / float64(len(where))
	}
	return 0
}

// softirqs is the share of a CPU that went into packets.
func softirqs(c *CPUShare) (percent float64) {
	for _, p := range []*float64{c.Softirq, c.IRQ} {
		if p != nil {
			percent += *p
		}
	}
	return percent
}

func waitingForCPU(v *view) (all []finding) {
	for _, end := range []sockopt.End{v.sender, v.receiver} {
		if stream, most := v.busiest(end, waitPercent); most >= waitFrom {
			strength := most
			// What comes while a receiver waits, the kernel acknowledges: that costs
			// the sender nothing before the window closes.
			if rwnd := v.figures.Limited.Rwnd; v.direction.Role(end) == plan.Receiver && rwnd != nil {
				strength = min(strength, max(*rwnd, waitFrom))
			}
			all = append(all, finding{strength, fmt.Sprintf("waiting for a CPU: the %s's thread of stream %d was ready to run and waited %.0f %% of the time", end, stream, most)})
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
	if each < carries/2 || v.queued() {
		return nil // it would carry more, or only lengthen a queue
	}
	return []finding{{cwndWeight, fmt.Sprintf("congestion window: %s per RTT of %v carry %s per stream",
		units.Size(window), time.Duration(rtt)*time.Microsecond, units.BitRate(carries))}}
}

// queued reports whether data queued on the path: round trips that take much
// longer than they might, though nobody waited for a CPU and the sender, if that
// is known, was mostly blocked in send.
func (v *view) queued() bool {
	rtt := v.figures.RTT
	if rtt == nil || rtt.Mean < queueFrom*rtt.Min || rtt.Mean < rtt.Min+queueLeast {
		return false
	}
	if blocked := v.figures.Limited.Blocked; blocked != nil && *blocked < cwndFrom {
		return false
	}
	for _, end := range []sockopt.End{v.sender, v.receiver} {
		if _, most := v.busiest(end, waitPercent); most >= calmBelow {
			return false
		}
	}
	return true
}

// path holds when the sender kept a queue of the path filled: then that is as
// fast as its slowest link goes, for this test and whoever shares it.
func path(v *view) []finding {
	l := v.figures.Limited
	if v.direction == plan.Both || l.Busy == nil || *l.Busy < cwndFrom || l.Rwnd == nil || *l.Rwnd >= rwndFrom || v.figures.Throughput == nil || !v.queued() {
		return nil
	}
	for _, end := range []sockopt.End{v.sender, v.receiver} {
		if _, most := v.busiest(end, threadPercent); most >= cpuFrom {
			return nil
		}
	}
	strength := cwndWeight
	if l.Blocked != nil {
		strength = max(strength, *l.Blocked-1)
	}
	us := func(n float64) time.Duration { return time.Duration(n) * time.Microsecond }
	return []finding{{strength, fmt.Sprintf("path: data queued on it, with an RTT of %v, at the least %v; its slowest link let %s through",
		us(v.figures.RTT.Mean), us(v.figures.RTT.Min), units.BitRate(*v.figures.Throughput))}}
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
	sentence := fmt.Sprintf("round trips: %d at a time per stream, a transaction took %.1f us in the median, %.1f us in the mean",
		v.run.Plan.Burst, s.Latency.P50, s.Latency.Mean)
	if s.Connect != nil {
		sentence += fmt.Sprintf("; until the connection stood, %.1f and %.1f us of that", s.Connect.P50, s.Connect.Mean)
	}
	return []finding{{smallWeight, sentence}}
}
