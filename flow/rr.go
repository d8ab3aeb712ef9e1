package flow

import (
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// A transactor is a requester's place in its transactions. Up to burst of them
// are outstanding. Latency runs from the moment a request's sending begins to
// the moment its response is complete; responses belong to requests in the
// order of sending. There is one clock reading per response (per call that
// completes responses, when one brings several): the end of one transaction is
// the start of the next.
type transactor struct {
	began       []int64 // when the sending of the outstanding requests began; a ring
	begun       uint64  // requests sent whole
	outstanding int     // of them, those whose response is not complete
	oldest      uint64  // datagrams: all requests before this one are answered or given up
	most        int     // the most of them that there were at once
	sending     bool    // a request is under way
	done        uint64  // transactions completed and counted
	now         int64   // the latest clock reading
}

// requestLoop is the blocking loop of a requester. It can't deadlock, whatever
// the sizes and buffers: while a response is owed it never blocks in a send (it
// reads instead, which lets the responder go on), and while none is owed the
// responder has nothing to do but read.
func requestLoop(s *stream) {
	s.now = sys.Monotonic()
	for !s.stopped() {
		if s.fill(true) == ended || s.take(0) == ended {
			return
		}
	}
}

// requestReady is the epoll engine's: one receive, then as many requests as
// there is room for.
func requestReady(s *stream) (outcome, uint32) {
	if s.now == 0 {
		s.now = sys.Monotonic()
	}
	if o := s.take(unix.MSG_DONTWAIT); o == ended {
		return o, 0
	}
	switch s.fill(false) {
	case ended:
		return ended, 0
	case blocked:
		return blocked, unix.EPOLLIN | unix.EPOLLOUT
	}
	return progress, unix.EPOLLIN
}

// fill sends requests until burst are outstanding or there is no room. It may
// block in a send only while no response is owed.
func (s *stream) fill(mayBlock bool) outcome {
	for s.outstanding < len(s.began) {
		if !s.sending {
			if s.limit > 0 && s.begun == s.limit {
				break
			}
			if s.paced() {
				// Not before its time, of which its latency has no part. Responses
				// may come until then.
				if !s.due() && s.outstanding > 0 {
					break
				}
				if !s.punctual() {
					return blocked
				}
				s.spend(s.group.cfg.RequestSize)
			}
			s.sending = true
			s.begin(s.worker.send)
			s.began[s.begun%uint64(len(s.began))] = s.now
		}
		flags := unix.MSG_DONTWAIT
		if mayBlock && s.outstanding == 0 {
			flags = 0
		}
		if o := s.sendRest(flags); o != progress {
			return o
		}
		if s.left == 0 {
			s.sending = false
			s.begun++
			s.outstanding++
			s.most = max(s.most, s.outstanding)
		}
	}
	return progress
}

// take makes one receive and counts the transactions that it completes.
func (s *stream) take(flags int) outcome {
	if s.outstanding == 0 {
		return progress
	}
	size, into := s.group.cfg.ResponseSize, s.worker.receive
	have := size - s.need // bytes of the current response
	n, o := s.receiveInto(into[:min(len(into), s.outstanding*size-have)], flags)
	if o != progress {
		return o
	}
	if n == 0 {
		return s.closedEarly()
	}
	have += n
	if have < size {
		s.need = size - have
		return progress
	}
	s.now = sys.Monotonic()
	if s.now >= s.group.closeAt.Load() {
		return ended
	}
	for ; have >= size; have -= size {
		if s.complete() == ended {
			return ended
		}
	}
	s.need = size - have
	return progress
}

// complete counts the oldest outstanding transaction as done now, if the window
// is open.
func (s *stream) complete() outcome {
	began := s.began[(s.begun-uint64(s.outstanding))%uint64(len(s.began))]
	s.outstanding--
	return s.answered(began)
}

// answered counts a transaction that began then and is done now, if the window
// is open.
func (s *stream) answered(began int64) outcome {
	if s.now < s.group.openAt.Load() {
		return progress // warm-up
	}
	s.worker.record(s.worker.latency, s.now-began)
	s.done++
	s.transactions.Store(s.done)
	if s.done == s.limit {
		return ended
	}
	return progress
}

// respondLoop is the blocking loop of a responder: it reads a request, then
// sends a response. The end of the stream between two requests is the
// requester's way to end.
func respondLoop(s *stream) {
	for !s.stopped() {
		if s.respond(0) == ended {
			return
		}
	}
}

// respondReady is the epoll engine's: one receive, and the response if that
// completes the request; or the rest of a response.
func respondReady(s *stream) (outcome, uint32) {
	o := s.respond(unix.MSG_DONTWAIT)
	if o == progress && s.left > 0 {
		o = s.respond(unix.MSG_DONTWAIT)
	}
	if s.left > 0 {
		return o, unix.EPOLLOUT // no reading before the response has gone
	}
	return o, unix.EPOLLIN
}

// respond makes one call: a send while a response is under way, else a receive.
func (s *stream) respond(flags int) outcome {
	size := s.group.cfg.RequestSize
	if s.left > 0 {
		o := s.sendRest(flags)
		if o == progress && s.left == 0 {
			s.need = size
			s.transactions.Store(s.transactions.Load() + 1)
			if s.limit > 0 && s.transactions.Load() == s.limit {
				return ended
			}
		}
		return o
	}
	into := s.worker.receive
	n, o := s.receiveInto(into[:min(len(into), s.need)], flags)
	switch {
	case o != progress:
		return o
	case n == 0 && s.need == size:
		return ended
	case n == 0:
		return s.closedEarly()
	}
	if s.need -= n; s.need == 0 {
		s.begin(s.worker.send)
	}
	return progress
}
