package host

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"gperf/internal/sys"
	"gperf/result"
	"gperf/stats"
)

// A ThreadReading is what a thread of this process has used since it started,
// at one moment. Nil is what this kernel doesn't say.
type ThreadReading struct {
	At  int64         // when it was taken: sys.Monotonic
	CPU time.Duration // user and system time together, exact

	// User and System are sampled at timer ticks, in units of 1/stats.UserHZ
	// seconds, and adjusted to agree with CPU in sum.
	User, System *uint64

	RunQueueWait *time.Duration // ready to run, but waiting for a CPU
	Slices       *uint64        // times that it got a CPU
	Voluntary    *uint64        // switches to another thread because it waited for something
	Involuntary  *uint64        // switches because another thread was put in its place
	Migrations   *uint64        // moves from one CPU to another
	LastCPU      *int           // where it ran last
}

// ThreadCPU is the CPU time that a thread of this process has used, user and
// system together, exact to the scheduler's clock. It is one system call.
func ThreadCPU(tid int) (time.Duration, error) {
	ns, err := sys.ThreadCPU(tid)
	if err != nil {
		return 0, fmt.Errorf("thread %d: clock_gettime: %w", tid, err)
	}
	return time.Duration(ns), nil
}

// Thread reads all that is known of a thread of this process. It fails when
// there is no such thread.
func Thread(tid int) (ThreadReading, error) {
	r := ThreadReading{At: sys.Monotonic()}
	var err error
	if r.CPU, err = ThreadCPU(tid); err != nil {
		return ThreadReading{}, err
	}
	r.read(fmt.Sprintf("%s/self/task/%d", procDir, tid))
	return r, nil
}

// read fills in what the files of a thread's directory say.
func (r *ThreadReading) read(dir string) {
	if b, err := sys.ReadFile(filepath.Join(dir, "schedstat")); err == nil {
		r.parseSchedstat(b)
	}
	if b, err := sys.ReadFile(filepath.Join(dir, "stat")); err == nil {
		r.parseStat(b)
	}
	// sched has the migrations too, but a kernel may be built without it.
	b, err := sys.ReadFile(filepath.Join(dir, "sched"))
	if err != nil {
		if b, err = sys.ReadFile(filepath.Join(dir, "status")); err != nil {
			return
		}
	}
	r.parseSwitches(b)
}

// parseSchedstat reads time on a CPU, time waiting for one, both in
// nanoseconds, and slices.
func (r *ThreadReading) parseSchedstat(b []byte) {
	f := bytes.Fields(b)
	if len(f) < 3 {
		return
	}
	if wait := number(f[1]); wait != nil {
		r.RunQueueWait = new(time.Duration(*wait))
	}
	r.Slices = number(f[2])
}

// parseStat reads a stat file; see proc_pid_stat(5), whose numbering of the
// fields is used here. The second field, the name, may hold anything, spaces
// and parentheses too; it ends with the last closing one.
func (r *ThreadReading) parseStat(b []byte) {
	const afterName, utime, stime, processor = 3, 14, 15, 39
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) <= processor-afterName {
		return
	}
	r.User = number(f[utime-afterName])
	r.System = number(f[stime-afterName])
	if cpu := number(f[processor-afterName]); cpu != nil {
		r.LastCPU = new(int(*cpu))
	}
}

// parseSwitches reads a sched or status file, lines of "name : value" both.
func (r *ThreadReading) parseSwitches(b []byte) {
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(bytes.TrimSpace(name)) {
		case "se.nr_migrations":
			r.Migrations = number(value)
		case "nr_voluntary_switches", "voluntary_ctxt_switches":
			r.Voluntary = number(value)
		case "nr_involuntary_switches", "nonvoluntary_ctxt_switches":
			r.Involuntary = number(value)
		}
	}
}

// Until returns what the thread used from a to b.
func (a ThreadReading) Until(b ThreadReading) *result.ThreadUse {
	u := &result.ThreadUse{
		Slices:      grown(a.Slices, b.Slices),
		Voluntary:   grown(a.Voluntary, b.Voluntary),
		Involuntary: grown(a.Involuntary, b.Involuntary),
		Migrations:  grown(a.Migrations, b.Migrations),
		FirstCPU:    a.LastCPU,
		LastCPU:     b.LastCPU,
	}
	if b.CPU >= a.CPU {
		u.CPUSeconds = new((b.CPU - a.CPU).Seconds())
	}
	if a.RunQueueWait != nil && b.RunQueueWait != nil && *b.RunQueueWait >= *a.RunQueueWait {
		u.RunQueueWaitSeconds = new((*b.RunQueueWait - *a.RunQueueWait).Seconds())
	}
	if time.Duration(b.At-a.At) >= splitFrom {
		u.UserSeconds = ticksSeconds(grown(a.User, b.User))
		u.SystemSeconds = ticksSeconds(grown(a.System, b.System))
	}
	return u
}

func ticksSeconds(ticks *uint64) *float64 {
	if ticks == nil {
		return nil
	}
	return new(float64(*ticks) / stats.UserHZ)
}

// grown returns how much a counter grew. One that decreased was reset, or
// wrapped at a width that nobody knows: the growth isn't known.
func grown(a, b *uint64) *uint64 {
	if a == nil || b == nil || *b < *a {
		return nil
	}
	return new(*b - *a)
}

// number reads a decimal number, nil when b is none.
func number(b []byte) *uint64 {
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return nil
	}
	return &v
}
