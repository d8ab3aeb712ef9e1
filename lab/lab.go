// Package lab runs tests in network namespaces of their own: MTUs, sysctls,
// offloads, queueing disciplines, delay and loss that the machine never sees.
//
// The process that runs a lab lives inside it. Enter starts the program again
// in a new network namespace and waits for it; what was started goes on with
// Open. The namespaces have no name, and nothing refers to them but processes
// and descriptors: however the processes end, the kernel takes the namespaces
// with their devices and settings down after them. Nothing is ever changed in
// the namespace in which the program was started.
//
// The package knows nothing of tests and measures nothing. Namespaces for the
// tests of this module belong to internal/netnstest.
package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"gperf/sockopt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Kind says what a lab consists of.
type Kind string

const (
	Loopback Kind = "loopback" // one namespace, in which both ends use its lo
	Veth     Kind = "veth"     // a namespace for each end, and a link between them
)

// Kinds lists the kinds.
func Kinds() []Kind { return []Kind{Loopback, Veth} }

func (k Kind) check() error {
	if !slices.Contains(Kinds(), k) {
		return fmt.Errorf("unknown lab %q (loopback, veth)", string(k))
	}
	return nil
}

// Device is the name of the link's device in both namespaces of a Veth lab,
// whatever the link is made of, as in net.ipv4.conf.lab0.rp_filter.
const Device = "lab0"

// patience bounds each wait for the kernel.
const patience = 10 * time.Second

// The addresses of the ends in a Veth lab, with prefixes of 24 and 64 bits.
// They stay when the link is made anew. In a Loopback lab the client's stand on
// lo: programs that ask getaddrinfo(3) with AI_ADDRCONFIG find no address at
// all where there is none but loopback's.
var (
	addresses4 = [2]netip.Addr{netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")}
	addresses6 = [2]netip.Addr{netip.MustParseAddr("fd77::1"), netip.MustParseAddr("fd77::2")}
)

// A Lab is an open lab. Its methods may be called from any goroutine, but
// Apply and Close not while another of the methods runs.
type Lab struct {
	kind   Kind
	places []*place // of the client and the server; one for both in a Loopback lab
	link   link     // what the link is made of
	force  []*held  // the plain settings in force, in the order in which they were set
	relay  *relay   // nil unless the link is gperf's own

	starting sync.Mutex
	guard    *guard // nil until Start needs it
}

// A place is a namespace of a lab.
type place struct {
	end      sockopt.End
	both     bool // both ends are here
	device   string
	prefixes []netip.Prefix
	ns       *os.File    // nil for the process's own
	starter  chan func() // runs functions on a thread that lives until Close
	egress   egress      // the queueing discipline in force
}

// Open makes the lab of this process, which has to be one that Enter has
// started: lo is up, and in a Veth lab there is a second namespace, which a
// descriptor of this process holds, and a pair of veth devices with an IPv4
// and, if the kernel has IPv6, an IPv6 address on each end. Carrier is up and
// the addresses can be used when it returns; duplicate address detection and
// router solicitations are off.
//
// One default differs from a namespace's own: net.ipv4.tcp_no_metrics_save is
// 1, so that no connection begins with what the kernel has learned from an
// earlier one (tcp_metrics(8)), and each run of a sweep begins the same way.
func Open(kind Kind) (*Lab, error) {
	if err := kind.check(); err != nil {
		return nil, err
	}
	if !isInside() {
		return nil, errors.New("a lab can only be opened inside: Enter comes first")
	}
	l := &Lab{kind: kind}
	if err := l.open(); err != nil {
		_ = l.Close()
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w (this system gives no privilege in user namespaces: kernel.apparmor_restrict_unprivileged_userns or a security module)", err)
		}
		return nil, fmt.Errorf("open lab: %w", err)
	}
	return l, nil
}

func (l *Lab) open() error {
	client := &place{end: sockopt.Client, both: l.kind == Loopback, device: Device}
	l.places = append(l.places, client)
	if l.kind == Loopback {
		client.device = "lo"
		client.prefixes = []netip.Prefix{ // a small MTU takes lo's own IPv6 address away
			netip.PrefixFrom(addresses4[0], 32), netip.PrefixFrom(addresses6[0], 128), netip.PrefixFrom(netip.IPv6Loopback(), 128),
		}
	} else {
		server := &place{end: sockopt.Server, device: Device}
		for i, p := range []*place{client, server} {
			p.prefixes = []netip.Prefix{netip.PrefixFrom(addresses4[i], 24), netip.PrefixFrom(addresses6[i], 64)}
		}
		if err := server.makeNamespace(); err != nil {
			return err
		}
		l.places = append(l.places, server)
	}
	for _, p := range l.places {
		starter, ready := make(chan func()), make(chan error)
		go p.serve(starter, ready)
		if err := <-ready; err != nil {
			return err
		}
		p.starter = starter
		if err := p.do(p.prepare); err != nil {
			return err
		}
	}
	if l.kind == Loopback {
		return client.do(client.address)
	}
	return l.build(link{})
}

