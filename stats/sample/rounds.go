package sample

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	fewestRounds = 6  // for analysis by rounds
	fewestBoots  = 4  // per side, for boots as samples
	exactRounds  = 17 // up to which all signs are tried
)

// A pair is the two trials of one round.
type pair struct{ a, b float64 }

// completeRounds returns the rounds with exactly one trial of each side, in
// their order.
func completeRounds(a, b Side) []pair {
	if a.Rounds == nil || b.Rounds == nil {
		return nil
	}
	byRound := func(s Side) map[int][]float64 {
		m := map[int][]float64{}
		for i, r := range s.Rounds {
			m[r] = append(m[r], s.Values[i])
		}
		return m
	}
	ofA, ofB := byRound(a), byRound(b)
	var pairs []pair
	for _, r := range slices.Sorted(maps.Keys(ofA)) {
		if len(ofA[r]) == 1 && len(ofB[r]) == 1 {
			pairs = append(pairs, pair{ofA[r][0], ofB[r][0]})
		}
	}
	return pairs
}

func allPositive(pairs []pair) bool {
	return !slices.ContainsFunc(pairs, func(p pair) bool { return p.a <= 0 || p.b <= 0 })
}

func unzip(pairs []pair) (a, b []float64) {
	for _, p := range pairs {
		a, b = append(a, p.a), append(b, p.b)
	}
	return a, b
}

// agreement is the intraclass correlation of the rounds, (MSB-MSW)/(MSB+MSW)
// from the mean squares between and within them (Shrout and Fleiss 1979, the
// one-way form): 1 if the trials of each round are equal, about 0 if rounds mean
// nothing. NaN if it isn't defined.
func agreement(pairs []pair) float64 {
	r := float64(len(pairs))
	if r < 2 {
		return math.NaN()
	}
	a, b := unzip(pairs)
	all, _ := normalised(slices.Concat(a, b)...)
	grand := sum(all) / (2 * r)
	var between, within float64
	for k := range pairs {
		a, b := all[k], all[k+len(pairs)]
		m := (a+b)/2 - grand
		between += 2 * m * m / (r - 1)
		within += (a - b) * (a - b) / (2 * r)
	}
	if between+within < 1e-24 { // of values that are at most 1
		return math.NaN()
	}
	return (between - within) / (between + within)
}

// compareRounds compares a with b round by round: the typical ratio is the
// median of the means of all pairs of the rounds' logarithms (Walsh averages,
// Hodges and Lehmann 1963), p that of signFlipTest. All values are positive.
func (c *Comparison) compareRounds(pairs []pair) {
	c.a, c.b = unzip(pairs)
	r := float64(len(pairs))
	d := logRatios(pairs)
	walsh := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i, x := range d {
		for _, y := range d[:i+1] {
			walsh = append(walsh, x/2+y/2)
		}
	}
	slices.Sort(walsh)
	k := signedRankOrders(len(d), c.o.Alpha/2, c.o.Alpha)
	c.typical = estimate{middle(walsh), orderSpan(walsh, k[0]), orderSpan(walsh, k[1])}

	meanA, _ := moments(c.a)
	meanB, _ := moments(c.b)
	relative := make([]float64, len(pairs))
	for i, p := range pairs {
		relative[i] = p.b/meanB - p.a/meanA
		switch {
		case p.b > p.a:
			c.theta += 1 / r
		case p.b == p.a:
			c.theta += 0.5 / r
		}
	}
	_, sd := moments(relative)
	c.mean.ln = minus(math.Log(meanB), math.Log(meanA))
	c.mean.around(sd/math.Sqrt(r), r-1, c.o.Alpha)
	c.variance = sd * sd
	c.smallestP = math.Pow(2, 1-r)
	c.setP(signFlipTest(d))
	c.publish()
}

func logRatios(pairs []pair) []float64 {
	d := make([]float64, len(pairs))
	for i, p := range pairs {
		d[i] = minus(math.Log(p.b), math.Log(p.a))
	}
	return d
}

