package flow

import (
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// request is the loop of a requester that keeps burst transactions outstanding.
// Latency runs from the moment a request's sending begins to the moment its
// response is complete; responses belong to requests in the order of sending.
// There is one clock reading per response (per call that completes responses,
// when one brings several): the end of one transaction is the start of the next.
//
// It can't deadlock, whatever the sizes and buffers: while a response is owed
// it never blocks in a send (it reads instead, which lets the responder go on),
// and while none is owed the responder has nothing to do but read.
func request(w *worker) {
	var (
		g           = w.group
		size        = g.cfg.ResponseSize
		rest        = w.send // what is still to go of the current request
		pending     int      // bytes received of the current response
		outstanding int      // requests sent whole, response not complete
		begun       uint64   // requests whose sending has begun
		done        uint64   // transactions completed
		began       = make([]int64, g.cfg.Burst)
		now         = sys.Monotonic()
	)
	for !g.stopped.Load() {
		for outstanding < len(began) {
			if len(rest) == len(w.send) { // a request begins here
				if w.limit > 0 && begun == w.limit {
					break
				}
				began[begun%uint64(len(began))] = now
			}
			flags := unix.MSG_NOSIGNAL
			if outstanding > 0 {
				flags |= unix.MSG_DONTWAIT
			}
			n, errno := sys.Send(w.fd, rest, flags)
			if errno == unix.EAGAIN && outstanding > 0 {
				break // no room: read
			}
			if errno != 0 {
				if !w.interrupted("send", errno) {
					return
				}
				continue
			}
			w.countSend(n)
			if n < len(rest) {
				// A request of which a byte has gone is begun, and once only.
				w.shortSends.Add(1)
				rest = rest[n:]
				continue
			}
			rest = w.send
			begun++
			outstanding++
		}
		n, errno := sys.Recv(w.fd, w.receive[:min(len(w.receive), outstanding*size-pending)], 0)
		if errno != 0 {
			if !w.interrupted("recv", errno) {
				return
			}
			continue
		}
		if n == 0 {
			w.closedEarly()
			return
		}
		w.countReceive(n)
		pending += n
		if pending < size {
			continue
		}
		now = sys.Monotonic()
		if now >= g.closeAt.Load() {
			return
		}
		for ; pending >= size; pending -= size {
			// The oldest outstanding request is the one that begun went past
			// outstanding requests ago.
			start := began[(begun-uint64(outstanding))%uint64(len(began))]
			outstanding--
			if now < g.openAt.Load() {
				continue // warm-up
			}
			if w.latency.RecordValue(now-start) != nil {
				// Beyond the histogram's range: it counts as the highest
				// value that it can hold rather than vanish.
				_ = w.latency.RecordValue(w.latency.HighestTrackableValue())
			}
			done++
			w.transactions.Store(done)
			if done == w.limit {
				return
			}
		}
	}
}

// respond is the loop of a responder: it reads a request, then sends a response.
// The end of the stream between two requests is the requester's way to end.
func respond(w *worker) {
	var (
		g        = w.group
		answered uint64
	)
	for {
		for need := g.cfg.RequestSize; need > 0; {
			if g.stopped.Load() {
				return
			}
			n, errno := sys.Recv(w.fd, w.receive[:min(len(w.receive), need)], 0)
			if errno != 0 {
				if !w.interrupted("recv", errno) {
					return
				}
				continue
			}
			if n == 0 {
				if need < g.cfg.RequestSize {
					w.closedEarly()
				}
				return
			}
			w.countReceive(n)
			need -= n
		}
		for rest := w.send; len(rest) > 0; {
			n, errno := sys.Send(w.fd, rest, unix.MSG_NOSIGNAL)
			if errno != 0 {
				if !w.interrupted("send", errno) {
					return
				}
				continue
			}
			w.countSend(n)
			if n < len(rest) {
				w.shortSends.Add(1)
			}
			rest = rest[n:]
		}
		answered++
		w.transactions.Store(answered)
	}
}

// countSend and countReceive publish one call. The thread is the only writer,
// so that reading what it wrote itself is no race and the store is plain.
func (w *worker) countSend(n int) {
	w.sent.Store(w.sent.Load() + uint64(n))
	w.sendCalls.Store(w.sendCalls.Load() + 1)
}

func (w *worker) countReceive(n int) {
	w.received.Store(w.received.Load() + uint64(n))
	w.receiveCalls.Store(w.receiveCalls.Load() + 1)
}
