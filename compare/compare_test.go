package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"gperf/internal/golden"
	"gperf/stats/sample"
	"gperf/trials"
)

// A cellOf is the trials of one cell of a generated sweep.
type cellOf struct {
	at     string // JSON
	mbit   []float64
	rtos   []int
	failed int
}

// A fileOf is a generated file.
type fileOf struct {
	kernel, boot, id string
	start            int // minute
	step             int // minutes between trials; 0: 1
	cells            []cellOf
}

func (f fileOf) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"schema":"gperf/1","line":"sweep","id":%q,"spec":null}`+"\n", f.id)
	host := fmt.Sprintf(`{"boot_id":%q,"kernel":%q,"sysctls":{"net.ipv4.tcp_rmem":"4096 %d 6291456"},"device":{"offloads":{"tso":%v}}}`, f.boot, f.kernel, len(f.kernel), f.kernel == "6.5")
	fmt.Fprintf(&b, `{"schema":"gperf/1","line":"hosts","hosts":{"client":%s,"server":%s}}`+"\n", host, host)
	minute := f.start
	for _, c := range f.cells {
		for i, v := range c.mbit {
			rtos := 0
			if c.rtos != nil {
				rtos = c.rtos[i]
			}
			fmt.Fprintf(&b, `{"schema":"gperf/1","gperf":{"version":"1"},"status":"complete","trust":{"ok":true},"started":"2026-05-%02dT%02d:%02d:00Z","sweep":{"id":%q,"cell":%s,"round":%d,"hosts":2},"summary":{"throughput_bits_per_second":%.17g,"rto_events":%d}}`+"\n",
				1+minute/1440, minute/60%24, minute%60, f.id, c.at, i+1, v*1e6, rtos)
			minute += max(f.step, 1)
		}
		for range c.failed {
			fmt.Fprintf(&b, `{"schema":"gperf/1","gperf":{"version":"1"},"status":"failed","error":{"kind":"timeout","message":"no answer"},"started":"2026-05-01T00:00:00Z","sweep":{"id":%q,"cell":%s,"round":9,"hosts":2}}`+"\n", f.id, c.at)
		}
	}
	return b.String()
}

// read reads both files as sides.
func read(t testing.TB, a, b string) (*trials.Set, Side, Side) {
	t.Helper()
	wanted := trials.Covariates()
	for _, name := range []string{"throughput", "transactions", "p99", "busy"} {
		m, err := trials.LookupMetric(name)
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, m)
	}
	r := trials.NewReader(wanted...)
	n, err := r.ReadFrom("old.jsonl", strings.NewReader(a))
	if err != nil {
		t.Fatal(err)
	}
	if b != "" {
		if _, err := r.ReadFrom("new.jsonl", strings.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	set := r.Set()
	return set, Side{"old.jsonl", set.Trials[:n]}, Side{"new.jsonl", set.Trials[n:]}
}

// small and its counterpart are a sweep of receive buffers on two kernels, of which
// the newer is slower with small ones.
var (
	small = fileOf{kernel: "6.5", boot: "b1", id: "s1", cells: []cellOf{
		{`{"rcvbuf":"8K"}`, []float64{8400, 8600, 8200, 8500, 8300}, nil, 0},
		{`{"rcvbuf":"16K"}`, []float64{13400, 13100, 13600, 13500, 13300}, nil, 0},
		{`{"rcvbuf":"32K"}`, []float64{19100, 18800, 19300, 19000, 19200}, nil, 0},
		{`{"rcvbuf":"64K"}`, []float64{19600, 19500, 19700, 19600, 19400}, nil, 0},
		{`{"rcvbuf":"auto"}`, []float64{19700, 19600, 19800, 19500, 19900}, nil, 0},
	}}
	smaller = fileOf{kernel: "6.6", boot: "b2", id: "s2", start: 1000, cells: []cellOf{
		{`{"rcvbuf":"8K"}`, []float64{5900, 6100, 5800, 6000, 5700}, nil, 0},
		{`{"rcvbuf":"16K"}`, []float64{10600, 10400, 10900, 10500, 10700}, nil, 0},
		{`{"rcvbuf":"32K"}`, []float64{16300, 16000, 16600, 16200, 16400}, nil, 0},
		{`{"rcvbuf":"64K"}`, []float64{19700, 19600, 19800, 19500, 19600}, nil, 0},
		{`{"rcvbuf":"auto"}`, []float64{19600, 19400, 19700, 19800, 19500}, nil, 0},
	}}
	stalled = fileOf{kernel: "6.6", boot: "b1", id: "r1", step: 2, cells: []cellOf{
		{`{}`, []float64{889, 862, 874, 818, 890, 845, 901, 832, 876, 790}, []int{0, 2, 1, 5, 0, 3, 0, 4, 1, 7}, 0},
	}}
	worse = fileOf{kernel: "6.6", boot: "b1", id: "r2", start: 1, step: 2, cells: []cellOf{
		{`{}`, []float64{861, 775, 887, 833, 706, 848, 803, 874, 762, 819}, []int{2, 8, 0, 4, 13, 3, 6, 1, 9, 5}, 0},
	}}
	dead = fileOf{kernel: "6.6", boot: "b1", id: "d", cells: []cellOf{{`{}`, []float64{0, 0, 0, 0, 0}, nil, 0}}}
	lame = fileOf{kernel: "6.6", boot: "b1", id: "l", cells: []cellOf{{`{}`, []float64{889, 862, 874, 818, 890}, nil, 3}}}
	lone = fileOf{kernel: "6.6", boot: "b1", id: "o", cells: []cellOf{{`{}`, []float64{843.64}, nil, 0}}}
)

func TestReports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		a, b   fileOf
		o      Options
		status int
	}{
		{"buffers", small, smaller, Options{}, 1},
		{"holm", small, smaller, Options{Correct: Holm}, 1}, // whose limit five trials just reach
		{"stalls", stalled, worse, Options{}, 125},
		{"dead", stalled, dead, Options{}, 1},
		{"both-dead", dead, dead, Options{}, 125},
		{"failed", stalled, lame, Options{}, 125},
		{"lone", lone, lone, Options{}, 125},
		{"pooled", small, smaller, Options{By: []string{}}, 125},
	} {
		set, a, b := read(t, tt.a.lines(), tt.b.lines())
		r, err := New(set, a, b, tt.o)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := r.Status(); got != tt.status {
			t.Errorf("%s: status %d, want %d (%s)", tt.name, got, tt.status, r.Line)
		}
		for _, format := range Formats {
			if format != Text && tt.name != "buffers" && tt.name != "stalls" {
				continue
			}
			t.Run(tt.name+"."+format, func(t *testing.T) {
				var b strings.Builder
				if err := r.Write(&b, format, 120); err != nil {
					t.Fatal(err)
				}
				golden.Compare(t, "testdata/"+tt.name+"."+format, b.String())
				if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
					t.Error("it says NaN or Inf")
				}
			})
		}
	}
}

// Two settings of one sweep: rounds are paired, and machine-wide slowness that both
// share doesn't hide the difference.
func TestFilters(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"schema":"gperf/1","line":"sweep","id":"s","spec":null}` + "\n")
	of := []float64{100, 99.1, 98.3, 97, 96.2, 95.1, 94, 93.2}
	than := []float64{98, 97.4, 96, 95.3, 94.1, 93.2, 92.4, 91}
	for i := range of {
		for k, v := range []float64{of[i], than[i]} {
			fmt.Fprintf(&b, `{"schema":"gperf/1","status":"complete","trust":{"ok":true},"labels":{"who":"me"},"started":"2026-05-01T00:%02d:%02dZ","sweep":{"id":"s","cell":{"nodelay":%q},"round":%d},"summary":{"throughput_bits_per_second":%g}}`+"\n",
				i, 30*k, []string{"off", "on"}[k], i+1, v)
		}
	}
	set, _, _ := read(t, b.String(), "")
	var sides [2]Side
	for i, text := range []string{"nodelay=off,who=me", "nodelay=on"} {
		f, err := trials.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		passed, err := f.Of(set)
		if err != nil {
			t.Fatal(err)
		}
		sides[i] = Side{text, passed}
	}
	r, err := New(set, sides[0], sides[1], Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Cells[0]
	if c.Verdict != sample.Regression || c.Unit != sample.UnitRound || c.Rounds != 8 || math.Abs(c.P-0.0078125) > 1e-9 {
		t.Errorf("%s by %s, %d rounds, p %v", c.Verdict, c.Unit, c.Rounds, c.P)
	}
	if len(r.Differs) != 1 || r.Differs[0] != (Difference{whatSubject, "nodelay", "off", "on"}) {
		t.Errorf("differences %v", r.Differs)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	other := small
	other.cells = []cellOf{{`{"rcvbuf":"1M"}`, []float64{1, 2}, nil, 0}, {`{"rcvbuf":"2M"}`, []float64{1, 2}, nil, 0}}
	gone := fileOf{id: "g", cells: []cellOf{{`{"rcvbuf":"8K"}`, nil, nil, 2}}}
	rr := strings.NewReplacer("throughput_bits_per_second", "transactions_per_second").Replace(small.lines())
	for _, tt := range []struct {
		name, a, b string
		o          Options
		want       string
	}{
		{"no common cell", small.lines(), other.lines(), Options{}, "A and B have no cell in common: rcvbuf is 8K, 16K, 32K, 64K, auto in A, 1M, 2M in B (--by AXES chooses by what cells are matched)"},
		{"other figures", small.lines(), rr, Options{}, "A and B have nothing to compare: only A has throughput, only B has transactions"},
		{"one of them", small.lines(), small.lines(), Options{Metric: "p99"}, "A and B have nothing to compare: no trial has p99"},
		{"not read", small.lines(), small.lines(), Options{Metric: "p50"}, `metric "p50" was not read`},
		{"neither way", strings.ReplaceAll(small.lines(), `"rto_events":0`, `"limited":{"busy_percent":1}`), strings.ReplaceAll(small.lines(), `"rto_events":0`, `"limited":{"busy_percent":1}`), Options{Metric: "busy"}, "busy is better neither higher nor lower: say busy:higher or busy:lower"},
		{"all failed", small.lines(), gone.lines(), Options{}, "new.jsonl: all 2 trials failed: no answer"},
		{"axis", small.lines(), small.lines(), Options{By: []string{"mtu"}}, `no trial has an axis "mtu" (axes: rcvbuf)`},
		{"correction", small.lines(), small.lines(), Options{Correct: "x"}, `unknown correction "x" (known: bh, holm)`},
	} {
		set, a, b := read(t, tt.a, tt.b)
		if _, err := New(set, a, b, tt.o); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.want)
		}
	}
	set, a, _ := read(t, small.lines(), "")
	if _, err := New(set, a, Side{Name: "B"}, Options{}); err == nil || err.Error() != "B: no trials" {
		t.Error(err)
	}
}

