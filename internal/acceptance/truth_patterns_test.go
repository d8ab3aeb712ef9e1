package acceptance

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/internal/netnstest"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// A thousand streams on a few threads are all served, and alike: none gets less
// than half of the median.
func TestThousandStreams(t *testing.T) {
	t.Parallel()
	const streams = 1000
	s := serve(t, place{})
	for _, test := range []string{"TCP_RR", "TCP_STREAM"} {
		o := s.complete(place{}, "-t", test, "-P", fmt.Sprint(streams), "-d", "5", "--congestion", "cubic")
		if e := o.Engines; e.Client.Name != "epoll" || e.Server.Name != "epoll" || e.Client.Threads > 64 {
			t.Errorf("engines %+v and %+v", e.Client, e.Server)
		}
		var moved []float64
		for _, st := range o.Streams {
			if test == "TCP_RR" {
				moved = append(moved, float64(deref(st.Transactions)))
			} else {
				moved = append(moved, float64(st.Server.ReceivedBytes))
			}
		}
		if len(moved) != streams {
			t.Fatalf("%d streams", len(moved))
		}
		slices.Sort(moved)
		if median := moved[streams/2]; median == 0 || moved[0] < median/2 {
			t.Errorf("%s: the streams moved between %v and %v, %v in the median", test, moved[0], moved[streams-1], median)
		}
		checkSums(t, o)
	}
}

// The epoll engine is there for few streams, too, at either end.
func TestThreads(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, test := range [][]string{{"-t", "TCP_STREAM"}, {"-t", "TCP_MAERTS"}, {"-t", "TCP_RR"}, {"--bidir"}} {
		o := s.complete(place{}, append([]string{"-P", "3", "--threads", "2:", "-d", "0.1", "-i", "0.02"}, test...)...)
		directions := len(o.Plan.Directions())
		if c, srv := *o.Engines.Client, *o.Engines.Server; c.Name != "epoll" || c.Threads != 2*directions || srv.Name != "blocking" || srv.Threads != 3*directions {
			t.Errorf("%v: engines %+v and %+v", test, c, srv)
		}
		checkContiguous(t, o, 0.02)
	}
}

// Both directions at once are two directions, and their sums.
func TestBidirectional(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	o := s.complete(place{}, "--bidir", "-P", "2", "-d", "0.3", "-i", "0.1")
	checkContiguous(t, o, 0.1)
	there, back := o.Summary.Directions.ClientToServer, o.Summary.Directions.ServerToClient
	if there == nil || back == nil || len(o.Streams) != 4 {
		t.Fatalf("directions %v and %v, %d streams", there, back, len(o.Streams))
	}
	if got, want := *o.Summary.Throughput, *there.Throughput+*back.Throughput; math.Abs(got-want) > 1 {
		t.Errorf("throughput %v, not %v", got, want)
	}
	if *there.Throughput == 0 || *back.Throughput == 0 {
		t.Errorf("throughputs %v and %v", *there.Throughput, *back.Throughput)
	}
	for what, f := range map[string]func(*result.Figures) *uint64{
		"sent": func(f *result.Figures) *uint64 { return f.SentBytes }, "received": func(f *result.Figures) *uint64 { return f.ReceivedBytes },
		"retransmitted": func(f *result.Figures) *uint64 { return f.RetransSegs }, "segments": func(f *result.Figures) *uint64 { return f.SegmentsOut },
	} {
		if got, want := deref(f(&o.Summary.Figures)), deref(f(there))+deref(f(back)); got != want {
			t.Errorf("%s: %d, not %d", what, got, want)
		}
	}
}

