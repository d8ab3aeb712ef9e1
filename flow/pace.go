package flow

import (
	"time"

	"gperf/internal/sys"
)

// A pacer holds a sender to a rate, message by message. A stream that fell
// behind catches up with at most maxBurst's worth of the rate at once; what it
// missed beyond that it has missed.
type pacer struct {
	perByte float64 // ns; 0: not paced
	dueAt   int64   // monotonic ns at which the next message may begin
}

// maxBurst bounds what a paced stream sends at once, unless a single message is
// larger.
const maxBurst = time.Millisecond

// pacedTo returns a pacer for a rate in bits per second; 0: none.
func pacedTo(bitsPerSecond int64) pacer {
	if bitsPerSecond == 0 {
		return pacer{}
	}
	return pacer{perByte: 8e9 / float64(bitsPerSecond)}
}

func (p *pacer) paced() bool { return p.perByte > 0 }

// due reports whether the next message, or the rest of one, may go now.
func (s *stream) due() bool { return s.left > 0 || sys.Monotonic() >= s.dueAt }

// spend sets the time of the next message after one of n bytes that goes now.
func (p *pacer) spend(n int) { p.dueAt = p.next(sys.Monotonic(), n) }

// next is when the message after one of n bytes may go, if that one goes now.
func (p *pacer) next(now int64, n int) int64 {
	return max(p.dueAt, now-int64(maxBurst)) + int64(float64(n)*p.perByte)
}

// awaitDue sleeps until the next message may go and reports whether it may: it
// doesn't when a signal came or Timeout passed first, so that the loop can look
// at its stop flag.
func (s *stream) awaitDue() bool {
	if s.due() {
		return true
	}
	wait := min(s.dueAt-sys.Monotonic(), int64(Timeout))
	if wait > 0 {
		sys.Nanosleep(wait)
	}
	return s.due()
}
