// Package sample compares sets of trials: one trial is one sample, and a set is
// what one configuration gave. It says what a set looks like (Describe), whether
// one set is slower than another (Measure, then Judge), how many trials that
// takes, and in which order to run them. All of it is arithmetic on values that
// the caller has: nothing here measures, prints or deletes a trial.
//
// Values are rates, times or counts: finite and not negative. Anything else is
// no sample, and counts as a failed trial. Results hold no infinities, and null
// stands for what isn't defined.
package sample

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"gperf/stats"
)

// A Cell describes the trials of one configuration. Nil is not defined.
type Cell struct {
	N              int             `json:"n" doc:"trials that gave a value"`
	Failed         int             `json:"failed" doc:"trials that gave none"`
	Mean           *float64        `json:"mean" doc:"arithmetic mean"`
	SD             *float64        `json:"sd" doc:"standard deviation, with n-1"`
	Geomean        *float64        `json:"geomean" doc:"geometric mean, null if a value is 0"`
	Median         *float64        `json:"median" doc:"middle value, or the mean of the two middle ones"`
	CVPercent      *float64        `json:"cv_percent" doc:"standard deviation as a share of the mean"`
	RSpreadPercent *float64        `json:"rspread_percent" doc:"robust spread: 1.0483 n/(n+0.5) times the median distance between two trials, as a share of the median; estimates cv_percent with strays left out"`
	Min            *float64        `json:"min" doc:"smallest value"`
	Max            *float64        `json:"max" doc:"largest value"`
	MedianInterval *stats.Interval `json:"median_interval" doc:"where the median lies, by order statistics"`
	P10            *float64        `json:"p10" doc:"10th percentile, null with fewer than 10 trials"`
	P25            *float64        `json:"p25" doc:"25th percentile, likewise"`
	P75            *float64        `json:"p75" doc:"75th percentile, likewise"`
	P90            *float64        `json:"p90" doc:"90th percentile, likewise"`
	Outliers       []int           `json:"outliers" doc:"which trials, counted from 0, are further from the median than 5 times rspread_percent and than 5 %; they are kept"`
	Drift          *Drift          `json:"drift" doc:"whether the trials grew or fell in the order in which they were started"`

	Word            Word     `json:"word" doc:"too few, bimodal, unstable, noisy or stable"`
	Modes           []Mode   `json:"modes" doc:"the two modes of a bimodal cell, else empty"`
	Separation      *float64 `json:"separation" doc:"distance of the two best groups of trials in standard deviations inside them; null with fewer than 6 trials, or if infinite"`
	SeparationLimit *float64 `json:"separation_limit" doc:"what separation must exceed in a bimodal cell: 4+45/n"`
}

// Drift is Spearman's rank correlation of values with the order of their start.
type Drift struct {
	Rho  float64 `json:"rho" doc:"rank correlation, from -1 to 1"`
	P    float64 `json:"p" doc:"chance of one as far from 0 without drift"`
	Warn bool    `json:"warn" doc:"p is at most 0.01, in at least 8 trials"`
}

// A Word says in one word how far a cell's trials agree.
type Word string

// The words. The first that applies is a cell's.
const (
	TooFew   Word = "too few" // fewer than 5 trials: nothing is said of their stability
	Bimodal  Word = "bimodal"
	Unstable Word = "unstable"
	Noisy    Word = "noisy"
	Stable   Word = "stable"
)

// A Mode is one of two groups of trials with a gap between them.
type Mode struct {
	Mean float64 `json:"mean" doc:"arithmetic mean of the group"`
	N    int     `json:"n" doc:"trials in the group"`
}

// Describe describes values, given in the order in which their trials were
// started, and the count of trials that gave no value.
func Describe(values []float64, failed int) Cell {
	kept := make([]float64, 0, len(values))
	where := make([]int, 0, len(values))
	for i, v := range values {
		if usable(v) {
			kept = append(kept, v)
			where = append(where, i)
		}
	}
	c := describe(kept)
	c.Failed = failed + len(values) - len(kept)
	for i, k := range c.Outliers {
		c.Outliers[i] = where[k]
	}
	return c
}

func describe(values []float64) Cell {
	n := len(values)
	c := Cell{N: n, Outliers: []int{}, Modes: []Mode{}, Word: TooFew}
	if n == 0 {
		return c
	}
	sorted := slices.Sorted(slices.Values(values))
	mean, sd := moments(values)
	median := middle(sorted)
	spread := robustSD(values)
	c.Mean, c.SD, c.Median = finite(mean), finite(sd), finite(median)
	c.Min, c.Max = finite(sorted[0]), finite(sorted[n-1])
	if sorted[0] > 0 {
		c.Geomean = finite(math.Exp(sum(logs(values)) / float64(n)))
	}
	c.CVPercent = percent(sd / mean)
	c.RSpreadPercent = percent(spread / median)
	c.MedianInterval = stats.MedianInterval(values)
	if n >= 10 {
		c.P10, c.P25 = finite(quantile(sorted, 0.10)), finite(quantile(sorted, 0.25))
		c.P75, c.P90 = finite(quantile(sorted, 0.75)), finite(quantile(sorted, 0.90))
	}
	if median > 0 && n > 1 {
		for i, v := range values {
			if off := math.Abs(v - median); off > 5*spread && off > 0.05*median {
				c.Outliers = append(c.Outliers, i)
			}
		}
	}
	c.Drift = drift(values)
	c.judge(sorted, median, spread)
	return c
}

