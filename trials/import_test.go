package trials

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/internal/golden"
)

// imported are the metrics of every figure that an import has.
var imported = []string{
	"throughput", "transactions", "latency", "p99", "latency-max", "retransmits", "rtt", "rtt-max", "lost", "jitter",
	"client-cpu", "server-cpu", "client-softirq", "server-demand", "client-thread", "server-thread", "duration",
	"summary.datagrams.received", "summary.received_bytes", "summary.sent_bytes", "summary.cpu.client.service_demand_us_per_transaction",
}

func TestImport(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, path := range paths {
		base := filepath.Base(path)
		if base == "line.json" || base == "fuzz" || base == "imported.golden" {
			continue
		}
		r := NewReader(lookups(t, imported...)...)
		if _, err := r.Read(path); err != nil {
			t.Fatal(err)
		}
		for _, trial := range r.Set().Trials {
			f := figures(r.Set(), trial)
			var parts []string
			for _, name := range slices.Sorted(maps.Keys(f)) {
				parts = append(parts, fmt.Sprintf("%s=%.6g", name, f[name]))
			}
			fmt.Fprintf(&got, "%s: %s, %s, %s\n", filepath.Base(trial.Source()), trial.Format, trial.Gperf, trial.Status)
			if trial.Why != "" {
				fmt.Fprintf(&got, "  why: %s\n", trial.Why)
			}
			for _, name := range slices.Sorted(maps.Keys(trial.Plan)) {
				fmt.Fprintf(&got, "  %s=%s\n", name, trial.Plan[name])
			}
			fmt.Fprintf(&got, "  labels: %v\n  %s\n", trial.Labels, strings.Join(parts, "\n  "))
		}
	}
	golden.Compare(t, "testdata/imported.golden", got.String())
}
