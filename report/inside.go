package report

import (
	"fmt"
	"strconv"
	"strings"

	"gperf/stats/sample"
	"gperf/trials"
)

// insideColumns are what a trial's intervals say of it, for programs and for people.
var insideColumns = []struct{ name, title string }{
	{"intervals", "intervals"},
	{"interval_cv_percent", "their CV, %"},
	{"autocorrelation", "autocorrelation"},
	{"effective_intervals", "effective"},
}

// inside are the values of insideColumns, empty where they aren't known.
func inside(t *trials.Trial, people bool) []string {
	if len(t.Rates) == 0 {
		return make([]string, len(insideColumns))
	}
	s := sample.Inside(t.Rates)
	line := []string{strconv.Itoa(s.Intervals)}
	for _, v := range []*float64{s.CVPercent, s.Autocorrelation, s.EffectiveIntervals} {
		switch {
		case !people:
			line = append(line, number(v))
		case v == nil:
			line = append(line, noValue)
		default:
			line = append(line, strconv.FormatFloat(*v, 'f', 2, 64))
		}
	}
	return line
}

// beginnings says of the cells whose trials begin slower than they go on how much a
// warm-up should leave out. all is in the order of the cells.
func beginnings(all []*trials.Trial, axes []string) (notes []string) {
	for from := 0; from < len(all); {
		key := keyOf(all[from], axes)
		var rates [][]float64
		to := from
		for ; to < len(all) && compareKeys(keyOf(all[to], axes), key) == 0; to++ {
			if t := all[to]; t.OK() && len(t.Rates) > 0 {
				rates = append(rates, t.Rates)
			}
		}
		first := all[from]
		from = to
		o := sample.SuggestOmit(rates)
		if o == nil {
			continue
		}
		var at []string
		for i, axis := range axes {
			at = append(at, axis+"="+key[i])
		}
		cell := strings.Join(at, " ")
		if cell != "" {
			cell += ": "
		}
		of := ""
		if length := first.Plan["interval"]; length != "" {
			of = " of " + length + " s"
		}
		if o.TooShort {
			notes = append(notes, fmt.Sprintf("%sthe trials still get faster in their middle: they are too short to tell how much --warmup should leave out", cell))
			continue
		}
		notes = append(notes, fmt.Sprintf("%sthe first %d interval%s%s are %.1f %% slower than the rest: that much more --warmup, in all trials that are compared, leaves them out",
			cell, o.Intervals, plural(o.Intervals), of, o.BelowPercent))
	}
	return notes
}
