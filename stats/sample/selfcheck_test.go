package sample

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// run makes trials of two sides in ABBA order by what is done at each place.
func run(rounds int, value func(place, slot, side int) float64) (a, b Side) {
	sides := [2]*Side{&a, &b}
	for r, order := range ABBA(rounds, 3) {
		for slot, side := range order {
			s, place := sides[side], 2*r+slot
			s.Values = append(s.Values, value(place, slot, side))
			s.Rounds = append(s.Rounds, r)
			s.Starts = append(s.Starts, float64(10*place))
		}
	}
	return a, b
}

func TestCheckSelf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		value   func(rng *rand.Rand, place, slot, side int) float64
		passed  bool
		warning string // none if empty
	}{
		{"sound", func(rng *rand.Rand, _, _, _ int) float64 { return 100 + rng.NormFloat64() }, true, ""},
		{"drift", func(rng *rand.Rand, place, _, _ int) float64 { return 100 - float64(place)/5 + rng.NormFloat64() }, true, "drift"},
		{"slot", func(rng *rand.Rand, _, slot, _ int) float64 { return 100 + 3*float64(slot) + rng.NormFloat64() }, true, "second trial of a round"},
		{"side", func(rng *rand.Rand, _, _, side int) float64 { return 100 + 5*float64(side) + rng.NormFloat64() }, false, "called different: improvement"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(9, 0))
			a, b := run(16, func(place, slot, side int) float64 { return tt.value(rng, place, slot, side) })
			s := CheckSelf(a, b, Options{})
			if s.Passed != tt.passed || s.Drift == nil || s.Slot == nil || s.Slot.Rounds != 16 || s.Comparison.MDEPercent == nil {
				t.Errorf("got %+v", s)
			}
			if got := strings.Join(s.Warnings, "\n"); !strings.Contains(got, tt.warning) || (got == "") != (tt.warning == "") {
				t.Errorf("warnings %q, want %q", got, tt.warning)
			}
		})
	}
	if s := CheckSelf(Side{}, Side{}, Options{}); !s.Passed || s.Drift != nil || s.Slot != nil {
		t.Errorf("no trials: %+v", s)
	}
}

func TestLuckOfChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		failed, checks int
		want           float64
	}{{0, 20, 1}, {3, 20, 0.0755}, {4, 20, 0.0159}, {33, 400, 0.004}} {
		if got := LuckOfChecks(tt.failed, tt.checks, 0.05); math.Abs(got-tt.want) > 5e-4 {
			t.Errorf("%d of %d: got %v, want %v", tt.failed, tt.checks, got, tt.want)
		}
	}
}
