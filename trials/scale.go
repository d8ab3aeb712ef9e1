package trials

import (
	"math"
	"strconv"
)

// A Scale shows values of a metric in a unit that suits them all.
type Scale struct {
	Unit   string // empty for counts
	factor float64
}

// A step is a unit and how much of the base unit it is.
type step struct {
	from   float64 // values from which it suits
	factor float64
	unit   string
}

var steps = map[string][]step{
	"bit/s":   {{1e9, 1e9, "Gbit/s"}, {1e6, 1e6, "Mbit/s"}, {1e3, 1e3, "kbit/s"}},
	"bytes/s": {{1e9, 1e9, "GB/s"}, {1e6, 1e6, "MB/s"}, {1e3, 1e3, "kB/s"}},
	"bytes":   {{10 << 30, 1 << 30, "GiB"}, {10 << 20, 1 << 20, "MiB"}, {100 << 10, 1 << 10, "KiB"}},
	"1/s":     {{1e7, 1e6, "M/s"}, {1e4, 1e3, "k/s"}},
	"us":      {{1e7, 1e6, "s"}, {1e4, 1e3, "ms"}},
	"s":       {{1, 1, "s"}, {1e-3, 1e-3, "ms"}, {0, 1e-6, "us"}},
}

// ScaleFor is the scale of a metric that suits the largest of these values.
func ScaleFor(m Metric, values []float64) Scale {
	var largest float64
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	if largest > 0 {
		for _, s := range steps[m.Unit] {
			if largest >= s.from {
				return Scale{s.unit, s.factor}
			}
		}
	}
	return Scale{m.Unit, 1}
}

// In is a value in the scale's unit.
func (s Scale) In(v float64) float64 { return v / s.factor }

// Format prints a value without its unit, with three significant digits or all
// those before the point.
func (s Scale) Format(v float64) string {
	v /= s.factor
	decimals := 0
	if size := math.Abs(v); size > 0 {
		decimals = 2 - int(math.Floor(math.Log10(size)+1e-9))
	}
	if s.factor == 1 && v == math.Trunc(v) && s.Unit == "" {
		decimals = 0 // a count
	}
	return strconv.FormatFloat(v, 'f', min(max(decimals, 0), 6), 64)
}

// WithUnit prints a value with its unit.
func (s Scale) WithUnit(v float64) string {
	if s.Unit == "" {
		return s.Format(v)
	}
	return s.Format(v) + " " + s.Unit
}
