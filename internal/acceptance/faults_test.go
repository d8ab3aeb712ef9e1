package acceptance

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/internal/netnstest"
	"gperf/result"
)

// underWay starts a client that would run for a minute and returns when it has
// shown its first interval. Its document is its last line.
func (s *server) underWay(t testing.TB, at place, args ...string) *process {
	t.Helper()
	p := start(t, at, append([]string{"client", s.addr.String(), "-d", "60", "-i", "0.02", "--format", "jsonl"}, args...)...)
	eventually(t, "the first interval", func() bool { return p.stdout.lines() > 0 || p.hasEnded() })
	if p.hasEnded() {
		t.Fatalf("the test ended at once: %s", &p.stderr)
	}
	return p
}

// hasPartial checks that a run which ended early gives what it had measured.
func hasPartial(t *testing.T, o *outcome, kind string) {
	t.Helper()
	if o.Run == nil || o.Status != result.Partial || o.Error == nil || o.Error.Kind != kind {
		t.Fatalf("%v: document %s; want a partial one with an error of kind %s", o.args, o.verdict(), kind)
	}
	if o.Summary == nil || deref(o.Summary.SentBytes)+deref(o.Summary.ReceivedBytes) == 0 || len(o.Streams) == 0 {
		t.Errorf("%v: the partial document has no figures", o.args)
	}
}

var testTypes = []string{"TCP_STREAM", "TCP_MAERTS", "TCP_RR"}

// The server is killed: the client ends by itself with what it has.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for _, test := range testTypes {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			s := serve(t, place{})
			p := s.underWay(t, place{}, "-t", test, "-P", "2")
			before := time.Now()
			s.signal(syscall.SIGKILL)
			o := p.outcome()
			if took := time.Since(before); took > patience/4 {
				t.Errorf("the client took %v to notice", took)
			}
			o.failed(t, 1, s.addr.String())
			hasPartial(t, o, "peer")
		})
	}
}

// The server is told to end: it ends its tests, and says so to their clients.
func TestServerTerminated(t *testing.T) {
	t.Parallel()
	for _, test := range testTypes {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			s := serve(t, place{})
			p := s.underWay(t, place{}, "-t", test)
			before := time.Now()
			s.signal(syscall.SIGTERM)
			o := p.outcome()
			o.failed(t, 1, s.addr.String(), "shutting down")
			hasPartial(t, o, "peer")
			if status := s.status(); status != 0 {
				t.Errorf("the server's exit status is %d, stderr %q", status, &s.stderr)
			}
			if took := time.Since(before); took > patience/4 {
				t.Errorf("that took %v", took)
			}
		})
	}
}

// P022: the client is killed, again and again: the server is back where it was
// each time and serves the next.
func TestClientKilled(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	s.complete(place{}, "--bytes", "200K", "-P", "4") // what the runtime takes once
	idle := s.idle(t)
	for i := range 10 {
		p := s.underWay(t, place{}, "-P", "4", "-t", testTypes[i%len(testTypes)])
		p.signal(syscall.SIGKILL)
		p.status()
		eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
		s.complete(place{}, quick(testTypes[(i+1)%len(testTypes)])...)
	}
	now := s.idle(t)
	// Four workers of ten tests would be forty; a few threads of the runtime's
	// own come and go.
	if now.descriptors != idle.descriptors || now.threads > idle.threads+5 {
		t.Errorf("descriptors and threads at first %+v, at last %+v", idle, now)
	}
}

type usage struct{ descriptors, threads int }

// idle waits until the server's descriptors and threads don't go down any more.
func (s *server) idle(t *testing.T) usage {
	t.Helper()
	last, since := usage{s.descriptors(), s.threads()}, time.Now()
	eventually(t, "a server at rest", func() bool {
		if now := (usage{s.descriptors(), s.threads()}); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
	return last
}

// A data connection is reset in the middle of a test.
func TestDataReset(t *testing.T) {
	t.Parallel()
	for _, test := range []string{"TCP_STREAM", "TCP_MAERTS"} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			ns := netnstest.New(t)
			s := serve(t, place{ns: ns})
			p := s.underWay(t, place{ns: ns}, "-t", test, "--bind", "127.0.0.1")
			// The control connection's messages are small.
			ns.Nft(`table inet t { chain c { type filter hook input priority 0; tcp flags & rst == 0 meta length > 8000 reject with tcp reset; }; }`)
			o := p.outcome()
			o.failed(t, 1, "reset")
			hasPartial(t, o, "peer")
			ns.Nft(`flush ruleset`)
			s.complete(place{ns: ns}, "--bytes", "200K")
		})
	}
}

