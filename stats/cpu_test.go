package stats

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	start := CPUTicks{User: 1000, Nice: 10, System: 500, Idle: 9000, IOWait: 70, IRQ: 5, SoftIRQ: 40, Steal: 3}
	add := func(d CPUTicks) CPUTicks {
		return CPUTicks{
			start.User + d.User, start.Nice + d.Nice, start.System + d.System, start.Idle + d.Idle,
			start.IOWait + d.IOWait, start.IRQ + d.IRQ, start.SoftIRQ + d.SoftIRQ, start.Steal + d.Steal,
		}
	}
	const minus = math.MaxUint64 // added to a tick count, one less
	tests := []struct {
		name  string
		end   CPUTicks
		split bool
		want  CPUShares
		busy  *float64
	}{
		{
			name:  "all kinds",
			end:   add(CPUTicks{User: 20, Nice: 10, System: 40, Idle: 90, IOWait: 10, IRQ: 2, SoftIRQ: 20, Steal: 8}),
			split: true,
			want:  CPUShares{User: new(15.0), System: new(20.0), SoftIRQ: new(10.0), IRQ: new(1.0), Steal: new(4.0), Total: new(50.0)},
			busy:  new(1.0),
		},
		{
			name: "no split",
			end:  add(CPUTicks{User: 5, Idle: 15}),
			want: CPUShares{Total: new(25.0)},
			busy: new(0.05),
		},
		{
			name:  "idle",
			end:   add(CPUTicks{Idle: 200}),
			split: true,
			want:  CPUShares{User: new(0.0), System: new(0.0), SoftIRQ: new(0.0), IRQ: new(0.0), Steal: new(0.0), Total: new(0.0)},
			busy:  new(0.0),
		},
		{
			name: "busy",
			end:  add(CPUTicks{System: 200}),
			want: CPUShares{Total: new(100.0)},
			busy: new(2.0),
		},
		{
			name: "waiting for I/O taken back as idle",
			end:  add(CPUTicks{User: 10, Idle: 31, IOWait: minus}),
			want: CPUShares{Total: new(25.0)},
			busy: new(0.1),
		},
		{
			name:  "steal taken back",
			end:   add(CPUTicks{User: 10, Idle: 10, Steal: minus}),
			split: true,
		},
		{
			name: "idle time taken back",
			end:  add(CPUTicks{User: 10, Idle: minus}),
		},
		{
			name:  "no time",
			end:   start,
			split: true,
			busy:  new(0.0),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, start.Shares(tt.end, tt.split), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("Shares (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.busy, start.BusySeconds(tt.end), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("BusySeconds (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever two readings say, shares are unknown or possible ones, and kinds add
// up to their total.
func TestSharesArePossible(t *testing.T) {
	ticks := rapid.Custom(func(t *rapid.T) CPUTicks {
		n := rapid.Uint64Range(0, 1<<40)
		return CPUTicks{
			n.Draw(t, "user"), n.Draw(t, "nice"), n.Draw(t, "system"), n.Draw(t, "idle"),
			n.Draw(t, "iowait"), n.Draw(t, "irq"), n.Draw(t, "softirq"), n.Draw(t, "steal"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := ticks.Draw(t, "a").Shares(ticks.Draw(t, "b"), true)
		if s.Total == nil {
			if s != (CPUShares{}) {
				t.Fatalf("kinds without a total: %+v", s)
			}
			return
		}
		sum := 0.0
		for _, p := range []*float64{s.User, s.System, s.SoftIRQ, s.IRQ, s.Steal} {
			if !(*p >= 0 && *p <= 100) {
				t.Fatalf("share of %v %%", *p)
			}
			sum += *p
		}
		if math.Abs(sum-*s.Total) > 1e-6 || *s.Total > 100 {
			t.Fatalf("kinds come to %v %%, total is %v %%", sum, *s.Total)
		}
	})
}

func TestTickPercent(t *testing.T) {
	tests := []struct {
		name string
		span time.Duration
		cpus int
		want *float64
	}{
		{"a second of one CPU", time.Second, 1, new(1.0)},
		{"ten seconds of four CPUs", 10 * time.Second, 4, new(0.025)},
		{"10 ms", 10 * time.Millisecond, 1, new(100.0)},
		{"no time", 0, 1, nil},
		{"time backwards", -1, 1, nil},
		{"no CPU", time.Second, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, TickPercent(tt.span, tt.cpus), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoresUsed(t *testing.T) {
	if got := CoresUsed(new(37.5), 8); got == nil || *got != 3 {
		t.Errorf("37.5 %% of 8 CPUs: got %v, want 3", got)
	}
	if got := CoresUsed(nil, 8); got != nil {
		t.Errorf("unknown share: got %v, want unknown", *got)
	}
}

func TestServiceDemand(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name                string
		seconds             float64
		units               uint64
		perKiB, transaction *float64
	}{
		{"a second for a MiB, or as many transactions", 1, 1 << 20, new(976.5625), new(1e6 / (1 << 20))},
		{"less than a KiB", 0.001, 512, new(2000.0), new(1000.0 / 512)},
		{"no CPU time", 0, 1024, new(0.0), new(0.0)},
		{"no work", 1, 0, nil, nil},
		{"no work, no time", 0, 0, nil, nil},
		{"negative time", -1, 1024, nil, nil},
		{"time not a number", nan, 1024, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.perKiB, ServiceDemandKiB(tt.seconds, tt.units), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("ServiceDemandKiB (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.transaction, ServiceDemandTransaction(tt.seconds, tt.units), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("ServiceDemandTransaction (-want +got):\n%s", diff)
			}
		})
	}
}