// makeNamespace makes a network namespace and keeps it by a descriptor.
func (p *place) makeNamespace() error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		f, err := os.Open("/proc/thread-self/ns/net") // /proc/self is the main thread's
		p.ns = f
		return err
	})
}

// prepare sets lo up and the defaults for devices that come later. It runs in
// the namespace.
func (p *place) prepare() error {
	if haveIPv6() {
		// Detection keeps an address unusable for a second or more, and what
		// the kernel sends by itself would be counted as traffic.
		for _, kv := range [][2]string{{"disable_ipv6", "0"}, {"accept_dad", "0"}, {"dad_transmits", "0"}, {"router_solicitations", "0"}} {
			if err := writeSysctl("net.ipv6.conf.default."+kv[0], kv[1]); err != nil {
				return err
			}
		}
	}
	if err := writeSysctl("net.ipv4.tcp_no_metrics_save", "1"); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// haveIPv6 reports whether the kernel has IPv6.
func haveIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}

// A link says what a Veth lab's link is made of: what can't be changed without
// making it anew.
type link struct {
	relay  bool    // TUN devices with gperf between them, else a veth pair
	plain  [2]bool // of TUN devices: the client's and the server's carry packets of one MTU
	queues [2]int  // transmit and receive queues of the client's and the server's device; 0 is the kernel's default
}

// build makes the link as it is to be, in place of the one there is. Settings
// of the devices go with the old link.
func (l *Lab) build(to link) error {
	if err := l.dismantle(); err != nil {
		return err
	}
	l.link = to
	if to.relay {
		r, err := newRelay(l.places, to.plain)
		if err != nil {
			return err
		}
		l.relay = r
	} else if err := l.addVeth(to.queues); err != nil {
		return err
	}
	for _, p := range l.places {
		p.egress = egress{}
		if err := p.do(p.address); err != nil {
			return err
		}
	}
	for _, p := range l.places { // carrier needs both ends up
		if err := p.do(p.awaitReady); err != nil {
			return err
		}
	}
	return nil
}

// addVeth makes the pair in the client's namespace with its peer in the
// server's: never seen from elsewhere.
func (l *Lab) addVeth(queues [2]int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = Device, queues[0], queues[0]
	veth := netlink.NewVeth(attrs)
	veth.PeerName = Device
	// What isn't given would be taken from the client's device.
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(queues[1]), uint32(queues[1])
	if queues[0] > 0 && queues[1] == 0 {
		veth.PeerNumTxQueues, veth.PeerNumRxQueues = 1, 1
	}
	veth.PeerNamespace = netlink.NsFd(int(l.places[1].ns.Fd()))
	if err := l.places[0].do(func() error { return netlink.LinkAdd(veth) }); err != nil {
		return fmt.Errorf("add a pair of veth devices: %w", err)
	}
	return nil
}

// dismantle takes the link away, if there is one.
func (l *Lab) dismantle() error {
	if l.relay != nil {
		l.relay.close()
		l.relay = nil
	}
	err := l.places[0].do(func() error {
		dev, err := netlink.LinkByName(Device)
		if err != nil {
			return err
		}
		return netlink.LinkDel(dev)
	})
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// address sets the device up and gives it the addresses that it lacks. It runs
// in the namespace.
func (p *place) address() error {
	dev, err := netlink.LinkByName(p.device)
	if err != nil {
		return fmt.Errorf("find %s: %w", p.device, err)
	}
	if err := netlink.LinkSetUp(dev); err != nil {
		return fmt.Errorf("set %s up: %w", p.device, err)
	}
	for _, prefix := range p.prefixes {
		addr := &netlink.Addr{IPNet: &net.IPNet{
			IP:   prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
		}}
		if prefix.Addr().Is6() {
			if !haveIPv6() || dev.Attrs().MTU < minIPv6MTU {
				continue
			}
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrReplace(dev, addr); err != nil {
			return fmt.Errorf("add address %v to %s: %w", prefix, p.device, err)
		}
	}
	return nil
}

// minIPv6MTU is the least MTU in bytes over which IPv6 runs (RFC 8200, section
// 5). The kernel takes IPv6 from a device whose MTU falls below it.
const minIPv6MTU = 1280

// awaitReady waits until the device has carrier and usable addresses. It runs
// in the namespace.
func (p *place) awaitReady() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		why, err := p.unready()
		if err != nil || why == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s of the %v is not ready after %v: %s", p.device, p.end, patience, why)
		}
	}
}

