package netnstest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inode names the network namespace behind a path.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// hostLinks lists the devices that the host has, by name.
func hostLinks(t *testing.T) []string {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	slices.Sort(names)
	return names
}

func TestRun(t *testing.T) {
	host := inode(t, "/proc/self/ns/net")
	ran := false
	Run(t, func() {
		ran = true
		if inode(t, "/proc/thread-self/ns/net") == host {
			t.Error("f runs in the host's namespace")
		}
		links, err := netlink.LinkList()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if l.Attrs().Name == "lo" && l.Attrs().Flags&net.FlagUp == 0 {
				t.Error("lo is down")
			}
		}
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		c, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
	if !ran {
		t.Error("f did not run")
	}
}

// The main thread's namespace is what /proc/self shows to the whole process,
// so Run must never use that thread.
func TestRunSparesMainThread(t *testing.T) {
	host := inode(t, "/proc/self/ns/net")
	for range 50 {
		Run(t, func() {
			if unix.Gettid() == unix.Getpid() {
				t.Error("f runs on the main thread")
			}
		})
	}
	if got := inode(t, "/proc/self/ns/net"); got != host {
		t.Errorf("the process's namespace is %d after Run, was %d", got, host)
	}
	if got := inode(t, "/proc/thread-self/ns/net"); got != host {
		t.Errorf("the test's thread is in namespace %d, want %d", got, host)
	}
}

// t.Fatal and t.Skip end a goroutine by runtime.Goexit, which Do passes on to
// its caller.
func TestDoPassesOnExit(t *testing.T) {
	n := New(t)
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.Do(func() error {
			runtime.Goexit()
			return nil
		})
		returned = true
	}()
	<-done
	if returned {
		t.Error("Do returned although f ended its goroutine")
	}
}

func TestDoReturnsError(t *testing.T) {
	want := errors.New("an error")
	if got := New(t).Do(func() error { return want }); !errors.Is(got, want) {
		t.Errorf("Do returned %v, want %v", got, want)
	}
}

