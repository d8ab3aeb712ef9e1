package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Sample describes a set of trials' values, nil where a figure isn't defined.
type Sample struct {
	N      int      `json:"n" doc:"values"`
	Mean   *float64 `json:"mean" doc:"arithmetic mean"`
	Stddev *float64 `json:"stddev" doc:"standard deviation, with n-1"`
	Median *float64 `json:"median" doc:"middle value, or the mean of the two middle ones"`
	Min    *float64 `json:"min" doc:"smallest value"`
	Max    *float64 `json:"max" doc:"largest value"`
}

// Describe summarises values, whose order doesn't matter.
func Describe(values []float64) Sample {
	s := Sample{N: len(values)}
	if s.N == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(values))
	mean, median := stat.Mean(sorted, nil), sorted[s.N/2]
	if s.N%2 == 0 {
		median = (sorted[s.N/2-1] + sorted[s.N/2]) / 2
	}
	s.Mean, s.Median, s.Min, s.Max = &mean, &median, &sorted[0], &sorted[s.N-1]
	if s.N > 1 {
		stddev := stat.StdDev(sorted, nil) // two passes: exact also on a large mean
		s.Stddev = &stddev
	}
	return s
}

// HalfWidthPercent is half the width of the confidence interval of the mean, as
// a percentage of the mean, by Student's t distribution: it assumes values that
// are independent and roughly normal. nil with fewer than two values or a mean
// of 0. level is between 0 and 1.
func (s Sample) HalfWidthPercent(level float64) *float64 {
	if s.Stddev == nil || *s.Mean == 0 {
		return nil
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.N - 1)}.Quantile((1 + level) / 2)
	v := 100 * t * *s.Stddev / math.Sqrt(float64(s.N)) / math.Abs(*s.Mean)
	return &v
}

// An Interval is where a figure lies, with the chance of that.
type Interval struct {
	Low   float64 `json:"low" doc:"lower end"`
	High  float64 `json:"high" doc:"upper end"`
	Level float64 `json:"level" doc:"chance that such an interval holds the true figure, between 0 and 1"`
}

// MedianInterval is where the median of what values were drawn from lies, by
// order statistics: the values are taken to be independent, and nothing else is
// assumed of them. Its ends are the k-th smallest and the k-th largest value,
// with the largest k whose level is at least 0.95, or else 1, which makes the
// level 1-2^(1-n) with fewer than 6 values. nil with fewer than two.
func MedianInterval(values []float64) *Interval {
	n := len(values)
	if n < 2 {
		return nil
	}
	below := distuv.Binomial{N: float64(n), P: 0.5} // of the values that are below the median
	k := 1
	for below.CDF(float64(k)) <= 0.025 {
		k++
	}
	sorted := slices.Sorted(slices.Values(values))
	return &Interval{Low: sorted[k-1], High: sorted[n-k], Level: 1 - 2*below.CDF(float64(k-1))}
}
