package result

import (
	"strings"
	"testing"
	"time"

	"gperf/plan"
	"gperf/sockopt"
)

// bulk is a test of one stream that nothing in particular bounds, over one
// second: 1 Gbit/s with data in flight all the time, at a fifth of a CPU.
func bulk(types ...plan.Type) *Run {
	test := &plan.Test{Type: plan.TCPStream, Duration: plan.Seconds(time.Second)}
	for _, t := range types {
		test.Type = t
	}
	test.Client.Knobs, test.Server.Knobs = sockopt.Settings{}, sockopt.Settings{}
	test.Normalise()
	d := test.Directions()[0]
	f := &Figures{
		Throughput: new(1e9), Duration: new(1.0), RTT: &RTT{Min: 90, Mean: 100, Max: 100},
		RetransSegs: new(uint64(0)), RTOEvents: new(uint64(0)), SegmentsOut: new(uint64(100_000)),
		Sending: Sending{
			RetransPercent: new(0.0), DSACKs: new(uint64(0)), PayloadPerSegment: new(1448.0), MessagesPerSegment: new(0.01),
			Limited: Limited{Busy: new(100.0), Rwnd: new(0.0), Sndbuf: new(0.0), Blocked: new(80.0)},
		},
	}
	end := func(e sockopt.End) *StreamEnd {
		return &StreamEnd{
			Role: d.Role(e), Duration: 1,
			Thread: &Thread{Streams: 1, ThreadUse: ThreadUse{CPUSeconds: new(0.2), RunQueueWaitSeconds: new(0.0)}},
			// A congestion window that the rate doesn't fill.
			TCPInfo: InfoPair{End: TCPInfo{
				sockopt.SndCwnd.Name(): new(uint64(100)), sockopt.SndMSS.Name(): new(uint64(1448)),
				sockopt.RTT.Name(): new(uint64(100)), sockopt.RcvWnd.Name(): new(uint64(1 << 20)),
			}},
		}
	}
	r := &Run{
		Plan: test,
		Summary: &Summary{CPU: CPU{
			Scope:  "separate",
			Client: &EndCPU{CPUs: 2, PerCPU: []CPUShare{{CPU: 0, Total: new(20.0)}, {CPU: 1, Total: new(0.0)}}},
			Server: &EndCPU{CPUs: 2, PerCPU: []CPUShare{{CPU: 0, Total: new(20.0)}, {CPU: 1, Total: new(0.0)}}},
		}},
		Streams: []Stream{{ID: 1, Direction: d, Client: end(sockopt.Client), Server: end(sockopt.Server)}},
	}
	switch d {
	case plan.ClientToServer:
		r.Summary.Directions.ClientToServer = f
	case plan.ServerToClient:
		r.Summary.Directions.ServerToClient = f
	case plan.Both:
		f.Throughput, f.Limited.Blocked = nil, nil
		r.Summary.Figures = *f
	}
	return r
}

// The pieces of a bulk test that cases change.
func (r *Run) way() *Figures {
	if f := r.Summary.Directions.ClientToServer; f != nil {
		return f
	}
	if f := r.Summary.Directions.ServerToClient; f != nil {
		return f
	}
	return &r.Summary.Figures
}

func (r *Run) ran(end sockopt.End, ran, waited float64) {
	t := r.Streams[0].of(end).Thread
	t.CPUSeconds, t.RunQueueWaitSeconds = new(ran), new(waited)
}

func (r *Run) info(end sockopt.End, f sockopt.TCPField, v uint64) {
	r.Streams[0].of(end).TCPInfo.End[f.Name()] = new(v)
}

func (r *Run) asked(end sockopt.End, knob string, bytes int64) {
	r.Audit = append(r.Audit, sockopt.Row{
		End: end.String(), Knob: knob, Requested: sockopt.Int(bytes), Effective: sockopt.Int(2 * bytes), AtEnd: sockopt.Int(2 * bytes), Verdict: sockopt.Doubled,
	})
}

const client, server = sockopt.Client, sockopt.Server

