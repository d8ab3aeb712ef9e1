package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/internal/netnstest"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// nstat reads counters of the namespace's /proc/net/netstat and snmp, by
// nstat(8)'s names, since its beginning.
func nstat(t *testing.T, n *netnstest.NS, name string) (value uint64) {
	t.Helper()
	out, err := n.Command("nstat", "-asz", name).Output()
	if err != nil {
		t.Skip("needs nstat: ", err)
	}
	for _, line := range splitLines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			if value, err = strconv.ParseUint(f[1], 10, 64); err != nil {
				t.Fatalf("nstat: %q: %v", line, err)
			}
		}
	}
	return value
}

// retransmits are what the end's streams retransmitted, and what its namespace
// did inside the window by the result's counters.
func retransmits(o *outcome, end sockopt.End) (streams, counted uint64) {
	for i := range o.Streams {
		e := o.Streams[i].Client
		if end == sockopt.Server {
			e = o.Streams[i].Server
		}
		streams += deref(e.RetransSegs)
	}
	if c := *o.Counters.Of(end); c != nil {
		counted = c.Protocols["TcpRetransSegs"]
	}
	return streams, counted
}

// senders are the ends that send payload in a test.
func senders(args []string) map[sockopt.End]bool {
	all := strings.Join(args, " ")
	return map[sockopt.End]bool{
		sockopt.Client: !strings.Contains(all, "MAERTS"),
		sockopt.Server: !strings.Contains(all, "STREAM"),
	}
}

var directions = [][]string{{"-t", "TCP_STREAM"}, {"-t", "TCP_MAERTS"}, {"--bidir"}}

// What the path loses is retransmitted, and the end that sent it says so: as
// many segments as its kernel counts for the whole namespace, in which nobody
// else sends.
func TestLoss(t *testing.T) {
	t.Parallel()
	for _, args := range directions {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			a, b := netnstest.NewPair(t, netnstest.Pair{})
			noTSO(a, b)
			dropSome(a, "100")
			dropSome(b, "100")
			s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
			before := map[sockopt.End]uint64{sockopt.Client: nstat(t, a, "TcpRetransSegs"), sockopt.Server: nstat(t, b, "TcpRetransSegs")}
			o := s.complete(place{ns: a}, append([]string{"-d", "0.5", "-P", "2", "--congestion", "reno"}, args...)...)
			for end, n := range map[sockopt.End]*netnstest.NS{sockopt.Client: a, sockopt.Server: b} {
				streams, counted := retransmits(o, end)
				outside := nstat(t, n, "TcpRetransSegs") - before[end]
				if !senders(args)[end] {
					if streams != 0 {
						t.Errorf("the %s, which sends nothing, retransmitted %d segments", end, streams)
					}
					continue
				}
				// The kernel's counters are read just outside the window, and the
				// control connection's segments are in them too.
				if streams == 0 || streams > counted || counted > outside || float64(streams) < 0.8*float64(counted)-5 {
					t.Errorf("the %s's streams retransmitted %d segments, its namespace %d inside the window and %d in all", end, streams, counted, outside)
				}
			}
			for d, f := range o.directions() {
				if deref(f.RetransSegs) == 0 || deref(f.RetransBytes) == 0 || f.RetransPercent == nil || *f.RetransPercent < 0.1 || *f.RetransPercent > 10 {
					t.Errorf("%s: %d segments, %d bytes retransmitted, a share of %v", d, deref(f.RetransSegs), deref(f.RetransBytes), f.RetransPercent)
				}
			}
			if d := o.Summary.Diagnosis; len(d) == 0 || !strings.HasPrefix(d[0], "loss: ") {
				t.Errorf("a path that loses one segment in a hundred, and the diagnosis is %q", d)
			}
		})
	}
}

