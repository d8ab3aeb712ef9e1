//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gperf/report"
	"gperf/sweep"
	"gperf/trials"
)

// How long the lines of tables may be, in columns. What is compared is read across.
const (
	tableWidth   = 120
	compareWidth = 180
)

// tableOptions is what table's flags say.
type tableOptions struct {
	spec           report.Spec
	split          bool // an axis was named, for rows or columns
	where          trials.Filter
	format, output string
	detail         bool
}

func tableFlags() []option[tableOptions] {
	type o = tableOptions
	return []option[o]{
		{name: "rows", value: "AXIS,..", usage: "axes, labels or settings whose values make the rows (default: all axes, less the last if --cols is not given either)",
			apply: func(t *o, s string) error { t.split = true; return addNames(&t.spec.Rows, s) }},
		{name: "cols", value: "AXIS,..", usage: "those that make the columns (default: the last axis if --rows is not given)",
			apply: func(t *o, s string) error { t.split = true; return addNames(&t.spec.Cols, s) }},
		{name: "value", value: "NAME,..", words: trials.MetricNames(), usage: "what to show, side by side: short names such as throughput, p99 or server-cpu, or paths in the document (default throughput, or else transactions)",
			apply: func(t *o, s string) error { return addNames(&t.spec.Values, s) }},
		{name: "where", value: "NAME=VALUE,..", usage: "only trials with these values of axes or labels; VALUE|VALUE is either",
			apply: func(t *o, s string) (err error) { t.where, err = trials.ParseFilter(s); return err }},
		{name: "detail", isBool: true, usage: "every trial by itself, and how steady it was inside, if the file keeps intervals",
			apply: func(t *o, s string) error { return parseBool(&t.detail, s) }},
		{name: "format", value: "FORMAT", words: report.Formats, usage: "one of " + strings.Join(report.Formats, ", ") + " (default text); csv and tsv have a line for each cell and value",
			apply: func(t *o, s string) (err error) { t.format, err = oneOf(report.Formats)(s); return err }},
		{name: "output", alias: "o", value: "FILE", usage: "write to FILE instead of stdout",
			apply: func(t *o, s string) error { t.output = s; return nil }},
	}
}

// addNames adds names with commas between.
func addNames(names *[]string, s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return errors.New("want names with commas between")
		}
		*names = append(*names, name)
	}
	return nil
}

func tableCommand() *cli.Command {
	options := tableFlags()
	return &cli.Command{
		Name:      "table",
		Usage:     "show trials as a table: medians, and how far they can be relied on",
		ArgsUsage: "FILE...",
		Description: "FILE is what gperf sweep wrote, results of gperf client -J, or what iperf3 -J, netperf -k or -o, or flent wrote; a folder stands for its files, - for stdin. " +
			"Of runs that are of no sweep the axes are their labels and what of their plans differs.\n\n" +
			"A cell shows the median. \"~3 %\" behind it is the spread of noisy trials, LOW..HIGH the range of unstable ones, and \"49 (5) or 65 (5)\" says that they came out in two ways, five times each. docs/statistics.md has the rules.",
		Flags: flags(options),
		Action: func(c *cli.Context) error {
			o := &tableOptions{format: report.Text}
			if err := parse(c, options, o); err != nil {
				return usage("table: %w", err)
			}
			if c.Args().Len() == 0 {
				return usage("table: want FILE...")
			}
			var out bytes.Buffer
			if err := tabulate(&out, o, c.Args().Slice()); err != nil {
				return usage("table: %w", err)
			}
			if err := deliver(c.App.Writer, o.output, out.Bytes()); err != nil {
				return fmt.Errorf("table: %w", err)
			}
			return nil
		},
	}
}

// tabulate prints the table of files.
func tabulate(w io.Writer, o *tableOptions, files []string) error {
	defaults := []string{"throughput", "transactions"}
	reader, err := readerOf(slices.Concat(o.spec.Values, defaults, []string{"stalls"}))
	if err != nil {
		return err
	}
	if o.detail {
		reader.Inside()
	}
	if _, err := reader.Read(files...); err != nil {
		return err
	}
	set := reader.Set()
	if own := ownTable(set); own != nil && !o.split && o.spec.Values == nil && !slices.Contains(files, "-") {
		o.spec, o.split = report.Spec(*own), true
		return tabulate(w, o, files) // which needs other figures
	}
	if len(set.Trials) == 0 {
		return fmt.Errorf("%s: no trials", strings.Join(files, ", "))
	}
	if o.where != nil {
		if set.Trials, err = o.where.Of(set); err != nil {
			return err
		}
	}
	if len(o.spec.Values) == 0 {
		o.spec.Values = defaults[:1]
		if !has(set, defaults[0]) && has(set, defaults[1]) {
			o.spec.Values = defaults[1:]
		}
	}
	if axes := varying(set); !o.split {
		o.spec.Rows = axes
		if n := len(axes); n > 1 {
			o.spec.Rows, o.spec.Cols = axes[:n-1], axes[n-1:]
		}
	}
	t, err := report.New(set, o.spec)
	if err != nil {
		return err
	}
	if o.detail {
		return t.Detail(w, set, o.format)
	}
	return t.Write(w, o.format, tableWidth)
}

// ownTable is the table that the one sweep of a set has of its own, as presets have;
// nil: there is none.
func ownTable(set *trials.Set) *sweep.Table {
	if len(set.Headers) != 1 {
		return nil
	}
	var spec sweep.Spec
	if json.Unmarshal(set.Headers[0].Spec, &spec) != nil || spec.Table == nil || len(spec.Table.Values) == 0 {
		return nil
	}
	return spec.Table
}

// readerOf is a reader of metrics by name, and of more.
func readerOf(names []string, more ...trials.Metric) (*trials.Reader, error) {
	var wanted []trials.Metric
	for _, name := range names {
		m, err := trials.LookupMetric(name)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, m)
	}
	return trials.NewReader(append(wanted, more...)...), nil
}

// has reports whether any trial has a value of the metric.
func has(set *trials.Set, name string) bool {
	i := set.Index(name)
	return slices.ContainsFunc(set.Trials, func(t *trials.Trial) bool { _, ok := t.Value(i); return ok })
}

// varying are the axes that have more than one value.
func varying(set *trials.Set) []string {
	var axes []string
	for _, axis := range set.Axes() {
		first, _ := set.Trials[0].Get(axis)
		if slices.ContainsFunc(set.Trials, func(t *trials.Trial) bool { v, _ := t.Get(axis); return v != first }) {
			axes = append(axes, axis)
		}
	}
	return axes
}

// deliver writes what is ready to a file, or to stdout.
func deliver(stdout io.Writer, path string, text []byte) error {
	out, closeOutput, err := openOutput(stdout, path)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return cmp.Or(err, closeOutput())
}
