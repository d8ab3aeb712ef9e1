package sample

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// anyValue is any finite value that isn't negative, zeros and extremes often.
func anyValue() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Just(0.0),
		rapid.Map(rapid.IntRange(0, 4), func(i int) float64 { return float64(i) }),
		rapid.Float64Range(90, 110),
		rapid.Float64Range(0, math.MaxFloat64),
		rapid.SampledFrom([]float64{5e-324, 1e-310, 1e-300, 1, 1e300, math.MaxFloat64}),
	)
}

func anySide(t *rapid.T, name string, most int) Side {
	s := Side{
		Values: rapid.SliceOfN(anyValue(), 0, most).Draw(t, name),
		Failed: rapid.IntRange(0, 2).Draw(t, name+" failed"),
	}
	if rapid.Bool().Draw(t, name+" in rounds") {
		s.Rounds = seq(len(s.Values))
	}
	if rapid.Bool().Draw(t, name+" in boots") {
		for i := range s.Values {
			s.Boots = append(s.Boots, fmt.Sprint(name, i/2))
		}
	}
	if rapid.Bool().Draw(t, name+" timed") {
		for i := range s.Values {
			s.Starts = append(s.Starts, float64(2*i))
		}
	}
	return s
}

// No result holds an infinity or what isn't a number: encoding would fail.
func TestEncodable(t *testing.T) {
	t.Parallel()
	encode := func(t *rapid.T, v any) {
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySide(t, "a", 9), anySide(t, "b", 9)
		o := Options{LowerIsBetter: rapid.Bool().Draw(t, "lower is better")}
		cells := rapid.IntRange(1, 30).Draw(t, "cells")
		c := Measure(a, b, o)
		c.Judge(min(1, c.P*float64(cells)), cells)
		encode(t, c)
		encode(t, Summarise([]*Comparison{c}))
		if c.P <= 0 || c.P > 1 || c.RankP > 1 || c.MeanP > 1 {
			t.Errorf("p %v, of ranks %v, of means %v", c.P, c.RankP, c.MeanP)
		}
		if (c.Verdict == Inconclusive) != (c.Reason != "") {
			t.Errorf("%s because of %q", c.Verdict, c.Reason)
		}
		if c.Line() == "" || c.A.Text(short) == "" {
			t.Error("nothing to print")
		}
		encode(t, CheckSelf(a, b, o))
		encode(t, Stopper{First: 1, Every: 1}.Compare(a, b, o))
		encode(t, Stopper{First: 1, Every: 1}.One(a.Values, a.Failed))
		encode(t, Inside(a.Values))
		covariate := [2][]float64{
			rapid.SliceOfN(anyValue(), len(a.Values), len(a.Values)).Draw(t, "covariate of a"),
			rapid.SliceOfN(anyValue(), len(b.Values), len(b.Values)).Draw(t, "covariate of b"),
		}
		encode(t, Explain(a.Values, b.Values, map[string][2][]float64{"x": covariate}))
		if len(a.Values) > 0 && len(b.Values) > 0 {
			encode(t, split(a.Values, b.Values, covariate[0], covariate[1]))
		}
		intervals := rapid.SliceOfN(rapid.SliceOfN(anyValue(), 6, 8), 5, 6).Draw(t, "intervals")
		encode(t, SuggestOmit(intervals))
	})
}