// Each rule, with what makes it speak, what makes it the strongest, and what
// makes it be silent.
var diagnoses = []struct {
	name string
	typ  plan.Type // TCP_STREAM if empty
	make func(r *Run)
	want []string // how the sentences begin, all of them, in order
}{
	{"nothing", "", func(*Run) {}, nil},

	{
		"receiver window", "", func(r *Run) {
			r.way().Limited.Rwnd = new(93.0)
			r.asked(server, "rcvbuf", 8192)
			r.info(server, sockopt.RcvWnd, 11584)
		},
		[]string{"receiver window: it held the sender 93 % of the time (the server offered 11.3 KiB at the end; rcvbuf 8192 asked, 16.0 KiB in force)"},
	},
	{
		"receiver window of the client", plan.TCPMaerts, func(r *Run) { r.way().Limited.Rwnd = new(20.0) },
		[]string{"receiver window: it held the sender 20 % of the time (the client offered 1.00 MiB at the end; rcvbuf not known)"},
	},
	{"receiver window that hardly held", "", func(r *Run) { r.way().Limited.Rwnd = new(19.0) }, nil},
	{
		"receiver out of CPU", "", func(r *Run) {
			r.way().Limited.Rwnd = new(95.0)
			r.ran(server, 0.9, 0)
		},
		[]string{"CPU: the server's receiving thread (stream 1) used 90 % of a CPU", "receiver window: "},
	},
	{
		"receiver that waits for a CPU", "", func(r *Run) {
			r.way().Limited.Rwnd = new(95.0)
			r.ran(server, 0.2, 0.75)
		},
		[]string{"waiting for a CPU: the server's thread of stream 1 was ready to run and waited 75 % of the time", "receiver window: "},
	},
	{
		"receiver that waits, and a window that is full", "", func(r *Run) {
			r.way().Limited.Rwnd = new(95.0)
			r.info(server, sockopt.RcvWnd, 12_000) // 1 Gbit/s are 12,500 B in an RTT
			r.ran(server, 0.2, 0.75)
		},
		[]string{"receiver window: ", "waiting for a CPU: "},
	},

	{
		"send buffer between the kernel's busy times", "", func(r *Run) {
			r.way().Limited = Limited{Busy: new(40.0), Rwnd: new(0.0), Sndbuf: new(0.0), Blocked: new(75.0)}
		},
		[]string{"send buffer: the sender was blocked in send 75 % of the time, while data was in flight 40 % of it (sndbuf not known)"},
	},
	{
		"send buffer inside them", "", func(r *Run) {
			r.asked(client, "sndbuf", 16384)
			r.way().Limited.Blocked = new(97.0)
		},
		[]string{"send buffer: the sender was blocked in send 97 % of the time, with room in the congestion window of 141 KiB (sndbuf 16384 asked, 32.0 KiB in force)"},
	},
	{
		"send buffer by the kernel's count", "", func(r *Run) { r.way().Limited.Sndbuf = new(60.0) },
		[]string{"send buffer: it held the sender 60 % of the time (sndbuf not known)"},
	},
	{
		"send buffer not asked for, in flight all the time", "", func(r *Run) { r.way().Limited.Blocked = new(99.0) }, nil,
	},
	{
		"send buffer that a queue of the path fills", "", func(r *Run) {
			r.asked(client, "sndbuf", 65536)
			r.way().Limited.Sndbuf, r.way().Limited.Blocked = new(90.0), new(98.0)
			r.way().RTT = &RTT{Min: 100, Mean: 9400, Max: 9400}
		},
		[]string{"path: data queued on it, with an RTT of 9.4ms, at the least 100µs; its slowest link let 1.00 Gbit/s through"},
	},

	{
		"loss", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent = new(uint64(1000)), new(1.0)
		},
		[]string{"loss: 1.00 % of the segments (1000) were retransmitted, no retransmission time-outs (RTO)"},
	},
	{
		"loss with time-outs, partly needless", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent, r.way().RTOEvents, r.way().DSACKs = new(uint64(500)), new(0.5), new(uint64(1)), new(uint64(20))
		},
		[]string{"loss: 0.50 % of the segments (500) were retransmitted, 1 retransmission time-out (RTO); 20 of them arrived twice"},
	},
	{
		"loss at the receiver's backlog", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent = new(uint64(1000)), new(1.0)
			r.Counters.Client = &Counters{Softnet: &Softnet{Dropped: new(uint64(9))}} // the sender's is another story
			r.Counters.Server = &Counters{Softnet: &Softnet{Dropped: new(uint64(700))}}
		},
		[]string{"loss: 1.00 % of the segments (1000) were retransmitted, no retransmission time-outs (RTO); the server's machine dropped 700 packets of all its traffic because the backlog of a CPU was full (net.core.netdev_max_backlog)"},
	},
	{
		"loss with an empty backlog", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent = new(uint64(1000)), new(1.0)
			r.Counters.Server = &Counters{Softnet: &Softnet{Dropped: new(uint64(0))}}
		},
		[]string{"loss: 1.00 % of the segments (1000) were retransmitted, no retransmission time-outs (RTO)"},
	},
	{
		"more loss than anything else", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent, r.way().RTOEvents = new(uint64(3000)), new(3.0), new(uint64(4))
			r.way().Limited.Rwnd, r.way().Limited.Blocked = new(60.0), new(99.0)
			r.ran(client, 0.95, 0)
		},
		[]string{"loss: 3.00 % of the segments (3000) were retransmitted, 4 retransmission time-outs (RTO)", "CPU: ", "receiver window: "},
	},
	{
		"little loss", "", func(r *Run) { r.way().RetransSegs, r.way().RetransPercent = new(uint64(40)), new(0.04) }, nil,
	},
	{
		"needless retransmits", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent, r.way().DSACKs = new(uint64(1500)), new(1.5), new(uint64(1460))
		},
		[]string{"needless retransmits: the receiver reported 1460 of 1500 as duplicates"},
	},
	{
		"loss without a count of time-outs", "", func(r *Run) {
			r.way().RetransSegs, r.way().RetransPercent, r.way().RTOEvents, r.way().DSACKs = new(uint64(500)), new(0.5), nil, nil
		},
		[]string{"loss: 0.50 % of the segments (500) were retransmitted, time-outs not known"},
	},

	{
		"congestion window", "", func(r *Run) {
			r.info(client, sockopt.SndCwnd, 10) // 14,480 B in 100 us are 1.16 Gbit/s
		},
		[]string{"congestion window: 14.1 KiB per RTT of 100µs carry 1.16 Gbit/s per stream"},
	},
	{
		"congestion window that fills a queue", "", func(r *Run) {
			r.info(client, sockopt.SndCwnd, 1000)
			r.info(client, sockopt.RTT, 9000)
			r.way().RTT = &RTT{Min: 100, Mean: 9000, Max: 9000}
		},
		[]string{"path: data queued on it, with an RTT of 9ms, at the least 100µs; its slowest link let 1.00 Gbit/s through"},
	},
	{
		"long round trips of a busy machine", "", func(r *Run) {
			r.way().RTT = &RTT{Min: 100, Mean: 9000, Max: 9000}
			r.ran(client, 0.2, 0.4)
		},
		[]string{"waiting for a CPU: the client's thread of stream 1 was ready to run and waited 40 % of the time"},
	},
	{
		"congestion window behind a saturated thread", "", func(r *Run) {
			r.info(client, sockopt.SndCwnd, 10)
			r.ran(client, 0.9, 0)
		},
		[]string{"CPU: the client's sending thread (stream 1) used 90 % of a CPU"},
	},

	{
		"a full CPU of one thread", "", func(r *Run) {
			r.ran(client, 0.97, 0.02)
			r.Streams[0].Client.Thread.CPUs = []int{0}
			r.Summary.CPU.Client.PerCPU[0].Total = new(100.0)
		},
		[]string{"CPU: the client's sending thread (stream 1) used 97 % of a CPU", "CPU: client's CPU 0 busy at least 95 % (2 CPUs)"},
	},
	{
		"a full CPU of both ends", plan.TCPMaerts, func(r *Run) {
			r.Summary.CPU.Scope = "shared"
			for _, e := range []sockopt.End{client, server} {
				r.ran(e, 0.48, 0.5)
				r.Streams[0].of(e).Thread.CPUs = []int{0}
			}
			r.Summary.CPU.Client.PerCPU[0].Total = new(99.0)
		},
		[]string{"CPU: machine's CPU 0 busy at least 95 % (2 CPUs)", "waiting for a CPU: the server's", "waiting for a CPU: the client's"},
	},
	{
		"a CPU full of others", "", func(r *Run) {
			r.ran(client, 0.4, 0.55)
			r.Streams[0].Client.Thread.CPUs = []int{1}
			r.Summary.CPU.Client.PerCPU[1].Total = new(100.0)
		},
		[]string{"waiting for a CPU: the client's thread of stream 1 was ready to run and waited 55 % of the time"},
	},
	{
		"a CPU full of softirqs", "", func(r *Run) {
			r.ran(server, 0.35, 0.6)
			r.Summary.CPU.Server.PerCPU[1] = CPUShare{CPU: 1, Total: new(100.0), Softirq: new(62.0), IRQ: new(1.0)}
		},
		[]string{"CPU: server's CPU 1 busy at least 95 % (2 CPUs)", "waiting for a CPU: the server's"},
	},
	{
		"a full CPU elsewhere", "", func(r *Run) { r.Summary.CPU.Client.PerCPU[1].Total = new(100.0) }, nil,
	},
	{
		"threads that moved about full CPUs", "", func(r *Run) {
			r.Summary.CPU.Scope = "shared"
			r.ran(client, 0.83, 0.1)
			r.ran(server, 0.8, 0.1)
			for i := range r.Summary.CPU.Client.PerCPU {
				r.Summary.CPU.Client.PerCPU[i].Total = new(97.0)
			}
		},
		[]string{"CPU: machine's CPU 0, 1 busy at least 95 % (2 CPUs)", "waiting for a CPU: the client's", "waiting for a CPU: the server's"},
	},

	{
		"waiting sender", "", func(r *Run) { r.ran(client, 0.3, 0.4) },
		[]string{"waiting for a CPU: the client's thread of stream 1 was ready to run and waited 40 % of the time"},
	},
	{"hardly waiting", "", func(r *Run) { r.ran(client, 0.3, 0.09) }, nil},
	{
		"a receiver's wait that costs nothing", "", func(r *Run) {
			r.ran(server, 0.3, 0.5)
			r.ran(client, 0.3, 0.2)
		},
		[]string{"waiting for a CPU: the client's thread of stream 1 was ready to run and waited 20 %", "waiting for a CPU: the server's"},
	},

	{
		"paced by itself", "", func(r *Run) {
			r.Plan.Client.Rate = 1_000_000_000
			r.ran(client, 0.95, 0)
		},
		[]string{"application limited: pacing by --rate held each stream to 1.00 Gbit/s (1.00 Gbit/s reached)", "CPU: "},
	},
	{
		"paced by the kernel", plan.TCPMaerts, func(r *Run) { r.Plan.Server.Knobs["pacing_rate"] = sockopt.Int(125_000_000) },
		[]string{"application limited: pacing by --pacing-rate held each stream to 1.00 Gbit/s (1.00 Gbit/s reached)"},
	},
	{"a rate out of reach", "", func(r *Run) { r.Plan.Client.Rate = 2_000_000_000 }, nil},
	{"the rate of the other end", "", func(r *Run) { r.Plan.Server.Rate = 1_000_000_000 }, nil},

	{
		"small segments", "", func(r *Run) {
			r.Plan.Client.SendSize = 256
			r.way().PayloadPerSegment, r.way().MessagesPerSegment = new(384.0), new(1.5)
		},
		[]string{"small segments: 256 B messages left in segments of 384 B, 1.5 messages each (MSS 1448 B)"},
	},
	{"segments of half an MSS", "", func(r *Run) { r.way().PayloadPerSegment = new(724.0) }, nil},

	{"a server that tells nothing", "", func(r *Run) { r.Streams[0].Server = nil }, nil},
	{
		"no TCP_INFO", "", func(r *Run) {
			r.way().Sending, r.way().RTT = Sending{}, nil
			r.Streams[0].Client.TCPInfo, r.Streams[0].Server.TCPInfo = InfoPair{}, InfoPair{}
		}, nil,
	},
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	for _, tt := range diagnoses {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			typ := tt.typ
			if typ == "" {
				typ = plan.TCPStream
			}
			r := bulk(typ)
			tt.make(r)
			got := r.diagnose()
			ok := len(got) == len(tt.want)
			for i := range min(len(got), len(tt.want)) {
				ok = ok && strings.HasPrefix(got[i], tt.want[i])
			}
			if !ok {
				t.Errorf("diagnosis:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
		})
	}
}

