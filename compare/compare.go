// Package compare says what two sets of trials say about a change: cell by cell, with
// the trials of each cell as samples, and how likely each difference is to be luck. It
// also says what else differs between the two. The arithmetic is stats/sample's.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"gperf/stats/sample"
	"gperf/trials"
)

// Schema names the form of the JSON report.
const Schema = "gperf-compare/1"

// A Side is one of the two sets: A is the baseline, B the candidate.
type Side struct {
	Name   string // as the user named it: files, or a filter
	Trials []*trials.Trial
}

// Options say what is compared and what counts as a difference.
type Options struct {
	Metric  string         // of the set; empty: throughput, or else transactions
	By      []string       // axes that make the cells; nil: all
	Sample  sample.Options // its zero values are defaults; which way is better is the metric's
	Correct string         // BH or Holm; empty: BH
}

// The corrections for many cells.
const (
	BH   = "bh"
	Holm = "holm"
)

// A Report is a comparison, as its JSON form has it.
type Report struct {
	Schema     string         `json:"schema"`
	Metric     string         `json:"metric"`
	Unit       string         `json:"unit"`   // of the metric's values; empty: a count
	Better     trials.Better  `json:"better"` // higher or lower
	Alpha      float64        `json:"alpha"`
	Threshold  float64        `json:"threshold_percent"`
	Power      float64        `json:"power"`
	Correction string         `json:"correction"`
	A          SideReport     `json:"a"`
	B          SideReport     `json:"b"`
	Cells      []*Cell        `json:"cells"`
	OnlyA      []string       `json:"only_a"` // cells that B doesn't have
	OnlyB      []string       `json:"only_b"`
	Summary    sample.Summary `json:"summary"`
	Verdict    sample.Verdict `json:"verdict"` // of all cells
	Line       string         `json:"line"`    // the same in words
	Differs    []Difference   `json:"differences"`
	Notes      []string       `json:"notes"`

	metric trials.Metric
	axes   []string // of the cells
}

// SideReport is what there is to say of a side as a whole.
type SideReport struct {
	Name   string     `json:"name"`
	Trials int        `json:"trials"`
	Failed int        `json:"failed"`
	Boots  int        `json:"boots"` // 0: not known
	First  *time.Time `json:"first_started"`
	Last   *time.Time `json:"last_started"`
}

// A Cell is one comparison.
type Cell struct {
	At map[string]string `json:"cell"`
	*sample.Comparison
	Line         string               `json:"line"` // the verdict in words
	Explanations []sample.Explanation `json:"explanations"`
	Causes       []string             `json:"causes"` // the explanations in words

	key []string
}

// New compares two sides of a set.
func New(set *trials.Set, a, b Side, o Options) (*Report, error) {
	r := &Report{Schema: Schema, OnlyA: []string{}, OnlyB: []string{}, Notes: slices.Clone(set.Notes), Correction: cmp.Or(o.Correct, BH)}
	correct, err := correction(r.Correction)
	if err != nil {
		return nil, err
	}
	for _, s := range []*Side{&a, &b} {
		if len(s.Trials) == 0 {
			return nil, fmt.Errorf("%s: no trials", s.Name)
		}
	}
	if err := r.setMetric(set, a, b, o.Metric); err != nil {
		return nil, err
	}
	o.Sample.LowerIsBetter = r.Better == trials.Lower
	r.Notes = append(r.Notes, o.fill(set, a, b)...)
	r.Alpha, r.Threshold, r.Power = o.Sample.Alpha, 100*o.Sample.Threshold, o.Sample.Power
	r.A, r.B = a.report(), b.report()
	subject, err := r.setAxes(set, a, b, o.By)
	if err != nil {
		return nil, err
	}
	pairs, err := r.match(a, b)
	if err != nil {
		return nil, err
	}
	m := measurer{set: set, metric: set.Index(r.Metric), rounds: map[round]int{}, o: o.Sample}
	r.Cells = m.measure(pairs)
	comparisons := make([]*sample.Comparison, len(r.Cells))
	for i, c := range r.Cells {
		comparisons[i] = c.Comparison
	}
	sample.JudgeAll(comparisons, correct)
	m.explain(r, pairs)
	r.Summary = sample.Summarise(comparisons)
	r.conclude()
	r.Differs = differences(a, b, r.axes, subject)
	r.remark(a, b, pairs)
	return r, nil
}

