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
