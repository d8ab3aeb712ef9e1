package result

import (
	"gperf/plan"
	"gperf/sockopt"
)

// Sending is how payload left an end that sends: derived from TCP_INFO and the
// counted calls, over that end's window.
type Sending struct {
	RetransPercent      *float64 `json:"retransmitted_segments_percent" doc:"share of the segments with payload that were retransmits"`
	RetransBytesPercent *float64 `json:"retransmitted_bytes_percent" doc:"share of the payload bytes sent that were retransmits"`
	DSACKs              *uint64  `json:"dsack_segments" doc:"segments that the receiver said it got twice: as many as were retransmitted means that none was lost"`
	Reordering          *uint64  `json:"reordering_events" doc:"times that the sender saw segments acknowledged out of order"`
	PayloadPerSegment   *float64 `json:"payload_per_segment_bytes" doc:"payload bytes per segment sent, retransmits included"`
	MessagesPerSegment  *float64 `json:"messages_per_segment" doc:"messages handed to the kernel per segment first sent"`
	Limited             Limited  `json:"limited" doc:"what held the sender, mean over the streams"`
}

// Limited is what held a sender, in shares of its window. The kernel counts
// these times in steps of one of its ticks; rwnd and sndbuf are parts of busy.
type Limited struct {
	Busy    *float64 `json:"busy_percent" doc:"share of the window in which there was data to send or to be acknowledged (tcpi_busy_time)"`
	Rwnd    *float64 `json:"rwnd_percent" doc:"share in which the receiver's window held the sender (tcpi_rwnd_limited)"`
	Sndbuf  *float64 `json:"sndbuf_percent" doc:"share in which the send buffer did, as far as the kernel notices (tcpi_sndbuf_limited): small blocking writes that wait for room don't count"`
	Blocked *float64 `json:"blocked_percent" doc:"share in which the worker neither ran nor waited for a CPU: it was blocked in send; null for other roles, paced senders and shared threads"`
}

// sendings adds up what several streams sent. Each figure becomes unknown as
// soon as one stream's is.
type sendings struct {
	streams                                                  int
	window                                                   float64 // seconds, all streams
	sent, retransBytes, segments, retrans, dsacks, reordered *uint64
	busy, rwnd, sndbuf                                       *uint64 // us
	blocked                                                  *float64
	messages                                                 uint64
}

// sending derives the figures of the half's streams; only those of stream i if
// i isn't negative.
func (h *Half) sending(i int) Sending {
	all := sendings{}
	for k := range h.Streams {
		if i < 0 || i == k {
			all.add(h, k)
		}
	}
	return all.figures()
}

func (a *sendings) add(h *Half, k int) {
	s := &h.Streams[k]
	opening, closing := h.edges()
	first := a.streams == 0
	grown := func(f sockopt.TCPField) *uint64 {
		if n, ok := sockopt.Delta(s.InfoStart, s.InfoEnd, f); ok {
			return &n
		}
		return nil
	}
	a.streams++
	a.window += h.seconds()
	a.messages += closing.SendCalls[k] - opening.SendCalls[k] - (closing.ShortSends[k] - opening.ShortSends[k])
	plus(first, &a.sent, grown(sockopt.BytesSent))
	plus(first, &a.retransBytes, grown(sockopt.BytesRetrans))
	plus(first, &a.segments, grown(sockopt.DataSegsOut))
	plus(first, &a.retrans, grown(sockopt.TotalRetrans))
	plus(first, &a.dsacks, grown(sockopt.DsackDups))
	plus(first, &a.reordered, grown(sockopt.ReordSeen))
	plus(first, &a.busy, grown(sockopt.BusyTime))
	plus(first, &a.rwnd, grown(sockopt.RwndLimited))
	plus(first, &a.sndbuf, grown(sockopt.SndbufLimited))
	plus(first, &a.blocked, h.blockedSeconds(s.ID))
}

// blockedSeconds is how long the thread of a bulk sender was blocked: neither
// running nor waiting for a CPU.
func (h *Half) blockedSeconds(id int) *float64 {
	if h.Role != plan.Sender || h.Paced {
		return nil
	}
	t := h.thread(id)
	if t == nil || t.Streams != 1 || t.CPUSeconds == nil || t.RunQueueWaitSeconds == nil {
		return nil
	}
	blocked := max(h.seconds()-*t.CPUSeconds-*t.RunQueueWaitSeconds, 0)
	return &blocked
}

func (a *sendings) figures() Sending {
	firsts := func() *uint64 {
		if a.segments == nil || a.retrans == nil || *a.segments <= *a.retrans {
			return nil
		}
		n := *a.segments - *a.retrans
		return &n
	}()
	return Sending{
		RetransPercent: percent(a.retrans, a.segments), RetransBytesPercent: percent(a.retransBytes, a.sent),
		DSACKs: a.dsacks, Reordering: a.reordered,
		PayloadPerSegment: quotient(a.sent, a.segments), MessagesPerSegment: quotient(&a.messages, firsts),
		Limited: Limited{
			Busy: a.share(a.busy), Rwnd: a.share(a.rwnd), Sndbuf: a.share(a.sndbuf), Blocked: shareOf(a.blocked, a.window),
		},
	}
}

// share is a time in us as a percentage of the streams' windows.
func (a *sendings) share(us *uint64) *float64 {
	if us == nil {
		return nil
	}
	seconds := float64(*us) / 1e6
	return shareOf(&seconds, a.window)
}

// shareOf is seconds as a percentage of the window. The kernel's times come in
// ticks, so that they may exceed a window by one.
func shareOf(seconds *float64, window float64) *float64 {
	if seconds == nil || window <= 0 {
		return nil
	}
	v := min(100**seconds/window, 100)
	return &v
}

// quotient is a/b, nil when either is unknown or b is 0.
func quotient(a, b *uint64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	v := float64(*a) / float64(*b)
	return &v
}

func percent(part, whole *uint64) *float64 {
	q := quotient(part, whole)
	if q == nil {
		return nil
	}
	v := 100 * *q
	return &v
}

// Options are what the two ends negotiated in the handshake, as one end sees it.
type Options struct {
	Timestamps    bool `json:"timestamps" doc:"TCP timestamps (RFC 7323)"`
	SACK          bool `json:"sack" doc:"selective acknowledgement (RFC 2018)"`
	WindowScaling bool `json:"window_scaling" doc:"window scaling (RFC 7323)"`
	ECN           bool `json:"ecn" doc:"explicit congestion notification (RFC 3168)"`
}

// The bits of tcpi_options, linux/tcp.h.
const (
	optTimestamps = 1
	optSACK       = 2
	optWscale     = 4
	optECN        = 8
)

// negotiated reads the options of a connection, nil when they aren't known.
func negotiated(info sockopt.TCPInfo) *Options {
	bits, ok := info.Get(sockopt.TCPOptions)
	if !ok {
		return nil
	}
	return &Options{
		Timestamps: bits&optTimestamps != 0, SACK: bits&optSACK != 0, WindowScaling: bits&optWscale != 0, ECN: bits&optECN != 0,
	}
}
