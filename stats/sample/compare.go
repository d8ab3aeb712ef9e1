package sample

import (
	"cmp"
	"math"
	"slices"
)

// A Side is the trials of one configuration, in the order in which they were
// started. The slices beside Values have an element for each of its own, or are
// nil if unknown.
type Side struct {
	Values []float64
	Failed int       // trials that gave no value
	Rounds []int     // round of each trial: a round is one trial of each side, run next to each other
	Boots  []string  // boot of the kernel that each trial ran under
	Starts []float64 // when each trial was started, in seconds since any moment that both sides share
}

// Options say what counts as a difference. The zero value of a field is its
// default.
type Options struct {
	Alpha         float64 // chance of finding a difference where there is none: 0.05; below 0.5
	Threshold     float64 // smallest change that matters, as a share: 0.02
	Power         float64 // chance with which a planned number of trials is to find the change: 0.8
	LowerIsBetter bool    // as for latency, CPU time or retransmits
}

// Filled is o with the defaults for what is zero.
func (o Options) Filled() Options {
	o.Alpha = cmp.Or(o.Alpha, 0.05)
	o.Threshold = cmp.Or(o.Threshold, 0.02)
	o.Power = cmp.Or(o.Power, 0.8)
	return o
}

// What one sample of a comparison is.
const (
	UnitTrial = "trial" // each trial by itself
	UnitRound = "round" // B against A inside each round
	UnitBoot  = "boot"  // the mean of the trials of a boot
)

// A Comparison is what two sets of trials say about a change. All ratios are B
// divided by A. Nil is not defined.
type Comparison struct {
	A Cell `json:"a" doc:"the baseline's trials"`
	B Cell `json:"b" doc:"the candidate's trials"`

	Unit     string `json:"unit" doc:"what one sample is: a trial, a round or a boot"`
	SamplesA int    `json:"samples_a" doc:"samples of A that were compared"`
	SamplesB int    `json:"samples_b" doc:"samples of B that were compared"`

	Typical      Effect   `json:"typical" doc:"typical ratio: the median of b/a over all pairs of samples, or of rounds"`
	Mean         Effect   `json:"mean" doc:"ratio of the arithmetic means"`
	GeomeanRatio *float64 `json:"geomean_ratio" doc:"ratio of the geometric means; shown, not tested"`
	Theta        *float64 `json:"theta" doc:"share of pairs, or of rounds, in which b is larger, equal ones counted half"`

	P          float64  `json:"p" doc:"chance of statistics this far apart if A and B were alike"`
	RankP      float64  `json:"rank_p" doc:"the same of the ranks alone"`
	MeanP      float64  `json:"mean_p" doc:"the same of the means alone"`
	Exact      bool     `json:"exact" doc:"whether all relabellings were tried, not a random 100000"`
	CorrectedP *float64 `json:"corrected_p" doc:"p corrected for the number of cells compared; the verdict goes by it"`

	SpreadRatio  *float64 `json:"spread_ratio" doc:"robust spread of B by that of A"`
	ShapeChanged bool     `json:"shape_changed" doc:"spread_ratio is above 2 or below 1/2, or just one side is bimodal"`

	Rounds int      `json:"rounds" doc:"rounds with one trial of each side"`
	ICC    *float64 `json:"icc" doc:"intraclass correlation of the rounds: how far the two trials of a round go up and down together; null with fewer than 6 rounds"`

	Verdict      Verdict  `json:"verdict" doc:"regression, improvement, no-difference or inconclusive"`
	Reason       Reason   `json:"reason" doc:"why inconclusive, else empty"`
	Notes        []string `json:"notes" doc:"what to know about the verdict, a sentence each"`
	TrialsNeeded *int     `json:"trials_needed_per_side" doc:"samples per side for a verdict with the wanted power, an estimate; 1001 stands for any number above 1000; null unless more trials would help"`
	MDEPercent   *float64 `json:"mde_percent" doc:"smallest uniform change that these trials can show with the wanted power"`

	// What Judge needs.
	o             Options
	a, b          []float64 // samples
	typical, mean estimate  // logarithms
	theta         float64
	variance      float64 // of the logarithm of the mean ratio of one sample of each side
	smallestP     float64 // that so many samples can give
	bimodal       bool    // a side is
	boots         string  // remark that ends the verdict's line
	measured      int     // notes that aren't Judge's
}

// Measure compares two sets of trials: everything but the verdict, which Judge
// gives once it is known how many cells are compared.
//
// The samples are trials, with two exceptions. Where both sides ran in four
// boots or more, the boots' means are the samples: trials of one boot share what
// the boot decided. And where there are at least 6 complete rounds whose trials
// go up and down together (ICC of 0.3 or more), the rounds are compared: that
// takes slow changes of the machine out. Neither choice looks at which side is
// which, so that it doesn't favour any verdict.
func Measure(a, b Side, o Options) *Comparison {
	a, b = a.usable(), b.usable()
	c := &Comparison{
		A: a.cell(), B: b.cell(), o: o.Filled(),
		Unit: UnitTrial, Notes: []string{}, a: a.Values, b: b.Values,
	}
	cellA, cellB := c.A, c.B
	pairs := completeRounds(a, b)
	c.Rounds = len(pairs)
	icc := agreement(pairs)
	if len(pairs) >= fewestRounds {
		c.ICC = finite(icc)
	}
	bootsA, bootsB := bootMeans(a), bootMeans(b)
	switch {
	case len(bootsA) >= fewestBoots && len(bootsB) >= fewestBoots:
		c.Unit, c.a, c.b = UnitBoot, bootsA, bootsB
		cellA, cellB = describe(bootsA), describe(bootsB)
		c.compareSets()
		c.note("the samples are the means of %d and %d boots", len(bootsA), len(bootsB))
	case c.ICC != nil && icc >= 0.3 && allPositive(pairs):
		c.Unit = UnitRound
		c.compareRounds(pairs)
		c.note("compared round by round: the trials of a round go together (ICC %.2f)", icc)
	default:
		c.compareSets()
	}
	c.SamplesA, c.SamplesB = len(c.a), len(c.b)
	if c.A.Geomean != nil && c.B.Geomean != nil {
		c.GeomeanRatio = finite(*c.B.Geomean / *c.A.Geomean)
	}
	c.compareShapes(cellA, cellB)
	c.noteOrder(a, b)
	c.noteBoots(a, b)
	c.measured = len(c.Notes)
	return c
}

