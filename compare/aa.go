package compare

import (
	"fmt"
	"io"
	"slices"

	"gperf/internal/grid"
	"gperf/stats/sample"
	"gperf/trials"
)

// An AAReport is what comparing a configuration with itself found: whether the
// set-up sees differences that aren't there, and how small a change it can show.
type AAReport struct {
	Schema string        `json:"schema"` // AASchema
	Metric string        `json:"metric"`
	Unit   string        `json:"unit"`
	Better trials.Better `json:"better"`
	Alpha  float64       `json:"alpha"`
	Split  bool          `json:"split"` // one set of trials was dealt to both sides
	Cells  []*AACell     `json:"cells"`
	Failed int           `json:"failed"` // checks that found a difference
	Luck   float64       `json:"luck"`   // chance of so many or more in a sound set-up
	Sound  bool          `json:"sound"`
	Line   string        `json:"line"`
	Notes  []string      `json:"notes"`

	axes []string
}

// AASchema names the form of the JSON report of a self-check.
const AASchema = "gperf-selfcheck/1"

// unsound is the chance below which so many failed checks are not luck.
const unsound = 0.05

// An AACell is the check of one cell.
type AACell struct {
	At map[string]string `json:"cell"`
	*sample.SelfCheck
	Line string `json:"line"`

	key []string
}

// AA compares sides that are the same configuration. Without trials of B, those
// of A are dealt to both sides, as ABBA in the order in which they were started.
func AA(set *trials.Set, a, b Side, o Options) (*AAReport, error) {
	r := &AAReport{Schema: AASchema, Notes: slices.Clone(set.Notes), Split: len(b.Trials) == 0}
	of := &Report{}
	if len(a.Trials) == 0 {
		return nil, fmt.Errorf("%s: no trials", a.Name)
	}
	other := b
	if r.Split {
		other = a
	}
	if err := of.setMetric(set, a, other, o.Metric); err != nil {
		return nil, err
	}
	if _, err := of.setAxes(set, a, other, o.By); err != nil {
		return nil, err
	}
	pairs, err := of.match(a, other)
	if err != nil {
		return nil, err
	}
	o.Sample.LowerIsBetter = of.Better == trials.Lower
	r.Notes = append(r.Notes, o.fill(set, a, b)...)
	r.Metric, r.Unit, r.Better, r.Alpha, r.axes = of.Metric, of.Unit, of.Better, o.Sample.Alpha, of.axes
	m := measurer{set: set, metric: set.Index(of.Metric), rounds: map[round]int{}, o: o.Sample}
	sides := make([][2]sample.Side, len(pairs))
	for i, p := range pairs {
		if r.Split {
			sides[i] = m.deal(p.a)
		} else {
			sides[i] = [2]sample.Side{m.side(p.a), m.side(p.b)}
		}
	}
	r.Cells = make([]*AACell, len(pairs))
	each(len(pairs), func(i int) {
		c := &AACell{At: map[string]string{}, key: pairs[i].key, SelfCheck: sample.CheckSelf(sides[i][0], sides[i][1], o.Sample)}
		for k, axis := range r.axes {
			c.At[axis] = c.key[k]
		}
		c.Line = c.Comparison.Line()
		r.Cells[i] = c
	})
	for _, c := range r.Cells {
		if !c.Passed {
			r.Failed++
		}
	}
	r.Luck = sample.LuckOfChecks(r.Failed, len(r.Cells), r.Alpha)
	r.Sound = r.Failed == 0 || len(r.Cells) > 1 && r.Luck > unsound
	r.Line = r.conclusion()
	return r, nil
}

