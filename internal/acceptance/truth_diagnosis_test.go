package acceptance

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
)

// A cause is something that bounds a test, and what the diagnosis must say of it.
type cause struct {
	name string
	// apart joins the namespaces by a link of 5 ms each way instead of a veth
	// pair, whose MTU is 1500.
	apart bool
	// make makes the cause, before the server starts. It may be nil.
	make  func(t *testing.T, client, server *netnstest.NS)
	args  []string
	first []string // words of the first sentence
	any   []string // words of some sentence
	// urgent runs both ends with a real-time priority, for causes that other
	// processes of a busy machine would take away.
	urgent bool
}

func setUp(t *testing.T, n *netnstest.NS, words ...string) {
	t.Helper()
	path, err := exec.LookPath(words[0])
	if err != nil {
		t.Skipf("needs %s: %v", words[0], err)
	}
	if out, err := n.Command(path, words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// dropSome drops one in so many packets of data that come to n at random.
func dropSome(n *netnstest.NS, one string) {
	n.Nft(`table inet loss { chain c { type filter hook input priority 0; meta length > 1000 numgen random mod ` + one + ` == 0 counter drop; }; }`)
}

// noTSO makes packets of the segments, so that each can be lost by itself.
func noTSO(all ...*netnstest.NS) {
	for _, n := range all {
		n.SetTSO(false)
	}
}

// smallWindow is the congestion window of four segments that the route demands.
func smallWindow(t *testing.T, n *netnstest.NS, to string) {
	setUp(t, n, "ip", "route", "replace", to, "dev", n.Device, "cwnd", "lock", "4")
}

var causes = []cause{
	{
		name: "receiver window", args: []string{"--rcvbuf", ":8K", "-m", "16K", "--congestion", "reno"},
		first: []string{"receiver window: ", "the server offered", "rcvbuf 8192 asked, 16.0 KiB in force"},
	},
	{
		name: "receiver window of the client", args: []string{"-t", "TCP_MAERTS", "--rcvbuf", "8K:", "-m", "16K", "--congestion", "reno"},
		first: []string{"receiver window: ", "the client offered", "rcvbuf 8192 asked, 16.0 KiB in force"},
	},
	{
		name: "receiver window over a distance", apart: true, args: []string{"--rcvbuf", ":8K", "--congestion", "reno"},
		first: []string{"receiver window: "},
	},
	{
		name: "send buffer", apart: true, args: []string{"--sndbuf", "16K:", "--congestion", "reno"},
		first: []string{"send buffer: the sender was blocked in send 9", "sndbuf 16384 asked, 32.0 KiB in force"},
	},
	{
		name: "send buffer, small messages", apart: true, args: []string{"-t", "TCP_MAERTS", "--sndbuf", ":16K", "-m", "512", "--congestion", "reno"},
		first: []string{"send buffer: the sender was blocked in send ", "sndbuf 16384 asked, 32.0 KiB in force"},
	},
	{
		name: "loss", args: []string{"--congestion", "cubic"},
		make: func(_ *testing.T, client, server *netnstest.NS) {
			noTSO(client, server)
			dropSome(server, "50")
		},
		first: []string{"loss: ", " % of the segments (", " were retransmitted, "},
	},
	{
		name: "loss with time-outs", args: []string{"-t", "TCP_MAERTS", "--congestion", "cubic"},
		make: func(_ *testing.T, client, server *netnstest.NS) {
			noTSO(client, server)
			client.SetSysctl("net.ipv4.tcp_sack", "0")
			dropSome(client, "20")
		},
		first: []string{"loss: ", " retransmission time-out", "(RTO)"},
	},
	{
		name: "congestion window", apart: true, args: []string{"--congestion", "reno"},
		make: func(t *testing.T, client, server *netnstest.NS) {
			smallWindow(t, client, server.Addr4.String())
		},
		first: []string{"congestion window: 5.66 KiB per RTT of 1"},
	},
	{
		name: "congestion window of the server", apart: true, args: []string{"-t", "TCP_MAERTS", "--congestion", "reno"},
		make: func(t *testing.T, client, server *netnstest.NS) {
			smallWindow(t, server, client.Addr4.String())
		},
		first: []string{"congestion window: 5.66 KiB per RTT of 1"},
	},
	{
		name: "path", args: []string{"--congestion", "reno"}, urgent: true,
		make: func(_ *testing.T, client, _ *netnstest.NS) {
			client.AddTBF("50mbit", "16kb", "256kb")
		},
		first: []string{"path: data queued on it, ", "its slowest link let 4"},
	},
	{
		name: "one thread", args: []string{"--congestion", "cubic", "-m", "512", "--nodelay", "--cpu", "0:1"}, urgent: true,
		first: []string{"CPU: the client's sending thread (stream 1) used "},
	},
	{
		name: "one CPU", args: []string{"--congestion", "cubic", "--cpu", "0"}, urgent: true,
		first: []string{"CPU: machine's CPU 0 busy at least 95 %"},
	},
	{
		name: "one CPU, transactions", args: []string{"-t", "TCP_RR", "--cpu", "0"}, urgent: true,
		first: []string{"CPU: machine's CPU 0 busy at least 95 %"},
	},
	{
		name: "round trips", apart: true, args: []string{"-t", "TCP_RR"},
		first: []string{"round trips: 1 at a time per stream, a transaction took 1"},
	},
	{
		name: "own pacing", args: []string{"--rate", "20M"}, urgent: true,
		first: []string{"application limited: pacing by --rate held each stream to 20.0 Mbit/s"},
	},
	{
		name: "own pacing of the server", args: []string{"-t", "TCP_MAERTS", "--rate", ":20M"}, urgent: true,
		first: []string{"application limited: pacing by --rate held each stream to 20.0 Mbit/s"},
	},
	{
		name: "the kernel's pacing", args: []string{"--pacing-rate", "20M"},
		first: []string{"application limited: pacing by --pacing-rate held each stream to 20.0 Mbit/s"},
	},
	{
		name: "waiting for a CPU", args: []string{"--congestion", "cubic", "--cpu", "1:0"},
		make:  func(t *testing.T, _, _ *netnstest.NS) { occupy(t, 1) },
		first: []string{"waiting for a CPU: the client's thread of stream 1 was ready to run and waited "},
	},
	{
		name: "small segments", args: []string{"--congestion", "cubic", "-m", "256", "--nodelay"}, urgent: true,
		any: []string{"small segments: 256 B messages left in segments of ", " messages each (MSS 1448 B)"},
	},
}

// occupy keeps a CPU busy until the test's end.
func occupy(t *testing.T, cpu int) {
	t.Helper()
	hog := exec.Command("sh", "-c", "while :; do :; done")
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = hog.Process.Kill()
		_ = hog.Wait()
	})
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(hog.Process.Pid, &set); err != nil {
		t.Fatal(err)
	}
}

