package encode

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/units"
	"gperf/sockopt"
)

// audit prints what became of the knobs that were asked for, and of the
// buffers that were left to the kernel. Streams that fared alike share a line.
func audit(b *bytes.Buffer, rows []sockopt.Row) {
	lines := [][]string{{"knob", "end", "stream", "asked", "effective", "at start", "at end", "verdict"}}
	for _, group := range alike(rows) {
		g := group[0]
		line := []string{knobName(g.Knob), g.End, streamNumbers(group)}
		switch {
		case g.Requested.IsSet():
			line = append(line, knobValue(g.Knob, g.Requested), knobValue(g.Knob, g.Effective),
				knobValue(g.Knob, g.AtStart), knobValue(g.Knob, g.AtEnd), g.Why())
		case g.Knob == "sndbuf" || g.Knob == "rcvbuf" || g.Knob == "pipe_size":
			line = append(line, "auto", sizes(group, func(r sockopt.Row) sockopt.Value { return r.Effective }),
				sizes(group, func(r sockopt.Row) sockopt.Value { return r.AtStart }),
				sizes(group, func(r sockopt.Row) sockopt.Value { return r.AtEnd }), tuning(group))
		default:
			continue // the header has it
		}
		lines = append(lines, line)
	}
	if len(lines) > 1 {
		table(b, left, lines)
		b.WriteByte('\n')
	}
}

// alike groups the rows of streams that differ in nothing else or, where
// nothing was asked for, in the readings only.
func alike(rows []sockopt.Row) [][]sockopt.Row {
	var groups [][]sockopt.Row
	place := map[sockopt.Row]int{}
	for _, r := range rows {
		key := r
		key.Stream = nil
		if !r.Requested.IsSet() {
			key.Effective, key.AtStart, key.AtEnd = sockopt.Value{}, sockopt.Value{}, sockopt.Value{}
		}
		i, ok := place[key]
		if !ok {
			i = len(groups)
			place[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// streamNumbers lists the streams of a group, runs of them as "1-4".
func streamNumbers(group []sockopt.Row) string {
	var parts []string
	first, last := 0, 0
	for i, r := range group {
		if r.Stream == nil {
			return "all"
		}
		if i == 0 || *r.Stream != last+1 {
			first = *r.Stream
			parts = append(parts, "")
		}
		last = *r.Stream
		parts[len(parts)-1] = strconv.Itoa(first)
		if last != first {
			parts[len(parts)-1] += "-" + strconv.Itoa(last)
		}
	}
	return strings.Join(parts, ",")
}

// sizes shows a reading of buffers that the kernel sizes, from the smallest to
// the largest of a group.
func sizes(group []sockopt.Row, reading func(sockopt.Row) sockopt.Value) string {
	var known []int64
	for _, r := range group {
		if n, ok := reading(r).Int(); ok {
			known = append(known, n)
		}
	}
	if known == nil {
		return unknown
	}
	low, high := units.Size(float64(slices.Min(known))), units.Size(float64(slices.Max(known)))
	if low == high {
		return low
	}
	return low + " .. " + high
}

// tuning says whether the kernel changed a buffer while the window was open.
func tuning(group []sockopt.Row) string {
	for _, r := range group {
		if r.AtStart.IsSet() && r.AtEnd.IsSet() && r.AtStart != r.AtEnd {
			return "auto-tuned"
		}
	}
	return "auto"
}
