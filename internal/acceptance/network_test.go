package acceptance

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gperf/internal/netnstest"
	"gperf/result"
	"gperf/sockopt"
)

// A sock is one line of /proc/net/tcp or tcp6.
type sock struct {
	local, remote netip.AddrPort
	state         int
	queued        int // bytes not yet acknowledged or not yet read
	inode         string
}

// States of a socket in the kernel's numbers.
const (
	established = 1
	listening   = 10
)

// sockets lists the TCP sockets of the calling thread's namespace.
func sockets() ([]sock, error) {
	var all []sock
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + file)
		if err != nil {
			return nil, err
		}
		for _, line := range splitLines(string(text))[1:] {
			f := strings.Fields(line)
			var s sock
			var send, receive int
			if _, err := fmt.Sscanf(f[4], "%x:%x", &send, &receive); err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			if _, err := fmt.Sscanf(f[3], "%x", &s.state); err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			s.local, s.remote, s.queued, s.inode = hexAddr(f[1]), hexAddr(f[2]), send+receive, f[9]
			all = append(all, s)
		}
	}
	return all, nil
}

// hexAddr reads an address as /proc/net/tcp has it, of which only the port is
// of use here for IPv6.
func hexAddr(s string) netip.AddrPort {
	host, port, _ := strings.Cut(s, ":")
	n, _ := strconv.ParseUint(port, 16, 16)
	addr := netip.IPv6Unspecified()
	if len(host) == 8 {
		v, _ := strconv.ParseUint(host, 16, 32)
		addr = netip.AddrFrom4([4]byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
	}
	return netip.AddrPortFrom(addr, uint16(n))
}

// listening are the ports that the process listens on.
func (p *process) listening(t *testing.T) []int {
	t.Helper()
	all, err := sockets()
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil {
			own[target] = true
		}
	}
	var ports []int
	for _, s := range all {
		if s.state == listening && own["socket:["+s.inode+"]"] {
			ports = append(ports, int(s.local.Port()))
		}
	}
	return ports
}

// P038: one open port is enough, for every type and many streams.
func TestOnePort(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	b.Nft(fmt.Sprintf(`table ip t { chain c { type filter hook input priority 0; policy drop; tcp dport %d accept; }; }`, s.addr.Port()))
	for _, test := range testTypes {
		o := s.complete(place{ns: a}, append(quick(test), "-P", "8", "--nodelay", "--sndbuf", "64K")...)
		if len(o.Streams) != 8 {
			t.Errorf("%s: %d streams", test, len(o.Streams))
		}
		for _, st := range o.Streams {
			if port := netip.MustParseAddrPort(st.Client.Remote).Port(); port != s.addr.Port() {
				t.Errorf("%s: stream %d goes to port %d", test, st.ID, port)
			}
		}
	}
	// A knob that must precede listen() has a port of its own, which is shut here.
	o := s.client(place{ns: a}, "--rcvbuf", "64K", "--bytes", "200K", "--connect-timeout", "0.3")
	o.failed(t, 1, b.Addr4.String(), "within 300ms")
}

// --data-ports bounds the ports of tests that need one of their own.
func TestDataPorts(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	s := serve(t, place{ns: ns}, "--data-ports", "5100-5101")
	port := func(o *outcome) int { return int(netip.MustParseAddrPort(o.Streams[0].Client.Remote).Port()) }
	if got := port(s.complete(place{ns: ns}, "--bytes", "200K")); got != int(s.addr.Port()) {
		t.Errorf("a test without such a knob uses port %d", got)
	}
	for range 3 {
		if got := port(s.complete(place{ns: ns}, "--bytes", "200K", "--rcvbuf", "64K")); got != 5100 && got != 5101 {
			t.Errorf("data port %d", got)
		}
	}
	one := s.underWay(t, place{ns: ns}, "--rcvbuf", "64K")
	two := s.underWay(t, place{ns: ns}, "--mss", "1000")
	o := s.client(place{ns: ns}, "--bytes", "200K", "--rcvbuf", "64K")
	o.failed(t, 2, "--data-ports 5100-5101", "server")
	for _, p := range []*process{one, two} {
		p.signal(syscall.SIGINT)
		if o := p.outcome(); o.status != 3 {
			t.Errorf("exit status %d, %s", o.status, o.stderr)
		}
	}
	eventually(t, "a free data port", func() bool {
		return s.client(place{ns: ns}, "--bytes", "200K", "--rcvbuf", "64K").status == 0
	})
}

