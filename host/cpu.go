package host

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gperf/internal/sys"
	"gperf/result"
	"gperf/stats"
)

// splitFrom is the shortest window for which the kinds of CPU time are told
// apart: they are sampled by the timer tick, and reported in steps of 10 ms.
const splitFrom = time.Second

// A CPUReading is the CPU time of the machine since it started, at one moment.
type CPUReading struct {
	At   int64          // when it was taken: sys.Monotonic
	All  stats.CPUTicks // all CPUs together
	CPUs []CPUTime      // each CPU that is online
}

// CPUTime is the CPU time of one CPU.
type CPUTime struct {
	CPU int
	stats.CPUTicks
}

// ReadCPU reads /proc/stat. Most of its cost is the kernel's, which writes the
// whole file at the first read: in all about 25 us on a machine with two CPUs.
func ReadCPU() (CPUReading, error) {
	at := sys.Monotonic()
	b, err := sys.ReadFile(procDir + "/stat")
	if err != nil {
		return CPUReading{}, err
	}
	r, err := parseCPU(b)
	if err != nil {
		return CPUReading{}, fmt.Errorf("%s/stat: %w", procDir, err)
	}
	r.At = at
	return r, nil
}

// parseCPU reads the lines of /proc/stat that begin with cpu; see proc_stat(5).
// It isn't procfs' parser, which turns whole ticks into fractions of a second
// and takes three times as long at the edge of a window.
func parseCPU(b []byte) (CPUReading, error) {
	var r CPUReading
	seen := false
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // the file begins with them
		}
		number, times, _ := bytes.Cut(rest, []byte(" "))
		t, err := parseTicks(bytes.Fields(times))
		if err != nil {
			return CPUReading{}, fmt.Errorf("line %q: %w", line, err)
		}
		if len(number) == 0 {
			r.All, seen = t, true
			continue
		}
		cpu, err := strconv.Atoi(string(number))
		if err != nil {
			return CPUReading{}, fmt.Errorf("line %q: CPU number: %w", line, err)
		}
		r.CPUs = append(r.CPUs, CPUTime{cpu, t})
	}
	if !seen || len(r.CPUs) == 0 {
		return CPUReading{}, fmt.Errorf("no CPU in %d bytes", len(b))
	}
	return r, nil
}

// parseTicks reads the fields after the name of a line of /proc/stat. The two
// after steal, guest and guest_nice, are counted in user and nice already.
func parseTicks(f [][]byte) (stats.CPUTicks, error) {
	var t stats.CPUTicks
	to := [...]*uint64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal}
	if len(f) < len(to) {
		return stats.CPUTicks{}, fmt.Errorf("%d kinds of CPU time, want %d", len(f), len(to))
	}
	for i, p := range to {
		v, err := strconv.ParseUint(string(f[i]), 10, 64)
		if err != nil {
			return stats.CPUTicks{}, fmt.Errorf("CPU time %d: %w", i+1, err)
		}
		*p = v
	}
	return t, nil
}

// Until returns how the machine's CPUs spent the time from a to b. What the
// readings can't tell is nil: everything when time went backwards in them, and
// the kinds of busy time in a window below a second.
func (a CPUReading) Until(b CPUReading) *result.EndCPU {
	span := time.Duration(b.At - a.At)
	split := span >= splitFrom
	s := a.All.Shares(b.All, split)
	e := &result.EndCPU{
		User:       s.User,
		System:     s.System,
		Softirq:    s.SoftIRQ,
		IRQ:        s.IRQ,
		Steal:      s.Steal,
		Total:      s.Total,
		CoresUsed:  stats.CoresUsed(s.Total, len(b.CPUs)),
		Resolution: stats.TickPercent(span, len(b.CPUs)),
		CPUs:       len(b.CPUs),

		MachineSeconds: a.BusySeconds(b),
	}
	for _, now := range b.CPUs {
		// A CPU that came online in between has no share.
		i := slices.IndexFunc(a.CPUs, func(t CPUTime) bool { return t.CPU == now.CPU })
		if i < 0 {
			continue
		}
		s := a.CPUs[i].Shares(now.CPUTicks, split)
		e.PerCPU = append(e.PerCPU, result.CPUShare{
			CPU:     now.CPU,
			User:    s.User,
			System:  s.System,
			Softirq: s.SoftIRQ,
			IRQ:     s.IRQ,
			Steal:   s.Steal,
			Total:   s.Total,
		})
	}
	return e
}

// BusySeconds returns the CPU time that the machine spent from a to b, for its
// service demand; nil when it isn't known.
func (a CPUReading) BusySeconds(b CPUReading) *float64 { return a.All.BusySeconds(b.All) }
