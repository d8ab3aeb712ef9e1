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
