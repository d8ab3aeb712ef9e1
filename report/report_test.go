package report

import (
	"fmt"
	"strings"
	"testing"

	"gperf/internal/golden"
	"gperf/trials"
)

// spliceSet is what a sweep of a loopback's MTU and a pipe's size may give: cells of each
// kind of stability, a failed trial and stalls.
func spliceSet(t testing.TB, wanted ...string) *trials.Set {
	t.Helper()
	cells := []struct {
		mtu, pipe string
		gbit      []float64
	}{
		{"16436", "64K", []float64{55.8, 55.9, 55.7, 55.8, 55.6, 55.9}},
		{"16436", "256K", []float64{49.5, 65.2, 49.4, 65.1, 49.6, 65.3}},
		{"20532", "64K", []float64{16, 34, 22, 28, 19, 31}},
		{"20532", "256K", []float64{61, 63, 62, 64.5, 60, 62.5}},
		{"9000", "64K", []float64{0.05, 0.051, 0.049, 0.05, -1, 0.052}},
		{"9000", "256K", nil},
	}
	var b strings.Builder
	b.WriteString(`{"schema":"gperf/1","line":"sweep","id":"a","spec":{"axes":[{"names":["mtu"]},{"names":["pipe-size"]}]}}` + "\n")
	slot := 0
	for round := range 6 {
		for _, c := range cells {
			if c.gbit == nil {
				continue
			}
			slot++
			v, status, stalls, why := c.gbit[round], "complete", "", "null"
			if v < 0 {
				status, why = "failed", `{"kind":"x","message":"no | answer"}`
			}
			if c.mtu == "20532" && c.pipe == "64K" && round < 2 {
				stalls = `{}`
			}
			fmt.Fprintf(&b, `{"schema":"gperf/1","status":%q,"error":%s,"started":"2026-05-01T12:%02d:00Z","plan":{"interval_seconds":1},"stalls":[%s],"sweep":{"id":"a","cell":{"mtu":%q,"pipe-size":%q},"round":%d,"slot":%d},"summary":{"throughput_bits_per_second":%g,"retransmitted_segments":%d}}`+"\n",
				status, why, slot, stalls, c.mtu, c.pipe, round+1, slot, v*1e9, slot)
		}
	}
	var metrics []trials.Metric
	for _, name := range wanted {
		m, err := trials.LookupMetric(name)
		if err != nil {
			t.Fatal(err)
		}
		metrics = append(metrics, m)
	}
	r := trials.NewReader(metrics...)
	if _, err := r.ReadFrom("splice.jsonl", strings.NewReader(b.String())); err != nil {
		t.Fatal(err)
	}
	return r.Set()
}

func TestTable(t *testing.T) {
	t.Parallel()
	set := spliceSet(t, "throughput", "retransmits", "stalls", "p99")
	for _, tt := range []struct {
		name   string
		spec   Spec
		width  int
		detail bool
	}{
		{"pivot", Spec{Rows: []string{"mtu"}, Cols: []string{"pipe-size"}, Values: []string{"throughput"}}, 100, false},
		{"values", Spec{Rows: []string{"mtu"}, Cols: []string{"pipe-size"}, Values: []string{"throughput", "retransmits"}}, 60, false},
		{"rows", Spec{Rows: []string{"pipe-size", "mtu"}, Values: []string{"throughput", "p99"}}, 100, false},
		{"mixed", Spec{Cols: []string{"mtu"}, Values: []string{"throughput"}}, 100, false},
		{"one", Spec{Values: []string{"throughput"}}, 100, false},
		{"detail", Spec{Rows: []string{"mtu"}, Values: []string{"throughput", "p99"}}, 100, true},
	} {
		for _, format := range Formats {
			t.Run(tt.name+"."+format, func(t *testing.T) {
				table, err := New(set, tt.spec)
				if err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				if tt.detail {
					err = table.Detail(&b, set, format)
				} else {
					err = table.Write(&b, format, tt.width)
				}
				if err != nil {
					t.Fatal(err)
				}
				golden.Compare(t, "testdata/"+tt.name+"."+format, b.String())
			})
		}
	}
}

// Trials that begin slowly, grow to their end, are steady, or keep no intervals.
func TestInside(t *testing.T) {
	t.Parallel()
	shapes := []struct {
		mtu  string
		rate func(trial, i int) float64
	}{
		{"1500", func(trial, i int) float64 {
			if i < 2 {
				return 7e9
			}
			return 10e9 + 1e7*float64(trial*(i%3))
		}},
		{"3000", func(trial, i int) float64 { return 5e9 + 5e8*float64(i) + 1e7*float64(trial) }},
		{"6000", func(trial, i int) float64 { return 9e9 + 1e8*float64((trial+i)%3) }},
		{"9000", nil},
	}
	var b strings.Builder
	b.WriteString(`{"schema":"gperf/1","line":"sweep","id":"a","spec":{"axes":[{"names":["mtu"]}]}}` + "\n")
	for trial := range 5 {
		for slot, shape := range shapes {
			var intervals []string
			for i := range 10 {
				if shape.rate != nil {
					half := shape.rate(trial, i) / 2
					intervals = append(intervals, fmt.Sprintf(`{"direction":"client-to-server","throughput_bits_per_second":%g},{"direction":"server-to-client","throughput_bits_per_second":%g}`, half, half))
				}
			}
			fmt.Fprintf(&b, `{"schema":"gperf/1","status":"complete","plan":{"interval_seconds":0.1},"sweep":{"id":"a","cell":{"mtu":%q},"round":%d,"slot":%d},"summary":{"throughput_bits_per_second":1e10},"intervals":[%s]}`+"\n",
				shape.mtu, trial+1, slot+1, strings.Join(intervals, ","))
		}
	}
	throughput, err := trials.LookupMetric("throughput")
	if err != nil {
		t.Fatal(err)
	}
	r := trials.NewReader(throughput)
	r.Inside()
	if _, err := r.ReadFrom("kept.jsonl", strings.NewReader(b.String())); err != nil {
		t.Fatal(err)
	}
	set := r.Set()
	table, err := New(set, Spec{Rows: []string{"mtu"}, Values: []string{"throughput"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range Formats {
		var out strings.Builder
		if err := table.Detail(&out, set, format); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/inside."+format, out.String())
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	set := spliceSet(t, "throughput")
	for name, tt := range map[string]struct {
		set  *trials.Set
		spec Spec
		want string
	}{
		"axis":   {set, Spec{Rows: []string{"colour"}, Values: []string{"throughput"}}, `no trial has an axis "colour" (axes: mtu, pipe-size)`},
		"twice":  {set, Spec{Rows: []string{"mtu"}, Cols: []string{"mtu"}, Values: []string{"throughput"}}, `axis "mtu" is asked for twice`},
		"metric": {set, Spec{Values: []string{"p99"}}, `metric "p99" was not read`},
		"none":   {set, Spec{}, "no metric to show"},
		"empty":  {&trials.Set{}, Spec{}, "no trials"},
	} {
		if _, err := New(tt.set, tt.spec); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
