package lab

import (
	"bufio"
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/internal/sys"
	"gperf/sockopt"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// By these variables this test program knows that it has been started to go
// into a lab: to run a test there, or to be one of helpers.
const (
	testVariable   = "LAB_TEST_KIND"
	helperVariable = "LAB_TEST_HELPER"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(testVariable); kind != "" {
		status, inside, err := Enter(Kind(kind))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if !inside {
			os.Exit(status)
		}
	}
	if name := os.Getenv(helperVariable); name != "" {
		os.Exit(helpers[name]())
	}
	os.Exit(m.Run())
}

// needPrivilege skips a test that needs to make namespaces as root.
func needPrivilege(t *testing.T) {
	t.Helper()
	if !privileged() {
		t.Skip("needs CAP_SYS_ADMIN and CAP_NET_ADMIN for a network namespace")
	}
}

// needTUN skips a test of gperf's own link where there can't be one.
func needTUN(t *testing.T) {
	t.Helper()
	if err := checkTUN(); err != nil {
		t.Skip(err)
	}
}

// program prepares this test program to run again, as a test or a helper in a
// lab.
func program(t *testing.T, kind Kind, helper string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	// Under the race detector each process would wait a second at its end.
	cmd.Env = append(os.Environ(), testVariable+"="+string(kind), helperVariable+"="+helper, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd
}

// inLab runs f in a lab of a kind, in a process of its own: this test, run
// again.
func inLab(t *testing.T, kind Kind, f func(t *testing.T, l *Lab)) {
	t.Helper()
	needPrivilege(t)
	if isInside() {
		l, err := Open(kind)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, l)
		return
	}
	cmd := program(t, kind, "", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.timeout=60s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in the lab: %v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("in the lab the test didn't run:\n%s", out)
	}
}

// A report is what the helper "stay" says of itself.
type report struct {
	Inside     int      // the process inside
	Children   []int    // what it has started
	Namespaces []string // of the lab, as /proc shows them
}

var helpers = map[string]func() int{
	// argue shows what a process that Enter has started gets.
	"argue": func() int {
		stdin, _ := io.ReadAll(os.Stdin)
		fmt.Printf("%q %s %q\n", os.Args[1:], stdin, os.Getenv(variable))
		fmt.Fprintln(os.Stderr, "to stderr")
		return 5
	},
	"die": func() int {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		return 0
	},
	// stay opens a lab, puts settings into force, starts a process with one in
	// its background in each end, says so, and stays until stdin ends or
	// SIGINT ends it.
	"stay": func() int {
		if err := stay(); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	},
}

func stay() error {
	kind := Kind(os.Getenv(testVariable))
	l, err := Open(kind)
	if err != nil {
		return err
	}
	settings := []Setting{
		{Name: "mtu", Value: "2000"}, {Name: "sysctl.net.ipv4.tcp_sack", Value: "0"},
		{Name: "offload.tso", Value: "off"}, {Name: "qdisc", Value: "pfifo"},
	}
	if kind == Veth {
		settings = append(settings, Setting{Name: "link-rate", Value: "100M"})
	}
	if kind == Veth && checkTUN() == nil {
		settings = append(settings, Setting{Name: "delay", Value: "1ms"})
	}
	if _, err := l.Apply(settings); err != nil {
		return err
	}
	r := report{Inside: os.Getpid()}
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		err := l.Do(end, func() error {
			ns, err := os.Readlink("/proc/thread-self/ns/net")
			r.Namespaces = append(r.Namespaces, ns)
			return err
		})
		if err != nil {
			return err
		}
		cmd := exec.Command("sh", "-c", "sleep 1000 >&- 2>&- & echo $!; exec sleep 1000")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := l.Start(end, cmd); err != nil {
			return err
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			return err
		}
		background, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return err
		}
		r.Children = append(r.Children, cmd.Process.Pid, background)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestEnter(t *testing.T) {
	needPrivilege(t)
	cmd := program(t, Loopback, "argue", "one", "two words", "")
	cmd.Stdin = strings.NewReader("input")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 5 {
		t.Errorf("ended by %v, want status 5", err)
	}
	if got, want := string(out), `["one" "two words" ""] input ""`+"\n"; got != want {
		t.Errorf("the process inside got (-want +got):\n%s", cmp.Diff(want, got))
	}
	if got := stderr.String(); got != "to stderr\n" {
		t.Errorf("stderr has %q", got)
	}
	err = program(t, Veth, "die").Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 128+9 {
		t.Errorf("after SIGKILL inside it ended by %v, want status 137", err)
	}
}

func TestEnterRefuses(t *testing.T) {
	if _, _, err := Enter("tun"); err == nil || err.Error() != `unknown lab "tun" (loopback, veth)` {
		t.Errorf("Enter of an unknown kind: %v", err)
	}
	if isInside() {
		t.Fatal("this process is inside a lab")
	}
	if _, err := Open(Veth); err == nil || !strings.Contains(err.Error(), "Enter comes first") {
		t.Errorf("Open outside a lab: %v", err)
	}
	// The variable of another process, or of one that is in no other
	// namespace, isn't believed.
	own, err := namespaceID()
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"1 net:[1]", strconv.Itoa(os.Getppid()) + " " + own, "x"} {
		t.Setenv(variable, value)
		if enteredBy(own) {
			t.Fatalf("%s=%q: taken for inside", variable, value)
		}
		if _, left := os.LookupEnv(variable); left {
			t.Errorf("%s=%q is left for children", variable, value)
		}
	}
}

