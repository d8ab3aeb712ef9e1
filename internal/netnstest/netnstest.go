// Package netnstest gives tests network namespaces of their own: addresses,
// MTUs, queueing disciplines, packet filters and sysctls that the host never
// sees.
//
// The namespaces have no name under /run/netns. They live as long as the test
// that made them, or at most as long as its process, and take their devices
// with them. A test without the privilege for them (CAP_SYS_ADMIN) is skipped,
// and the skip says so; every other failure fails the test.
//
// The package is for tests only. Namespaces for measuring belong to lab.
package netnstest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// device is the name of both ends of a pair.
const device = "veth0"

// patience bounds each wait for the kernel or for a killed process.
const patience = 10 * time.Second

// An NS is a network namespace that belongs to one test. Its methods may be
// called from any goroutine until the test's clean-up.
type NS struct {
	Name string // for messages: "a" or "b" in a pair

	// Of one end of a pair; empty in a namespace made by New. Addr6 and
	// LinkLocal are invalid on a kernel without IPv6. LinkLocal has Device
	// as its zone, so it can be dialled from inside this namespace; from the
	// other end the zone is the other end's Device, which has the same name.
	Device    string
	Addr4     netip.Addr
	Addr6     netip.Addr
	LinkLocal netip.Addr

	t    testing.TB
	file *os.File // the namespace itself; the only thing that keeps it alive
}

// Run calls f on a thread in a new network namespace in which nothing exists
// but lo, which is up. Goroutines that f starts run outside the namespace;
// sockets that f opens, and processes that f itself starts, are inside it.
//
// f isn't on the test's goroutine, but may call t.Fatal, t.FailNow and t.Skip
// all the same: they end the test as usual.
func Run(t testing.TB, f func()) {
	t.Helper()
	if err := New(t).Do(func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}

// New makes a network namespace in which nothing exists but lo, which is up.
// The namespace ends with the test, and so does each process still in it.
func New(t testing.TB) *NS {
	t.Helper()
	n := &NS{Name: "ns", t: t}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		// Not /proc/self, which is the main thread's.
		file, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		n.file = file
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("find lo: %w", err)
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return fmt.Errorf("set lo up: %w", err)
		}
		return nil
	})
	if n.file != nil {
		t.Cleanup(n.close)
	}
	if errors.Is(err, unix.EPERM) {
		t.Skipf("needs CAP_SYS_ADMIN for a network namespace: %v", err)
	}
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	return n
}

// A Pair says how NewPair joins two namespaces. The zero value is a plain
// Ethernet link.
type Pair struct {
	MTU int // of both ends, in bytes; 0 means the kernel's default of 1500
}

// NewPair makes two namespaces joined by a veth pair: a has 10.77.0.1/24 and
// fd77::1/64, b has 10.77.0.2/24 and fd77::2/64. When it returns, carrier is
// up and every address is usable at once, the link-local ones too.
func NewPair(t testing.TB, p Pair) (a, b *NS) {
	t.Helper()
	a, b = New(t), New(t)
	a.Name, a.Addr4, a.Addr6 = "a", netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("fd77::1")
	b.Name, b.Addr4, b.Addr6 = "b", netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("fd77::2")
	for _, n := range []*NS{a, b} {
		n.Device = device
		if err := n.Do(disableDAD); err != nil {
			t.Fatalf("namespace %s: %v", n.Name, err)
		}
	}
	// Made inside a, with its peer inside b: never seen by the host.
	err := a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = device, p.MTU
		veth := netlink.NewVeth(attrs)
		veth.PeerName = device
		veth.PeerMTU = uint32(p.MTU)
		veth.PeerNamespace = netlink.NsFd(int(b.file.Fd()))
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("add veth pair: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*NS{a, b} {
		if err := n.Do(n.configure); err != nil {
			t.Fatalf("namespace %s: %v", n.Name, err)
		}
	}
	for _, n := range []*NS{a, b} { // carrier needs both ends up
		if err := n.Do(n.awaitReady); err != nil {
			t.Fatalf("namespace %s: %v", n.Name, err)
		}
	}
	return a, b
}

// haveIPv6 reports whether the kernel has IPv6.
func haveIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}

