// Package report shows trials as tables: each cell the trials of one
// configuration, with their median and, by rule, whether it can be relied on; or
// every trial by itself. It reads nothing and decides on nothing.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gperf/internal/grid"
	"gperf/stats/sample"
	"gperf/trials"
)

// A Spec is what a table is to show.
type Spec struct {
	Rows, Cols []string // axes, labels or settings of the plan
	Values     []string // metrics of the set, by name; at least one
}

// A Table is a pivot of trials.
type Table struct {
	Spec
	metrics []trials.Metric
	scales  []trials.Scale
	rows    []key
	cols    []key
	cells   map[[2]string]*cell
	notes   []string
	few     bool // all cells have too few trials for a word
	each    int  // trials of each cell that has any, 0 if they differ
}

// A key is the values of several axes.
type key []string

func (k key) id() string { return fmt.Sprintf("%q", []string(k)) }

// A cell is the trials of one place in the table.
type cell struct {
	values  [][]float64 // by metric, in the order in which the trials were started
	failed  int
	unknown []int // by metric: trials that are samples and don't have it
	stalls  int   // trials with a stall
	are     []sample.Cell
}

// noValue stands for an axis that a trial doesn't have.
const noValue = "—"

// New makes the table of a set's trials.
func New(set *trials.Set, spec Spec) (*Table, error) {
	t := &Table{Spec: spec, cells: map[[2]string]*cell{}, notes: slices.Clone(set.Notes)}
	if len(set.Trials) == 0 {
		return nil, errors.New("no trials")
	}
	index, err := t.find(set)
	if err != nil {
		return nil, err
	}
	stalls := set.Index("stalls")
	seen := [2]map[string]bool{{}, {}}
	for _, trial := range byStart(set.Trials) {
		row, col := keyOf(trial, spec.Rows), keyOf(trial, spec.Cols)
		at := [2]string{row.id(), col.id()}
		if !seen[0][at[0]] {
			seen[0][at[0]] = true
			t.rows = append(t.rows, row)
		}
		if !seen[1][at[1]] {
			seen[1][at[1]] = true
			t.cols = append(t.cols, col)
		}
		c := t.cells[at]
		if c == nil {
			c = &cell{values: make([][]float64, len(index)), unknown: make([]int, len(index))}
			t.cells[at] = c
		}
		if !trial.OK() {
			c.failed++
			continue
		}
		if n, ok := trial.Value(stalls); stalls >= 0 && ok && n > 0 {
			c.stalls++
		}
		for i, k := range index {
			if v, ok := trial.Value(k); ok {
				c.values[i] = append(c.values[i], v)
			} else {
				c.unknown[i]++
			}
		}
	}
	slices.SortStableFunc(t.rows, compareKeys)
	slices.SortStableFunc(t.cols, compareKeys)
	t.describe()
	t.few, t.each = t.tooFew(), t.trialsEach()
	t.remark(set)
	return t, nil
}

// find checks what the table is of, and returns the numbers of its metrics.
func (t *Table) find(set *trials.Set) ([]int, error) {
	var index []int
	for _, name := range t.Values {
		i := set.Index(name)
		if i < 0 {
			return nil, fmt.Errorf("metric %q was not read", name)
		}
		index = append(index, i)
		t.metrics = append(t.metrics, set.Metrics[i])
	}
	if len(index) == 0 {
		return nil, errors.New("no metric to show")
	}
	for i, name := range slices.Concat(t.Rows, t.Cols) {
		if slices.Contains(slices.Concat(t.Rows, t.Cols)[:i], name) {
			return nil, fmt.Errorf("axis %q is asked for twice", name)
		}
		if !slices.ContainsFunc(set.Trials, func(trial *trials.Trial) bool { _, ok := trial.Get(name); return ok }) {
			return nil, fmt.Errorf("no trial has an axis %q (axes: %s)", name, listed(set.Axes()))
		}
	}
	return index, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// byStart are trials in the order in which they were started, as far as that is
// known.
func byStart(all []*trials.Trial) []*trials.Trial {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *trials.Trial) int { return a.Started.Compare(b.Started) })
	return sorted
}

func keyOf(trial *trials.Trial, axes []string) key {
	k := make(key, len(axes))
	for i, axis := range axes {
		v, ok := trial.Get(axis)
		if !ok {
			v = noValue
		}
		k[i] = v
	}
	return k
}