// Where nothing is lost nothing is retransmitted, or the kernel's own counters
// say why: a tail-loss probe or a time-out because an end didn't get a CPU, or a
// device's queue that overflowed.
func TestNoLoss(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	for _, args := range directions {
		o := s.complete(place{ns: a}, append([]string{"-d", "0.3", "--rcvbuf", "32K", "--congestion", "reno"}, args...)...)
		for end, sends := range senders(args) {
			streams, _ := retransmits(o, end)
			if streams == 0 {
				continue
			}
			if !sends || !explained(o, end) {
				t.Errorf("%v: the %s retransmitted %d segments, of which nothing tells why: %v", args, end, streams, (*o.Counters.Of(end)).Protocols)
			}
		}
	}
}

// explained reports whether the kernels' counters tell why an end retransmitted
// inside the window, although the network lost nothing. A CPU's backlog is shared by
// all tests that run.
func explained(o *outcome, end sockopt.End) bool {
	own, other := *o.Counters.Of(end), o.Counters.Server
	if end == sockopt.Server {
		other = o.Counters.Client
	}
	reasons := deref(own.Device.TxDropped) + deref(other.Device.RxDropped)
	if other.Softnet != nil {
		reasons += deref(other.Softnet.Dropped)
	}
	for _, name := range []string{"TcpExtTCPLossProbes", "TcpExtTCPDSACKRecvSegs", "TcpExtTCPTimeouts", "TcpExtTCPSpuriousRtxHostQueues"} {
		reasons += own.Protocols[name]
	}
	return reasons > 0
}

// P034: what happens in the warm-up is in no figure, and how long the server has
// been up neither.
func TestWarmup(t *testing.T) {
	t.Parallel()
	const warmup, duration = 1, 2
	for _, test := range []string{"TCP_STREAM", "TCP_RR"} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			a, b := netnstest.NewPair(t, netnstest.Pair{})
			noTSO(a, b)
			s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
			s.complete(place{ns: a}, "-d", "0.1") // its threads' times and counters aren't 0
			// One packet of data in ten is lost, until this test sees that one was.
			lossy := `table inet loss { chain c { type filter hook input priority 0; meta length > 900 numgen random mod 10 == 0 counter drop; }; }`
			args := []string{"-t", test, "--warmup", fmt.Sprint(warmup), "-d", fmt.Sprint(duration), "-i", "0.5", "--congestion", "cubic"}
			if test == "TCP_RR" {
				args = append(args, "--request-size", "1000", "--response-size", "1000")
			}
			before := nstat(t, a, "TcpRetransSegs")
			b.Nft(lossy)
			p := start(t, place{ns: a}, append([]string{"client", "-J", s.addr.String()}, args...)...)
			eventually(t, "losses", func() bool {
				out, err := b.Command("nft", "list", "ruleset").Output()
				if err != nil {
					t.Fatal(err)
				}
				return !strings.Contains(string(out), "packets 0 ") || p.hasEnded()
			})
			b.Nft("flush ruleset")
			o := p.outcome()
			o.mustComplete(t)
			all := nstat(t, a, "TcpRetransSegs") - before
			streams, counted := retransmits(o, sockopt.Client)
			if all == 0 || counted > 0 && !explained(o, sockopt.Client) || streams > counted {
				t.Errorf("%d segments retransmitted in all, %d inside the window, %d by the streams", all, counted, streams)
			}
			if d := *o.Summary.Duration; d < duration-0.1 || d > duration+0.2 {
				t.Errorf("the window is %v s long", d)
			}
			checkSums(t, o)
			for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
				cpu := o.cpu(t, end)
				if *cpu.ThreadSeconds > 1.1*duration {
					t.Errorf("the %s's only thread used %v s of CPU time in %d s", end, *cpu.ThreadSeconds, duration)
				}
			}
			if l := o.Summary.Latency; test == "TCP_RR" {
				// A request that is lost comes back after the least retransmission
				// time-out of 200 ms.
				if l == nil || l.Max >= 190e3 {
					t.Errorf("latencies of the warm-up are in the window's: %+v", l)
				}
				if n := deref(o.Summary.Transactions); n == 0 || l.Count != int64(n) {
					t.Errorf("%d transactions, %d latencies", n, l.Count)
				}
			}
		})
	}
}

