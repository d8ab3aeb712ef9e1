package acceptance

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
)

// listeners are the addresses and ports in ns at which somebody listens.
func listeners(t *testing.T, ns *netnstest.NS) (all []string) {
	t.Helper()
	err := ns.Do(func() error {
		socks, err := sockets()
		for _, s := range socks {
			if s.state == listening {
				all = append(all, s.local.String())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// daemons are the processes that listen at a port in ns, by ss.
func daemons(t *testing.T, ns *netnstest.NS, port int) (pids []int) {
	t.Helper()
	if _, err := exec.LookPath("ss"); err != nil {
		t.Skip("needs ss: ", err)
	}
	out, err := ns.Command("ss", "-tlnpH", "sport", "=", ":"+strconv.Itoa(port)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"([^"]*)",pid=(\d+)`).FindAllStringSubmatch(string(out), -1) {
		if m[1] != "netserver" {
			t.Errorf("ss shows a process %q", m[1])
		}
		pid, _ := strconv.Atoi(m[2])
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// transacts checks that a netserver serves at host and port.
func transacts(t *testing.T, ns *netnstest.NS, host string, port int, args ...string) {
	t.Helper()
	args = append([]string{"netperf", "-H", host, "-p", strconv.Itoa(port), "-t", "TCP_RR", "-l", "-5"}, args...)
	newCommand(t, ns, append(args, "-P", "0")...).run().good(t)
}

// netserver returns when it listens, with one line, and leaves a process behind
// that has its name, and nothing else of whoever started it.
func TestNetserverDaemon(t *testing.T) {
	t.Parallel()
	asRoot(t)
	for _, tt := range []struct {
		args  []string
		line  string
		want  []string // listening; every address of IPv6 is shown as ::
		hosts []string // that reach it
	}{
		{nil, "host 'IN(6)ADDR_ANY' port '12865' and family AF_UNSPEC", []string{"[::]:12865"}, []string{"127.0.0.1", "::1"}},
		{[]string{"-4"}, "host 'IN(6)ADDR_ANY' port '12865' and family AF_INET", []string{"0.0.0.0:12865"}, []string{"127.0.0.1"}},
		{[]string{"-6"}, "host 'IN(6)ADDR_ANY' port '12865' and family AF_INET6", []string{"[::]:12865"}, []string{"::1"}},
		{[]string{"-p", "4321"}, "host 'IN(6)ADDR_ANY' port '4321' and family AF_UNSPEC", []string{"[::]:4321"}, []string{"127.0.0.1"}},
		{[]string{"-L", "127.0.0.1"}, "host '127.0.0.1' port '12865' and family AF_UNSPEC", []string{"127.0.0.1:12865"}, []string{"127.0.0.1"}},
		{[]string{"-L", "::1,6", "-p", "999"}, "host '::1' port '999' and family AF_INET6", []string{"[::]:999"}, []string{"::1"}},
		{[]string{"-L", ",4"}, "host 'IN(6)ADDR_ANY' port '12865' and family AF_INET", []string{"0.0.0.0:12865"}, []string{"127.0.0.1"}},
		{[]string{"-N", "-v", "2"}, "host 'IN(6)ADDR_ANY' port '12865' and family AF_UNSPEC", []string{"[::]:12865"}, []string{"127.0.0.1"}},
	} {
		t.Run(strings.Join(append([]string{"netserver"}, tt.args...), " "), func(t *testing.T) {
			t.Parallel()
			ns := netnstest.New(t)
			r := newCommand(t, ns, append([]string{"netserver"}, tt.args...)...).run()
			r.good(t)
			if want := "Starting netserver with " + tt.line + "\n"; r.stdout != want {
				t.Errorf("stdout %q, want %q", r.stdout, want)
			}
			if diff := cmp.Diff(tt.want, listeners(t, ns)); diff != "" {
				t.Errorf("listening (-want +got):\n%s", diff)
			}
			port := int(netip.MustParseAddrPort(tt.want[0]).Port())
			for _, host := range tt.hosts {
				transacts(t, ns, host, port)
			}
			pids := daemons(t, ns, port)
			if len(pids) != 1 {
				t.Fatalf("processes %v", pids)
			}
			detached(t, pids[0])
			if err := unix.Kill(pids[0], unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the daemon's end", func() bool { return len(listeners(t, ns)) == 0 })
		})
	}
}

// detached checks that a process stands for itself.
func detached(t *testing.T, pid int) {
	t.Helper()
	proc := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	if comm, err := os.ReadFile(proc("comm")); err != nil || string(comm) != "netserver\n" {
		t.Errorf("the process's name is %q, %v", comm, err)
	}
	if line, err := os.ReadFile(proc("cmdline")); err != nil || filepath.Base(strings.Split(string(line), "\x00")[0]) != "netserver" {
		t.Errorf("its command line is %q, %v", line, err)
	}
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("its session is %d's, %v", session, err)
	}
	for name, want := range map[string]string{"cwd": "/", "fd/0": "/dev/null", "fd/1": "/dev/null", "fd/2": "/dev/null"} {
		if got, err := os.Readlink(proc(name)); err != nil || got != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
}

// Scripts find the daemon by its name, and end it so: in a namespace of processes,
// where no other has it.
func TestNetserverByName(t *testing.T) {
	t.Parallel()
	asRoot(t)
	for _, program := range []string{"unshare", "pidof", "pgrep", "pkill"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	const script = `
set -e
gone() { while pgrep -x netserver >/dev/null; do :; done; echo gone; }
netserver >/dev/null
test "$(pidof netserver)" = "$(pgrep -x netserver)"
ps -C netserver -o comm= | sort -u
netperf -t TCP_RR -l -5 -P 0 -v 0 >/dev/null
pkill netserver
gone
netserver >/dev/null
pkill -f netserver
gone
netserver -D >/dev/null &
until netperf -t LOC_CPU >/dev/null; do :; done
pgrep -P $$ netserver >/dev/null
kill $!
wait $!
echo "status $?"
netserver >/dev/null
netperf -l 100 >/dev/null 2>&1 &
until pgrep -P $$ -x netperf >/dev/null; do :; done
pkill -KILL -x netperf
wait $! || echo ended
`
	ns := netnstest.New(t)
	c := newCommand(t, ns, "unshare", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", script)
	r := c.run()
	r.ended(t, 0)
	if want := "netserver\ngone\ngone\nstatus 0\nended\n"; r.stdout != want {
		t.Errorf("stdout %q, want %q; stderr %q", r.stdout, want, r.stderr)
	}
}

// A port that somebody has is no start.
func TestNetserverBusy(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	l := listenIn(t, ns, "[::]:12865")
	for _, args := range [][]string{nil, {"-D"}, {"-4"}, {"-L", "127.0.0.1"}} {
		r := newCommand(t, ns, append([]string{"netserver"}, args...)...).run()
		r.ended(t, 1)
		host, family := "IN(6)ADDR_ANY", "AF_UNSPEC"
		if slices.Contains(args, "-4") {
			family = "AF_INET"
		}
		if slices.Contains(args, "-L") {
			host = "127.0.0.1"
		}
		if want := fmt.Sprintf("Unable to start netserver with  '%s' port '12865' and family %s\n", host, family); r.stderr != want || r.stdout != "" {
			t.Errorf("%v: stdout %q, stderr %q, want %q", args, r.stdout, r.stderr, want)
		}
	}
	_ = l.Close()

	// With netserver's own port taken, gperf's server serves at its own, and says so.
	netserver(t, ns, "netserver", netperfPort)
	s := serve(t, place{ns: ns}, "--listen", "127.0.0.1:0", "--netperf", ":12865")
	eventually(t, "a word of the port that is taken", func() bool { return s.stderr.lines() > 0 })
	if text := s.stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "12865") {
		t.Errorf("stderr %q", text)
	}
	s.client(place{ns: ns}, quick("TCP_STREAM")...).mustComplete(t)
	transacts(t, ns, "127.0.0.1", int(s.addr.Port()))
}

// Where gperf's server serves netperf's clients.
func TestServerForNetperf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		want   []string
		served bool // netperf at the server's own port
	}{
		{"default", nil, []string{"[::]:12865", "[::]:12866"}, true},
		{"address", []string{"--listen", "127.0.0.1:1111"}, []string{"127.0.0.1:1111"}, true},
		{"both", []string{"--listen", "127.0.0.1:1111", "--netperf", "127.0.0.1:2222"}, []string{"127.0.0.1:1111", "127.0.0.1:2222"}, true},
		{"off", []string{"--netperf", "off"}, []string{"[::]:12866"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := netnstest.New(t)
			p := start(t, place{ns: ns}, append([]string{"server"}, tt.args...)...)
			eventually(t, "the server's ready lines", func() bool { return p.stdout.lines() == len(tt.want) || p.hasEnded() })
			if diff := cmp.Diff(tt.want, listeners(t, ns)); diff != "" || p.stderr.String() != "" {
				t.Fatalf("stderr %q, listening (-want +got):\n%s", p.stderr.String(), diff)
			}
			for _, addr := range tt.want {
				port := netip.MustParseAddrPort(addr).Port()
				if tt.served {
					transacts(t, ns, "127.0.0.1", int(port))
				} else {
					r := newCommand(t, ns, "netperf", "-H", "127.0.0.1", "-p", strconv.Itoa(int(port)), "-P", "0").run()
					r.ended(t, 1)
					if !strings.HasPrefix(r.stderr, "recv_response: ") || r.stdout != "" {
						t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
					}
				}
				run(t, place{ns: ns}, append([]string{"-J", fmt.Sprintf("127.0.0.1:%d", port)}, quick("TCP_RR")...)...).mustComplete(t)
			}
		})
	}
}

// A server that wants a secret serves nobody who can't prove it.
func TestSecretAndNetperf(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of some length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, place{ns: ns}, "server", "--secret-file", secret)
	eventually(t, "the server's ready line", func() bool { return p.stdout.lines() > 0 || p.hasEnded() })
	if diff := cmp.Diff([]string{"[::]:12866"}, listeners(t, ns)); diff != "" {
		t.Fatalf("listening (-want +got):\n%s", diff)
	}
	r := newCommand(t, ns, "netperf", "-H", "127.0.0.1", "-p", "12866", "-P", "0", "-l", "1").run()
	r.ended(t, 1)
	if !strings.HasPrefix(r.stderr, "recv_response: ") {
		t.Errorf("stderr %q", r.stderr)
	}
	run(t, place{ns: ns}, append([]string{"127.0.0.1", "-J", "--secret-file", secret}, quick("TCP_RR")...)...).mustComplete(t)

	both := start(t, place{ns: ns}, "server", "--secret-file", secret, "--listen", "127.0.0.1:0", "--netperf", ":12865")
	if status := both.status(); status != 2 || !strings.Contains(both.stderr.String(), "--netperf :12865") {
		t.Errorf("exit status %d, stderr %q", status, both.stderr.String())
	}
}

// With -D netserver stays, and a signal ends it well; with -f it has one client at
// a time.
func TestNetserverStays(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := newCommand(t, ns, "netserver", "-D")
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a netserver that listens", func() bool { return len(listeners(t, ns)) == 1 })
		transacts(t, ns, "127.0.0.1", netperfPort)
		if err := c.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("%v: %v, stderr %q", signal, err, c.stderr.String())
		}
		if want := "Starting netserver with host 'IN(6)ADDR_ANY' port '12865' and family AF_UNSPEC\n"; c.stdout.String() != want || c.stderr.String() != "" {
			t.Errorf("stdout %q, stderr %q", c.stdout.String(), c.stderr.String())
		}
	}

	netserver(t, ns, "netserver", netperfPort, "-f")
	first := newCommand(t, ns, "netperf", "-H", "127.0.0.1", "-l", "60", "-t", "TCP_RR", "-P", "0")
	if err := first.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	connected := func(n int) func() bool {
		return func() bool {
			established := 0
			_ = ns.Do(func() error {
				all, err := sockets()
				for _, s := range all {
					if s.state == 1 && s.local.Port() == netperfPort {
						established++
					}
				}
				return err
			})
			return established == n
		}
	}
	eventually(t, "the first client's connection", connected(1))
	second := newCommand(t, ns, "netperf", "-H", "127.0.0.1", "-l", "-5", "-t", "TCP_RR", "-P", "0")
	if err := second.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- second.cmd.Wait() }()
	eventually(t, "the second client's connection", connected(2))
	select {
	case err := <-ended:
		t.Errorf("the second client was served beside the first: %v", err)
	default:
	}
	if err := first.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Errorf("%v, %s", err, first.stderr.String())
	}
	if err := <-ended; err != nil {
		t.Errorf("%v, %s", err, second.stderr.String())
	}
}

