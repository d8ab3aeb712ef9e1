package flow

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// The loops of UDP. Datagrams are sent and received whole, one per call.
//
// A datagram of a bulk stream begins with its number, from 0, and the sender's
// monotonic time in ns, each eight bytes, big-endian. One of a request/response
// stream begins with the low bytes of the transaction's number, little-endian, as
// many as the shorter of request and response has, at most eight: so that a
// response which comes after its time isn't taken for a later one's.

// sendDatagrams is the loop of a bulk sender.
func sendDatagrams(s *stream) {
	for !s.stopped() {
		if s.paced() && !s.awaitDue() {
			continue
		}
		if s.sendDatagram() == ended {
			return
		}
	}
}

// sendDatagram sends the next datagram of a bulk stream. One that the kernel had
// no room for is counted, and its number used again.
func (s *stream) sendDatagram() outcome {
	p := s.worker.send
	if !s.group.cfg.Plain {
		binary.BigEndian.PutUint64(p, s.number)
		binary.BigEndian.PutUint64(p[8:], uint64(sys.Monotonic()))
	}
	if s.paced() {
		s.spend(len(p))
	}
	s.callBegins()
	n, errno := sys.Send(s.fd, p, unix.MSG_NOSIGNAL)
	switch errno {
	case 0:
	case unix.ENOBUFS, unix.ENOMEM:
		s.errors.Add(1)
		return progress
	default:
		return s.interrupted("send", errno)
	}
	s.callEnds()
	s.countSend(n)
	s.number++
	if s.limit > 0 && s.sent.Load() >= s.limit {
		return ended
	}
	return progress
}

// receiveDatagrams is the loop of a bulk receiver.
func receiveDatagrams(s *stream) {
	for !s.stopped() {
		if s.receiveDatagram() == ended {
			return
		}
	}
}

func (s *stream) receiveDatagram() outcome {
	s.callBegins()
	n, errno := sys.Recv(s.fd, s.worker.receive, 0)
	switch {
	case errno != 0:
		return s.interrupted("recv", errno)
	case n == 0 && (s.group.cfg.UntilEOF || s.stopped()):
		return ended
	}
	s.callEnds()
	if s.seen != nil {
		if n < datagramHead {
			return progress // nobody's
		}
		p := s.worker.receive
		if !s.note(binary.BigEndian.Uint64(p), int64(binary.BigEndian.Uint64(p[8:])), sys.Monotonic()) {
			return progress
		}
	}
	s.countReceive(n)
	if s.limit > 0 && s.received.Load() >= s.limit {
		return ended
	}
	return progress
}

// datagramHead is the size in bytes of the number and the time.
const datagramHead = 16

// seen is what a receiver remembers of the datagrams that have come.
type seen struct {
	above   uint64                // the highest number, and one
	bits    [seenSpan / 64]uint64 // of the numbers up to the highest
	transit int64                 // of the latest datagram, ns, by two clocks; their offset cancels out
	smooth  float64               // jitter, ns
}

const (
	// seenSpan is how far back datagrams are remembered: further back nobody could
	// tell a late one from a duplicate, and it counts as late.
	seenSpan = 1 << 16
	// seenLeap is how far ahead of the highest a number may be: further, it's no
	// number of ours.
	seenLeap = 1 << 32
)

// note counts a datagram of that number, which was sent and came at those times
// (ns, by two clocks), and reports whether it is one of this stream's.
func (s *stream) note(number uint64, sent, came int64) bool {
	next, missing := s.above, s.missing.Load()
	bit, word := uint64(1)<<(number%64), &s.bits[number%seenSpan/64]
	switch {
	case number >= next+seenLeap:
		return false
	case number >= next:
		if number-next >= seenSpan {
			clear(s.bits[:])
		} else {
			for n := next; n < number; n++ {
				s.bits[n%seenSpan/64] &^= 1 << (n % 64)
			}
		}
		s.missing.Store(missing + number - next)
		s.above = number + 1
		*word |= bit
	case next-number > seenSpan:
		s.outOfOrder.Add(1)
		s.missing.Store(max(missing, 1) - 1)
	case *word&bit != 0:
		s.duplicates.Add(1)
	default:
		s.outOfOrder.Add(1)
		s.missing.Store(max(missing, 1) - 1)
		*word |= bit
	}
	transit := came - sent
	if s.transit != 0 {
		// RFC 3550 section 6.4.1 and appendix A.8.
		s.smooth += (float64(max(transit-s.transit, s.transit-transit)) - s.smooth) / 16
		s.jitter.Store(uint64(s.smooth))
	}
	s.transit = transit
	return true
}

// requestDatagrams is the loop of a requester. It keeps up to burst requests
// outstanding. One whose response hasn't come after the time-out is given up; a
// response that comes later is nobody's.
func requestDatagrams(s *stream) {
	s.now = sys.Monotonic()
	if s.group.cfg.Plain {
		for !s.stopped() {
			if s.requestPlainDatagram() == ended {
				return
			}
		}
		return
	}
	for !s.stopped() {
		if s.requestDatagram() == ended {
			return
		}
	}
}

// datagramRing is how many transactions' numbers can be told apart, so many that
// one lost response doesn't hold up the others: a power of two.
func datagramRing(c *Config) int {
	if c.Plain {
		return c.Burst
	}
	if min(c.RequestSize, c.ResponseSize) > 1 {
		return 1 << 14
	}
	return 1 << 7
}