// What nothing else bounds in a request/response test is the time of its round
// trips; what does, comes first.
func TestDiagnoseTransactions(t *testing.T) {
	t.Parallel()
	r := bulk(plan.TCPRR)
	r.Summary.Latency = latencyOf(25)
	got := r.diagnose()
	if len(got) != 1 || !strings.HasPrefix(got[0], "round trips: 1 at a time per stream, a transaction took 25.0 us in the median, 25.0 us in the mean") {
		t.Errorf("diagnosis %q", got)
	}
	r.ran(server, 0.3, 0.6)
	if got = r.diagnose(); len(got) != 2 || !strings.HasPrefix(got[0], "waiting for a CPU: the server's") {
		t.Errorf("diagnosis %q", got)
	}
	// Both on one CPU, of which each leaves to the other what it doesn't use.
	r.ran(server, 0.49, 0.1)
	r.ran(client, 0.49, 0.1)
	r.Summary.CPU.Scope = "shared"
	r.Summary.CPU.Client.PerCPU[1].Total = new(100.0)
	for _, e := range []sockopt.End{client, server} {
		r.Streams[0].of(e).Thread.CPUs = []int{1}
	}
	if got = r.diagnose(); len(got) == 0 || !strings.HasPrefix(got[0], "CPU: machine's CPU 1 busy at least 95 %") {
		t.Errorf("diagnosis %q", got)
	}
	r = bulk(plan.TCPRR)
	r.Summary.Latency = latencyOf(25)
	r.ran(server, 0.9, 0)
	if got = r.diagnose(); len(got) != 2 || !strings.HasPrefix(got[0], "CPU: the server's responding thread (stream 1) used 90 %") {
		t.Errorf("diagnosis %q", got)
	}
}