// A paced sender keeps its rate: never more than what the window allows and one
// burst of a millisecond, and hardly less than it is kept from running.
func TestRate(t *testing.T) {
	t.Parallel()
	var s *server
	urgently(t, func() { s = serve(t, place{}) })
	const rate, message = 40e6, 5000
	for _, args := range [][]string{{"-t", "TCP_STREAM"}, {"-t", "TCP_MAERTS"}, {"-t", "TCP_STREAM", "--threads", "1"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var reached []float64
			for range 5 { // even so
				var p *process
				urgently(t, func() {
					p = start(t, place{}, append([]string{"client", "-J", s.addr.String(), "--rate", "40M", "-m", fmt.Sprint(message), "-P", "2", "-d", "1"}, args...)...)
				})
				o := p.outcome()
				o.mustComplete(t)
				least := rate
				for _, st := range o.Streams {
					from, to := st.Client, st.Server
					if st.Direction == plan.ServerToClient {
						from, to = to, from
					}
					most := rate / 8 * (max(from.Duration, to.Duration) + 0.001)
					if got := float64(to.ReceivedBytes); got > most+message {
						t.Errorf("stream %d: %v bytes, more than %v and a message", st.ID, got, most)
					}
					least = min(least, *st.Throughput)
				}
				// A sender that lost its CPU catches up by a millisecond only, and a
				// hypervisor takes CPUs from real-time threads too.
				if reached = append(reached, least); least >= 0.7*rate {
					return
				}
			}
			t.Errorf("the slower stream reached %v of %v bit/s", reached, rate)
		})
	}
}

// A series gives every run's values, the middle run's document, and their
// statistics; with --confidence it ends when the mean is known.
func TestRepeat(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	o := s.complete(place{}, "-t", "TCP_RR", "-d", "0.1", "--repeat", "5")
	if o.Repeat == nil || len(o.Repeat.Trials) != 5 {
		t.Fatalf("repeat %+v", o.Repeat)
	}
	var rates []float64
	var own bool
	for _, trial := range o.Repeat.Trials {
		if trial.Status != result.Complete || trial.TPS == nil || *trial.TPS == 0 {
			t.Errorf("trial %+v", trial)
		}
		rates = append(rates, *trial.TPS)
		own = own || trial.ID == o.ID
	}
	slices.Sort(rates)
	if !own || *o.Summary.TPS != rates[2] {
		t.Errorf("the document is of the run with %v transactions/s, of %v", *o.Summary.TPS, rates)
	}
	mean := (rates[0] + rates[1] + rates[2] + rates[3] + rates[4]) / 5
	if got := o.Repeat.Statistics.Mean; got == nil || math.Abs(*got-mean) > 1e-6*mean {
		t.Errorf("mean %v, not %v", got, mean)
	}
	// Wide enough for any machine, and as narrow as no machine's.
	o = s.complete(place{}, "-t", "TCP_STREAM", "-d", "0.1", "--rate", "10M", "--confidence", "50,100")
	if c := o.Repeat.Confidence; c == nil || !c.Reached || c.HalfWidth == nil || *c.HalfWidth > 50 || len(o.Repeat.Trials) < 3 {
		t.Errorf("confidence %+v after %d runs", c, len(o.Repeat.Trials))
	}
	o = s.complete(place{}, "-t", "TCP_RR", "-d", "0.05", "--confidence", "99,0.001", "--repeat", "4")
	if c := o.Repeat.Confidence; c == nil || c.Reached || len(o.Repeat.Trials) != 4 {
		t.Errorf("confidence %+v after %d runs", c, len(o.Repeat.Trials))
	}
}

