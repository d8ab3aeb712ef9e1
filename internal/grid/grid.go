// Package grid lays out tables of text: aligned for people, or as Markdown, CSV or
// TSV. It knows nothing of what the cells mean.
package grid

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Grid is a table. All lines have the same number of cells.
type Grid struct {
	Head  [][]string // lines of the heading
	Body  [][]string
	Keys  int          // columns at the left that say what a line is about
	Right map[int]bool // columns that are set to the right, as suits numbers
}

// gap is what is between columns of text, and least what columns that don't fit
// beside others leave for themselves.
const gap = "  "

// Text is the table aligned, with no line longer than width as far as the cells
// allow: what doesn't fit goes into further tables below, each with the keys.
func (g *Grid) Text(width int) string {
	lines := append(append([][]string{}, g.Head...), g.Body...)
	if len(lines) == 0 || len(lines[0]) == 0 {
		return ""
	}
	shown := make([][]string, len(lines))
	widths := make([]int, len(lines[0]))
	for i, line := range lines {
		shown[i] = make([]string, len(widths))
		for j := range widths {
			shown[i][j] = Plain(line[j])
			widths[j] = max(widths[j], utf8.RuneCountInString(shown[i][j]))
		}
	}
	var b strings.Builder
	keys := min(g.Keys, len(widths))
	taken := 0
	for _, w := range widths[:keys] {
		taken += w + len(gap)
	}
	for from := keys; ; {
		to, used := from, taken
		for to < len(widths) && (to == from || used+widths[to] <= width) {
			used += widths[to] + len(gap)
			to++
		}
		columns := make([]int, 0, keys+to-from)
		for j := range keys {
			columns = append(columns, j)
		}
		for j := from; j < to; j++ {
			columns = append(columns, j)
		}
		for _, line := range shown {
			g.line(&b, line, columns, widths)
		}
		if from = to; from >= len(widths) {
			return b.String()
		}
		b.WriteByte('\n')
	}
}

func (g *Grid) line(b *strings.Builder, cells []string, columns, widths []int) {
	var s strings.Builder
	for i, j := range columns {
		if i > 0 {
			s.WriteString(gap)
		}
		pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cells[j]))
		if g.Right[j] {
			s.WriteString(pad + cells[j])
		} else {
			s.WriteString(cells[j] + pad)
		}
	}
	b.WriteString(strings.TrimRight(s.String(), " ") + "\n")
}

// A cell's text as each form can carry it.
var (
	markdownEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "`", "\\`")
	tsvBlanks       = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")
)

// Markdown is the table as GitHub's Markdown has them, whose heading is one line.
func (g *Grid) Markdown() string {
	heading := g.heading()
	if len(heading) == 0 {
		return ""
	}
	var b strings.Builder
	row := func(cells []string) {
		b.WriteByte('|')
		for _, cell := range cells {
			b.WriteString(" " + markdownEscapes.Replace(Plain(cell)) + " |")
		}
		b.WriteByte('\n')
	}
	row(heading)
	b.WriteByte('|')
	for j := range heading {
		if g.Right[j] {
			b.WriteString("--:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteByte('\n')
	for _, line := range g.Body {
		row(line)
	}
	return b.String()
}

// heading is the heading's lines as one.
func (g *Grid) heading() []string {
	if len(g.Head) == 0 {
		return nil
	}
	one := make([]string, len(g.Head[0]))
	for j := range one {
		var parts []string
		for _, line := range g.Head {
			if line[j] != "" {
				parts = append(parts, line[j])
			}
		}
		one[j] = strings.Join(parts, " ")
	}
	return one
}

// Separated writes the table with a separator between cells: a comma, or a tab. TSV
// has no quotes, so that a cell's own tabs and line breaks become blanks there.
func (g *Grid) Separated(w io.Writer, separator rune) error {
	lines := append([][]string{g.heading()}, g.Body...)
	if separator != '\t' {
		c := csv.NewWriter(w)
		c.Comma = separator
		return c.WriteAll(lines)
	}
	for _, line := range lines {
		cells := make([]string, len(line))
		for j, cell := range line {
			cells[j] = tsvBlanks.Replace(cell)
		}
		if _, err := io.WriteString(w, strings.Join(cells, "\t")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Plain is s, quoted if it holds anything but printable characters: it may come
// from a file of anybody's, which must not steer the reader's terminal.
func Plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