// Trials whose number was decided by looking at them are held to a smaller alpha,
// unless the user chose one.
func TestUntilPrecise(t *testing.T) {
	t.Parallel()
	fixed, looked := stalled.lines(), strings.Replace(worse.lines(), `"spec":null`, `"spec":{"axes":[],"until_precise":0.014}`, 1)
	for _, tt := range []struct {
		name, a, b  string
		asked, want float64
		notes       int
	}{
		{"neither", fixed, worse.lines(), 0, 0.05, 0},
		{"new", fixed, looked, 0, sample.FinalAlpha, 1},
		{"old", looked, fixed, 0, sample.FinalAlpha, 1},
		{"asked", fixed, looked, 0.05, 0.05, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, a, b := read(t, tt.a, tt.b)
			o := Options{Sample: sample.Options{Alpha: tt.asked}}
			r, err := New(set, a, b, o)
			if err != nil {
				t.Fatal(err)
			}
			self, err := AA(set, a, b, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Alpha != tt.want || self.Alpha != tt.want {
				t.Errorf("alpha %v, of a self-check %v, want %v", r.Alpha, self.Alpha, tt.want)
			}
			for _, notes := range [][]string{r.Notes, self.Notes} {
				n := 0
				for _, note := range notes {
					if strings.HasPrefix(note, "alpha is 0.04: ") {
						n++
					}
				}
				if n != tt.notes {
					t.Errorf("notes %q", notes)
				}
			}
		})
	}
}