// --netns puts either end into another namespace, by process, path or name.
func TestNetns(t *testing.T) {
	t.Parallel()
	asRoot(t)
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	resident := func(n *netnstest.NS) string {
		cmd := n.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		pid := strconv.Itoa(cmd.Process.Pid)
		eventually(t, "the process inside", func() bool { // nsenter may be on its way
			comm, err := os.ReadFile("/proc/" + pid + "/comm")
			return err == nil && strings.TrimSpace(string(comm)) == "sleep"
		})
		return pid
	}
	inA, inB := resident(a), resident(b)
	s := serve(t, place{}, "--netns", inB, "--listen", b.Addr4.String()+":0")
	for _, where := range []string{inA, a.Path()} {
		o := s.complete(place{}, "--netns", where, "-d", "0.05")
		if got := o.Streams[0].Client.Local; !strings.HasPrefix(got, a.Addr4.String()+":") {
			t.Errorf("--netns %s: from %s", where, got)
		}
		if c, srv := o.Hosts.Client, o.Hosts.Server; *c.NetNS == *srv.NetNS || c.Device.Name != a.Device {
			t.Errorf("--netns %s: hosts %+v and %+v", where, c, srv)
		}
	}
	if ip, err := exec.LookPath("ip"); err == nil {
		name := fmt.Sprintf("gperf-test-%d", os.Getpid())
		if out, err := exec.Command(ip, "netns", "attach", name, inA).CombinedOutput(); err != nil {
			t.Fatalf("ip netns attach: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command(ip, "netns", "delete", name).Run() })
		s.complete(place{}, "-d", "0.05", "--netns="+name)
	}
	s.client(place{}, "--netns", "gperf-no-such").failed(t, 2, "netns", "gperf-no-such")
}

// --strict turns reasons for distrust into an exit status; without it the same
// run succeeds and says the same.
func TestStrictRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	clamped := []string{"-d", "0.05", "--rcvbuf", ":1G", "--allow-clamp"}
	o := s.client(place{}, append(clamped, "--strict")...)
	if o.status != 4 || o.Run == nil || o.Status != result.Complete || o.Error != nil || o.Trust.OK || !strings.Contains(o.stderr, "not to be trusted") ||
		!containsAll(o.stderr, []string{"rcvbuf", "net.core.rmem_max"}) {
		t.Errorf("exit status %d, stderr %q, document %s, trust %+v", o.status, o.stderr, o.verdict(), o.Trust)
	}
	o = s.client(place{}, clamped...)
	if o.status != 0 || o.Trust.OK || len(o.Trust.Reasons) == 0 {
		t.Errorf("exit status %d, trust %+v", o.status, o.Trust)
	}
	for range 20 { // until the machine lets one run through
		if o = s.client(place{}, "-d", "0.1", "--rate", "1M", "-m", "1000", "--strict"); o.status == 0 {
			break
		}
		if o.status != 4 || len(o.Trust.Reasons) == 0 {
			t.Fatalf("exit status %d, stderr %q", o.status, o.stderr)
		}
	}
	if o.status != 0 || !o.Trust.OK || o.stderr != "" {
		t.Errorf("exit status %d, stderr %q, trust %+v", o.status, o.stderr, o.Trust)
	}
}

// P030: each line is valid on its own; for each stream the intervals' bytes and
// retransmits add up to its total; the intervals are contiguous, the last and
// shorter one included; the last line carries the label.
func TestStreamedLines(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	noTSO(a, b)
	dropSome(b, "1000")
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	p := start(t, place{ns: a}, "client", s.addr.String(), "-P", "4", "-i", "0.2", "-d", "3.1", "--format", "jsonl", "--label", "run=p030")
	eventually(t, "two lines while it runs", func() bool { return p.stdout.lines() >= 2 })
	if p.hasEnded() {
		t.Error("no line came before the end")
	}
	o := p.outcome()
	o.mustComplete(t)
	lines := splitLines(o.stdout)
	for i, line := range lines {
		if err := strict(line); err != nil {
			t.Errorf("line %d: %v", i+1, err)
		}
		if last := i == len(lines)-1; strings.Contains(line, `"p030"`) != last {
			t.Errorf("line %d of %d: label %t", i+1, len(lines), !last)
		}
	}
	if len(lines) != len(o.Intervals)+1 {
		t.Errorf("%d lines for %d intervals", len(lines), len(o.Intervals))
	}
	checkSums(t, o)
	checkContiguous(t, o, 0.2)
}

// checkContiguous checks that each direction's intervals cover its window without
// a gap, and that those which a late sample joined are counted.
func checkContiguous(t *testing.T, o *outcome, interval float64) {
	t.Helper()
	for d, f := range o.directions() {
		at, window := 0.0, *o.Summary.Duration
		if f.Duration != nil {
			window = *f.Duration
		}
		missing := int(math.Ceil(time.Duration(o.Plan.Duration).Seconds()/interval - 1e-9))
		for _, iv := range o.Intervals {
			if iv.Direction != d && iv.Direction != plan.Both {
				continue
			}
			if math.Abs(iv.Start-at) > 1e-9 || iv.End <= iv.Start {
				t.Errorf("%s: an interval from %v to %v after one to %v", d, iv.Start, iv.End, at)
			}
			at = iv.End
			missing--
		}
		if math.Abs(at-window) > 1e-6 {
			t.Errorf("%s: the last interval ends at %v, the window at %v", d, at, window)
		}
		late := slices.ContainsFunc(o.Warnings, func(w result.Warning) bool { return w.Code == "late_sample" })
		if missing > 0 && !late {
			t.Errorf("%s: %d intervals are missing, and nothing says so", d, missing)
		}
	}
}

// Other formats say the same of real runs.
func TestFormats(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	get := func(format string, args ...string) string {
		t.Helper()
		o := run(t, place{}, append([]string{s.addr.String(), "-d", "0.1", "--label", "which=new", "--format", format}, args...)...)
		if o.status != 0 || o.stderr != "" || o.stdout == "" {
			t.Fatalf("%v: exit status %d, stderr %q, stdout %q", o.args, o.status, o.stderr, o.stdout)
		}
		return o.stdout
	}
	number := func(text string) float64 {
		t.Helper()
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}

	rows, err := csv.NewReader(strings.NewReader(get("csv", "-P", "3"))).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatalf("csv: %v, %d rows", err, len(rows))
	}
	cell := func(row int, name string) string {
		t.Helper()
		i := slices.Index(rows[0], name)
		if i < 0 {
			t.Fatalf("csv has no column %s: %v", name, rows[0])
		}
		return rows[row][i]
	}
	total := 0.0
	for row := 1; row <= 3; row++ {
		total += number(cell(row, "received_bytes"))
	}
	if got := number(cell(4, "received_bytes")); cell(4, "stream") != "total" || got != total || total == 0 {
		t.Errorf("csv: the streams received %v bytes, the total is %v", total, got)
	}

	values := map[string]string{}
	for _, line := range splitLines(get("keyval")) {
		key, value, ok := strings.Cut(line, "=")
		if _, twice := values[key]; !ok || twice {
			t.Errorf("keyval: %q", line)
		}
		values[key] = value
	}
	for key, want := range map[string]string{"schema": "gperf/1", "status": "complete", "labels.which": "new", "plan.test": "TCP_STREAM"} {
		if values[key] != want {
			t.Errorf("keyval: %s=%q, not %q", key, values[key], want)
		}
	}
	if number(values["summary.throughput_bits_per_second"]) <= 0 {
		t.Errorf("keyval: throughput %q", values["summary.throughput_bits_per_second"])
	}

	bench := get("gobench", "--repeat", "3", "-t", "TCP_RR")
	units := map[string]bool{}
	results := 0
	for _, line := range splitLines(bench) {
		f := strings.Fields(line)
		switch {
		case len(f) > 0 && f[0] == "Unit":
			units[f[1]] = true
		case strings.HasPrefix(line, "Benchmark"):
			results++
			if len(f)%2 != 0 || number(f[1]) != 1 {
				t.Errorf("gobench: %q", line)
			}
			for i := 2; i+1 < len(f); i += 2 {
				if !units[f[i+1]] || number(f[i]) < 0 {
					t.Errorf("gobench: %s %s, with units %v", f[i], f[i+1], units)
				}
			}
		}
	}
	if results != 3 || !strings.Contains(bench, "which: new\n") {
		t.Errorf("gobench: %d results of 3 runs:\n%s", results, bench)
	}

	hist, err := stats.DecodeHistogram(strings.TrimSpace(get("hdr", "-t", "TCP_RR")))
	if err != nil || hist.TotalCount() == 0 {
		t.Errorf("hdr: %v", err)
	}
	percentiles := get("hgrm", "-t", "TCP_RR")
	rowsOf, count := 0, 0.0
	for _, line := range splitLines(percentiles) {
		if f := strings.Fields(line); len(f) >= 3 && line[0] == ' ' && f[0] != "Value" {
			rowsOf++
			if n := number(f[2]); n < count {
				t.Errorf("hgrm: %q after a count of %v", line, count)
			} else {
				count = n
			}
		}
	}
	if rowsOf < 5 || !strings.Contains(percentiles, "#[Mean") || !strings.Contains(percentiles, fmt.Sprintf("%.0f]", count)) {
		t.Errorf("hgrm: %d rows, %v in the last:\n%s", rowsOf, count, percentiles)
	}
}

