package flow

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// cacheLine keeps what one thread writes apart from what others touch: two
// lines of 64 bytes, because processors prefetch them in pairs.
const cacheLine = 128

// counters are what a worker has done since it started. They are owned by its
// thread, which publishes each with one atomic store, and read by the sampler.
type counters struct {
	_             [cacheLine]byte
	sent          atomic.Uint64 // payload bytes handed to the kernel
	received      atomic.Uint64 // payload bytes taken from the kernel
	sendCalls     atomic.Uint64 // calls that moved bytes
	receiveCalls  atomic.Uint64
	shortSends    atomic.Uint64 // sends cut short by the kernel
	interruptions atomic.Uint64 // calls that moved nothing: EINTR, EAGAIN
	transactions  atomic.Uint64 // completed inside the window; answered, at a responder
	_             [cacheLine]byte
}

// A worker drives one stream in one role on a locked thread of its own, with
// blocking system calls.
type worker struct {
	counters
	group   *Group
	id, fd  int
	limit   uint64 // bytes or transactions; 0: none
	send    []byte
	receive []byte
	latency *hdrhistogram.Histogram // requester only

	local, peer netip.AddrPort
	tid         int
	cpus        []int // affinity read back; nil: unpinned

	// Written by the thread before done is closed.
	endedAt  int64 // monotonic ns
	endedCPU int64 // CPU time of the thread, ns
	err      error
	done     chan struct{}
}

// buffer returns n bytes of page-aligned memory whose pages are present, so
// that the first round of a loop costs what the others do. unmap returns it.
func buffer(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	return b, os.NewSyscallError("mmap", err)
}

// run is the worker's thread: it prepares, reports ready, awaits the gate, and
// moves bytes until its limit, the stop flag or an error.
func (w *worker) run(cpu int, ready chan<- error) {
	// Never unlocked: a thread that has been pinned must not serve other
	// goroutines later. It ends with this one.
	runtime.LockOSThread()
	defer close(w.done)
	w.tid = unix.Gettid()
	if err := w.pin(cpu); err != nil {
		ready <- err
		return
	}
	ready <- nil
	<-w.group.gate
	if !w.group.stopped.Load() {
		w.group.loop(w)
	}
	w.endedAt = sys.Monotonic()
	w.endedCPU, _ = sys.ThreadCPU(w.tid) // its own clock: it can't be missing
	w.group.workerEnded(w)
}

// pin sets the thread's affinity to cpu and reads it back; -1 leaves it alone.
func (w *worker) pin(cpu int) error {
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("stream %d: sched_setaffinity to CPU %d: %w", w.id, cpu, err)
	}
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("stream %d: sched_getaffinity: %w", w.id, err)
	}
	for i := range maxCPUs {
		if set.IsSet(i) {
			w.cpus = append(w.cpus, i)
		}
	}
	if len(w.cpus) != 1 || w.cpus[0] != cpu {
		return fmt.Errorf("stream %d: asked for CPU %d, the kernel allows %v", w.id, cpu, w.cpus)
	}
	return nil
}

// maxCPUs is how many CPUs a mask of unix.CPUSet's size holds.
const maxCPUs = 1024

// interrupted handles a call that moved nothing and reports whether the loop
// goes on. A signal and the socket's time-out are no errors: they are how the
// runtime and the stop flag reach a thread that blocks. It is a real call on
// purpose: its prologue is where the runtime can stop the thread.
//
//go:noinline
func (w *worker) interrupted(call string, errno unix.Errno) bool {
	if w.group.stopped.Load() {
		return false // whatever it says: the socket is being taken down
	}
	if errno == unix.EINTR || errno == unix.EAGAIN {
		w.interruptions.Add(1)
		return true
	}
	w.err = fmt.Errorf("stream %d: %w", w.id, os.NewSyscallError(call, errno))
	return false
}

// closedEarly notes that the peer ended the stream while it should have gone on.
func (w *worker) closedEarly() {
	if !w.group.stopped.Load() {
		w.err = fmt.Errorf("stream %d: the peer closed the connection after %d bytes", w.id, w.received.Load())
	}
}
