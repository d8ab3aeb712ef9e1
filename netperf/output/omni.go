package output

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"gperf/netperf/options"
)

// blocks is how many blocks a selection may have. More are ignored.
const blocks = 4

// longestName is the longest name, in bytes, that a selector file may have.
const longestName = 79

// A Selection is which selectors the omni output shows, in blocks. The zero
// value is a test's default set.
type Selection struct {
	// Unknown are the names of a list that were no selectors.
	Unknown []Unknown

	blocks [][]*selector // nil among them: an unknown one
	file   bool
}

// Unknown is a name that is no selector's.
type Unknown struct {
	Name            string
	Position, Block int // from 1
}

// String returns what netperf says of it under -d.
func (u Unknown) String() string {
	return fmt.Sprintf("Ignoring unknown output selector %d |%s| on line %d", u.Position, u.Name, u.Block)
}

// ParseSelectors reads what follows -k, -o or -O: nothing, "all", a list or,
// when it has neither comma nor semicolon and is no selector's name, the name
// of a file, which is read by readFile. It is called before the test, which may
// have to keep latencies because of it.
//
// An error is an *options.Exit: a file that can't be used, or the list of all
// selectors, which a question mark asks for and which depends on style.
func ParseSelectors(style options.Style, spec string, readFile func(string) ([]byte, error)) (Selection, error) {
	switch {
	case spec == "":
		return Selection{}, nil
	case spec == "?":
		separator := ","
		if style == options.Human {
			separator = "\n"
		}
		names := make([]string, len(selectors))
		for i := range selectors {
			names[i] = selectors[i].name
		}
		return Selection{}, &options.Exit{Status: 1, Stdout: strings.Join(names, separator) + "\n"}
	case strings.EqualFold(spec, "all"):
		return all(), nil
	case strings.ContainsAny(spec, ",;") || byName(spec) != nil:
		return list(spec), nil
	}
	text, err := readFile(spec)
	if err != nil {
		errno := syscall.ENOENT
		errors.As(err, &errno)
		return Selection{}, &options.Exit{Status: 255,
			Stdout: fmt.Sprintf("Could not open output selection file '%s' errno %d\n", spec, int(errno))}
	}
	return file(string(text))
}

// byName returns the selector of that name in any case, nil when there is none.
func byName(name string) *selector {
	for i := range selectors {
		if strings.EqualFold(selectors[i].name, name) {
			return &selectors[i]
		}
	}
	return nil
}

func all() Selection {
	s := Selection{blocks: make([][]*selector, blocks)}
	for i := range selectors {
		if b := selectors[i].block; b > 0 {
			s.blocks[b-1] = append(s.blocks[b-1], &selectors[i])
		}
	}
	return s
}

// list reads the names of a command line. Empty blocks don't count.
func list(spec string) Selection {
	s := Selection{blocks: [][]*selector{}}
	for line := range strings.FieldsFuncSeq(spec, func(c rune) bool { return c == ';' }) {
		names := strings.FieldsFunc(line, func(c rune) bool { return c == ',' || c == ' ' })
		if len(names) == 0 {
			continue
		}
		if len(s.blocks) == blocks {
			break
		}
		var block []*selector
		for i, name := range names {
			known := byName(name)
			if known == nil {
				s.Unknown = append(s.Unknown, Unknown{name, i + 1, len(s.blocks) + 1})
			} else if known.name == "OUTPUT_END" {
				break
			}
			block = append(block, known)
		}
		s.blocks = append(s.blocks, block)
	}
	return s
}

// file reads the names or headings of a file, a line for a block. What is
// neither, be it for a blank before it, holds its place with OUTPUT_NONE.
func file(text string) (Selection, error) {
	s := Selection{blocks: [][]*selector{}, file: true}
	for line := range strings.Lines(text) {
		if len(s.blocks) == blocks {
			break
		}
		column := 1
		var block []*selector
		for name := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), ",") {
			if len(name) > longestName {
				return Selection{}, &options.Exit{Status: 255, Stdout: fmt.Sprintf(
					"Output selection starting column %d on line %d is too long\n", column, len(s.blocks)+1)}
			}
			column += len(name) + 1
			known := byName(name)
			for i := 0; known == nil && i < len(selectors); i++ {
				if strings.EqualFold(selectors[i].line(), name) {
					known = &selectors[i]
				}
			}
			if known == nil {
				known = byName("OUTPUT_NONE")
			} else if known.name == "OUTPUT_END" {
				break
			}
			block = append(block, known)
		}
		s.blocks = append(s.blocks, block)
	}
	return s, nil
}

