package result

import (
	"slices"
	"strings"
	"testing"

	"gperf/plan"
	"gperf/sockopt"
)

// Each warning, with what brings it about: its code, its end, how it begins, and
// whether it is a reason not to trust the run.
var cautions = []struct {
	name     string
	typ      plan.Type
	make     func(r *Run, c, s *Report)
	code     string // empty: nothing is said
	end      string
	says     string
	distrust bool
}{
	{name: "sound", make: func(*Run, *Report, *Report) {}},

	{
		name: "clamped", make: func(r *Run, _, _ *Report) {
			r.Audit = []sockopt.Row{
				{End: "client", Knob: "sndbuf", Verdict: sockopt.Doubled}, {End: "client", Knob: "mss", Verdict: sockopt.Adjusted},
				{End: "server", Knob: "rcvbuf", Verdict: sockopt.Clamped, Detail: "by net.core.rmem_max=212992"},
			}
		},
		code: "clamped", end: "server", says: "rcvbuf at the server: clamped: by net.core.rmem_max=212992", distrust: true,
	},
	{
		name: "raised", make: func(r *Run, _, _ *Report) {
			r.Audit = []sockopt.Row{{End: "client", Knob: "sndbuf", Verdict: sockopt.Raised}}
		},
		code: "raised", end: "client", says: "sndbuf at the client: raised", distrust: true,
	},
	{
		name: "not held", make: func(r *Run, _, _ *Report) {
			r.Audit = []sockopt.Row{{End: "client", Knob: "window-clamp", Verdict: sockopt.NotHeld}}
		},
		code: string(sockopt.NotHeld), end: "client", says: "window-clamp at the client: not held", distrust: true,
	},
	{
		name: "auto", make: func(r *Run, _, _ *Report) {
			for _, v := range []sockopt.Verdict{sockopt.Auto, sockopt.Exact, sockopt.Doubled, sockopt.Adjusted, sockopt.Unverified} {
				r.Audit = append(r.Audit, sockopt.Row{End: "client", Knob: "x", Verdict: v})
			}
		},
	},

	{
		name: "idle stream", make: func(r *Run, _, _ *Report) { r.Streams[0].Throughput = new(0.0) },
		code: "idle_stream", says: "stream 1 moved nothing", distrust: true,
	},
	{
		name: "idle requester", typ: plan.TCPRR, make: func(r *Run, _, _ *Report) { r.Streams[0].Transactions = new(uint64(0)) },
		code: "idle_stream", says: "stream 1 moved nothing", distrust: true,
	},
	{
		name: "idle intervals", make: func(r *Run, _, _ *Report) { r.Intervals = []Interval{{Bytes: 1}, {}, {Bytes: 1}, {}} },
		code: "idle_interval", says: "nothing moved in 2 of 4 intervals", distrust: true,
	},

	{
		name: "fell back", make: func(r *Run, _, _ *Report) { r.Streams[0].Client.Mover = &Mover{Name: plan.Splice, FellBack: true} },
		code: "fallback", end: "client", says: "stream 1: the kernel doesn't splice with this socket: the client copied instead", distrust: true,
	},
	{
		name: "single calls fell back", make: func(r *Run, _, _ *Report) {
			r.Streams[0].Client.Mover = &Mover{Name: plan.Zerocopy, Fallbacks: new(uint64(3))}
		},
		code: "fallback", end: "client", says: "stream 1: 3 calls of the client copied instead of zerocopy", distrust: true,
	},
	{
		name: "copied after all", make: func(r *Run, _, _ *Report) {
			r.Streams[0].Client.Mover = &Mover{Name: plan.Zerocopy, Completions: new(uint64(9)), CopiedCompletions: new(uint64(8))}
		},
		code: "zerocopy_copied", end: "client", says: "the kernel copied the data of 8 of 9 sends with MSG_ZEROCOPY after all",
	},
	{name: "zero copy", make: func(r *Run, _, _ *Report) {
		r.Streams[0].Client.Mover = &Mover{Name: plan.Zerocopy, Fallbacks: new(uint64(0)), Completions: new(uint64(9)), CopiedCompletions: new(uint64(0))}
	}},
	{
		name: "stalls", make: func(r *Run, _, _ *Report) { r.Stalls = []Stall{{Stream: 1, Length: 0.2}, {Stream: 1, Length: 0.1}} },
		code: "stall", says: "stream 1 stalled 2 times, 0.3 s in all",
	},

	{
		name: "start skew", make: func(r *Run, _, _ *Report) { r.way().StartSkew = new(-0.2) },
		code: "skew", says: "the sender's window opened -0.200 s from the receiver's", distrust: true,
	},
	{
		name: "stop skew", make: func(r *Run, _, _ *Report) { r.way().StopSkew = new(0.08) },
		code: "skew", says: "the sender's window closed +0.080 s from the receiver's", distrust: true,
	},
	{name: "skew of a round trip", make: func(r *Run, _, _ *Report) {
		r.way().StopSkew, r.way().RTT = new(0.4), &RTT{Max: 390_000}
	}},
	{name: "skew of a long window", make: func(r *Run, _, _ *Report) {
		r.way().StopSkew, r.way().Duration = new(0.15), new(10.0)
	}},

	{
		name: "rate missed", make: func(r *Run, _, _ *Report) { r.Plan.Client.Rate, r.Streams[0].Throughput = 1e9, new(9.7e8) },
		code: "rate_missed", end: "client", says: "stream 1 reached 970 Mbit/s of the 1.00 Gbit/s that --rate allows",
	},
	{
		name: "rate missed by the server", typ: plan.TCPMaerts, make: func(r *Run, _, _ *Report) {
			r.Plan.Server.Rate, r.Streams[0].Throughput = 1e9, new(5e8)
		},
		code: "rate_missed", end: "server", says: "stream 1 reached 500 Mbit/s",
	},
	{name: "rate kept", make: func(r *Run, _, _ *Report) { r.Plan.Client.Rate, r.Streams[0].Throughput = 1e9, new(9.9e8) }},

	{
		name: "generator saturated", make: func(_ *Run, c, _ *Report) { c.Halves[0].Threads[0].CPUNs = new(int64(960e6)) },
		code: "generator_saturated", end: "client", says: "a worker thread of the client used its CPU to 96 %", distrust: true,
	},
	{
		name: "waited for a CPU", make: func(_ *Run, _, s *Report) {
			for range 3 {
				s.Halves[0].Threads = append(s.Halves[0].Threads, HalfThread{Use: &ThreadUse{RunQueueWaitSeconds: new(0.3)}})
			}
		},
		code: "waited_for_cpu", end: "server", says: "a worker thread of the server waited for a CPU 30 % of the time (and 2 more)", distrust: true,
	},
	{
		name: "late samples", make: func(_ *Run, _, s *Report) { s.Halves[0].Late = 3 },
		code: "late_sample", end: "server", says: "3 intervals of the server were sampled late", distrust: true,
	},
	{
		name: "garbage collection", make: func(_ *Run, c, _ *Report) { c.Runtime = &Runtime{Collections: 2} },
		code: "garbage_collection", end: "client", says: "2 garbage collections of the client fell into the window", distrust: true,
	},
	{name: "no garbage collection", make: func(_ *Run, c, _ *Report) { c.Runtime = &Runtime{PauseSeconds: 0.001} }},
	{
		name: "other tests", make: func(_ *Run, _, s *Report) { s.OtherTests = 1 },
		code: "other_tests", end: "server", says: "the server ran 1 other tests at the same time", distrust: true,
	},
	{
		name: "descriptors", make: func(_ *Run, c, _ *Report) { c.Descriptors = new(int64(3)) },
		code: "descriptors", end: "client", says: "the client had only 3 descriptors left", distrust: true,
	},
	{name: "enough descriptors", make: func(_ *Run, c, _ *Report) { c.Descriptors = new(int64(16)) }},
	{
		name: "steal", make: func(_ *Run, _, s *Report) { s.CPU = &EndCPU{Steal: new(4.5)} },
		code: "steal", end: "server", says: "the hypervisor took 4.5 % of the server's CPU time", distrust: true,
	},
	{
		name: "steal of a shared machine", make: func(r *Run, c, s *Report) {
			r.Hosts.Client, r.Hosts.Server = &Host{BootID: new("a")}, &Host{BootID: new("a")}
			c.CPU, s.CPU = &EndCPU{Steal: new(4.5)}, &EndCPU{Steal: new(4.5)}
		},
		code: "steal", end: "client", says: "the hypervisor took 4.5 %", distrust: true,
	},
	{
		name: "frequency", make: func(r *Run, _, _ *Report) { r.Hosts.Server = &Host{Governor: new("powersave")} },
		code: "cpu_governor", end: "server", says: "CPU frequency governor of the server: powersave",
	},
	{name: "fixed frequency", make: func(r *Run, _, _ *Report) { r.Hosts.Server = &Host{Governor: new("performance")} }},

	{
		name: "SYN cookies", make: func(_ *Run, _, s *Report) { s.SYNCookies = true },
		code: "syn_cookies", end: "server", says: "the server answered with SYN cookies",
	},
	{
		name: "no SACK", make: func(r *Run, _, _ *Report) {
			r.Streams[0].Client.Options = &Options{Timestamps: true, WindowScaling: true}
			r.Hosts.Server = &Host{Sysctls: map[string]string{"net.ipv4.tcp_sack": "0"}}
		},
		code: "no_sack", says: "1 of 1 connections are without sack: net.ipv4.tcp_sack=0 at the server",
	},
	{
		name: "no timestamps", make: func(r *Run, _, _ *Report) {
			r.Streams[0].Client.Options = &Options{SACK: true, WindowScaling: true}
			r.Hosts.Client = &Host{Sysctls: map[string]string{"net.ipv4.tcp_timestamps": "0"}}
		},
		code: "no_timestamps", says: "1 of 1 connections are without timestamps: net.ipv4.tcp_timestamps=0 at the client",
	},
	{
		name: "no window scaling, nobody knows why", make: func(r *Run, _, _ *Report) {
			r.Streams[0].Client.Options = &Options{SACK: true, Timestamps: true}
		},
		code: "no_window_scaling", says: "1 of 1 connections are without window_scaling: neither end's sysctl says why",
	},
	{name: "no ECN", make: func(r *Run, _, _ *Report) {
		r.Streams[0].Client.Options = &Options{SACK: true, Timestamps: true, WindowScaling: true}
	}},

	{
		name: "other traffic", make: func(r *Run, _, _ *Report) {
			r.wire(100<<20, 70_000)
			r.Counters.Client = &Counters{Device: &DeviceCounters{Name: "eth0", TxBytes: new(uint64(130 << 20))}}
		},
		code: "other_traffic", end: "client", says: "eth0 of the client sent ", distrust: true,
	},
	{name: "own traffic", make: func(r *Run, _, _ *Report) {
		r.wire(100<<20, 70_000)
		r.Counters.Client = &Counters{Device: &DeviceCounters{Name: "eth0", TxBytes: new(uint64(106 << 20))}}
	}},
	{name: "little traffic", make: func(r *Run, _, _ *Report) {
		r.wire(1000, 10)
		r.Counters.Client = &Counters{Device: &DeviceCounters{Name: "eth0", TxBytes: new(uint64(100_000))}}
	}},
	{name: "unknown traffic", make: func(r *Run, _, _ *Report) {
		r.Counters.Client = &Counters{Device: &DeviceCounters{Name: "eth0", TxBytes: new(uint64(130 << 20))}}
	}},
}

