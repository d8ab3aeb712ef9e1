//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"gperf/client"
	"gperf/control"
	"gperf/lab"
	"gperf/plan"
	"gperf/presets"
	"gperf/report"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats/sample"
	"gperf/sweep"
	"gperf/trials"
)

// sweepOptions is what the flags of a sweep say.
type sweepOptions struct {
	sweep.Spec

	preset, file, output string
	resume, dryRun       bool
	labels               map[string]string
	quiet                bool
	set                  map[string]bool // flags of the sweep that were given
}

const catSweep = "Sweep"

// notSwept are the client's flags that make no sense for many runs.
var notSwept = []string{"format", "json", "output", "quiet", "repeat", "confidence", "strict", "file", "sink", "netns", "label"}

// sweepFlags are the sweep's own flags, and the client's, which it keeps as they
// are written: they apply to each cell anew.
func sweepFlags() []option[sweepOptions] {
	type o = sweepOptions
	own := []option[o]{
		{name: "axis", value: "NAME=V,V", category: catSweep, usage: "what varies: a client flag, a knob or a setting of the lab, with its values; the cells are the product of all axes; NAME+NAME=V+V,V+V changes several together; may be repeated",
			apply: func(t *o, s string) error {
				a, err := sweep.ParseAxis(s)
				t.Axes = append(t.Axes, a)
				return err
			}},
		{name: "trials", value: "N", category: catSweep, usage: fmt.Sprintf("trials of each cell (default %d; a preset's %d)", sweep.DefaultTrials, presets.Trials),
			apply: func(t *o, s string) error { return parseInt(&t.Trials, s) }},
		{name: "until-precise", value: "PERCENT", category: catSweep, usage: fmt.Sprintf("end a cell's trials once its mean is known to ±PERCENT at 95 %%: looked at after %d trials and every %d more", sweep.FewestPrecise, sweep.PreciseStep),
			apply: func(t *o, s string) (err error) { t.UntilPrecise, err = parsePrecision(s); return err }},
		{name: "max-trials", value: "N", category: catSweep, usage: fmt.Sprintf("most trials of a cell with --until-precise (default %d)", sweep.DefaultMaxTrials),
			apply: func(t *o, s string) error { return parseInt(&t.MaxTrials, s) }},
		{name: "order", value: "ORDER", category: catSweep, words: orderNames(), usage: "order of the trials: interleaved (every round visits all cells, in a fresh random order; two cells as ABBA or BAAB), random or sequential (default interleaved)",
			apply: func(t *o, s string) error { t.Order = sweep.Order(s); return nil }},
		{name: "seed", value: "N", category: catSweep, usage: "seed of the order (default random; it's in the file)",
			apply: func(t *o, s string) (err error) { t.Seed, err = strconv.ParseUint(s, 10, 64); return err }},
		{name: "cooldown", value: "TIME", category: catSweep, usage: "pause between trials",
			apply: func(t *o, s string) (err error) { t.Cooldown, err = parsePositive(s); return err }},
		{name: "lab", value: "KIND", category: catSweep, words: labKinds(), usage: "run in a private network that lives as long as the sweep: loopback (a namespace with its own lo) or veth (two namespaces and a link)",
			apply: func(t *o, s string) error { t.Lab = s; return checkLab(s) }},
		{name: "preset", value: "NAME", category: catSweep, words: presets.Names(), usage: "begin with a sweep that gperf brings along: " + strings.Join(presets.Names(), ", ") + "; flags and axes given beside it come on top",
			apply: func(t *o, s string) error { t.preset = s; return nil }},
		{name: "f", value: "FILE", category: catSweep, usage: "begin with the sweep in a YAML file",
			apply: func(t *o, s string) error { t.file = s; return nil }},
		{name: "output", alias: "o", value: "FILE", category: catSweep, usage: "append each trial to FILE as it ends, a line of JSON each",
			apply: func(t *o, s string) error { t.output = s; return nil }},
		{name: "resume", isBool: true, category: catSweep, usage: "go on with the sweep in the file",
			apply: func(t *o, s string) error { return parseBool(&t.resume, s) }},
		{name: "dry-run", isBool: true, category: catSweep, usage: "list the cells and the time that they take, and run nothing",
			apply: func(t *o, s string) error { return parseBool(&t.dryRun, s) }},
		{name: "keep", isBool: true, category: catSweep, usage: "keep streams, intervals and histograms in the file, too",
			apply: func(t *o, s string) error { return parseBool(&t.Keep, s) }},
		{name: "hook-before", value: "COMMAND", category: catSweep, usage: "shell command to run before each trial, with the cell in GPERF_CELL and GPERF_AXIS_NAME",
			apply: func(t *o, s string) error { t.HookBefore = s; return nil }},
		{name: "hook-after", value: "COMMAND", category: catSweep, usage: "shell command to run after each trial",
			apply: func(t *o, s string) error { t.HookAfter = s; return nil }},
		{name: "label", value: "K=V", category: catSweep, usage: "label to put into every result; may be repeated",
			apply: func(t *o, s string) error { return parseLabel(t.labels, s) }},
		{name: "quiet", isBool: true, category: catSweep, usage: "no progress on stderr",
			apply: func(t *o, s string) error { return parseBool(&t.quiet, s) }},
	}
	for i := range own {
		name, apply := own[i].name, own[i].apply
		own[i].apply = func(t *o, s string) error {
			t.set[name] = true
			return apply(t, s)
		}
	}
	for _, c := range clientFlags() {
		if slices.Contains(notSwept, c.name) || slices.ContainsFunc(own, func(x option[o]) bool { return x.name == c.name }) {
			continue
		}
		alias := c.alias
		if slices.ContainsFunc(own, func(x option[o]) bool { return x.alias == alias || x.name == alias }) {
			alias = ""
		}
		own = append(own, option[o]{
			name: c.name, alias: alias, value: c.value, usage: c.usage, category: c.category, isBool: c.isBool, words: c.words,
			apply: func(t *o, s string) error {
				// Tried on nothing, so that an error names the flag.
				if err := c.apply(newClientOptions(), s); err != nil {
					return err
				}
				t.Flags = append(t.Flags, sweep.Value{Name: c.name, Value: s})
				return nil
			},
		})
	}
	return own
}

