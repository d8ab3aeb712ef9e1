package flow

import (
	"time"

	"gperf/internal/sys"
)

// A pacer holds a sender to a rate, message by message. A stream that fell
// behind catches up with at most maxBurst's worth of the rate at once; what it
// missed beyond that it has missed.
type pacer struct {
	perByte float64 // ns; 0: not paced by a rate
	pause   Pause
	allowed int   // operations that may still go before the next pause
	dueAt   int64 // monotonic ns at which the next message may begin
	waited  int64 // ns that awaitDue has slept
}

// A Pause holds a stream back after every Burst messages (or transactions) until
// Every has passed since the first of them could go. Zero: no pauses.
type Pause struct {
	Burst int
	Every time.Duration
}

// maxBurst bounds what a paced stream sends at once, unless a single message is
// larger.
const maxBurst = time.Millisecond

// pacedTo returns a pacer for a rate in bits per second, 0: none, or for pauses.
func pacedTo(bitsPerSecond int64, pause Pause) pacer {
	p := pacer{pause: pause, allowed: pause.Burst}
	if bitsPerSecond > 0 {
		p.perByte = 8e9 / float64(bitsPerSecond)
	}
	return p
}

func (p *pacer) paced() bool { return p.perByte > 0 || p.pause.Burst > 0 }

// due reports whether the next message, or the rest of one, may go now.
func (s *stream) due() bool { return s.left > 0 || sys.Monotonic() >= s.dueAt }

// spend sets the time of the next message after one of n bytes that goes now.
func (p *pacer) spend(n int) { p.dueAt = p.next(sys.Monotonic(), n) }

// next is when the message after one of n bytes may go, if that one goes now.
func (p *pacer) next(now int64, n int) int64 {
	if p.pause.Burst > 0 {
		since := p.dueAt
		if since == 0 {
			since = now
		}
		if p.allowed--; p.allowed > 0 {
			return since
		}
		p.allowed = p.pause.Burst
		// Bursts that were missed are not made up for.
		return max(since+int64(p.pause.Every), now)
	}
	return max(p.dueAt, now-int64(maxBurst)) + int64(float64(n)*p.perByte)
}

// awaitDue sleeps until the next message may go and reports whether it may: it
// doesn't when a signal came or Timeout passed first, so that the loop can look
// at its stop flag.
func (s *stream) awaitDue() bool {
	if s.due() {
		return true
	}
	from := sys.Monotonic()
	if wait := min(s.dueAt-from, int64(Timeout)); wait > 0 {
		sys.Nanosleep(wait)
		s.waited += sys.Monotonic() - from
	}
	return s.due()
}

// punctual is awaitDue for a requester, whose transactions begin at s.now.
func (s *stream) punctual() bool {
	if s.due() {
		return true
	}
	due := s.awaitDue()
	s.now = sys.Monotonic()
	return due
}
