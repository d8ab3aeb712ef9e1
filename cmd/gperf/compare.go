//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gperf/compare"
	"gperf/trials"
)

// compareOptions is what compare's flags say.
type compareOptions struct {
	compare.Options
	a, b, where    trials.Filter
	aa, bisect     bool
	format, output string
}

func compareFlags() []option[compareOptions] {
	type o = compareOptions
	corrections := []string{compare.BH, compare.Holm}
	return []option[o]{
		{name: "a", value: "NAME=VALUE,..", usage: "the baseline is the trials with these values of axes or labels; VALUE|VALUE is either",
			apply: func(t *o, s string) (err error) { t.a, err = trials.ParseFilter(s); return err }},
		{name: "b", value: "NAME=VALUE,..", usage: "the candidate is those with these",
			apply: func(t *o, s string) (err error) { t.b, err = trials.ParseFilter(s); return err }},
		{name: "where", value: "NAME=VALUE,..", usage: "of both, only trials with these",
			apply: func(t *o, s string) (err error) { t.where, err = trials.ParseFilter(s); return err }},
		{name: "metric", value: "NAME", words: trials.MetricNames(), usage: "what to compare: a short name such as throughput, p99 or server-cpu, or a path in the document; NAME:lower or NAME:higher says which way is better (default throughput, or else transactions)",
			apply: func(t *o, s string) error { t.Metric = s; _, err := trials.LookupMetric(s); return err }},
		{name: "by", value: "AXIS,..", usage: "compare within cells of these axes or labels alone; empty: all trials as one cell (default all axes)",
			apply: func(t *o, s string) error {
				if s == "" {
					t.By = []string{}
					return nil
				}
				return addNames(&t.By, s)
			}},
		{name: "threshold", value: "PERCENT", usage: "smallest change that matters (default 2%)",
			apply: func(t *o, s string) (err error) { t.Sample.Threshold, err = parseShare(s, 0.0001, 1); return err }},
		{name: "alpha", value: "SHARE", usage: "chance of finding a difference where there is none (default 0.05, or 0.04 for trials of sweep --until-precise)",
			apply: func(t *o, s string) (err error) { t.Sample.Alpha, err = parseShare(s, 1e-6, 0.3); return err }},
		{name: "power", value: "SHARE", usage: "chance with which the number of trials that is advised finds the change (default 0.8)",
			apply: func(t *o, s string) (err error) { t.Sample.Power, err = parseShare(s, 0.5, 0.999); return err }},
		{name: "correct", value: "HOW", words: corrections, usage: "correct p for the number of cells: bh (Benjamini-Hochberg: few of the cells called different are wrong) or holm (most likely none is) (default bh)",
			apply: func(t *o, s string) (err error) { t.Correct, err = oneOf(corrections)(s); return err }},
		{name: "aa", isBool: true, usage: "OLD and NEW are the same configuration, or OLD alone is dealt to both sides: check that no difference is found",
			apply: func(t *o, s string) error { return parseBool(&t.aa, s) }},
		{name: "bisect", isBool: true, usage: "for git bisect run: end with 128, which stops it, on any error of gperf's own",
			apply: func(t *o, s string) error { return parseBool(&t.bisect, s) }},
		{name: "format", value: "FORMAT", words: compare.Formats, usage: "one of " + strings.Join(compare.Formats, ", ") + " (default text)",
			apply: func(t *o, s string) (err error) { t.format, err = oneOf(compare.Formats)(s); return err }},
		{name: "output", alias: "o", value: "FILE", usage: "write to FILE instead of stdout",
			apply: func(t *o, s string) error { t.output = s; return nil }},
	}
}

// parseShare reads a share, as 0.02 or 2%.
func parseShare(s string, least, most float64) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= least && v <= most) {
		return 0, fmt.Errorf("want a share from %g to %g, or as percent (%g%%)", least, most, 100*least)
	}
	return v, nil
}

func compareCommand(args []string) *cli.Command {
	options := compareFlags()
	// A bisect must not take an error for a bad commit, not even one in a flag.
	fault := func(format string, a ...any) error {
		err := usage(format, a...)
		if slices.Contains(args, "--bisect") || slices.Contains(args, "-bisect") {
			return &statusError{compare.StatusError, err}
		}
		return err
	}
	return &cli.Command{
		Name:      "compare",
		Usage:     "say whether one set of trials is slower than another",
		ArgsUsage: "OLD NEW | --a FILTER --b FILTER FILE...",
		Description: "OLD and NEW are files or folders of trials, as for gperf table; or two filters pick the sides among the trials of FILE.... The axes that are left match the cells. " +
			"Each cell is a regression, an improvement, no difference beyond the threshold, or inconclusive, with the number of trials that it takes.\n\n" +
			"Exit status: 1 if any cell regressed; else 125 if any is inconclusive; else 0. Errors of its own are 2, or 128 with --bisect. docs/statistics.md has the rules, and an example of git bisect run.",
		Flags: flags(options),
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return fault("compare: %w (see gperf compare --help)", libraryError(err, args))
		},
		Action: func(c *cli.Context) error {
			o := &compareOptions{format: compare.Text}
			if err := parse(c, options, o); err != nil {
				return fault("compare: %w", err)
			}
			var out bytes.Buffer
			status, line, err := o.run(&out, c.Args().Slice())
			if err == nil {
				err = deliver(c.App.Writer, o.output, out.Bytes())
			}
			if err != nil {
				return fault("compare: %w", err)
			}
			if status != exitOK {
				return &statusError{status, fmt.Errorf("compare: %s", line)}
			}
			return nil
		},
	}
}

