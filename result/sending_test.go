package result

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gperf/plan"
	"gperf/sockopt"
	"gperf/stats"
)

func latencyOf(us float64) *stats.Latency {
	return &stats.Latency{Count: 1000, Min: us, Mean: us, P50: us, P90: us, P99: us, P999: us, Max: us}
}

// sent are the fields of TCP_INFO that say how a stream sent, from linux/tcp.h.
type sent struct {
	retrans, segments, dsacks, reordered      uint32
	busy, rwnd, sndbuf, bytes, retransmission uint64
}

func (s sent) info(options byte) sockopt.TCPInfo {
	b := make([]byte, 248)
	b[5] = options
	for at, v := range map[int]uint32{100: s.retrans, 156: s.segments, 216: s.dsacks, 220: s.reordered} {
		binary.NativeEndian.PutUint32(b[at:], v)
	}
	for at, v := range map[int]uint64{168: s.busy, 176: s.rwnd, 184: s.sndbuf, 200: s.bytes, 208: s.retransmission} {
		binary.NativeEndian.PutUint64(b[at:], v)
	}
	return b
}

// sender is a half of streams that sent for one second by threads that ran for a
// quarter of it and waited for a CPU for another.
func sender(all ...[2]sent) *Half {
	n := len(all)
	h := &Half{Role: plan.Sender, OpenedNs: 5e9, ClosedNs: 6e9, Streams: make([]HalfStream, n)}
	column := func(v uint64) []uint64 {
		c := make([]uint64, n)
		for i := range c {
			c[i] = v
		}
		return c
	}
	for i := range all {
		h.Streams[i] = HalfStream{ID: i + 1, InfoStart: all[i][0].info(7), InfoEnd: all[i][1].info(7)}
		cpu := int64(250e6)
		h.Threads = append(h.Threads, HalfThread{Streams: []int{i + 1}, CPUNs: &cpu, Use: &ThreadUse{RunQueueWaitSeconds: new(0.25)}})
	}
	for i, at := range []int64{5e9, 6e9} {
		h.Series = append(h.Series, Sample{
			AtNs: at, Sent: column(uint64(i) * 1e6), Received: column(0), SendCalls: column(7 + uint64(i)*1000), ReceiveCalls: column(0),
			ShortSends: column(uint64(i) * 100), Interruptions: column(0), Transactions: column(0),
		})
	}
	return h
}