// wire says what the client's end of the stream sent inside the window.
func (r *Run) wire(bytes, segments uint64) {
	i := &r.Streams[0].Client.TCPInfo
	if i.Start == nil {
		i.Start = TCPInfo{}
	}
	for f, v := range map[sockopt.TCPField]uint64{sockopt.BytesSent: bytes, sockopt.SegsOut: segments} {
		i.Start[f.Name()], i.End[f.Name()] = new(uint64(7)), new(7+v)
	}
}

func TestTrust(t *testing.T) {
	t.Parallel()
	for _, tt := range cautions {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			typ := tt.typ
			if typ == "" {
				typ = plan.TCPStream
			}
			r := bulk(typ)
			report := func(end sockopt.End) *Report {
				return &Report{Halves: []Half{{
					Direction: r.Plan.Directions()[0], Role: r.Plan.Directions()[0].Role(end), OpenedNs: 1e9, ClosedNs: 2e9,
					Threads: []HalfThread{{Streams: []int{1}, CPUNs: new(int64(2e8)), Use: &ThreadUse{RunQueueWaitSeconds: new(0.01)}}},
				}}}
			}
			c, s := report(client), report(server)
			f := r.way()
			f.StartSkew, f.StopSkew = new(0.001), new(-0.001)
			r.Streams[0].Throughput = f.Throughput
			tt.make(r, c, s)
			r.judge(c, s)
			if tt.code == "" {
				if len(r.Warnings) > 0 || !r.Trust.OK || len(r.Trust.Reasons) > 0 {
					t.Fatalf("warnings %v, trust %+v", r.Warnings, r.Trust)
				}
				return
			}
			if len(r.Warnings) != 1 {
				t.Fatalf("warnings %v", r.Warnings)
			}
			w := r.Warnings[0]
			if w.Code != tt.code || w.End != tt.end || !strings.HasPrefix(w.Message, tt.says) {
				t.Errorf("%q of %q: %s", w.Code, w.End, w.Message)
			}
			if r.Trust.OK == tt.distrust || slices.Contains(r.Trust.Reasons, w.Message) != tt.distrust {
				t.Errorf("trust %+v", r.Trust)
			}
		})
	}
}

// SYN cookies are why options are missing that no sysctl turned off, but never
// why timestamps are: with those, they lose nothing.
func TestTrustCookies(t *testing.T) {
	t.Parallel()
	r := bulk()
	r.Streams[0].Client.Options = &Options{}
	r.judge(&Report{}, &Report{SYNCookies: true})
	for _, w := range r.Warnings {
		if strings.HasPrefix(w.Code, "no_") && strings.HasSuffix(w.Message, "SYN cookies at the server") == (w.Code == "no_timestamps") {
			t.Errorf("%s: %s", w.Code, w.Message)
		}
	}
	if len(r.Warnings) != 4 {
		t.Errorf("warnings %v", r.Warnings)
	}
}