// With the sides exchanged p is the same, ratios are inverted, and a regression
// is an improvement.
func TestExchange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Map(rapid.IntRange(0, 5), func(i int) float64 { return float64(i) }),
			rapid.Float64Range(90, 110),
			rapid.Float64Range(94, 95),
		)
		a := Side{Values: rapid.SliceOfN(value, 0, 8).Draw(t, "a")}
		b := Side{Values: rapid.SliceOfN(value, 0, 8).Draw(t, "b")}
		if rapid.Bool().Draw(t, "in rounds") {
			a.Rounds, b.Rounds = seq(len(a.Values)), seq(len(b.Values))
		}
		there, back := judged(a, b, Options{}), judged(b, a, Options{})
		if there.P != back.P || there.RankP != back.RankP || there.MeanP != back.MeanP {
			t.Errorf("p %v %v %v, exchanged %v %v %v", there.P, there.RankP, there.MeanP, back.P, back.RankP, back.MeanP)
		}
		inverse := func(what string, x, y Effect) {
			if x.Ratio != nil && y.Ratio != nil && *x.Ratio > 0 {
				near2(t, what, *x.Ratio, 1 / *y.Ratio)
			}
			if (x.Narrow == nil) != (y.Narrow == nil) && len(a.Values) > 0 && *there.Mean.Ratio != 0 && back.Mean.Ratio != nil {
				t.Errorf("%s: intervals %v and %v", what, x.Narrow, y.Narrow)
			}
			if x.Interval != nil && y.Interval != nil && x.Interval.Low != nil && y.Interval.High != nil && *x.Interval.Low > 0 {
				near2(t, what+" low", *x.Interval.Low, 1 / *y.Interval.High)
			}
		}
		inverse("typical", there.Typical, back.Typical)
		if there.Mean.Ratio != nil && back.Mean.Ratio != nil {
			inverse("mean", there.Mean, back.Mean)
		}
		opposite := map[Verdict]Verdict{Regression: Improvement, Improvement: Regression, NoDifference: NoDifference, Inconclusive: Inconclusive}
		if back.Verdict != opposite[there.Verdict] {
			t.Errorf("verdict %s, exchanged %s", there.Verdict, back.Verdict)
		}
	})
}

func near2(t *rapid.T, what string, got, want float64) {
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// In another unit all is the same but the unit.
func TestScale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Whole numbers, so that ties stay ties, and differences stay above
		// rounding's.
		value := rapid.Map(rapid.IntRange(0, 30), func(i int) float64 { return float64(i) })
		a := rapid.SliceOfN(value, 0, 7).Draw(t, "a")
		b := rapid.SliceOfN(value, 0, 7).Draw(t, "b")
		by := rapid.SampledFrom([]float64{1e-9, 0.125, 3, 1e9, 1e200}).Draw(t, "by")
		scaled := func(values []float64) []float64 {
			s := slices.Clone(values)
			for i := range s {
				s[i] *= by
			}
			return s
		}
		small := judged(Side{Values: a}, Side{Values: b}, Options{})
		large := judged(Side{Values: scaled(a)}, Side{Values: scaled(b)}, Options{})
		if math.Abs(small.P-large.P) > 1e-9 || small.Verdict != large.Verdict || small.Reason != large.Reason {
			t.Errorf("p %v, %s, %q; scaled %v, %s, %q", small.P, small.Verdict, small.Reason, large.P, large.Verdict, large.Reason)
		}
		same := func(what string, x, y *float64, factor float64) {
			if (x == nil) != (y == nil) {
				t.Errorf("%s: %v, scaled %v", what, x, y)
			} else if x != nil && math.Abs(*x*factor-*y) > 1e-9*math.Abs(*y)+1e-12*factor {
				t.Errorf("%s: %v, scaled %v", what, *x, *y)
			}
		}
		same("typical", small.Typical.Ratio, large.Typical.Ratio, 1)
		same("mean", small.Mean.Ratio, large.Mean.Ratio, 1)
		same("MDE", small.MDEPercent, large.MDEPercent, 1)
		same("CV", small.A.CVPercent, large.A.CVPercent, 1)
		same("rspread", small.A.RSpreadPercent, large.A.RSpreadPercent, 1)
		same("median", small.A.Median, large.A.Median, by)
		same("mean of A", small.A.Mean, large.A.Mean, by)
		same("sd of A", small.A.SD, large.A.SD, by)
		if small.A.Word != large.A.Word {
			t.Errorf("word %s, scaled %s", small.A.Word, large.A.Word)
		}
	})
}