// fill puts defaults for what wasn't asked for, and says which aren't the usual
// ones.
func (o *Options) fill(set *trials.Set, a, b Side) (notes []string) {
	if o.Sample.Alpha == 0 && (set.UntilPrecise(a.Trials) || set.UntilPrecise(b.Trials)) {
		o.Sample.Alpha = sample.FinalAlpha
		notes = append(notes, fmt.Sprintf("alpha is %g: trials ended once they were precise enough, and looking at them several times makes differences by chance likelier", o.Sample.Alpha))
	}
	o.Sample = o.Sample.Filled()
	return notes
}

func correction(name string) (sample.Correction, error) {
	switch name {
	case BH:
		return sample.BenjaminiHochberg, nil
	case Holm:
		return sample.Holm, nil
	}
	return nil, fmt.Errorf("unknown correction %q (known: %s, %s)", name, BH, Holm)
}

// setMetric chooses what is compared, and checks that both sides have it.
func (r *Report) setMetric(set *trials.Set, a, b Side, name string) error {
	names := []string{name}
	if name == "" {
		names = []string{"throughput", "transactions"}
	}
	for _, s := range []*Side{&a, &b} {
		if !slices.ContainsFunc(s.Trials, (*trials.Trial).OK) {
			return fmt.Errorf("%s: all %d trials failed: %s", s.Name, len(s.Trials), cmp.Or(s.Trials[0].Why, "no reason given"))
		}
	}
	var missing []string
	for _, name := range names {
		i := set.Index(name)
		if i < 0 {
			return fmt.Errorf("metric %q was not read", name)
		}
		knows := func(s *Side) bool {
			return slices.ContainsFunc(s.Trials, func(t *trials.Trial) bool { _, ok := t.Value(i); return ok && t.OK() })
		}
		switch of, than := knows(&a), knows(&b); {
		case of && than:
			r.metric = set.Metrics[i]
			r.Metric, r.Unit, r.Better = name, r.metric.Unit, r.metric.Better
			if r.Better == "" {
				return fmt.Errorf("%s is better neither higher nor lower: say %s:higher or %s:lower", name, name, name)
			}
			return nil
		case of:
			missing = append(missing, "only A has "+name)
		case than:
			missing = append(missing, "only B has "+name)
		default:
			missing = append(missing, "no trial has "+name)
		}
	}
	return errors.New("A and B have nothing to compare: " + strings.Join(missing, ", "))
}

func (s *Side) report() SideReport {
	r := SideReport{Name: s.Name, Trials: len(s.Trials)}
	boots := map[string]bool{}
	for _, t := range s.Trials {
		if !t.OK() {
			r.Failed++
		}
		if boot := t.Boot(); boot != "" {
			boots[boot] = true
		}
		if t.Started.IsZero() {
			continue
		}
		at := t.Started
		if r.First == nil || at.Before(*r.First) {
			r.First = &at
		}
		if r.Last == nil || at.After(*r.Last) {
			r.Last = &at
		}
	}
	r.Boots = len(boots)
	return r
}

// valuesOf are the values that trials have of an axis; one that they don't have is
// the empty one.
func valuesOf(all []*trials.Trial, axis string) map[string]bool {
	values := map[string]bool{}
	for _, t := range all {
		v, _ := t.Get(axis)
		values[v] = true
	}
	return values
}

// setAxes chooses the axes that make the cells. What has one value on each side,
// and not the same, is what is compared, not where.
func (r *Report) setAxes(set *trials.Set, a, b Side, by []string) (subject []string, err error) {
	all := slices.Concat(a.Trials, b.Trials)
	for _, axis := range by {
		if !slices.ContainsFunc(all, func(t *trials.Trial) bool { _, ok := t.Get(axis); return ok }) {
			return nil, fmt.Errorf("no trial has an axis %q (axes: %s)", axis, cmp.Or(strings.Join(set.Axes(), ", "), "none"))
		}
	}
	axes := by
	if by == nil {
		axes = set.Axes()
	}
	for _, axis := range axes {
		of, than := valuesOf(a.Trials, axis), valuesOf(b.Trials, axis)
		switch {
		case len(of) == 1 && len(than) == 1 && !maps.Equal(of, than):
			subject = append(subject, axis)
		case len(of) > 1 || len(than) > 1 || by != nil:
			r.axes = append(r.axes, axis)
		}
	}
	return subject, nil
}

// A pair is the trials of one cell.
type pair struct {
	key  []string
	a, b []*trials.Trial
}

