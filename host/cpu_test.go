package host

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gperf/internal/sys"
	"gperf/result"
	"gperf/stats"
)

// Of a real /proc/stat, with CPU 1 offline.
const procStat = `cpu  4076 2 2743 159607 458 1 77 642 11 1
cpu0 1629 2 1084 80678 38 1 13 322 11 1
cpu2 2447 0 1659 78928 420 0 63 319 0 0
intr 183613 0 0 0 1 1 12
ctxt 334163
btime 1764494700
processes 4930
procs_running 1
procs_blocked 0
softirq 120 1 2 3 4 5 6 7 8 9 10
`

func TestParseCPU(t *testing.T) {
	want := CPUReading{
		All: stats.CPUTicks{User: 4076, Nice: 2, System: 2743, Idle: 159607, IOWait: 458, IRQ: 1, SoftIRQ: 77, Steal: 642},
		CPUs: []CPUTime{
			{0, stats.CPUTicks{User: 1629, Nice: 2, System: 1084, Idle: 80678, IOWait: 38, IRQ: 1, SoftIRQ: 13, Steal: 322}},
			{2, stats.CPUTicks{User: 2447, System: 1659, Idle: 78928, IOWait: 420, SoftIRQ: 63, Steal: 319}},
		},
	}
	got, err := parseCPU([]byte(procStat))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseCPUError(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"other file":    "intr 1 2 3\n",
		"no total":      "cpu0 1 2 3 4 5 6 7 8\n",
		"no CPUs":       "cpu  1 2 3 4 5 6 7 8\n",
		"name alone":    "cpu",
		"few kinds":     "cpu  1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7\n",
		"CPU number":    "cpu  1 2 3 4 5 6 7 8\ncpux 1 2 3 4 5 6 7 8\n",
		"negative time": "cpu  1 2 3 -4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n",
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := parseCPU([]byte(text)); err == nil {
				t.Errorf("got %+v, want an error", r)
			}
		})
	}
}

