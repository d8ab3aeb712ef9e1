package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// most is how many relabellings are all tried; of more, draws random ones are.
const (
	most  = 200_000
	draws = 100_000
)

// pValues are the chances of what was seen if both sides were alike.
type pValues struct {
	p, rank, mean float64
	exact         bool // over all relabellings, not over random ones
}

// luck is certain of nothing.
var luck = pValues{1, 1, 1, true}

// permutationTest compares two sets by relabelling (Fisher 1935, Pitman 1937):
// if the sides were alike, every way to divide the pooled values into sets of
// these sizes would be as likely as the one that was seen. Two statistics are
// looked at: R, how far the rank sum is from its mean (Wilcoxon 1945), which
// sees changes of most values; and T, the size of t (Welch 1947), which sees
// changes of a few. Each gives a p-value; p is that of the smaller of the two,
// found by the same relabelling, so that looking twice costs nothing.
//
// p is 1 if a side has fewer than two values or all are equal.
func permutationTest(a, b []float64) pValues {
	if len(a) < 2 || len(b) < 2 {
		return luck
	}
	// Only the smaller side is chosen, from sorted values. So p doesn't depend on
	// which side is called A, and equal values are added in the same order, which
	// gives equal sums.
	if len(a) > len(b) {
		a, b = b, a
	}
	pool := slices.Concat(a, b)
	order := make([]int, len(pool))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(pool[i], pool[j]) })
	var seen []int // places of a in the sorted pool
	sorted := make([]float64, len(pool))
	for place, i := range order {
		sorted[place] = pool[i]
		if i < len(a) {
			seen = append(seen, place)
		}
	}
	if sorted[0] == sorted[len(sorted)-1] {
		return luck
	}
	s := newSplits(sorted, len(a))
	count := choose(len(pool), len(a))
	if count > most {
		s.random(seen)
		r, t := s.r[0], s.t[0] // of the split that was seen
		return joint(s.r, s.t, r, t, false)
	}
	// With sides of equal size every split and its mirror image have the same
	// statistics. It's enough to try those with the first value on side A. That
	// they are equal to the last bit is no small gain: variances may be tiny.
	if len(a) == len(b) {
		count /= 2
		if seen[0] != 0 {
			seen = complement(seen, len(pool))
		}
	}
	s.r, s.t = make([]int, 0, int(count)), make([]float64, 0, int(count))
	if len(a) == len(b) {
		s.all(1, len(a)-1, s.values[0], s.squares[0], s.ranks[0])
	} else {
		s.all(0, len(a), 0, 0, 0)
	}
	r, t := s.of(seen)
	return joint(s.r, s.t, r, t, true)
}

func complement(places []int, n int) []int {
	var rest []int
	for i := range n {
		if _, in := slices.BinarySearch(places, i); !in {
			rest = append(rest, i)
		}
	}
	return rest
}

// splits tries ways to choose n of the pooled values and collects R and T.
type splits struct {
	n                int
	values, squares  []float64 // standardised
	ranks            []int     // twice the rank, less its mean
	total, totalSq   float64
	nA, nB, dfA, dfB float64
	r                []int
	t                []float64
}

// newSplits expects sorted values that aren't all equal.
func newSplits(sorted []float64, n int) *splits {
	scaled, _ := normalised(sorted...)
	mean, sd := moments(scaled)
	s := &splits{
		n: n, ranks: doubledRanks(sorted),
		values: make([]float64, len(sorted)), squares: make([]float64, len(sorted)),
		nA: float64(n), nB: float64(len(sorted) - n),
	}
	s.dfA, s.dfB = s.nA-1, s.nB-1
	for i, v := range scaled {
		if sd > 0 {
			s.values[i] = (v - mean) / sd
		}
		s.squares[i] = s.values[i] * s.values[i]
		s.ranks[i] -= len(sorted) + 1
	}
	s.total, s.totalSq = sum(s.values), sum(s.squares)
	return s
}

// all goes through every choice of left more values from start on; the sums are
// those of what was chosen already, so that the last level costs one addition a
// choice.
func (s *splits) all(start, left int, sum, squares float64, ranks int) {
	if left == 1 {
		for i := start; i < len(s.values); i++ {
			s.r = append(s.r, abs(ranks+s.ranks[i]))
			s.t = append(s.t, s.welch(sum+s.values[i], squares+s.squares[i]))
		}
		return
	}
	for i := start; i <= len(s.values)-left; i++ {
		s.all(i+1, left-1, sum+s.values[i], squares+s.squares[i], ranks+s.ranks[i])
	}
}