// In both directions at once a sentence says which it's about, and what is the
// machine's is said once.
func TestDiagnoseDirections(t *testing.T) {
	t.Parallel()
	r := bulk()
	back := bulk(plan.TCPMaerts)
	r.Plan.Bidir = true
	r.Plan.Normalise()
	r.Summary.Directions.ServerToClient = back.Summary.Directions.ServerToClient
	back.Streams[0].ID = 2
	r.Streams = append(r.Streams, back.Streams[0])
	back.way().Limited.Rwnd = new(50.0)
	r.Summary.CPU.Scope = "shared"
	for i := range r.Summary.CPU.Client.PerCPU {
		r.Summary.CPU.Client.PerCPU[i].Total = new(100.0)
	}
	for i := range r.Streams {
		for _, e := range []sockopt.End{client, server} {
			use := &r.Streams[i].of(e).Thread.ThreadUse
			use.CPUSeconds, use.RunQueueWaitSeconds = new(0.49), new(0.5)
		}
	}
	count := map[string]int{}
	for _, s := range r.diagnose() {
		count[s]++
	}
	for _, want := range []string{
		"CPU: machine's CPU 0, 1 busy at least 95 % (2 CPUs)",
		"receiver window: it held the sender 50 % of the time (the client offered 1.00 MiB at the end; rcvbuf not known) (server to client)",
	} {
		if count[want] != 1 {
			t.Errorf("%d times %q in %v", count[want], want, count)
		}
	}
}
