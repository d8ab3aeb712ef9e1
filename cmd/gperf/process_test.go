//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/internal/netnstest"
)

// soon is how quickly a test of a minute that was told to end must have.
const soon = 10 * time.Second

// startPiped starts a command with pipes for its outputs.
func startPiped(t testing.TB, cmd *exec.Cmd) (stdout *bufio.Reader, stderr io.Reader) {
	t.Helper()
	out, err1 := cmd.StdoutPipe()
	errs, err2 := cmd.StderrPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	return bufio.NewReader(out), errs
}

// finish reads what a command has left to say and awaits its end.
func finish(t testing.TB, cmd *exec.Cmd, stdout, stderr io.Reader) outcome {
	t.Helper()
	rest, err1 := io.ReadAll(stdout)
	said, err2 := io.ReadAll(stderr)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the status tells
	return outcome{cmd.ProcessState.ExitCode(), string(rest), string(said)}
}

// The first signal ends a test early, and what was measured is printed.
func TestSignal(t *testing.T) {
	for _, test := range []string{"TCP_STREAM", "TCP_MAERTS", "TCP_RR"} {
		t.Run("text/"+test, func(t *testing.T) {
			t.Parallel()
			cmd := gperf(t, "client", "-t", test, "-d", "60", "-i", "0.05")
			stdout, stderr := startPiped(t, cmd)
			for lines := 0; lines < 2; { // it's measuring
				line, err := stdout.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(line, "-> ") || strings.HasPrefix(line, "<- ") || strings.HasPrefix(line, "<> ") {
					lines++
				}
			}
			got := endBy(t, cmd, syscall.SIGINT, stdout, stderr)
			if !strings.Contains(got.stdout, "retransmits") || !strings.Contains(got.stdout, "partial") {
				t.Errorf("the result is not there, or doesn't say that it's partial:\n%s", got.stdout)
			}
		})
		t.Run("json/"+test, func(t *testing.T) {
			t.Parallel()
			cmd := gperf(t, "client", "-t", test, "-d", "60", "-i", "0.05", "--format", "jsonl", "-P", "2")
			stdout, stderr := startPiped(t, cmd)
			if _, err := stdout.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			got := endBy(t, cmd, syscall.SIGTERM, stdout, stderr)
			last := got.stdout[strings.LastIndex(strings.TrimSpace(got.stdout), "\n")+1:]
			if err := checkDocument(last); err != nil {
				t.Fatalf("%v\n%s", err, last)
			}
			for key, want := range map[string]string{"status": `"partial"`, "error.kind": `"signal"`} {
				if value, err := lookUp(last, key); err != nil || value != want {
					t.Errorf("%s is %s (%v), want %s", key, value, err, want)
				}
			}
			if value, err := lookUp(last, "summary.duration_seconds"); err != nil || value == "null" || value == "0" {
				t.Errorf("summary.duration_seconds is %s (%v)", value, err)
			}
		})
	}
}

// endBy signals a command, which must end soon, with one line and the status of
// a signal.
func endBy(t testing.TB, cmd *exec.Cmd, signal syscall.Signal, stdout, stderr io.Reader) outcome {
	t.Helper()
	begun := time.Now()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	got := finish(t, cmd, stdout, stderr)
	if took := time.Since(begun); took > soon {
		t.Errorf("it took %v to end", took)
	}
	if got.status != exitSignal {
		t.Errorf("exit status %d, want %d", got.status, exitSignal)
	}
	if err := oneLine(got.stderr, "^gperf: client: ended by a signal$"); err != nil {
		t.Error(err)
	}
	return got
}

// A signal also ends a test that hasn't begun, whatever stage it's at.
func TestSignalBeforeTheTest(t *testing.T) {
	for _, kind := range []string{"silent", "mute"} {
		for _, format := range []string{"text", "json"} {
			t.Run(kind+"/"+format, func(t *testing.T) {
				t.Parallel()
				reached := make(chan struct{})
				addr, stop, err := startPeer(func(c net.Conn) {
					if kind == "mute" {
						peers["mute"](&tapped{Conn: c, want: []byte(`"ping"`), seen: reached})
						return
					}
					peers["silent"](&tapped{Conn: c, want: []byte(`"hello"`), seen: reached})
				})
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				cmd := gperf(t, "client", addr, "--connect-timeout", "60", "--format", format)
				stdout, stderr := startPiped(t, cmd)
				<-reached
				got := endBy(t, cmd, syscall.SIGTERM, stdout, stderr)
				if format == "text" {
					if got.stdout != "" {
						t.Errorf("stdout has %q", got.stdout)
					}
					return
				}
				if err := checkDocument(got.stdout); err != nil {
					t.Fatalf("%v\n%s", err, got.stdout)
				}
				if kind, err := lookUp(got.stdout, "error.kind"); kind != `"signal"` {
					t.Errorf("error.kind is %s (%v)", kind, err)
				}
			})
		}
	}
}