// -d makes a log, and says what it looks for.
func TestNetserverDebug(t *testing.T) {
	t.Parallel()
	asRoot(t)
	ns := netnstest.New(t)
	r := newCommand(t, ns, "netserver", "-d").run()
	r.ended(t, 0)
	if !strings.Contains(r.stdout, "check_if_inetd") || !strings.Contains(r.stdout, "Starting netserver with host") {
		t.Errorf("stdout %q", r.stdout)
	}
	pids := daemons(t, ns, netperfPort)
	if len(pids) != 1 {
		t.Fatalf("processes %v", pids)
	}
	log, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pids[0]))
	if err != nil || !strings.HasPrefix(log, "/var/log/netserver.debug_") {
		t.Fatalf("standard error goes to %s, %v", log, err)
	}
	t.Cleanup(func() { _ = os.Remove(log) })
	transacts(t, ns, "127.0.0.1", netperfPort)
	eventually(t, "an entry of the client", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "127.0.0.1")
	})
}

// A netserver whose standard input is a connection serves that, as inetd wants it.
func TestNetserverInetd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan *ran, 1)
	c := newCommand(t, nil, "netserver")
	go func() {
		conn, err := l.Accept()
		if err != nil {
			served <- &ran{failure: err}
			return
		}
		f, err := conn.(*net.TCPConn).File()
		_ = conn.Close()
		if err != nil {
			served <- &ran{failure: err}
			return
		}
		defer f.Close()
		c.cmd.Stdin = f
		served <- c.run()
	}()
	transacts(t, nil, "127.0.0.1", l.Addr().(*net.TCPAddr).Port)
	r := <-served
	r.ended(t, 0)
	if r.stdout != "" || r.stderr != "" {
		t.Errorf("stdout %q, stderr %q: these are the connection's in a real inetd's", r.stdout, r.stderr)
	}
}

