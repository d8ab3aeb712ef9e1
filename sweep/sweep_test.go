package sweep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gperf/presets"
	"gperf/result"
	"gperf/sweep"
	"gperf/trials"
)

func axis(t *testing.T, text string) sweep.Axis {
	t.Helper()
	a, err := sweep.ParseAxis(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestParseAxis(t *testing.T) {
	for text, want := range map[string]sweep.Axis{
		"mtu=1500,9000":           {Names: []string{"mtu"}, Values: [][]string{{"1500"}, {"9000"}}},
		"rcvbuf=:8K,:auto":        {Names: []string{"rcvbuf"}, Values: [][]string{{":8K"}, {":auto"}}},
		"a+b=1+2,3+4":             {Names: []string{"a", "b"}, Values: [][]string{{"1", "2"}, {"3", "4"}}},
		`cpu=0\,2,1`:              {Names: []string{"cpu"}, Values: [][]string{{"0,2"}, {"1"}}},
		"test+size=TCP_RR+,X+1":   {Names: []string{"test", "size"}, Values: [][]string{{"TCP_RR", ""}, {"X", "1"}}},
		"sysctl.x=4096 131072 1M": {Names: []string{"sysctl.x"}, Values: [][]string{{"4096 131072 1M"}}},
	} {
		if d := cmp.Diff(want, axis(t, text)); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
	for _, text := range []string{"", "mtu", "=1", "a+b=1,2", "a+=1+2", "a+b=1+2+3"} {
		if a, err := sweep.ParseAxis(text); err == nil {
			t.Errorf("%q: no error, but %v", text, a)
		}
	}
}

func TestCellsAndSchedule(t *testing.T) {
	for _, order := range sweep.Orders {
		s := sweep.Spec{Axes: []sweep.Axis{axis(t, "a=1,2,3"), axis(t, "b+c=x+y,z+w")}, Trials: 4, Order: order, Seed: 7}
		cells, err := s.Cells()
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) != 6 || cells[5].String() != "a=3 b=z c=w" || cells[1].String() != "a=1 b=z c=w" {
			t.Fatalf("cells: %v", cells)
		}
		slots := s.Schedule(len(cells))
		if !slices.Equal(slots, s.Schedule(len(cells))) {
			t.Errorf("%s: the same seed gives another order", order)
		}
		seen := map[sweep.Slot]bool{}
		for i, slot := range slots {
			if seen[slot] {
				t.Errorf("%s: %v is there twice", order, slot)
			}
			seen[slot] = true
			if order == sweep.Interleaved && slot.Round != i/6+1 {
				t.Errorf("slot %d belongs to round %d", i, slot.Round)
			}
		}
		if len(seen) != 24 {
			t.Errorf("%s: %d slots", order, len(seen))
		}
	}
}

// Two cells go in blocks that mirror themselves, so that a drift hits both alike.
func TestTwoSidesAreMirrored(t *testing.T) {
	s := sweep.Spec{Trials: 20, Order: sweep.Interleaved, Seed: 3}
	slots := s.Schedule(2)
	blocks := map[string]bool{}
	for i := 0; i+3 < len(slots); i += 4 {
		b := slots[i : i+4]
		if b[0].Cell != b[3].Cell || b[1].Cell != b[2].Cell || b[0].Cell == b[1].Cell {
			t.Errorf("block %v", b)
		}
		blocks[string(rune('A'+b[0].Cell))] = true
	}
	if len(blocks) != 2 {
		t.Errorf("all blocks begin with %v", blocks)
	}
}

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		spec sweep.Spec
		want string
	}{
		"twice":     {sweep.Spec{Axes: []sweep.Axis{{Names: []string{"a"}, Values: [][]string{{"1"}}}, {Names: []string{"a"}, Values: [][]string{{"2"}}}}}, "axis a is there twice"},
		"value":     {sweep.Spec{Axes: []sweep.Axis{{Names: []string{"a"}, Values: [][]string{{"1"}, {"1"}}}}}, "axis a has 1 twice"},
		"no values": {sweep.Spec{Axes: []sweep.Axis{{Names: []string{"a"}}}}, "axis a has no values"},
		"order":     {sweep.Spec{Order: "backwards"}, `unknown order "backwards"`},
		"trials":    {sweep.Spec{Trials: -1}, "trials: -1"},
		"precise":   {sweep.Spec{UntilPrecise: 0.01, MaxTrials: 5}, "fewer than the 10"},
		"lab":       {sweep.Spec{Lab: "veth", Host: "h"}, "not at a host"},
	} {
		tt.spec.Normalise()
		if err := tt.spec.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// run runs a sweep whose trials are made up, until stopAfter of them; 0: to the end.
func run(t *testing.T, path string, s *sweep.Spec, resume bool, stopAfter int) (sweep.Outcome, error) {
	t.Helper()
	cells, err := s.Cells()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	x := &sweep.Sweep{ID: "id", Spec: s, Cells: cells, Window: func(*sweep.Cell) time.Duration { return time.Nanosecond }}
	if resume {
		var h trials.Header
		if x.Writer, h, x.Done, err = trials.Resume(path); err != nil {
			t.Fatal(err)
		}
		x.ID = h.ID
	} else if x.Writer, err = trials.Create(path, trials.Header{ID: "id", Spec: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	defer x.Writer.Close()
	n := 0
	x.Trial = func(_ context.Context, c *sweep.Cell) *result.Run {
		if n++; n > stopAfter && stopAfter > 0 {
			cancel(errStopped)
		}
		rate := float64(100 + n%2)
		r := &result.Run{Schema: result.Schema, Status: result.Complete, Summary: &result.Summary{}}
		r.Summary.Throughput = &rate
		if c.Index == 1 {
			r.Status, r.Error = result.Failed, &result.Error{Kind: "peer", Message: "gone"}
		}
		return r
	}
	return x.Run(ctx)
}

var errStopped = errors.New("stopped")

func TestRunAndResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	s := &sweep.Spec{Axes: []sweep.Axis{axis(t, "a=1,2,3")}, Trials: 4, Order: sweep.Interleaved, Seed: 5}
	if _, err := run(t, path, s, false, 5); !errors.Is(err, errStopped) {
		t.Fatalf("stopped: %v", err)
	}
	// A crash leaves a torn line.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"schema":"gperf/1","sweep":{"index":`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	o, err := run(t, path, s, true, 0)
	if err != nil || o.Trials != 7 {
		t.Fatalf("resumed: %+v, %v", o, err)
	}
	w, _, places, err := trials.Resume(path)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	seen := map[[2]int]bool{}
	for _, p := range places {
		seen[[2]int{p.Index, p.Trial}] = true
	}
	if len(places) != 12 || len(seen) != 12 {
		t.Errorf("%d trials, %d different ones", len(places), len(seen))
	}
	if o, err := run(t, path, s, true, 0); err != nil || o.Trials != 0 {
		t.Errorf("a finished sweep goes on: %+v, %v", o, err)
	}
}

// A failed trial is kept, and the sweep goes on.
func TestFailedTrial(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	o, err := run(t, path, &sweep.Spec{Axes: []sweep.Axis{axis(t, "a=1,2")}, Trials: 3, Order: sweep.Sequential}, false, 0)
	if err != nil || o.Trials != 6 || o.Failed != 3 || o.FirstFailure != "gone" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestUntilPrecise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	s := &sweep.Spec{Axes: []sweep.Axis{axis(t, "a=1")}, UntilPrecise: 0.01}
	s.Normalise()
	o, err := run(t, path, s, false, 0)
	if err != nil || o.Trials != sweep.FewestPrecise || o.Spared != sweep.DefaultMaxTrials-sweep.FewestPrecise {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestParseFile(t *testing.T) {
	f, axes, err := sweep.ParseFile(strings.NewReader("flags: {streams: 4}\naxes:\n  mtu: [1500, 9000]\n  a+b: [1+2]\ntrials: 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Trials != 3 || f.Flags["streams"] != "4" || len(axes) != 2 || axes[0].Names[0] != "mtu" || axes[1].Values[0][1] != "2" {
		t.Errorf("%+v %+v", f, axes)
	}
	for name, text := range map[string]string{
		"unknown word": "trails: 3\n", "not a list": "axes: {mtu: 1500}\n", "nested": "axes: {mtu: [[1]]}\n", "empty": "",
		"two": "trials: 1\n---\ntrials: 2\n", "zip": "axes: {a+b: [1]}\n", "no map": "axes: [1]\n",
	} {
		if _, _, err := sweep.ParseFile(strings.NewReader(text)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPresets(t *testing.T) {
	want := []string{"nodelay-coalescing", "small-rcvbuf", "splice-mtu", "trials", "tso"}
	if d := cmp.Diff(want, presets.Names()); d != "" {
		t.Fatal(d)
	}
	for _, name := range want {
		text, err := presets.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f, axes, err := sweep.ParseFile(strings.NewReader(text))
		if err != nil || f.Table == nil || f.About == "" || len(axes) == 0 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	for _, name := range presets.Names() {
		text, _ := presets.Open(name)
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		_, _, _ = sweep.ParseFile(strings.NewReader(text))
		_, _ = sweep.ParseAxis(text)
	})
}