// run compares what the arguments name, prints the report, and returns its exit
// status and its one line.
func (o *compareOptions) run(w io.Writer, files []string) (status int, line string, err error) {
	filters := o.a != nil || o.b != nil
	switch {
	case filters && (o.a == nil || o.b == nil):
		return 0, "", errors.New("--a and --b go together")
	case filters && len(files) == 0:
		return 0, "", errors.New("want FILE... behind --a and --b")
	case o.aa && !filters && (len(files) < 1 || len(files) > 2):
		return 0, "", fmt.Errorf("want OLD NEW, or OLD alone with --aa, not %d files", len(files))
	case !o.aa && !filters && len(files) != 2:
		return 0, "", fmt.Errorf("want OLD NEW, not %d files (or --a FILTER --b FILTER FILE...)", len(files))
	}
	set, a, b, err := o.sides(files, filters)
	if err != nil {
		return 0, "", err
	}
	if o.aa {
		r, err := compare.AA(set, a, b, o.Options)
		if err != nil {
			return 0, "", err
		}
		return r.Status(), r.Line, r.Write(w, o.format, compareWidth)
	}
	r, err := compare.New(set, a, b, o.Options)
	if err != nil {
		return 0, "", err
	}
	return r.Status(), r.Line, r.Write(w, o.format, compareWidth)
}

// sides reads the files, and picks the trials of both sides.
func (o *compareOptions) sides(files []string, filters bool) (set *trials.Set, a, b compare.Side, err error) {
	names := []string{"throughput", "transactions"}
	if o.Metric != "" {
		names = []string{o.Metric}
		// A metric is called what was asked for without which way is better.
		m, err := trials.LookupMetric(o.Metric)
		if err != nil {
			return nil, a, b, err
		}
		o.Metric = m.Name
	}
	reader, err := readerOf(names, trials.Covariates()...)
	if err != nil {
		return nil, a, b, err
	}
	if !filters {
		same, err := sameInput(files)
		switch {
		case err != nil:
			return nil, a, b, err
		case same && !o.aa:
			return nil, a, b, errors.New("OLD and NEW are the same file: --aa FILE checks one configuration against itself")
		case same:
			files = files[:1]
		}
	}
	counts := make([]int, len(files))
	for i, file := range files {
		if counts[i], err = reader.Read(file); err != nil {
			return nil, a, b, err
		}
		if counts[i] == 0 && i > 0 && !filters {
			return nil, a, b, fmt.Errorf("%s: no trials that %s doesn't have", file, files[0])
		}
	}
	set = reader.Set()
	all := set.Trials
	if filters {
		for _, side := range []struct {
			to     *compare.Side
			filter trials.Filter
		}{{&a, o.a}, {&b, o.b}} {
			passed, err := side.filter.Of(set)
			if err != nil {
				return nil, a, b, err
			}
			*side.to = compare.Side{Name: side.filter.String(), Trials: passed}
		}
		if t := inBoth(a.Trials, b.Trials); t != nil {
			return nil, a, b, fmt.Errorf("%s passes both --a and --b", t.Source())
		}
	} else {
		a = compare.Side{Name: files[0], Trials: all[:counts[0]]}
		if len(files) > 1 {
			b = compare.Side{Name: files[1], Trials: all[counts[0]:]}
		}
	}
	if o.where == nil {
		return set, a, b, nil
	}
	for _, side := range []*compare.Side{&a, &b} {
		if len(side.Trials) == 0 {
			continue
		}
		of := *set
		of.Trials = side.Trials
		if side.Trials, err = o.where.Of(&of); err != nil {
			return nil, a, b, fmt.Errorf("%s: %w", side.Name, err)
		}
	}
	return set, a, b, nil
}

// sameInput reports whether both files are one.
func sameInput(files []string) (bool, error) {
	if len(files) != 2 || files[0] == "-" || files[1] == "-" {
		return len(files) == 2 && files[0] == files[1], nil
	}
	var infos [2]os.FileInfo
	for i, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return false, err
		}
		infos[i] = info
	}
	return os.SameFile(infos[0], infos[1]), nil
}

// inBoth is a trial that is on both sides, nil if none is.
func inBoth(a, b []*trials.Trial) *trials.Trial {
	of := map[*trials.Trial]bool{}
	for _, t := range a {
		of[t] = true
	}
	for _, t := range b {
		if of[t] {
			return t
		}
	}
	return nil
}