// Everything is of the window alone, whatever was before it, and counters of 32
// bits that wrap inside it don't matter.
func TestSending(t *testing.T) {
	t.Parallel()
	before := sent{retrans: 1<<32 - 5, segments: 1<<32 - 100, dsacks: 3, reordered: 9, busy: 1e6, rwnd: 5e5, sndbuf: 1e5, bytes: 1e9, retransmission: 1e6}
	after := sent{retrans: 15, segments: 1900, dsacks: 7, reordered: 10, busy: 1.8e6, rwnd: 9e5, sndbuf: 2e5, bytes: 1e9 + 2e6, retransmission: 1e6 + 2e4}
	want := Sending{
		RetransPercent: new(1.0), RetransBytesPercent: new(1.0), DSACKs: new(uint64(4)), Reordering: new(uint64(1)),
		PayloadPerSegment: new(1000.0), MessagesPerSegment: new(900.0 / 1980),
		Limited: Limited{Busy: new(80.0), Rwnd: new(40.0), Sndbuf: new(10.0), Blocked: new(50.0)},
	}
	h := sender([2]sent{before, after})
	if d := cmp.Diff(want, h.sending(-1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// A second stream that was idle: counts stay, shares of time are means.
	h = sender([2]sent{before, after}, [2]sent{})
	all := h.sending(-1)
	want.MessagesPerSegment = new(1800.0 / 1980)
	want.Limited = Limited{Busy: new(40.0), Rwnd: new(20.0), Sndbuf: new(5.0), Blocked: new(50.0)}
	if d := cmp.Diff(want, all); d != "" {
		t.Errorf("two streams (-want +got):\n%s", d)
	}
	// Nothing over nothing isn't known.
	if idle := h.sending(1); idle.RetransPercent != nil || idle.PayloadPerSegment != nil || idle.MessagesPerSegment != nil || *idle.Limited.Busy != 0 || *idle.DSACKs != 0 {
		t.Errorf("of a stream that was idle: %+v", idle)
	}
}

// The kernel's ticks may make a time longer than the window.
func TestSendingShares(t *testing.T) {
	t.Parallel()
	h := sender([2]sent{{}, {busy: 1.004e6, rwnd: 1.004e6}})
	if l := h.sending(0).Limited; *l.Busy != 100 || *l.Rwnd != 100 {
		t.Errorf("shares %v and %v", *l.Busy, *l.Rwnd)
	}
	h.ClosedNs = h.OpenedNs
	if l := h.sending(0).Limited; l.Busy != nil || l.Blocked != nil {
		t.Errorf("of an empty window: %+v", l)
	}
}

// A field that the kernel of one stream lacks isn't known of all.
func TestSendingUnknown(t *testing.T) {
	t.Parallel()
	h := sender([2]sent{{}, {segments: 10, bytes: 1e4, busy: 1e5}}, [2]sent{{}, {segments: 10, bytes: 1e4, busy: 1e5}})
	h.Streams[1].InfoEnd = h.Streams[1].InfoEnd[:192] // Linux 4.10
	all := h.sending(-1)
	if all.PayloadPerSegment != nil || all.DSACKs != nil {
		t.Errorf("payload per segment %v, DSACKs %v", all.PayloadPerSegment, all.DSACKs)
	}
	if all.Limited.Busy == nil || *all.Limited.Busy != 10 {
		t.Errorf("busy %v", all.Limited.Busy)
	}
	h.Streams[0].InfoStart = nil
	if all = h.sending(0); all.Limited.Busy != nil || all.Limited.Blocked == nil {
		t.Errorf("without TCP_INFO: %+v", all.Limited)
	}
}

// Only a thread of its own that sends without pauses was blocked in send
// whenever it wasn't on a CPU.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Half){
		"receiver":      func(h *Half) { h.Role = plan.Receiver },
		"requester":     func(h *Half) { h.Role = plan.Requester },
		"paced":         func(h *Half) { h.Paced = true },
		"shared thread": func(h *Half) { h.Threads[0].Streams = []int{1, 2} },
		"no thread":     func(h *Half) { h.Threads = nil },
		"no CPU time":   func(h *Half) { h.Threads[0].CPUNs = nil },
		"no wait":       func(h *Half) { h.Threads[0].Use = nil },
	} {
		h := sender([2]sent{{}, {busy: 1e5}})
		change(h)
		if b := h.sending(0).Limited.Blocked; b != nil {
			t.Errorf("%s: blocked %v %% of the time", name, *b)
		}
	}
	h := sender([2]sent{{}, {}})
	h.Threads[0].Use.RunQueueWaitSeconds = new(0.9) // the readings are not of one moment
	if b := h.sending(0).Limited.Blocked; b == nil || *b != 0 {
		t.Errorf("blocked %v", b)
	}
}

func TestNegotiated(t *testing.T) {
	t.Parallel()
	for bits, want := range map[byte]Options{
		0:  {},
		1:  {Timestamps: true},
		2:  {SACK: true},
		4:  {WindowScaling: true},
		8:  {ECN: true},
		7:  {Timestamps: true, SACK: true, WindowScaling: true},
		63: {Timestamps: true, SACK: true, WindowScaling: true, ECN: true},
	} {
		if got := negotiated(sent{}.info(bits)); got == nil || *got != want {
			t.Errorf("%#x: %+v, not %+v", bits, got, want)
		}
	}
	if got := negotiated(nil); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}
