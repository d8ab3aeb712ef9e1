package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gperf/plan"
)

func TestMoverPairFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pair  moverPair
		label string
		want  string
	}{
		{moverPair{send: plan.Write, receive: plan.Discard}, "write -> discard",
			"-m 1048576 --receive-size 1048576 --send write --receive discard -d 1"},
		{moverPair{send: plan.Splice, receive: plan.Splice, pipe: 64 * kib}, "splice -> splice, pipe 64K",
			"-m 1048576 --receive-size 65536 --send splice --receive splice --pipe-size 65536 -d 1"},
		{moverPair{send: plan.Splice, receive: plan.Read, pipe: mib}, "splice -> read, pipe 1M",
			"-m 1048576 --receive-size 131072 --send splice --receive read --pipe-size 1048576 -d 1"},
	} {
		s := tt.pair.side(gperfTool("gperf"), nil)
		s.window = time.Second
		got := strings.Join(s.client(s.test, ports{"PORT", "DATA"}), " ")
		if want := "gperf client -J --congestion cubic " + tt.want + " 127.0.0.1:PORT"; got != want || s.label != tt.label {
			t.Errorf("%q is %s\nwant %q as %s", s.label, got, tt.label, want)
		}
	}
}

// Two sides share the baseline between them, and the order turns around.
func TestMoversShareBaseline(t *testing.T) {
	row := func(rate int, label string) side { return side{fake(rate), test{streams: 1}, label} }
	r := &moverReport{bases: make(map[string][]sample)}
	var order []string
	c := config{pairs: 2, duration: 100 * time.Millisecond}
	r.measure(t.Context(), c, []side{row(30, "one"), row(40, "two")}, row(20, "base"), func(s *sample) error {
		order = append(order, fmt.Sprintf("%d %s %s", s.Pair, s.Side, s.Label))
		return nil
	})
	if len(r.errs) > 0 {
		t.Fatal(r.errs)
	}
	want := []string{"1 a one", "1 b base", "1 c two", "2 c two", "2 b base", "2 a one"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of runs (-want +got):\n%s", diff)
	}
	if len(r.rows) != 2 || r.rows[0].rate.ratio != 1.5 || r.rows[1].rate.ratio != 2 || len(r.bases["any"]) != 2 {
		t.Errorf("got %+v", r)
	}
	if got := best(r.rows, false); got == nil || got.label != "two" {
		t.Errorf("the best is %+v", got)
	}
	if got := best(r.rows, true); got != nil {
		t.Errorf("the best of gperf's, which has none, is %+v", got)
	}
}

func TestMoverTable(t *testing.T) {
	t.Parallel()
	on := func(label string) side { return side{&tool{name: "gperf"}, test{cpus: &[2]int{0, 1}}, label} }
	a := figure{a: 30e9, b: 20e9, ratio: 1.5}
	cost := figure{a: 1e-11, b: 2e-11, ratio: 0.5}
	r := &moverReport{
		rows: []*moverRow{
			{side: on("write -> splice, pipe 64K"), rate: a, cpu: cost, send: 65536, receive: 49152},
			{side: on("iperf3 -Z"), rate: a, cpu: cost},
			{side: on("neper"), err: fmt.Errorf("a|b")},
		},
		bases:  map[string][]sample{"0:1": {{PerSecond: 20e9, ClientCPU: 0.2, ServerCPU: 0.2, PerSend: 131072, PerReceive: 131072}}},
		finals: []outcome{{comparison: &comparison{"best", on("splice -> discard"), on("iperf3 -Z")}, rate: a, cpu: cost}},
	}
	var b strings.Builder
	r.write(&b)
	for _, want := range []string{
		"| write 128K -> read 128K | 0:1 | 20.00 Gbit/s | 1 | 0.164 µs/KiB | 1 | 128.0 KiB | 128.0 KiB |",
		"| write -> splice, pipe 64K | 0:1 | 30.00 Gbit/s | 1.500 | 0.082 µs/KiB | 0.500 | 64.0 KiB | 48.0 KiB |",
		"| iperf3 -Z | 0:1 | 30.00 Gbit/s | 1.500 | 0.082 µs/KiB | 0.500 |  |  |",
		`| neper | 0:1 | a\|b | | | | | |`,
		"splice -> discard moves 1.50 times what iperf3 -Z does (medians 30.00 Gbit/s and 20.00 Gbit/s), pairs 1.500; CPU per byte 0.500.",
		"instead of read, CPUs 0:1, write -> splice, pipe 64K: CPU per byte 0.500.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, &b)
		}
	}
}

func TestDefaultCongestion(t *testing.T) {
	t.Parallel()
	got, err := defaultCongestion()
	available, readErr := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil || readErr != nil || !slices.Contains(strings.Fields(string(available)), got) {
		t.Errorf("got %q and error %v, want one of %q (%v)", got, err, available, readErr)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1000: "1000", 64 * kib: "64K", 2 * mib: "2M", 1536 * kib: "1536K"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// A real row of a mover, with what its calls moved.
func TestRealMovers(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-movers", "-pairs", "1", "-peers", "", "-only", "splice -> splice, pipe 64K", "-gperf", gperf}, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s\n%s", status, &stderr, &stdout)
	}
	for _, want := range []string{"| splice -> splice, pipe 64K | ", "| write 128K -> read 128K | ", "KiB |", "--send splice --receive splice --pipe-size 65536", "Linux"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, &stdout)
		}
	}
}
