package sample

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// hair is what two figures may differ by and still count as equal: more than
// rounding can add up to, and less than any difference that means something.
const hair = 1e-12

// usable reports whether v can be the value of a trial.
func usable(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// finite returns v for JSON: nil when it's infinite or not a number.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// percent is finite of a share.
func percent(share float64) *float64 { return finite(100 * share) }

// normalised returns values divided by the power of two that brings the largest
// to between a half and one, and its exponent. This is exact, and afterwards no
// sum and no square overflows.
func normalised(values ...float64) (scaled []float64, exp int) {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	_, exp = math.Frexp(largest)
	scaled = make([]float64, len(values))
	for i, v := range values {
		scaled[i] = math.Ldexp(v, -exp)
	}
	return scaled, exp
}

// moments returns the arithmetic mean and the standard deviation with n-1; NaN
// where one isn't defined. It goes over the values twice, since sums of squares
// lose a small spread on a large mean.
func moments(values []float64) (mean, sd float64) {
	n := float64(len(values))
	if n > 0 && slices.Min(values) == slices.Max(values) {
		if n > 1 {
			return values[0], 0 // the sum of equal values needn't be exact
		}
		return values[0], math.NaN()
	}
	scaled, exp := normalised(values...)
	mean = sum(scaled) / n
	var squares float64
	for _, v := range scaled {
		squares += (v - mean) * (v - mean)
	}
	return math.Ldexp(mean, exp), math.Ldexp(math.Sqrt(squares/(n-1)), exp)
}

func sum(values []float64) float64 {
	var s float64
	for _, v := range values {
		s += v
	}
	return s
}

// logs returns the natural logarithms; that of 0 is minus infinity.
func logs(values []float64) []float64 {
	l := make([]float64, len(values))
	for i, v := range values {
		l[i] = math.Log(v)
	}
	return l
}

// minus is a-b for logarithms, where 0 against 0 is no difference.
func minus(a, b float64) float64 {
	if a == b {
		return 0
	}
	return a - b
}

// middle returns the median of sorted values, NaN without any. Between minus
// and plus infinity it's 0: as many quotients are nought as are without bound.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	low, high := sorted[(n-1)/2], sorted[n/2]
	switch {
	case low == high:
		return low
	case math.IsInf(low, -1) && math.IsInf(high, 1):
		return 0
	}
	return low/2 + high/2
}

// distances returns the n(n-1)/2 distances between values, sorted.
func distances(values []float64) []float64 {
	d := make([]float64, 0, len(values)*(len(values)-1)/2)
	for i, x := range values {
		for _, y := range values[:i] {
			d = append(d, math.Abs(minus(x, y)))
		}
	}
	slices.Sort(d)
	return d
}

// robustSD estimates the standard deviation by the median distance between two
// values, which up to 29 % of stray values can't carry away (Rousseeuw and
// Croux 1993 discuss such estimators). 1.0483 makes it that of normal data, and
// n/(n+1/2) makes up for few values. NaN with fewer than two.
func robustSD(values []float64) float64 {
	n := float64(len(values))
	return 1.0483 * n / (n + 0.5) * middle(distances(values))
}

// doubledRanks returns twice the rank of each value among all, counted from 1.
// Equal values share the mean of their ranks: doubled, it's always whole.
func doubledRanks(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case values[i] < values[j]:
			return -1
		case values[i] > values[j]:
			return 1
		}
		return 0
	})
	ranks := make([]int, len(values))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = i + 1 + j
		}
		i = j
	}
	return ranks
}

// centredRanks returns the ranks less their mean, divided by their number, so
// that the ranks of sets of different sizes can be pooled.
func centredRanks(values []float64) []float64 {
	n := float64(len(values))
	c := make([]float64, len(values))
	for i, r := range doubledRanks(values) {
		c[i] = (float64(r) - (n + 1)) / 2 / n
	}
	return c
}

// correlation is Pearson's, of values whose means are 0; NaN when one of the two
// doesn't vary.
func correlation(x, y []float64) float64 {
	var xx, yy, xy float64
	for i := range x {
		xx += x[i] * x[i]
		yy += y[i] * y[i]
		xy += x[i] * y[i]
	}
	if xx == 0 || yy == 0 {
		return math.NaN()
	}
	return min(max(xy/math.Sqrt(xx*yy), -1), 1)
}

// correlationP is the chance of a correlation as far from 0 as rho where there
// is none, by Student's t with df degrees of freedom.
func correlationP(rho, df float64) float64 {
	if df <= 0 {
		return 1
	}
	if rho*rho >= 1 {
		return 0
	}
	t := math.Abs(rho) * math.Sqrt(df/(1-rho*rho))
	return min(1, 2*distuv.StudentsT{Sigma: 1, Nu: df}.Survival(t))
}

// tQuantile and normalQuantile are the values below which the share p lies.
func tQuantile(p, df float64) float64 { return distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(p) }
func normalQuantile(p float64) float64 {
	return distuv.UnitNormal.Quantile(p)
}

// choose returns n over k; it's exact up to 2^53, and may be infinite.
func choose(n, k int) float64 {
	k = min(k, n-k)
	c := 1.0
	for i := 1; i <= k; i++ {
		c = c * float64(n-k+i) / float64(i)
	}
	if c < 1<<53 {
		return math.Round(c)
	}
	return c
}
