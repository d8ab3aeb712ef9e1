//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gperf/netperf"
	"gperf/netperf/options"
	"gperf/server"
)

// daemonListeners is set in the environment of the process that netserver leaves
// behind: how many listening sockets it has inherited, from descriptor 3 on.
const daemonListeners = "GPERF_NETSERVER_LISTENERS"

// runNetserver is netserver: it returns when it listens and has left a process
// behind that serves, unless it was told to stay.
func runNetserver(args []string, stdout, stderr io.Writer) int {
	o, err := options.ParseNetserver(args)
	if err != nil {
		return exit(err, stdout, stderr)
	}
	if n, err := strconv.Atoi(os.Getenv(daemonListeners)); err == nil {
		_ = os.Unsetenv(daemonListeners)
		return serveNetperf(o, inherited(n), stderr)
	}
	for _, note := range o.Notes {
		fmt.Fprintln(stdout, note)
	}
	host, family := "IN(6)ADDR_ANY", map[options.Family]string{
		options.Unspecified: "AF_UNSPEC", options.IPv4: "AF_INET", options.IPv6: "AF_INET6"}[o.Family]
	if o.Listen.Name != "" {
		host = o.Listen.Name
	}
	inetd := !o.Foreground && !o.Serial && o.Listen.Name == "" && o.Port == netperf.Port && isSocket(0)
	if o.Debug > 0 {
		fmt.Fprintf(stdout, "check_if_inetd: started by inetd: %t\n", inetd)
		for _, note := range o.NoEffect {
			fmt.Fprintf(stdout, "netserver: without effect: %s\n", note)
		}
	}
	if inetd {
		return serveInetd(o)
	}
	fds := listenNetserver(o)
	if len(fds) == 0 {
		fmt.Fprintf(stderr, "Unable to start netserver with  '%s' port '%d' and family %s\n", host, o.Port, family)
		return exitFailed
	}
	fmt.Fprintf(stdout, "Starting netserver with host '%s' port '%d' and family %s\n", host, o.Port, family)
	if o.Foreground {
		return serveNetperf(o, fds, stderr)
	}
	if err := leaveBehind(o, fds); err != nil {
		fmt.Fprintf(stderr, "netserver: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// listenNetserver opens what the command line asks for. Single addresses that fail
// are left out.
func listenNetserver(o *options.Netserver) (fds []int) {
	for _, addr := range netserverAddresses(o) {
		if fd, err := server.Listen(netip.AddrPortFrom(addr, uint16(o.Port))); err == nil {
			fds = append(fds, fd)
			if addr.IsUnspecified() {
				break // IPv6's serves IPv4 too
			}
		}
	}
	return fds
}

// netserverAddresses are the addresses to listen on, in the order of trying.
func netserverAddresses(o *options.Netserver) (addrs []netip.Addr) {
	fits := func(a netip.Addr) bool {
		return o.Family == options.Unspecified || a.Is4() == (o.Family == options.IPv4)
	}
	var all []netip.Addr
	switch name := o.Listen.Name; {
	case name == "":
		all = []netip.Addr{netip.IPv6Unspecified(), netip.IPv4Unspecified()}
	default:
		if a, err := netip.ParseAddr(name); err == nil {
			all = []netip.Addr{a}
		} else if all, err = net.DefaultResolver.LookupNetIP(context.Background(), "ip", name); err != nil {
			return nil
		}
	}
	for _, a := range all {
		if a = a.Unmap(); fits(a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// leaveBehind starts the process that goes on serving: this program again, under
// the name it was started by, in a session of its own, with the listening sockets.
func leaveBehind(o *options.Netserver, fds []int) error {
	log, err := debugLog(o)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: ownPath(), Args: os.Args, Dir: "/", Stdout: log, Stderr: log,
		Env:         append(os.Environ(), daemonListeners+"="+strconv.Itoa(len(fds))),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	for _, fd := range fds {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "listener"))
	}
	return cmd.Start()
}

// ownPath is the path by which this program was started, whose last part becomes
// the process's name (comm, see proc_pid_comm(5)): as it was found, if it still
// leads here.
func ownPath() string {
	const self = "/proc/self/exe"
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return self
	}
	if path, err = filepath.Abs(path); err != nil {
		return self
	}
	one, err1 := os.Stat(path)
	two, err2 := os.Stat(self)
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		return self
	}
	return path
}

// debugLog is the file that -d asks for; nil: none.
func debugLog(o *options.Netserver) (*os.File, error) {
	if o.Debug == 0 || o.NoDebug {
		return nil, nil
	}
	return os.CreateTemp("/var/log", "netserver.debug_")
}

// inherited are the listening sockets that leaveBehind has passed on.
func inherited(n int) (fds []int) {
	const first = 3
	for fd := first; fd < first+n; fd++ {
		unix.CloseOnExec(fd)
		fds = append(fds, fd)
	}
	return fds
}

// serveNetperf serves on the listening sockets until a signal comes.
func serveNetperf(o *options.Netserver, fds []int, stderr io.Writer) int {
	nameProcess(o.Args[0])
	level := slog.LevelError + 1 // a netserver is silent
	if o.Debug > 0 && !o.NoDebug {
		level = slog.LevelDebug
	}
	cfg := server.Config{
		Listeners: fds, Protocols: []server.Protocol{netserver(o)}, Program: "gperf " + build().Version,
		Log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	s, err := server.New(cfg)
	if err == nil {
		ctx, release := untilSignal(nil)
		defer release()
		err = s.Serve(ctx)
	}
	if err != nil {
		fmt.Fprintf(stderr, "netserver: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// netserver is the protocol as the command line wants it.
func netserver(o *options.Netserver) *netperf.Server {
	s := &netperf.Server{}
	if o.HasPassphrase {
		s.Passphrase = &o.Passphrase
	}
	if o.Serial {
		s.Serial = make(chan struct{}, 1)
	}
	return s
}

// serveInetd serves the one connection that is standard input.
func serveInetd(o *options.Netserver) int {
	s, err := server.New(server.Config{Listeners: []int{}, Protocols: []server.Protocol{netserver(o)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return exitFailed
	}
	ctx, release := untilSignal(nil)
	defer release()
	if err := s.ServeOne(ctx, 0); err != nil {
		return exitFailed
	}
	return exitOK
}

// isSocket reports whether fd is a connected socket.
func isSocket(fd int) bool {
	_, err := unix.Getpeername(fd)
	return err == nil
}

// nameProcess gives the process the name that it was started by, which ps and
// pgrep show: after a start through /proc/self/exe it has another.
func nameProcess(arg0 string) {
	const most = 15 // bytes of a name, see PR_SET_NAME in prctl(2)
	name := filepath.Base(arg0)
	if b, err := os.ReadFile("/proc/self/comm"); err != nil || strings.TrimSpace(string(b)) != "exe" {
		return
	}
	_ = os.WriteFile("/proc/self/comm", []byte(name[:min(len(name), most)]), 0)
}
