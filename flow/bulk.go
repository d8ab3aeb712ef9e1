package flow

import (
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// sendLoop is the blocking loop of a bulk sender.
func sendLoop(s *stream) {
	for !s.stopped() {
		if s.paced() && !s.awaitDue() {
			continue
		}
		if s.sendMessage(0) == ended {
			return
		}
	}
}

// sendReady is the epoll engine's: at most one message.
func sendReady(s *stream) (outcome, uint32) {
	if s.paced() && !s.due() {
		return blocked, 0 // the thread's timer wakes it
	}
	return s.sendMessage(unix.MSG_DONTWAIT), unix.EPOLLOUT
}

// sendMessage sends a message, or what is left of one. With a limit the last
// message is shortened to it.
func (s *stream) sendMessage(flags int) outcome {
	if s.left == 0 {
		n := s.group.cfg.SendSize
		if s.limit > 0 {
			n = int(min(uint64(n), s.limit-s.sent.Load()))
		}
		s.begin(s.payload(n))
		if s.paced() {
			s.spend(n)
		}
	}
	s.callBegins()
	if o := s.sendRest(flags); o != progress {
		return o
	}
	s.callEnds()
	if s.limit > 0 && s.sent.Load() == s.limit {
		return ended
	}
	return progress
}

// receiveLoop is the blocking loop of a bulk receiver.
func receiveLoop(s *stream) {
	for !s.stopped() {
		if s.receiveMessage(0) == ended {
			return
		}
	}
}

// receiveReady is the epoll engine's: one call.
func receiveReady(s *stream) (outcome, uint32) {
	return s.receiveMessage(unix.MSG_DONTWAIT), unix.EPOLLIN
}

// receiveMessage makes one receive. With a limit it never asks for a byte more.
func (s *stream) receiveMessage(flags int) outcome {
	into := s.worker.receive
	into = into[:min(len(into), s.chunk)]
	if s.limit > 0 {
		into = into[:min(uint64(len(into)), s.limit-s.received.Load())]
	}
	s.callBegins()
	n, o := s.receiveInto(into, flags)
	switch {
	case o != progress:
		return o
	case n == 0:
		return s.closedEarly()
	}
	s.callEnds()
	if s.limit > 0 && s.received.Load() == s.limit {
		return ended
	}
	return progress
}

// callBegins and callEnds time one call, if that was asked for: with all its
// attempts until it moves something, for that is how long another program would
// have blocked in it.
func (s *stream) callBegins() {
	if s.group.cfg.TimeCalls && s.called == 0 {
		s.called = sys.Monotonic()
	}
}

func (s *stream) callEnds() {
	if s.called != 0 {
		s.worker.record(s.worker.latency, sys.Monotonic()-s.called)
		s.called = 0
	}
}