// requestDatagram sends what may go and makes one receive. s.began holds when the
// requests from s.begun-len(s.began) on were sent; 0: answered or given up.
func (s *stream) requestDatagram() outcome {
	cfg := &s.group.cfg
	ring := uint64(len(s.began))
	for s.outstanding < cfg.Burst && s.began[s.begun%ring] == 0 && (s.limit == 0 || s.done+uint64(s.outstanding) < s.limit) {
		if s.paced() {
			if !s.due() && s.outstanding > 0 {
				break // the response may come before
			}
			if !s.punctual() {
				return blocked
			}
		}
		var number [8]byte
		binary.LittleEndian.PutUint64(number[:], s.begun)
		p := s.worker.send
		copy(p, number[:])
		if o := s.sendRequest(p); o != progress {
			return o
		}
		s.began[s.begun%ring] = s.now
		s.begun++
		s.outstanding++
		s.most = max(s.most, s.outstanding)
	}
	n, errno := sys.Recv(s.fd, s.worker.receive, 0)
	s.now = sys.Monotonic()
	if s.now >= s.group.closeAt.Load() {
		return ended
	}
	if errno != 0 {
		o := s.interrupted("recv", errno)
		s.giveUp()
		return o
	}
	if n == 0 && s.stopped() {
		return ended
	}
	s.giveUp()
	if n != cfg.ResponseSize {
		return progress // nobody's
	}
	s.countReceive(n)
	// The number in full: the highest below s.begun that ends like this.
	bits := 8 * min(8, cfg.RequestSize, cfg.ResponseSize)
	var head [8]byte
	copy(head[:bits/8], s.worker.receive)
	behind := s.begun - binary.LittleEndian.Uint64(head[:])
	if bits < 64 {
		behind &= 1<<bits - 1
	}
	if behind == 0 {
		behind = 1 << min(bits, 63)
	}
	if behind > ring || behind > s.begun {
		return progress
	}
	slot := &s.began[(s.begun-behind)%ring]
	if *slot == 0 {
		return progress // late, or a duplicate
	}
	began := *slot
	*slot = 0
	s.outstanding--
	return s.answered(began)
}

// sendRequest sends one request. One that the kernel had no room for is tried
// again at the next turn.
func (s *stream) sendRequest(p []byte) outcome {
	if s.paced() {
		s.spend(len(p))
	}
	n, errno := sys.Send(s.fd, p, unix.MSG_NOSIGNAL)
	switch errno {
	case 0:
		s.countSend(n)
		return progress
	case unix.ENOBUFS, unix.ENOMEM:
		s.interruptions.Add(1)
		sys.Nanosleep(int64(maxBurst))
		return blocked
	}
	return s.interrupted("send", errno)
}

// giveUp counts the requests as lost that have waited too long.
func (s *stream) giveUp() {
	limit := int64(s.group.cfg.ResponseTimeout)
	if limit == 0 || s.outstanding == 0 {
		return
	}
	ring := uint64(len(s.began))
	for ; s.oldest < s.begun; s.oldest++ {
		slot := &s.began[s.oldest%ring]
		if *slot == 0 {
			continue
		}
		if s.now-*slot < limit {
			return // nor have those after it waited too long
		}
		*slot = 0
		s.outstanding--
		if s.now >= s.group.openAt.Load() {
			s.lost.Add(1)
		}
	}
}

// requestPlainDatagram is requestDatagram for a responder that returns no
// numbers: responses belong to requests in the order of sending, and after a
// time-out all that was outstanding is given up.
func (s *stream) requestPlainDatagram() outcome {
	ring := uint64(len(s.began))
	for s.outstanding < len(s.began) && (s.limit == 0 || s.begun < s.limit) {
		if s.paced() {
			if !s.due() && s.outstanding > 0 {
				break
			}
			if !s.punctual() {
				return blocked
			}
		}
		s.began[s.begun%ring] = s.now
		if o := s.sendRequest(s.worker.send); o != progress {
			return o
		}
		s.begun++
		s.outstanding++
		s.most = max(s.most, s.outstanding)
	}
	n, errno := sys.Recv(s.fd, s.worker.receive, 0)
	s.now = sys.Monotonic()
	switch {
	case s.now >= s.group.closeAt.Load():
		return ended
	case errno != 0:
		o := s.interrupted("recv", errno)
		limit := int64(s.group.cfg.ResponseTimeout)
		if o == blocked && limit > 0 && s.now-s.began[(s.begun-uint64(s.outstanding))%ring] >= limit {
			if s.now >= s.group.openAt.Load() {
				s.lost.Add(uint64(s.outstanding))
			}
			s.begun -= uint64(s.outstanding)
			s.outstanding = 0
		}
		return o
	case n == 0:
		return s.closedEarly()
	}
	s.countReceive(n)
	return s.complete()
}

// respondDatagrams is the loop of a responder: it sends a response for each
// request, which takes the request's number along. An empty request is the end.
func respondDatagrams(s *stream) {
	for !s.stopped() {
		if s.respondDatagram() == ended {
			return
		}
	}
}

func (s *stream) respondDatagram() outcome {
	p, into := s.worker.send, s.worker.receive
	n, errno := sys.Recv(s.fd, into, 0)
	switch {
	case errno != 0:
		return s.interrupted("recv", errno)
	case n == 0 && (s.stopped() || s.group.cfg.UntilEOF):
		return ended
	case n != s.group.cfg.RequestSize && !s.group.cfg.Plain:
		return progress // nobody's
	}
	s.countReceive(n)
	copy(p[:min(len(p), 8)], into[:min(n, 8)])
	n, errno = sys.Send(s.fd, p, unix.MSG_NOSIGNAL)
	switch errno {
	case 0:
	case unix.ENOBUFS, unix.ENOMEM:
		s.errors.Add(1)
		return progress
	default:
		return s.interrupted("send", errno)
	}
	s.countSend(n)
	s.transactions.Store(s.transactions.Load() + 1)
	if s.limit > 0 && s.transactions.Load() == s.limit {
		return ended
	}
	return progress
}
