package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Throughput that falls by some 14 Mbit/s with each retransmission timeout.
func TestExplain(t *testing.T) {
	t.Parallel()
	a := []float64{889, 862, 874, 818, 890, 845, 901, 832, 876, 790}
	b := []float64{861, 775, 887, 833, 706, 848, 803, 874, 762, 819}
	timeoutsA := []float64{0, 2, 1, 5, 0, 3, 0, 4, 1, 7}
	timeoutsB := []float64{2, 8, 0, 4, 13, 3, 6, 1, 9, 5}
	found := Explain(a, b, map[string][2][]float64{
		"timeouts":  {timeoutsA, timeoutsB},
		"constant":  {make([]float64, 10), make([]float64, 10)},
		"unrelated": {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"lacking":   {timeoutsA, timeoutsB[:9]},
		"unknown":   {timeoutsA, append([]float64{math.NaN()}, timeoutsB[1:]...)},
	})
	if len(found) != 1 || found[0].Name != "timeouts" {
		t.Fatalf("found %+v", found)
	}
	e := found[0]
	near(t, "rho", &e.Rho, -0.992395)
	nearBy(t, "p of the difference", &e.DiffersP, 0.091515, 5e-7)
	near(t, "mean A", e.MeanA, 2.3)
	near(t, "mean B", e.MeanB, 5.1)
	if !(e.CorrectedP > e.P) || e.CorrectedP > 1e-10 {
		t.Errorf("p %v, corrected %v", e.P, e.CorrectedP)
	}
	s := e.Split
	near(t, "slope", &s.Slope, -14.24315)
	nearRange(t, "slope", s.SlopeInterval, ends{-14.6866, -13.7997})
	near(t, "R2", &s.R2, 0.99639)
	near(t, "total", &s.Total, -40.9)
	near(t, "via", &s.Via, -39.8808)
	nearBy(t, "direct", &s.Direct, -1.0192, 5e-5)
	nearBy(t, "direct low", s.DirectInterval.Low, -3.4732, 5e-5)
	nearBy(t, "direct high", s.DirectInterval.High, 1.4348, 5e-5)

	c := judged(Side{Values: a}, Side{Values: b}, Options{})
	near(t, "p", &c.P, 0.080853)
	if c.Verdict != Inconclusive || *c.TrialsNeeded != 24 {
		t.Errorf("got %s, %d needed, want inconclusive, 24", c.Verdict, *c.TrialsNeeded)
	}
}

func TestExplainOneSide(t *testing.T) {
	t.Parallel()
	found := Explain(ramp(100, 10), nil, map[string][2][]float64{"order": {ramp(1, 10), nil}})
	if len(found) != 1 || found[0].Rho != 1 || found[0].Split != nil || found[0].MeanB != nil {
		t.Errorf("found %+v", found)
	}
	if found := Explain(ramp(1, 3), ramp(1, 2), map[string][2][]float64{"x": {ramp(1, 3), ramp(1, 2)}}); found != nil {
		t.Errorf("of 5 trials: %+v", found)
	}
}

// A single trial that has the covariate fixes the slope: nothing bounds it.
func TestExplainLeverage(t *testing.T) {
	t.Parallel()
	s := split(ramp(100, 8), []float64{90, 91, 90, 91, 90, 91, 90, 40}, make([]float64, 8), []float64{0, 0, 0, 0, 0, 0, 0, 3})
	if s == nil || s.SlopeInterval != nil || s.DirectInterval != nil {
		t.Errorf("got %+v", s)
	}
}

// What isn't related is seldom listed.
func TestExplainUnrelated(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 0))
	listed := 0
	for range 1000 {
		listed += len(Explain(normals(rng, 7, 10, 1), normals(rng, 7, 20, 1),
			map[string][2][]float64{"x": {normals(rng, 7, 5, 1), normals(rng, 7, 9, 1)}}))
	}
	if listed > 75 { // 50 expected, 7 their standard deviation
		t.Errorf("%d of 1000 unrelated ones listed", listed)
	}
}
