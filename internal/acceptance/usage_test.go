package acceptance

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/result"
)

// The commands that the README begins with: a server of its own, a table of
// figures per stream.
func TestFirstCommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-d", "0.2"}, {"-t", "TCP_RR", "-d", "0.2"}, {"-d", "0.2", "-P", "2", "-i", "0.1"}} {
		o := run(t, place{}, args...)
		if o.status != 0 || o.stderr != "" {
			t.Fatalf("%v: exit status %d, stderr %q", args, o.status, o.stderr)
		}
		test, words := "TCP_STREAM", []string{"bit/s", "retrans"}
		if slices.Contains(args, "TCP_RR") {
			test, words = "TCP_RR", []string{"p99"}
		}
		for _, w := range append(words, test) {
			if !strings.Contains(strings.ToLower(o.stdout), strings.ToLower(w)) {
				t.Errorf("%v: stdout lacks %q:\n%s", args, w, o.stdout)
			}
		}
		o = run(t, place{}, append(args, "-J")...)
		o.mustComplete(t)
	}
}

// sentry listens where no connection may come.
func sentry(t *testing.T) (addr string, check func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), func() {
		t.Helper()
		// All clients have ended: what they began is in the queue, or nothing is.
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Millisecond))
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
			t.Error("somebody connected")
		}
	}
}

// What is wrong on the command line costs one line, exit status 2 and no
// packet; with -J there is a document too.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	addr, check := sentry(t)
	for _, tt := range []struct {
		args  []string
		words []string
	}{
		{[]string{addr, "--warp"}, []string{"warp"}},
		{[]string{"--warp", addr}, []string{"warp"}},
		{[]string{addr, "--warp=9"}, []string{"warp"}},
		{[]string{addr, "-d", "soon"}, []string{"duration", "soon"}},
		{[]string{addr, "--rcvbuf", "8Q"}, []string{"rcvbuf", "8Q"}},
		{[]string{addr, "--rcvbuf", "8K:8K:8K"}, []string{"rcvbuf"}},
		{[]string{addr, "--nodelay", "on"}, []string{"nodelay", "on"}},
		{[]string{"--nodelay", "off", addr}, []string{"nodelay", "off"}},
		{[]string{"--nodelay", "on:off", addr}, []string{"nodelay", "on:off"}},
		{[]string{addr, "--nodelay=maybe"}, []string{"nodelay", "maybe"}},
		{[]string{addr, "-t", "TCP_WARP"}, []string{"TCP_WARP"}},
		{[]string{addr, "--bytes", "1M", "-d", "3"}, []string{"duration"}},
		{[]string{addr, "--bytes", "1M", "--warmup", "1"}, []string{"warmup"}},
		{[]string{addr, "--bytes", "1M", "-t", "TCP_RR"}, []string{"bytes"}},
		{[]string{addr, "--transactions", "5", "-t", "TCP_STREAM"}, []string{"transactions"}},
		{[]string{addr, "--bytes", "2", "-P", "3"}, []string{"streams"}},
		{[]string{addr, "-i", "1ms"}, []string{"interval"}},
		{[]string{addr, "-P", "0"}, []string{"streams", "0"}},
		{[]string{addr, "-m", "0"}, []string{"message-size"}},
		{[]string{addr, "--burst", "3"}, []string{"burst"}},
		{[]string{addr, "--sockopt", "SOL_TCP/TCP_WARP=1"}, []string{"TCP_WARP"}},
		{[]string{addr, "--congestion", "nosuchalgorithm:"}, []string{"TCP_CONGESTION", "nosuchalgorithm"}},
		{[]string{addr, "--mss", "10"}, []string{"mss", "10"}},
		{[]string{addr, "another"}, []string{"another"}},
		{[]string{addr, "-4", "-6"}, []string{"-4"}},
		{[]string{"127.0.0.1:99999"}, []string{"99999"}},
		{[]string{""}, []string{"host"}},
		{[]string{addr, "--secret-file", "/no/such/file"}, []string{"/no/such/file"}},
		{[]string{addr, "-o", "/no/such/directory/file"}, []string{"/no/such/directory/file"}},
	} {
		t.Run(strings.ReplaceAll(strings.Join(tt.args, " "), addr, "HOST"), func(t *testing.T) {
			o := run(t, place{}, tt.args...)
			o.failed(t, 2, tt.words...)
			if o.stdout != "" {
				t.Errorf("stdout %q", o.stdout)
			}
			o = run(t, place{}, append([]string{"-J"}, tt.args...)...)
			o.failed(t, 2, tt.words...)
			if o.Status != result.Failed || o.Summary != nil {
				t.Errorf("document: %s", o.verdict())
			}
		})
	}
	check()
}

