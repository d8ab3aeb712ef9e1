package flow

import (
	"time"

	"gperf/result"
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

// Sample reads the counters of all streams.
func (g *Group) Sample() result.Sample { return g.sample(0) }

// Ended is closed when the last stream has ended.
func (g *Group) Ended() <-chan struct{} { return g.ended }

// Next is when a stream that is paced to rate (bits per second), and whose next
// message may go at due, may send another one after one of n bytes at now.
func Next(rate, due, now int64, n int) int64 {
	p := pacedTo(rate)
	p.dueAt = due
	return p.next(now, n)
}

const MaxPacedBurst = time.Duration(maxBurst)
