package flow

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// cacheLine keeps what one thread writes apart from what others touch: two
// lines of 64 bytes, because processors prefetch them in pairs.
const cacheLine = 128

// counters are what has happened on a stream since its worker started. They are
// owned by the worker's thread, which publishes each with one atomic store, and
// read by the sampler.
type counters struct {
	_             [cacheLine]byte
	sent          atomic.Uint64 // payload bytes handed to the kernel
	received      atomic.Uint64 // payload bytes taken from the kernel
	sendCalls     atomic.Uint64 // calls that moved bytes
	receiveCalls  atomic.Uint64
	shortSends    atomic.Uint64 // sends cut short by the kernel
	interruptions atomic.Uint64 // calls that moved nothing: EINTR, EAGAIN
	transactions  atomic.Uint64 // completed inside the window; answered, at a responder
	errors        atomic.Uint64 // sends or connects that failed and were not tried again
	lost          atomic.Uint64 // requests whose response didn't come in time
	missing       atomic.Uint64 // datagrams below the highest number so far that haven't come
	outOfOrder    atomic.Uint64 // datagrams that came after one with a higher number
	duplicates    atomic.Uint64 // datagrams that had come already
	jitter        atomic.Uint64 // ns, as RFC 3550 smoothes it
	_             [cacheLine]byte
}

// A stream is one connection and how far its loop has come. The fields below
// the counters belong to the worker's thread.
type stream struct {
	counters
	group       *Group
	id, fd      int
	local, peer netip.AddrPort
	limit       uint64 // bytes or transactions; 0: none
	worker      *worker

	message []byte // the current message, request or response
	left    int    // bytes of it that are still to go
	need    int    // bytes still to come of the current request or response
	more    int    // MSG_MORE on every send, or 0
	movers
	pacer
	transactor
	*seen                           // a receiver's of numbered datagrams
	number        uint64            // of the next datagram to be sent
	called        int64             // when the call that is timed began; 0: none is
	connectErrors map[string]uint64 // connects that failed, by the name of the error

	// The epoll engine's: the events it awaits, the stream's index in its
	// worker, whether and where it waits in the worker's schedule.
	interest uint32
	index    int32
	parked   bool
	place    int

	endedAt int64 // monotonic ns; 0: not yet
	err     error
}

// An outcome is how one step of a stream's loop ended.
type outcome int

const (
	progress outcome = iota // bytes moved: go on
	blocked                 // nothing moved: the stream is not ready, or a signal came
	ended                   // the stream has reached its limit, failed, or was stopped
)

// stopped reports whether the stream's group is to end.
func (s *stream) stopped() bool { return s.group.stopped.Load() }

// countSend and countReceive publish one call. The thread is the only writer,
// so that reading what it wrote itself is no race and the store is plain.
func (s *stream) countSend(n int) {
	s.sent.Store(s.sent.Load() + uint64(n))
	s.sendCalls.Store(s.sendCalls.Load() + 1)
}

func (s *stream) countReceive(n int) {
	s.received.Store(s.received.Load() + uint64(n))
	s.receiveCalls.Store(s.receiveCalls.Load() + 1)
}

// interrupted handles a call that moved nothing. A signal and the socket's
// time-out are no errors: they are how the runtime and the stop flag reach a
// thread that blocks. It is a real call on purpose: its prologue is where the
// runtime can stop the thread.
//
//go:noinline
func (s *stream) interrupted(call string, errno unix.Errno) outcome {
	if s.stopped() {
		return ended // whatever it says: the socket is being taken down
	}
	if errno == unix.EINTR || errno == unix.EAGAIN {
		s.interruptions.Add(1)
		return blocked
	}
	return s.fail(broken{fmt.Errorf("stream %d: %w", s.id, os.NewSyscallError(call, errno))})
}

// ErrBroken is matched by errors about a data connection that ended in the
// middle of a test.
var ErrBroken = errors.New("data connection broken")

// broken makes an error match ErrBroken and leaves its words alone.
type broken struct{ error }

func (e broken) Is(target error) bool { return target == ErrBroken }
func (e broken) Unwrap() error        { return e.error }

// closedEarly notes that the peer ended the stream while it should have gone on.
func (s *stream) closedEarly() outcome {
	if s.stopped() || s.group.cfg.UntilEOF {
		return ended
	}
	return s.fail(broken{fmt.Errorf("stream %d: the peer closed the connection after %d bytes", s.id, s.received.Load())})
}

// fail ends the stream with an error.
func (s *stream) fail(err error) outcome {
	s.err = err
	return ended
}

// begin makes p the message that goes next.
func (s *stream) begin(p []byte) { s.message, s.left = p, len(p) }

// sendRest makes one send of what is still to go. Where the kernel cuts it
// short, the rest goes before anything else does, so that the byte stream is
// exact; every send asks for a whole message or for the rest of one.
func (s *stream) sendRest(flags int) outcome {
	if s.moves() {
		return s.moveRest(flags)
	}
	rest := s.message[len(s.message)-s.left:]
	asked := min(len(rest), s.chunk)
	n, errno := sys.Send(s.fd, rest[:asked], flags|s.more|unix.MSG_NOSIGNAL)
	if errno != 0 {
		if errno == unix.EAGAIN && flags&unix.MSG_DONTWAIT != 0 {
			return blocked // as asked: no interruption
		}
		return s.interrupted("send", errno)
	}
	s.sentOnce(n, asked)
	return progress
}

// sentOnce counts one send of n of the bytes asked for.
func (s *stream) sentOnce(n, asked int) {
	s.countSend(n)
	if n < asked {
		s.shortSends.Add(1)
	}
	s.left -= n
}

// receiveInto makes one receive of at most len(p) bytes. 0 bytes without an
// outcome other than progress is the end of the stream.
func (s *stream) receiveInto(p []byte, flags int) (int, outcome) {
	if s.moves() {
		return s.moveInto(len(p), flags)
	}
	n, errno := sys.Recv(s.fd, p, flags)
	if errno != 0 {
		if errno == unix.EAGAIN && flags&unix.MSG_DONTWAIT != 0 {
			return 0, blocked
		}
		return 0, s.interrupted("recv", errno)
	}
	if s.verify && !s.intact(p[:n]) {
		return 0, ended
	}
	if n > 0 {
		s.countReceive(n)
	}
	return n, progress
}
