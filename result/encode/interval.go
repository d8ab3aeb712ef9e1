package encode

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/result"
)

// Interval lines have fixed columns, since they are printed one at a time.
const intervalFormat = "%-2s %8s - %7s  %11s  %8s"

// An intervalColumn is one of those that differ between tests.
type intervalColumn struct {
	title string
	width int
	value func(iv *result.Interval) string
}

// intervalColumns are those of the test whose interval iv is: what can happen to
// its segments, its datagrams or its connections. RTT and congestion window
// (segments) are the means over the streams.
func intervalColumns(iv *result.Interval) []intervalColumn {
	over := func(of func(*result.IntervalStream) *uint64) func(iv *result.Interval) string {
		return func(iv *result.Interval) string {
			var m mean
			for i := range iv.Streams {
				m.add(of(&iv.Streams[i]))
			}
			return show(m.value(), whole)
		}
	}
	switch {
	case iv.Failed != nil:
		return []intervalColumn{{"failed", 7, func(iv *result.Interval) string { return show(iv.Failed, count) }}}
	case iv.LostTransactions != nil:
		return []intervalColumn{{"lost", 7, func(iv *result.Interval) string { return show(iv.LostTransactions, count) }}}
	case iv.Lost != nil:
		return []intervalColumn{
			{"lost", 7, func(iv *result.Interval) string {
				return show(iv.Lost, func(n int64) string { return strconv.FormatInt(n, 10) })
			}},
			{"jitter [us]", 11, func(iv *result.Interval) string { return show(iv.Jitter, decimal) }},
		}
	}
	return []intervalColumn{
		{"retrans", 7, func(iv *result.Interval) string { return show(iv.RetransSegs, count) }},
		{"rtt [us]", 8, over(func(s *result.IntervalStream) *uint64 { return s.RTT })},
		{"cwnd", 5, over(func(s *result.IntervalStream) *uint64 { return s.Cwnd })},
	}
}

// IntervalHeader prints the column titles for iv, the first interval of a run,
// and those that follow it.
func IntervalHeader(w io.Writer, iv *result.Interval) error {
	rate, amount := "throughput", "received"
	if iv.Direction == plan.Both {
		rate, amount = "trans/s", "trans"
	}
	line := fmt.Sprintf(intervalFormat, "", "from [s]", "to [s]", rate, amount)
	for _, c := range intervalColumns(iv) {
		line += fmt.Sprintf("  %*s", c.width, c.title)
	}
	if len(iv.Streams) > 1 {
		line += "   slowest .. fastest"
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

// IntervalLine prints one interval on one line, between the moments at which it
// really began and ended.
func IntervalLine(w io.Writer, iv *result.Interval) error {
	rate, amount := show(iv.Throughput, units.BitRate), units.Size(float64(iv.Bytes))
	if iv.Direction == plan.Both {
		rate, amount = show(iv.TPS, decimal), show(iv.Transactions, count)
	}
	line := fmt.Sprintf(intervalFormat, arrow(iv.Direction), seconds(iv.Start), seconds(iv.End), rate, amount)
	for _, c := range intervalColumns(iv) {
		line += fmt.Sprintf("  %*s", c.width, c.value(iv))
	}
	if len(iv.Streams) > 1 {
		line += "   " + spread(iv)
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

// spread shows the rates of the slowest and the fastest stream.
func spread(iv *result.Interval) string {
	length := iv.End - iv.Start
	if length <= 0 {
		return unknown
	}
	var rates []float64
	format := units.BitRate
	for _, s := range iv.Streams {
		if s.Transactions != nil {
			rates, format = append(rates, float64(*s.Transactions)/length), decimal
		} else {
			rates = append(rates, float64(s.Bytes)*8/length)
		}
	}
	return format(slices.Min(rates)) + " .. " + format(slices.Max(rates))
}

// A mean is the arithmetic mean of the figures that are known.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v *uint64) {
	if v != nil {
		m.sum += float64(*v)
		m.n++
	}
}

func (m *mean) value() *float64 {
	n := float64(m.n)
	return ratio(m.sum, &n)
}