// What parses says the same when it is written out and parsed again.
func FuzzParseCPU(f *testing.F) {
	f.Add([]byte(procStat))
	f.Add([]byte("cpu"))
	f.Add([]byte("cpu 1 2 3 4 5 6 7 8\ncpu0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseCPU(b)
		if err != nil {
			return
		}
		var s strings.Builder
		line := func(name string, t stats.CPUTicks) {
			fmt.Fprintln(&s, name, t.User, t.Nice, t.System, t.Idle, t.IOWait, t.IRQ, t.SoftIRQ, t.Steal)
		}
		line("cpu", r.All)
		for _, c := range r.CPUs {
			line(fmt.Sprintf("cpu%d", c.CPU), c.CPUTicks)
		}
		again, err := parseCPU([]byte(s.String()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}

func TestUntil(t *testing.T) {
	reading := func(at time.Duration, cpus ...CPUTime) CPUReading {
		r := CPUReading{At: int64(at), CPUs: cpus}
		for _, c := range cpus {
			r.All.User += c.User
			r.All.System += c.System
			r.All.Idle += c.Idle
			r.All.Steal += c.Steal
		}
		return r
	}
	cpu := func(n int, user, system, idle, steal uint64) CPUTime {
		return CPUTime{n, stats.CPUTicks{User: user, System: system, Idle: idle, Steal: steal}}
	}
	zero := new(0.0)
	tests := []struct {
		name string
		a, b CPUReading
		want *result.EndCPU
	}{
		{
			name: "two seconds of two CPUs",
			a:    reading(5*time.Second, cpu(0, 10, 10, 10, 10), cpu(1, 10, 10, 10, 10)),
			b:    reading(7*time.Second, cpu(0, 110, 60, 60, 10), cpu(1, 10, 10, 210, 10)),
			want: &result.EndCPU{
				User: new(25.0), System: new(12.5), Softirq: zero, IRQ: zero, Steal: zero, Total: new(37.5),
				CoresUsed: new(0.75), Resolution: new(0.25), CPUs: 2, MachineSeconds: new(1.5),
				PerCPU: []result.CPUShare{
					{CPU: 0, User: new(50.0), System: new(25.0), Softirq: zero, IRQ: zero, Steal: zero, Total: new(75.0)},
					{CPU: 1, User: zero, System: zero, Softirq: zero, IRQ: zero, Steal: zero, Total: zero},
				},
			},
		},
		{
			name: "below a second",
			a:    reading(0, cpu(0, 10, 10, 10, 0)),
			b:    reading(100*time.Millisecond, cpu(0, 14, 11, 15, 0)),
			want: &result.EndCPU{
				Total: new(50.0), CoresUsed: new(0.5), Resolution: new(10.0), CPUs: 1, MachineSeconds: new(0.05),
				PerCPU: []result.CPUShare{{CPU: 0, Total: new(50.0)}},
			},
		},
		{
			name: "steal of one CPU went backwards",
			a:    reading(0, cpu(0, 0, 0, 0, 9), cpu(1, 0, 0, 0, 0)),
			b:    reading(time.Second, cpu(0, 50, 0, 50, 0), cpu(1, 50, 0, 50, 0)),
			want: &result.EndCPU{
				Resolution: new(0.5), CPUs: 2,
				PerCPU: []result.CPUShare{
					{CPU: 0},
					{CPU: 1, User: new(50.0), System: zero, Softirq: zero, IRQ: zero, Steal: zero, Total: new(50.0)},
				},
			},
		},
		{
			name: "a CPU came online",
			a:    reading(0, cpu(0, 0, 0, 0, 0)),
			b:    reading(500*time.Millisecond, cpu(0, 25, 0, 25, 0), cpu(3, 0, 0, 0, 0)),
			want: &result.EndCPU{
				Total: new(50.0), CoresUsed: new(1.0), Resolution: new(1.0), CPUs: 2, MachineSeconds: new(0.25),
				PerCPU: []result.CPUShare{{CPU: 0, Total: new(50.0)}},
			},
		},
		{
			name: "no time",
			a:    reading(0, cpu(0, 1, 1, 1, 1)),
			b:    reading(0, cpu(0, 1, 1, 1, 1)),
			want: &result.EndCPU{CPUs: 1, MachineSeconds: new(0.0), PerCPU: []result.CPUShare{{CPU: 0}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.a.Until(tt.b), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A thread that spins shows in the machine's busy time.
func TestReadCPU(t *testing.T) {
	a, err := ReadCPU()
	if err != nil {
		t.Fatal(err)
	}
	const spin = 200 * time.Millisecond
	burn(t, spin)
	b, err := ReadCPU()
	if err != nil {
		t.Fatal(err)
	}
	if now := sys.Monotonic(); b.At-a.At < int64(spin) || b.At > now {
		t.Errorf("readings at %d and %d ns, now %d; want %v between them", a.At, b.At, now, spin)
	}
	// The tick that is running at each edge, on each CPU, isn't counted yet.
	uncertain := 0.02 * float64(len(b.CPUs))
	if busy := a.BusySeconds(b); busy == nil || *busy < spin.Seconds()-uncertain {
		t.Errorf("machine was busy for %v s, want at least %v", show(busy), spin.Seconds()-uncertain)
	}
	e := a.Until(b)
	if e.Total == nil || !(*e.Total > 0 && *e.Total <= 100) {
		t.Errorf("total is %v %%, want more than 0, at most 100", show(e.Total))
	}
	// On a busy machine the spinning takes its time.
	if span := time.Duration(b.At - a.At); (e.User == nil) != (span < splitFrom) {
		t.Errorf("user time of a window of %v is %v %%", span, show(e.User))
	}
	if e.CPUs == 0 || len(e.PerCPU) != e.CPUs {
		t.Errorf("shares of %d CPUs of %d", len(e.PerCPU), e.CPUs)
	}
	// The whole is what the clock says, or the shares are of something else.
	ticks := func(t stats.CPUTicks) float64 {
		return float64(t.User + t.Nice + t.System + t.Idle + t.IOWait + t.IRQ + t.SoftIRQ + t.Steal)
	}
	clock := time.Duration(b.At-a.At).Seconds() * stats.UserHZ * float64(len(b.CPUs))
	if whole := ticks(b.All) - ticks(a.All); math.Abs(whole-clock) > 0.25*clock+4*float64(len(b.CPUs)) {
		t.Errorf("%v ticks passed, by the clock %v", whole, clock)
	}
}

func BenchmarkReadCPU(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadCPU(); err != nil {
			b.Fatal(err)
		}
	}
}

// burn keeps the calling thread busy until it has used d of CPU time.
func burn(t testing.TB, d time.Duration) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const self = 0 // as the kernel understands a thread's number
	start, err := ThreadCPU(self)
	for now := start; now < start+d; {
		if err != nil {
			t.Error(err)
			return
		}
		now, err = ThreadCPU(self)
	}
}

// show is a figure for a message.
func show[T any](p *T) any {
	if p == nil {
		return "unknown"
	}
	return *p
}
