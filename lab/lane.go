package lab

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// never is later than any time of CLOCK_MONOTONIC in ns.
const never = math.MaxInt64

// A lane is a queue of packets, each with the time at which it is due, between
// one thread that puts and one that takes. The packets lie one after the other
// in a ring of memory, each in one piece. The zero value is empty for ever.
type lane struct {
	buf     []byte
	entries []entry // a power of two
	head    atomic.Uint64
	tail    atomic.Uint64
	at      int // where the next packet goes; the putting thread's
}

// An entry is one packet in a lane.
type entry struct {
	offset, size int
	due          int64
}

// make gives a lane size bytes.
func (l *lane) make(size int) error {
	buf, err := unix.Mmap(-1, 0, max(size, 4*maxPacket), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("%d bytes for packets under way: mmap: %w", size, err)
	}
	l.buf = buf
	// Enough for packets of 512 bytes on average.
	l.entries = make([]entry, 1<<bits.Len(uint(len(buf)/512)))
	return nil
}

func (l *lane) free() {
	if l.buf != nil {
		_ = unix.Munmap(l.buf)
		l.buf = nil
	}
}

// space returns room for the largest packet, where the next goes, if there is
// any. The used part of the ring begins at the first packet and ends at l.at;
// they are never equal unless the lane is empty.
func (l *lane) space() (p []byte, ok bool) {
	head, tail := l.head.Load(), l.tail.Load()
	if l.buf == nil || head-tail == uint64(len(l.entries)) {
		return nil, false
	}
	if head == tail {
		l.at = 0 // the memory that is warm
		return l.buf[:maxPacket], true
	}
	used := l.entries[tail&uint64(len(l.entries)-1)].offset
	switch {
	case l.at < used:
		if used-l.at <= maxPacket {
			return nil, false
		}
	case len(l.buf)-l.at < maxPacket:
		if used <= maxPacket {
			return nil, false
		}
		l.at = 0
	}
	return l.buf[l.at : l.at+maxPacket], true
}

// put adds the packet of n bytes that lies in the space.
func (l *lane) put(n int, due int64) {
	head := l.head.Load()
	l.entries[head&uint64(len(l.entries)-1)] = entry{l.at, n, due}
	l.at += (n + 63) &^ 63 // the next begins on a cache line of its own
	l.head.Store(head + 1)
}

// due is when the first packet is.
func (l *lane) due() int64 {
	tail := l.tail.Load()
	if l.head.Load() == tail {
		return never
	}
	return l.entries[tail&uint64(len(l.entries)-1)].due
}

// first returns the first packet, of a lane that has one.
func (l *lane) first() []byte {
	e := l.entries[l.tail.Load()&uint64(len(l.entries)-1)]
	return l.buf[e.offset : e.offset+e.size]
}

// drop takes the first packet out.
func (l *lane) drop() { l.tail.Add(1) }