// signFlipTest is permutationTest for differences inside rounds: if the sides
// were alike, each difference would be as likely with the other sign. R is the
// size of the sum of the signed ranks (Wilcoxon 1945, differences of 0 left
// out), T that of the sum of the differences, which must be finite.
func signFlipTest(d []float64) pValues {
	size := make([]float64, len(d))
	var largest float64
	for i, v := range d {
		size[i] = math.Abs(v)
		largest = max(largest, size[i])
	}
	if largest < hair {
		return luck
	}
	// Differences that are equal on paper are to have the same rank, and those
	// that are none, none.
	rounded, zeros := make([]float64, len(d)), 0
	for i := range size {
		size[i] /= largest
		if rounded[i] = roundStatistic(size[i]); rounded[i] == 0 {
			size[i] = 0
			zeros++
		}
	}
	flips := &signFlips{sizes: size, ranks: doubledRanks(rounded)}
	for i, v := range rounded {
		if flips.ranks[i] -= 2 * zeros; v == 0 {
			flips.ranks[i] = 0
		}
	}
	seen := make([]bool, len(d))
	for i, v := range d {
		seen[i] = (v < 0) != (d[0] < 0) // both signs of everything are alike
	}
	if len(d) <= exactRounds {
		flips.all(1, flips.ranks[0], size[0])
		r, t := flips.of(seen)
		return joint(flips.r, flips.t, r, t, true)
	}
	flips.add(seen)
	rng := rand.New(rand.NewPCG(1, 0))
	for signs := make([]bool, len(d)); len(flips.r) <= draws; flips.add(signs) {
		var bits uint64
		for i := range signs {
			if i%64 == 0 {
				bits = rng.Uint64()
			}
			signs[i] = bits&1 == 1
			bits >>= 1
		}
	}
	return joint(flips.r, flips.t, flips.r[0], flips.t[0], false)
}

// signFlips tries signs and collects R and T.
type signFlips struct {
	ranks []int
	sizes []float64
	r     []int
	t     []float64
}

// all goes through all signs from place i on; the first difference's is fixed,
// since R and T don't know one sign from the other.
func (f *signFlips) all(i, ranks int, sum float64) {
	if i == len(f.sizes) {
		f.r, f.t = append(f.r, abs(ranks)), append(f.t, roundStatistic(math.Abs(sum)))
		return
	}
	f.all(i+1, ranks+f.ranks[i], sum+f.sizes[i])
	f.all(i+1, ranks-f.ranks[i], sum-f.sizes[i])
}

func (f *signFlips) of(negative []bool) (r int, t float64) {
	for i, neg := range negative {
		if neg {
			r -= f.ranks[i]
			t -= f.sizes[i]
		} else {
			r += f.ranks[i]
			t += f.sizes[i]
		}
	}
	return abs(r), roundStatistic(math.Abs(t))
}

func (f *signFlips) add(negative []bool) {
	r, t := f.of(negative)
	f.r, f.t = append(f.r, r), append(f.t, t)
}

// bootMeans returns the mean of each boot's trials in the order of the boots;
// nil unless the boot of every trial is known.
func bootMeans(s Side) []float64 {
	if s.Boots == nil || slices.Contains(s.Boots, "") {
		return nil
	}
	var order []string
	values := map[string][]float64{}
	for i, boot := range s.Boots {
		if values[boot] == nil {
			order = append(order, boot)
		}
		values[boot] = append(values[boot], s.Values[i])
	}
	means := make([]float64, len(order))
	for i, boot := range order {
		means[i], _ = moments(values[boot])
	}
	return means
}

// noteBoots notes when the difference between the sides may be one between the
// boots that they happened to run in.
func (c *Comparison) noteBoots(a, b Side) {
	nA, nB := len(bootMeans(a)), len(bootMeans(b))
	if c.Unit == UnitBoot || nA == 0 || nB == 0 {
		return
	}
	if maps.Equal(bootSet(a), bootSet(b)) {
		return
	}
	c.boots = fmt.Sprintf("(%s: boot-to-boot difference not separated)", bootCount(nA, nB))
	c.Notes = append(c.Notes, c.boots)
}

func bootSet(s Side) map[string]bool {
	m := map[string]bool{}
	for _, boot := range s.Boots {
		m[boot] = true
	}
	return m
}

func bootCount(nA, nB int) string {
	switch {
	case nA != nB:
		return fmt.Sprintf("%d and %d boots", nA, nB)
	case nA == 1:
		return "1 boot per side"
	}
	return fmt.Sprintf("%d boots per side", nA)
}