// What signals end: SIGINT and SIGALRM, also of timeout(1), with the results, and
// SIGTERM without.
func TestNetperfSignals(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for signal, results := range map[syscall.Signal]bool{syscall.SIGINT: true, syscall.SIGALRM: true, syscall.SIGTERM: false} {
		for _, test := range []string{"TCP_STREAM", "TCP_RR"} {
			t.Run(unix.SignalName(signal)+" "+test, func(t *testing.T) {
				t.Parallel()
				c := s.netperf("-P", "0", "-l", "3600", "-D", "-0.05", "-t", test, "--", "-k", "THROUGHPUT")
				if err := c.cmd.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "an interim result", func() bool { return strings.Contains(c.stdout.String(), "NETPERF_ENDING[1]") })
				if err := c.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = c.cmd.Wait()
				status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
				has := regexp.MustCompile(`(?m)^THROUGHPUT=\d+\.\d+$`).MatchString(c.stdout.String())
				if has != results || c.stderr.String() != "" {
					t.Errorf("results: %t, stderr %q", has, c.stderr.String())
				}
				if results && status.ExitStatus() != 0 || !results && (!status.Signaled() || status.Signal() != signal) {
					t.Errorf("exit status %d, signal %v", status.ExitStatus(), status.Signal())
				}
			})
		}
	}
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("timeout"); err != nil {
			t.Skip("needs timeout: ", err)
		}
		netperf := s.netperf("-P", "0", "-l", "3600", "--", "-k", "ELAPSED_TIME").cmd
		c := newCommand(t, nil, slices.Concat([]string{"/usr/bin/env", "timeout", "--preserve-status", "-s", "ALRM", "1", netperf.Path}, netperf.Args[1:])...)
		r := c.run()
		r.good(t)
		if n := r.figures(t).number(t, "ELAPSED_TIME"); n <= 0 || n > c.length.Seconds()+grace.Seconds() {
			t.Errorf("%s", r.stdout)
		}
	})
	// Its place at the server is free again, whatever ended a client.
	s.netperf("-l", "-5", "-t", "TCP_RR").run().good(t)
}