// WantsLatency reports whether the selection makes the test keep latencies. One
// from a file never does: there -j has to be given as well, as in netperf.
func (s Selection) WantsLatency() bool {
	if s.file {
		return false
	}
	for _, block := range s.blocks {
		for _, selector := range block {
			if selector != nil && selector.latency {
				return true
			}
		}
	}
	return false
}

// WantsLatency reports whether a test is to keep latencies, because of its
// options or of what is selected.
func WantsLatency(o *options.Netperf, s Selection) bool {
	return o.Histogram || o.Verbosity > 1 || o.Style != options.Classic && s.WantsLatency()
}

// Omni writes the run's selected figures in its style: aligned under headings,
// as comma-separated values without quoting, or as NAME=value. Above verbosity
// 1 the histogram follows.
func Omni(w io.Writer, r *Run) error {
	s := r.Selection
	if s.blocks == nil {
		s = list(defaultNames(r))
	}
	var p page
	switch r.Options.Style {
	case options.Keyval:
		p.keyval(r, s)
	case options.CSV:
		p.csv(r, s)
	default:
		p.human(r, s)
	}
	if r.Options.Verbosity > 1 {
		p.latencies(r, "\nHistogram of "+operation(r.Options)+" times")
	}
	return p.to(w)
}

// operation is what one duration of the histogram is of.
func operation(o *options.Netperf) string {
	switch text := directionText(o); text {
	case "Send", "Receive":
		return map[string]string{"Send": "send", "Receive": "recv"}[text]
	case "Connection":
		return "connect/close"
	case "Connect|Send|Recv":
		return "connect/request/response/close"
	}
	return "request/response"
}

// keyval leaves out what is unknown or has no value.
func (p *page) keyval(r *Run, s Selection) {
	for _, block := range s.blocks {
		for _, selector := range block {
			if selector == nil {
				continue
			}
			if text, ok := selector.text(r); ok {
				p.printf("%s=%s\n", selector.name, text)
			}
		}
	}
}

// csv has all blocks in one row. Where there is no value a blank follows the
// comma, and the row's last byte goes, comma or blank. An unknown selector has
// a place among the values but none among the headings.
func (p *page) csv(r *Run, s Selection) {
	var headings, values page
	for _, block := range s.blocks {
		for _, selector := range block {
			text, ok := "", false
			if selector != nil {
				headings.printf("%s,", selector.line())
				text, ok = selector.text(r)
			}
			values.printf("%s,", text)
			if !ok {
				values.printf(" ")
			}
		}
	}
	if r.Options.Banner && values.Len() > 0 {
		p.printf("%s\n", headings.Bytes()[:max(0, headings.Len()-1)])
	}
	if values.Len() > 0 {
		p.printf("%s\n", values.Bytes()[:values.Len()-1])
	}
}

// human has a table for each block, its columns wide enough for the heading and
// for the value with a blank. An unknown selector is a column of one blank.
func (p *page) human(r *Run, s Selection) {
	for i, block := range s.blocks {
		var lines [5]page // four of the heading, one of values
		for _, selector := range block {
			var cells [len(lines)]string
			width := 0
			if selector != nil {
				headings := selector.lines()
				copy(cells[:], headings[:])
				cells[4], _ = selector.text(r)
				width = len(cells[4]) + 1
			}
			for _, heading := range cells[:4] {
				width = max(width, len(heading))
			}
			for j := range lines {
				lines[j].printf("%-*s ", width, cells[j])
			}
		}
		if i > 0 {
			p.printf("\n")
		}
		for j := range lines {
			if r.Options.Banner || j == 4 {
				p.printf("%s\n", lines[j].Bytes())
			}
		}
	}
}