func (r *AAReport) conclusion() string {
	n := len(r.Cells)
	switch {
	case !r.told():
		return fmt.Sprintf("%d check%s: too few trials to find any difference", n, plural(n))
	case r.Failed == 0:
		return fmt.Sprintf("%d check%s: no difference was found where there is none", n, plural(n))
	case n == 1:
		return fmt.Sprintf("1 check, and it found a difference where there is none: one in %.0f does by luck; repeat it, and look for drift, slots and boots", 1/r.Alpha)
	case r.Sound:
		return fmt.Sprintf("%d checks: %d found a difference where there is none, as luck may have it (so many or more: %.0f %%)", n, r.Failed, 100*r.Luck)
	}
	return fmt.Sprintf("%d checks: %d found a difference where there is none, more than luck (so many or more: %.1f %%): the set-up is not sound, look for drift, slots and boots", n, r.Failed, 100*r.Luck)
}

// deal gives trials to two sides: of each two, one to each, first A, then B, then
// the other way round, so that neither a trend nor a place favours a side.
func (m *measurer) deal(all []*trials.Trial) [2]sample.Side {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *trials.Trial) int { return a.Started.Compare(b.Started) })
	var a, b []*trials.Trial
	for i, t := range sorted {
		if i%4 == 0 || i%4 == 3 {
			a = append(a, t)
		} else {
			b = append(b, t)
		}
	}
	sides := [2]sample.Side{m.side(a), m.side(b)}
	for i, half := range [][]*trials.Trial{a, b} {
		sides[i].Rounds = nil
		for k, t := range half {
			if _, ok := t.Value(m.metric); ok && t.OK() {
				sides[i].Rounds = append(sides[i].Rounds, k+1)
			}
		}
	}
	return sides
}

// Status is 1 if the set-up isn't sound, 125 if no cell had enough trials to tell,
// else 0.
func (r *AAReport) Status() int {
	switch {
	case !r.Sound:
		return StatusRegression
	case !r.told():
		return StatusInconclusive
	}
	return 0
}

// told reports whether any cell had enough trials to find a difference.
func (r *AAReport) told() bool {
	return slices.ContainsFunc(r.Cells, func(c *AACell) bool { return c.Comparison.Reason != sample.FewTrials })
}

// Write prints the report.
func (r *AAReport) Write(w io.Writer, format string, width int) error {
	if format == JSON {
		return writeJSON(w, r)
	}
	p := printer{markdown: format == Markdown, width: width}
	p.line("%s of one configuration compared with itself", r.Metric)
	p.blank()
	g := &grid.Grid{Keys: len(r.axes)}
	g.Head = [][]string{append(slices.Clone(r.axes), "n", "mean", "shows", "rounds agree", "drift", "second of a round", "verdict")}
	var warnings []string
	name := &Report{axes: r.axes}
	for _, c := range r.Cells {
		shows, icc, drift, slot := "—", "—", "—", "—"
		if v := c.Comparison.MDEPercent; v != nil {
			shows = fmt.Sprintf("%.1f %%", *v)
		}
		if v := c.Comparison.ICC; v != nil {
			icc = fmt.Sprintf("%.2f", *v)
		}
		if d := c.Drift; d != nil {
			drift = fmt.Sprintf("%.2f (p %.2g)", d.Rho, d.P)
		}
		if s := c.Slot; s != nil {
			slot = fmt.Sprintf("%s (p %.2g)", change(s.Ratio), s.P)
		}
		verdict := string(c.Comparison.Verdict)
		if c.Comparison.Reason == sample.FewTrials {
			verdict = "too few trials"
		}
		g.Body = append(g.Body, append(slices.Clone(c.key),
			fmt.Sprintf("%d+%d", c.Comparison.A.N, c.Comparison.B.N), change(c.Comparison.Mean.Ratio)+" "+interval(c.Comparison.Mean.Interval),
			shows, icc, drift, slot, verdict))
		for _, warning := range c.Warnings {
			warnings = append(warnings, name.cellName(c.key)+": "+warning)
		}
	}
	p.table(g)
	p.blank()
	p.line("mean: how far apart the sides' means look, which is the noise; shows: the smallest change that so many trials can show")
	p.line("%s", r.Line)
	p.list("Warnings:", warnings)
	p.list("Notes:", r.Notes)
	_, err := io.WriteString(w, p.b.String())
	return err
}