// of adds in the same order as all, hence to the same bits.
func (s *splits) of(places []int) (r int, t float64) {
	var sum, squares float64
	var ranks int
	for _, i := range places {
		sum += s.values[i]
		squares += s.squares[i]
		ranks += s.ranks[i]
	}
	return abs(ranks), s.welch(sum, squares)
}

// random collects the split that was seen, then random ones: the beginning of a
// shuffle each. The seed is fixed, so that the same trials give the same p.
func (s *splits) random(seen []int) {
	s.r, s.t = make([]int, 0, draws+1), make([]float64, 0, draws+1)
	places := make([]int, len(s.values))
	for i := range places {
		places[i] = i
	}
	chosen, rng := seen, rand.New(rand.NewPCG(1, 0))
	for {
		r, t := s.of(chosen)
		s.r, s.t = append(s.r, r), append(s.t, t)
		if len(s.r) > draws {
			return
		}
		for i := range s.n {
			j := i + rng.IntN(len(places)-i)
			places[i], places[j] = places[j], places[i]
		}
		chosen = places[:s.n]
	}
}

// welch returns |t| from the sum and the sum of squares of one side. It's
// rounded, for splits that are equal on paper to be equal here. No product is
// added to anything: a processor that fuses the two would round differently from
// place to place.
func (s *splits) welch(sum, squares float64) float64 {
	sumB, squaresB := s.total-sum, s.totalSq-squares
	vA := (squares - sum*sum/s.nA) / s.dfA
	vB := (squaresB - sumB*sumB/s.nB) / s.dfB
	if vA < 1e-12 {
		vA = 0
	}
	if vB < 1e-12 {
		vB = 0
	}
	diff := math.Abs(sum/s.nA - sumB/s.nB)
	if vA == 0 && vB == 0 {
		if diff < 1e-9 {
			return 0
		}
		return math.Inf(1)
	}
	return roundStatistic(diff / math.Sqrt(vA/s.nA+vB/s.nB))
}

func roundStatistic(t float64) float64 { return math.Round(t*1e9) / 1e9 }

func abs(i int) int { return max(i, -i) }

// joint makes p-values of the statistics of all relabellings and of the one that
// was seen, which is among them. A relabelling's smaller p-value is at most that
// seen if either of its statistics is one that so few reach: it's enough to know
// from where on.
func joint(rs []int, ts []float64, r int, t float64, exact bool) pValues {
	rank, mean := atLeast(rs, r), atLeast(ts, t)
	few := min(rank, mean)
	fromR, anyR := reachedBy(rs, few)
	fromT, anyT := reachedBy(ts, few)
	both := 0
	for i := range rs {
		if anyR && rs[i] >= fromR || anyT && ts[i] >= fromT {
			both++
		}
	}
	n := float64(len(rs))
	return pValues{float64(both) / n, float64(rank) / n, float64(mean) / n, exact}
}

func atLeast[T cmp.Ordered](values []T, limit T) int {
	n := 0
	for _, v := range values {
		if v >= limit {
			n++
		}
	}
	return n
}

// reachedBy returns the smallest of values that at most few of them reach. ok is
// false if more than few are as large as the largest.
func reachedBy[T cmp.Ordered](values []T, few int) (limit T, ok bool) {
	limit = nthLargest(slices.Clone(values), few)
	if atLeast(values, limit) <= few {
		return limit, true
	}
	var next T
	for _, v := range values {
		if v > limit && (!ok || v < next) {
			next, ok = v, true
		}
	}
	return next, ok
}

// nthLargest returns what would be at place n, from 1, of values in descending
// order, which it rearranges: quickselect (Hoare 1961), with equal values set
// apart, as ranks have many.
func nthLargest[T cmp.Ordered](values []T, n int) T {
	for {
		first, mid, last := values[0], values[len(values)/2], values[len(values)-1]
		pivot := max(min(first, mid), min(max(first, mid), last))
		larger, i, smaller := 0, 0, len(values) // values[larger:i] equal pivot
		for i < smaller {
			switch v := values[i]; {
			case v > pivot:
				values[i], values[larger] = values[larger], v
				larger++
				i++
			case v < pivot:
				smaller--
				values[i], values[smaller] = values[smaller], v
			default:
				i++
			}
		}
		switch {
		case n <= larger:
			values = values[:larger]
		case n <= smaller:
			return pivot
		default:
			values = values[smaller:]
			n -= smaller
		}
	}
}