// The first signal ends a test in order, with its result; the status says why.
func TestClientSignalled(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for i, test := range testTypes {
		p := s.underWay(t, place{}, "-t", test)
		p.signal([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2])
		o := p.outcome()
		o.failed(t, 3, "signal")
		hasPartial(t, o, "signal")
		checkSums(t, o)
	}
}

// nuisance is a connection to the server by somebody who isn't a client.
func (s *server) nuisance(t *testing.T, says string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(says)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Whatever else comes to the port, a test that runs is not disturbed by it.
func TestNuisances(t *testing.T) {
	t.Parallel()
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(i*i>>3 + 91)
	}
	s := serve(t, place{})
	says := []string{
		"",                                      // silence
		"\x00",                                  // one byte
		string(garbage),                         // nonsense
		"\xff\xff\xff\xff{",                     // a huge length
		"\x00\x0f\xff\xff{",                     // a large one that is allowed, and no more
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",     // another protocol
		"gperfDT1",                              // half a preamble
		"gperfDT1" + strings.Repeat("\x07", 20), // one of no test
		"\x00\x00\x00\x02{}",                    // a frame that is no message
		"\x00\x00\x00\x10" + `{"type":"start"}`, // one that doesn't come first
	}
	for _, say := range says[:5] {
		s.nuisance(t, say) // there before
	}
	for _, args := range [][]string{{"-t", "TCP_STREAM", "-P", "2"}, {"-t", "TCP_MAERTS"}, {"-t", "TCP_RR"}} {
		p := start(t, place{}, append([]string{"client", s.addr.String(), "-d", "0.4", "-i", "0.02", "--format", "jsonl"}, args...)...)
		eventually(t, "the first interval", func() bool { return p.stdout.lines() > 0 || p.hasEnded() })
		slow := s.nuisance(t, "\x00\x00")
		for !p.hasEnded() {
			for _, say := range says {
				_ = s.nuisance(t, say).(*net.TCPConn).SetLinger(0)
			}
			_, _ = slow.Write([]byte{0}) // the server may have hung up
			time.Sleep(5 * time.Millisecond)
		}
		o := p.outcome()
		o.mustComplete(t)
		checkSums(t, o)
		for _, st := range o.Streams {
			if n := st.Client.SentBytes + st.Server.SentBytes; n == 0 || st.Client.Error != nil || st.Server.Error != nil {
				t.Errorf("%v: stream %d: %d bytes, errors %v, %v", args, st.ID, n, st.Client.Error, st.Server.Error)
			}
		}
	}
	for _, args := range [][]string{{"--bytes", "5000003"}, {"--bytes", "5000003", "-t", "TCP_MAERTS"}} {
		checkBytes(t, s.complete(place{}, args...), 1, 5000003)
	}
}

// Connections that say nothing cost no thread each, and not for long.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	const many = 300
	s := serve(t, place{})
	s.complete(place{}, "--bytes", "200K")
	idle := s.idle(t)
	conns := make([]net.Conn, many)
	for i := range conns {
		conns[i] = s.nuisance(t, "\x00"[:i%2]) // silence, or hardly more
	}
	eventually(t, "all connections accepted", func() bool { return s.descriptors() >= idle.descriptors+many })
	if n := s.threads(); n > idle.threads+8 {
		t.Errorf("%d threads, %d before %d connections", n, idle.threads, many)
	}
	s.complete(place{}, "--bytes", "200K")
	for _, c := range conns {
		_, err := c.Read(make([]byte, 1))
		if err == nil || os.IsTimeout(err) {
			t.Fatalf("a connection that says nothing is still there: %v", err)
		}
	}
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
}

// Clients that give up in each stage of the set-up leave nothing behind.
func TestHalfSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	s.complete(place{}, "--bytes", "200K", "--rcvbuf", "64K")
	idle := s.idle(t)
	f := func(port int, args ...string) {
		p := start(t, place{}, append([]string{"client", "127.0.0.1:" + strconv.Itoa(port), "-d", "60"}, args...)...)
		eventually(t, "the session", func() bool { return s.descriptors() > idle.descriptors })
		p.signal(syscall.SIGKILL)
		p.status()
	}
	for range 3 {
		f(int(s.addr.Port()))
		f(int(s.addr.Port()), "--rcvbuf", "64K", "-P", "8")
	}
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	if !slices.Equal(s.listening(t), []int{int(s.addr.Port())}) {
		t.Errorf("the server listens on ports %v", s.listening(t))
	}
}
