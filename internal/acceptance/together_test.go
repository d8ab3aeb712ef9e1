package acceptance

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/internal/netnstest"
	"gperf/sockopt"
)

// Two different tests on one server at the same time: each complete, and
// nothing of the one in the other, neither in its documents nor on its sockets.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	var long, short *outcome
	for seconds := 1; ; seconds *= 2 {
		p := start(t, place{}, "client", s.addr.String(), "-t", "TCP_STREAM", "-d", strconv.Itoa(seconds), "-i", "0.05", "-P", "2",
			"--format", "jsonl", "--sndbuf", "96K", "--rcvbuf", "128K", "--congestion", "reno", "--tos", "8")
		eventually(t, "the first interval", func() bool { return p.stdout.lines() > 0 || p.hasEnded() })
		short = s.complete(place{}, "-t", "TCP_RR", "--transactions", "50", "-i", "0.05", "--nodelay", "--keepalive=:on", "--mss", "1000")
		within := !p.hasEnded()
		if long = p.outcome(); within {
			break
		}
		long.mustComplete(t) // over too soon, but the other has not broken it
		if seconds > 8 {
			t.Skip("the machine is too slow for two tests at once")
		}
	}
	long.mustComplete(t)
	checkSums(t, long)
	checkSums(t, short)
	if len(long.Streams) != 2 || len(short.Streams) != 1 || deref(short.Summary.Transactions) == 0 || deref(long.Summary.ReceivedBytes) == 0 {
		t.Errorf("streams and figures are mixed up: %d, %d", len(long.Streams), len(short.Streams))
	}
	asked := func(o *outcome) map[string]string {
		all := map[string]string{}
		for _, r := range o.Audit {
			if r.Requested.IsSet() {
				all[r.End+" "+r.Knob] = fmt.Sprintf("%s %s", r.Requested, r.Verdict)
			}
		}
		return all
	}
	for _, tt := range []struct {
		o    *outcome
		want map[string]string
	}{
		{long, map[string]string{
			"client sndbuf": "98304 doubled", "server sndbuf": "98304 doubled", "client rcvbuf": "131072 doubled", "server rcvbuf": "131072 doubled",
			"client congestion": "reno exact", "server congestion": "reno exact", "client tos": "8 exact", "server tos": "8 exact",
		}},
		{short, map[string]string{
			"client nodelay": "1 exact", "server nodelay": "1 exact", "server keepalive": "1 exact", "client mss": "1000 adjusted", "server mss": "1000 adjusted",
		}},
	} {
		if got := asked(tt.o); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("asked for and judged: %v, not %v", got, tt.want)
		}
	}
	// What the one asked for, the other's sockets don't have.
	for _, knob := range []string{"sndbuf", "rcvbuf", "congestion"} {
		if a, b := long.row(t, sockopt.Server, knob).Effective, short.row(t, sockopt.Server, knob).Effective; a == b && knob != "congestion" {
			t.Errorf("both tests have a %s of %s", knob, a)
		}
	}
	if r := long.row(t, sockopt.Server, "nodelay"); r.Effective != sockopt.Int(0) || r.AtEnd != sockopt.Int(0) {
		t.Errorf("nodelay reads %+v where nobody asked for it", r)
	}
}

// deviceBytes is what a device of the namespace has received so far.
func deviceBytes(t *testing.T, ns *netnstest.NS, device string) (bytes uint64) {
	t.Helper()
	err := ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for _, line := range splitLines(string(text)) {
			if name, rest, _ := strings.Cut(strings.TrimSpace(line), ":"); name == device {
				bytes, err = strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
				return err
			}
		}
		return fmt.Errorf("no device %s", device)
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// queued lists the namespace's sockets, listeners left out, that still hold
// bytes for somebody.
func queued(t *testing.T, ns *netnstest.NS) (all []sock) {
	t.Helper()
	err := ns.Do(func() error {
		socks, err := sockets()
		for _, s := range socks {
			if s.state != listening && (s.queued > 0 || s.state == established) {
				all = append(all, s)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A timed test ends with full queues, here of seconds on a slow link. When its
// client has ended, none of that is left, and nothing of it is delivered while
// the next test runs.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []string{"TCP_STREAM", "TCP_MAERTS", "TCP_RR"} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			a, b := netnstest.NewPair(t, netnstest.Pair{})
			for _, n := range []*netnstest.NS{a, b} {
				n.AddTBF("10mbit", "16kb", "32kb") // a queue of 26 ms
			}
			s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
			s.complete(place{ns: a}, "--bytes", "200K", "-P", "2") // what the runtime opens once
			idle := s.idle(t)
			args := []string{"-t", test, "-d", "0.3", "-P", "2", "--sndbuf", "4M", "--congestion", "reno"} // 8 MB: 6 s of the link
			if test == "TCP_RR" {
				args = append(args, "--burst", "64", "--request-size", "64K", "--response-size", "1")
			}
			for range 2 {
				begun := time.Now()
				o := s.client(place{ns: a}, args...)
				ended := time.Now()
				if took := ended.Sub(begun); took > 4*time.Second {
					t.Errorf("a test of 0.3 s took %v", took)
				}
				if o.status != 0 && test != "TCP_RR" { // of which none may have been whole
					t.Fatalf("exit status %d, stderr %s", o.status, o.stderr)
				}
				// The reset has to cross the link, and the server to end its session.
				eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
				eventually(t, "no sockets with anything in them", func() bool { return len(queued(t, a)) == 0 && len(queued(t, b)) == 0 })
				if took := time.Since(ended); took > 4*time.Second {
					t.Errorf("sockets of the test were left for %v", took)
				}
				before := [2]uint64{deviceBytes(t, a, a.Device), deviceBytes(t, b, b.Device)}
				time.Sleep(50 * time.Millisecond) // for nothing to happen in
				after := [2]uint64{deviceBytes(t, a, a.Device), deviceBytes(t, b, b.Device)}
				// At 10 Mbit/s an old stream would have brought 62 KB; a queue's rest
				// and its resets are less.
				for i := range before {
					if n := after[i] - before[i]; n > 40<<10 {
						t.Errorf("%d bytes came in after the test", n)
					}
				}
			}
		})
	}
}

// P026 in small: runs of every kind, failing ones among them, leave a server as
// it was, with one port.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	s.complete(place{}, "--bytes", "200K", "-P", "2", "--rcvbuf", "64K")
	idle := s.idle(t)
	for i := range 20 {
		args := append(quick(testTypes[i%len(testTypes)]), "-P", strconv.Itoa(1+i%2))
		switch i % 5 {
		case 1:
			args = append(args, "--rcvbuf", "64K")
		case 2:
			s.client(place{}, append(args, "--rcvbuf", ":1K")...).failed(t, 2, "rcvbuf") // raised
			continue
		case 3:
			s.client(place{}, append(args, "--congestion", ":nosuch")...).failed(t, 2, "nosuch")
			continue
		}
		s.complete(place{}, args...)
	}
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	if now := s.idle(t); now.threads > idle.threads+5 {
		t.Errorf("threads %d, at first %d", now.threads, idle.threads)
	}
	if ports := s.listening(t); len(ports) != 1 || ports[0] != int(s.addr.Port()) {
		t.Errorf("the server listens on %v", ports)
	}
}