// tapped tells when something has been read from a connection.
type tapped struct {
	net.Conn
	want, got []byte
	seen      chan struct{}
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.seen != nil {
		if c.got = append(c.got, b[:n]...); bytes.Contains(c.got, c.want) {
			close(c.seen)
			c.seen = nil
		}
	}
	return n, err
}

// The second signal ends the program at once, and with it the server that it
// has started. The server is stopped here, so that the first can't do it.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	server := gperf(t, "server", "--listen", "127.0.0.1:0")
	port := serve(t, server)
	cmd := gperf(t, "client", "127.0.0.1:"+port, "-d", "60", "-i", "0.02")
	stdout, stderr := startPiped(t, cmd)
	for line := ""; !strings.HasPrefix(line, "-> "); {
		var err error
		if line, err = stdout.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	// Two signals of a kind that wait, in the kernel or in Go's runtime, are one.
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	got := finish(t, cmd, stdout, stderr)
	// The first signal alone would have it wait for the server.
	if took := time.Since(begun); got.status != exitSignal || took >= flow.Grace {
		t.Errorf("exit status %d after %v, want %d at once", got.status, took, exitSignal)
	}
	if got.stderr != "" {
		t.Errorf("stderr has %q", got.stderr)
	}
}

// A signal ends a server, whose status is then that of a service stopped in
// order.
func TestServerSignal(t *testing.T) {
	t.Parallel()
	server := gperf(t, "server", "--listen", "127.0.0.1:0")
	serve(t, server)
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

func TestServerOnce(t *testing.T) {
	t.Parallel()
	server := gperf(t, "server", "--listen", "127.0.0.1:0", "--once")
	port := serve(t, server)
	if got := outcomeOf(t, gperf(t, "client", "127.0.0.1:"+port, "--bytes", "64K")); got.status != exitOK {
		t.Fatalf("client: %+v", got)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
}

// A client that fails before it reaches the server that it has started leaves
// none behind.
func TestNoServerLeft(t *testing.T) {
	t.Parallel()
	cmd := gperf(t, "client", "--rcvbuf", "2047M")
	got := outcomeOf(t, cmd)
	if got.status != exitUsage {
		t.Fatalf("got %+v", got)
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatal("no processes: ", err)
	}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var parent int
		_, rest, _ := strings.Cut(string(b), ") ")
		_, _ = fmt.Sscanf(rest, "%1s %d", new(string), &parent)
		if parent == cmd.Process.Pid {
			t.Errorf("%s is a child of it", file)
		}
	}
}

// A stdout that takes nothing is an error with a line, in every command and
// format.
func TestStdoutFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = full.Close() })
	closed, gone, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gone.Close() })
	_ = closed.Close()
	saved := filepath.Join(t.TempDir(), "run.json")
	if got := outcomeOf(t, gperf(t, "client", "--bytes", "64K", "-J", "-o", saved)); got.status != exitOK {
		t.Fatalf("client: %+v", got)
	}
	for _, out := range []struct {
		file *os.File
		why  string
	}{{full, "no space left on device"}, {gone, "broken pipe"}} {
		for _, args := range []string{
			"client --bytes 64K", "client --bytes 64K -J", "client --bytes 64K --format csv", "client 127.0.0.1:1 -J",
			"client -d 60 -i 0.02", "client -d 60 -i 0.02 --format jsonl",
			"show " + saved, "show -J " + saved, "probe", "probe -J", "--help", "client --help", "--version",
			"server --listen 127.0.0.1:0",
		} {
			t.Run(out.why+"/"+strings.ReplaceAll(args, saved, "FILE"), func(t *testing.T) {
				t.Parallel()
				cmd := gperf(t, strings.Fields(args)...)
				var stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = out.file, &stderr
				start(t, cmd)
				begun := time.Now()
				_ = cmd.Wait() // the status tells
				if took := time.Since(begun); took > soon {
					t.Errorf("it took %v to end", took)
				}
				if got := cmd.ProcessState.ExitCode(); got != exitFailed {
					t.Errorf("exit status %d, want %d", got, exitFailed)
				}
				if err := oneLine(stderr.String(), out.why+"$"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Progress is for a terminal: there it comes and goes, elsewhere it's never
// written.
func TestProgress(t *testing.T) {
	t.Parallel()
	t.Run("not a terminal", func(t *testing.T) {
		got := outcomeOf(t, gperf(t, "client", "-d", "0.4", "-i", "0.05"))
		if got.status != exitOK || got.stderr != "" {
			t.Errorf("exit status %d, stderr %q", got.status, got.stderr)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		stdout, terminal := onTerminal(t, gperf(t, "client", "-d", "0.4", "-i", "0.05"))
		if !strings.Contains(terminal, "of 0.4 s, ") || !strings.Contains(terminal, "bit/s") {
			t.Errorf("no progress: %q", terminal)
		}
		if !strings.HasSuffix(terminal, "\r\033[K") {
			t.Errorf("the last progress was not taken away: %q", terminal)
		}
		if strings.Contains(stdout, "\033") || !strings.Contains(stdout, "throughput") {
			t.Errorf("stdout is %q", stdout)
		}
	})
	t.Run("transactions", func(t *testing.T) {
		_, terminal := onTerminal(t, gperf(t, "client", "-t", "TCP_RR", "-d", "0.4", "-i", "0.05", "-J"))
		if !strings.Contains(terminal, "transactions/s") {
			t.Errorf("no progress: %q", terminal)
		}
	})
	t.Run("quiet", func(t *testing.T) {
		if _, terminal := onTerminal(t, gperf(t, "client", "-d", "0.4", "-i", "0.05", "--quiet")); terminal != "" {
			t.Errorf("the terminal got %q", terminal)
		}
	})
}

// onTerminal runs a command whose stderr is a terminal, and returns what came
// out of it there and on stdout.
func onTerminal(t *testing.T, cmd *exec.Cmd) (stdout, terminal string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs pseudo-terminals: ", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	number, err1 := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err2 := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	slave, err3 := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, slave
	start(t, cmd)
	_ = slave.Close() // the command has its own
	seen := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends with EIO when the last slave is closed
		seen <- string(b)
	}()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return out.String(), <-seen
}

// Case P036: link-local and other IPv6 addresses, on control and data sockets.
func TestIPv6(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	if !a.Addr6.IsValid() {
		t.Skip("needs a kernel with IPv6")
	}
	inside := func(n *netnstest.NS, args ...string) *exec.Cmd {
		path, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// A shell gives it its name, which says what the test binary is to be.
		return n.Command("bash", append([]string{"-c", `exec -a gperf "$0" "$@"`, path}, args...)...)
	}
	port := serve(t, inside(b, "server", "--listen", "[::]:0"))
	scoped := serve(t, inside(b, "server", "--listen", "["+b.LinkLocal.String()+"]:0"))
	local := b.LinkLocal.WithZone(a.Device).String()
	tests := []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"scoped, bracketed, with port", []string{"[" + local + "]:" + port}, exitOK, ""},
		{"server on a scoped address", []string{"[" + local + "]:" + scoped, "-6"}, exitOK, ""},
		{"listener of its own", []string{"[" + local + "]:" + scoped, "--rcvbuf", "64K", "-P", "3"}, exitOK, ""},
		{"global", []string{"[" + b.Addr6.String() + "]:" + port, "-t", "TCP_MAERTS"}, exitOK, ""},
		{"IPv4 of a server of both", []string{b.Addr4.String() + ":" + port, "-4", "-t", "TCP_RR"}, exitOK, ""},
		{"scoped, without port", []string{local}, exitFailed, "connect \\[fe80::.*%veth0\\]:12866: connection refused$"},
		{"bracketed, without port", []string{"[" + local + "]"}, exitFailed, "connect \\[fe80::.*%veth0\\]:12866: connection refused$"},
		{"no scope", []string{"[" + b.LinkLocal.WithZone("").String() + "]:" + port}, exitUsage, "link-local, so it needs a scope"},
		{"unknown scope", []string{"[" + b.LinkLocal.WithZone("nosuch0").String() + "]:" + port}, exitFailed, "nosuch0"},
		{"family of another kind", []string{"[" + local + "]:" + port, "-4"}, exitUsage, "not an address of IPv4"},
		{"family of another kind, global", []string{b.Addr6.String(), "-4"}, exitUsage, "not an address of IPv4"},
		{"bound", []string{"[" + local + "]:" + port, "--bind", a.LinkLocal.String()}, exitOK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := outcomeOf(t, inside(a, append([]string{"client", "-d", "0.3", "-J", "--connect-timeout", "2"}, tt.args...)...))
			if got.status != tt.status {
				t.Errorf("exit status %d, want %d (%s)", got.status, tt.status, got.stderr)
			}
			if err := checkDocument(got.stdout); err != nil {
				t.Errorf("%v\n%s", err, got.stdout)
			}
			if tt.status == exitOK {
				if got.stderr != "" {
					t.Errorf("stderr has %q", got.stderr)
				}
			} else if err := oneLine(got.stderr, tt.stderr); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("loopback", func(t *testing.T) {
		got := outcomeOf(t, inside(b, "client", "-d", "0.3", "-J", "[::1]:"+port))
		if err := checkDocument(got.stdout); err != nil || got.status != exitOK {
			t.Errorf("%+v: %v", got, err)
		}
	})
}