// A guard kills all that is in its namespace. A process that isn't in a lab
// mustn't become one, whatever its environment says.
func TestGuardRefuses(t *testing.T) {
	own, err := namespaceID()
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{fmt.Sprint(os.Getpid(), " ", own), "1 net:[1]", fmt.Sprint(os.Getpid()), ""} {
		cmd := program(t, Loopback, "argue")
		cmd.Env = append(cmd.Env, guardVariable+"="+value)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !bytes.Contains(out, []byte(guardVariable)) {
			t.Errorf("%s=%q: ended by %v, said %q", guardVariable, value, err, out)
		}
	}
}

// host is what a lab could change of the machine.
func host(t *testing.T) map[string]string {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	for _, l := range links {
		a := l.Attrs()
		qdiscs, err := netlink.QdiscList(l)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, q := range qdiscs {
			kinds = append(kinds, q.Type())
		}
		state[a.Name] = fmt.Sprint(l.Type(), a.Flags, a.MTU, a.TxQLen, a.GSOMaxSize, a.GSOMaxSegs, kinds)
	}
	features, err := readStates("lo")
	if err != nil {
		t.Fatal(err)
	}
	state["features of lo"] = fmt.Sprint(features)
	for _, pattern := range []string{"core/*", "ipv4/tcp_*", "ipv4/conf/default/*", "ipv6/conf/default/*"} {
		paths, err := filepath.Glob("/proc/sys/net/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if b, err := sys.ReadFile(path); err == nil { // not all can be read
				state[path] = string(b)
			}
		}
	}
	return state
}

// await waits until done returns "", which is else what is missing.
func await(t *testing.T, done func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		why := done()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v %s", patience, why)
		}
	}
}

// holders lists the processes and descriptors of others that keep network
// namespaces.
func holders(namespaces []string) []string {
	var list []string
	own := fmt.Sprintf("/proc/%d/", os.Getpid())
	for _, pattern := range []string{"/proc/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if to, err := os.Readlink(path); err == nil && slices.Contains(namespaces, to) && !strings.HasPrefix(path, own) {
				list = append(list, path)
			}
		}
	}
	return list
}

