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
