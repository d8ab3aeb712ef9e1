package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
)

var lastID atomic.Uint64

// aRun is a finished run of a test that moved rate bit/s.
func aRun(rate float64) *result.Run {
	boot, kernel := "b1", "6.12.1"
	host := func() *result.Host { return &result.Host{BootID: &boot, Kernel: &kernel} }
	cpu, seconds, segments, none := 42.5, 2.0, uint64(7), uint64(0)
	p := &plan.Test{Streams: 2, Client: plan.End{Knobs: sockopt.Settings{"nodelay": sockopt.Int(1)}}, Server: plan.End{Knobs: sockopt.Settings{"nodelay": sockopt.Int(1)}}}
	p.Normalise()
	return &result.Run{
		Schema: result.Schema, ID: fmt.Sprintf("%032x", lastID.Add(1)), Started: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Gperf: result.Build{Version: "1.0", Commit: "c"},
		Labels: map[string]string{"where": "here"}, Status: result.Complete, Trust: result.Trust{OK: true},
		Plan: p, Hosts: result.Ends[*result.Host]{Client: host(), Server: host()},
		Summary: &result.Summary{
			Figures: result.Figures{Throughput: &rate, Duration: &seconds, RetransSegs: &segments, RTOEvents: &none},
			CPU:     result.CPU{Client: &result.EndCPU{Total: &cpu, RunQueueWait: new(0.5)}},
		},
		Streams: []result.Stream{
			{Client: &result.StreamEnd{Thread: &result.Thread{ThreadUse: result.ThreadUse{RunQueueWaitSeconds: new(0.25)}}}},
			{Client: &result.StreamEnd{Thread: &result.Thread{ThreadUse: result.ThreadUse{RunQueueWaitSeconds: new(0.5)}}}},
		},
		Counters: result.Ends[*result.Counters]{Client: &result.Counters{Protocols: map[string]uint64{"TcpOutSegs": 9}}},
	}
}