func TestFilterErrors(t *testing.T) {
	t.Parallel()
	set, _, _ := read(t, small.lines(), "")
	for text, want := range map[string]string{
		"":                       `"": want NAME=VALUE, or several with commas between`,
		"rcvbuf":                 `"rcvbuf": want NAME=VALUE, or several with commas between`,
		"=8K":                    `"=8K": want NAME=VALUE, or several with commas between`,
		"rcvbuf=8K,rcvbuf=16K":   `"rcvbuf=8K,rcvbuf=16K": rcvbuf stands there twice (NAME=VALUE|VALUE is either)`,
		"mtu=1":                  `no trial has an axis or label "mtu" (axes: rcvbuf)`,
		"rcvbuf=9K":              `no trial has rcvbuf=9K (rcvbuf is 8K, 16K, 32K, 64K, auto)`,
		"rcvbuf=8K,16K":          `no trial has rcvbuf=8K,16K (rcvbuf is 8K, 16K, 32K, 64K, auto)`,
		"rcvbuf=8K|16K (passes)": "",
	} {
		text = strings.TrimSuffix(text, " (passes)")
		f, err := trials.ParseFilter(text)
		var passed []*trials.Trial
		if err == nil {
			passed, err = f.Of(set)
		}
		if want == "" && (err != nil || len(passed) != 10) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, %d\nwant %s", text, err, len(passed), want)
		}
	}
}

