package sample

import (
	"math"
	"slices"
)

// A Range is a confidence interval. Nil is without bound on that side.
type Range struct {
	Low   *float64 `json:"low" doc:"lower end, null if without bound"`
	High  *float64 `json:"high" doc:"upper end, null if without bound"`
	Level float64  `json:"level" doc:"chance that such an interval holds the true figure, between 0 and 1"`
}

// An Effect is B's value divided by A's, in one sense of value.
type Effect struct {
	Ratio    *float64 `json:"ratio" doc:"B divided by A; null if not defined or infinite"`
	Interval *Range   `json:"interval" doc:"interval of level 1-alpha, null if too few samples bound it"`
	Narrow   *Range   `json:"narrow_interval" doc:"interval of level 1-2 alpha, by which no difference is shown"`
}

// span is an interval of a logarithm; its ends may be infinite. The zero value
// is none.
type span struct {
	low, high float64
	ok        bool
}

func (s span) ratio(level float64) *Range {
	if !s.ok {
		return nil
	}
	return &Range{Low: finite(math.Exp(s.low)), High: finite(math.Exp(s.high)), Level: level}
}

// within reports whether all of the interval is at most limit away from 0.
func (s span) within(limit float64) bool {
	return s.ok && s.low >= -limit-hair && s.high <= limit+hair
}

// An estimate is the logarithm of a ratio with its intervals of the levels
// 1-alpha and 1-2alpha. The logarithm is infinite when one side is 0.
type estimate struct {
	ln           float64
	wide, narrow span
}

func (e estimate) effect(alpha float64) Effect {
	return Effect{finite(math.Exp(e.ln)), e.wide.ratio(1 - alpha), e.narrow.ratio(1 - 2*alpha)}
}

// hodgesLehmann estimates the typical ratio: the median of b/a over all pairs of
// values, with the interval that inverts the rank test (Hodges and Lehmann
// 1963), in logarithms. theta is the share of pairs in which b is larger, equal
// ones counted half.
func hodgesLehmann(a, b []float64, alpha float64) (e estimate, theta float64) {
	la, lb := logs(a), logs(b)
	d := make([]float64, 0, len(a)*len(b))
	for i, x := range la {
		for j, y := range lb {
			d = append(d, minus(y, x))
			switch {
			case b[j] > a[i]:
				theta++
			case b[j] == a[i]:
				theta += 0.5
			}
		}
	}
	slices.Sort(d)
	theta /= float64(len(d))
	k := uOrders(len(a), len(b), alpha/2, alpha)
	return estimate{middle(d), orderSpan(d, k[0]), orderSpan(d, k[1])}, theta
}

// orderSpan is from the k-th smallest to the k-th largest of sorted values; none
// if k is 0.
func orderSpan(sorted []float64, k int) span {
	if k < 1 || 2*k > len(sorted)+1 {
		return span{}
	}
	return span{sorted[k-1], sorted[len(sorted)-k], true}
}

// exactOrders is the size up to which orders come from the exact distribution.
const exactOrders = 50

// uOrders returns for each tail the largest k with P(U <= k-1) <= tail, where U
// is the statistic of Mann and Whitney 1947 of m and n values without ties; 0 if
// there's none. Above 50 values U is taken as normal.
func uOrders(m, n int, tails ...float64) []int {
	mean := float64(m*n) / 2
	if m > exactOrders || n > exactOrders {
		return normalOrders(mean, math.Sqrt(float64(m*n)*float64(m+n+1)/12), tails)
	}
	return cumulativeOrders(uDistribution(m, n), tails)
}

// uDistribution returns P(U = u) for u up to its middle. The largest of i+j
// values comes from the first i with chance i/(i+j), and is then larger than all
// j others: hence the recurrence, whose terms are all positive, so that nothing
// cancels.
func uDistribution(m, n int) []float64 {
	half := m * n / 2
	row := make([][]float64, n+1) // of i values against j, for j up to n
	for j := range row {
		row[j] = []float64{1}
	}
	for i := 1; i <= m; i++ {
		next := make([][]float64, n+1)
		next[0] = []float64{1}
		for j := 1; j <= n; j++ {
			p := make([]float64, min(i*j, half)+1)
			share := float64(i) / float64(i+j)
			for u, v := range row[j] {
				if u+j < len(p) {
					p[u+j] = share * v
				}
			}
			for u, v := range next[j-1] {
				p[u] += (1 - share) * v
			}
			next[j] = p
		}
		row = next
	}
	return row[n]
}

// signedRankOrders is uOrders for the signed-rank statistic of Wilcoxon 1945 of
// n differences.
func signedRankOrders(n int, tails ...float64) []int {
	most := n * (n + 1) / 2
	if n > exactOrders {
		return normalOrders(float64(most)/2, math.Sqrt(float64(most)*float64(2*n+1)/12), tails)
	}
	p := make([]float64, most+1)
	p[0] = 1
	for rank := 1; rank <= n; rank++ {
		for w := most; w >= 0; w-- {
			p[w] /= 2
			if w >= rank {
				p[w] += p[w-rank] / 2
			}
		}
	}
	return cumulativeOrders(p[:most/2+1], tails)
}

func normalOrders(mean, sd float64, tails []float64) []int {
	k := make([]int, len(tails))
	for i, tail := range tails {
		k[i] = max(0, int(math.Floor(mean-normalQuantile(1-tail)*sd+0.5)))
	}
	return k
}

func cumulativeOrders(p, tails []float64) []int {
	k := make([]int, len(tails))
	for i, tail := range tails {
		below := 0.0
		for _, v := range p {
			if below += v; below > tail+hair {
				break
			}
			k[i]++
		}
	}
	return k
}

// meanRatio estimates the ratio of the arithmetic means. Its logarithm's
// variance is about the sum of the two means' squared relative errors, and its
// interval is Student's with the degrees of freedom of Welch 1947. No interval
// if a side has fewer than two values or the mean of A is 0; if only that of B
// is, nothing bounds the ratio above.
func meanRatio(a, b []float64, alpha float64) estimate {
	meanA, sdA := moments(a)
	meanB, sdB := moments(b)
	e := estimate{ln: minus(math.Log(meanB), math.Log(meanA))}
	if len(a) < 2 || len(b) < 2 || meanA == 0 {
		return e
	}
	if meanB == 0 {
		e.wide = span{math.Inf(-1), math.Inf(1), true}
		e.narrow = e.wide
		return e
	}
	nA, nB := float64(len(a)), float64(len(b))
	vA, vB := (sdA/meanA)*(sdA/meanA)/nA, (sdB/meanB)*(sdB/meanB)/nB
	e.around(math.Sqrt(vA+vB), (vA+vB)*(vA+vB)/(vA*vA/(nA-1)+vB*vB/(nB-1)), alpha)
	return e
}

// around sets intervals that reach from ln by Student's quantile times se to
// both sides.
func (e *estimate) around(se, df, alpha float64) {
	reach := func(tail float64) span {
		if se == 0 || math.IsNaN(df) {
			return span{e.ln, e.ln, true} // values without spread
		}
		h := tQuantile(1-tail, df) * se
		return span{e.ln - h, e.ln + h, true}
	}
	e.wide, e.narrow = reach(alpha/2), reach(alpha)
}
