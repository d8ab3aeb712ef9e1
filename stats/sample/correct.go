package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Correction raises p-values for being many. It returns them in the order
// given.
type Correction func(p []float64) []float64

// BenjaminiHochberg corrects so that of the cells called different at alpha, a
// share of alpha at most is wrongly so on average (Benjamini and Hochberg 1995).
func BenjaminiHochberg(p []float64) []float64 {
	corrected := make([]float64, len(p))
	order := ascending(p)
	lowest := 1.0
	for k, i := range slices.Backward(order) {
		lowest = min(lowest, p[i]*float64(len(p))/float64(k+1))
		corrected[i] = lowest
	}
	return corrected
}

// Holm corrects so that the chance of calling even one cell wrongly different is
// alpha at most (Holm 1979).
func Holm(p []float64) []float64 {
	corrected := make([]float64, len(p))
	highest := 0.0
	for k, i := range ascending(p) {
		highest = max(highest, min(1, p[i]*float64(len(p)-k)))
		corrected[i] = highest
	}
	return corrected
}

// ascending returns the places of p from the smallest value on.
func ascending(p []float64) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	return order
}

// FewestPerSide is how many trials per side a plan needs for one changed cell
// among cells to be found at alpha: the smallest p, two in the number of ways to
// divide the trials, must survive the correction. At least 4.
func FewestPerSide(cells int, alpha float64) int {
	n := 4
	for 2/choose(2*n, n) > alpha/float64(max(cells, 1)) {
		n++
	}
	return n
}

// JudgeAll judges the comparisons of one metric in all cells of a sweep, with
// their p-values corrected.
func JudgeAll(cells []*Comparison, correct Correction) {
	p := make([]float64, len(cells))
	for i, c := range cells {
		p[i] = c.P
	}
	for i, corrected := range correct(p) {
		cells[i].Judge(corrected, len(cells))
	}
}

// A Summary counts the verdicts of a sweep.
type Summary struct {
	Cells        int      `json:"cells" doc:"cells compared"`
	Regression   int      `json:"regression" doc:"cells that got worse"`
	Improvement  int      `json:"improvement" doc:"cells that got better"`
	NoDifference int      `json:"no_difference" doc:"cells shown to differ by less than the threshold"`
	Inconclusive int      `json:"inconclusive" doc:"cells of which neither is shown"`
	GeomeanRatio *float64 `json:"geomean_ratio" doc:"geometric mean of the mean ratios, of the cells that have one; not tested"`
}

// Summarise counts the verdicts of judged comparisons.
func Summarise(cells []*Comparison) Summary {
	s := Summary{Cells: len(cells)}
	var ln []float64
	for _, c := range cells {
		switch c.Verdict {
		case Regression:
			s.Regression++
		case Improvement:
			s.Improvement++
		case NoDifference:
			s.NoDifference++
		case Inconclusive:
			s.Inconclusive++
		}
		if r := c.Mean.Ratio; r != nil && *r > 0 {
			ln = append(ln, math.Log(*r))
		}
	}
	if len(ln) > 0 {
		s.GeomeanRatio = finite(math.Exp(sum(ln) / float64(len(ln))))
	}
	return s
}

// String is the summary in one line.
func (s Summary) String() string {
	line := fmt.Sprintf("%d cells: %d regression, %d improvement, %d no difference, %d inconclusive",
		s.Cells, s.Regression, s.Improvement, s.NoDifference, s.Inconclusive)
	if s.GeomeanRatio != nil {
		line += fmt.Sprintf("; geomean of mean ratios %.3f", *s.GeomeanRatio)
	}
	return line
}