func TestSelfCheck(t *testing.T) {
	t.Parallel()
	drifting := stalled
	drifting.cells = []cellOf{{`{}`, nil, nil, 0}}
	for i := range 16 {
		drifting.cells[0].mbit = append(drifting.cells[0].mbit, 900-float64(i)*2+float64(i*i%3))
	}
	for _, tt := range []struct {
		name   string
		a, b   string
		status int
	}{
		{"aa-split", drifting.lines(), "", 0},
		{"aa-cells", small.lines(), small.lines(), 0},
		{"aa-changed", small.lines(), smaller.lines(), 1},
		{"aa-lone", lone.lines(), lone.lines(), 125},
	} {
		set, a, b := read(t, tt.a, tt.b)
		r, err := AA(set, a, b, Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := r.Status(); got != tt.status {
			t.Errorf("%s: status %d, want %d (%s)", tt.name, got, tt.status, r.Line)
		}
		var text strings.Builder
		if err := r.Write(&text, Text, 140); err != nil {
			t.Error(err)
		}
		golden.Compare(t, "testdata/"+tt.name+".text", text.String())
		var doc strings.Builder
		if err := r.Write(&doc, JSON, 0); err != nil || !json.Valid([]byte(doc.String())) {
			t.Errorf("%s: JSON: %v", tt.name, err)
		}
	}
}

// Whatever the trials are, a report is printed, and holds no NaN.
func FuzzCompare(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 0, 7, 8}, uint8(4))
	f.Add([]byte{0, 0, 0, 0}, uint8(2))
	f.Add([]byte{255, 0, 255, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9}, uint8(3))
	f.Fuzz(func(t *testing.T, values []byte, at uint8) {
		if len(values) > 24 {
			values = values[:24]
		}
		n := min(int(at), len(values))
		side := func(id string, values []byte) string {
			c := cellOf{at: `{}`}
			for i, v := range values {
				if v == 254 {
					c.failed++
					continue
				}
				c.mbit = append(c.mbit, math.Exp(float64(v)/8)*float64(min(v, 1)))
				c.rtos = append(c.rtos, int(v)/16*i)
			}
			return fileOf{kernel: "6", boot: "b", id: id, cells: []cellOf{c}}.lines()
		}
		set, a, b := read(t, side("a", values[:n]), side("b", values[n:]))
		if len(a.Trials) == 0 {
			return
		}
		var text strings.Builder
		if r, err := New(set, a, b, Options{}); err == nil {
			for _, format := range Formats {
				if err := r.Write(&text, format, 80); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r, err := AA(set, a, b, Options{}); err == nil {
			for _, format := range Formats {
				if err := r.Write(&text, format, 80); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s := text.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Fatal(s)
		}
	})
}
