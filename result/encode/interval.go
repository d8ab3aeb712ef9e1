package encode

import (
	"fmt"
	"io"
	"slices"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/result"
)

// Interval lines have fixed columns, since they are printed one at a time.
const intervalFormat = "%-2s %8s - %7s  %11s  %8s  %7s  %8s  %5s"

// IntervalHeader prints the column titles for iv, the first interval of a run,
// and those that follow it.
func IntervalHeader(w io.Writer, iv *result.Interval) error {
	rate, amount := "throughput", "received"
	if iv.Direction == plan.Both {
		rate, amount = "trans/s", "trans"
	}
	line := fmt.Sprintf(intervalFormat, "", "from [s]", "to [s]", rate, amount, "retrans", "rtt [us]", "cwnd")
	if len(iv.Streams) > 1 {
		line += "   slowest .. fastest"
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

// IntervalLine prints one interval on one line, between the moments at which it
// really began and ended. RTT and congestion window (segments) are the means
// over the streams.
func IntervalLine(w io.Writer, iv *result.Interval) error {
	rate, amount := show(iv.Throughput, units.BitRate), units.Size(float64(iv.Bytes))
	if iv.Direction == plan.Both {
		rate, amount = show(iv.TPS, decimal), show(iv.Transactions, count)
	}
	var rtt, cwnd mean
	for _, s := range iv.Streams {
		rtt.add(s.RTT)
		cwnd.add(s.Cwnd)
	}
	line := fmt.Sprintf(intervalFormat, arrow(iv.Direction), seconds(iv.Start), seconds(iv.End), rate, amount,
		show(iv.RetransSegs, count), show(rtt.value(), whole), show(cwnd.value(), whole))
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
