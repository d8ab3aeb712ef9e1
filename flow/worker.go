package flow

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/splice"
)

// A worker is one locked thread. In the blocking engine it drives one stream
// with blocking calls, in the epoll engine its share of the streams.
type worker struct {
	group   *Group
	streams []*stream
	send    []byte // buffers, of which all its streams send and into which they receive
	receive []byte
	// latency is of a requester's transactions, or of timed calls; connects is
	// of the connects in it.
	latency, connects *hdrhistogram.Histogram

	// What its streams' movers share: a thread's own, for pages that several CPUs
	// count references to are slow.
	standing *splice.Standing
	payload  *splice.Payload
	closers  []io.Closer

	tid  int
	cpus []int // affinity read back; nil: unpinned
	done chan struct{}
}

// buffer returns n bytes of page-aligned memory whose pages are present, so
// that the first round of a loop costs what the others do. unix.Munmap returns it.
func buffer(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	return b, os.NewSyscallError("mmap", err)
}

// run is the worker's thread: it prepares, reports ready, awaits the gate, and
// moves bytes until its streams' limits, the stop flag or errors end it. It
// lives on until the group closes, so that its accounts can be read.
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
	if w.group.polled {
		w.poll()
	} else {
		s := w.streams[0]
		w.group.role.loop(s)
		w.streamEnded(s)
	}
	for _, s := range w.streams {
		s.finishMoves()
	}
	<-w.group.closing
}

// streamEnded notes that a stream of this worker moves nothing any more.
func (w *worker) streamEnded(s *stream) {
	s.endedAt = sys.Monotonic()
	w.group.streamEnded(s)
}

// pin sets the thread's affinity to cpu and reads it back; -1 leaves it alone.
func (w *worker) pin(cpu int) error {
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: sched_setaffinity: %w", cpu, err)
	}
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: sched_getaffinity: %w", cpu, err)
	}
	for i := range maxCPUs {
		if set.IsSet(i) {
			w.cpus = append(w.cpus, i)
		}
	}
	if len(w.cpus) != 1 || w.cpus[0] != cpu {
		return fmt.Errorf("CPU %d: the kernel allows %v instead", cpu, w.cpus)
	}
	return nil
}

// maxCPUs is how many CPUs a mask of unix.CPUSet's size holds.
const maxCPUs = 1024

// record puts a duration in ns into h. One beyond the histogram's range counts as
// the highest that it can hold rather than vanish.
func (w *worker) record(h *hdrhistogram.Histogram, ns int64) {
	if h.RecordValue(ns) != nil {
		_ = h.RecordValue(h.HighestTrackableValue())
	}
}