// Both families, names, scoped and bracketed addresses, and a local address.
func TestAddresses(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{MTU: 1500})
	if !b.Addr6.IsValid() {
		t.Skip("needs a kernel with IPv6")
	}
	s := serve(t, place{ns: b}, "--listen", ":0") // every address of both families
	port := strconv.Itoa(int(s.addr.Port()))
	client := func(args ...string) *outcome { return run(t, place{ns: a}, append(args, "-J")...) }
	for _, tt := range []struct {
		name string
		args []string
		want netip.Addr // of the server, as the client sees it
	}{
		{"IPv4", []string{b.Addr4.String() + ":" + port}, b.Addr4},
		{"IPv6 in brackets", []string{"[" + b.Addr6.String() + "]:" + port}, b.Addr6},
		{"-4", []string{"-4", b.Addr4.String() + ":" + port}, b.Addr4},
		{"-6", []string{"-6", "[" + b.Addr6.String() + "]:" + port}, b.Addr6},
		{"scope", []string{"[" + b.LinkLocal.WithZone(a.Device).String() + "]:" + port}, b.LinkLocal},
		{"bind", []string{"--bind", a.Addr4.String(), b.Addr4.String() + ":" + port}, b.Addr4},
		{"bind IPv6", []string{"--bind", a.Addr6.String(), "[" + b.Addr6.String() + "]:" + port}, b.Addr6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, test := range []string{"TCP_STREAM", "TCP_RR"} {
				o := client(append(slices.Concat(tt.args, quick(test)), "-P", "2", "--rcvbuf", "64K:", "--sndbuf", ":64K", "--tos", "8")...)
				o.mustComplete(t)
				for _, st := range o.Streams {
					c, s := st.Client, st.Server
					if got := netip.MustParseAddrPort(c.Remote).Addr().WithZone(""); got != tt.want.WithZone("") {
						t.Errorf("%s: stream %d goes to %s", test, st.ID, c.Remote)
					}
					if without(c.Local) != without(s.Remote) || without(c.Remote) != without(s.Local) {
						t.Errorf("%s: stream %d is %s-%s at one end, %s-%s at the other", test, st.ID, c.Local, c.Remote, s.Remote, s.Local)
					}
				}
				if len(o.Streams) != 2 {
					t.Errorf("%d streams", len(o.Streams))
				}
			}
		})
	}
	t.Run("MTU", func(t *testing.T) {
		o := client(b.Addr4.String()+":"+port, "--bytes", "200K")
		o.mustComplete(t)
		mss := o.row(t, sockopt.Client, "mss").AtEnd
		if mss != sockopt.Int(1448) || deref(o.Streams[0].Client.TCPInfo.End["pmtu_bytes"]) != 1500 {
			t.Errorf("MSS %s, path MTU %d over a link of 1500", mss, deref(o.Streams[0].Client.TCPInfo.End["pmtu_bytes"]))
		}
		if o.Summary.CPU.Scope != "shared" {
			t.Errorf("one machine is called %s", o.Summary.CPU.Scope)
		}
	})
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		words  []string
	}{
		{"no scope", []string{"[" + b.LinkLocal.WithZone("").String() + "]:" + port}, 2, []string{"scope"}},
		{"unknown scope", []string{"[" + b.LinkLocal.WithZone("nosuch0").String() + "]:" + port}, 1, []string{"nosuch0"}},
		{"-4 with IPv6", []string{"-4", "[" + b.Addr6.String() + "]:" + port}, 2, []string{"IPv4", "-4"}},
		{"-6 with IPv4", []string{"-6", b.Addr4.String() + ":" + port}, 2, []string{"IPv6", "-6"}},
		{"bind to a foreign address", []string{"--bind", "10.77.0.77", b.Addr4.String() + ":" + port}, 1, []string{"10.77.0.77"}},
		{"nobody there", []string{"10.77.0.99:" + port, "--connect-timeout", "0.3"}, 1, []string{"10.77.0.99:" + port}},
		{"no route", []string{"203.0.113.1:" + port, "--connect-timeout", "0.3"}, 1, []string{"203.0.113.1:" + port, "unreachable"}},
		{"closed port", []string{b.Addr4.String() + ":1"}, 1, []string{b.Addr4.String() + ":1", "refused"}},
		{"unknown host", []string{"no-such-host.invalid:" + port, "--connect-timeout", "0.3"}, 1, []string{"no-such-host.invalid:" + port}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := client(tt.args...)
			o.failed(t, tt.status, tt.words...)
			if o.Status != result.Failed || o.Summary != nil {
				t.Errorf("document: %s", o.verdict())
			}
			// As text: nothing on stdout, no result of zero.
			o = run(t, place{ns: a}, append(slices.Clone(tt.args), "--bytes", "200K")...)
			o.failed(t, tt.status, tt.words...)
			if o.stdout != "" {
				t.Errorf("stdout %q", o.stdout)
			}
		})
	}
}

// without is an address without its scope, which each end numbers in its way.
func without(s string) netip.AddrPort {
	a := netip.MustParseAddrPort(s)
	return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port())
}

// Names are looked up; a server on one family is found through a name of both.
func TestHostnames(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, host := range []string{"localhost", "LOCALHOST"} {
		o := run(t, place{}, "-J", "--bytes", "200K", s.at(host))
		o.mustComplete(t)
		if got := netip.MustParseAddrPort(o.Streams[0].Client.Remote).Addr(); !got.IsLoopback() {
			t.Errorf("%s is %s", host, got)
		}
	}
	o := run(t, place{}, "-J", "--bytes", "200K", "--bind", "127.0.0.9", s.at("127.0.0.1"))
	o.mustComplete(t)
	if got := netip.MustParseAddrPort(o.Streams[0].Server.Remote).Addr().String(); got != "127.0.0.9" {
		t.Errorf("the server sees %s", got)
	}
}
