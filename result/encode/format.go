package encode

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/sockopt"
)

// unknown stands in text for a figure that isn't known.
const unknown = "-"

// show prints what p points to, or that it isn't known.
func show[T any](p *T, format func(T) string) string {
	if p == nil {
		return unknown
	}
	return format(*p)
}

func count(n uint64) string        { return strconv.FormatUint(n, 10) }
func whole(f float64) string       { return strconv.FormatFloat(f, 'f', 0, 64) }
func decimal(f float64) string     { return strconv.FormatFloat(f, 'f', 1, 64) }
func seconds(f float64) string     { return strconv.FormatFloat(f, 'f', 3, 64) }
func percent(f float64) string     { return decimal(f) + " %" }
func finePercent(f float64) string { return seconds(f) + " %" }
func size(n uint64) string         { return units.Size(float64(n)) }

// arrow shows a direction with the client on the left.
func arrow(d plan.Direction) string {
	switch d {
	case plan.ClientToServer:
		return "->"
	case plan.ServerToClient:
		return "<-"
	case plan.Both:
		return "<>"
	}
	return ""
}

// knobName returns the flag of the knob with that key.
func knobName(key string) string {
	if k, err := sockopt.Lookup(key); err == nil {
		return k.Name
	}
	return key
}

var shortUnits = map[string]string{"seconds": " s", "milliseconds": " ms", "microseconds": " us"}

// knobValue prints a value of the knob with that key as its flag would be
// written.
func knobValue(key string, v sockopt.Value) string {
	if !v.IsSet() {
		return unknown
	}
	n, isInt := v.Int()
	k, err := sockopt.Lookup(key)
	switch {
	case !isInt || err != nil:
		return v.String()
	case k.IsBool && n == 0:
		return "off"
	case k.IsBool && n == 1:
		return "on"
	case k.Unit == "bytes":
		return units.ExactSize(n)
	case k.Unit == "bytes_per_second":
		return units.BitRate(float64(n) * 8)
	}
	return v.String() + shortUnits[k.Unit]
}

// Cells of a table are set to the left, or to the right as suits numbers.
const (
	left  = 0
	right = tabwriter.AlignRight
)

// printLine prints one line. Much of what it prints came from the other end,
// which must not be able to steer the reader's terminal.
func printLine(b *bytes.Buffer, format string, args ...any) {
	b.WriteString(oneLine(fmt.Sprintf(format, args...)))
	b.WriteByte('\n')
}

// oneLine returns s, quoted if it holds anything but printable characters.
func oneLine(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// table prints rows of cells in columns two blanks apart.
func table(b *bytes.Buffer, align uint, rows [][]string) {
	var padded bytes.Buffer
	t := tabwriter.NewWriter(&padded, 0, 0, 2, ' ', align)
	for _, row := range rows {
		for _, cell := range row {
			io.WriteString(t, oneLine(cell)+"\t") // only a closed cell is aligned
		}
		io.WriteString(t, "\n")
	}
	t.Flush()
	for line := range bytes.Lines(padded.Bytes()) {
		b.Write(bytes.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
}
