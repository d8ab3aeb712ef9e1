package flow

import (
	"time"

	"gperf/splice"
)

// SendBuffers are the buffers that the workers send from, so that a test can
// put a pattern there.
func (g *Group) SendBuffers() [][]byte {
	var all [][]byte
	for _, w := range g.workers {
		all = append(all, w.send)
	}
	return all
}

// Next is when a stream that is paced to rate (bits per second), and whose next
// message may go at due, may send another one after one of n bytes at now.
func Next(rate, due, now int64, n int) int64 {
	p := pacedTo(rate, Pause{})
	p.dueAt = due
	return p.next(now, n)
}

const MaxPacedBurst = time.Duration(maxBurst)

// SetSender and SetReceiver put a mover in place of the first stream's. Before
// the group starts.
func (g *Group) SetSender(s splice.Sender)     { g.streams[0].sender = s }
func (g *Group) SetReceiver(r splice.Receiver) { g.streams[0].receiver = r }

// NextPaused is Next for a stream with pauses, of whose burst so many operations
// are left.
func NextPaused(pause Pause, left int, due, now int64) int64 {
	p := pacedTo(0, pause)
	p.allowed, p.dueAt = left, due
	return p.next(now, 1)
}

// A Memory is what a receiver remembers of the datagrams that have come.
type Memory struct{ s *stream }

func NewMemory() Memory { return Memory{&stream{seen: new(seen)}} }

// Note notes a datagram, which was sent and came at those times.
func (m Memory) Note(number uint64, sent, came int64) bool { return m.s.note(number, sent, came) }

// Counts are the number that is expected next, and the datagrams missing, out of
// order and duplicate.
func (m Memory) Counts() [4]uint64 {
	return [4]uint64{m.s.above, m.s.missing.Load(), m.s.outOfOrder.Load(), m.s.duplicates.Load()}
}

// Jitter is in ns.
func (m Memory) Jitter() uint64 { return m.s.jitter.Load() }

const (
	SeenSpan = seenSpan
	SeenLeap = seenLeap
)
