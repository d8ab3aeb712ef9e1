package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// skipSlow leaves out, under the race detector, what takes it a minute: nothing in
// this package runs concurrently.
func skipSlow(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("needs a build without the race detector, which makes it take a minute")
	}
}

// Of 400 comparisons of equal sides at most 32 may be called different: more
// would come by luck once in 250 times. The seed is fixed.
func TestEqualSides(t *testing.T) {
	t.Parallel()
	skipSlow(t)
	rng := rand.New(rand.NewPCG(10, 0))
	different := 0
	for range 400 {
		c := judged(Side{Values: normals(rng, 10, 100, 2)}, Side{Values: normals(rng, 10, 100, 2)}, Options{})
		if c.P <= 0.05 {
			different++
		}
	}
	t.Logf("%d of 400 at p <= 0.05", different)
	if different > 32 || different < 8 {
		t.Errorf("%d of 400 called different", different)
	}
}

// The same by rounds, on a machine that wanders.
func TestEqualSidesInRounds(t *testing.T) {
	t.Parallel()
	skipSlow(t)
	rng := rand.New(rand.NewPCG(11, 0))
	different, byRounds := 0, 0
	for range 400 {
		var a, b Side
		for r := range 10 {
			common := 100 + 3*rng.NormFloat64()
			a.Values, b.Values = append(a.Values, common+rng.NormFloat64()), append(b.Values, common+rng.NormFloat64())
			a.Rounds, b.Rounds = append(a.Rounds, r), append(b.Rounds, r)
		}
		c := judged(a, b, Options{})
		if c.Unit == UnitRound {
			byRounds++
		}
		if c.P <= 0.05 {
			different++
		}
	}
	if byRounds < 380 || different > 32 {
		t.Errorf("%d of 400 called different, %d compared by rounds", different, byRounds)
	}
}

// share is how many of 1000 cells have a word, in percent.
func share(rng *rand.Rand, n int, word Word, draw func() float64) float64 {
	found := 0
	for range 1000 {
		values := make([]float64, n)
		for i := range values {
			values[i] = draw()
		}
		if Describe(values, 0).Word == word {
			found++
		}
	}
	return float64(found) / 10
}

// How often cells of known kinds get their words.
func TestWords(t *testing.T) {
	t.Parallel()
	skipSlow(t)
	rng := rand.New(rand.NewPCG(12, 0))
	normal := func(cv float64) func() float64 {
		return func() float64 { return 100 * (1 + cv*rng.NormFloat64()) }
	}
	modes := func(low float64) func() float64 {
		return func() float64 {
			if rng.Float64() < low {
				return 49.5 + 0.1*rng.NormFloat64()
			}
			return 65.2 + 0.1*rng.NormFloat64()
		}
	}
	for _, tt := range []struct {
		name      string
		n         int
		word      Word
		draw      func() float64
		low, high float64 // percent
	}{
		{"normal", 8, Bimodal, normal(0.1), 0, 2},
		{"normal", 20, Bimodal, normal(0.1), 0, 2},
		{"uniform", 10, Bimodal, func() float64 { return 80 + 40*rng.Float64() }, 0, 2.5},
		{"exponential", 10, Bimodal, rng.ExpFloat64, 0, 2.5},
		{"Laplace", 15, Bimodal, func() float64 {
			return 100 + math.Copysign(5*rng.ExpFloat64(), rng.Float64()-0.5)
		}, 0, 2.5},
		{"two modes, half and half", 7, Bimodal, modes(0.5), 82, 92},
		{"two modes, half and half", 10, Bimodal, modes(0.5), 96, 100},
		{"two modes, 30 and 70 %", 10, Bimodal, modes(0.3), 80, 90},
		{"CV 1 %", 5, Stable, normal(0.01), 96, 100},
		{"CV 1 %", 7, Stable, normal(0.01), 98.5, 100},
		{"CV 3 %", 5, Noisy, normal(0.03), 66, 78},
		{"CV 3 %", 10, Noisy, normal(0.03), 83, 93},
		{"CV 8 %", 5, Unstable, normal(0.08), 76, 88},
		{"CV 8 %", 10, Unstable, normal(0.08), 88, 97},
	} {
		if got := share(rng, tt.n, tt.word, tt.draw); got < tt.low || got > tt.high {
			t.Errorf("%s, n %d: %.1f %% are %s, want %v to %v %%", tt.name, tt.n, got, tt.word, tt.low, tt.high)
		}
	}
}