// disableDAD turns duplicate address detection off for devices made later in
// this thread's namespace: it would keep link-local addresses unusable for a
// second or more.
func disableDAD() error {
	if !haveIPv6() {
		return nil
	}
	for _, kv := range [][2]string{{"disable_ipv6", "0"}, {"accept_dad", "0"}, {"dad_transmits", "0"}} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/"+kv[0], []byte(kv[1]), 0); err != nil {
			return err
		}
	}
	return nil
}

// configure gives n's device its addresses and sets it up.
func (n *NS) configure() error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	prefixes := []netip.Prefix{netip.PrefixFrom(n.Addr4, 24)}
	if haveIPv6() {
		prefixes = append(prefixes, netip.PrefixFrom(n.Addr6, 64))
	} else {
		n.Addr6 = netip.Addr{}
	}
	for _, p := range prefixes {
		addr := &netlink.Addr{IPNet: &net.IPNet{
			IP:   p.Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("add address %v: %w", p, err)
		}
	}
	return nil
}

// awaitReady waits until n's device has carrier and its addresses are usable,
// and notes the link-local one.
func (n *NS) awaitReady() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		why, err := n.unready()
		if err != nil || why == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s not ready after %v: %s", device, patience, why)
		}
	}
}

// unready says what n's device still lacks, or "".
func (n *NS) unready() (string, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return "", err
	}
	if state := link.Attrs().OperState; state != netlink.OperUp {
		return "state is " + state.String(), nil
	}
	if !n.Addr6.IsValid() {
		return "", nil
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if a.Flags&unix.IFA_F_TENTATIVE != 0 {
			return a.IPNet.String() + " is tentative", nil
		}
		if ip, ok := netip.AddrFromSlice(a.IP); ok && ip.IsLinkLocalUnicast() {
			n.LinkLocal = ip.WithZone(device)
		}
	}
	if !n.LinkLocal.IsValid() {
		return "no link-local address", nil
	}
	return "", nil
}

// Path is a name for the namespace that other processes of the same user can
// open while the test runs, such as "/proc/1234/fd/7".
func (n *NS) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd())
}

// Do calls f on a thread inside n and returns its error. What Run says of f
// holds here too. Do may be called while other calls of it are running.
func (n *NS) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", n.Name, os.NewSyscallError("setns", err))
		}
		return f()
	})
}

// Command is exec.Command for a process that runs inside n. It goes through
// nsenter(1), which becomes the named program: the process started is the
// program's own, for signals and for Wait. A program that is still running
// when the test's clean-up functions have run is killed, with all that it
// left in the namespace.
func (n *NS) Command(name string, args ...string) *exec.Cmd {
	n.t.Helper()
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		n.t.Skip("needs nsenter: ", err)
	}
	return exec.Command(nsenter, append([]string{"--net=" + n.Path(), "--", name}, args...)...)
}

// Sysctl returns a sysctl of n, such as "net.ipv4.tcp_rmem", with single
// spaces between its fields.
func (n *NS) Sysctl(name string) string {
	n.t.Helper()
	var value []byte
	err := n.Do(func() (err error) {
		value, err = os.ReadFile(sysctlPath(name))
		return err
	})
	if err != nil {
		n.t.Fatalf("read sysctl %s: %v", name, err)
	}
	return normalSpace(string(value))
}

// SetSysctl sets a sysctl of n and checks that it reads back as set. A sysctl
// that this kernel keeps for the whole machine, as Linux 6.18 still does with
// net.core.rmem_max, is left alone and skips the test.
func (n *NS) SetSysctl(name, value string) {
	n.t.Helper()
	if !strings.HasPrefix(name, "net.") {
		n.t.Fatalf("set sysctl %s: not of a network namespace", name)
	}
	path := sysctlPath(name)
	err := n.Do(func() error { return os.WriteFile(path, []byte(value), 0) })
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		if _, hostErr := os.Stat(path); hostErr == nil {
			n.t.Skipf("this kernel has no %s per network namespace: %v", name, err)
		}
	}
	if err != nil {
		n.t.Fatalf("set sysctl %s: %v", name, err)
	}
	if got, want := n.Sysctl(name), normalSpace(value); got != want {
		n.t.Fatalf("sysctl %s reads back as %q after setting %q", name, got, want)
	}
}

// sysctlPath is the file of a sysctl. The kernel shows each thread the values
// of its own namespace there.
func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}

func normalSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// SetFeatures turns offloads of n's device on or off, by the kernel's own
// names, such as "tx-generic-segmentation" or "rx-gro", and checks that they
// obeyed.
func (n *NS) SetFeatures(features map[string]bool) {
	n.t.Helper()
	word := map[bool]string{false: "off", true: "on"}
	args := []string{"-K", n.Device}
	for name, on := range features {
		args = append(args, name, word[on])
	}
	n.tool("", "ethtool", args...)
	shown := n.tool("", "ethtool", "-k", n.Device)
	for name, on := range features {
		// ethtool shows some features under older names of its own; those it
		// has changed all the same, or -K would have failed.
		if strings.Contains(shown, name+": "+word[!on]) {
			n.t.Fatalf("namespace %s: feature %s of %s is not %s", n.Name, name, n.Device, word[on])
		}
	}
}

// SetTSO turns TCP segmentation offload of n's device on or off, for IPv4 and
// IPv6.
func (n *NS) SetTSO(on bool) {
	n.t.Helper()
	n.SetFeatures(map[string]bool{"tx-tcp-segmentation": on, "tx-tcp6-segmentation": on})
}

// AddTBF limits what n's device sends with a token bucket; see tc-tbf(8) for
// the words, such as "100mbit", "32kb" and "256kb". It replaces an earlier
// limit.
func (n *NS) AddTBF(rate, burst, limit string) {
	n.t.Helper()
	n.tool("", "tc", "qdisc", "replace", "dev", n.Device, "root", "tbf", "rate", rate, "burst", burst, "limit", limit)
}

// Nft adds packet filter rules in the language of nft(8).
func (n *NS) Nft(rules string) {
	n.t.Helper()
	n.tool(rules, "nft", "-f", "-")
}

// tool runs a program of the host inside n. A program that isn't installed
// and one whose kernel module is missing skip the test.
func (n *NS) tool(stdin, name string, args ...string) string {
	n.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		n.t.Skipf("needs %s: %v", name, err)
	}
	cmd := n.Command(path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return string(out)
	}
	if missing := missingModule(string(out)); missing != "" {
		n.t.Skipf("%s needs a kernel with %s", name, missing)
	}
	n.t.Fatalf("namespace %s: %s %s: %v\n%s", n.Name, name, strings.Join(args, " "), err, out)
	return ""
}

// missingModule returns what the kernel lacks if that is what output, of tc
// or nft, complains of, or "".
func missingModule(output string) string {
	switch {
	case strings.Contains(output, "qdisc kind is unknown"):
		return "this queueing discipline"
	case strings.Contains(output, "Unable to initialize Netlink socket: Protocol not supported"),
		strings.Contains(output, "cache initialization failed: Invalid argument"):
		return "nf_tables"
	}
	return ""
}

// close kills what still runs in n and lets go of the namespace, which then
// takes its devices with it.
func (n *NS) close() {
	var left []int
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left = n.processes()
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended just now
		}
	}
	if len(left) > 0 {
		n.t.Errorf("namespace %s: processes %v survived SIGKILL for %v", n.Name, left, patience)
	}
	if err := n.file.Close(); err != nil {
		n.t.Errorf("namespace %s: %v", n.Name, err)
	}
}

// processes lists the processes inside n. The test's own process isn't one of
// them, since onThread keeps its main thread out of every namespace.
func (n *NS) processes() []int {
	var own unix.Stat_t
	if err := unix.Fstat(int(n.file.Fd()), &own); err != nil {
		return nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir+"/ns/net", &st) != nil || st.Dev != own.Dev || st.Ino != own.Ino {
			continue // gone, a zombie, another user's, or elsewhere
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// onThread calls f on a thread of its own, which ends with f, so that f may
// leave it in any namespace. If f ends its goroutine, as t.Fatal does, so
// does onThread.
func onThread(f func() error) error {
	type outcome struct {
		err  error
		exit bool
	}
	done := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread can't end, and its namespace is what /proc/self
			// shows to the whole process. Hold it and take another.
			defer runtime.UnlockOSThread()
			o := outcome{exit: true}
			defer func() { done <- o }()
			o.err = onThread(f)
			o.exit = false
			return
		}
		o := outcome{exit: true}
		defer func() { done <- o }()
		o.err = f()
		o.exit = false
	}()
	o := <-done
	if o.exit {
		runtime.Goexit()
	}
	return o.err
}
