package flow_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/plan"
)

// These tests look at the whole process. None is parallel, so that the parallel
// ones wait until they are over.

// openFDs are this process's descriptors.
func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// awaitGone waits until threads have ended: they do shortly after Close.
func awaitGone(t *testing.T, tids []int) {
	t.Helper()
	for _, tid := range tids {
		if tid == os.Getpid() {
			continue // the process's first thread: Go parks it instead
		}
		for begun := time.Now(); ; runtime.Gosched() {
			if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); os.IsNotExist(err) {
				break
			}
			if time.Since(begun) > patience {
				t.Errorf("thread %d lives on", tid)
				break
			}
		}
	}
}

// gogc and limit are the runtime's settings.
func gogc() (percent, limit uint64) {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

func TestCloseLeavesNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	_, limitBefore := gogc()
	for engine, threads := range engines {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver, plan.Requester, plan.Responder} {
			for _, state := range []string{"not started", "blocked", "moving"} {
				before := openFDs(t)
				var fds, far []int
				inodes := map[int]uint64{} // a descriptor's number may be in use again
				for range 3 {
					a, b := unixPair(t)
					fds, far = append(fds, a), append(far, b)
					inodes[a] = inode(a)
				}
				g := group(t, roleOf(role, threads, 4096), fds...)
				other := map[plan.Role]plan.Role{plan.Sender: plan.Receiver, plan.Receiver: plan.Sender, plan.Requester: plan.Responder, plan.Responder: plan.Requester}[role]
				var peers *flow.Group
				if state == "moving" {
					peers = group(t, roleOf(other, threads, 4096), far...)
					peers.Start()
				}
				tids := g.Threads()
				if want := max(threads, 3-3*threads); len(tids) != want {
					t.Errorf("%s %s: %d threads, want %d", engine, role, len(tids), want)
				}
				if state != "not started" {
					g.Start()
				}
				if percent, _ := gogc(); percent == 77 {
					t.Errorf("%s %s: the collector runs while workers live", engine, role)
				}
				if state == "moving" {
					for s := g.Sample(); total(s.Sent)+total(s.Received) == 0; s = g.Sample() {
						runtime.Gosched()
					}
				}
				begun := time.Now()
				g.Close()
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("%s %s, %s: closing took %v", engine, role, state, took)
				}
				g.Close() // once more changes nothing
				for _, fd := range fds {
					if inode(fd) == inodes[fd] {
						t.Errorf("%s %s, %s: descriptor %d is open", engine, role, state, fd)
					}
				}
				if peers == nil {
					for _, fd := range far {
						must(t, unix.Close(fd))
					}
				} else {
					tids = append(tids, peers.Threads()...)
					peers.Close()
				}
				awaitGone(t, tids)
				if after := openFDs(t); after != before {
					t.Errorf("%s %s, %s: %d descriptors before, %d after", engine, role, state, before, after)
				}
			}
		}
	}
	if percent, limit := gogc(); percent != 77 || limit != limitBefore {
		t.Errorf("the collector's settings are %d %% and %d bytes, they were 77 %% and %d", percent, limit, limitBefore)
	}
}

// As long as any group lives, the collector stays off, and afterwards all is as
// before; there are always more Ps than threads that hold one.
func TestPool(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(55))
	sockets := func(n int) (fds []int) {
		for range n {
			a, b := unixPair(t)
			fds = append(fds, a)
			own(t, b)
		}
		return fds
	}
	one := group(t, roleOf(plan.Receiver, 0, 100), sockets(3)...)
	two := group(t, roleOf(plan.Receiver, 0, 100), sockets(40)...)
	one.Start()
	two.Start()
	if n := runtime.GOMAXPROCS(0); n < 45 {
		t.Errorf("GOMAXPROCS is %d with 43 workers", n)
	}
	// The world can be stopped while they block, in time.
	begun := time.Now()
	runtime.GC()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a collection took %v", took)
	}
	one.Close()
	if percent, _ := gogc(); percent == 55 {
		t.Error("the collector runs while a group lives")
	}
	procs := runtime.GOMAXPROCS(0)
	two.Close()
	if percent, _ := gogc(); percent != 55 {
		t.Errorf("the collector is at %d %%", percent)
	}
	if n := runtime.GOMAXPROCS(0); n != procs {
		t.Errorf("GOMAXPROCS went from %d to %d", procs, n)
	}
}

