package encode

import (
	"testing"
	"time"

	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// The fixtures are runs with fixed figures, as Merge would build them.
var fixtures = map[string]func(testing.TB) *result.Run{
	"stream":  streamRun,
	"rr":      rrRun,
	"failed":  failedRun,
	"partial": partialRun,
	"movers":  moversRun,
	"udp":     udpRun,
	"crr":     crrRun,
}

const second = plan.Seconds(time.Second)

func newRun(test *plan.Test) *result.Run {
	if test != nil {
		test.Normalise()
	}
	return &result.Run{
		Schema:  result.Schema,
		Server:  new("192.0.2.2:12866"),
		ID:      "00112233445566778899aabbccddeeff",
		Started: time.Date(2026, 11, 20, 10, 15, 30, 250_000_000, time.FixedZone("CET", 3600)),
		Gperf:   result.Build{Version: "v0.1.0", Commit: "0123abc"},
		Status:  result.Complete,
		Plan:    test,
	}
}

// streamRun is two streams over two machines, with intervals, a receive buffer
// that was clamped, and one that the kernel tuned.
func streamRun(testing.TB) *result.Run {
	r := newRun(&plan.Test{
		Type: plan.TCPStream, Duration: 2 * second, Warmup: second / 2, Interval: second, Streams: 2, AllowClamp: true,
		Client: plan.End{Send: plan.Write, Receive: plan.Read, CPUs: []int{0, 2}, Knobs: sockopt.Settings{"congestion": sockopt.Str("cubic"), "pacing_rate": sockopt.Int(625_000_000)}},
		Server: plan.End{Send: plan.Write, Receive: plan.Read, Knobs: sockopt.Settings{"rcvbuf": sockopt.Int(8 << 20), "congestion": sockopt.Str("cubic")}},
	})
	r.Labels = map[string]string{"site": "lab 1", "NIC": "cx6"}
	r.Warnings = []result.Warning{{
		Code: "clamped", End: "server",
		Message: "rcvbuf: asked for 8388608, got 4194304 (limit net.core.rmem_max=4194304)",
	}}
	r.Hosts = result.Ends[*result.Host]{
		Client: &result.Host{
			BootID: new("5b1c6e0e-7b3f-4e8c-9d55-0f7f4a0f2b11"), Kernel: new("6.18.1"), CPUs: new(8),
			Device: &result.Device{Name: "eth0", Driver: new("mlx5_core"), MTU: new(1500), Offloads: result.Offloads{TSO: new(true)}},
		},
		Server: &result.Host{BootID: new("c0ffee00-1111-4222-8333-444455556666"), Kernel: new("6.12.58"), CPUs: new(4)},
	}
	r.Audit = []sockopt.Row{
		tuned("client", 1, "sndbuf", 2_626_560, 4_194_304),
		tuned("client", 2, "sndbuf", 2_626_560, 3_925_577),
		{End: "client", Knob: "rcvbuf", Effective: sockopt.Int(131072), AtStart: sockopt.Int(131072), AtEnd: sockopt.Int(131072), Verdict: sockopt.Auto},
		{End: "client", Knob: "nodelay", Effective: sockopt.Int(0), AtStart: sockopt.Int(0), AtEnd: sockopt.Int(0), Verdict: sockopt.Auto},
		asked("client", "congestion", sockopt.Str("cubic"), sockopt.Str("cubic"), sockopt.Exact, ""),
		asked("client", "pacing_rate", sockopt.Int(625_000_000), sockopt.Int(625_000_000), sockopt.Exact, ""),
		{End: "server", Knob: "sndbuf", Effective: sockopt.Int(16384), AtStart: sockopt.Int(16384), AtEnd: sockopt.Int(16384), Verdict: sockopt.Auto},
		asked("server", "rcvbuf", sockopt.Int(8<<20), sockopt.Int(8<<20), sockopt.Clamped, "net.core.rmem_max=4194304"),
		{End: "server", Knob: "nodelay", Effective: sockopt.Int(0), AtStart: sockopt.Int(0), AtEnd: sockopt.Int(0), Verdict: sockopt.Auto},
		asked("server", "congestion", sockopt.Str("cubic"), sockopt.Str("cubic"), sockopt.Exact, ""),
	}
	r.Streams = []result.Stream{bulkStream(1, 1_300_000_000, 12), bulkStream(2, 1_052_500_000, 0)}
	total := result.Figures{
		Throughput: new(9.41e9), Duration: new(2.0), SentBytes: new(uint64(2_356_694_304)),
		AckedBytes: new(uint64(2_352_500_000)), ReceivedBytes: new(uint64(2_352_500_000)),
		RetransSegs: new(uint64(12)), RetransBytes: new(uint64(17_376)), SegmentsOut: new(uint64(1_624_668)), RTOEvents: new(uint64(0)),
		RTT:       &result.RTT{Min: 98, Mean: 150.5, Max: 156},
		SendCalls: new(uint64(17_980)), ReceiveCalls: new(uint64(40_012)),
		StartSkew: new(0.000_21), StopSkew: new(-0.000_05),
	}
	r.Summary = &result.Summary{
		Figures:    total,
		Directions: result.Directions{ClientToServer: &total},
		CPU: result.CPU{
			Scope: "separate",
			Client: &result.EndCPU{
				User: new(0.4), System: new(8.1), Softirq: new(2.3), IRQ: new(0.0), Steal: new(0.0), Total: new(10.8),
				CoresUsed: new(0.864), Resolution: new(0.0625), CPUs: 8, ThreadSeconds: new(1.31), DemandKiB: new(0.752),
			},
			Server: &result.EndCPU{CPUs: 4, ThreadSeconds: new(1.875)},
		},
		Clock: &result.Clock{Offset: -1234.5, Uncertainty: 0.000_031},
	}
	r.Intervals = []result.Interval{bulkInterval(0, 1.0004, 0), bulkInterval(1.0004, 2.0, 12)}
	return r
}

// moversRun is a run of other movers than send and recv, with a stall.
func moversRun(t testing.TB) *result.Run {
	r := streamRun(t)
	r.Plan.Client.Send, r.Plan.Client.PipeSize, r.Plan.Client.Chunk = plan.Zerocopy, 0, 65536
	r.Plan.Server.Receive, r.Plan.Server.PipeSize, r.Plan.Server.SpliceFlags = plan.Splice, 100_000, "more"
	r.Audit = append(r.Audit, asked("server", "pipe_size", sockopt.Int(100_000), sockopt.Int(131_072), sockopt.Adjusted, "rounded up to a power of two pages: asked 100000, got 131072"))
	for i := range r.Streams {
		r.Streams[i].Client.Mover = &result.Mover{
			Name: plan.Zerocopy, Calls: new(uint64(8_990)), Bytes: new(r.Streams[i].Client.SentBytes),
			MeanBytes: new(65_000.5), P50Bytes: new(65_536), MaxBytes: new(65_536), ShortMoves: new(uint64(1)),
			Fallbacks: new(uint64(2)), CopiedBytes: new(uint64(131_072)), Completions: new(uint64(8_988)), CopiedCompletions: new(uint64(8_988)),
		}
		r.Streams[i].Server.Mover = &result.Mover{
			Name: plan.Splice, PipeSize: new(131_072), Calls: new(uint64(20_006)), Bytes: new(r.Streams[i].Server.ReceivedBytes),
			MeanBytes: new(61_234.0), P50Bytes: new(61_440), MaxBytes: new(131_072), ShortMoves: new(uint64(0)),
			Fallbacks: new(uint64(0)), CopiedBytes: new(uint64(0)),
		}
	}
	r.Stalls = []result.Stall{{Stream: 2, Direction: plan.ClientToServer, Start: 1.0004, Length: 0.3, Bytes: 5, Median: 4.2e9, At: r.Intervals[1].Streams[1]}}
	return r
}

func bulkStream(id int, received, retransmits uint64) result.Stream {
	start := result.TCPInfo{}
	for _, f := range sockopt.TCPFields() {
		start[f.Name] = nil
	}
	end := result.TCPInfo{}
	for _, f := range sockopt.TCPFields() {
		end[f.Name] = nil
	}
	end[sockopt.RTT.Name()], end[sockopt.SndCwnd.Name()] = new(uint64(145+11*uint64(id-1))), new(uint64(412))
	info := result.InfoPair{Start: start, End: end}
	client := []string{"192.0.2.1:40001", "192.0.2.1:40002"}[id-1]
	return result.Stream{
		ID: id, Direction: plan.ClientToServer, Throughput: new(float64(received) * 8 / 2),
		Client: &result.StreamEnd{
			Role: plan.Sender, Local: client, Remote: "192.0.2.2:12866", Duration: 2.0001,
			SentBytes: received + 2_097_152, AckedBytes: new(received), SendCalls: 8_990, ShortSends: 1,
			RetransSegs: new(retransmits), RetransBytes: new(1448 * retransmits), SegmentsOut: new(received / 1448), RTOEvents: new(uint64(0)),
			Thread: &result.Thread{Streams: 1, CPUs: []int{2 * (id - 1)}, ThreadUse: result.ThreadUse{CPUSeconds: new(0.655)}}, TCPInfo: info,
		},
		Server: &result.StreamEnd{
			Role: plan.Receiver, Local: "192.0.2.2:12866", Remote: client, Duration: 2,
			ReceivedBytes: received, ReceiveCalls: 20_006, Thread: nil, TCPInfo: result.InfoPair{End: end},
		},
	}
}

func bulkInterval(start, end float64, retransmits uint64) result.Interval {
	iv := result.Interval{
		Direction: plan.ClientToServer, Start: start, End: end,
		SenderStart: new(start + 0.000_2), SenderEnd: new(end + 0.000_2), RetransSegs: new(retransmits),
	}
	for id, bytes := range []uint64{650_000_000, 526_250_000} {
		iv.Bytes += bytes
		iv.Streams = append(iv.Streams, result.IntervalStream{
			ID: id + 1, Bytes: bytes, SentBytes: new(bytes), AckedBytes: new(bytes), RetransSegs: new(retransmits),
			RTT: new(uint64(145 + 11*id)), Cwnd: new(uint64(412)), MSS: new(uint64(1448)),
		})
		retransmits = 0
	}
	iv.Throughput = new(float64(iv.Bytes) * 8 / (end - start))
	return iv
}

func tuned(end string, stream int, knob string, from, to int64) sockopt.Row {
	return sockopt.Row{
		End: end, Stream: &stream, Knob: knob,
		Effective: sockopt.Int(16384), AtStart: sockopt.Int(from), AtEnd: sockopt.Int(to), Verdict: sockopt.Auto,
	}
}

func asked(end, knob string, requested, effective sockopt.Value, v sockopt.Verdict, detail string) sockopt.Row {
	return sockopt.Row{
		End: end, Knob: knob, Requested: requested, Verdict: v, Detail: detail,
		Effective: effective, AtStart: effective, AtEnd: effective,
	}
}

// latencyHistogram holds 99 values from 10.2 us to 950 us. It
// is kept encoded, since compressors differ between releases of Go.
const latencyHistogram = "HISTFAAAADt42pJpmSzMwMAgwgABzFCakYGBQdyj7AWD/QeIwFdnrk6WAH2b9yxys9l4PgqzHHZlAgQAAP//7RsKpQ=="

// rrRun is one request/response stream inside one machine.
func rrRun(t testing.TB) *result.Run {
	r := newRun(&plan.Test{
		Type: plan.TCPRR, Transactions: 99, RequestSize: 64, ResponseSize: 1024,
		Client: plan.End{Send: plan.Write, Receive: plan.Read, Knobs: sockopt.Settings{"nodelay": sockopt.Int(1)}},
		Server: plan.End{Send: plan.Write, Receive: plan.Read, Knobs: sockopt.Settings{"nodelay": sockopt.Int(1)}},
	})
	host := &result.Host{BootID: new("5b1c6e0e-7b3f-4e8c-9d55-0f7f4a0f2b11"), Kernel: new("6.18.1"), CPUs: new(2)}
	r.Hosts = result.Ends[*result.Host]{Client: host, Server: host}
	for _, end := range []string{"client", "server"} {
		r.Audit = append(r.Audit,
			asked(end, "nodelay", sockopt.Int(1), sockopt.Int(1), sockopt.Exact, ""),
			sockopt.Row{End: end, Knob: "congestion", Effective: sockopt.Str("bbr"), Verdict: sockopt.Auto})
	}
	h, err := stats.DecodeHistogram(latencyHistogram)
	if err != nil {
		t.Fatal(err)
	}
	latency, err := stats.SummariseLatency(h, false)
	if err != nil {
		t.Fatal(err)
	}
	merged := *latency
	merged.Histogram = latencyHistogram
	figures := result.Figures{
		Duration: new(0.012), SentBytes: new(uint64(6336)), AckedBytes: new(uint64(6336)), ReceivedBytes: new(uint64(101_376)),
		Transactions: new(uint64(99)), TPS: new(8250.0), Latency: &merged, RetransSegs: new(uint64(0)),
	}
	r.Summary = &result.Summary{Figures: figures, CPU: result.CPU{
		Scope:  "shared",
		Client: &result.EndCPU{CPUs: 2, Total: new(61.5), CoresUsed: new(1.23), ThreadSeconds: new(0.004), DemandTrans: new(40.4)},
		Server: &result.EndCPU{CPUs: 2, Total: new(61.5), CoresUsed: new(1.23), ThreadSeconds: new(0.005), DemandTrans: new(50.5)},
	}}
	r.Streams = []result.Stream{{
		ID: 1, Direction: plan.Both, Transactions: new(uint64(99)), Latency: latency,
		Client: &result.StreamEnd{
			Role: plan.Requester, Local: "[::1]:40001", Remote: "[::1]:12866", Duration: 0.012,
			SentBytes: 6336, ReceivedBytes: 101_376, SendCalls: 99, ReceiveCalls: 99,
			Thread: &result.Thread{Streams: 1, ThreadUse: result.ThreadUse{CPUSeconds: new(0.004)}},
		},
		Server: &result.StreamEnd{
			Role: plan.Responder, Local: "[::1]:12866", Remote: "[::1]:40001", Duration: 0.012,
			SentBytes: 101_376, ReceivedBytes: 6336, SendCalls: 99, ReceiveCalls: 99,
			Thread: &result.Thread{Streams: 1, ThreadUse: result.ThreadUse{CPUSeconds: new(0.005)}},
		},
	}}
	r.Intervals = []result.Interval{{
		Direction: plan.Both, Start: 0, End: 0.012, Bytes: 101_376, Transactions: new(uint64(99)), TPS: new(8250.0), RetransSegs: new(uint64(0)),
		Streams: []result.IntervalStream{{ID: 1, Bytes: 101_376, Transactions: new(uint64(99)), RTT: new(uint64(22)), Cwnd: new(uint64(10))}},
	}}
	return r
}

// udpRun is two streams of datagrams, of which some were dropped at the
// receiver's sockets, some got lost, and one came late.
func udpRun(testing.TB) *result.Run {
	r := newRun(&plan.Test{
		Type: plan.UDPStream, Duration: 2 * second, Interval: second, Streams: 2,
		Client: plan.End{Send: plan.Write, Receive: plan.Read, Rate: 100_000_000},
		Server: plan.End{Send: plan.Write, Receive: plan.Read, Knobs: sockopt.Settings{"rcvbuf": sockopt.Int(65536)}},
	})
	r.Audit = []sockopt.Row{asked("server", "rcvbuf", sockopt.Int(65536), sockopt.Int(65536), sockopt.Exact, "")}
	stream := func(id int, sent, received, lost, late uint64) result.Stream {
		local, remote := []string{"192.0.2.1:40001", "192.0.2.1:40002"}[id-1], "192.0.2.2:50001"
		return result.Stream{
			ID: id, Direction: plan.ClientToServer, Throughput: new(float64(received) * 1400 * 8 / 2),
			Datagrams: &result.Datagrams{
				Sent: new(sent), SendErrors: new(uint64(0)), Received: new(received), Lost: new(lost),
				LostPercent: new(100 * float64(lost) / float64(lost+received)),
				OutOfOrder:  new(late), Duplicates: new(uint64(0)), Jitter: new(4.5 * float64(id)), SocketDrops: new(lost / 2),
			},
			Client: &result.StreamEnd{
				Role: plan.Sender, Local: local, Remote: remote, Duration: 2.0002, SentBytes: sent * 1400, SendCalls: sent,
				Thread: &result.Thread{Streams: 1, ThreadUse: result.ThreadUse{CPUSeconds: new(0.31)}},
			},
			Server: &result.StreamEnd{
				Role: plan.Receiver, Local: remote, Remote: local, Duration: 2, ReceivedBytes: received * 1400, ReceiveCalls: received,
				Thread: &result.Thread{Streams: 1, ThreadUse: result.ThreadUse{CPUSeconds: new(0.12)}},
			},
		}
	}
	r.Streams = []result.Stream{stream(1, 17_857, 17_800, 56, 1), stream(2, 17_857, 17_857, 0, 0)}
	total := result.Figures{
		Throughput: new(199_679_200.0), Duration: new(2.0), SentBytes: new(uint64(49_999_600)), ReceivedBytes: new(uint64(49_919_800)),
		SendCalls: new(uint64(35_714)), ReceiveCalls: new(uint64(35_657)), StartSkew: new(-0.000_2), StopSkew: new(0.000_3),
		Datagrams: &result.Datagrams{
			Sent: new(uint64(35_714)), SendErrors: new(uint64(3)), Received: new(uint64(35_657)), Lost: new(uint64(56)), LostPercent: new(0.1568),
			OutOfOrder: new(uint64(1)), Duplicates: new(uint64(0)), Jitter: new(6.75), SocketDrops: new(uint64(28)),
		},
	}
	r.Summary = &result.Summary{
		Figures: total, Directions: result.Directions{ClientToServer: &total}, CPU: result.CPU{Scope: "separate"},
	}
	for i, lost := range []int64{57, -1} { // one of the first interval came late
		start := float64(i)
		iv := result.Interval{
			Direction: plan.ClientToServer, Start: start, End: start + 1, SenderStart: new(start), SenderEnd: new(start + 1),
			Bytes: 24_959_900, Throughput: new(199_679_200.0), Lost: new(lost), Jitter: new(6.75),
		}
		iv.Streams = []result.IntervalStream{
			{ID: 1, Bytes: 12_460_000, SentBytes: new(uint64(12_500_000)), Lost: new(lost), Jitter: new(4.5)},
			{ID: 2, Bytes: 12_499_900, SentBytes: new(uint64(12_499_900)), Lost: new(int64(0)), Jitter: new(9.0)},
		}
		r.Intervals = append(r.Intervals, iv)
	}
	return r
}

// crrRun is a connection test that ran out of ports.
func crrRun(t testing.TB) *result.Run {
	r := newRun(&plan.Test{Type: plan.TCPCRR, Duration: second, Interval: second})
	r.Audit = []sockopt.Row{
		{End: "client", Knob: "nodelay", Effective: sockopt.Int(0), Verdict: sockopt.Auto},
		{End: "server", Knob: "nodelay", Effective: sockopt.Int(0), Verdict: sockopt.Auto},
	}
	h, err := stats.DecodeHistogram(latencyHistogram)
	if err != nil {
		t.Fatal(err)
	}
	latency, err := stats.SummariseLatency(h, false)
	if err != nil {
		t.Fatal(err)
	}
	connect := *latency
	connect.Min, connect.Mean, connect.P50, connect.P99, connect.Max = 5.5, 20, 18.5, 75, 80
	r.Streams = []result.Stream{{
		ID: 1, Direction: plan.Both, Transactions: new(uint64(99)), Latency: latency,
		Client: &result.StreamEnd{
			Role: plan.Requester, Local: "192.0.2.1:40001", Remote: "192.0.2.2:12866", Duration: 1,
			SentBytes: 2871, ReceivedBytes: 99, SendCalls: 99, ReceiveCalls: 99,
		},
		Server: &result.StreamEnd{
			Role: plan.Responder, Local: "192.0.2.2:12866", Remote: "192.0.2.1:40001", Duration: 1,
			SentBytes: 99, ReceivedBytes: 99, SendCalls: 99, ReceiveCalls: 99,
		},
	}}
	r.Summary = &result.Summary{
		Figures: result.Figures{
			Duration: new(1.0), Transactions: new(uint64(99)), TPS: new(99.0), Latency: latency, Connect: &connect,
			ConnectErrors: map[string]uint64{"connect: EADDRNOTAVAIL": 640, "recv: ECONNRESET": 1},
		},
		CPU: result.CPU{Scope: "separate"},
	}
	const ran = "640 connections failed with connect: EADDRNOTAVAIL: the local ports ran out (net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse)"
	r.Trust = result.Trust{Reasons: []string{ran}}
	r.Warnings = []result.Warning{{Code: "connect_errors", End: "client", Message: ran}}
	r.Intervals = []result.Interval{{
		Direction: plan.Both, Start: 0, End: 1, Bytes: 99, Transactions: new(uint64(99)), TPS: new(99.0), Failed: new(uint64(641)),
		Streams: []result.IntervalStream{{ID: 1, Bytes: 99, Transactions: new(uint64(99))}},
	}}
	return r
}

// failedRun never reached its server.
func failedRun(testing.TB) *result.Run {
	r := newRun(&plan.Test{Type: plan.TCPMaerts})
	r.Status = result.Failed
	r.Error = &result.Error{Kind: "connect", Message: "192.0.2.1:12866: connection refused"}
	return r
}

// partialRun lost its server in the first second, and with it what that end
// would have reported.
func partialRun(testing.TB) *result.Run {
	r := newRun(&plan.Test{Type: plan.TCPMaerts, Interval: second})
	r.Status = result.Partial
	r.Error = &result.Error{Kind: "peer", Message: "control connection lost after 0.7 s", End: "server"}
	r.Streams = []result.Stream{{
		ID: 1, Direction: plan.ServerToClient, Throughput: new(4.2e9),
		Client: &result.StreamEnd{
			Role: plan.Receiver, Local: "192.0.2.1:40001", Remote: "192.0.2.2:12866", Duration: 0.7,
			ReceivedBytes: 367_500_000, ReceiveCalls: 5_000, Error: new("recv: connection reset by peer"),
		},
	}}
	r.Summary = &result.Summary{Figures: result.Figures{
		Throughput: new(4.2e9), Duration: new(0.7), ReceivedBytes: new(uint64(367_500_000)), ReceiveCalls: new(uint64(5_000)),
	}, CPU: result.CPU{Scope: "separate"}}
	r.Intervals = []result.Interval{{
		Direction: plan.ServerToClient, Start: 0, End: 0.7, Bytes: 367_500_000, Throughput: new(4.2e9),
		Streams: []result.IntervalStream{{ID: 1, Bytes: 367_500_000}},
	}}
	return r
}