func compareKeys(a, b key) int {
	for i := range a {
		if c := trials.CompareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// describe finds the cells' figures, and the units in which to show them.
func (t *Table) describe() {
	for i, m := range t.metrics {
		var medians []float64
		for _, c := range t.cells {
			d := sample.Describe(c.values[i], c.failed)
			c.are = append(c.are, d)
			if d.Median != nil {
				medians = append(medians, *d.Median)
			}
		}
		t.scales = append(t.scales, trials.ScaleFor(m, medians))
	}
}

// remark says what the table doesn't show.
func (t *Table) remark(set *trials.Set) {
	var mixed []string
	for _, axis := range set.Axes() {
		if slices.Contains(t.Rows, axis) || slices.Contains(t.Cols, axis) {
			continue
		}
		values := map[string]bool{}
		for _, trial := range set.Trials {
			v, _ := trial.Get(axis)
			values[v] = true
		}
		if len(values) > 1 {
			mixed = append(mixed, fmt.Sprintf("%s (%d values)", axis, len(values)))
		}
	}
	if len(mixed) > 0 {
		t.notes = append(t.notes, "each cell mixes all of "+strings.Join(mixed, ", "))
	}
	if t.few {
		t.notes = append(t.notes, "fewer than 5 trials in every cell: nothing is said of how far they can be relied on")
	}
	for i, m := range t.metrics {
		unknown, known := 0, 0
		for _, c := range t.cells {
			unknown += c.unknown[i]
			known += len(c.values[i])
		}
		switch {
		case known == 0:
			t.notes = append(t.notes, fmt.Sprintf("no trial has a value of %s", m.Name))
		case unknown > 0:
			t.notes = append(t.notes, fmt.Sprintf("%d trial%s without a value of %s", unknown, plural(unknown), m.Name))
		}
	}
}

// tooFew reports whether all cells are.
func (t *Table) tooFew() bool {
	for _, c := range t.cells {
		for _, d := range c.are {
			if d.Word != sample.TooFew {
				return false
			}
		}
	}
	return true
}

// trialsEach is how many trials each cell has that has any, 0 if they differ.
func (t *Table) trialsEach() int {
	each := -1
	for _, row := range t.rows {
		for _, col := range t.cols {
			c := t.cells[[2]string{row.id(), col.id()}]
			if c == nil {
				continue
			}
			if n := c.trials(); each >= 0 && n != each {
				return 0
			}
			each = c.trials()
		}
	}
	return max(each, 0)
}

func (c *cell) trials() int {
	n := c.failed
	if len(c.values) > 0 {
		n += len(c.values[0]) + c.unknown[0]
	}
	return n
}

// text is what the table shows of a cell.
func (t *Table) text(c *cell, i int) string {
	if c == nil {
		return ""
	}
	d := c.are[i]
	s := d.Text(t.scales[i].Format)
	if d.Word == sample.TooFew && d.N > 0 && t.few {
		s = t.scales[i].Format(*d.Median)
	}
	if c.failed > 0 {
		s += fmt.Sprintf(", %d failed", c.failed)
	}
	if c.stalls > 0 {
		s += fmt.Sprintf(", %d stalled", c.stalls)
	}
	if t.each == 0 {
		s += fmt.Sprintf(", n=%d", d.N)
	}
	return s
}

// title is what a metric's values are.
func (t *Table) title(i int) string {
	if t.scales[i].Unit == "" {
		return t.metrics[i].Name
	}
	return t.metrics[i].Name + ", " + t.scales[i].Unit
}

// grid is the pivot. Of several values each has its columns together, for they are
// what is to be compared.
func (t *Table) grid() *grid.Grid {
	g := &grid.Grid{Keys: len(t.Rows)}
	if len(t.metrics) > 1 || len(t.Cols) == 0 {
		line := make([]string, len(t.Rows))
		for i := range t.metrics {
			for range t.cols {
				line = append(line, t.title(i))
			}
		}
		g.Head = append(g.Head, line)
	}
	for j, axis := range t.Cols {
		line := make([]string, len(t.Rows))
		for range t.metrics {
			for _, col := range t.cols {
				line = append(line, axis+"="+col[j])
			}
		}
		g.Head = append(g.Head, line)
	}
	copy(g.Head[len(g.Head)-1], t.Rows)
	for _, row := range t.rows {
		line := slices.Clone([]string(row))
		for i := range t.metrics {
			for _, col := range t.cols {
				line = append(line, t.text(t.cells[[2]string{row.id(), col.id()}], i))
			}
		}
		g.Body = append(g.Body, line)
	}
	return g
}

// caption says what the cells are.
func (t *Table) caption() string {
	s := "median"
	if n := t.each; n > 0 {
		s += fmt.Sprintf(" of %d trial%s", n, plural(n))
	}
	if len(t.metrics) == 1 && len(t.Cols) > 0 {
		return t.title(0) + ": " + s
	}
	return s
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// The formats of tables.
const (
	Text     = "text"
	Markdown = "markdown"
	CSV      = "csv"
	TSV      = "tsv"
)

// Formats are their names, the default first.
var Formats = []string{Text, Markdown, CSV, TSV}

// Write prints the table. Text has no lines longer than width, if that's possible.
// CSV and TSV have a line for each cell and value, with its figures in the
// metric's own unit.
func (t *Table) Write(w io.Writer, format string, width int) error {
	switch format {
	case CSV:
		return t.long().Separated(w, ',')
	case TSV:
		return t.long().Separated(w, '\t')
	}
	return printed(w, format, width, t.caption(), t.grid(), t.notes)
}

// printed prints a table for people, and what there is to say of it.
func printed(w io.Writer, format string, width int, caption string, g *grid.Grid, notes []string) error {
	var b strings.Builder
	if caption != "" {
		b.WriteString(grid.Plain(caption) + "\n\n")
	}
	if format == Markdown {
		b.WriteString(g.Markdown())
	} else {
		b.WriteString(g.Text(width))
	}
	for i, note := range notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		if format == Markdown {
			b.WriteString("- ")
		}
		b.WriteString(grid.Plain(note) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// dropEmpty drops the columns in which no line has anything.
func dropEmpty(g *grid.Grid) {
	for j := len(g.Head[0]) - 1; j >= 0; j-- {
		if slices.ContainsFunc(g.Body, func(line []string) bool { return line[j] != "" }) {
			continue
		}
		for _, lines := range [][][]string{g.Head, g.Body} {
			for i := range lines {
				lines[i] = slices.Delete(lines[i], j, j+1)
			}
		}
		right := map[int]bool{}
		for k := range g.Right {
			switch {
			case k < j:
				right[k] = true
			case k > j:
				right[k-1] = true
			}
		}
		g.Right = right
	}
}

// long has a line for each cell and value.
func (t *Table) long() *grid.Grid {
	head := slices.Concat(t.Rows, t.Cols, []string{
		"metric", "unit", "trials", "n", "failed", "unknown", "stalled", "word", "median", "mean", "sd", "cv_percent", "rspread_percent", "min", "max", "outliers",
		"mode_low", "mode_low_n", "mode_high", "mode_high_n",
	})
	g := &grid.Grid{Head: [][]string{head}}
	for _, row := range t.rows {
		for _, col := range t.cols {
			c := t.cells[[2]string{row.id(), col.id()}]
			if c == nil {
				continue
			}
			for i, m := range t.metrics {
				d := c.are[i]
				line := slices.Concat(row, col, []string{
					m.Name, m.Unit, strconv.Itoa(c.trials()), strconv.Itoa(d.N), strconv.Itoa(c.failed), strconv.Itoa(c.unknown[i]), strconv.Itoa(c.stalls), string(d.Word),
					number(d.Median), number(d.Mean), number(d.SD), number(d.CVPercent), number(d.RSpreadPercent), number(d.Min), number(d.Max), strconv.Itoa(len(d.Outliers)),
				})
				modes := []string{"", "", "", ""}
				for k, mode := range d.Modes[:min(len(d.Modes), 2)] {
					modes[2*k], modes[2*k+1] = number(&mode.Mean), strconv.Itoa(mode.N)
				}
				g.Body = append(g.Body, append(line, modes...))
			}
		}
	}
	return g
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// Detail prints every trial, in the order of the cells and in each in that of the
// starts.
func (t *Table) Detail(w io.Writer, set *trials.Set, format string) error {
	axes := slices.Concat(t.Rows, t.Cols)
	for _, axis := range set.Axes() {
		if !slices.Contains(axes, axis) {
			axes = append(axes, axis)
		}
	}
	all := byStart(set.Trials)
	slices.SortStableFunc(all, func(a, b *trials.Trial) int { return compareKeys(keyOf(a, axes), keyOf(b, axes)) })
	index, err := (&Table{Spec: t.Spec}).find(set)
	if err != nil {
		return err
	}
	people := format != CSV && format != TSV
	head := slices.Concat(axes, []string{"round", "slot", "started"})
	g := &grid.Grid{Right: map[int]bool{}}
	for i, m := range t.metrics {
		g.Right[len(head)] = people
		switch {
		case people:
			head = append(head, t.title(i))
		default:
			head = append(head, m.Name)
		}
	}
	for _, c := range insideColumns {
		g.Right[len(head)] = people
		if people {
			head = append(head, c.title)
		} else {
			head = append(head, c.name)
		}
	}
	g.Head = [][]string{append(head, "status", "source", "why")}
	for _, trial := range all {
		round, slot, started := "", "", ""
		if p := trial.Place; p != nil {
			round, slot = strconv.Itoa(p.Round), strconv.Itoa(p.Slot)
		}
		if !trial.Started.IsZero() {
			started = trial.Started.Format(time.RFC3339)
		}
		line := slices.Concat(keyOf(trial, axes), []string{round, slot, started})
		for i, k := range index {
			v, ok := trial.Value(k)
			switch {
			case !ok && people:
				line = append(line, noValue)
			case !ok:
				line = append(line, "")
			case people:
				line = append(line, t.scales[i].Format(v))
			default:
				line = append(line, number(&v))
			}
		}
		line = append(line, inside(trial, people)...)
		g.Body = append(g.Body, append(line, cmp.Or(string(trial.Status), "?"), trial.Source(), trial.Why))
	}
	switch format {
	case CSV:
		return g.Separated(w, ',')
	case TSV:
		return g.Separated(w, '\t')
	}
	dropEmpty(g)
	// Lines are not broken: programs cut them, too.
	return printed(w, format, math.MaxInt, "", g, slices.Concat(t.notes, beginnings(all, axes)))
}
