package encode

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// Text prints r for people, at most 100 columns wide but for long messages. It
// is Header, the interval lines and Figures, each of which can be printed alone
// while a test runs.
func Text(w io.Writer, r *result.Run) error {
	var b bytes.Buffer
	header(&b, r)
	for i := range r.Intervals {
		if i == 0 {
			IntervalHeader(&b, &r.Intervals[i])
		}
		IntervalLine(&b, &r.Intervals[i])
	}
	if len(r.Intervals) > 0 {
		b.WriteByte('\n')
	}
	figures(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

// Header states the plan with every default that matters, and what r already
// knows of the ends. It prints nothing for a run without a plan.
func Header(w io.Writer, r *result.Run) error {
	var b bytes.Buffer
	header(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

// Figures prints all of r that follows its intervals: the streams, the totals,
// CPU, audit, warnings and the error.
func Figures(w io.Writer, r *result.Run) error {
	var b bytes.Buffer
	figures(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

func figures(b *bytes.Buffer, r *result.Run) {
	if len(r.Streams) > 0 {
		streams(b, r)
	}
	if r.Summary != nil {
		totals(b, &r.Summary.Figures, messageSizes(r.Plan))
		movers(b, r)
		directions(b, &r.Summary.Directions)
		cpu(b, &r.Summary.CPU)
	}
	audit(b, r.Audit)
	if r.Summary != nil {
		for i, sentence := range r.Summary.Diagnosis {
			if i == 0 {
				printLine(b, "diagnosis: %s", sentence)
			} else {
				printLine(b, "           %s", sentence)
			}
		}
	}
	series(b, r.Repeat)
	for _, w := range r.Warnings {
		printLine(b, "warning: %s%s (%s)", where(w.End, w.Stream), w.Message, w.Code)
	}
	if e := r.Error; e != nil {
		note := ""
		if r.Status == result.Partial {
			note = "; the figures are of what was measured until then"
		}
		printLine(b, "%s: %s%s (%s)%s", r.Status, where(e.End, nil), e.Message, e.Kind, note)
	}
}

// where says what a message is about.
func where(end string, stream *int) string {
	if stream != nil {
		end = strings.TrimSpace(end + " stream " + strconv.Itoa(*stream))
	}
	if end == "" {
		return ""
	}
	return end + ": "
}

// streams prints a line for each stream and, below several, the totals.
func streams(b *bytes.Buffer, r *result.Run) {
	var rows []row
	for i := range r.Streams {
		rows = append(rows, streamRow(&r.Streams[i]))
	}
	if len(rows) > 1 {
		rows = append(rows, totalRow(r))
	}
	rr := r.Streams[0].Direction == plan.Both
	cells := [][]string{{"stream", "", "throughput"}}
	if rr {
		cells[0] = []string{"stream", "", "trans/s", "mean [us]", "p50", "p99", "max"}
	}
	kind := carrier(r)
	switch {
	case kind == plan.Connection:
		cells[0] = append(cells[0], "retrans", "rtt [us]", "cwnd")
	case kind == plan.Datagrams && !rr:
		cells[0] = append(cells[0], "lost", "lost %", "jitter [us]")
	}
	cells[0] = append(cells[0], "client CPU", "server CPU")
	for _, f := range rows {
		line := []string{f.stream, arrow(f.direction), show(f.throughput, units.BitRate)}
		if rr {
			line = append([]string{f.stream, arrow(f.direction), show(f.tps, decimal)}, brief(f.latency)...)
		}
		switch {
		case kind == plan.Connection:
			line = append(line, show(f.retransSegs, count), show(f.rtt, whole), show(f.cwnd, whole))
		case kind == plan.Datagrams && !rr:
			d := cmp.Or(f.datagrams, &result.Datagrams{})
			line = append(line, show(d.Lost, count), show(d.LostPercent, seconds), show(d.Jitter, decimal))
		}
		cells = append(cells, append(line, busy(f.clientCPU, f.clientWindow), busy(f.serverCPU, f.serverWindow)))
	}
	table(b, right, cells)
	for _, f := range rows[:len(r.Streams)] {
		if f.err != "" {
			printLine(b, "  stream %s: %s", f.stream, f.err)
		}
	}
	b.WriteByte('\n')
}

// brief is the part of a latency that has room in a table of streams.
func brief(l stats.Latency) []string {
	if l.Count == 0 {
		return []string{unknown, unknown, unknown, unknown}
	}
	return []string{decimal(l.Mean), decimal(l.P50), decimal(l.P99), decimal(l.Max)}
}

// busy is the share of one CPU that threads used.
func busy(cpuSeconds, window *float64) string {
	if cpuSeconds == nil {
		return unknown
	}
	return show(ratio(*cpuSeconds*100, window), percent)
}

// totals prints the figures of the run, a line for each group of them that is
// known.
func totals(b *bytes.Buffer, f *result.Figures, sent string) {
	var rows [][]string
	add := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			rows = append(rows, []string{name, strings.Join(parts, ", ")})
		}
	}
	if f.Transactions != nil {
		add("transactions", show(f.TPS, decimal)+" per second", count(*f.Transactions)+" in "+show(f.Duration, seconds)+" s")
	} else {
		receives, sends := f.ReceiveCalls, f.SendCalls
		if f.Datagrams != nil { // of which each is a call
			receives, sends = nil, nil
		}
		add("throughput", show(f.Throughput, units.BitRate), show(f.ReceivedBytes, size)+" in "+show(f.Duration, seconds)+" s",
			part(receives, count, " receive calls"))
		add("sent", part(f.SentBytes, size, ""), part(sends, count, " send calls"), part(f.AckedBytes, size, " acknowledged"))
	}
	if l := f.Latency; l != nil {
		add("latency [us]", fmt.Sprintf("min %.1f  mean %.1f  stddev %.1f  max %.1f", l.Min, l.Mean, l.Stddev, l.Max))
		add("", fmt.Sprintf("p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f", l.P50, l.P90, l.P99, l.P999))
	}
	if l := f.Connect; l != nil {
		add("connect [us]", fmt.Sprintf("min %.1f  mean %.1f  p50 %.1f  p99 %.1f  max %.1f", l.Min, l.Mean, l.P50, l.P99, l.Max))
	}
	if f.ConnectErrors != nil && len(f.ConnectErrors) == 0 {
		add("failed", "no connection")
	}
	for _, name := range slices.Sorted(maps.Keys(f.ConnectErrors)) {
		add("failed", count(f.ConnectErrors[name])+" with "+name)
	}
	add("lost", part(f.LostTransactions, count, " transactions without a response in time"))
	if d := f.Datagrams; d != nil {
		add("datagrams", part(d.Sent, count, " sent"), part(d.Received, count, " received"), part(positive(d.SendErrors), count, " refused by the sender's kernel"))
		add("lost", part(d.Lost, count, " datagrams"), part(d.LostPercent, finePercent, ""), part(d.SocketDrops, count, " dropped at the receiver's socket"))
		add("", part(d.OutOfOrder, count, " out of order"), part(d.Duplicates, count, " duplicates"), part(d.Jitter, decimal, " us of jitter"))
	}
	if f.RTT != nil {
		add("rtt [us]", fmt.Sprintf("min %.0f  mean %.0f  max %.0f", f.RTT.Min, f.RTT.Mean, f.RTT.Max))
	}
	add("retransmits", part(f.RetransSegs, count, " segments"), part(f.RetransBytes, size, ""),
		part(f.RTOEvents, count, " time-outs"), part(f.SegmentsOut, count, " segments sent in all"))
	if f.PayloadPerSegment != nil && f.MessagesPerSegment != nil {
		add("segments", fmt.Sprintf("%s messages left in segments of %s B: %s messages each", sent, decimal(*f.PayloadPerSegment), messages(*f.MessagesPerSegment)))
	}
	add("sender held", part(f.Limited.Rwnd, percent, " by the receiver's window"), part(f.Limited.Sndbuf, percent, " by the send buffer"),
		part(f.Limited.Blocked, percent, " blocked in send"), part(f.Limited.Busy, percent, " busy"))
	table(b, left, rows)
	b.WriteByte('\n')
}

// movers prints what the calls of movers came to, stream by stream.
func movers(b *bytes.Buffer, r *result.Run) {
	rows := [][]string{{"stream", "end", "moved by", "pipe", "calls", "bytes per call", "p50", "max", "short", "copied"}}
	for _, s := range r.Streams {
		for _, end := range []struct {
			name string
			e    *result.StreamEnd
		}{{"client", s.Client}, {"server", s.Server}} {
			if end.e == nil || end.e.Mover == nil || end.e.Mover.Calls == nil {
				continue
			}
			m := end.e.Mover
			bytes := func(n int) string { return units.Size(float64(n)) }
			copied := show(m.CopiedBytes, size)
			switch {
			case m.Completions == nil:
			case *m.CopiedCompletions == *m.Completions:
				copied = "all sends"
			default:
				copied = fmt.Sprintf("%d of %d sends", *m.CopiedCompletions, *m.Completions)
			}
			rows = append(rows, []string{
				strconv.Itoa(s.ID), end.name, m.Name, show(m.PipeSize, bytes), show(m.Calls, count),
				show(m.MeanBytes, units.Size), show(m.P50Bytes, bytes), show(m.MaxBytes, bytes), show(m.ShortMoves, count), copied,
			})
		}
	}
	if len(rows) > 1 {
		table(b, right, rows)
		b.WriteByte('\n')
	}
}

// series prints the runs of a series and what they say together.
func series(b *bytes.Buffer, r *result.Repeat) {
	if r == nil {
		return
	}
	rate := units.BitRate
	if r.Metric == "transactions_per_second" {
		rate = func(v float64) string { return decimal(v) + " trans/s" }
	}
	rows := [][]string{{"run", "rate", "retrans", "machine CPU", "status"}}
	for i, t := range r.Trials {
		rows = append(rows, []string{strconv.Itoa(i + 1), show(cmp.Or(t.TPS, t.Throughput), rate), show(t.RetransSegs, count),
			show(t.ClientCPU, percent), string(t.Status)})
	}
	table(b, right, rows)
	s := r.Statistics
	printLine(b, "%s: mean %s, stddev %s, median %s, %s .. %s", plural(s.N, "complete run"),
		show(s.Mean, rate), show(s.Stddev, rate), show(s.Median, rate), show(s.Min, rate), show(s.Max, rate))
	if c := r.Confidence; c != nil {
		word := "not reached"
		if c.Reached {
			word = "reached"
		}
		printLine(b, "the mean is known to ±%s at a confidence of %g %%; ±%g %% was asked for: %s", show(c.HalfWidth, percent), c.Level, c.Width/2, word)
	}
	b.WriteByte('\n')
}

// directions prints the rates of each way when payload went both ways in bulk.
func directions(b *bytes.Buffer, d *result.Directions) {
	if d.ClientToServer == nil || d.ServerToClient == nil || d.ClientToServer.Throughput == nil || d.ServerToClient.Throughput == nil {
		return
	}
	rows := [][]string{{"", "throughput", "received", "retransmits"}}
	for _, way := range []struct {
		direction plan.Direction
		figures   *result.Figures
	}{{plan.ClientToServer, d.ClientToServer}, {plan.ServerToClient, d.ServerToClient}} {
		f := way.figures
		rows = append(rows, []string{arrow(way.direction), show(f.Throughput, units.BitRate), show(f.ReceivedBytes, size), show(f.RetransSegs, count)})
	}
	table(b, right, rows)
	b.WriteByte('\n')
}

// messageSizes are the sizes of what the senders hand to the kernel.
func messageSizes(t *plan.Test) string {
	if t == nil {
		return unknown
	}
	if t.Type.RequestResponse() {
		return exactSize(t.RequestSize) + " and " + exactSize(t.ResponseSize)
	}
	var sizes []string
	for _, d := range t.Directions() {
		for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
			if size := exactSize(t.End(end).SendSize); d.Role(end) == plan.Sender && !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	return strings.Join(sizes, " and ")
}

// messages prints a number of messages, which may be far below one.
func messages(v float64) string { return strconv.FormatFloat(v, 'g', 2, 64) }

// positive is p unless it's zero.
func positive(p *uint64) *uint64 {
	if p == nil || *p == 0 {
		return nil
	}
	return p
}

// part is a figure with its noun, nothing when it isn't known.
func part[T any](p *T, format func(T) string, noun string) string {
	if p == nil {
		return ""
	}
	return format(*p) + noun
}

// cpu prints what the window cost: the machine of each end, or the one machine
// of both counted once, and each end's threads.
func cpu(b *bytes.Buffer, c *result.CPU) {
	if c.Client == nil && c.Server == nil {
		return
	}
	rows := [][]string{{"CPU", "total", "user", "system", "softirq", "irq", "steal", "cores used", "threads", "demand"}}
	add := func(name string, machine, threads *result.EndCPU) {
		rows = append(rows, append(append([]string{name}, machineCPU(machine)...), threadCPU(threads)...))
	}
	if c.Scope == "shared" {
		add("machine", cmp.Or(c.Client, c.Server), nil)
		add("client", nil, c.Client)
		add("server", nil, c.Server)
	} else {
		add("client", c.Client, c.Client)
		add("server", c.Server, c.Server)
	}
	table(b, right, rows)
	b.WriteByte('\n')
}

func machineCPU(c *result.EndCPU) []string {
	if c == nil {
		return make([]string, 7)
	}
	return []string{
		show(c.Total, percent), show(c.User, percent), show(c.System, percent), show(c.Softirq, percent),
		show(c.IRQ, percent), show(c.Steal, percent),
		show(c.CoresUsed, func(f float64) string { return fmt.Sprintf("%.2f of %d", f, c.CPUs) }),
	}
}

func threadCPU(c *result.EndCPU) []string {
	if c == nil {
		return make([]string, 2)
	}
	demand, unit := c.DemandKiB, " us/KiB"
	if c.DemandTrans != nil {
		demand, unit = c.DemandTrans, " us/trans"
	}
	return []string{cmp.Or(part(c.ThreadSeconds, seconds, " s"), unknown), cmp.Or(part(demand, seconds, unit), unknown)}
}
