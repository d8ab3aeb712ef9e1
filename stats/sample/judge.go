package sample

import (
	"fmt"
	"math"
	"strings"
)

// A Verdict is the answer to whether B differs from A.
type Verdict string

// The verdicts.
const (
	Regression   Verdict = "regression"
	Improvement  Verdict = "improvement"
	NoDifference Verdict = "no-difference" // shown to be smaller than the threshold
	Inconclusive Verdict = "inconclusive"
)

// A Reason says why a verdict is inconclusive.
type Reason string

// The reasons.
const (
	FailedTrials Reason = "failed-trials"   // more than 10 % of a side's
	NoTraffic    Reason = "all-trials-zero" // on both sides
	FewTrials    Reason = "few-trials"      // no difference whatever could be told from luck
	SizeOpen     Reason = "size-open"       // a change is real, but not shown to reach the threshold
	Disagreement Reason = "disagreement"    // typical and mean change are both real and opposite
	ShapeChange  Reason = "shape-change"    // the values' distribution changed, and that may be all
	NotShown     Reason = "not-shown"       // neither a change nor its absence
)

// MostNeeded is the largest number of trials that is worth planning; more is
// given as MostNeeded+1.
const MostNeeded = 1000

func (c *Comparison) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// Judge gives the verdict. correctedP is P corrected for all cells compared in
// one go, cells their number: P and 1 if there is but one.
func (c *Comparison) Judge(correctedP float64, cells int) {
	c.CorrectedP, c.Notes = finite(correctedP), c.Notes[:c.measured:c.measured]
	alpha := c.o.Alpha / float64(max(cells, 1)) // for plans: what a lone changed cell has to reach
	c.Verdict, c.Reason = c.verdict(correctedP)
	c.TrialsNeeded = nil
	switch c.Reason {
	case FewTrials, SizeOpen, Disagreement, ShapeChange, NotShown:
		c.TrialsNeeded = c.needed(alpha)
	}
	c.MDEPercent = c.detectable(alpha)
}

func (c *Comparison) verdict(p float64) (Verdict, Reason) {
	limit := math.Log1p(c.o.Threshold)
	for _, cell := range []Cell{c.A, c.B} {
		if 10*cell.Failed > cell.N+cell.Failed {
			return Inconclusive, FailedTrials
		}
	}
	switch {
	case len(c.a) == 0 || len(c.b) == 0:
		return Inconclusive, FewTrials
	case *c.A.Max == 0 && *c.B.Max == 0:
		return Inconclusive, NoTraffic
	case len(c.a) < 4 || len(c.b) < 4 || c.smallestP > c.o.Alpha:
		return Inconclusive, FewTrials
	case c.typical.narrow.within(limit) && c.mean.narrow.within(limit):
		if p <= c.o.Alpha {
			c.note("measurable but below the threshold")
		}
		return NoDifference, ""
	case p > c.o.Alpha:
		return Inconclusive, NotShown
	}
	typical := claim{c.RankP, c.typical.ln, sign(c.theta - 0.5)}
	mean := claim{c.MeanP, c.mean.ln, sign(c.mean.ln)}
	lead, other := typical, mean
	if mean.p < typical.p {
		lead, other = mean, typical
	}
	size := math.Abs(lead.ln)
	if lead.direction == other.direction {
		size = max(size, math.Abs(other.ln))
	}
	opposite := lead.direction*other.direction < 0
	switch {
	case size < limit-hair:
		return Inconclusive, SizeOpen
	case opposite && other.p <= c.o.Alpha:
		return Inconclusive, Disagreement
	case c.ShapeChanged && (c.MeanP > max(c.o.Alpha/2, c.smallestP) || mean.direction != lead.direction):
		return Inconclusive, ShapeChange
	}
	if opposite {
		c.note("signs differ: the typical and the mean value changed in opposite directions, so a few trials decide one of them")
	}
	if (lead.direction > 0) != c.o.LowerIsBetter {
		return Improvement, ""
	}
	return Regression, ""
}

// A claim is what one statistic says of a change.
type claim struct {
	p         float64
	ln        float64 // size, as the logarithm of a ratio
	direction int     // 1 if B is larger, -1 if smaller, else 0
}

func sign(v float64) int {
	switch {
	case v > hair:
		return 1
	case v < -hair:
		return -1
	}
	return 0
}

// fewest is how many samples a side needs for the smallest p to reach alpha.
func (c *Comparison) fewest(alpha float64) int {
	if c.Unit == UnitRound {
		n := fewestRounds
		for math.Pow(2, 1-float64(n)) > alpha {
			n++
		}
		return n
	}
	return FewestPerSide(1, alpha)
}

// reach is by how many standard errors a change must differ from 0 to be found
// at alpha with the wanted power.
func (c *Comparison) reach(alpha float64) float64 {
	return normalQuantile(1-alpha/2) + normalQuantile(c.o.Power)
}

