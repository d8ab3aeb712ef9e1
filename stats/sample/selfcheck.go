package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A SelfCheck is a comparison of a configuration with itself. It shows what the
// set-up can find, and whether it finds what isn't there.
type SelfCheck struct {
	Comparison *Comparison `json:"comparison" doc:"the two sides compared; its mean interval is the noise floor"`
	Passed     bool        `json:"passed" doc:"the verdict is neither regression nor improvement; one check in 20 fails by luck"`
	Drift      *Drift      `json:"drift" doc:"of all trials in the order of their start; null if that's unknown"`
	Slot       *Slot       `json:"slot" doc:"whether the first trial of a round differs from the second; null with fewer than 6 rounds"`
	Warnings   []string    `json:"warnings" doc:"what makes the set-up unsound, a sentence each"`
}

// Slot compares the first trial of each round with the second.
type Slot struct {
	Rounds int      `json:"rounds" doc:"rounds of two trials"`
	Ratio  *float64 `json:"ratio" doc:"second trial divided by the first, geometric mean"`
	P      float64  `json:"p" doc:"chance of such a difference if the place didn't matter (sign flips)"`
	Warn   bool     `json:"warn" doc:"p is at most 0.01"`
}

// CheckSelf compares two sides that are the same configuration, run and analysed
// like any other two.
func CheckSelf(a, b Side, o Options) *SelfCheck {
	c := Measure(a, b, o)
	c.Judge(c.P, 1)
	s := &SelfCheck{
		Comparison: c, Warnings: []string{},
		Passed: c.Verdict != Regression && c.Verdict != Improvement,
	}
	if !s.Passed {
		s.warn("the same configuration was called different: %s", c.Verdict)
	}
	a, b = a.usable(), b.usable()
	if a.Starts != nil && b.Starts != nil {
		s.Drift = drift(inOrder(a, b))
		s.Slot = slot(a, b)
	}
	if s.Drift != nil && s.Drift.Warn {
		s.warn("the values drift in the order of the trials (rank correlation %.2f)", s.Drift.Rho)
	}
	if s.Slot != nil && s.Slot.Warn {
		s.warn("the second trial of a round differs from the first (p %.2g)", s.Slot.P)
	}
	return s
}

func (s *SelfCheck) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// inOrder returns the values of both sides in the order of their starts.
func inOrder(a, b Side) []float64 {
	values, starts := slices.Concat(a.Values, b.Values), slices.Concat(a.Starts, b.Starts)
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(starts[i], starts[j]) })
	sorted := make([]float64, len(values))
	for i, k := range order {
		sorted[i] = values[k]
	}
	return sorted
}

// slot needs six rounds of positive values, since a quotient with 0 has no size.
func slot(a, b Side) *Slot {
	values := completeRounds(a, b)
	started := completeRounds(
		Side{Values: a.Starts, Rounds: a.Rounds},
		Side{Values: b.Starts, Rounds: b.Rounds})
	if len(values) < fewestRounds || !allPositive(values) {
		return nil
	}
	d := logRatios(values)
	for i, s := range started {
		if s.b < s.a { // b was first
			d[i] = -d[i]
		}
	}
	p := signFlipTest(d).p
	return &Slot{len(d), finite(math.Exp(sum(d) / float64(len(d)))), p, p <= 0.01}
}

// LuckOfChecks is the chance that as many of so many self-checks or more fail
// though the set-up is sound. Of 20 checks at 5 %, 4 failures have 1.6 %: more
// than luck.
func LuckOfChecks(failed, checks int, alpha float64) float64 {
	return binomialTail(failed, checks, alpha)
}
