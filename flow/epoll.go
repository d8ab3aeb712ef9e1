package flow

import (
	"container/heap"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/splice"
)

// maxEvents is how many ready streams one wait reports. The kernel hands them
// out in turn, so that with more than that none starves.
const maxEvents = 256

// poll is the epoll engine: level-triggered, one step per stream per event, so
// that no stream starves whatever the others do. Paced streams that are not due
// leave the set and wait in a heap.
func (w *worker) poll() {
	g := w.group
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		w.giveUp(os.NewSyscallError("epoll_create1", err))
		return
	}
	defer unix.Close(epoll)
	for i, s := range w.streams {
		s.index, s.interest = int32(i), g.role.first
		// The event carries the stream's index, not its descriptor.
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Events: s.interest, Fd: s.index}); err != nil {
			w.giveUp(os.NewSyscallError("epoll_ctl", err))
			return
		}
	}
	var (
		events = make([]unix.EpollEvent, maxEvents)
		parked = make(schedule, 0, len(w.streams))
	)
	for left := len(w.streams); left > 0 && !g.stopped.Load(); {
		n, errno := sys.EpollWait(epoll, events, parked.wait())
		if errno != 0 && errno != unix.EINTR {
			w.giveUp(os.NewSyscallError("epoll_wait", errno))
			return
		}
		for _, e := range events[:max(n, 0)] {
			if s := w.streams[e.Fd]; s.endedAt == 0 && !w.step(epoll, s, &parked) {
				left--
			}
		}
		for len(parked) > 0 && parked[0].dueAt <= sys.Monotonic() {
			s := heap.Pop(&parked).(*stream)
			s.parked = false
			if !w.step(epoll, s, &parked) {
				left--
			}
		}
	}
	for _, s := range w.streams {
		if s.endedAt == 0 {
			w.streamEnded(s)
		}
	}
}

// step gives one stream its turn and reports whether it goes on.
func (w *worker) step(epoll int, s *stream, parked *schedule) bool {
	o, want := ended, uint32(0)
	if s.parked {
		// The set reports of it only that the connection broke.
		heap.Remove(parked, s.place)
		o = s.broken()
	} else {
		o, want = w.group.role.ready(s)
	}
	if o == ended {
		_ = unix.EpollCtl(epoll, unix.EPOLL_CTL_DEL, s.fd, nil)
		w.streamEnded(s)
		return false
	}
	if want == 0 {
		s.parked = true
		heap.Push(parked, s)
	}
	if want != s.interest {
		s.interest = want
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_MOD, s.fd, &unix.EpollEvent{Events: want, Fd: s.index}); err != nil {
			s.fail(fmt.Errorf("stream %d: %w", s.id, os.NewSyscallError("epoll_ctl", err)))
			w.streamEnded(s)
			return false
		}
	}
	return true
}

// broken ends a stream whose connection broke while it was parked.
func (s *stream) broken() outcome {
	if z, ok := s.sender.(*splice.Zerocopy); ok && z.Reap() > 0 {
		return blocked // it was only reports of sends that are done
	}
	errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || errno == 0 {
		return s.closedEarly()
	}
	return s.interrupted("send", unix.Errno(errno))
}

// giveUp ends all streams of the worker because the engine itself failed.
func (w *worker) giveUp(err error) {
	for _, s := range w.streams {
		if s.endedAt == 0 {
			s.err = fmt.Errorf("stream %d: %w", s.id, err)
			w.streamEnded(s)
		}
	}
}

// A schedule is a heap of parked streams, the one that's due next first.
type schedule []*stream

func (q schedule) Len() int           { return len(q) }
func (q schedule) Less(i, j int) bool { return q[i].dueAt < q[j].dueAt }
func (q schedule) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *schedule) Push(x any) {
	s := x.(*stream)
	s.place = len(*q)
	*q = append(*q, s)
}

func (q *schedule) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}

// wait is how long, in ns, a thread may wait for events: until the next parked
// stream is due, and no longer than Timeout, so that it sees the stop flag.
func (q schedule) wait() int64 {
	if len(q) == 0 {
		return int64(Timeout)
	}
	return min(max(q[0].dueAt-sys.Monotonic(), 0), int64(Timeout))
}