// unready says what the device still lacks, or "".
func (p *place) unready() (string, error) {
	dev, err := netlink.LinkByName(p.device)
	if err != nil {
		return "", err
	}
	if dev.Attrs().RawFlags&unix.IFF_RUNNING == 0 {
		return "no carrier", nil
	}
	if !haveIPv6() {
		return "", nil
	}
	addrs, err := netlink.AddrList(dev, netlink.FAMILY_V6)
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if a.Flags&unix.IFA_F_TENTATIVE != 0 {
			return a.IPNet.String() + " is tentative", nil
		}
	}
	return "", nil
}

// Address is where a server inside the lab is reached by IPv4: 127.0.0.1 in a
// Loopback lab. It doesn't depend on the settings in force.
func (l *Lab) Address() netip.Addr {
	if l.kind == Loopback {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return addresses4[1]
}

// Address6 is where it is reached by IPv6; invalid on a kernel without it. No
// address is reached by IPv6 while the MTU is below 1280.
func (l *Lab) Address6() netip.Addr {
	switch {
	case !haveIPv6():
		return netip.Addr{}
	case l.kind == Loopback:
		return netip.IPv6Loopback()
	}
	return addresses6[1]
}

// place returns the namespace of an end.
func (l *Lab) place(end sockopt.End) *place {
	if l.kind == Loopback || end == sockopt.Client {
		return l.places[0]
	}
	return l.places[1]
}

// Do calls f on a thread in the namespace of an end and returns its error.
// Sockets that f opens are of that namespace and may be used from anywhere.
// Goroutines that f starts run in the client's namespace, and so do the
// processes that it starts after f has returned; for those there is Start.
func (l *Lab) Do(end sockopt.End, f func() error) error { return l.place(end).do(f) }

func (p *place) do(f func() error) error {
	if p.ns == nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return f()
	}
	return p.onOwnThread(f)
}

// onOwnThread calls f on a thread of its own in the namespace.
func (p *place) onOwnThread(f func() error) error {
	return onThread(func() error {
		if p.ns != nil {
			if err := unix.Setns(int(p.ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter the namespace of the %v: %w", p.end, os.NewSyscallError("setns", err))
			}
		}
		return f()
	})
}

// Start starts cmd in the namespace of an end, as cmd.Start does; the caller
// waits for it. It and all that it starts itself are killed when this process
// ends, however it ends, and by Close.
func (l *Lab) Start(end sockopt.End, cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// The signal comes when the thread that forked ends, so that one has to
	// live as long as the lab.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := l.ensureGuard(); err != nil {
		return err
	}
	started := make(chan error, 1)
	l.place(end).starter <- func() { started <- cmd.Start() }
	return <-started
}

func (l *Lab) ensureGuard() (err error) {
	l.starting.Lock()
	defer l.starting.Unlock()
	if l.guard == nil {
		l.guard, err = startGuard(l.places)
	}
	return err
}

// serve runs functions on a thread in the namespace until the channel closes.
// It says once whether it can.
func (p *place) serve(starter <-chan func(), ready chan<- error) {
	err := p.onOwnThread(func() error {
		ready <- nil
		for f := range starter {
			f()
		}
		return nil
	})
	if err != nil {
		ready <- err
	}
}

// Close takes the lab down: processes of Start are killed, the link and the
// second namespace go, and so do the settings. The namespace of the process
// itself goes with the process.
func (l *Lab) Close() error {
	var errs []error
	for _, p := range slices.Backward(l.places) {
		if p.starter != nil {
			close(p.starter)
			p.starter = nil
		}
	}
	if l.guard != nil {
		errs = append(errs, l.guard.end())
	}
	errs = append(errs, l.undo(nil))
	switch {
	case len(l.places) == 0:
	case l.kind == Loopback:
		errs = append(errs, l.places[0].do(func() error { return l.places[0].apply(egress{}) }))
	default:
		errs = append(errs, l.dismantle())
	}
	for _, p := range l.places {
		if p.ns != nil {
			errs = append(errs, p.ns.Close())
		}
	}
	l.places = nil
	return errors.Join(errs...)
}

// onThread calls f on a thread of its own, which ends with f, so that f may
// leave it in any namespace. If f ends its goroutine, so does onThread.
func onThread(f func() error) error {
	type outcome struct {
		err  error
		exit bool
	}
	done := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		o := outcome{exit: true}
		defer func() { done <- o }()
		if unix.Gettid() == unix.Getpid() {
			// The main thread can't end, and its namespace is what /proc/self
			// shows to the whole process. Hold it and take another.
			defer runtime.UnlockOSThread()
			o.err = onThread(f)
		} else {
			o.err = f()
		}
		o.exit = false
	}()
	o := <-done
	if o.exit {
		runtime.Goexit()
	}
	return o.err
}

// inside says whether Enter has found this process to be one that it started.
var inside struct {
	sync.Mutex
	yes  bool
	from string // the namespace that it was entered from
}

func isInside() bool {
	inside.Lock()
	defer inside.Unlock()
	return inside.yes
}