// A client without a host has the same errors, and leaves no server behind.
func TestUsageErrorsWithoutHost(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--sndbuf", "1K"}, {"--congestion", "nosuch"}, {"--rcvbuf", ":1K"}, {"--warp"}} {
		run(t, place{}, append([]string{"-J", "--bytes", "200K"}, args...)...).failed(t, 2)
	}
}

// Flags stand before or after the host, with "=" or without.
func TestFlagOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	host := s.addr.String()
	for _, args := range [][]string{
		{"-J", "-d", "0.3", "-m", "1000", "--nodelay", "--label", "a=b,c", host},
		{host, "-J", "-d", "0.3", "-m", "1000", "--nodelay", "--label", "a=b,c"},
		{"-J", "-d=0.3", "--nodelay", host, "--message-size=1000", "--label=a=b,c"},
		{"-J", "--duration", "300ms", "-m", "1000:1000", "--nodelay=on:on", host, "--label", "a=b,c"},
	} {
		o := run(t, place{}, args...)
		o.mustComplete(t)
		if o.Plan.Client.SendSize != 1000 || o.Plan.Server.SendSize != 1000 || o.Labels["a"] != "b,c" ||
			time.Duration(o.Plan.Duration) != 300*time.Millisecond || len(o.Plan.Server.Knobs) != 1 {
			t.Errorf("%v: plan %+v, labels %v", args, o.Plan, o.Labels)
		}
	}
}

// Results go where they are sent, can be shown again, and stderr stays out of
// it.
func TestOutput(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	file := filepath.Join(t.TempDir(), "result.json")
	o := run(t, place{}, s.addr.String(), "--bytes", "200K", "--format", "json", "-o", file)
	if o.status != 0 || o.stdout+o.stderr != "" {
		t.Fatalf("exit status %d, stdout %q, stderr %q", o.status, o.stdout, o.stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	document(t, string(text))
	show := start(t, place{}, "show", "-J", file)
	if status := show.status(); status != 0 || show.stdout.String() != string(text) {
		t.Errorf("show: exit status %d, stderr %q; not the same document", status, &show.stderr)
	}
	show = start(t, place{}, "show", file)
	if status := show.status(); status != 0 || !strings.Contains(show.stdout.String(), "TCP_STREAM") {
		t.Errorf("show as text: exit status %d, stderr %q:\n%s", status, &show.stderr, &show.stdout)
	}
}

// The server says where it is, in words, in a file, and only once it's there;
// --once ends it after one test.
func TestServerReady(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "port")
	s := serve(t, place{}, "--once", "--port-file", file)
	text, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(int(s.addr.Port())) {
		t.Errorf("port file %q, %v; the server is at %s", text, err, s.addr)
	}
	s.complete(place{}, "--bytes", "200K")
	if status := s.status(); status != 0 || s.stderr.String() != "" || s.stdout.lines() != 1 {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, &s.stdout, &s.stderr)
	}
	taken := serve(t, place{})
	p := start(t, place{}, "server", "--listen", taken.addr.String())
	if status := p.status(); status != 1 || !strings.Contains(p.stderr.String(), taken.addr.String()) || p.stderr.lines() != 1 {
		t.Errorf("a second server there: exit status %d, stderr %q", status, &p.stderr)
	}
	p = start(t, place{}, "server", "--warp")
	if status := p.status(); status != 2 || p.stderr.lines() != 1 {
		t.Errorf("exit status %d, stderr %q", status, &p.stderr)
	}
}

// --allow and --secret-file keep others out, in words.
func TestAdmission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours, theirs := secret("ours", "one\n"), secret("theirs", "two\n")
	s := serve(t, place{}, "--secret-file", ours)
	s.complete(place{}, "--bytes", "200K", "--secret-file", ours)
	s.client(place{}, "--bytes", "200K", "--secret-file", theirs).failed(t, 1, "secret")
	s.client(place{}, "--bytes", "200K").failed(t, 1, "secret")
	serve(t, place{}).client(place{}, "--bytes", "200K", "--secret-file", ours).failed(t, 1, "secret")

	s = serve(t, place{}, "--allow", "127.0.0.7", "--max-streams", "2", "--max-duration", "1")
	s.complete(place{}, "--bytes", "200K", "--bind", "127.0.0.7")
	s.client(place{}, "--bytes", "200K", "--connect-timeout", "1").failed(t, 1, s.addr.String())
	s.client(place{}, "--bytes", "200K", "--bind", "127.0.0.7", "-P", "3").failed(t, 2, "3 streams", "limit of 2")
	s.client(place{}, "-d", "2", "--bind", "127.0.0.7").failed(t, 2, "2s", "limit of 1s")
}