func write(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func document(t testing.TB, r *result.Run, form encode.Encoder) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := form(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func lookups(t testing.TB, names ...string) []Metric {
	t.Helper()
	var all []Metric
	for _, name := range names {
		m, err := LookupMetric(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// figures are a trial's metrics by name; unknown ones are left out.
func figures(s *Set, t *Trial) map[string]float64 {
	f := map[string]float64{}
	for i, m := range s.Metrics {
		if v, ok := t.Value(i); ok {
			f[m.Name] = v
		}
	}
	return f
}

// sweepFile has two cells with two trials each, of which one failed.
func sweepFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "sweep.jsonl")
	w, err := Create(path, Header{ID: "aa", Spec: json.RawMessage(`{"axes":[{"names":["rcvbuf"]},{"names":["mtu"]}]}`), Labels: map[string]string{"site": "lab"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []string{"8K", "16K", "16K", "8K"} {
		r := aRun(1e9 * float64(i+1))
		r.Started = r.Started.Add(time.Duration(i) * time.Minute)
		r.Sweep = &result.Place{ID: "aa", Cell: map[string]string{"rcvbuf": size, "mtu": "1500"}, Index: i % 2, Trial: i/2 + 1, Round: i/2 + 1, Slot: i + 1}
		if i == 2 {
			r.Status, r.Error, r.Summary = result.Failed, &result.Error{Kind: "timeout", Message: "client: no answer"}, nil
		}
		if i == 3 {
			*r.Hosts.Server.BootID = "b2"
		}
		if err := w.Add(r, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadSweep(t *testing.T) {
	t.Parallel()
	path := sweepFile(t)
	r := NewReader(lookups(t, "throughput", "retransmits", "client-cpu", "client-run-queue-wait", "counters.client.protocols.TcpOutSegs", "counters.client.protocols.TcpExtTCPLossProbes")...)
	n, err := r.Read(path)
	if err != nil || n != 4 {
		t.Fatalf("%d trials, %v", n, err)
	}
	set := r.Set()
	if diff := cmp.Diff([]string{"rcvbuf", "mtu"}, set.Axes()); diff != "" {
		t.Errorf("axes (-want +got):\n%s", diff)
	}
	type seen struct {
		Source, Boot, Why string
		OK                bool
		Cell, Labels      map[string]string
		Figures           map[string]float64
		Round             int
	}
	see := func(i int) seen {
		trial := set.Trials[i]
		return seen{filepath.Base(trial.Source()), trial.Boot(), trial.Why, trial.OK(), trial.Cell, trial.Labels, figures(set, trial), trial.Place.Round}
	}
	labels := map[string]string{"where": "here", "site": "lab"}
	for i, want := range map[int]seen{
		0: {
			"sweep.jsonl:3", "b1", "", true, map[string]string{"rcvbuf": "8K", "mtu": "1500"}, labels,
			map[string]float64{
				"throughput": 1e9, "retransmits": 7, "client-cpu": 42.5, "client-run-queue-wait": 0.5, "counters.client.protocols.TcpOutSegs": 9,
				"counters.client.protocols.TcpExtTCPLossProbes": 0, // it didn't grow
			},
			1,
		},
		2: {
			"sweep.jsonl:5", "b1", "client: no answer", false, map[string]string{"rcvbuf": "16K", "mtu": "1500"}, labels,
			map[string]float64{"counters.client.protocols.TcpOutSegs": 9, "counters.client.protocols.TcpExtTCPLossProbes": 0},
			2,
		},
		3: {
			"sweep.jsonl:7", "b2", "", true, map[string]string{"rcvbuf": "8K", "mtu": "1500"}, labels,
			map[string]float64{
				"throughput": 4e9, "retransmits": 7, "client-cpu": 42.5, "client-run-queue-wait": 0.5, "counters.client.protocols.TcpOutSegs": 9,
				"counters.client.protocols.TcpExtTCPLossProbes": 0,
			},
			2,
		},
	} {
		if diff := cmp.Diff(want, see(i)); diff != "" {
			t.Errorf("trial %d (-want +got):\n%s", i, diff)
		}
	}
	if set.Trials[0].Hosts != set.Trials[1].Hosts || *set.Trials[0].Hosts.Client.Kernel != "6.12.1" {
		t.Error("the hosts of trials are not those of their line, shared")
	}
}

// A sweep over a sysctl comes back to the same hosts again and again, and so does one
// that is resumed: each stands in the file once.
func TestHostsOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sweep.jsonl")
	w, err := Create(path, Header{ID: "aa", Spec: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	const trials = 6
	mtus := []int{1500, 9000}
	for i := range trials {
		if i == trials/2 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if w, _, _, err = Resume(path); err != nil {
				t.Fatal(err)
			}
		}
		r := aRun(1e9)
		r.Sweep = &result.Place{ID: "aa", Cell: map[string]string{"mtu": "1500"}, Trial: i + 1, Slot: i + 1}
		r.Hosts.Client.Device = &result.Device{MTU: &mtus[i%2]}
		if err := w.Add(r, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte(`"line":"hosts"`)); n != 2 {
		t.Errorf("two descriptions of hosts took %d lines:\n%s", n, b)
	}
	r := NewReader()
	if _, err := r.Read(path); err != nil {
		t.Fatal(err)
	}
	for i, trial := range r.Set().Trials {
		if got, want := *trial.Hosts.Client.Device.MTU, mtus[i%2]; got != want {
			t.Errorf("trial %d has an MTU of %d, not %d", i, got, want)
		}
	}
}

// Runs of their own: each form of document, alone, one after the other, and in
// folders; the cell is what differs.
func TestReadDocuments(t *testing.T) {
	t.Parallel()
	a, b := aRun(1e9), aRun(2e9)
	b.Plan.Server.Knobs["nodelay"] = sockopt.Int(0)
	b.Plan.Client.SendSize = 8 << 10
	folder := t.TempDir()
	for name, text := range map[string][]byte{
		"a.json": document(t, a, encode.JSON), "b.json": document(t, b, encode.JSON), "README": []byte("of these runs"), ".hidden": []byte("{"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var one bytes.Buffer
	for _, r := range []*result.Run{a, b} {
		if err := json.Compact(&one, document(t, r, encode.JSON)); err != nil {
			t.Fatal(err)
		}
	}
	a.Intervals = []result.Interval{{Direction: plan.ClientToServer}}
	lines := document(t, a, encode.JSONLines)
	both := bytes.Join([][]byte{document(t, a, encode.JSON), document(t, b, encode.JSON)}, nil)
	for _, tt := range []struct {
		name, path string
		lines      []int
		notes      int
	}{
		{"a folder", folder, []int{1, 1}, 1},
		{"one after the other", write(t, "both.json", both), []int{1, bytes.Count(document(t, a, encode.JSON), []byte("\n")) + 1}, 0},
		{"in one line", write(t, "line.json", one.Bytes()), []int{1, 1}, 0},
		{"twice", write(t, "twice.json", bytes.Repeat(both, 2)), []int{1, bytes.Count(document(t, a, encode.JSON), []byte("\n")) + 1}, 1},
		{"JSON lines", write(t, "lines.jsonl", lines), []int{2}, 0},
		{"without blanks between", write(t, "tight.json", bytes.ReplaceAll(both, []byte("}\n{"), []byte("}{"))), []int{1, bytes.Count(document(t, a, encode.JSON), []byte("\n"))}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(lookups(t, "throughput", "client-run-queue-wait")...)
			if _, err := r.Read(tt.path); err != nil {
				t.Fatal(err)
			}
			set := r.Set()
			var at []int
			for _, trial := range set.Trials {
				at = append(at, trial.Line)
			}
			if diff := cmp.Diff(tt.lines, at); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if len(set.Notes) != tt.notes {
				t.Errorf("notes %q", set.Notes)
			}
			if diff := cmp.Diff(map[string]float64{"throughput": 1e9, "client-run-queue-wait": 0.5}, figures(set, set.Trials[0])); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
			if len(set.Trials) == 2 {
				want := map[string]string{"nodelay": "on:off", "message-size": "8K:128K", "where": "here"}
				if diff := cmp.Diff(want, set.Trials[1].Cell); diff != "" {
					t.Errorf("cell (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestReadSeries(t *testing.T) {
	t.Parallel()
	var runs []*result.Run
	for i, rate := range []float64{3e9, 1e9, 2e9} {
		r := aRun(rate)
		r.ID = fmt.Sprint(i)
		runs = append(runs, r)
	}
	runs[1].Status, runs[1].Error = result.Partial, &result.Error{Kind: "peer", Message: "gone"}
	r := NewReader(lookups(t, "throughput", "retransmits", "client-run-queue-wait")...)
	if _, err := r.Read(write(t, "series.json", document(t, result.Series(runs, nil), encode.JSON))); err != nil {
		t.Fatal(err)
	}
	set := r.Set()
	var got []string
	for _, trial := range set.Trials {
		got = append(got, fmt.Sprint(filepath.Base(trial.Source()), " ", trial.OK(), " ", trial.Why, " ", figures(set, trial)))
	}
	want := []string{
		"series.json:1#1 true  map[retransmits:7 throughput:3e+09]",
		"series.json:1#2 false gone map[retransmits:7 throughput:1e+09]",
		"series.json:1#3 true  map[client-run-queue-wait:0.5 retransmits:7 throughput:2e+09]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeRates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]float64{
		"":     nil,
		"null": nil,
		"[]":   nil,
		"{}":   nil,
		`[{"direction":"a","throughput_bits_per_second":3},{"direction":"a","throughput_bits_per_second":0}]`:                                                  {3, 0},
		`[{"direction":"a","throughput_bits_per_second":3},{"direction":"b","throughput_bits_per_second":4},{"direction":"a","throughput_bits_per_second":5}]`: {7, 5},
		`[{"direction":"a","throughput_bits_per_second":null,"transactions_per_second":8}]`:                                                                    {8},
		`[{"direction":"a","throughput_bits_per_second":3},{"direction":"a","throughput_bits_per_second":null}]`:                                               nil,
	} {
		if diff := cmp.Diff(want, decodeRates([]byte(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A run that was open for its whole time and moved nothing measured a zero.
func TestStill(t *testing.T) {
	t.Parallel()
	r := aRun(0)
	r.Status, r.Error = result.Failed, &result.Error{Kind: "data", Message: "no data arrived inside the window"}
	in := NewReader(lookups(t, "throughput")...)
	if _, err := in.Read(write(t, "still.json", document(t, r, encode.JSON))); err != nil {
		t.Fatal(err)
	}
	if v, ok := in.Set().Trials[0].Value(0); v != 0 || !ok || !in.Set().Trials[0].OK() {
		t.Errorf("%v, %v: want the sample 0", v, ok)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(sweepFile(t))
	if err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(sweepFile(t))
	if err != nil {
		t.Fatal(err)
	}
	pretty := document(t, aRun(1), encode.JSON)
	for _, tt := range []struct {
		name, text string
		err, note  string // a part of each
	}{
		{name: "torn", text: string(good[:len(good)-20]), note: "f:7: the last line is torn"},
		{name: "torn, and ended", text: string(good[:len(good)-20]) + "\n", note: "f:7: the last line is torn"},
		{name: "torn, with noughts", text: string(good) + "\x00\x00\x00", note: "f:8: the last line is torn"},
		{name: "torn in the middle", text: strings.Replace(string(good), `,"retransmitted_segments"`, "\n"+`{"retransmitted_segments"`, 1), err: "f:3: "},
		{name: "garbage at the start", text: "hello\n" + string(good), err: `f: it begins with "hello": no results`},
		{name: "garbage later", text: string(good) + "hello\n" + string(good), err: `f:8: not a result: it begins with "hello"`},
		{name: "empty", text: " \n", err: "f: empty: no results"},
		{name: "a list", text: "[{}]", err: "f: a list"},
		{name: "other schema", text: strings.Replace(string(good), `"gperf/1"`, `"gperf/2"`, 1), err: `f:1: schema is "gperf/2", and this gperf reads gperf/1`},
		{name: "no schema", text: "{}\n", err: "f:1: not a result: it names no schema"},
		{name: "no end", text: string(pretty[:len(pretty)-20]), err: "f:1: the document that begins here doesn't end"},
		{name: "one torn line", text: `{"schema":"gperf/1"`, err: "f:1: not JSON"},
		{name: "hosts elsewhere", text: strings.Replace(string(good), `"hosts":2}`, `"hosts":3}`, 1), err: "f:3: its hosts should be in line 3, and aren't"},
		{name: "place", text: strings.Replace(string(good), `"round":1`, `"round":"one"`, 1), err: "f:3: the place in the sweep: round: string instead of int"},
		{name: "csv", text: "id,started,status,test\n", err: "f: gperf's CSV, which is for spreadsheets"},
		{name: "two sweeps", text: string(good) + string(next)},
		{name: "a sweep twice", text: string(good) + string(good), note: "f: runs that were read before, counted once: 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(lookups(t, "throughput")...)
			_, err := r.ReadFrom("f", strings.NewReader(tt.text))
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			notes := strings.Join(r.Set().Notes, "\n")
			if err == nil && (notes == "") != (tt.note == "") || !strings.HasPrefix(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}

func TestLookupMetric(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"throughput":                       "bit/s higher",
		"p99":                              "us lower",
		"summary.cpu.server.total_percent": "% lower",
		"summary.latency_us.min":           "us lower",
		"summary.send_calls":               " higher",
		"summary.send_calls:lower":         " lower",
		"streams[].client.short_sends":     " higher",
		"streams.client.short_sends":       "streams is a list: write streams[] for the mean of its entries",
		"summary.cpu":                      `cpu is no number (below it: scope, client, server)`,
		"summary.throughput":               `no "throughput" in summary`,
		"summary.cpu.scope":                `scope is no number: "summary.cpu.scope"`,
		"id.x":                             `id has nothing below it: "id.x"`,
		"througput":                        `unknown metric "througput" (known: throughput, `,
		"p99:best":                         `"p99:best": a metric is better higher or lower, not "best"`,
		"counters.client.protocols.TcpX":   " higher",
	} {
		m, err := LookupMetric(name)
		got := m.Unit + " " + string(m.Better)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, m := range metrics {
		for _, path := range m.paths {
			if path == pathStalls {
				continue
			}
			if err := checkPath(path); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}

func TestCompareValues(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{
		{"8K", "16K", "1M", "auto"},
		{"9", "10", "100"},
		{"0.1%", "1%", "2%"},
		{"100us", "1ms", "1s"},
		{"off", "on"},
		{"6.6.9", "6.6.93", "6.12.1"},
		{"8K:64K", "16K:64K"},
		{"eth2", "eth10"},
		{"100Mbit", "1Gbit"},
	} {
		for i, a := range order {
			for j, b := range order {
				if got := CompareValues(a, b); got > 0 != (i > j) || got < 0 != (i < j) {
					t.Errorf("%s and %s: %d", a, b, got)
				}
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"gperf/1","line":"sweep","id":"a","spec":null}` + "\n" + `{"schema":"gperf/1","status":"complete","sweep":{"cell":{"a":"b"}},"summary":{"throughput_bits_per_second":1}}`))
	f.Add([]byte(`{"a":"\\\"}{"}` + "\n{\n}{}"))
	for _, name := range []string{"iperf3-tcp.json", "iperf3-udp.json", "iperf3-stream.jsonl", "netperf-rr.keyval", "netperf-rr.csv", "upload.flent.gz"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	wanted := append(Covariates(), lookups(f, "throughput", "streams[].client.short_sends", "counters.client.protocols.X")...)
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader(wanted...)
		_, err := r.ReadFrom("f", bytes.NewReader(text))
		if err != nil {
			return
		}
		set := r.Set()
		for _, trial := range set.Trials {
			for i := range set.Metrics {
				if v, ok := trial.Value(i); ok && (math.IsNaN(v) || math.IsInf(v, 0)) {
					t.Fatalf("%s: %v", set.Metrics[i].Name, v)
				}
			}
			_ = trial.Boot() + trial.Source()
		}
		set.Axes()
	})
}

// lines is a stream of the trials of a sweep as Writer writes them, made as they
// are read.
type lines struct {
	n, of int
	line  []byte
	rest  []byte
}

func (l *lines) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.n == l.of {
			return 0, io.EOF
		}
		l.n++
		at := bytes.Index(l.line, []byte("SLOT!"))
		copy(l.line[at:], fmt.Sprintf("%05d", l.n%100_000))
		l.rest = append(l.rest[:0], l.line...)
		copy(l.line[at:], "SLOT!")
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// BenchmarkRead reads 100,000 lines of a real sweep's size. HeapMiB is what is held
// at its end.
func BenchmarkRead(b *testing.B) {
	real, err := os.ReadFile("testdata/line.json")
	if err != nil {
		b.Fatal(err)
	}
	header := []byte(`{"schema":"gperf/1","line":"sweep","id":"aa","spec":null}` + "\n")
	for b.Loop() {
		r := NewReader(append(Covariates(), lookups(b, "throughput")...)...)
		in := io.MultiReader(bytes.NewReader(header), &lines{of: 100_000, line: real})
		n, err := r.ReadFrom("f", in)
		if err != nil || n != 100_000 {
			b.Fatal(n, err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys>>20), "SysMiB")
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc>>20), "HeapMiB")
		b.SetBytes(int64(len(real)) * 100_000)
		runtime.KeepAlive(r)
	}
}

// What a filter prints is the filter again.
func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"a=b", "a=b|c,d=e", "cpu=0,2,x=", "=", "a", "a=,b", "a=b=c", "a=|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		filter, err := ParseFilter(s)
		if err != nil {
			return
		}
		again, err := ParseFilter(filter.String())
		if err != nil {
			t.Fatalf("%q: %v", filter, err)
		}
		if diff := cmp.Diff(filter, again); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
