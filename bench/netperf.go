package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/stats"
)

// Rows of gperf as netperf against netperf: the same command lines, each with its
// own server, and what netperf prints read as scripts read it.
var asNetperf = []struct {
	title string
	rr    bool
	args  []string
}{
	{"TCP_STREAM", false, []string{"-t", "TCP_STREAM"}},
	{"TCP_STREAM -m 256 -D", false, []string{"-t", "TCP_STREAM", "--", "-m", "256", "-D"}},
	{"TCP_RR", true, []string{"-t", "TCP_RR"}},
	{"TCP_CRR", true, []string{"-t", "TCP_CRR"}},
	{"UDP_RR", true, []string{"-t", "UDP_RR"}},
}

// netperfOf is a netperf and its netserver, however they are started. Both are
// pinned as processes, which costs neither anything.
func netperfOf(name string, client, server []string) *tool {
	pinned := func(t test, end int, argv []string) []string {
		if t.cpus == nil {
			return argv
		}
		return append([]string{"taskset", "-c", strconv.Itoa(t.cpus[end])}, argv...)
	}
	return &tool{
		name: name, programs: []string{client[0], server[0], "taskset"}, versionq: append(slices.Clone(client), "-V"),
		server: func(t test, p ports) []string {
			return pinned(t, 1, append(slices.Clone(server), "-D", "-f", "-4", "-L", "127.0.0.1", "-p", p[0]))
		},
		client: func(t test, p ports) []string {
			return pinned(t, 0, append(append(slices.Clone(client), "-4", "-H", "127.0.0.1", "-p", p[0], "-P", "0", "-v", "0", "-l", seconds(t.window)), t.more...))
		},
		parse: func(t test, stdout []byte) (float64, error) {
			v, err := strconv.ParseFloat(strings.TrimSpace(string(stdout)), 64)
			if err != nil || !(v > 0) {
				return 0, fmt.Errorf("the result is %q", stdout)
			}
			if t.rr {
				return v, nil
			}
			return v * 1e6, nil
		},
	}
}

// netperfComparisons are the rows, on the CPUs that there are.
func netperfComparisons(gperf string, cpus []int) (rows []*comparison, leftOut []string) {
	a := netperfOf("gperf", []string{gperf, "netperf"}, []string{gperf, "netserver"})
	b := netperfOf("netperf", []string{"netperf"}, []string{"netserver"})
	if err := b.missing(); err != nil {
		return nil, []string{fmt.Sprintf("netperf: %v", err)}
	}
	places, leftOut := placements(cpus)
	for _, row := range asNetperf {
		for _, place := range places {
			t := test{rr: row.rr, streams: 1, cpus: place, more: row.args}
			rows = append(rows, &comparison{row.title, side{a, t, "gperf netperf"}, side{b, t, "netperf"}})
		}
	}
	return rows, leftOut
}

// A startToExit is how much longer gperf takes than netperf from its start to its
// end, milliseconds.
type startToExit struct {
	median float64
	within *stats.Interval
	n      int
}

// measureStartToExit runs pairs of TCP_STREAM of one second.
func measureStartToExit(ctx context.Context, c config, row *comparison, record func(*sample) error, progress io.Writer) (*startToExit, error) {
	fmt.Fprintln(progress, "bench: start to exit")
	a, b := row.a, row.b
	a.cpus, b.cpus = nil, nil
	c.pairs *= 3
	samples, err := rounds(ctx, c, "start to exit", []side{a, b}, record)
	if err != nil {
		return nil, err
	}
	var more []float64
	for i := range samples[0] {
		more = append(more, 1e3*(samples[0][i].Wall-samples[1][i].Wall))
	}
	return &startToExit{*stats.Describe(more).Median, stats.MedianInterval(more), len(more)}, nil
}
