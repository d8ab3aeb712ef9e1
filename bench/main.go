// Command bench measures gperf against netperf, iperf3 and neper, on this
// machine and over loopback: the same test with the same knobs on the same
// CPUs, in interleaved pairs, and what a pair's ratio says. It also measures
// what some of gperf's own features cost, and with -movers the ways to move
// bytes. docs/performance.md explains the
// figures; "go run ./bench -h" lists the flags.
//
// It prints Markdown. It's no timed test: nothing fails because it is slow.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// A config is what the flags say.
type config struct {
	pairs    int
	duration time.Duration
	only     *regexp.Regexp
	peers    []string
	raw      string // file for each run's values
	gperf    string // the program
	movers   bool   // measure these, and nothing else
	netperf  bool   // measure gperf as netperf, and nothing else
}

// parse reads the flags.
func parse(args []string, stderr io.Writer) (config, error) {
	c := config{only: regexp.MustCompile("")}
	var peers string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&c.pairs, "pairs", 7, "`N` pairs of each row")
	f.DurationVar(&c.duration, "duration", time.Second, "length of each run's window, in whole seconds: the peers know no others")
	f.TextVar(c.only, "only", c.only, "only rows whose name matches `REGEXP`, as in 'TCP_RR.*netperf'")
	f.StringVar(&peers, "peers", "netperf,iperf3,neper", "`LIST` of testers to compare with, may be empty")
	f.StringVar(&c.raw, "o", "", "write each run's values to `FILE`, as JSON lines")
	f.StringVar(&c.gperf, "gperf", "bin/gperf", "`PATH` of the gperf to measure")
	f.BoolVar(&c.movers, "movers", false, "measure the ways to move bytes instead")
	f.BoolVar(&c.netperf, "netperf", false, "measure gperf as netperf against netperf instead")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.peers = strings.FieldsFunc(peers, func(r rune) bool { return r == ',' })
	for _, name := range c.peers {
		if !slices.ContainsFunc(peerTools, func(t *tool) bool { return t.name == name }) {
			return c, fmt.Errorf("-peers: no tester %q", name)
		}
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("arguments that are no flags: %q", f.Args())
	case c.pairs < 1:
		return c, errors.New("-pairs: must be at least 1")
	case c.duration < time.Second || c.duration%time.Second != 0:
		return c, fmt.Errorf("-duration: %v is not a whole number of seconds", c.duration)
	}
	return c, nil
}

// run is main without the globals, so that tests can call it.
func run(args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	// The kernel ends the children when the thread that started them ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, c, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// measure runs all rows and prints the report. A row that fails says so in the
// report, and the others go on.
func measure(ctx context.Context, c config, stdout, stderr io.Writer) (err error) {
	cpus, err := allowedCPUs()
	if err != nil {
		return err
	}
	record := func(*sample) error { return nil }
	if c.raw != "" {
		file, err := os.Create(c.raw)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(file)
		lines := json.NewEncoder(out)
		record = func(s *sample) error { return lines.Encode(s) }
		defer func() { err = errors.Join(err, out.Flush(), file.Close()) }()
	}
	gperf := gperfTool(c.gperf)
	rep := report{config: c, load: loadAverage()}
	if rep.host, err = describe(ctx, gperf); err != nil {
		return err
	}
	var peers []*tool
	for _, t := range peerTools {
		if !slices.Contains(c.peers, t.name) {
			continue
		}
		if err := t.missing(); err != nil {
			rep.leftOut = append(rep.leftOut, fmt.Sprintf("%s: %v", t.name, err))
			continue
		}
		peers = append(peers, t)
		rep.versions = append(rep.versions, t.version())
	}
	failed := 0
	if c.movers {
		rep.movers, err = measureMovers(ctx, c, gperf, peers, cpus, record, stderr)
		if err != nil {
			return err
		}
		rep.leftOut = append(rep.leftOut, rep.movers.leftOut...)
		for _, err := range rep.movers.errs {
			failed++
			fmt.Fprintln(stderr, "bench:", err)
		}
	} else {
		failed = measureRows(ctx, c, gperf, peers, cpus, record, stderr, &rep)
	}
	if err := rep.write(stdout); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("ended by a signal; the report has the rows that were complete")
	}
	if failed > 0 {
		return fmt.Errorf("%d rows failed", failed)
	}
	return nil
}

// measureRows measures the comparisons, and returns how many failed.
func measureRows(ctx context.Context, c config, gperf *tool, peers []*tool, cpus []int, record func(*sample) error, progress io.Writer, rep *report) (failed int) {
	rows, leftOut := comparisons(gperf, peers, cpus)
	if c.netperf {
		rows, leftOut = netperfComparisons(c.gperf, cpus)
	}
	rep.leftOut = append(rep.leftOut, leftOut...)
	for _, row := range rows {
		if !c.only.MatchString(row.name()) {
			continue
		}
		fmt.Fprintln(progress, "bench:", row.name())
		out, err := row.measure(ctx, c, record)
		if ctx.Err() != nil {
			break
		}
		if out.err = err; err != nil {
			failed++
			fmt.Fprintln(progress, "bench:", err)
		}
		rep.outcomes = append(rep.outcomes, out)
	}
	if c.netperf {
		if len(rows) > 0 && ctx.Err() == nil {
			var err error
			if rep.startToExit, err = measureStartToExit(ctx, c, rows[0], record, progress); err != nil && ctx.Err() == nil {
				failed++
				rep.leftOut = append(rep.leftOut, fmt.Sprintf("start to exit: %v", err))
			}
		}
		return failed
	}
	if c.only.MatchString(beyondName) && ctx.Err() == nil {
		fmt.Fprintln(progress, "bench:", beyondName)
		var err error
		if rep.beyond, err = beyond(ctx, gperf, 3*c.pairs); err != nil && ctx.Err() == nil {
			failed++
			rep.leftOut = append(rep.leftOut, fmt.Sprintf("%s: %v", beyondName, err))
		}
	}
	return failed
}

// allowedCPUs are the CPUs that this process may use.
func allowedCPUs() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// loadAverage is the kernel's, over one minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
