package sample_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"gperf/stats/sample"
)

// shaped are n values with that mean and relative standard deviation, evenly spread
// over a normal distribution.
func shaped(n int, mean, spread float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = distuv.UnitNormal.Quantile((float64(i) + 0.5) / float64(n))
	}
	m, sd := stat.MeanStdDev(values, nil)
	for i := range values {
		values[i] = mean * (1 + spread*(values[i]-m)/sd)
	}
	return values
}

// Somebody ran 50 trials with a change reverted and 50 with it, had means of 843.64
// and 823.00 Mbit/s, and asked whether it's a regression or too small a sample. With
// the spreads that their arithmetic and geometric means point to, it's the latter.
func TestIsItReallySlower(t *testing.T) {
	t.Parallel()
	c := sample.Measure(sample.Side{Values: shaped(50, 843.64, 0.062)}, sample.Side{Values: shaped(50, 823.00, 0.090)}, sample.Options{})
	c.Judge(c.P, 1)
	if c.Verdict != sample.Inconclusive || c.TrialsNeeded == nil || *c.TrialsNeeded < 120 || *c.TrialsNeeded > 260 {
		t.Errorf("%s", c.Line())
	}
	if r := c.Mean.Ratio; r == nil || math.Abs(*r-823.0/843.64) > 1e-9 {
		t.Errorf("mean ratio %v", r)
	}
	if c.MDEPercent == nil || *c.MDEPercent < 3.5 || *c.MDEPercent > 5 {
		t.Errorf("MDE %v", *c.MDEPercent)
	}
}