// Many streams sampled often: the intervals have no gaps, memory stays bounded
// at both ends, and what the control connection carries meanwhile is next to
// nothing.
func TestManySamples(t *testing.T) {
	t.Parallel()
	const streams, most = 128, 256 << 20
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	control := strconv.Itoa(int(s.addr.Port()))
	b.Nft(`table inet t { chain i { type filter hook input priority 0; tcp dport ` + control + ` counter comment "control"; };
		chain o { type filter hook output priority 0; tcp sport ` + control + ` counter comment "control"; }; }`)
	for test, duration := range map[string]string{"TCP_STREAM": "3", "TCP_MAERTS": "2.05"} {
		// The knob gives the data a port of its own.
		p := start(t, place{ns: a}, "client", s.addr.String(), "-t", test, "-P", fmt.Sprint(streams), "-d", duration, "-i", "0.1",
			"--format", "jsonl", "--mss", "1448", "--congestion", "cubic")
		lines := func(n int) (began time.Time, bytes uint64) {
			t.Helper()
			eventually(t, fmt.Sprint(n, " lines"), func() bool { return p.stdout.lines() >= n || p.hasEnded() })
			return time.Now(), counted(t, b)
		}
		began, before := lines(3)
		ended, after := lines(15)
		o := p.outcome()
		o.mustComplete(t)
		rate, seconds := float64(8*(after-before)), ended.Sub(began).Seconds()
		if share := rate / seconds / *o.Summary.Throughput; rate == 0 || share > 0.01 {
			t.Errorf("%s: the control connection carried %v bit in %v s, %v of the measured rate", test, rate, seconds, share)
		}
		checkContiguous(t, o, 0.1)
		checkSums(t, o)
		if peak := p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > most {
			t.Errorf("%s: the client used %d bytes of memory", test, peak)
		}
		if peak := s.memory(t, "VmHWM"); peak > most {
			t.Errorf("%s: the server has used %d bytes of memory", test, peak)
		}
	}
}