// inode is that of an open descriptor, 0 for one that isn't.
func inode(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

func TestReadRuntime(t *testing.T) {
	a := flow.ReadRuntime()
	runtime.GC()
	runtime.GC()
	if r := a.Until(flow.ReadRuntime()); r.Collections < 2 || r.PauseSeconds < 0 {
		t.Errorf("two collections are %+v", r)
	}
	if r := a.Until(a); r.Collections != 0 || r.PauseSeconds != 0 {
		t.Errorf("nothing is %+v", r)
	}
}

func TestPinning(t *testing.T) {
	var set unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &set))
	var allowed []int
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			allowed = append(allowed, cpu)
		}
	}
	for engine, threads := range engines {
		for _, typ := range standing {
			p := &plan.Test{Type: typ, Duration: plan.Seconds(50 * time.Millisecond), Streams: 3}
			p.Client.CPUs, p.Client.Threads, p.Server.Threads = allowed, threads, threads
			m := newMatch(t, p, buffers{})
			m.pass(t)
			for i, th := range m.client.halves[0].Threads {
				if want := []int{allowed[i%len(allowed)]}; !slices.Equal(th.CPUs, want) {
					t.Errorf("%s %s: thread %d ran on %v, not on %v", engine, typ, i, th.CPUs, want)
				}
			}
			for _, th := range m.server.halves[0].Threads {
				if th.CPUs != nil {
					t.Errorf("%s %s: an unpinned thread has the mask %v", engine, typ, th.CPUs)
				}
			}
		}
		// A CPU that doesn't exist is an error, and nothing is left behind.
		before := openFDs(t)
		a, b := unixPair(t)
		c, d := unixPair(t)
		percent, _ := gogc()
		cfg := roleOf(plan.Sender, threads, 100)
		cfg.CPUs = []int{allowed[0], 1023}
		if slices.Contains(allowed, 1023) {
			t.Skip("this machine has 1024 CPUs")
		}
		if _, err := flow.NewGroup(cfg, []flow.Socket{{Stream: 1, FD: a}, {Stream: 2, FD: c}}); err == nil || !strings.Contains(err.Error(), "CPU 1023") {
			t.Errorf("%s: CPU 1023: %v", engine, err)
		}
		must(t, unix.Close(b), unix.Close(d))
		if after := openFDs(t); after != before {
			t.Errorf("%s: %d descriptors before, %d after", engine, before, after)
		}
		if now, _ := gogc(); now != percent {
			t.Errorf("%s: the collector went from %d %% to %d", engine, percent, now)
		}
	}
}

// What NewGroup and NewTest refuse, they close: the sockets are theirs.
func TestRefusedSocketsAreClosed(t *testing.T) {
	a, b := unixPair(t)
	own(t, b)
	if _, err := flow.NewGroup(flow.Config{Role: "spectator"}, []flow.Socket{{Stream: 1, FD: a}}); err == nil || !strings.Contains(err.Error(), "spectator") {
		t.Errorf("an unknown role: %v", err)
	}
	if fdOpen(a) {
		t.Error("the socket is open")
	}
	p := &plan.Test{Type: plan.TCPStream, Bidir: true, Bytes: 1}
	p.Normalise()
	p.Client.CPUs = []int{1023}
	c, d := unixPair(t)
	e, f := unixPair(t)
	own(t, d)
	own(t, f)
	if _, err := flow.NewTest(p, 0, []flow.Socket{{Stream: 1, FD: c}, {Stream: 2, FD: e}}, flow.Files{}, flow.Connections{}); err == nil {
		t.Skip("this machine has 1024 CPUs")
	}
	if fdOpen(c) || fdOpen(e) {
		t.Error("a socket is open")
	}
}

func TestSetTimeouts(t *testing.T) {
	a, b := unixPair(t)
	own(t, b)
	own(t, a)
	for _, opt := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if tv, err := unix.GetsockoptTimeval(a, unix.SOL_SOCKET, opt); err != nil || tv.Nano() != int64(flow.Timeout) {
			t.Errorf("option %d reads %v, %v", opt, tv, err)
		}
	}
	if err := flow.SetTimeouts(-1); err == nil || !strings.Contains(err.Error(), "SO_RCVTIMEO") {
		t.Errorf("on no socket: %v", err)
	}
}