// urgently calls f so that the processes that it starts have a real-time
// priority, which a busy machine's other processes don't.
func urgently(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread() // the priority is the thread's, and its children's
	defer runtime.UnlockOSThread()
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		t.Skip("needs CAP_SYS_NICE for a real-time priority: ", err)
	}
	defer func() {
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// Whatever bounds a test, the first sentence of its diagnosis says so.
func TestDiagnosis(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs")
	}
	for _, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			// Not in parallel: the causes are about CPUs, too.
			var near, far *netnstest.NS
			if c.apart {
				near, far = farApart(t, 5*time.Millisecond)
			} else {
				near, far = netnstest.NewPair(t, netnstest.Pair{})
			}
			if c.make != nil {
				c.make(t, near, far)
			}
			about := func(f func()) { f() }
			if c.urgent {
				about = func(f func()) { urgently(t, f) }
			}
			var s *server
			about(func() { s = serve(t, place{ns: far}, "--listen", far.Addr4.String()+":0") })
			var said []string
			for range 6 { // other processes may be the bound of one
				var p *process
				about(func() {
					p = start(t, place{ns: near}, append([]string{"client", "-J", s.addr.String(), "-d", "0.4"}, c.args...)...)
				})
				o := p.outcome()
				if slices.Contains(c.first, "loss: ") && strings.Contains(o.stderr, "no data arrived inside the window") { // two time-outs in a row may be longer
					said = append(said, o.stderr)
					continue
				}
				o.mustComplete(t)
				d := o.Summary.Diagnosis
				said = append(said, strings.Join(d, "\n\t"))
				if len(d) > 0 && containsAll(d[0], c.first) && containsAll(strings.Join(d, "\n"), c.any) {
					return
				}
			}
			t.Errorf("diagnoses:\n%s\nwant first: %q, and %q", strings.Join(said, "\n"), c.first, c.any)
		})
	}
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}