// counted is the sum of the byte counters of n's rules.
func counted(t *testing.T, n *netnstest.NS) (bytes uint64) {
	t.Helper()
	out, err := n.Command("nft", "list", "ruleset").Output()
	if err != nil {
		t.Fatal("nft list ruleset: ", err)
	}
	for _, part := range strings.Split(string(out), " bytes ")[1:] {
		n, err := strconv.ParseUint(strings.Fields(part)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		bytes += n
	}
	return bytes
}

// P018: each connection's first SYN is lost. The streams' set-up takes one
// repetition, of a second, and not one for each.
func TestLostSYNs(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	b.Nft(`table inet t {
		set seen { type inet_service; flags dynamic; };
		chain c { type filter hook input priority 0; tcp flags & (syn | ack) == syn tcp sport != @seen add @seen { tcp sport } counter drop; };
	}`)
	o := s.complete(place{ns: a}, "-P", "8", "-d", "0.3", "-i", "0.1")
	if d := o.Setup.Data; d < 1 || d >= 2 {
		t.Errorf("the set-up of 8 streams took %v s", d)
	}
	checkSums(t, o)
}

// P018: the end of a test doesn't wait behind what is queued on a slow and long
// link, nor does its beginning.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	a, b := farApart(t, 200*time.Millisecond)
	for _, n := range []*netnstest.NS{a, b} {
		n.AddTBF("1mbit", "16kb", "64kb") // half a second of queue
	}
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	began := time.Now()
	o := s.complete(place{ns: a}, "-P", "8", "-d", "3", "--congestion", "cubic")
	if took := time.Since(began); took > 3*time.Second+bounded {
		t.Errorf("that took %v", took)
	}
	if d := o.Setup.Data; d >= 8*0.4/2 {
		t.Errorf("the set-up of 8 streams took %v s at an RTT of 0.4 s", d)
	}
	if f := o.Summary.Figures; *f.Duration < 2.9 || *f.Duration > 3.2 || deref(f.ReceivedBytes) == 0 || *f.Throughput > 1.1e6 {
		t.Errorf("%v bit/s in %v s", *f.Throughput, *f.Duration)
	}
	// A round trip and a full queue may lie between the ends.
	if f := o.Summary.Figures; math.Abs(*f.StartSkew) > 1.5 || math.Abs(*f.StopSkew) > 1.5 {
		t.Errorf("the windows open %v s and close %v s apart", *f.StartSkew, *f.StopSkew)
	}
	if r := o.row(t, sockopt.Client, "congestion"); r.Effective != sockopt.Str("cubic") {
		t.Errorf("congestion %+v", r)
	}
}
