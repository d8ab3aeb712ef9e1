package host

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"gperf/result"
)

const (
	schedstat = "13319720 5835998 284\n"
	// A thread may call itself anything.
	taskStat = "4932 (a) R (b) S 4925 4925 3663 0 -1 4194304 97 0 0 0 31 7 0 0 20 0 1 0 85364 3133440 362 18446744073709551615 " +
		"94589271379968 94589271399849 140720800611040 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0 94589271415856\n"
	sched = `gperf (4932, #threads: 8)
-------------------------------------------------------------------
se.exec_start                                :        850493.915576
se.nr_migrations                             :                    3
nr_switches                                  :                  284
nr_voluntary_switches                        :                    2
nr_involuntary_switches                      :                  282
policy                                       :                    0
`
	taskStatus = "Name:\tgperf\nState:\tR (running)\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t21\nnonvoluntary_ctxt_switches:\t22\n"
)

func TestThreadFiles(t *testing.T) {
	all := map[string]string{"schedstat": schedstat, "stat": taskStat, "sched": sched, "status": taskStatus}
	tests := []struct {
		name  string
		files map[string]string
		want  ThreadReading
	}{
		{
			name:  "all files",
			files: all,
			want: ThreadReading{
				User: new(uint64(31)), System: new(uint64(7)), LastCPU: new(5),
				RunQueueWait: new(5835998 * time.Nanosecond), Slices: new(uint64(284)),
				Voluntary: new(uint64(2)), Involuntary: new(uint64(282)), Migrations: new(uint64(3)),
			},
		},
		{
			name:  "kernel without scheduler statistics",
			files: map[string]string{"stat": taskStat, "status": taskStatus},
			want: ThreadReading{
				User: new(uint64(31)), System: new(uint64(7)), LastCPU: new(5),
				Voluntary: new(uint64(21)), Involuntary: new(uint64(22)),
			},
		},
		{name: "thread has just ended"},
		{
			name:  "nonsense",
			files: map[string]string{"stat": "1 (a) S", "schedstat": "1 x y", "sched": "nr_voluntary_switches : -1\n:\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeFiles(t, tt.files)
			var got ThreadReading
			got.read(dir)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No file makes a reading fail, whatever it holds.
func FuzzThreadFiles(f *testing.F) {
	for _, s := range []string{schedstat, taskStat, sched, taskStatus, ")", "1 (a) S"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r ThreadReading
		r.parseSchedstat(b)
		r.parseStat(b)
		r.parseSwitches(b)
		if len(b) == 0 && r != (ThreadReading{}) {
			t.Errorf("nothing says %+v", r)
		}
	})
}

func TestThreadUntil(t *testing.T) {
	a := ThreadReading{
		At: 0, CPU: time.Second, User: new(uint64(60)), System: new(uint64(40)), RunQueueWait: new(time.Millisecond),
		Slices: new(uint64(10)), Voluntary: new(uint64(5)), Involuntary: new(uint64(5)), Migrations: new(uint64(1)), LastCPU: new(3),
	}
	b := ThreadReading{
		At: int64(2 * time.Second), CPU: 2500 * time.Millisecond, User: new(uint64(160)), System: new(uint64(90)), RunQueueWait: new(5 * time.Millisecond),
		Slices: new(uint64(30)), Voluntary: new(uint64(15)), Involuntary: new(uint64(4)), Migrations: new(uint64(1)), LastCPU: new(2),
	}
	want := &result.ThreadUse{
		CPUSeconds: new(1.5), UserSeconds: new(1.0), SystemSeconds: new(0.5), RunQueueWaitSeconds: new(0.004),
		Slices: new(uint64(20)), Voluntary: new(uint64(10)), Involuntary: nil, Migrations: new(uint64(0)),
		FirstCPU: new(3), LastCPU: new(2),
	}
	if diff := cmp.Diff(want, a.Until(b), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.At = int64(time.Second / 2)
	want.UserSeconds, want.SystemSeconds = nil, nil
	if diff := cmp.Diff(want, a.Until(b), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("short window (-want +got):\n%s", diff)
	}
	want = &result.ThreadUse{CPUSeconds: new(0.0)}
	if diff := cmp.Diff(want, ThreadReading{}.Until(ThreadReading{})); diff != "" {
		t.Errorf("nothing known (-want +got):\n%s", diff)
	}
}

// Another thread of the process is read while it runs: its CPU time is its own.
func TestThread(t *testing.T) {
	const spin = 30 * time.Millisecond
	tid := make(chan int)
	begin, burnt, end := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid <- unix.Gettid()
		<-begin
		burn(t, spin)
		_, err := unix.Poll(nil, 1) // gives its CPU away
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Error(err)
		}
		close(burnt)
		<-end
	}()
	id := <-tid
	a, err := Thread(id)
	if err != nil {
		t.Fatal(err)
	}
	close(begin)
	<-burnt
	b, err := Thread(id)
	if err != nil {
		t.Fatal(err)
	}
	close(end)

	u := a.Until(b)
	// Beside the spinning, it only woke and slept; what a hypervisor took meanwhile
	// the kernel may count as used.
	const wake, taken = 0.005, 0.05
	if u.CPUSeconds == nil || *u.CPUSeconds < spin.Seconds()-wake || *u.CPUSeconds > spin.Seconds()+taken {
		t.Errorf("used %v s of CPU time, want %v", show(u.CPUSeconds), spin.Seconds())
	}
	if u.Voluntary == nil || *u.Voluntary == 0 {
		t.Errorf("%v voluntary switches, want some", show(u.Voluntary))
	}
	if u.LastCPU == nil || *u.LastCPU < 0 {
		t.Errorf("last CPU %v", show(u.LastCPU))
	}
	if _, err := os.Stat("/proc/thread-self/schedstat"); err == nil {
		if u.Slices == nil || *u.Slices == 0 || u.RunQueueWaitSeconds == nil || *u.RunQueueWaitSeconds > time.Duration(b.At-a.At).Seconds() {
			t.Errorf("waited %v s in %v slices", show(u.RunQueueWaitSeconds), show(u.Slices))
		}
	}
	if u.UserSeconds != nil {
		t.Errorf("user time of a short window is %v s, want unknown", *u.UserSeconds)
	}
}

func TestNoSuchThread(t *testing.T) {
	const none = 1<<22 + 1 // above the largest pid_max
	if _, err := Thread(none); !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v, want EINVAL", err)
	}
}

func BenchmarkThread(b *testing.B) {
	tid := unix.Gettid()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Thread(tid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkThreadCPU(b *testing.B) {
	tid := unix.Gettid()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ThreadCPU(tid); err != nil {
			b.Fatal(err)
		}
	}
}

// writeFiles returns a new directory with files of the given names and texts.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
