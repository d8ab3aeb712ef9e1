package sample

import (
	"math"
	"slices"
)

// A Steadiness describes one trial from its intervals. It's to look at: the
// intervals of a trial share what was decided when its connections were made,
// so they are no samples. Nil is not defined.
type Steadiness struct {
	Intervals          int      `json:"intervals" doc:"intervals of the trial"`
	CVPercent          *float64 `json:"cv_percent" doc:"standard deviation of the intervals as a share of their mean"`
	Autocorrelation    *float64 `json:"autocorrelation" doc:"correlation of each interval with the one before"`
	EffectiveIntervals *float64 `json:"effective_intervals" doc:"how many independent intervals would tell as much: n (1-r)/(1+r) of autocorrelation r"`
	Stalled            []int    `json:"stalled" doc:"which intervals, counted from 0, had less than 10 % of the trial's median"`
}

// Inside describes a trial by the rate of each of its intervals.
func Inside(rates []float64) Steadiness {
	n := len(rates)
	s := Steadiness{Intervals: n, Stalled: []int{}}
	if n == 0 || !allFinite(rates) {
		return s
	}
	mean, sd := moments(rates)
	s.CVPercent = percent(sd / mean)
	median := middle(slices.Sorted(slices.Values(rates)))
	for i, v := range rates {
		if v < 0.1*median {
			s.Stalled = append(s.Stalled, i)
		}
	}
	scaled, _ := normalised(rates...)
	if mean, sd = moments(scaled); !(sd > 0) {
		return s
	}
	var lagged, squares float64
	for i, v := range scaled {
		squares += (v - mean) * (v - mean)
		if i > 0 {
			lagged += (v - mean) * (scaled[i-1] - mean)
		}
	}
	r := lagged / squares
	s.Autocorrelation = finite(r)
	s.EffectiveIntervals = finite(float64(n) * (1 - r) / (1 + r))
	return s
}

// An Omission is a suggestion to leave out the beginning of all trials.
type Omission struct {
	Intervals    int     `json:"intervals" doc:"intervals to leave out, at least"`
	BelowPercent float64 `json:"below_percent" doc:"how far these are below the rest on average"`
	P            float64 `json:"p" doc:"chance that they'd be below it in as many trials by luck (sign test)"`
	TooShort     bool    `json:"too_short" doc:"the trials still grow in their middle: they are too short to tell what to leave out"`
}

// SuggestOmit looks at the intervals of a cell's trials for a beginning that is
// slower than the rest. It's a suggestion for the next run: what is left out is
// one number for all trials of a comparison and set beforehand. Nil if there's
// nothing to suggest, or fewer than 5 trials or 6 intervals.
//
// How much to leave out is where the remaining mean would be most precise (the
// marginal standard error rule, White 1997), of the series averaged over the
// trials. Of trials of different lengths the shortest counts.
func SuggestOmit(trials [][]float64) *Omission {
	if len(trials) < 5 {
		return nil
	}
	n := len(trials[0])
	for _, t := range trials {
		n = min(n, len(t))
	}
	if n < 6 || !allFinite(trials...) {
		return nil
	}
	flat := make([]float64, 0, n*len(trials))
	for _, t := range trials {
		flat = append(flat, t[:n]...)
	}
	flat, _ = normalised(flat...)
	average := make([]float64, n)
	for i, v := range flat {
		average[i%n] += v / float64(len(trials))
	}
	d, least := 0, math.Inf(1)
	for k := 0; k <= n/2; k++ {
		_, sd := moments(average[k:])
		rest := float64(n - k)
		if error := sd * sd * (rest - 1) / rest / rest; error < least {
			d, least = k, error
		}
	}
	if d == 0 {
		return nil
	}
	below := func(series []float64) float64 {
		first, _ := moments(series[:d])
		rest, _ := moments(series[d:])
		if rest == 0 {
			return 0
		}
		return 1 - first/rest
	}
	lower, unequal := 0, 0
	for k := range trials {
		switch by := below(flat[k*n : (k+1)*n]); {
		case by > 0:
			lower++
			unequal++
		case by < 0:
			unequal++
		}
	}
	o := &Omission{d, 100 * below(average), binomialTail(lower, unequal, 0.5), d == n/2}
	if o.BelowPercent < 2 || o.P > 0.05 {
		return nil
	}
	return o
}