func orderNames() (names []string) {
	for _, o := range sweep.Orders {
		names = append(names, string(o))
	}
	return names
}

func sweepCommand() *cli.Command {
	options := sweepFlags()
	return &cli.Command{
		Name:      "sweep",
		Usage:     "run a test under many settings, again and again",
		ArgsUsage: "[HOST[:PORT]]",
		Description: "Runs every combination of the axes' values, each several times, in an order that changes of the machine can't mislead, and appends each trial to a file at once. " +
			"gperf table shows the file, gperf compare compares two. Exit status: 1 if a trial failed (the sweep goes on all the same), 3 after a signal.",
		Flags:  flags(options),
		Action: func(c *cli.Context) error { return runSweep(c, options) },
	}
}

// runSweep runs a sweep.
func runSweep(c *cli.Context, options []option[sweepOptions]) error {
	o, err := readSweep(c, options)
	if err != nil {
		return usage("sweep: %w", err)
	}
	cells, err := o.Cells()
	if err != nil {
		return usage("sweep: %w", err)
	}
	plans := make([]*cellPlan, len(cells))
	for i := range cells {
		if plans[i], err = o.plan(&cells[i]); err != nil {
			return usage("sweep: %s: %w", &cells[i], err)
		}
	}
	if o.dryRun {
		return o.list(c.App.Writer, cells, plans)
	}
	if o.output == "" {
		return usage("sweep: --output is missing: the trials go to a file")
	}
	status, inside, err := o.enterLab()
	switch {
	case err != nil:
		return fmt.Errorf("sweep: lab: %w", err)
	case !inside && status == exitOK:
		return nil
	case !inside:
		return &statusError{status, errSilent}
	}
	return o.run(c, cells, plans)
}

// errSilent is an error of which another process has already told.
var errSilent = errors.New("told elsewhere")

