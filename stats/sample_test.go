package stats

import (
	"math"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                           string
		values                         []float64
		mean, stddev, median, min, max float64
	}{
		{"two", []float64{3, 1}, 2, math.Sqrt2, 2, 1, 3},
		{"odd", []float64{5, 1, 3}, 3, 2, 3, 1, 5},
		// Sums of squares lose everything here.
		{"large mean", []float64{1e9, 1e9 + 1, 1e9 - 1}, 1e9, 1, 1e9, 1e9 - 1, 1e9 + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Describe(tt.values)
			for _, f := range []struct {
				name      string
				got, want float64
			}{{"mean", *s.Mean, tt.mean}, {"stddev", *s.Stddev, tt.stddev}, {"median", *s.Median, tt.median}, {"min", *s.Min, tt.min}, {"max", *s.Max, tt.max}} {
				if math.Abs(f.got-f.want) > 1e-9*math.Abs(f.want) {
					t.Errorf("%s: got %v, want %v", f.name, f.got, f.want)
				}
			}
		})
	}
}

func TestDescribeTooFew(t *testing.T) {
	t.Parallel()
	if s := Describe(nil); s.Mean != nil || s.Median != nil || s.HalfWidthPercent(0.95) != nil {
		t.Errorf("nothing is known of no values, got %+v", s)
	}
	if s := Describe([]float64{7}); s.Stddev != nil || s.HalfWidthPercent(0.95) != nil {
		t.Errorf("one value has no spread, got %+v", s)
	}
}

// The values of t are those of printed tables.
func TestHalfWidthPercent(t *testing.T) {
	t.Parallel()
	s := Describe([]float64{9, 10, 11}) // stddev 1
	for _, tt := range []struct{ level, t float64 }{{0.95, 4.303}, {0.99, 9.925}} {
		want := 100 * tt.t / math.Sqrt(3) / 10
		if got := *s.HalfWidthPercent(tt.level); math.Abs(got-want) > 0.01 {
			t.Errorf("level %v: got %.3f %%, want %.3f %%", tt.level, got, want)
		}
	}
	zero := Describe([]float64{-1, 1})
	if got := zero.HalfWidthPercent(0.95); got != nil {
		t.Errorf("no share of a mean of 0, got %v", *got)
	}
}

// The ranks and levels are those of printed tables of the sign test.
func TestMedianInterval(t *testing.T) {
	t.Parallel()
	if got := MedianInterval([]float64{7}); got != nil {
		t.Errorf("one value has no interval, got %+v", got)
	}
	for _, tt := range []struct {
		n, k  int
		level float64
	}{
		{2, 1, 0.5},
		{5, 1, 0.9375},
		{6, 1, 0.96875},
		{7, 1, 0.984375},
		{9, 2, 0.9609375},
		{10, 2, 0.978516},
		{20, 6, 0.958611},
		{50, 18, 0.967161},
	} {
		values := make([]float64, tt.n) // tt.n..1
		for i := range values {
			values[i] = float64(tt.n - i)
		}
		got := MedianInterval(values)
		if got.Low != float64(tt.k) || got.High != float64(tt.n+1-tt.k) || math.Abs(got.Level-tt.level) > 1e-6 {
			t.Errorf("n %d: got %+v, want %d..%d at %v", tt.n, *got, tt.k, tt.n+1-tt.k, tt.level)
		}
	}
}