// match puts the trials of both sides into their cells.
func (r *Report) match(a, b Side) ([]*pair, error) {
	cells := map[string]*pair{}
	var all []*pair
	put := func(t *trials.Trial) *pair {
		key := make([]string, len(r.axes))
		for i, axis := range r.axes {
			key[i], _ = t.Get(axis)
		}
		id := fmt.Sprintf("%q", key)
		if cells[id] == nil {
			cells[id] = &pair{key: key}
			all = append(all, cells[id])
		}
		return cells[id]
	}
	for _, t := range a.Trials {
		p := put(t)
		p.a = append(p.a, t)
	}
	for _, t := range b.Trials {
		p := put(t)
		p.b = append(p.b, t)
	}
	slices.SortStableFunc(all, func(x, y *pair) int {
		for i := range x.key {
			if c := trials.CompareValues(x.key[i], y.key[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	var common []*pair
	for _, p := range all {
		switch {
		case p.b == nil:
			r.OnlyA = append(r.OnlyA, r.cellName(p.key))
		case p.a == nil:
			r.OnlyB = append(r.OnlyB, r.cellName(p.key))
		default:
			common = append(common, p)
		}
	}
	if len(common) > 0 {
		return common, nil
	}
	var apart []string
	for _, axis := range r.axes {
		of, than := valuesOf(a.Trials, axis), valuesOf(b.Trials, axis)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(of)), func(v string) bool { return than[v] }) {
			apart = append(apart, fmt.Sprintf("%s is %s in A, %s in B", axis, few(of), few(than)))
		}
	}
	if len(apart) == 0 {
		apart = []string{"A has " + r.OnlyA[0] + ", B has " + r.OnlyB[0]}
	}
	return nil, errors.New("A and B have no cell in common: " + strings.Join(apart, "; ") + " (--by AXES chooses by what cells are matched)")
}

// few lists some values.
func few(values map[string]bool) string {
	all := slices.SortedFunc(maps.Keys(values), trials.CompareValues)
	for i, v := range all {
		all[i] = cmp.Or(v, "—")
	}
	if len(all) > 6 {
		all = append(all[:5], fmt.Sprintf("and %d more", len(all)-5))
	}
	return strings.Join(all, ", ")
}

// cellName is a cell as sentences name it.
func (r *Report) cellName(key []string) string {
	if len(key) == 0 {
		return "the one cell"
	}
	parts := make([]string, len(key))
	for i, axis := range r.axes {
		parts[i] = axis + "=" + cmp.Or(key[i], "—")
	}
	return strings.Join(parts, " ")
}

// A round is that of one sweep. Of different sweeps none are one.
type round struct {
	sweep string
	n     int
}

// A measurer makes comparisons of trials.
type measurer struct {
	set    *trials.Set
	metric int
	rounds map[round]int
	o      sample.Options
}

// goroutines at once, since a comparison of many trials takes a tenth of a second.
const goroutines = 4

// measure compares each pair.
func (m *measurer) measure(pairs []*pair) []*Cell {
	cells := make([]*Cell, len(pairs))
	sides := make([][2]sample.Side, len(pairs))
	for i, p := range pairs {
		sides[i] = [2]sample.Side{m.side(p.a), m.side(p.b)}
	}
	each(len(pairs), func(i int) {
		cells[i] = &Cell{key: pairs[i].key, Comparison: sample.Measure(sides[i][0], sides[i][1], m.o), Explanations: []sample.Explanation{}, Causes: []string{}}
	})
	return cells
}

func each(n int, do func(int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(goroutines, n) {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// samples are the trials that have a value.
func (m *measurer) samples(all []*trials.Trial) []*trials.Trial {
	return slices.DeleteFunc(slices.Clone(all), func(t *trials.Trial) bool {
		_, ok := t.Value(m.metric)
		return !ok || !t.OK()
	})
}

func (m *measurer) side(all []*trials.Trial) sample.Side {
	samples := m.samples(all)
	s := sample.Side{Failed: len(all) - len(samples)}
	hasRounds, hasBoots, hasStarts := true, true, true
	for _, t := range samples {
		v, _ := t.Value(m.metric)
		s.Values = append(s.Values, v)
		if t.Place == nil || t.Place.Round == 0 {
			hasRounds = false
		} else {
			at := round{t.Place.ID, t.Place.Round}
			if m.rounds[at] == 0 {
				m.rounds[at] = len(m.rounds) + 1
			}
			s.Rounds = append(s.Rounds, m.rounds[at])
		}
		s.Boots = append(s.Boots, t.Boot())
		hasBoots = hasBoots && t.Boot() != ""
		s.Starts = append(s.Starts, float64(t.Started.UnixNano())/1e9)
		hasStarts = hasStarts && !t.Started.IsZero()
	}
	if !hasRounds {
		s.Rounds = nil
	}
	if !hasBoots {
		s.Boots = nil
	}
	if !hasStarts {
		s.Starts = nil
	}
	return s
}

// explain looks for what goes with the values in the cells that are not shown to
// be equal.
func (m *measurer) explain(r *Report, pairs []*pair) {
	each(len(pairs), func(i int) {
		c := r.Cells[i]
		c.At = map[string]string{}
		for k, axis := range r.axes {
			c.At[axis] = c.key[k]
		}
		c.Line = c.Comparison.Line()
		if c.Verdict == sample.NoDifference {
			return
		}
		a, b := m.samples(pairs[i].a), m.samples(pairs[i].b)
		own, _ := valuesIn(a, m.metric)
		other, _ := valuesIn(b, m.metric)
		covariates := map[string][2][]float64{}
		// What is the same for one stream (the mean RTT, and the largest) is told once.
		seen := [][2][]float64{{own, other}}
		for k, metric := range m.set.Metrics {
			if metric.Same(m.set.Metrics[m.metric]) {
				continue
			}
			of, ok := valuesIn(a, k)
			than, ok2 := valuesIn(b, k)
			if ok && ok2 && !slices.ContainsFunc(seen, func(x [2][]float64) bool { return slices.Equal(x[0], of) && slices.Equal(x[1], than) }) {
				covariates[metric.Name] = [2][]float64{of, than}
				seen = append(seen, covariates[metric.Name])
			}
		}
		for _, end := range []string{"client", "server"} {
			if _, ok := covariates[end+"-cpu"]; ok {
				delete(covariates, end+"-thread") // nearly the same
			}
		}
		c.Explanations = append(c.Explanations, sample.Explain(own, other, covariates)...)
		for k := range c.Explanations {
			if k < mostCauses {
				c.Causes = append(c.Causes, m.cause(&c.Explanations[k])...)
			}
		}
	})
}

// mostCauses is how many explanations are put in words.
const mostCauses = 3

// valuesIn are the trials' values of a metric, if all have one.
func valuesIn(all []*trials.Trial, metric int) ([]float64, bool) {
	values := make([]float64, len(all))
	for i, t := range all {
		v, ok := t.Value(metric)
		if !ok {
			return nil, false
		}
		values[i] = v
	}
	return values, true
}

// cause says an explanation in words.
func (m *measurer) cause(e *sample.Explanation) []string {
	metric := m.set.Metrics[m.metric]
	covariate := m.set.Metrics[m.set.Index(e.Name)]
	var means []float64
	for _, v := range []*float64{e.MeanA, e.MeanB} {
		if v != nil {
			means = append(means, *v)
		}
	}
	own := trials.ScaleFor(covariate, means)
	had := ""
	if len(means) == 2 {
		had = fmt.Sprintf("A had %s, B %s (rank p %.2g)", own.WithUnit(means[0]), own.WithUnit(means[1]), e.DiffersP)
	}
	s := e.Split
	if s == nil {
		return []string{strings.TrimSuffix(fmt.Sprintf("%s goes with %s inside the sides (rho %.2f): %s", e.Name, metric.Name, e.Rho, had), ": ")}
	}
	scale := trials.ScaleFor(metric, []float64{s.Total, s.Via, s.Direct})
	unit := 1 / own.In(1) // of the covariate, as it's shown
	slope := trials.ScaleFor(metric, []float64{s.Slope * unit})
	about := strings.TrimSpace(fmt.Sprintf("about %s for each %s", signed(slope, s.Slope*unit), own.Unit))
	var around sample.Range
	if i := s.SlopeInterval; i != nil && i.Low != nil && i.High != nil {
		around = sample.Range{Low: new(*i.Low * unit), High: new(*i.High * unit)}
	}
	text := []string{
		fmt.Sprintf("%s explains %.1f %% of the variance inside the sides (rho %.2f): %s%s", e.Name, 100*s.R2, e.Rho, about, bounds(slope, &around)),
		fmt.Sprintf("%s: that accounts for %s of %s", had, signed(scale, s.Via), signed(scale, s.Total)),
		fmt.Sprintf("at equal %s the difference is %s%s", e.Name, signed(scale, s.Direct), bounds(scale, s.DirectInterval)),
	}
	return text
}

func signed(s trials.Scale, v float64) string {
	if v > 0 {
		return "+" + s.WithUnit(v)
	}
	return s.WithUnit(v)
}

func bounds(s trials.Scale, r *sample.Range) string {
	if r == nil || r.Low == nil || r.High == nil {
		return ""
	}
	return fmt.Sprintf(" [%s, %s]", s.Format(*r.Low), s.Format(*r.High))
}

// conclude sums the cells up.
func (r *Report) conclude() {
	s := r.Summary
	switch {
	case s.Regression > 0:
		r.Verdict = sample.Regression
	case s.Inconclusive > 0:
		r.Verdict = sample.Inconclusive
	case s.Improvement > 0:
		r.Verdict = sample.Improvement
	default:
		r.Verdict = sample.NoDifference
	}
	if len(r.Cells) == 1 {
		r.Line = r.Cells[0].Line
		return
	}
	r.Line = fmt.Sprintf("%d cells: %d regression, %d improvement, %d no difference, %d inconclusive", s.Cells, s.Regression, s.Improvement, s.NoDifference, s.Inconclusive)
	if s.GeomeanRatio != nil {
		r.Line += fmt.Sprintf("; geomean of mean ratios %.3f", *s.GeomeanRatio)
	}
}

// remark says what concerns the comparison as a whole, once.
func (r *Report) remark(a, b Side, pairs []*pair) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if len(r.Cells) > 1 {
		common := slices.Clone(r.Cells[0].Notes)
		for _, c := range r.Cells[1:] {
			common = slices.DeleteFunc(common, func(n string) bool { return !slices.Contains(c.Notes, n) })
		}
		r.Notes = append(r.Notes, common...)
		for _, c := range r.Cells {
			c.Notes = slices.DeleteFunc(c.Notes, func(n string) bool { return slices.Contains(common, n) })
		}
	}
	for _, only := range []struct {
		side  string
		cells []string
	}{{"A", r.OnlyA}, {"B", r.OnlyB}} {
		if n := len(only.cells); n > 0 {
			shown := only.cells[:min(n, 3)]
			more := ""
			if n > 3 {
				more = fmt.Sprintf(" and %d more", n-3)
			}
			note("only %s has %s%s", only.side, strings.Join(shown, "; "), more)
		}
	}
	single := true
	for _, p := range pairs {
		single = single && len(p.a) == 1 && len(p.b) == 1
	}
	if single && len(pairs) > 1 {
		note("every cell has one trial per side: if a label numbers the trials, --by AXES leaves it out")
	}
	for _, s := range []struct {
		name   string
		trials []*trials.Trial
	}{{"A", a.Trials}, {"B", b.Trials}} {
		doubted, total := 0, 0
		for _, t := range s.trials {
			if t.OK() {
				total++
				if !t.Trusted {
					doubted++
				}
			}
		}
		if doubted > 0 {
			note("%s: %d of %d trials have a reason not to be trusted", s.name, doubted, total)
		}
	}
	if fewest := sample.FewestPerSide(len(r.Cells), r.Alpha); len(r.Cells) > 1 {
		for _, c := range r.Cells {
			if c.Unit == sample.UnitTrial && min(c.SamplesA, c.SamplesB) < fewest && c.Verdict == sample.Inconclusive {
				note("a single changed cell among %d is found with %d trials per side or more", len(r.Cells), fewest)
				break
			}
		}
	}
}

// Exit statuses of a comparison. Those of a bisect are git bisect run's: 125 is
// "can't be tested", and 128 ends it.
const (
	StatusRegression   = 1
	StatusInconclusive = 125
	StatusError        = 128
)

// Status is the exit status that the comparison stands for: 1 if any cell
// regressed, else 125 if any is inconclusive, else 0.
func (r *Report) Status() int {
	switch {
	case r.Summary.Regression > 0:
		return StatusRegression
	case r.Summary.Inconclusive > 0:
		return StatusInconclusive
	}
	return 0
}

// change shows a ratio as a change in percent.
func change(ratio *float64) string {
	if ratio == nil {
		return "—"
	}
	return percentage(*ratio)
}

func percentage(ratio float64) string {
	p := 100 * (ratio - 1)
	switch {
	case p > 999:
		return fmt.Sprintf("x%.0f", ratio)
	case math.Abs(p) < 0.05:
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", p)
}

// interval shows the interval of a ratio in percent.
func interval(r *sample.Range) string {
	if r == nil {
		return "[unbounded]"
	}
	end := func(v *float64) string {
		if v == nil {
			return "∞"
		}
		return strings.TrimSuffix(percentage(*v), " %")
	}
	return "[" + end(r.Low) + ", " + end(r.High) + "]"
}
