package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gperf/internal/netnstest"
)

const (
	// bounded is how long a test may outlive whatever happens to it: some seconds
	// until a sender's buffer is full, five of silence, one for acknowledgements,
	// and what a busy machine adds.
	bounded = 3 * patience / 4
	// deaf is a namespace that nothing reaches and that reaches nobody.
	deaf = `table inet deaf { chain i { type filter hook input priority 0; drop; }; chain o { type filter hook output priority 0; drop; }; }`
)

// A misfortune befalls a test in the middle.
type misfortune struct {
	name string
	// befall makes it happen; mend, which may be nil, ends it so that the next
	// client can be served.
	befall func(s *server, p *process, client, srv *netnstest.NS)
	mend   func(s *server, p *process, client, srv *netnstest.NS)
	// Whose processes live through it, and so have to end the test.
	client, server bool
}

func linkDown(t testing.TB, n *netnstest.NS) {
	t.Helper()
	if out, err := n.Command("ip", "link", "set", n.Device, "down").CombinedOutput(); err != nil {
		t.Fatalf("ip link set down: %v: %s", err, out)
	}
}

var misfortunes = []misfortune{
	{
		name: "server stopped", client: true, server: true,
		befall: func(s *server, _ *process, _, _ *netnstest.NS) { s.signal(syscall.SIGSTOP) },
		mend:   func(s *server, _ *process, _, _ *netnstest.NS) { s.signal(syscall.SIGCONT) },
	},
	{
		name: "client stopped", server: true,
		befall: func(_ *server, p *process, _, _ *netnstest.NS) { p.signal(syscall.SIGSTOP) },
	},
	{
		name: "cut off", client: true, server: true,
		befall: func(_ *server, _ *process, _, srv *netnstest.NS) { srv.Nft(deaf) },
		mend:   func(_ *server, _ *process, _, srv *netnstest.NS) { srv.Nft("flush ruleset") },
	},
	{
		name: "server gone without a word", client: true,
		befall: func(s *server, _ *process, _, srv *netnstest.NS) {
			linkDown(s.t, srv)
			s.signal(syscall.SIGKILL)
		},
	},
	{
		name: "client gone without a word", server: true,
		befall: func(s *server, p *process, client, _ *netnstest.NS) {
			linkDown(s.t, client)
			p.signal(syscall.SIGKILL)
		},
	},
}

// Whatever befalls a test, each end that lives through it ends the test in
// bounded time, with what was measured, and the server is ready for the next.
func TestMisfortunes(t *testing.T) {
	t.Parallel()
	// All at once, however few tests may run in parallel: they wait, and no more.
	var all sync.WaitGroup
	defer all.Wait()
	for _, m := range misfortunes {
		for _, test := range testTypes {
			all.Go(func() { t.Run(m.name+"/"+test, func(t *testing.T) { befall(t, &m, test) }) })
		}
	}
}

func befall(t *testing.T, m *misfortune, test string) {
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	// Slow, for there are many of them, but never still.
	args := []string{"-t", test, "-P", "2", "--rate", "10M"}
	if test == "TCP_RR" {
		args = []string{"-t", test, "-P", "2", "--pacing-rate", "2M"}
	}
	s.complete(place{ns: a}, append([]string{"-d", "0.1"}, args...)...) // what the runtime opens once
	idle := s.idle(t)
	p := s.underWay(t, place{ns: a}, args...)
	began := time.Now()
	m.befall(s, p, a, b)
	if m.client {
		p.status()
		if took := time.Since(began); took > bounded {
			t.Errorf("the client took %v to end", took)
		}
		o := p.outcome()
		o.failed(t, 1, s.addr.String())
		hasPartial(t, o, o.Error.Kind)
		if !slices.Contains([]string{"peer", "timeout"}, o.Error.Kind) {
			t.Errorf("the error is of kind %q: %s", o.Error.Kind, o.Error.Message)
		}
	}
	if m.mend != nil {
		m.mend(s, p, a, b)
	}
	if !m.server {
		return
	}
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	if m.name == "client stopped" {
		p.signal(syscall.SIGCONT)
		o := p.outcome()
		o.failed(t, 1, s.addr.String())
		hasPartial(t, o, "peer")
	}
	if m.name == "client gone without a word" {
		return // and its link with it
	}
	s.complete(place{ns: a}, append([]string{"-d", "0.1"}, args...)...)
}

// The data port answers a SYN with a reset.
func TestHandshakeReset(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0", "--data-ports", "12901-12910")
	s.complete(place{ns: a}, "-d", "0.05", "--rcvbuf", "64K")
	idle := s.idle(t)
	b.Nft(`table inet t { chain c { type filter hook input priority 0; tcp dport 12901-12910 reject with tcp reset; }; }`)
	o := s.client(place{ns: a}, "-d", "1", "--rcvbuf", "64K", "-P", "4")
	o.failed(t, 1, "connect data stream 1 of 4 to "+b.Addr4.String()+":129", "connection refused")
	if o.Error.Kind != "connect" {
		t.Errorf("the error is of kind %q", o.Error.Kind)
	}
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	b.Nft("flush ruleset")
	s.complete(place{ns: a}, "-d", "0.05", "--rcvbuf", "64K")
}