// echo sends one message from a to addr in b and back.
func echo(t *testing.T, a, b *NS, listen, dial netip.Addr) {
	t.Helper()
	var ln net.Listener
	err := b.Do(func() (err error) {
		ln, err = net.Listen("tcp", netip.AddrPortFrom(listen, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return // the dial's error tells
		}
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	err = a.Do(func() error {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(dial, port).String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if string(got) != "hello" {
			t.Errorf("echo of %v: got %q", dial, got)
		}
		return nil
	})
	if err != nil {
		t.Errorf("echo of %v: %v", dial, err)
	}
}

func TestPair(t *testing.T) {
	before := hostLinks(t)
	t.Run("addresses", func(t *testing.T) {
		a, b := NewPair(t, Pair{})
		echo(t, a, b, b.Addr4, b.Addr4)
		echo(t, b, a, a.Addr4, a.Addr4)
		echo(t, a, a, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.1"))
		if haveIPv6() {
			echo(t, a, b, b.Addr6, b.Addr6)
			echo(t, a, b, b.LinkLocal, b.LinkLocal)
		}
		if diff := cmp.Diff(before, hostLinks(t)); diff != "" {
			t.Errorf("the host's devices changed (-before +with pair):\n%s", diff)
		}
	})
	t.Run("mtu", func(t *testing.T) {
		for _, mtu := range []int{0, 1280, 9000} {
			a, b := NewPair(t, Pair{MTU: mtu})
			want := mtu
			if want == 0 {
				want = 1500
			}
			for _, n := range []*NS{a, b} {
				err := n.Do(func() error {
					link, err := netlink.LinkByName(n.Device)
					if err == nil && link.Attrs().MTU != want {
						t.Errorf("%s in %s has MTU %d, want %d", n.Device, n.Name, link.Attrs().MTU, want)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
	if diff := cmp.Diff(before, hostLinks(t)); diff != "" {
		t.Errorf("the host's devices changed (-before +after):\n%s", diff)
	}
}

func TestCommand(t *testing.T) {
	var pid int
	t.Run("inside", func(t *testing.T) {
		n := New(t)
		out, err := n.Command("readlink", "/proc/self/ns/net").Output()
		if err != nil {
			t.Fatal(err)
		}
		var want string
		_ = n.Do(func() (err error) {
			want, err = os.Readlink("/proc/thread-self/ns/net")
			return err
		})
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("the child is in %s, want %s", got, want)
		}

		// A shell that leaves a child behind; both are this namespace's.
		cmd := n.Command("sh", "-c", "sleep 60 & echo ready; wait")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stdout, make([]byte, len("ready"))); err != nil {
			t.Fatal(err)
		}
		pid = cmd.Process.Pid
		t.Cleanup(func() { go func() { _ = cmd.Wait() }() })
		if got := n.processes(); len(got) != 2 || !slices.Contains(got, pid) {
			t.Errorf("processes inside are %v, want two with %d", got, pid)
		}
	})
	if pid == 0 {
		return // failed or skipped above
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlived its test", pid)
		}
	}
}

func TestSetSysctl(t *testing.T) {
	const name = "net.ipv4.tcp_rmem"
	host, err := os.ReadFile(sysctlPath(name))
	if err != nil {
		t.Fatal(err)
	}
	n := New(t)
	n.SetSysctl(name, "4096 10000 50000")
	if got, want := n.Sysctl(name), "4096 10000 50000"; got != want {
		t.Errorf("Sysctl returned %q, want %q", got, want)
	}
	after, err := os.ReadFile(sysctlPath(name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(host, after) {
		t.Errorf("the host's %s went from %q to %q", name, host, after)
	}
}

func TestSetTSO(t *testing.T) {
	a, _ := NewPair(t, Pair{})
	for _, on := range []bool{false, true, false} {
		a.SetTSO(on) // fails by itself if the device doesn't obey
	}
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("needs ethtool: ", err)
	}
	out, err := a.Command("ethtool", "-k", a.Device).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("\ttx-tcp-segmentation: off\n")) {
		t.Errorf("ethtool doesn't say that TSO is off:\n%s", out)
	}
}

func TestAddTBF(t *testing.T) {
	a, _ := NewPair(t, Pair{})
	a.AddTBF("100mbit", "32kb", "256kb")
	a.AddTBF("50mbit", "32kb", "256kb")
	err := a.Do(func() error {
		link, err := netlink.LinkByName(a.Device)
		if err != nil {
			return err
		}
		qdiscs, err := netlink.QdiscList(link)
		if err != nil {
			return err
		}
		var rates []uint64
		for _, q := range qdiscs {
			if tbf, ok := q.(*netlink.Tbf); ok {
				rates = append(rates, tbf.Rate)
			}
		}
		if diff := cmp.Diff([]uint64{50e6 / 8}, rates); diff != "" {
			t.Errorf("token buckets, bytes/s (-want +got):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNft(t *testing.T) {
	a, b := NewPair(t, Pair{})
	b.Nft(`table inet filter {
		chain input {
			type filter hook input priority 0; policy accept;
			tcp dport 12345 reject with tcp reset
		}
	}`)
	dial := func(port uint16) error {
		return a.Do(func() error {
			c, err := net.DialTimeout("tcp", netip.AddrPortFrom(b.Addr4, port).String(), 5*time.Second)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
	}
	var ln net.Listener
	err := b.Do(func() (err error) {
		ln, err = net.Listen("tcp", netip.AddrPortFrom(b.Addr4, 12345).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if err := dial(12345); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("dial of the rejected port: got %v, want %v", err, unix.ECONNREFUSED)
	}
	b.Nft("flush ruleset")
	if err := dial(12345); err != nil {
		t.Errorf("dial after the rules are gone: %v", err)
	}
}

func TestMissingModule(t *testing.T) {
	tests := []struct {
		name, output, want string
	}{
		{"tc without the module", "Error: Specified qdisc kind is unknown.\n", "this queueing discipline"},
		{"nft without the module", "netlink: Error: cache initialization failed: Invalid argument\n", "nf_tables"},
		{"another error", "Error: argument \"x\" is wrong: invalid \"rate\"\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := missingModule(tt.output); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