// quantile interpolates between sorted values so that the quantile is about
// median-unbiased whatever they are drawn from (Hyndman and Fan 1996, type 8).
func quantile(sorted []float64, p float64) float64 {
	n := len(sorted)
	h := min(max((float64(n)+1.0/3)*p+1.0/3, 1), float64(n))
	i := min(int(h), n-1)
	return sorted[i-1] + (h-float64(i))*(sorted[i]-sorted[i-1])
}

// drift is nil with fewer than three values, or if all are equal.
func drift(values []float64) *Drift {
	n := len(values)
	if n < 3 {
		return nil
	}
	order := make([]float64, n)
	for i := range order {
		order[i] = float64(i)
	}
	rho := correlation(centredRanks(order), centredRanks(values))
	if math.IsNaN(rho) {
		return nil
	}
	// No order is rarer than one of n!, whatever the t distribution says.
	rarest := 2 * math.Exp(-lgamma(float64(n)+1))
	p := min(max(correlationP(rho, float64(n-2)), rarest), 1)
	return &Drift{Rho: rho, P: p, Warn: n >= 8 && p <= 0.01}
}

func lgamma(x float64) float64 {
	l, _ := math.Lgamma(x)
	return l
}

// judge finds the cell's word. The limits are such that trials with one mode,
// whatever its shape, are called bimodal in about 1 % of cells, and trials whose
// true variation is 1 % stable in 98 % or more.
func (c *Cell) judge(sorted []float64, median, spread float64) {
	if c.N < 5 {
		return
	}
	if c.N >= 6 {
		d, modes := separate(sorted, median)
		limit := 4 + 45/float64(c.N)
		c.Separation, c.SeparationLimit = finite(d), &limit
		if d > limit && modes[1].Mean-modes[0].Mean > 0.05*median {
			c.Word, c.Modes = Bimodal, modes[:]
			return
		}
	}
	outliers := len(c.Outliers)
	switch {
	case outliers > 0 && 10*outliers >= c.N,
		spread > 0.05*median,
		median == 0 && sorted[c.N-1] > 0:
		c.Word = Unstable
	case spread > 0.02*median:
		c.Word = Noisy
	default:
		c.Word = Stable
	}
}

// separate splits sorted values into the two groups, each with at least a fifth
// of them and at least two, that are furthest apart in terms of the standard
// deviation inside them. That isn't taken for less than 0.1 % of the median:
// values that were rounded alike would be infinitely far apart.
func separate(sorted []float64, median float64) (best float64, modes [2]Mode) {
	n := len(sorted)
	scaled, exp := normalised(sorted...)
	floor := 0.001 * math.Ldexp(median, -exp)
	best = -1
	for k := max(2, (n+4)/5); k <= n-max(2, (n+4)/5); k++ {
		low, lowSD := moments(scaled[:k])
		high, highSD := moments(scaled[k:])
		ss := lowSD*lowSD*float64(k-1) + highSD*highSD*float64(n-k-1)
		within := max(math.Sqrt(ss/float64(n-2)), floor)
		d := 0.0
		if high > low {
			d = (high - low) / within
		}
		if d > best {
			best = d
			modes = [2]Mode{{math.Ldexp(low, exp), k}, {math.Ldexp(high, exp), n - k}}
		}
	}
	return best, modes
}

// Text is the cell in a few characters, for a table: the median, with the robust
// spread if noisy; the range of unstable values; the means and sizes of two
// modes. format writes one value.
func (c Cell) Text(format func(float64) string) string {
	if c.N == 0 {
		return "—"
	}
	switch c.Word {
	case Bimodal:
		return fmt.Sprintf("%s (%d) or %s (%d)", format(c.Modes[0].Mean), c.Modes[0].N, format(c.Modes[1].Mean), c.Modes[1].N)
	case Unstable:
		return format(*c.Min) + ".." + format(*c.Max) + " unstable"
	case Noisy:
		return fmt.Sprintf("%s ~%.1f %%", format(*c.Median), *c.RSpreadPercent)
	case TooFew:
		return format(*c.Median) + " too few"
	}
	return format(*c.Median)
}

// binomialTail is the chance of at least k successes in n tries of chance p.
func binomialTail(k, n int, p float64) float64 {
	if k <= 0 {
		return 1
	}
	return min(1, max(0, 1-distuv.Binomial{N: float64(n), P: p}.CDF(float64(k-1))))
}
