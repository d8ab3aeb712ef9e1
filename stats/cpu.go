package stats

import "time"

// UserHZ is the unit in which the kernel tells CPU time to programs, in ticks
// per second: 100 on every architecture that gperf runs on, whatever the
// kernel's own CONFIG_HZ is.
const UserHZ = 100

// CPUTicks is CPU time by what it was spent on, in ticks of 1/UserHZ seconds:
// one line of /proc/stat. Guest time is part of User and Nice already, see
// proc_stat(5).
type CPUTicks struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal uint64
}

// CPUShares is how a CPU, or all of them together, spent a span of time, in
// percent of that span. Nil is unknown.
type CPUShares struct {
	User, System, SoftIRQ, IRQ, Steal *float64
	Total                             *float64 // all but idle and waiting for I/O
}

// idle is the time in which nothing ran. The kernel divides an idle CPU's time
// between Idle and IOWait by a guess that it may take back later, so that
// IOWait can decrease; only the sum is reliable.
func (t CPUTicks) idle() uint64 { return t.Idle + t.IOWait }

// Shares returns how the time between the readings a and b was spent. Split
// asks for the kinds of busy time beside their total: kinds are sampled, one
// tick at a time, so that they mean little in a span of few ticks.
//
// The whole is the sum of all kinds, not the time on the clock: every CPU's
// ticks are counted at moments of its own, and a share of the clock's time
// could exceed 100 %. When a kind of time went backwards, as steal does when
// a virtual machine moves, nothing is known.
func (a CPUTicks) Shares(b CPUTicks, split bool) CPUShares {
	busy, whole, ok := a.spent(b)
	if !ok || whole == 0 {
		return CPUShares{}
	}
	percent := func(ticks uint64) *float64 {
		p := 100 * float64(ticks) / float64(whole)
		return &p
	}
	s := CPUShares{Total: percent(busy)}
	if split {
		s.User = percent(b.User - a.User + b.Nice - a.Nice)
		s.System = percent(b.System - a.System)
		s.SoftIRQ = percent(b.SoftIRQ - a.SoftIRQ)
		s.IRQ = percent(b.IRQ - a.IRQ)
		s.Steal = percent(b.Steal - a.Steal)
	}
	return s
}

// BusySeconds returns the CPU time between the readings a and b that wasn't
// idle; nil is unknown.
func (a CPUTicks) BusySeconds(b CPUTicks) *float64 {
	busy, _, ok := a.spent(b)
	if !ok {
		return nil
	}
	s := float64(busy) / UserHZ
	return &s
}

// spent returns the busy ticks and all ticks between two readings, and whether
// every kind of time went forwards.
func (a CPUTicks) spent(b CPUTicks) (busy, whole uint64, ok bool) {
	for _, k := range [...][2]uint64{
		{a.User, b.User}, {a.Nice, b.Nice}, {a.System, b.System},
		{a.IRQ, b.IRQ}, {a.SoftIRQ, b.SoftIRQ}, {a.Steal, b.Steal},
	} {
		if k[1] < k[0] {
			return 0, 0, false
		}
		busy += k[1] - k[0]
	}
	if b.idle() < a.idle() {
		return 0, 0, false
	}
	return busy, busy + b.idle() - a.idle(), true
}

// TickPercent returns what one tick of one CPU comes to, in percent of the
// time of all cpus over span; nil when that is not defined.
func TickPercent(span time.Duration, cpus int) *float64 {
	if span <= 0 || cpus <= 0 {
		return nil
	}
	p := 100 / (UserHZ * span.Seconds() * float64(cpus))
	return &p
}

// CoresUsed returns percent of all cpus as a number of CPUs; nil when percent
// is unknown.
func CoresUsed(percent *float64, cpus int) *float64 {
	if percent == nil {
		return nil
	}
	c := *percent / 100 * float64(cpus)
	return &c
}

// ServiceDemandKiB returns the CPU time spent on each KiB (1024 bytes), in
// microseconds; nil when no byte moved.
func ServiceDemandKiB(cpuSeconds float64, bytes uint64) *float64 {
	return demand(cpuSeconds, float64(bytes)/1024)
}

// ServiceDemandTransaction returns the CPU time spent on each of n
// transactions, in microseconds; nil when there was none.
func ServiceDemandTransaction(cpuSeconds float64, n uint64) *float64 {
	return demand(cpuSeconds, float64(n))
}

// demand returns microseconds per unit of work. The comparison is written so
// that a CPU time which is not a number gives nil too.
func demand(cpuSeconds, units float64) *float64 {
	if !(cpuSeconds >= 0) || units == 0 {
		return nil
	}
	d := cpuSeconds * 1e6 / units
	return &d
}