// needed estimates how many samples per side give a verdict, from the sizes of
// normal approximations: by the ranks (Noether 1987) or by the means, whichever
// needs fewer. If the change seen reaches the threshold, they're to show that;
// else to show one of the threshold's size, and where this one lies. A tenth is
// added, since the estimates of spread that it rests on are uncertain.
//
// Of rounds only the means count, with the variance inside rounds.
func (c *Comparison) needed(alpha float64) *int {
	limit := math.Log1p(c.o.Threshold)
	least := float64(c.fewest(alpha))
	n := 0.0
	if len(c.a) > 0 && len(c.b) > 0 {
		z, change := c.reach(alpha), c.larger()
		byRanks := math.Inf(1)
		if change >= limit-hair {
			if c.Unit != UnitRound {
				byRanks = noether(z, c.theta-0.5)
			}
			n = min(byRanks, byMeans(z, c.variance, c.mean.ln))
		} else {
			if c.Unit != UnitRound && !c.bimodal {
				byRanks = noether(z, c.superiority(limit))
			}
			n = min(byRanks, byMeans(z, c.variance, limit))
			if c.mean.narrow.ok {
				h := (c.mean.narrow.high - c.mean.narrow.low) / 2 / (limit - change)
				n = max(n, c.harmonic()*h*h)
			}
		}
	}
	n = min(max(math.Ceil(1.1*n-hair), least), MostNeeded+1)
	whole := int(n)
	return &whole
}

// noether is how many per side a rank test needs to find that values of one
// side are larger in a share of 1/2+off of pairs.
func noether(z, off float64) float64 {
	if off == 0 {
		return math.Inf(1)
	}
	return z * z / (6 * off * off)
}

// byMeans is the same for a change of the mean by ln, in logarithms, if that of
// one sample per side has the variance given.
func byMeans(z, variance, ln float64) float64 {
	if ln == 0 {
		return math.Inf(1)
	}
	return z * z * variance / (ln * ln)
}

// superiority is by how much the share of pairs in which B is larger would
// exceed a half if B were A shifted by ln: what overlaps then is what's further
// apart inside a side.
func (c *Comparison) superiority(ln float64) float64 {
	d := c.pairsWithin()
	if len(d) == 0 {
		return 0.5
	}
	var beyond float64
	for _, v := range d {
		switch {
		case v > ln+hair:
			beyond++
		case v >= ln-hair:
			beyond += 0.5
		}
	}
	return 0.5 - 0.5*beyond/float64(len(d))
}

// detectable is the smallest change of all values by the same share that such
// trials show at alpha with the wanted power, in percent: what the means can
// find, or the ranks if that's less. Nil if there are too few samples to show
// any, or a mean is 0.
func (c *Comparison) detectable(alpha float64) *float64 {
	n := c.harmonic()
	if n < float64(c.fewest(alpha)) || math.IsInf(c.mean.ln, 0) || *c.A.Max == 0 {
		return nil
	}
	z := c.reach(alpha)
	ln := z * math.Sqrt(c.variance/n)
	if c.Unit != UnitRound && !c.bimodal {
		q := min(2*z/math.Sqrt(6*n), 1)
		d := c.pairsWithin()
		ln = min(ln, d[max(int(math.Ceil(q*float64(len(d))-hair)), 1)-1])
	}
	return percent(-math.Expm1(-ln))
}

// Line is the verdict as a sentence for people.
func (c *Comparison) Line() string {
	var s strings.Builder
	switch c.Verdict {
	case NoDifference:
		fmt.Fprintf(&s, "no difference beyond ±%.3g %% shown", 100*c.o.Threshold)
	case Inconclusive:
		s.WriteString("inconclusive")
		if why := c.why(); why != "" {
			s.WriteString(" — " + why)
		}
		if c.MDEPercent != nil && c.TrialsNeeded != nil {
			fmt.Fprintf(&s, "; %s can show changes of %.1f %% or more", c.samples(), *c.MDEPercent)
		}
	default:
		s.WriteString(string(c.Verdict))
	}
	if c.boots != "" {
		s.WriteString(" " + c.boots)
	}
	return s.String()
}

// why is the reason in words, and what to do about it.
func (c *Comparison) why() string {
	switch c.Reason {
	case FailedTrials:
		return fmt.Sprintf("too many trials failed: A %d ok, %d failed; B %d ok, %d failed", c.A.N, c.A.Failed, c.B.N, c.B.Failed)
	case NoTraffic:
		return "all trials zero"
	case FewTrials:
		return "too few trials, " + c.plan("to tell a change from luck")
	case SizeOpen:
		return fmt.Sprintf("a real change, but whether it reaches %.3g %% is open: %s", 100*c.o.Threshold, c.plan("to tell"))
	case Disagreement:
		return "the typical and the mean value changed in opposite directions"
	case ShapeChange:
		return "the spread or the modes changed, and no shift is shown beside that: " + c.plan("to show one")
	case NotShown:
		change := math.Abs(math.Expm1(c.mean.ln))
		if typical := math.Abs(math.Expm1(c.typical.ln)); typical > change {
			change = typical
		}
		if c.larger() >= math.Log1p(c.o.Threshold)-hair && !math.IsInf(change, 0) {
			return c.plan(fmt.Sprintf("to confirm a %.1f %% change", 100*change))
		}
		return c.plan(fmt.Sprintf("to place the change against ±%.3g %%", 100*c.o.Threshold))
	}
	return ""
}

func (c *Comparison) plan(purpose string) string {
	unit := c.Unit + "s per side"
	if c.Unit == UnitRound {
		unit = "rounds"
	}
	switch {
	case c.TrialsNeeded == nil:
		return ""
	case *c.TrialsNeeded > MostNeeded:
		return fmt.Sprintf("need more than %d %s %s: lower the noise instead", MostNeeded, unit, purpose)
	}
	return fmt.Sprintf("need about %d %s %s", *c.TrialsNeeded, unit, purpose)
}

func (c *Comparison) samples() string {
	if c.Unit == UnitRound {
		return fmt.Sprintf("%d rounds", len(c.a))
	}
	return fmt.Sprintf("%d+%d %ss", len(c.a), len(c.b), c.Unit)
}
