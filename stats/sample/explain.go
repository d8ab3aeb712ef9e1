package sample

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// An Explanation is one thing counted in each trial that goes with the trials'
// values.
type Explanation struct {
	Name       string   `json:"name" doc:"what was counted"`
	Rho        float64  `json:"rho" doc:"rank correlation with the values inside the sides, from -1 to 1"`
	P          float64  `json:"p" doc:"chance of one as far from 0 if the two were unrelated"`
	CorrectedP float64  `json:"corrected_p" doc:"p corrected (Benjamini and Hochberg 1995) for the number of things looked at"`
	MeanA      *float64 `json:"mean_a" doc:"mean over the trials of A"`
	MeanB      *float64 `json:"mean_b" doc:"mean over the trials of B"`
	DiffersP   float64  `json:"differs_p" doc:"rank p of its difference between the sides"`
	Split      *Split   `json:"split" doc:"how much of the difference of the values it accounts for; only of the first, with at least 8 trials a side"`
}

// A Split divides the difference of two sides' mean values into what a covariate
// accounts for and the rest, by least squares with one slope for both sides. It
// explains and doesn't excuse: the count may be how the change does its harm.
type Split struct {
	Slope          float64 `json:"slope" doc:"change of the value for each one of the covariate, inside the sides"`
	SlopeInterval  *Range  `json:"slope_interval" doc:"where the slope lies"`
	R2             float64 `json:"r2" doc:"share of the variance inside the sides that the covariate accounts for, from 0 to 1"`
	Total          float64 `json:"total" doc:"mean of B less mean of A"`
	Via            float64 `json:"via" doc:"part of total that the covariate's difference accounts for"`
	Direct         float64 `json:"direct" doc:"the rest: the difference at an equal covariate"`
	DirectInterval *Range  `json:"direct_interval" doc:"where direct lies"`
}

// Explain looks for what goes with the values inside the sides a and b, among
// covariates: for each a number per trial of a and of b. It returns those whose
// corrected p is at most 0.05, the closest related first. b and its covariates
// may be empty, for one configuration.
//
// The correlation is that of ranks taken inside each side, so that a difference
// between the sides can't make one.
func Explain(a, b []float64, covariates map[string][2][]float64) []Explanation {
	n := len(a) + len(b)
	if n < 6 {
		return nil
	}
	df := float64(n - 3)
	if len(a) == 0 || len(b) == 0 {
		df = float64(n - 2)
	}
	var found []Explanation
	for _, name := range slices.Sorted(maps.Keys(covariates)) {
		x := covariates[name]
		if len(x[0]) != len(a) || len(x[1]) != len(b) || !allFinite(a, b, x[0], x[1]) {
			continue
		}
		rho := correlation(
			slices.Concat(centredRanks(x[0]), centredRanks(x[1])),
			slices.Concat(centredRanks(a), centredRanks(b)))
		if math.IsNaN(rho) {
			continue // constant inside the sides
		}
		e := Explanation{Name: name, Rho: rho, P: correlationP(rho, df)}
		meanA, _ := moments(x[0])
		meanB, _ := moments(x[1])
		e.MeanA, e.MeanB = finite(meanA), finite(meanB)
		found = append(found, e)
	}
	p := make([]float64, len(found))
	for i, e := range found {
		p[i] = e.P
	}
	for i, corrected := range BenjaminiHochberg(p) {
		found[i].CorrectedP = corrected
	}
	found = slices.DeleteFunc(found, func(e Explanation) bool { return e.CorrectedP > 0.05 })
	slices.SortStableFunc(found, func(e, f Explanation) int { return cmp.Compare(math.Abs(f.Rho), math.Abs(e.Rho)) })
	for i := range found {
		x := covariates[found[i].Name]
		found[i].DiffersP = permutationTest(x[0], x[1]).rank
	}
	if len(found) > 0 && len(a) >= 8 && len(b) >= 8 {
		x := covariates[found[0].Name]
		found[0].Split = split(a, b, x[0], x[1])
	}
	return found
}

func allFinite(sets ...[]float64) bool {
	for _, set := range sets {
		for _, v := range set {
			if finite(v) == nil {
				return false
			}
		}
	}
	return true
}

// split fits values = mean of the side + slope (x - the side's mean x). The
// intervals have level 0.95 and allow for noise that grows with the covariate
// (HC3, MacKinnon and White 1985); none if one trial alone fixes the slope. Nil
// if a figure is too large to be written.
func split(a, b, xa, xb []float64) *Split {
	y, expY := normalised(slices.Concat(a, b)...)
	x, expX := normalised(slices.Concat(xa, xb)...)
	nA := len(a)
	meanYA, _ := moments(y[:nA])
	meanYB, _ := moments(y[nA:])
	meanXA, _ := moments(x[:nA])
	meanXB, _ := moments(x[nA:])
	side := func(i int) (n, meanX, meanY, sign float64) {
		if i < nA {
			return float64(nA), meanXA, meanYA, -1
		}
		return float64(len(y) - nA), meanXB, meanYB, 1
	}
	var sxx, syy, sxy float64
	for i := range y {
		_, meanX, meanY, _ := side(i)
		dx, dy := x[i]-meanX, y[i]-meanY
		sxx += dx * dx
		syy += dy * dy
		sxy += dx * dy
	}
	if sxx == 0 || syy == 0 {
		return nil
	}
	slope := sxy / sxx
	total, via := meanYB-meanYA, slope*(meanXB-meanXA)

	var slopeVar, directVar float64
	bounded := true
	for i := range y {
		n, meanX, meanY, sign := side(i)
		dx := x[i] - meanX
		leverage := 1/n + dx*dx/sxx
		if leverage > 1-1e-9 {
			bounded = false
			break
		}
		e := (y[i] - meanY - slope*dx) / (1 - leverage)
		v := dx / sxx
		w := sign/n - (meanXB-meanXA)*v
		slopeVar += v * v * e * e
		directVar += w * w * e * e
	}
	s := &Split{
		Slope: math.Ldexp(slope, expY-expX), R2: min(1, sxy*sxy/(sxx*syy)),
		Total: math.Ldexp(total, expY), Via: math.Ldexp(via, expY), Direct: math.Ldexp(total-via, expY),
	}
	if !allFinite([]float64{s.Slope, s.R2, s.Total, s.Via, s.Direct}) {
		return nil
	}
	if bounded {
		t := tQuantile(0.975, float64(len(y)-3))
		around := func(v, variance float64, exp int) *Range {
			h := t * math.Sqrt(variance)
			return &Range{finite(math.Ldexp(v-h, exp)), finite(math.Ldexp(v+h, exp)), 0.95}
		}
		s.SlopeInterval = around(slope, slopeVar, expY-expX)
		s.DirectInterval = around(total-via, directVar, expY)
	}
	return s
}