// cpu is an end's CPU use, checked for being possible.
func (o *outcome) cpu(t *testing.T, end sockopt.End) *result.EndCPU {
	t.Helper()
	cpu := o.Summary.CPU.Client
	if end == sockopt.Server {
		cpu = o.Summary.CPU.Server
	}
	if cpu == nil || cpu.Total == nil || cpu.MachineSeconds == nil || cpu.ThreadSeconds == nil {
		t.Fatalf("the %s's CPU use isn't known: %+v", end, cpu)
	}
	most := *o.Summary.Duration * float64(cpu.CPUs) * 1.1 // readings take their time
	if *cpu.Total < 0 || *cpu.Total > 100 || *cpu.MachineSeconds < 0 || *cpu.MachineSeconds > most+0.1 || *cpu.CoresUsed > float64(cpu.CPUs) {
		t.Errorf("the %s's CPU use is %v %%, %v s of %v s, %v cores", end, *cpu.Total, *cpu.MachineSeconds, most, *cpu.CoresUsed)
	}
	return cpu
}

// What one end's sysctls leave out of the handshake is missing at both ends, and
// the result says whose it is.
func TestHandshakeOptions(t *testing.T) {
	t.Parallel()
	type options = result.Options
	for _, tt := range []struct {
		sysctl, value string
		end           sockopt.End
		want          options
		warning       string
	}{
		{"tcp_sack", "0", sockopt.Server, options{Timestamps: true, WindowScaling: true}, "no_sack"},
		{"tcp_timestamps", "0", sockopt.Client, options{SACK: true, WindowScaling: true}, "no_timestamps"},
		{"tcp_window_scaling", "0", sockopt.Server, options{SACK: true, Timestamps: true}, "no_window_scaling"},
		{"tcp_ecn", "1", sockopt.Client, options{SACK: true, Timestamps: true, WindowScaling: true, ECN: true}, ""},
		{"tcp_ecn", "2", sockopt.Client, options{SACK: true, Timestamps: true, WindowScaling: true}, ""},
	} {
		t.Run(tt.sysctl+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			a, b := netnstest.NewPair(t, netnstest.Pair{})
			where := a
			if tt.end == sockopt.Server {
				where = b
			}
			name := "net.ipv4." + tt.sysctl
			where.SetSysctl(name, tt.value)
			s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
			o := s.complete(place{ns: a}, "-d", "0.1", "-P", "2", "--congestion", "reno")
			for _, st := range o.Streams {
				for _, e := range []*result.StreamEnd{st.Client, st.Server} {
					if e.Options == nil || *e.Options != tt.want {
						t.Errorf("stream %d: the %s has %+v, not %+v", st.ID, e.Role, e.Options, tt.want)
					}
				}
			}
			said := 0
			for _, w := range o.Warnings {
				if !strings.HasPrefix(w.Code, "no_") {
					continue
				}
				said++
				if want := fmt.Sprintf("%s=%s at the %s", name, tt.value, tt.end); w.Code != tt.warning || !strings.Contains(w.Message, want) || !strings.Contains(w.Message, "2 of 2") {
					t.Errorf("%s: %s; want %s: %s", w.Code, w.Message, tt.warning, want)
				}
			}
			if (said > 0) != (tt.warning != "") {
				t.Errorf("%d warnings of missing options: %v", said, o.Warnings)
			}
			if h := *o.Hosts.Of(tt.end); h.Sysctls[name] != tt.value {
				t.Errorf("the %s's sysctls have %s=%q", tt.end, name, h.Sysctls[name])
			}
		})
	}
}

// SYN cookies, which a server falls back on when it has no room for handshakes,
// cost what doesn't go into a cookie, unless there are timestamps.
func TestSYNCookies(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	b.SetSysctl("net.ipv4.tcp_syncookies", "2") // always
	b.SetSysctl("net.ipv4.tcp_timestamps", "0")
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	o := s.complete(place{ns: a}, "-d", "0.1", "--congestion", "reno")
	if got := o.Streams[0].Client.Options; got == nil || *got != (result.Options{}) {
		t.Errorf("options %+v", got)
	}
	why := map[string]string{}
	for _, w := range o.Warnings {
		why[w.Code] = w.Message
	}
	for code, want := range map[string]string{
		"syn_cookies": "the server answered with SYN cookies", "no_sack": "SYN cookies at the server", "no_window_scaling": "SYN cookies at the server",
		"no_timestamps": "net.ipv4.tcp_timestamps=0 at the server",
	} {
		if !strings.Contains(why[code], want) {
			t.Errorf("%s: %q, not %q", code, why[code], want)
		}
	}
}

