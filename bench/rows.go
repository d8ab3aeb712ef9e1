package main

import (
	"fmt"
	"strings"
	"time"
)

// A test is what one side of a pair is asked to do.
type test struct {
	rr      bool // TCP_RR of one byte each way; else TCP_STREAM
	size    int  // of a message
	receive int  // asked for per receive call
	nodelay bool
	streams int
	cpus    *[2]int       // of client and server; nil: not pinned
	window  time.Duration // length of the run
	more    []string      // more flags of the tool; netperf has none
}

// congestion is the algorithm of every side: the machine's default may differ
// from tool to tool, and decides more than the tool does.
const congestion = "cubic"

// A side is a tool with its test, and what the report calls it.
type side struct {
	*tool
	test
	label string
}

// A comparison is a row of the report: pairs of one run of a and one of b.
type comparison struct {
	title string
	a, b  side
}

// name is the row's, for -only and the progress.
func (c *comparison) name() string {
	return fmt.Sprintf("%s, CPUs %s, %s against %s", c.title, c.a.placement(), c.a.label, c.b.label)
}

// placement names the CPUs of client and server.
func (t *test) placement() string {
	if t.cpus == nil {
		return "any"
	}
	return fmt.Sprintf("%d:%d", t.cpus[0], t.cpus[1])
}

// The tests that all tools do.
var common = []struct {
	title string
	test
}{
	{"TCP_STREAM 16 KiB", test{size: 16 << 10, streams: 1}},
	{"TCP_STREAM 128 KiB", test{size: 128 << 10, streams: 1}},
	{"TCP_STREAM 256 B NODELAY", test{size: 256, streams: 1, nodelay: true}},
	{"TCP_RR 1 B", test{rr: true, size: 1, streams: 1}},
	{"TCP_STREAM 16 KiB, 32 streams", test{size: 16 << 10, streams: 32}},
}

// What gperf's own features cost, as flags with and without.
var costs = []struct {
	title          string
	test           test
	a, b           []string
	aLabel, bLabel string
}{
	{"intervals, TCP_RR 1 B",
		test{rr: true, size: 1, streams: 1}, []string{"-i", "100ms"}, nil, "-i 100ms", "none"},
	{"TCP_INFO, 128 streams of 16 KiB, epoll",
		test{size: 16 << 10, streams: 128}, []string{"--threads", "2", "-i", "100ms"}, []string{"--threads", "2"}, "-i 100ms", "none"},
	// More streams than 32 always have the epoll engine.
	{"TCP_INFO, 32 streams of 16 KiB, blocking",
		test{size: 16 << 10, streams: 32}, []string{"-i", "100ms"}, nil, "-i 100ms", "none"},
	{"engines, 32 streams of 16 KiB",
		test{size: 16 << 10, streams: 32}, []string{"--threads", "2"}, nil, "epoll (--threads 2)", "blocking"},
}

// comparisons are all rows, and which can't be had on these CPUs.
func comparisons(gperf *tool, peers []*tool, cpus []int) (rows []*comparison, leftOut []string) {
	places, leftOut := placements(cpus)
	for _, c := range common {
		for _, place := range places {
			for _, peer := range peers {
				if c.rr && peer.noRR {
					continue
				}
				t := c.test
				t.cpus, t.receive = place, 128<<10
				if peer.oneSize {
					t.receive = t.size
				}
				rows = append(rows, &comparison{c.title, side{gperf, t, gperf.name}, side{peer, t, peer.name}})
			}
		}
	}
	for _, c := range costs {
		t := c.test
		t.receive = 128 << 10
		if t.rr {
			t.cpus = places[0] // where a placement by chance would be the noise
		}
		a, b := t, t
		a.more, b.more = c.a, c.b
		rows = append(rows, &comparison{c.title, side{gperf, a, c.aLabel}, side{gperf, b, c.bLabel}})
	}
	return rows, leftOut
}

// placements are the CPUs that a row's ends run on: both on one, and one on each.
func placements(cpus []int) (places []*[2]int, leftOut []string) {
	places = append(places, &[2]int{cpus[0], cpus[0]})
	if len(cpus) > 1 {
		return append(places, &[2]int{cpus[0], cpus[1]}), nil
	}
	return places, []string{"rows on two CPUs: this process may use one only"}
}

// commands are the lines that ran the row. Ports, which differ from run to run,
// stand as PORT and DATA.
func (c *comparison) commands() (lines []string) {
	p := ports{"PORT", "DATA"}
	for _, s := range []side{c.a, c.b} {
		for _, argv := range [][]string{s.server(s.test, p), s.client(s.test, p)} {
			lines = append(lines, strings.Join(argv, " "))
		}
	}
	return lines
}