// usable is the side without what isn't a sample, in the order of the starts.
func (s Side) usable() Side {
	n := len(s.Values)
	hasRounds, hasBoots, hasStarts := len(s.Rounds) == n, len(s.Boots) == n, len(s.Starts) == n
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if hasStarts {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(s.Starts[i], s.Starts[j]) })
	}
	t := Side{Failed: s.Failed}
	for _, i := range order {
		if !usable(s.Values[i]) {
			t.Failed++
			continue
		}
		t.Values = append(t.Values, s.Values[i])
		if hasRounds {
			t.Rounds = append(t.Rounds, s.Rounds[i])
		}
		if hasBoots {
			t.Boots = append(t.Boots, s.Boots[i])
		}
		if hasStarts {
			t.Starts = append(t.Starts, s.Starts[i])
		}
	}
	return t
}

func (s Side) cell() Cell {
	c := describe(s.Values)
	c.Failed = s.Failed
	return c
}

// compareSets compares a with b as two independent sets.
func (c *Comparison) compareSets() {
	if len(c.a) == 0 || len(c.b) == 0 {
		c.setP(luck)
		return
	}
	c.typical, c.theta = hodgesLehmann(c.a, c.b, c.o.Alpha)
	c.mean = meanRatio(c.a, c.b, c.o.Alpha)
	c.setP(permutationTest(c.a, c.b))
	c.variance = squaredCV(c.a) + squaredCV(c.b)
	c.smallestP = 2 / choose(len(c.a)+len(c.b), len(c.a))
	c.publish()
}

// squaredCV is 0 where the coefficient of variation isn't defined.
func squaredCV(values []float64) float64 {
	mean, sd := moments(values)
	if cv := sd / mean; cv > 0 {
		return cv * cv
	}
	return 0
}

func (c *Comparison) setP(p pValues) {
	c.P, c.RankP, c.MeanP, c.Exact = p.p, p.rank, p.mean, p.exact
}

func (c *Comparison) publish() {
	c.Typical, c.Mean = c.typical.effect(c.o.Alpha), c.mean.effect(c.o.Alpha)
	c.Theta = finite(c.theta)
}

// compareShapes sets the guard against taking a change of shape for one of
// size: a test of ranks or means isn't one of equal sizes when the shapes
// differ, as when a stable side meets a bimodal one.
func (c *Comparison) compareShapes(a, b Cell) {
	c.bimodal = a.Word == Bimodal || b.Word == Bimodal
	c.ShapeChanged = (a.Word == Bimodal) != (b.Word == Bimodal)
	if a.N < 2 || b.N < 2 {
		return
	}
	spreadA, spreadB := robustSD(c.a), robustSD(c.b)
	medianA, medianB := *a.Median, *b.Median
	if medianA > 0 && medianB > 0 {
		spreadA, spreadB = max(spreadA/medianA, 0.001), max(spreadB/medianB, 0.001)
	} else {
		floor := 0.001 * max(medianA, medianB)
		spreadA, spreadB = max(spreadA, floor), max(spreadB, floor)
	}
	if spreadA == 0 && spreadB == 0 {
		spreadA, spreadB = 1, 1
	}
	ratio := spreadB / spreadA
	c.SpreadRatio = finite(ratio)
	c.ShapeChanged = c.ShapeChanged || ratio > 2 || ratio < 0.5
}

// noteOrder notes when one side ran wholly before the other.
func (c *Comparison) noteOrder(a, b Side) {
	if len(a.Starts) < 2 || len(b.Starts) < 2 {
		return
	}
	if slices.Max(a.Starts) < slices.Min(b.Starts) || slices.Max(b.Starts) < slices.Min(a.Starts) {
		c.note("trials of A and B were not interleaved: a change of the machine over time looks the same")
	}
}

// pairsWithin returns the distances between the logarithms of all pairs of
// values on the same side, sorted.
func (c *Comparison) pairsWithin() []float64 {
	d := slices.Concat(distances(logs(c.a)), distances(logs(c.b)))
	slices.Sort(d)
	return d
}

// harmonic is the size of two equal sides that tell as much as these.
func (c *Comparison) harmonic() float64 {
	nA, nB := float64(len(c.a)), float64(len(c.b))
	if nA+nB == 0 {
		return 0
	}
	return 2 * nA * nB / (nA + nB)
}

// larger returns the larger of the two changes, in logarithms.
func (c *Comparison) larger() float64 {
	return max(math.Abs(c.typical.ln), math.Abs(c.mean.ln))
}
