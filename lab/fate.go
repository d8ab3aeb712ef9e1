package lab

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"
)

// A shape is what one direction does with packets. The zero value passes them
// on at once.
type shape struct {
	rate    float64 // bits per second of Ethernet frames; 0 is no limit
	queue   int64   // bytes that may wait for the rate; of no effect without one
	delay   time.Duration
	jitter  time.Duration // the delay is spread evenly over plus and minus this
	spike   spike
	loss    loss
	reorder float64 // share of packets that skip the delay
	seed    uint64
}

// A loss says which packets are lost: exactly every so many, or a share of all
// by chance, in runs of a length. The zero value loses none.
type loss struct {
	every int64
	share float64
	run   int64
}

// A spike holds packets once, beginning some time after the first.
type spike struct{ held, after time.Duration }

// fastRate is the rate in bits per second above which packets of one MTU would
// be too many for one thread.
const fastRate = 1e9

// plainPackets reports whether the link has to carry packets of one MTU. With
// TSO what it would lose or queue are packets of up to 64 KiB, each of them
// dozens on a real wire.
func (s shape) plainPackets() bool {
	return s.loss != loss{} || s.rate > 0 && (s.rate <= fastRate || s.queue != defaultQueue(s.rate))
}

func (l loss) String() string {
	switch {
	case l.every > 0:
		return "1/" + strconv.FormatInt(l.every, 10)
	case l.run > 1:
		return formatPercent(l.share) + "x" + strconv.FormatInt(l.run, 10)
	}
	return formatPercent(l.share)
}

// multicast reports whether an IP packet goes to a multicast address: not of a
// test, but of the kernel's own accord (MLD, IGMP, router solicitations).
func multicast(packet []byte) bool {
	switch {
	case len(packet) >= 40 && packet[0]>>4 == 6:
		return packet[24] == 0xff
	case len(packet) >= 20 && packet[0]>>4 == 4:
		return packet[16]>>4 == 0xe
	}
	return false
}

// A verdict is what becomes of a packet.
type verdict int

const (
	passing verdict = iota
	overtaking
	losing
	overflowing
)

// A decision is a packet's verdict and, if it passes, the time in ns at which
// it reaches the other end.
type decision struct {
	verdict verdict
	due     int64
}

// A fate decides over the packets of a direction, one after the other: by their
// times, their sizes and, from its seed on, random numbers. It is pure
// arithmetic.
type fate struct {
	shape     shape
	random    *rand.Rand
	count     int64 // packets so far
	inRun     int64 // packets of a run of losses that are still to go
	begin     float64
	first     int64 // time of the first packet
	free      int64 // when the wire will have sent all that waits
	last      int64 // when the last packet in order reaches the other end
	express   int64 // when the last that overtook does
	queueHigh int64
}

func newFate(s shape, stream uint64) fate {
	f := fate{shape: s, random: rand.New(rand.NewPCG(s.seed, stream))}
	if s.loss.share > 0 {
		// A run begins after a number of packets whose mean is (1-begin)/begin,
		// so that the share lost is run/(run + (1-begin)/begin).
		run := float64(s.loss.run)
		f.begin = s.loss.share / (s.loss.share + run*(1-s.loss.share))
	}
	return f
}

// of decides over the next packet, which came at now (ns) and is wire bytes
// long.
func (f *fate) of(now, wire int64) decision {
	f.count++
	if f.count == 1 {
		f.first = now
	}
	if f.lose() {
		return decision{verdict: losing}
	}
	leaves := now
	if s := f.shape; s.rate > 0 {
		waiting := int64(float64(max(0, f.free-now)) / 1e9 * s.rate / 8)
		if waiting+wire > s.queue && waiting > 0 { // an idle wire takes any packet
			return decision{verdict: overflowing}
		}
		f.queueHigh = max(f.queueHigh, waiting+wire)
		f.free = max(f.free, now) + int64(float64(wire)*8/s.rate*1e9)
		leaves = f.free
	}
	if f.shape.reorder > 0 && f.random.Float64() < f.shape.reorder {
		f.express = max(f.express, leaves)
		return decision{overtaking, f.express}
	}
	due := leaves + int64(f.shape.delay)
	if j := int64(f.shape.jitter); j > 0 {
		due += f.random.Int64N(2*j+1) - j
	}
	if s := f.shape.spike; s.held > 0 {
		if begin := f.first + int64(s.after); now >= begin && now < begin+int64(s.held) {
			due = max(due, begin+int64(s.held)+int64(f.shape.delay))
		}
	}
	return decision{passing, f.inOrder(due)}
}

// inOrder is when a packet in order reaches the other end, if by itself it
// would at due.
func (f *fate) inOrder(due int64) int64 {
	f.last = max(f.last, due)
	return f.last
}

// lose reports whether the next packet is lost.
func (f *fate) lose() bool {
	l := f.shape.loss
	switch {
	case l.every > 0:
		return f.count%l.every == 0
	case f.inRun > 0:
		f.inRun--
		return true
	case l.share > 0 && f.random.Float64() < f.begin:
		f.inRun = l.run - 1
		return true
	}
	return false
}

// wireBytes is the length in bytes that a packet with its virtio header has on
// Ethernet: that of all the frames into which TSO would split it.
func wireBytes(p []byte) int64 {
	const gsoType, gsoSize = 1, 4 // offsets in struct virtio_net_hdr
	packet := p[vnetHeader:]
	n := int64(len(packet)) + frameHeader
	segment := int64(binary.NativeEndian.Uint16(p[gsoSize:]))
	if p[gsoType] == 0 || segment == 0 || len(packet) < 40 {
		return n
	}
	headers := int64(40) // of IPv6
	if packet[0]>>4 == 4 {
		headers = int64(packet[0]&0x0f) * 4
	}
	if headers+13 > int64(len(packet)) {
		return n
	}
	headers += int64(packet[headers+12]>>4) * 4 // of TCP
	payload := int64(len(packet)) - headers
	return n + max(0, (payload-1)/segment)*(headers+frameHeader)
}
