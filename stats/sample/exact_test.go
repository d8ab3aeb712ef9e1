package sample

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowTest is permutationTest as its definition reads: every split's
// statistics from its values, every split's p from all others.
func slowTest(a, b []float64) pValues {
	pool := slices.Concat(a, b)
	mean, sd := moments(pool)
	if len(a) < 2 || len(b) < 2 || sd == 0 {
		return luck
	}
	ranks := doubledRanks(pool)
	var rs, ts []float64
	seen := 0
	for set := range 1 << len(pool) {
		if bits.OnesCount(uint(set)) != len(a) {
			continue
		}
		if set == 1<<len(a)-1 {
			seen = len(rs)
		}
		var sides [2][]float64
		r := 0.0
		for i, v := range pool {
			if set>>i&1 == 1 {
				sides[0] = append(sides[0], (v-mean)/sd)
				r += float64(ranks[i]) / 2
			} else {
				sides[1] = append(sides[1], (v-mean)/sd)
			}
		}
		rs = append(rs, math.Abs(r-float64(len(a)*(len(pool)+1))/2))
		mA, sA := moments(sides[0])
		mB, sB := moments(sides[1])
		v := 0.0
		if sA*sA >= 1e-12 {
			v += sA * sA / float64(len(a))
		}
		if sB*sB >= 1e-12 {
			v += sB * sB / float64(len(b))
		}
		t := math.Abs(mA-mB) / math.Sqrt(v)
		if v == 0 && math.Abs(mA-mB) < 1e-9 {
			t = 0
		}
		ts = append(ts, roundStatistic(t))
	}
	share := func(all []float64, limit float64) float64 {
		return float64(atLeast(all, limit)) / float64(len(all))
	}
	smaller := make([]float64, len(rs))
	for i := range rs {
		smaller[i] = min(share(rs, rs[i]), share(ts, ts[i]))
	}
	p := 0.0
	for _, m := range smaller {
		if m <= smaller[seen]+1e-12 {
			p++
		}
	}
	return pValues{p / float64(len(rs)), share(rs, rs[seen]), share(ts, ts[seen]), true}
}

func samePs(a, b pValues) bool {
	return math.Abs(a.p-b.p) < 1e-9 && math.Abs(a.rank-b.rank) < 1e-9 && math.Abs(a.mean-b.mean) < 1e-9 && a.exact == b.exact
}

func TestPermutationTestBySlowOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Map(rapid.IntRange(0, 3), func(i int) float64 { return float64(i) }), // with ties
			rapid.Map(rapid.IntRange(0, 1000), func(i int) float64 { return 100 + float64(i)/97 }),
		)
		a := rapid.SliceOfN(value, 1, 5).Draw(t, "a")
		b := rapid.SliceOfN(value, 1, 5).Draw(t, "b")
		if got, want := permutationTest(a, b), slowTest(a, b); !samePs(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// Mann-Whitney tests in use go wrong on ties like these, and give 0 and 1.44.
func TestTies(t *testing.T) {
	t.Parallel()
	p := permutationTest([]float64{2, 1, 0}, []float64{0, 1, 0, 0, 0, 0})
	near(t, "rank p", &p.rank, 13.0/84) // counted by hand: 0.1548
	p = permutationTest([]float64{3, 1, 3, 3}, []float64{3, 3, 3, 3, 1})
	near(t, "rank p", &p.rank, 1)
}

// Random splits give about the p of all of them.
func TestRandomSplits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 0))
	a, b := normals(rng, 9, 100, 3), normals(rng, 9, 95, 3)
	all := permutationTest(a, b)
	sorted := slices.Sorted(slices.Values(slices.Concat(a, b)))
	var seen []int
	for _, v := range a {
		place, _ := slices.BinarySearch(sorted, v)
		seen = append(seen, place)
	}
	s := newSplits(sorted, len(a))
	s.random(seen)
	some := joint(s.r, s.t, s.r[0], s.t[0], false)
	for _, p := range [][2]float64{{some.p, all.p}, {some.rank, all.rank}, {some.mean, all.mean}} {
		nearBy(t, "p", &p[0], p[1], 0.005)
	}
}

func normals(rng *rand.Rand, n int, mean, sd float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = mean + sd*rng.NormFloat64()
	}
	return values
}

func TestNthLargest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 60).Draw(t, "values")
		n := rapid.IntRange(1, len(values)).Draw(t, "n")
		sorted := slices.Sorted(slices.Values(values))
		if got, want := nthLargest(slices.Clone(values), n), sorted[len(sorted)-n]; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	})
}

// signFlipTest against its definition.
func TestSignFlipTestBySlowOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Map(rapid.IntRange(-5, 5), func(i int) float64 { return float64(i) / 64 }), 1, 7).Draw(t, "d")
		size := make([]float64, len(d))
		nonzero := []float64{}
		for i, v := range d {
			size[i] = math.Abs(v)
			if v != 0 {
				nonzero = append(nonzero, size[i])
			}
		}
		rank := func(v float64) float64 { // among those that aren't 0
			if v == 0 {
				return 0
			}
			return float64(doubledRanks(nonzero)[slices.Index(nonzero, v)])
		}
		var rs, ts []float64
		seen := 0
		for set := range 1 << len(d) {
			var r, sum float64
			same := true
			for i := range d {
				s := 1.0
				if set>>i&1 == 1 {
					s = -1
				}
				same = same && s*size[i] == d[i]
				r += s * rank(size[i])
				sum += s * size[i]
			}
			if same {
				seen = len(rs)
			}
			rs, ts = append(rs, math.Abs(r)), append(ts, math.Abs(sum))
		}
		want := luck
		if len(nonzero) > 0 {
			n := float64(len(rs))
			smaller := func(i int) float64 { return float64(min(atLeast(rs, rs[i]), atLeast(ts, ts[i]))) }
			p := 0.0
			for i := range rs {
				if smaller(i) <= smaller(seen) {
					p++
				}
			}
			want = pValues{p / n, float64(atLeast(rs, rs[seen])) / n, float64(atLeast(ts, ts[seen])) / n, true}
		}
		if got := signFlipTest(d); !samePs(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// 24 cells of 10 and 10 trials.
func BenchmarkSweep(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		cells := make([]*Comparison, 24)
		for i := range cells {
			cells[i] = Measure(Side{Values: normals(rng, 10, 100, 2)}, Side{Values: normals(rng, 10, 98, 2)}, Options{})
		}
		JudgeAll(cells, BenjaminiHochberg)
	}
}

// One cell of 50 and 50 trials, by random splits.
func BenchmarkRandomSplits(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, y := normals(rng, 50, 100, 2), normals(rng, 50, 99, 2)
	for b.Loop() {
		Measure(Side{Values: x}, Side{Values: y}, Options{})
	}
}
