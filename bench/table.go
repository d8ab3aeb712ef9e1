package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/result"
	"gperf/stats"
)

// A report is everything that is printed at the end.
type report struct {
	config
	host        *result.Run // describes the machine
	load        string      // before the first row
	versions    []string
	outcomes    []outcome
	beyond      *extra
	movers      *moverReport
	startToExit *startToExit
	leftOut     []string
}

// write prints the report as Markdown.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	r.machine(&b)
	if len(r.outcomes) > 0 {
		r.table(&b)
	}
	if r.movers != nil {
		r.movers.write(&b)
		r.outcomes = r.movers.outcomes() // for their commands
	}
	if r.beyond != nil {
		fmt.Fprintf(&b, "A run of `gperf client -d 100ms HOST` takes %.1f ms%s beyond its window, over loopback and against a running server; a run of one transaction costs the client %.1f ms%s of CPU time. Medians of %d.\n\n",
			r.beyond.wall, ends(r.beyond.wallWithin, 1), r.beyond.cpu, ends(r.beyond.cpuWithin, 1), r.beyond.n)
	}
	if e := r.startToExit; e != nil {
		fmt.Fprintf(&b, "From start to exit `gperf netperf -l %s` takes %.1f ms%s longer than netperf. Median of %d pairs' differences.\n\n",
			seconds(r.duration), e.median, ends(e.within, 1), e.n)
	}
	for _, what := range r.leftOut {
		fmt.Fprintf(&b, "Left out: %s.\n\n", what)
	}
	if len(r.outcomes) > 0 {
		r.commands(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// machine describes where and how the figures were made.
func (r *report) machine(b *strings.Builder) {
	h := r.host.Hosts.Client
	if h == nil {
		h = new(result.Host)
	}
	fmt.Fprintf(b, "- machine: %s, %s CPUs, virtualised: %s, Linux %s\n", or(h.CPUModel), or(h.CPUs), or(h.Virtualised), or(h.Kernel))
	fmt.Fprintf(b, "- tools: %s\n", strings.Join(append([]string{"gperf " + r.host.Gperf.Version}, r.versions...), "; "))
	algorithm := congestion + " on all"
	if r.netperf {
		algorithm = "the machine's own"
	}
	fmt.Fprintf(b, "- %d pairs a row, windows of %v, congestion control %s, socket buffers left to the kernel\n", r.pairs, r.duration, algorithm)
	fmt.Fprintf(b, "- load average: %s before, %s after\n\n", r.load, loadAverage())
}

// table prints the rows.
func (r *report) table(b *strings.Builder) {
	b.WriteString("Ratios are the medians of the pairs' a/b")
	if level := r.level(); level > 0 {
		fmt.Fprintf(b, ", in brackets their %.1f %% intervals", 100*level)
	}
	b.WriteString("; the other figures are each side's medians. CPU is the user and system time of client and server together.\n\n")
	b.WriteString("| row | CPUs | a | b | rate of a | of b | ratio | CPU of a | of b | ratio |\n")
	b.WriteString("| --- | --- | --- | --- | ---: | ---: | --- | ---: | ---: | --- |\n")
	for _, o := range r.outcomes {
		cells := []string{o.title, o.a.placement(), o.a.label, o.b.label}
		if o.err != nil {
			cells = append(cells, oneCell(o.err.Error()), "", "", "", "", "")
		} else {
			rate, cost := gigabits, perKiB
			if o.a.rr {
				rate, cost = kiloTransactions, perTransaction
			}
			cells = append(cells, rate(o.rate.a), rate(o.rate.b), o.rate.String(), cost(o.cpu.a), cost(o.cpu.b), o.cpu.String())
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	b.WriteString("\n")
}

// level is that of the ratios' intervals, 0 if there are none: it depends on
// the number of pairs only.
func (r *report) level() float64 {
	for _, o := range r.outcomes {
		if o.rate.interval != nil {
			return o.rate.interval.Level
		}
	}
	return 0
}

// commands prints the command lines, for each row on its first CPUs only: those
// on others differ in the CPUs' numbers.
func (r *report) commands(b *strings.Builder) {
	var rows, lines []string
	for _, o := range r.outcomes {
		if row := o.title + " " + o.b.label; !slices.Contains(rows, row) {
			rows = append(rows, row)
			lines = append(lines, o.commands()...)
		}
	}
	seen := make(map[string]bool)
	lines = slices.DeleteFunc(lines, func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
	fmt.Fprintf(b, "Commands, each row's on its first CPUs (netperf: a client and a server for each stream, begun together):\n\n```\n%s\n```\n", strings.Join(lines, "\n"))
}

func (f figure) String() string { return fmt.Sprintf("%.3f%s", f.ratio, ends(f.interval, 3)) }

// ends prints an interval's ends.
func ends(i *stats.Interval, decimals int) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf(" [%.*f, %.*f]", decimals, i.Low, decimals, i.High)
}

func gigabits(v float64) string         { return fmt.Sprintf("%.2f Gbit/s", v/1e9) }
func kiloTransactions(v float64) string { return fmt.Sprintf("%.2f k/s", v/1e3) }
func perKiB(v float64) string           { return fmt.Sprintf("%.3f µs/KiB", v*8*1024*1e6) }
func perTransaction(v float64) string   { return fmt.Sprintf("%.2f µs", v*1e6) }

// oneCell makes text fit into a table.
func oneCell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// or prints what p points to.
func or[T any](p *T) string {
	if p == nil {
		return "unknown"
	}
	return fmt.Sprint(*p)
}
