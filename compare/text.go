package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gperf/internal/grid"
	"gperf/stats/sample"
	"gperf/trials"
)

// The formats of a report.
const (
	Text     = "text"
	Markdown = "markdown"
	JSON     = "json"
)

// Formats are their names, the default first.
var Formats = []string{Text, Markdown, JSON}

// Write prints the report. Text has no lines of tables longer than width, if
// that's possible.
func (r *Report) Write(w io.Writer, format string, width int) error {
	if format == JSON {
		return writeJSON(w, r)
	}
	p := printer{markdown: format == Markdown, width: width}
	r.head(&p)
	if len(r.Cells) == 1 {
		r.one(&p, r.Cells[0])
	} else {
		r.many(&p)
	}
	r.foot(&p)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// A printer gathers a text for people.
type printer struct {
	b        strings.Builder
	markdown bool
	width    int
}

func (p *printer) line(format string, args ...any) {
	p.b.WriteString(grid.Plain(fmt.Sprintf(format, args...)) + "\n")
}

func (p *printer) blank() { p.b.WriteByte('\n') }

func (p *printer) table(g *grid.Grid) {
	if p.markdown {
		p.b.WriteString(g.Markdown())
		return
	}
	p.b.WriteString(g.Text(p.width))
}

// list prints sentences, one a line.
func (p *printer) list(title string, sentences []string) {
	if len(sentences) == 0 {
		return
	}
	p.blank()
	p.line("%s", title)
	if p.markdown {
		p.blank()
	}
	for _, s := range sentences {
		if p.markdown {
			p.line("- %s", s)
		} else {
			p.line("  %s", s)
		}
	}
}

func (r *Report) head(p *printer) {
	p.line("%s, better %s; B against A", r.Metric, r.Better)
	p.blank()
	for _, s := range []struct {
		name string
		SideReport
	}{{"A", r.A}, {"B", r.B}} {
		text := fmt.Sprintf("%s  %s: %d trial%s", s.name, s.SideReport.Name, s.Trials, plural(s.Trials))
		if s.Failed > 0 {
			text += fmt.Sprintf(", %d failed", s.Failed)
		}
		if s.Boots > 0 {
			text += fmt.Sprintf(", %d boot%s", s.Boots, plural(s.Boots))
		}
		if s.First != nil {
			text += ", " + s.First.Format(time.DateTime) + " to " + s.Last.Format(time.DateTime)
		}
		if p.markdown {
			text = "- " + text
		}
		p.line("%s", text)
	}
	p.blank()
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// scale suits the medians of all cells.
func (r *Report) scale() trials.Scale {
	var medians []float64
	for _, c := range r.Cells {
		for _, m := range []*float64{c.A.Median, c.B.Median} {
			if m != nil {
				medians = append(medians, *m)
			}
		}
	}
	return trials.ScaleFor(r.metric, medians)
}

// one shows the only cell in full.
func (r *Report) one(p *printer, c *Cell) {
	scale := r.scale()
	value := func(v *float64) string {
		if v == nil {
			return "—"
		}
		return scale.Format(*v)
	}
	g := &grid.Grid{Keys: 1, Head: [][]string{{"", "n", "failed", "mean", "geomean", "median", "interval", "CV", "word"}}}
	for _, side := range []struct {
		name string
		cell *sample.Cell
	}{{"A", &c.A}, {"B", &c.B}} {
		d := side.cell
		where, cv, word := "—", "—", string(d.Word)
		if i := d.MedianInterval; i != nil {
			where = fmt.Sprintf("[%s, %s] %.1f %%", scale.Format(i.Low), scale.Format(i.High), 100*i.Level)
		}
		if d.CVPercent != nil {
			cv = fmt.Sprintf("%.1f %%", *d.CVPercent)
		}
		if d.Word == sample.Bimodal {
			word += " " + d.Text(scale.Format)
		}
		if n := len(d.Outliers); n > 0 {
			word += fmt.Sprintf(", %d outlier%s", n, plural(n))
		}
		g.Body = append(g.Body, []string{side.name, fmt.Sprint(d.N), fmt.Sprint(d.Failed), value(d.Mean), value(d.Geomean), value(d.Median), where, cv, word})
	}
	if scale.Unit != "" {
		g.Head[0][0] = scale.Unit
	}
	p.table(g)
	p.blank()
	lines := []string{
		fmt.Sprintf("B/A      typical %s %s   mean %s %s", change(c.Typical.Ratio), interval(c.Typical.Interval), change(c.Mean.Ratio), interval(c.Mean.Interval)),
		fmt.Sprintf("p        %.2g (rank %.2g, mean %.2g)", c.P, c.RankP, c.MeanP),
		"verdict  " + c.Line,
	}
	for _, line := range lines {
		if p.markdown {
			line = "- " + strings.Join(strings.Fields(line), " ")
		}
		p.line("%s", line)
	}
	p.list("Notes on the verdict:", r.own(c))
	p.list("What goes with the trials' values:", c.Causes)
}

// own are the notes of a cell that its line doesn't say.
func (r *Report) own(c *Cell) []string {
	return slices.DeleteFunc(slices.Clone(c.Notes), func(n string) bool { return strings.HasSuffix(c.Line, n) })
}

// many shows a line for each cell.
func (r *Report) many(p *printer) {
	scale := r.scale()
	unit := ""
	if scale.Unit != "" {
		unit = ", " + scale.Unit
	}
	g := &grid.Grid{Keys: len(r.axes), Right: map[int]bool{}}
	level := fmt.Sprintf("mean, %.3g %%", 100*(1-r.Alpha))
	head := append(slices.Clone(r.axes), "A"+unit, "B"+unit, "n", "typical", level, "p", "verdict")
	g.Head = [][]string{head}
	for _, c := range r.Cells {
		p := c.P
		if c.CorrectedP != nil {
			p = *c.CorrectedP
		}
		line := slices.Clone(c.key)
		for i, v := range line {
			if v == "" {
				line[i] = "—"
			}
		}
		n := fmt.Sprintf("%d+%d", c.A.N, c.B.N)
		if c.A.Failed+c.B.Failed > 0 {
			n += fmt.Sprintf(" (%d+%d failed)", c.A.Failed, c.B.Failed)
		}
		g.Body = append(g.Body, append(line,
			brief(&c.A, scale), brief(&c.B, scale), n, change(c.Typical.Ratio), change(c.Mean.Ratio)+" "+interval(c.Mean.Interval), fmt.Sprintf("%.2g", p), c.short()))
	}
	p.table(g)
	var sentences []string
	for _, c := range r.Cells {
		where := r.cellName(c.key) + ": "
		if c.Verdict == sample.Inconclusive {
			sentences = append(sentences, where+c.Line)
		}
		for _, s := range slices.Concat(r.own(c), c.Causes) {
			sentences = append(sentences, where+s)
		}
	}
	p.list("Cells:", sentences)
	p.blank()
	p.line("p is corrected for %d cells (%s); intervals are of single cells.", len(r.Cells), map[string]string{BH: "Benjamini-Hochberg", Holm: "Holm"}[r.Correction])
	p.line("%s", r.Line)
}

// brief is a side's cell in a few characters.
func brief(d *sample.Cell, scale trials.Scale) string {
	if d.Word == sample.TooFew && d.N > 0 {
		return scale.Format(*d.Median)
	}
	return d.Text(scale.Format)
}

// short is the verdict in a few words.
func (c *Cell) short() string {
	switch c.Verdict {
	case sample.NoDifference:
		return "no difference"
	case sample.Inconclusive:
		switch {
		case c.TrialsNeeded == nil:
			return "inconclusive"
		case *c.TrialsNeeded > sample.MostNeeded:
			return fmt.Sprintf("inconclusive (N > %d)", sample.MostNeeded)
		}
		return fmt.Sprintf("inconclusive (N %d)", *c.TrialsNeeded)
	}
	return string(c.Verdict)
}

// foot says what else differs, and what to know.
func (r *Report) foot(p *printer) {
	if len(r.Differs) > 0 {
		p.blank()
		p.line("What differs between A and B:")
		if p.markdown {
			p.blank()
		}
		g := &grid.Grid{Keys: 2, Head: [][]string{{"", "", "A", "B"}}}
		for _, d := range r.Differs {
			g.Body = append(g.Body, []string{d.What, d.Name, d.A, d.B})
		}
		p.table(g)
	}
	p.list("Notes:", r.Notes)
}
