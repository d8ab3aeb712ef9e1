package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInside(t *testing.T) {
	t.Parallel()
	s := Inside([]float64{1, 2, 3, 4})
	// Deviations -1.5 -0.5 0.5 1.5: lagged sum 0.75-0.25+0.75, squares 5.
	near(t, "autocorrelation", s.Autocorrelation, 0.25)
	near(t, "effective", s.EffectiveIntervals, 4*0.75/1.25)
	near(t, "CV", s.CVPercent, 100*1.2909944/2.5)
	s = Inside([]float64{940, 941, 0, 93, 95, 939})
	if diff := cmp.Diff([]int{2}, s.Stalled); diff != "" {
		t.Errorf("stalled, at a median of 517 (-want +got):\n%s", diff)
	}
	if s := Inside(nil); s.CVPercent != nil || s.Autocorrelation != nil || len(s.Stalled) != 0 {
		t.Errorf("no intervals: %+v", s)
	}
	if s := Inside([]float64{5, 5, 5}); *s.CVPercent != 0 || s.Autocorrelation != nil {
		t.Errorf("equal intervals: %+v", s)
	}
}

func TestSuggestOmit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 0))
	trials := func(n, intervals int, ramp func(i int) float64) [][]float64 {
		all := make([][]float64, n)
		for k := range all {
			all[k] = normals(rng, intervals, 100, 1)
			for i := range all[k] {
				all[k][i] *= ramp(i)
			}
		}
		return all
	}
	steady := func(int) float64 { return 1 }
	first := func(i int) float64 {
		if i == 0 {
			return 0.7
		}
		return 1
	}
	o := SuggestOmit(trials(5, 10, first))
	if o == nil || o.Intervals < 1 || o.TooShort || o.BelowPercent < 5 || math.Abs(o.P-1.0/32) > 1e-12 {
		t.Errorf("a slow first interval: %+v", o)
	}
	growing := func(i int) float64 { return 0.5 + float64(i)/20 }
	if o := SuggestOmit(trials(5, 10, growing)); o == nil || !o.TooShort || o.Intervals != 5 {
		t.Errorf("still growing: %+v", o)
	}
	if o := SuggestOmit(trials(4, 10, first)); o != nil {
		t.Errorf("4 trials: %+v", o)
	}
	if o := SuggestOmit(trials(5, 5, first)); o != nil {
		t.Errorf("5 intervals: %+v", o)
	}
	if o := SuggestOmit(trials(8, 10, func(i int) float64 { return 2 - first(i) })); o != nil {
		t.Errorf("a fast first interval: %+v", o)
	}
	suggested := 0
	for range 500 {
		if SuggestOmit(trials(5, 10, steady)) != nil {
			suggested++
		}
	}
	if suggested > 25 {
		t.Errorf("suggested for %d of 500 steady cells", suggested)
	}
}
