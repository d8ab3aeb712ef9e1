package sample

import (
	"math"
	"strconv"
	"testing"
)

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func TestCellFigures(t *testing.T) {
	t.Parallel()
	allBelow, outlier, bimodal, wide := vectors[0], vectors[6], vectors[7], vectors[8]
	c := Describe(allBelow.a, 0)
	nearBy(t, "rspread", c.RSpreadPercent, 0.4538, 5e-5)
	nearBy(t, "CV", c.CVPercent, 0.4037, 5e-5)
	if i := c.MedianInterval; i.Low != 8.36 || i.High != 8.45 || i.Level != 0.9375 {
		t.Errorf("median interval %+v", *i)
	}
	c = Describe(outlier.a, 0)
	nearBy(t, "CV", c.CVPercent, 34.639, 5e-4)
	nearBy(t, "rspread", c.RSpreadPercent, 0.3186, 5e-5)
	if len(c.Outliers) != 1 || c.Outliers[0] != 6 {
		t.Errorf("outliers %v, want the seventh", c.Outliers)
	}
	c = Describe(bimodal.b, 0)
	nearBy(t, "CV", c.CVPercent, 14.356, 5e-4)
	nearBy(t, "rspread", c.RSpreadPercent, 26.810, 1e-3)
	nearBy(t, "separation", c.Separation, 137, 0.5)
	near(t, "limit", c.SeparationLimit, 8.5)
	if i := c.MedianInterval; i.Low != 49.5 || i.High != 65.2 || math.Abs(i.Level-0.9785) > 5e-5 {
		t.Errorf("median interval %+v", *i)
	}
	nearBy(t, "rspread", Describe(wide.b, 0).RSpreadPercent, 7.0906, 2e-4)

	if zeros := Describe(vectors[5].a, 0); zeros.Geomean != nil || len(zeros.Outliers) != 1 {
		t.Errorf("zeros: geomean %v, outliers %v", zeros.Geomean, zeros.Outliers)
	}
	one := Describe([]float64{843.64}, 0)
	if one.SD != nil || one.CVPercent != nil || one.RSpreadPercent != nil || one.MedianInterval != nil || *one.Median != 843.64 {
		t.Errorf("one trial: %+v", one)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	// Of 1..n, type 8 gives the position (n+1/3)p+1/3 itself.
	values := make([]float64, 10)
	for i := range values {
		values[i] = float64(i + 1)
	}
	c := Describe(values, 0)
	near(t, "p10", c.P10, (10+1.0/3)*0.1+1.0/3)
	near(t, "p25", c.P25, (10+1.0/3)*0.25+1.0/3)
	near(t, "p75", c.P75, (10+1.0/3)*0.75+1.0/3)
	near(t, "p90", c.P90, (10+1.0/3)*0.9+1.0/3)
	if c.Drift == nil || c.Drift.Rho != 1 || !c.Drift.Warn || c.Drift.P <= 0 {
		t.Errorf("drift of values that only grow: %+v", c.Drift)
	}
	if c := Describe(values[:9], 0); c.P10 != nil || c.P90 != nil {
		t.Error("no percentiles of 9 trials")
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	c := Describe([]float64{1, 2, 3, 4, 5, 6, 7}, 0)
	if c.Drift == nil || c.Drift.Warn {
		t.Errorf("7 trials are too few to warn: %+v", c.Drift)
	}
	if c := Describe([]float64{5, 5, 5}, 0); c.Drift != nil {
		t.Errorf("equal values: %+v", c.Drift)
	}
}

func TestNotSamples(t *testing.T) {
	t.Parallel()
	c := Describe([]float64{math.NaN(), 10, 10.1, 10, 9.9, math.Inf(1), 10.05, 9.95, 90, -1}, 2)
	if c.N != 7 || c.Failed != 5 {
		t.Errorf("n %d, failed %d, want 7 and 5", c.N, c.Failed)
	}
	if len(c.Outliers) != 1 || c.Outliers[0] != 8 {
		t.Errorf("outliers %v, want the trial at 8", c.Outliers)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		values []float64
		want   string
	}{
		{"none", nil, "—"},
		{"few", []float64{59.4, 59.5, 59.3}, "59.4 too few"},
		{"stable", []float64{59.4, 59.5, 59.3, 59.4, 59.6}, "59.4"},
		{"zeros", []float64{0, 0, 0, 0, 0}, "0"},
		{"noisy", []float64{100, 102, 104, 106, 108}, "104 ~3.7 %"},
		{"unstable", []float64{16, 20, 25, 30, 34}, "16..34 unstable"},
		{"mostly zero", []float64{0, 0, 0, 0, 7}, "0..7 unstable"},
		{"bimodal", []float64{49.5, 65.2, 49.4, 65.1, 49.6, 65.3}, "49.5 (3) or 65.2 (3)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Describe(tt.values, 0).Text(short); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The words that an engineer put beside ranges of five runs: stable, almost
// stable, unstable.
func TestWordsOfRanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		low, high float64
		want      Word
	}{
		{16, 34, Unstable},
		{61, 66, Noisy},
		{65, 66, Stable},
	} {
		var values []float64
		for i := range 5 {
			values = append(values, tt.low+(tt.high-tt.low)*float64(i)/4)
		}
		if got := Describe(values, 0).Word; got != tt.want {
			t.Errorf("%v..%v: got %s, want %s", tt.low, tt.high, got, tt.want)
		}
	}
}