// The CPU time of the window is that of /proc/stat, as far as somebody outside
// can see the window, and is counted once on a machine that both ends share.
func TestCPU(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, args := range [][]string{{"-t", "TCP_STREAM"}, {"-t", "TCP_MAERTS"}, {"--bidir"}, {"-t", "TCP_RR"}} {
		before, began := machineSeconds(t), time.Now()
		o := s.complete(place{}, append([]string{"-d", "0.5"}, args...)...)
		after, took := machineSeconds(t), time.Since(began).Seconds()
		if o.Summary.CPU.Scope != "shared" {
			t.Errorf("%v: both ends are on this machine, and the scope is %q", args, o.Summary.CPU.Scope)
		}
		for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
			cpu := o.cpu(t, end)
			// No more than was used outside, and no less than that without what
			// the time before and after the window can have cost. /proc/stat
			// counts in ticks, of each kind of each CPU.
			ticks := 0.01 * 8 * float64(cpu.CPUs)
			most := after - before + ticks
			least := after - before - (took-*o.Summary.Duration)*float64(cpu.CPUs) - ticks
			if *cpu.MachineSeconds > most || *cpu.MachineSeconds < least {
				t.Errorf("%v: the %s counts %v s of CPU time, /proc/stat between %v and %v s", args, end, *cpu.MachineSeconds, least, most)
			}
			// Both ends' threads are workers of this machine, so each is charged
			// with its own and not with the machine.
			seconds, demand, units := *cpu.ThreadSeconds, cpu.DemandKiB, float64(deref(o.Summary.ReceivedBytes))/1024
			if o.Plan.Type.RequestResponse() {
				demand, units = cpu.DemandTrans, float64(deref(o.Summary.Transactions))
			}
			if demand == nil || seconds == 0 || abs(*demand*units/1e6-seconds) > 0.01*seconds {
				t.Errorf("%v: the %s's service demand is %v for %v units in %v s", args, end, demand, units, seconds)
			}
			threads := 0.0
			for i := range o.Streams {
				e := o.Streams[i].Client
				if end == sockopt.Server {
					e = o.Streams[i].Server
				}
				threads += *e.Thread.CPUSeconds
			}
			if abs(threads-seconds) > 0.01*seconds {
				t.Errorf("%v: the %s's threads used %v s, its streams' %v s", args, end, seconds, threads)
			}
		}
	}
}

func abs(f float64) float64 { return max(f, -f) }

// machineSeconds is the CPU time of all CPUs so far, idle left out.
func machineSeconds(t *testing.T) (seconds float64) {
	t.Helper()
	fields := strings.Fields(splitLines(readFile(t, "/proc/stat"))[0])
	for i, f := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		if i != 3 && i != 4 {
			seconds += n / 100 // USER_HZ
		}
	}
	return seconds
}

// Ends on one machine agree on the direction that a figure is of.
func TestDirectionsOfLoss(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	noTSO(a, b)
	dropSome(b, "50") // on the way to the server only
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	o := s.complete(place{ns: a}, "--bidir", "-d", "0.4", "--congestion", "reno")
	there, back := o.directions()[plan.ClientToServer], o.directions()[plan.ServerToClient]
	// The other loses acknowledgements, and what a busy machine drops.
	if lost, other := deref(there.RetransSegs), deref(back.RetransSegs); other >= lost {
		t.Errorf("%d segments retransmitted on the way that loses some, %d on the other", lost, other)
	}
	if d := o.Summary.Diagnosis; len(d) == 0 || !strings.HasPrefix(d[0], "loss: ") || !strings.HasSuffix(d[0], "(client to server)") {
		t.Errorf("diagnosis: %q", d)
	}
}