// The machine is as it was and nothing is left, however a lab ends.
func TestNothingIsLeft(t *testing.T) {
	tests := []struct {
		name   string
		end    func(t *testing.T, outer *exec.Cmd, stdin io.Closer, inside int)
		status int // -1: killed
	}{
		{"its end", func(_ *testing.T, _ *exec.Cmd, stdin io.Closer, _ int) { _ = stdin.Close() }, 0},
		{"SIGINT", func(_ *testing.T, outer *exec.Cmd, _ io.Closer, _ int) { _ = outer.Process.Signal(os.Interrupt) }, 128 + 2},
		{"SIGTERM", func(_ *testing.T, outer *exec.Cmd, _ io.Closer, _ int) { _ = outer.Process.Signal(unix.SIGTERM) }, 128 + 15},
		{"kill -9 inside", func(t *testing.T, _ *exec.Cmd, _ io.Closer, inside int) {
			if err := unix.Kill(inside, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, 128 + 9},
		{"kill -9 outside", func(_ *testing.T, outer *exec.Cmd, _ io.Closer, _ int) { _ = outer.Process.Kill() }, -1},
	}
	for _, kind := range Kinds() {
		for _, tt := range tests {
			t.Run(string(kind)+", "+tt.name, func(t *testing.T) {
				needPrivilege(t)
				before := host(t)
				own, err := namespaceID()
				if err != nil {
					t.Fatal(err)
				}
				cmd := program(t, kind, "stay")
				r, stdin := startStay(t, cmd)
				if slices.Contains(r.Namespaces, own) {
					t.Fatalf("the lab's namespaces %v have our own", r.Namespaces)
				}
				if (r.Namespaces[0] == r.Namespaces[1]) != (kind == Loopback) {
					t.Errorf("namespaces of the ends: %v", r.Namespaces)
				}
				tt.end(t, cmd, stdin, r.Inside)
				_ = cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != tt.status {
					t.Errorf("ended with status %d, want %d", got, tt.status)
				}
				wantNothingLeft(t, r)
				if diff := cmp.Diff(before, host(t)); diff != "" {
					t.Errorf("the machine has changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// wantNothingLeft waits until the processes of a lab and its namespaces are
// gone.
func wantNothingLeft(t *testing.T, r report) {
	t.Helper()
	for _, pid := range append([]int{r.Inside}, r.Children...) {
		await(t, func() string {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || bytes.Contains(b, []byte(") Z ")) {
				return "" // gone, or dead and for its parent to see
			}
			return fmt.Sprintf("process %d is left: %s", pid, b)
		})
	}
	await(t, func() string {
		if left := holders(r.Namespaces); len(left) > 0 {
			return fmt.Sprintf("%s are held by %v", r.Namespaces, left)
		}
		return ""
	})
}

// startStay starts the helper "stay" and returns what it says of itself.
func startStay(t *testing.T, cmd *exec.Cmd) (r report, stdin io.Closer) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Wait() // stderr is safe then
		if strings.Contains(stderr.String(), "which this system refuses") {
			t.Skip("needs user namespaces: ", strings.TrimSpace(stderr.String()))
		}
		t.Fatalf("the helper ended: %v\n%s", cmd.ProcessState, stderr.String())
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("the helper says %q", line)
	}
	// While we hold the namespaces, no other can get their names.
	for _, pid := range []int{r.Inside, r.Children[2]} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
	}
	return r, stdin
}

// As a user without privilege, in a user namespace.
func TestNobody(t *testing.T) {
	needPrivilege(t)
	// The test program may lie where nobody can't read it.
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "lab.test")
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds() {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed=%t", kind, killed), func(t *testing.T) {
				before := host(t)
				cmd := program(t, kind, "stay")
				cmd.Path, cmd.Dir = copied, dir
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				r, stdin := startStay(t, cmd)
				if killed {
					_ = cmd.Process.Kill()
				} else {
					_ = stdin.Close()
				}
				_ = cmd.Wait()
				wantNothingLeft(t, r)
				if diff := cmp.Diff(before, host(t)); diff != "" {
					t.Errorf("the machine has changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// An end's sockets, threads and processes are in its namespace, and reach the
// other by both families.
func TestEnds(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			inLab(t, kind, func(t *testing.T, l *Lab) {
				main, err := namespaceID()
				if err != nil {
					t.Fatal(err)
				}
				for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
					var ns string
					err := l.Do(end, func() (err error) {
						ns, err = os.Readlink("/proc/thread-self/ns/net")
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
					if want := kind == Loopback || end == sockopt.Client; (ns == main) != want {
						t.Errorf("Do of the %v runs in the process's namespace: %t, want %t", end, !want, want)
					}
					cmd := exec.Command("readlink", "/proc/self/ns/net")
					var out bytes.Buffer
					cmd.Stdout = &out
					if err := l.Start(end, cmd); err != nil {
						t.Fatal(err)
					}
					if err := cmd.Wait(); err != nil {
						t.Fatal(err)
					}
					if got := strings.TrimSpace(out.String()); got != ns {
						t.Errorf("a process of the %v runs in %s, want %s", end, got, ns)
					}
				}
				for _, addr := range []netip.Addr{l.Address(), l.Address6()} {
					if addr.IsValid() {
						c, s := connect(t, l, addr)
						if _, err := c.Write([]byte("x")); err != nil {
							t.Error(err)
						}
						if _, err := s.Read(make([]byte, 1)); err != nil {
							t.Error(err)
						}
					}
				}
				if got := os.Getenv(variable); got != "" {
					t.Errorf("%s is still %q", variable, got)
				}
				want := errors.New("an error")
				if got := l.Do(sockopt.Server, func() error { return want }); !errors.Is(got, want) {
					t.Errorf("Do returned %v, want %v", got, want)
				}
			})
		})
	}
}

// connect makes a TCP connection from the client to the server at addr.
func connect(t *testing.T, l *Lab, addr netip.Addr) (client, server *net.TCPConn) {
	t.Helper()
	var ln net.Listener
	err := l.Do(sockopt.Server, func() (err error) {
		ln, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			close(accepted) // the dial's error tells
			return
		}
		accepted <- c
	}()
	err = l.Do(sockopt.Client, func() error {
		c, err := net.DialTimeout("tcp", ln.Addr().String(), patience)
		if err == nil {
			client = c.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	server = (<-accepted).(*net.TCPConn)
	for _, c := range []*net.TCPConn{client, server} {
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return client, server
}

// state is what settings change in an end.
func state(t *testing.T, l *Lab, end sockopt.End) map[string]string {
	t.Helper()
	s := map[string]string{}
	p := l.place(end)
	err := p.do(func() error {
		dev, err := p.attrs()
		if err != nil {
			return err
		}
		a := dev.Attrs()
		s["link"] = fmt.Sprint(dev.Type(), a.Flags, a.MTU, a.TxQLen, a.GSOMaxSize, a.GSOMaxSegs)
		if s["queues"], err = p.readQueues(); err != nil && l.relay == nil && l.kind == Veth {
			return err
		}
		qdiscs, err := netlink.QdiscList(dev)
		if err != nil {
			return err
		}
		for _, q := range qdiscs {
			s["qdisc"] += fmt.Sprint(q.Type(), q.Attrs().Handle, " ")
		}
		addrs, err := netlink.AddrList(dev, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		var list []string
		for _, a := range addrs {
			if !a.IP.IsLinkLocalUnicast() { // made from the hardware address
				list = append(list, a.IPNet.String())
			}
		}
		slices.Sort(list) // an address that came back is the last
		s["addresses"] = fmt.Sprint(list)
		features, err := readStates(p.device)
		s["features"] = fmt.Sprint(features)
		for _, name := range []string{"net.ipv4.tcp_rmem", "net.ipv4.tcp_sack", "net.ipv4.tcp_notsent_lowat", "net.core.somaxconn"} {
			if s[name], err = readSysctl(name); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each setting holds, reads back, and goes.
func TestApply(t *testing.T) {
	tests := []struct {
		name  string
		value string // "" for the same as effective
		want  string
		also  []Applied // what it needs, and what follows from it
		kinds []Kind
	}{
		{"mtu", "", "1400", nil, both},
		{"mtu", "", "576", nil, both},
		{"mtu", "", "9000", nil, both},
		{"sysctl.net.ipv4.tcp_rmem", "4096\t8192   16384", "4096 8192 16384", nil, both},
		{"sysctl.net.ipv4.tcp_sack", "", "0", nil, both},
		{"sysctl.net.ipv4.tcp_notsent_lowat", "0x4000", "16384", nil, both},
		{"sysctl.net.core.somaxconn", "", "77", nil, both},
		{"offload.tso", "", "off", nil, both},
		{"offload.gso", "", "off", nil, both},
		{"offload.gro", "", "on", nil, vethOnly},
		{"offload.sg", "", "off", nil, vethOnly},
		{"offload.tx-tcp6-segmentation", "", "off", nil, vethOnly},
		{"gso-max-size", "", "16384", nil, both},
		{"gso-max-size", "", "131072", nil, both},
		{"gso-max-segs", "", "8", nil, both},
		{"qdisc", "", "pfifo", nil, both},
		{"qdisc", "", "pfifo_fast", nil, vethOnly},
		{"qdisc", "", "noqueue", nil, both},
		{"link-rate", "100Mbit", "100M", []Applied{{"", "link-queue", "", "256K"}}, vethOnly},
		{"link-rate", "50G", "50G", []Applied{{"", "link-queue", "", "62500000"}}, vethOnly},
		{"link-rate", "1G", "1G", []Applied{{"", "qdisc", "pfifo", "pfifo"}}, vethOnly},
		{"link-rate", "40G", "40G", []Applied{{"", "qdisc", "htb", "htb"}}, vethOnly},
		{"link-rate", "1000M", "1G", []Applied{{"", "link-queue", "65536", "64K"}}, vethOnly},
		{"queues", "", "3", nil, vethOnly},
	}
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			inLab(t, kind, func(t *testing.T, l *Lab) {
				ends := map[string]sockopt.End{"": sockopt.Client}
				if kind == Veth {
					ends = map[string]sockopt.End{"client": sockopt.Client, "server": sockopt.Server}
				}
				before := map[string]map[string]string{}
				for name, end := range ends {
					before[name] = state(t, l, end)
				}
				for _, tt := range tests {
					if !slices.Contains(tt.kinds, kind) {
						continue
					}
					label := tt.name + "=" + stdcmp.Or(tt.value, tt.want)
					settings := []Setting{{Name: tt.name, Value: stdcmp.Or(tt.value, tt.want)}}
					for _, a := range tt.also {
						if a.Requested != "" {
							settings = append(settings, Setting{Name: a.Name, Value: a.Requested})
						}
					}
					got, err := l.Apply(settings)
					if err != nil && strings.Contains(err.Error(), "no queueing discipline") {
						t.Logf("%s: %v", label, err)
						continue
					}
					if err != nil {
						t.Errorf("%s: %v", label, err)
						continue
					}
					want := []Applied{}
					for _, end := range slices.Sorted(maps.Keys(ends)) {
						want = append(want, Applied{end, tt.name, settings[0].Value, tt.want})
						for _, a := range tt.also {
							want = append(want, Applied{end, a.Name, a.Requested, a.Effective})
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", label, diff)
					}
					for name, end := range ends {
						if cmp.Equal(before[name], state(t, l, end)) {
							t.Errorf("%s changed nothing in the %v", label, end)
						}
					}
					if got, err := l.Apply(nil); err != nil || len(got) != 0 {
						t.Errorf("undo %s: %v, %v", label, got, err)
					}
					for name, end := range ends {
						if diff := cmp.Diff(before[name], state(t, l, end)); diff != "" {
							t.Errorf("%s isn't undone in the %v (-before +after):\n%s", label, end, diff)
						}
					}
				}
			})
		})
	}
}

// From one set of settings to the next, by end, and after an error.
func TestApplyInTurn(t *testing.T) {
	inLab(t, Veth, func(t *testing.T, l *Lab) {
		begin := [2]map[string]string{state(t, l, sockopt.Client), state(t, l, sockopt.Server)}
		apply := func(settings ...Setting) []Applied {
			t.Helper()
			applied, err := l.Apply(settings)
			if err != nil {
				t.Fatal(err)
			}
			return applied
		}
		got := apply(Setting{"server", "mtu", "4000"}, Setting{"client", "mtu", "5000"}, Setting{"client", "sysctl.net.ipv4.tcp_sack", "0"})
		want := []Applied{
			{"client", "mtu", "5000", "5000"}, {"client", "sysctl.net.ipv4.tcp_sack", "0", "0"}, {"server", "mtu", "4000", "4000"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(begin[1]["net.ipv4.tcp_sack"], state(t, l, sockopt.Server)["net.ipv4.tcp_sack"]); diff != "" {
			t.Errorf("the server's sysctl has changed:\n%s", diff)
		}
		// The MTU changes, the sysctl stays, queues make the link anew.
		apply(Setting{"client", "mtu", "6000"}, Setting{"client", "sysctl.net.ipv4.tcp_sack", "0"})
		apply(Setting{"", "mtu", "7000"}, Setting{"", "queues", "2"}, Setting{"", "offload.tso", "off"}, Setting{"client", "sysctl.net.ipv4.tcp_sack", "0"})
		if _, err := l.Apply([]Setting{{"", "mtu", "8000"}, {"", "sysctl.net.ipv4.tcp_rmem", "words"}}); err == nil {
			t.Error("the kernel took words for net.ipv4.tcp_rmem")
		} else if want := `apply lab settings: client: sysctl.net.ipv4.tcp_rmem=words: the kernel doesn't take "words"`; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
		if _, err := l.Apply([]Setting{{"", "offload.rx-checksum", "off"}, {"", "offload.tx-lockless", "off"}}); err == nil {
			t.Error("the device let a fixed offload change")
		}
		apply()
		for i, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
			if diff := cmp.Diff(begin[i], state(t, l, end)); diff != "" {
				t.Errorf("the %v isn't as it was (-before +after):\n%s", end, diff)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	allowed, err := readSysctl(allowedCongestion)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		kind Kind
		Setting
		want string // a part of the error; "" for none
	}{
		{"a kind", "tun", Setting{"", "mtu", "1500"}, `unknown lab "tun" (loopback, veth)`},
		{"a name", Veth, Setting{"", "mtus", "1500"}, `unknown lab setting "mtus" (queues, delay,`},
		{"a family without a name", Veth, Setting{"", "sysctl.", "1"}, `unknown lab setting "sysctl."`},
		{"the placeholder", Veth, Setting{"", "sysctl.NAME", "1"}, `unknown lab setting "sysctl.NAME"`},
		{"an end", Veth, Setting{"receiver", "mtu", "1500"}, `lab setting mtu: unknown end "receiver" (client, server)`},
		{"one end of loopback", Loopback, Setting{"client", "mtu", "1500"}, "lab setting mtu: the ends share one namespace in a loopback lab"},
		{"an MTU", Veth, Setting{"client", "mtu", "1500"}, ""},
		{"a small MTU", Veth, Setting{"", "mtu", "67"}, `lab setting mtu: "67" isn't a whole number from 68 to 65535`},
		{"a large MTU", Veth, Setting{"", "mtu", "65536"}, `isn't a whole number from 68 to 65535`},
		{"lo's MTU", Loopback, Setting{"", "mtu", "65536"}, ""},
		{"no number", Loopback, Setting{"", "mtu", "1500B"}, `"1500B" isn't a whole number`},
		{"a link of loopback", Loopback, Setting{"", "delay", "1ms"}, "lab setting delay: not in a loopback lab, which has no link"},
		{"a rate of loopback", Loopback, Setting{"", "link-rate", "1G"}, "lab setting link-rate: not in a loopback lab"},
		{"a rate", Veth, Setting{"", "link-rate", "2.5G"}, ""},
		{"no rate", Veth, Setting{"", "link-rate", "fast"}, "lab setting link-rate: rate"},
		{"a low rate", Veth, Setting{"", "link-rate", "1"}, "1.00 bit/s isn't from 8 kbit/s to 1 Tbit/s"},
		{"a queue", Veth, Setting{"", "link-queue", "1"}, "1 isn't from 2K to 1G"},
		{"a discipline", Veth, Setting{"", "qdisc", "netem"}, `unknown queueing discipline "netem" (pfifo, `},
		{"a sysctl", Veth, Setting{"server", "sysctl.net.ipv4.tcp_rmem", "4096 16384 65536"}, ""},
		{"a sysctl of the device", Veth, Setting{"server", "sysctl.net.ipv4.conf.lab0.rp_filter", "0"}, ""},
		{"an unknown sysctl", Veth, Setting{"", "sysctl.net.ipv4.tcp_magic", "1"}, "lab setting sysctl.net.ipv4.tcp_magic: this kernel has no such sysctl"},
		{"a directory", Veth, Setting{"", "sysctl.net.ipv4.conf", "1"}, "this kernel has no such sysctl"},
		{"a path", Veth, Setting{"", "sysctl.net..ipv4", "1"}, `"net..ipv4" is no name of a sysctl`},
		{"another path", Veth, Setting{"", "sysctl.net/../kernel", "1"}, `is no name of a sysctl`},
		{"not of the network", Veth, Setting{"", "sysctl.kernel.panic", "1"}, "not of the network"},
		{"rmem_max", Veth, Setting{"", "sysctl.net.core.rmem_max", "1000000"}, "lab setting sysctl.net.core.rmem_max: the machine has one for all network namespaces, which can't change it (the machine's own holds in the lab too)"},
		{"wmem_max", Loopback, Setting{"", "sysctl.net.core.wmem_max", "1000000"}, "the machine has one for all network namespaces"},
		{"tcp_mem", Loopback, Setting{"", "sysctl.net.ipv4.tcp_mem", "1 2 3"}, "the machine has one for all network namespaces"},
		{"a default discipline", Veth, Setting{"", "sysctl.net.core.default_qdisc", "fq"}, "(set qdisc)"},
		{"an empty sysctl", Veth, Setting{"", "sysctl.net.ipv4.tcp_sack", " "}, `"" is no value of a sysctl`},
		{"a congestion control", Veth, Setting{"", "sysctl." + congestion, "nonesuch"}, "a network namespace may only use " + strings.ReplaceAll(allowed, " ", ", ")},
		{"an allowed one", Veth, Setting{"", "sysctl." + congestion, strings.Fields(allowed)[0]}, ""},
		{"an offload", Veth, Setting{"", "offload.tso", "off"}, ""},
		{"an offload by the kernel's name", Veth, Setting{"", "offload.rx-gro", "on"}, ""},
		{"an unknown offload", Veth, Setting{"", "offload.warp", "on"}, "lab setting offload.warp: this kernel knows no such offload (gro, gso, lro, "},
		{"no switch", Veth, Setting{"", "offload.tso", "1"}, `"1" is neither on nor off`},
		{"lo's fixed offload", Loopback, Setting{"", "offload.highdma", "off"}, "lab setting offload.highdma: the kernel keeps this offload of lo as it is"},
		{"lo's TSO", Loopback, Setting{"", "offload.tso", "off"}, ""},
		{"a long delay", Veth, Setting{"", "delay", "11s"}, "lab setting delay: 11s is longer than 10s"},
		{"a negative delay", Veth, Setting{"", "delay", "-1s"}, "lab setting delay: duration"},
		{"loss", Veth, Setting{"", "loss", "101%"}, `lab setting loss: "101%" is none of P%, P%xN, 1/N`},
		{"no loss", Veth, Setting{"", "loss", "0.01"}, `"0.01" is none of P%, P%xN, 1/N`},
		{"a run", Veth, Setting{"", "loss", "1%x0"}, `"0" isn't a whole number from 1`},
		{"every packet", Veth, Setting{"", "loss", "1/0"}, `"0" isn't a whole number from 1`},
		{"reordering", Veth, Setting{"", "reorder", "some"}, `"some" isn't a percentage`},
		{"a spike", Veth, Setting{"", "delay-spike", "1s"}, `"1s" isn't TIME@AFTER`},
		{"queues", Veth, Setting{"", "queues", "0"}, `lab setting queues: "0" isn't a whole number from 1 to 1024`},
		{"gso-max-size", Veth, Setting{"", "gso-max-size", "1"}, "isn't a whole number from 1024 to 524280"},
		{"gso-max-segs", Veth, Setting{"", "gso-max-segs", "65536"}, "isn't a whole number from 1 to 65535"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantError(t, CheckSetting(tt.kind, tt.Setting), tt.want) })
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if part == "" && err != nil {
		t.Errorf("refused: %v", err)
	} else if part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("error is %v, want %q in it", err, part)
	}
}

// Settings that are sound by themselves but not together.
func TestCheckTogether(t *testing.T) {
	tests := []struct {
		name     string
		settings map[string]string
		relay    bool
		want     string
	}{
		{"jitter", map[string]string{"delay": "1ms", "jitter": "2ms"}, true, "lab setting jitter: longer than the delay"},
		{"jitter alone", map[string]string{"jitter": "2ms"}, true, "lab setting jitter: longer than the delay"},
		{"reorder alone", map[string]string{"reorder": "1%"}, true, "lab setting reorder: needs a delay"},
		{"a queue alone", map[string]string{"link-queue": "64K"}, false, "lab setting link-queue: needs a link-rate"},
		{"a seed alone", map[string]string{"link-seed": "5"}, false, "lab setting link-seed: needs jitter, loss or reorder"},
		{"queues of a delayed link", map[string]string{"queues": "2", "delay": "1ms"}, true, "lab setting queues: not with delay"},
		{"htb alone", map[string]string{"qdisc": "htb"}, false, "lab setting qdisc: htb needs a link-rate"},
		{"two queues", map[string]string{"qdisc": "pfifo", "link-rate": "1G", "link-queue": "64K"}, false, "lab setting link-queue: not with a qdisc"},
		{"no queue", map[string]string{"qdisc": "noqueue", "link-rate": "1G"}, false, "lab setting qdisc: a link-rate needs a queue"},
		{"TSO and loss", map[string]string{"loss": "1%", "offload.tso": "on"}, true, "lab setting offload.tso: a link with loss"},
		{"TSO off and loss", map[string]string{"loss": "1%", "offload.tso": "off"}, true, ""},
		{"a slow link", map[string]string{"link-rate": "1G", "link-queue": "64K", "mtu": "9000"}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.relay {
				needTUN(t)
			}
			var settings []Setting
			for name, value := range tt.settings {
				settings = append(settings, Setting{"", name, value})
			}
			wantError(t, Check(Veth, settings), tt.want)
		})
	}
	wantError(t, Check(Veth, []Setting{{"client", "mtu", "1500"}, {"", "mtu", "1500"}}), "lab setting mtu: given twice")
	wantError(t, Check(Veth, []Setting{{"client", "mtu", "1500"}, {"server", "mtu", "9000"}}), "")
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Names() {
		if seen[d.Name] || d.Value == "" || d.Doc == "" || len(d.Kinds) == 0 {
			t.Errorf("row %+v", d)
		}
		seen[d.Name] = true
	}
}

// What is read and set again is the same.
func TestNormalForms(t *testing.T) {
	for name, values := range map[string][]string{
		"link-rate":   {"8k", "1M", "2500M", "1G", "1.5G", "123456"},
		"link-queue":  {"2K", "100000", "1G"},
		"loss":        {"1%", "0.001%", "33.3%", "1.5%x7", "1/10", "1/1"},
		"reorder":     {"0.07%", "100%"},
		"delay":       {"1ms", "0.5", "1.5ms"},
		"delay-spike": {"400ms@1s", "1@0"},
	} {
		for _, value := range values {
			once, err := normalise(Veth, Setting{"", name, value})
			if err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
				continue
			}
			twice, err := normalise(Veth, Setting{"", name, once})
			if err != nil || once != twice {
				t.Errorf("%s=%s is %q, and that is %q, %v", name, value, once, twice, err)
			}
		}
	}
}

// Each thread of a program may be the main one, and none of them may be left in
// the server's namespace.
func TestDoSparesMainThread(t *testing.T) {
	inLab(t, Veth, func(t *testing.T, l *Lab) {
		own, err := namespaceID()
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := l.Do(sockopt.Server, func() error {
				if unix.Gettid() == os.Getpid() {
					return errors.New("f runs on the main thread")
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			runtime.Gosched()
		}
		if after, err := namespaceID(); err != nil || after != own {
			t.Errorf("the process's namespace is %s, was %s (%v)", after, own, err)
		}
	})
}