// limited is gperf with few descriptors.
func limited(args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `ulimit -n 64; exec "$@"`, "sh", gperf}, args...)...)
}

// P020: an end that can't open so many connections says so, with numbers, before
// it has tried.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		s := serve(t, place{})
		began := time.Now()
		cmd := limited("client", s.addr.String(), "-P", "128", "-d", "1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if text := stderr.String(); !strings.Contains(text, "client: 136 descriptors are needed, ") || !strings.Contains(text, " are available (see ulimit -n)") {
			t.Errorf("stderr: %q", text)
		}
		s.complete(place{}, "-d", "0.05")
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		srv := limited("server", "--listen", "127.0.0.1:0", "--port-file", dir+"/port")
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = srv.Process.Kill()
			_ = srv.Wait()
		})
		var port string
		eventually(t, "the port file", func() bool {
			text, err := os.ReadFile(dir + "/port")
			port = strings.TrimSpace(string(text))
			return err == nil && port != ""
		})
		began := time.Now()
		o := run(t, place{}, "-J", "127.0.0.1:"+port, "-P", "128", "-d", "1")
		o.failed(t, 2, "server 127.0.0.1:"+port+": 136 descriptors are needed, ", " are available (see ulimit -n)")
		if o.Error.End != "server" || time.Since(began) > 5*time.Second {
			t.Errorf("blames the %q after %v", o.Error.End, time.Since(began))
		}
		run(t, place{}, "-J", "127.0.0.1:"+port, "-P", "4", "-d", "0.05").mustComplete(t)
	})
}

// A reader of stdout that has gone ends the run, with a word on stderr.
func TestStdoutClosed(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.Command(gperf, "client", s.addr.String(), "-d", "60", "-i", "0.05", "--format", "jsonl")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil { // the test is under way
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	began := time.Now()
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || time.Since(began) > bounded {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "broken pipe") {
		t.Errorf("stderr: %q", text)
	}
	s.complete(place{}, "-d", "0.05")
}

// 500 connections that say nothing cost no thread each, and a test beside them
// is served.
func TestManySilentConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	s.complete(place{}, "-d", "0.05")
	idle := s.idle(t)
	for range 500 {
		c, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	eventually(t, "all of them taken in", func() bool { return s.descriptors() >= idle.descriptors+500 })
	if n := s.threads(); n > idle.threads+8 {
		t.Errorf("%d threads, %d before", n, idle.threads)
	}
	s.complete(place{}, "-d", "0.05", "-P", "4")
}

// P026: many short tests, some of which fail, leave the server as it was.
func TestManyUnevenRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	round := func(i int) {
		t.Helper()
		args := []string{"-d", "0.1", "-P", fmt.Sprint(1 + i%3), "-t", testTypes[i%3]}
		switch i % 10 {
		case 3: // refused by the server
			s.client(place{}, append(args, "--rcvbuf", ":1G")...).failed(t, 2, "rcvbuf")
		case 5: // killed
			p := s.underWay(t, place{}, "-t", testTypes[i%3])
			p.signal(syscall.SIGKILL)
			p.status()
		case 7: // its own listener
			s.complete(place{}, append(args, "--rcvbuf", "64K")...)
		case 9: // no test at all
			s.nuisance(t, "GET / HTTP/1.0\r\n\r\n")
		default:
			s.complete(place{}, args...)
		}
	}
	for i := range 10 {
		round(i)
	}
	idle, memory := s.idle(t), s.memory(t, "VmRSS")
	for i := range 60 {
		round(i)
	}
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	if now := s.idle(t); now.threads > idle.threads+4 {
		t.Errorf("%d threads, %d before", now.threads, idle.threads)
	}
	if now := s.memory(t, "VmRSS"); now > memory+memory/4+8<<20 {
		t.Errorf("%d bytes of memory, %d before", now, memory)
	}
	if !slices.Equal(s.listening(t), []int{int(s.addr.Port())}) {
		t.Errorf("the server listens on ports %v", s.listening(t))
	}
}

// memory is a figure of the process's /proc/PID/status, in bytes.
func (p *process) memory(t *testing.T, field string) (bytes int) {
	t.Helper()
	for _, line := range splitLines(readFile(t, fmt.Sprintf("/proc/%d/status", p.pid()))) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			if _, err := fmt.Sscan(rest, &bytes); err != nil {
				t.Fatal(err)
			}
			return bytes << 10
		}
	}
	t.Fatalf("no %s in the process's status", field)
	return 0
}