// gperf is netperf and netserver by the name of the link, wherever it is, and by its
// first argument.
func TestPersonalities(t *testing.T) {
	t.Parallel()
	dir, err := personalities()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"netperf", "netserver"} {
		for _, argv := range [][]string{{filepath.Join(dir, name)}, {gperf, name}} {
			r := newCommand(t, nil, append(argv, "-V")...).run()
			r.good(t)
			if r.stdout != "Netperf version 2.7.1\n" {
				t.Errorf("%v: stdout %q", argv, r.stdout)
			}
			r = newCommand(t, nil, append(argv, "-h")...).run()
			r.ended(t, 1)
			if !strings.HasPrefix(r.stderr, "\nUsage: "+name+" ") || r.stdout != "" {
				t.Errorf("%v: stdout %q, stderr %q", argv, r.stdout, r.stderr)
			}
			r = newCommand(t, nil, append(argv, "-Q")...).run()
			r.ended(t, 1)
			if !strings.HasPrefix(r.stderr, name+": invalid option -- 'Q'\n") {
				t.Errorf("%v: stderr %q", argv, r.stderr)
			}
		}
	}
	ns := netnstest.New(t)
	newCommand(t, ns, gperf, "netserver").run().good(t)
	transacts(t, ns, "127.0.0.1", netperfPort)
	newCommand(t, ns, gperf, "netperf", "-t", "TCP_RR", "-l", "-5").run().good(t)
	run(t, place{ns: ns}, append([]string{"127.0.0.1:12865", "-J"}, quick("TCP_STREAM")...)...).mustComplete(t)
}