// readSweep makes the sweep of a preset or a file, and of flags and arguments.
func readSweep(c *cli.Context, options []option[sweepOptions]) (*sweepOptions, error) {
	o := &sweepOptions{labels: map[string]string{}, set: map[string]bool{}}
	if err := parse(c, options, o); err != nil {
		return nil, err
	}
	if c.Args().Len() > 1 {
		return nil, fmt.Errorf("unexpected argument %q: one HOST at most", c.Args().Get(1))
	}
	o.Host = c.Args().First()
	if o.Host != "" {
		if _, _, err := client.Target(o.Host, control.Port); err != nil {
			return nil, err
		}
	}
	switch {
	case o.preset != "" && o.file != "":
		return nil, errors.New("--preset and -f: one of them")
	case o.preset != "":
		text, err := presets.Open(o.preset)
		if err != nil {
			return nil, fmt.Errorf("--preset: %w", err)
		}
		if err := o.base(strings.NewReader(text), presets.Trials); err != nil {
			return nil, fmt.Errorf("preset %s: %w", o.preset, err)
		}
	case o.file != "":
		f, err := os.Open(o.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := o.base(f, 0); err != nil {
			return nil, fmt.Errorf("%s: %w", o.file, err)
		}
	}
	if !o.set["seed"] && o.Seed == 0 {
		const readable = 1e6
		o.Seed = 1 + uint64(time.Now().UnixNano())%readable
	}
	o.Normalise()
	return o, o.Validate()
}

// base puts a file's sweep under what the command line says. An axis or a flag of
// the same name replaces the file's.
func (o *sweepOptions) base(r io.Reader, trials int) error {
	f, axes, err := sweep.ParseFile(r)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, a := range o.Axes {
		for _, name := range a.Names {
			known[canonical(name)] = true
		}
	}
	for _, v := range o.Flags {
		known[v.Name] = true
	}
	axes = slices.DeleteFunc(axes, func(a sweep.Axis) bool {
		return slices.ContainsFunc(a.Names, func(name string) bool { return known[canonical(name)] })
	})
	o.Axes = append(axes, o.Axes...)
	var flags []sweep.Value
	for _, name := range slices.Sorted(maps.Keys(f.Flags)) {
		if !known[canonical(name)] {
			flags = append(flags, sweep.Value{Name: canonical(name), Value: f.Flags[name]})
		}
	}
	o.Flags = append(flags, o.Flags...)
	o.Table = f.Table
	if !o.set["trials"] {
		o.Trials = max(f.Trials, 0)
		if o.Trials == 0 {
			o.Trials = trials
		}
	}
	for _, w := range []struct {
		name string
		text string
		read func(string) error
	}{
		{"until-precise", f.UntilPrecise, func(s string) (err error) { o.UntilPrecise, err = parsePrecision(s); return err }},
		{"cooldown", f.Cooldown, func(s string) (err error) { o.Cooldown, err = parsePositive(s); return err }},
		{"lab", f.Lab, func(s string) error { o.Lab = s; return checkLab(s) }},
		{"order", string(f.Order), func(s string) error { o.Order = sweep.Order(s); return nil }},
		{"hook-before", f.HookBefore, func(s string) error { o.HookBefore = s; return nil }},
		{"hook-after", f.HookAfter, func(s string) error { o.HookAfter = s; return nil }},
	} {
		if w.text == "" || o.set[w.name] || w.name == "lab" && o.Host != "" {
			continue
		}
		if err := w.read(w.text); err != nil {
			return flagError(w.name, w.text, err)
		}
	}
	if !o.set["max-trials"] {
		o.MaxTrials = f.MaxTrials
	}
	if !o.set["seed"] {
		o.Seed = f.Seed
	}
	o.Keep = o.Keep || f.Keep
	return nil
}

// canonical is a client flag's full name, or the name itself.
func canonical(name string) string {
	for _, c := range clientFlags() {
		if name == c.name || name == c.alias && name != "" {
			return c.name
		}
	}
	return name
}

// A cellPlan is what a cell is run with.
type cellPlan struct {
	client *clientOptions
	lab    []labSetting
}

// window is how long its trial measures.
func (p *cellPlan) window() time.Duration {
	return time.Duration(p.client.Plan.Duration + p.client.Plan.Warmup)
}

func newClientOptions() *clientOptions {
	return &clientOptions{format: "json", repeat: 1, Config: client.Config{
		Plan:           &plan.Test{Client: plan.End{Knobs: sockopt.Settings{}}, Server: plan.End{Knobs: sockopt.Settings{}}},
		ConnectTimeout: client.DefaultConnectTimeout, Labels: map[string]string{}, Build: build(),
	}}
}

// plan makes a cell's test, and its settings of the lab.
func (o *sweepOptions) plan(c *sweep.Cell) (*cellPlan, error) {
	p := &cellPlan{client: newClientOptions()}
	p.client.Labels = o.labels
	table := clientFlags()
	for _, v := range slices.Concat(o.Flags, c.Values) {
		if v.Value == "" {
			continue // a zipped axis leaves it alone in this step
		}
		name := canonical(v.Name)
		if i := slices.IndexFunc(table, func(f option[clientOptions]) bool { return f.name == name }); i >= 0 && !slices.Contains(notSwept, name) {
			if err := table[i].apply(p.client, v.Value); err != nil {
				return nil, flagError(v.Name, v.Value, err)
			}
			continue
		}
		settings, err := parseLabSetting(o.Lab, v.Name, v.Value)
		if err != nil {
			return nil, err
		}
		p.lab = append(p.lab, settings...)
	}
	if err := lab.Check(lab.Kind(o.Lab), p.lab); o.Lab != "" && err != nil {
		return nil, err
	}
	p.client.Plan.Normalise()
	return p, p.client.Plan.Validate()
}

// showTable prints the table that the preset or the file asks for.
func (o *sweepOptions) showTable(w io.Writer) error {
	if o.Table == nil {
		return nil
	}
	r, err := readerOf(slices.Concat(o.Table.Values, []string{"stalls"})) // which cells tell of
	if err != nil {
		return err
	}
	if _, err := r.Read(o.output); err != nil {
		return err
	}
	t, err := report.New(r.Set(), report.Spec(*o.Table))
	if err != nil {
		return err
	}
	return t.Write(w, report.Text, tableWidth)
}

// announce says what is about to be run, how long it takes, and what it can show.
func (o *sweepOptions) announce(w io.Writer, cells []sweep.Cell, plans []*cellPlan) {
	var once time.Duration
	warm := time.Duration(0)
	for _, p := range plans {
		once += p.window() + o.Cooldown
		warm = max(warm, time.Duration(p.client.Plan.Warmup))
	}
	line := fmt.Sprintf("%d cells, %d trials each, %s, seed %d", len(cells), o.Trials, o.Order, o.Seed)
	if warm > 0 {
		line += fmt.Sprintf("; a warm-up of %s before each window", warm)
	}
	fmt.Fprintf(w, "%s; at least %s\n", line, roughly(once*time.Duration(o.Trials)))
	const alpha = 0.05
	if need := sample.FewestPerSide(len(cells), alpha); o.UntilPrecise == 0 && o.Trials < need {
		fmt.Fprintf(w, "too few trials to compare with another sweep: that one of %d cells has changed, %d each can show\n", len(cells), need)
	}
}

// roughly is a time as a plan tells it.
func roughly(d time.Duration) time.Duration {
	const short = 10 * time.Second
	if d < short {
		return d.Round(short / 100)
	}
	return d.Round(time.Second)
}

// list prints the cells and how long they take.
func (o *sweepOptions) list(w io.Writer, cells []sweep.Cell, plans []*cellPlan) error {
	var b strings.Builder
	var once time.Duration
	for i := range cells {
		fmt.Fprintf(&b, "%d  %s\n", i, &cells[i])
		once += plans[i].window() + o.Cooldown
	}
	fmt.Fprintf(&b, "%d cells, %d trials each, %s: at least %s\n", len(cells), o.Trials, o.Order, roughly(once*time.Duration(o.Trials)))
	_, err := io.WriteString(w, b.String())
	return err
}

// run runs the sweep where this process is.
func (o *sweepOptions) run(c *cli.Context, cells []sweep.Cell, plans []*cellPlan) (err error) {
	id := client.NewRun(build(), nil).ID
	spec, err := json.Marshal(&o.Spec)
	if err != nil {
		return err
	}
	s := &sweep.Sweep{ID: id, Spec: &o.Spec, Cells: cells, Window: func(c *sweep.Cell) time.Duration { return plans[c.Index].window() }}
	place, err := o.openPlace(c.App.ErrWriter)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	defer place.close()
	if err := place.try(cells, plans); err != nil {
		return usage("sweep: %w", err)
	}
	if o.resume {
		var h trials.Header
		if s.Writer, h, s.Done, err = trials.Resume(o.output); err != nil {
			return usage("sweep: --resume: %w", err)
		}
		var before sweep.Spec
		if err := json.Unmarshal(h.Spec, &before); err != nil {
			return usage("sweep: --resume: %s: %w", o.output, err)
		}
		if !o.set["seed"] { // the file's
			o.Seed = before.Seed
		}
		if !before.Same(&o.Spec) {
			return usage("sweep: --resume: %s holds another sweep: the same flags and axes go on with it", o.output)
		}
		s.ID = h.ID
	} else if s.Writer, err = trials.Create(o.output, trials.Header{ID: id, Spec: spec, Labels: o.labels}); err != nil {
		return usage("sweep: --output: %w", err)
	}
	defer func() {
		if cerr := s.Writer.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("sweep: %w", cerr)
		}
	}()
	ctx, release := untilSignal(client.ErrInterrupted)
	defer release()
	if !o.quiet {
		o.announce(c.App.ErrWriter, cells, plans)
	}
	show := newSweepProgress(c.App.ErrWriter, o.quiet)
	s.Step = show.step
	s.Trial = func(ctx context.Context, cell *sweep.Cell) *result.Run {
		return o.trial(ctx, place, cell, plans[cell.Index])
	}
	outcome, err := s.Run(ctx)
	show.end()
	if errors.Is(err, client.ErrInterrupted) {
		return &statusError{exitSignal, fmt.Errorf("sweep: ended by a signal after %d trials; --resume goes on", len(s.Done)+outcome.Trials)}
	} else if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if !o.quiet {
		fmt.Fprintf(c.App.ErrWriter, "%d trials of %d cells in %s; a trial took %.1f ms beyond its window\n",
			len(s.Done)+outcome.Trials, len(cells), o.output, outcome.Overhead.Seconds()*1e3)
	}
	if err := o.showTable(c.App.Writer); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if outcome.Failed > 0 {
		return fmt.Errorf("sweep: %d of %d trials failed: %s", outcome.Failed, outcome.Trials, outcome.FirstFailure)
	}
	return nil
}

