package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// gperf is the program that the tests measure, built once by TestMain.
var gperf string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gperf-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	gperf = filepath.Join(dir, "gperf")
	if out, err := exec.Command("go", "build", "-o", gperf, "gperf/cmd/gperf").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build gperf: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// The files are what the tools printed, two of them shortened at the top.
func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		file string
		tool *tool
		rr   bool
		want float64
		err  string
	}{
		{"netperf_stream.txt", netperf, false, 16210.53e6, ""},
		{"netperf_rr.txt", netperf, true, 45058.53, ""},
		{"netperf_rr.txt", netperf, false, 0, `THROUGHPUT_UNITS is "Trans/s"`},
		{"netperf_bbr.txt", netperf, false, 0, `LOCAL_CONG_CONTROL is "bbr"`},
		{"netperf_refused.txt", netperf, false, 0, "are you sure there is a netserver"},
		{"iperf3.json", iperf3, false, 823772709.55, ""},
		{"iperf3_refused.json", iperf3, false, 0, "Connection refused"},
		{"netperf_rr.txt", iperf3, false, 0, "iperf3's JSON"},
		{"neper_stream.txt", neper, false, 1355737767, ""},
		{"neper_rr.txt", neper, true, 37136, ""},
		{"netperf_rr.txt", neper, true, 0, `remote_throughput is ""`},
		{"netperf_rr.txt", gperfTool("gperf"), true, 0, "not a gperf result"},
		{"netperf_sendfile.txt", netperfSendfile("payload"), false, 11138.47e6, ""},
		{"netperf_rr.txt", netperfSendfile("payload"), false, 0, "columns instead of 5"},
	}
	for _, tt := range tests {
		t.Run(tt.tool.name+" "+tt.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.tool.parse(test{rr: tt.rr}, text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v and error %v, want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil || math.Abs(got-tt.want) > 1e-9*tt.want {
				t.Errorf("got %v and error %v, want %v", got, err, tt.want)
			}
		})
	}
}

// fake is a tool that reports a fixed rate after its window.
func fake(rate int) *tool {
	return &tool{
		name: "fake", programs: []string{"sh"},
		server: gperfTool(gperf).server,
		client: func(t test, _ ports) []string {
			return []string{"sh", "-c", fmt.Sprintf("sleep %v; echo remote_throughput=%d", t.window.Seconds(), rate)}
		},
		parse: parseNeper,
	}
}

func TestPairsTakeTurns(t *testing.T) {
	c := comparison{"fake", side{fake(30), test{streams: 1}, "one"}, side{fake(20), test{streams: 1}, "two"}}
	var order []string
	out, err := c.measure(t.Context(), config{pairs: 2, duration: 100 * time.Millisecond}, func(s *sample) error {
		order = append(order, fmt.Sprintf("%d %s %t %v", s.Pair, s.Side, s.Second, s.PerSecond))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 a false 30", "1 b true 20", "2 b false 20", "2 a true 30"}, order); diff != "" {
		t.Errorf("order of runs (-want +got):\n%s", diff)
	}
	if got := out.rate; got.a != 30 || got.b != 20 || got.ratio != 1.5 || got.interval.Low != 1.5 {
		t.Errorf("got %+v", got)
	}
}

// Clients that are several must all run, and their rates add up.
func TestManyClients(t *testing.T) {
	many := fake(7)
	many.perStream = true
	x, err := open(t.Context(), side{many, test{streams: 3, window: 200 * time.Millisecond}, "many"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if s, err := x.run(t.Context()); err != nil || s.PerSecond != 21 || s.Processes != 3 {
		t.Errorf("got %+v and error %v, want 3 processes and 21 in all", s, err)
	}
}

// A tool that fails is named in the row's error, and leaves no process.
func TestFailure(t *testing.T) {
	broken := fake(1)
	broken.server = func(test, ports) []string { return []string{"sh", "-c", "echo no such luck >&2; exit 3"} }
	silent := fake(1)
	silent.client = func(test, ports) []string { return []string{"sh", "-c", "echo refused; exit 4"} }
	for _, tt := range []struct {
		tool *tool
		want string
	}{{broken, "no such luck"}, {silent, "exit status 4: refused"}} {
		c := comparison{"fake", side{tt.tool, test{streams: 1}, "bad one"}, side{fake(1), test{streams: 1}, "good one"}}
		_, err := c.measure(t.Context(), config{pairs: 1, duration: 100 * time.Millisecond}, func(*sample) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "bad one") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got error %v, want one with %q", err, tt.want)
		}
	}
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("children are left: waitid says %v", err)
	}
}

// The CPU clock of this process must be what getrusage(2) says of it.
func TestRunningCPU(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	rusage := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const slack = 5 * time.Millisecond // the clock includes the running slices of other threads to the nanosecond
	before := rusage()
	got, err := (&child{Cmd: &exec.Cmd{Process: self}}).runningCPU()
	after := rusage()
	if err != nil || got < before-slack || got > after+slack {
		t.Errorf("got %v and error %v, getrusage says %v to %v", got, err, before, after)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want string
	}{
		{"-duration 1.5s", "whole number of seconds"},
		{"-pairs 0", "at least 1"},
		{"-peers netperf,ttcp", `no tester "ttcp"`},
		{"-only (", "missing closing )"},
		{"more", "no flags"},
	} {
		var stderr bytes.Buffer
		if status := run(strings.Fields(tt.args), &stderr, &stderr); status != 2 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: status %d, said %q, want 2 and %q", tt.args, status, &stderr, tt.want)
		}
	}
}

// One real pair, as make bench-peers runs them.
func TestRealPair(t *testing.T) {
	if err := netperf.missing(); err != nil {
		t.Skip("needs netperf: ", err)
	}
	cpus, err := allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(t.TempDir(), "raw.jsonl")
	only := fmt.Sprintf("TCP_RR 1 B, CPUs %d:%d, gperf against netperf", cpus[0], cpus[0])
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-pairs", "1", "-peers", "netperf", "-only", only, "-o", raw, "-gperf", gperf}, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s\n%s", status, &stderr, &stdout)
	}
	row := fmt.Sprintf("| TCP_RR 1 B | %d:%d | gperf | netperf | ", cpus[0], cpus[0])
	for _, want := range []string{row, "k/s", "µs", "client -J --congestion cubic -t TCP_RR", "netserver -f", "Linux"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, &stdout)
		}
	}
	text, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 {
		t.Fatalf("want 2 runs, got:\n%s", text)
	}
	for _, line := range lines {
		var s sample
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.PerSecond <= 0 || s.ClientCPU <= 0 || s.ServerCPU <= 0 || s.Wall < 1 || s.Error != "" {
			t.Errorf("got %s", line)
		}
	}
}

func TestSignalEndsChildren(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := start(ctx, []string{"sleep", "60"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.failure(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want it killed", err)
	}
}