// trial makes one run of a cell.
func (o *sweepOptions) trial(ctx context.Context, place *place, cell *sweep.Cell, p *cellPlan) *result.Run {
	failed := func(err error) *result.Run {
		r := client.NewRun(build(), o.labels)
		r.Plan = p.client.Plan
		r.Error = &result.Error{Kind: "internal", Message: err.Error(), End: sockopt.Client.String()}
		return r
	}
	held, err := place.apply(p.lab)
	if err != nil {
		return failed(fmt.Errorf("lab: %w", err))
	}
	if err := hook(ctx, o.HookBefore, cell); err != nil {
		return failed(fmt.Errorf("--hook-before: %w", err))
	}
	cfg := p.client.Config
	test := *p.client.Plan
	cfg.Plan = &test
	cfg.Host, cfg.Port = place.host()
	cfg.Stop = ctx.Done()
	r := client.Run(ctx, cfg)
	r.Lab = place.describe(held)
	if err := hook(ctx, o.HookAfter, cell); err != nil && r.Status == result.Complete {
		r.Status = result.Failed
		r.Error = &result.Error{Kind: "internal", Message: "--hook-after: " + err.Error(), End: sockopt.Client.String()}
	}
	return r
}

// hook runs a shell command with the cell in its environment.
func hook(ctx context.Context, command string, cell *sweep.Cell) error {
	if command == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), "GPERF_CELL="+cell.String())
	for _, v := range cell.Values {
		cmd.Env = append(cmd.Env, "GPERF_AXIS_"+envName(v.Name)+"="+v.Value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		said := strings.Join(strings.Fields(string(out)), " ")
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// envName is an axis's name as a variable has it.
func envName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

// A sweepProgress shows how far a sweep has come: on a terminal a line that changes,
// else one now and then.
type sweepProgress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	next     time.Time
	shown    bool
}

// progressEvery is how often progress is shown where lines can't be taken back.
const progressEvery = 10 * time.Second

func newSweepProgress(w io.Writer, quiet bool) *sweepProgress {
	p := &sweepProgress{w: w, quiet: quiet, next: time.Now().Add(progressEvery)}
	if f, ok := w.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

func (p *sweepProgress) step(s sweep.Progress) {
	if p.quiet || s.Cell == nil || !p.terminal && time.Now().Before(p.next) {
		return
	}
	line := fmt.Sprintf("%d of %d trials", s.Done, s.Total)
	if s.Failed > 0 {
		line += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Left > 0 {
		line += fmt.Sprintf(", %s left", s.Left.Round(time.Second))
	}
	line += ": " + s.Cell.String()
	if p.terminal {
		fmt.Fprintf(p.w, "\r\033[K%s", line)
		p.shown = true
		return
	}
	fmt.Fprintln(p.w, line)
	p.next = time.Now().Add(progressEvery)
}

func (p *sweepProgress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\033[K")
	}
}

// parsePrecision reads a percentage, with or without its sign, as a share.
func parsePrecision(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(s), "%"), 64)
	if err != nil || !(f > 0) || f >= 100 {
		return 0, errors.New("want a percentage above 0 and below 100, such as 1.4%")
	}
	return f / 100, nil
}
