package sockopt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// conn is one loopback connection with its listener.
type conn struct{ listener, client, server int }

// network says how the two ends of a test connection talk.
type network struct {
	name                   string
	listenFamily, connFrom int // AF_INET or AF_INET6
}

var networks = []network{
	{"IPv4", unix.AF_INET, unix.AF_INET},
	{"IPv6", unix.AF_INET6, unix.AF_INET6},
	{"mapped", unix.AF_INET6, unix.AF_INET}, // IPv4 to a dual-stack listener
}

func newSocket(t testing.TB, family, protocol int) int {
	t.Helper()
	fd, err := scratch(family, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { discard(fd) })
	return fd
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dial opens a connection the way a test of gperf does: knobs at their
// moments, and two bytes in each direction for the preamble.
func dial(t testing.TB, n network, client, server Settings, o Options) conn {
	t.Helper()
	var c conn
	c.listener = newSocket(t, n.listenFamily, server.Protocol())
	must(t, server.Apply(c.listener, Server, BeforeListen, o))
	var local unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if n.listenFamily == unix.AF_INET6 {
		must(t, unix.SetsockoptInt(c.listener, unix.SOL_IPV6, unix.IPV6_V6ONLY, 0))
		local = &unix.SockaddrInet6{}
	}
	must(t, unix.Bind(c.listener, local))
	must(t, unix.Listen(c.listener, 1))
	sa, err := unix.Getsockname(c.listener)
	must(t, err)

	c.client = newSocket(t, n.connFrom, client.Protocol())
	must(t, client.Apply(c.client, Client, BeforeConnect, o))
	var port int
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		port = sa.Port
	case *unix.SockaddrInet6:
		port = sa.Port
	}
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if n.connFrom == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
	}
	must(t, unix.Connect(c.client, to))

	// With Fast Open the connection only opens with the first byte.
	c.write(t, c.client)
	c.server, _, err = unix.Accept4(c.listener, unix.SOCK_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { discard(c.server) })
	must(t, server.Apply(c.server, Server, AfterAccept, o))
	c.read(t, c.server)
	c.write(t, c.server)
	c.read(t, c.client)
	must(t, client.Apply(c.client, Client, AfterPreamble, o))
	must(t, server.Apply(c.server, Server, AfterPreamble, o))
	return c
}

func (c conn) write(t testing.TB, fd int) {
	t.Helper()
	_, err := unix.Write(fd, []byte{1})
	must(t, err)
}

func (c conn) read(t testing.TB, fd int) {
	t.Helper()
	n, err := unix.Read(fd, make([]byte, 1))
	if must(t, err); n != 1 {
		t.Fatalf("read %d bytes, want 1", n)
	}
}

// inNamespace calls f on a thread in a new network namespace with lo up.
// Goroutines that f starts run outside it, sockets that f opens stay inside.
// f may call t.Error, but not t.Fatal: it isn't on the test's goroutine.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	onThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		fd, err := scratch(unix.AF_INET, 0)
		if err != nil {
			return err
		}
		defer discard(fd)
		ifr, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
			return err
		}
		f()
		return nil
	})
}

// onThread calls f on a thread of its own that ends with it; a permission
// error from f skips the test.
func onThread(t *testing.T, f func() error) {
	t.Helper()
	errc := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends here
		errc <- f()
	}()
	if err := <-errc; errors.Is(err, os.ErrPermission) {
		t.Skip("needs CAP_SYS_ADMIN: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func writeSysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
}

// sample is a value for each knob that this machine's kernel takes, and what
// should be said of it right after setting, on the client and on the server.
var sample = map[string]struct {
	v              Value
	client, server Verdict
}{
	"sndbuf":        {Int(50000), Doubled, Doubled},
	"rcvbuf":        {Int(50000), Doubled, Doubled},
	"nodelay":       {Int(1), Exact, Exact},
	"cork":          {Int(1), Exact, Exact},
	"quickack":      {Int(0), Exact, Exact},
	"mss":           {Int(1000), Adjusted, Adjusted},
	"congestion":    {Str("reno"), Exact, Exact},
	"notsent_lowat": {Int(16384), Exact, Exact},
	"window_clamp":  {Int(32768), Exact, Exact},
	"user_timeout":  {Int(5000), Exact, Exact},
	"pacing_rate":   {Int(12500000000), Exact, Exact},
	"tos":           {Int(0x48), Exact, Exact},
	"priority":      {Int(5), Exact, Exact},
	"mark":          {Int(1<<32 - 2), Exact, Exact},
	"busy_poll":     {Int(50), Exact, Exact},
	"bind_device":   {Str("lo"), Exact, Exact},
	"mtu_discover":  {Int(2), Exact, Exact},
	"fastopen":      {Int(16), Exact, Exact},
	"mptcp":         {Int(1), Exact, Exact},
	"keepalive":     {Int(1), Exact, Exact},
	"linger":        {Int(0), Exact, Exact},
	"rcvlowat":      {Int(2), Exact, Exact},
	"incoming_cpu":  {Int(5000), NotHeld, NotHeld},
}

// Each knob is set and read back on both ends of a connection, for every way
// in which the ends can talk.
func TestApplyAndReadBack(t *testing.T) {
	env := LocalEnv(Options{})
	for _, n := range networks {
		for _, k := range Knobs() {
			t.Run(n.name+"/"+k.Name, func(t *testing.T) {
				want := sample[k.Key()]
				s := Settings{k.Key(): want.v}
				for _, end := range []End{Client, Server} {
					if _, err := Check(end, n.listenFamily, s, Options{}); errors.Is(err, ErrNotSupported) || errors.Is(err, os.ErrPermission) {
						t.Skip("needs a kernel or privilege: ", err)
					} else if err != nil {
						t.Fatal(err)
					}
				}
				c := dial(t, n, s, s, Options{})
				client := Audit(Client, s, env, []StreamReadings{{Effective: s.Read(c.client, Client)}})
				server := Audit(Server, s, env, []StreamReadings{{
					Effective: s.Read(c.server, Server), Listener: s.ReadListener(c.listener),
				}})
				wantServer := want.server
				if limit, _ := env.limit("net.ipv4.tcp_fastopen", 0); k.Name == "fastopen" && limit&2 == 0 {
					wantServer = NoEffect
				}
				check(t, client, k.Key(), want.client)
				check(t, server, k.Key(), wantServer)
			})
		}
	}
}

// check finds the row of a knob and compares its verdict.
func check(t testing.TB, rows []Row, key string, want Verdict) {
	t.Helper()
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Knob == key })
	if i < 0 {
		t.Errorf("no row for %s in %s", key, asJSON(t, rows))
	} else if rows[i].Verdict != want {
		t.Errorf("%s is %s, want %s: %s", key, rows[i].Verdict, want, asJSON(t, rows[i]))
	}
}

// What was not asked for is reported as auto, in the order of the table.
func TestReadWithoutSettings(t *testing.T) {
	c := dial(t, networks[0], nil, nil, Options{})
	var s Settings
	var got []string
	for _, r := range Audit(Client, s, Env{}, []StreamReadings{{Effective: s.Read(c.client, Client)}}) {
		got = append(got, r.Knob)
		if r.Verdict != Auto || r.Requested.IsSet() || !r.Effective.IsSet() || r.Stream != nil {
			t.Errorf("row %s", asJSON(t, r))
		}
	}
	if want := []string{"sndbuf", "rcvbuf", "nodelay", "mss", "congestion"}; !slices.Equal(got, want) {
		t.Errorf("got rows %v, want %v", got, want)
	}
}

// snapshot reads every option that the package knows.
func snapshot(fd, family int) map[string]string {
	m := make(map[string]string)
	get := func(o option) {
		var buf [64]byte
		if n, err := sys.Getsockopt(fd, o.level, o.number, buf[:]); err == nil {
			m[o.name] = string(buf[:n])
		}
	}
	for _, k := range table {
		for _, o := range []option{k.opt, k.server, k.ipv6} {
			if o.name != "" && (o.level != unix.SOL_IPV6 || family == unix.AF_INET6) {
				get(o)
			}
		}
	}
	for _, o := range others {
		if o.level != unix.SOL_IPV6 || family == unix.AF_INET6 {
			get(o.option)
		}
	}
	return m
}

// sideEffects are the options that the kernel itself changes along with one.
var sideEffects = map[string][]string{
	"SO_SNDBUF":       {"SO_BUF_LOCK"},
	"SO_RCVBUF":       {"SO_BUF_LOCK"},
	"IP_TOS":          {"SO_PRIORITY"},
	"SO_RCVLOWAT":     {"SO_RCVBUF"},
	"SO_BINDTODEVICE": {"SO_BINDTOIFINDEX"},
}

// Apply changes the option that was asked for and no other, at that knob's
// moment and at no other.
func TestApplyChangesNothingElse(t *testing.T) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		for _, end := range []End{Client, Server} {
			for _, k := range Knobs() {
				for _, at := range []Moment{BeforeListen, BeforeConnect, AfterAccept, AfterPreamble} {
					fd := newSocket(t, family, 0)
					before := snapshot(fd, family)
					err := Settings{k.Key(): sample[k.Key()].v}.Apply(fd, end, at, Options{})
					if errors.Is(err, os.ErrPermission) {
						continue
					}
					must(t, err)
					own := k.option(fd, end).name
					if !k.When.due(end, at) {
						own = ""
					}
					after := snapshot(fd, family)
					if own != "" && after[own] == before[own] {
						t.Errorf("%s, %s, %s: %s did not change", k.Name, end, at, own)
					}
					for name := range after {
						if after[name] != before[name] && name != own && !slices.Contains(sideEffects[own], name) {
							t.Errorf("%s, %s, %s: %s changed from %q to %q", k.Name, end, at, name, before[name], after[name])
						}
					}
				}
			}
		}
	}
}

// everything sets all knobs that go together on a TCP socket.
func everything() Settings {
	s := make(Settings)
	for key, v := range sample {
		if key != "mptcp" {
			s[key] = v.v
		}
	}
	s["SOL_TCP/TCP_SYNCNT"] = Int(3)
	return s
}

// TestMain is also the process that TestApplyCalls traces.
func TestMain(m *testing.M) {
	if os.Getenv("SOCKOPT_TRACED") == "" {
		os.Exit(m.Run())
	}
	fd, err := scratch(unix.AF_INET, 0)
	s := everything()
	s["nodelay"] = Value{} // auto
	for _, at := range []Moment{BeforeConnect, AfterPreamble} {
		err = errors.Join(err, s.Apply(fd, Client, at, Options{Force: true}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The calls themselves, seen from outside: one for each set knob, in the order
// of the table.
func TestApplyCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace: ", err)
	}
	for _, s := range []Settings{{"mark": Int(1)}, {"rcvbuf": Int(8192)}} {
		if _, err := Check(Client, unix.AF_INET, s, Options{Force: true}); errors.Is(err, os.ErrPermission) {
			t.Skip("needs privilege: ", err)
		}
	}
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(strace, "-f", "-qq", "-e", "trace=setsockopt", exe)
	cmd.Env = append(os.Environ(), "SOCKOPT_TRACED=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		if strings.Contains(trace.String(), "ptrace") {
			t.Skip("needs ptrace: ", trace.String())
		}
		t.Fatalf("%v\n%s", err, trace.String())
	}
	var got []string
	for _, m := range regexp.MustCompile(`setsockopt\(\d+, \w+, (\w+)`).FindAllStringSubmatch(trace.String(), -1) {
		got = append(got, m[1])
	}
	want := strings.Fields(`SO_SNDBUFFORCE SO_RCVBUFFORCE TCP_MAXSEG TCP_CONGESTION TCP_NOTSENT_LOWAT TCP_WINDOW_CLAMP
		TCP_USER_TIMEOUT IP_TOS SO_PRIORITY SO_MARK SO_BUSY_POLL SO_BINDTODEVICE IP_MTU_DISCOVER TCP_FASTOPEN_CONNECT
		SO_KEEPALIVE SO_LINGER SO_INCOMING_CPU TCP_SYNCNT
		TCP_CORK TCP_QUICKACK SO_MAX_PACING_RATE SO_RCVLOWAT`)
	if !slices.Equal(got, want) {
		t.Errorf("calls\n%v, want\n%v", got, want)
	}
}

// A priority that was asked for survives IP_TOS, which sets one of its own.
func TestPriorityAfterTOS(t *testing.T) {
	fd := newSocket(t, unix.AF_INET, 0)
	must(t, Settings{"tos": Int(0x10), "priority": Int(1)}.Apply(fd, Client, BeforeConnect, Options{}))
	if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY); err != nil || got != 1 {
		t.Errorf("SO_PRIORITY is %d, %v; want 1", got, err)
	}
}

func TestProtocol(t *testing.T) {
	if got := (Settings{"mptcp": Int(1)}).Protocol(); got != unix.IPPROTO_MPTCP {
		t.Errorf("with mptcp on: %d", got)
	}
	for _, s := range []Settings{nil, {"mptcp": Int(0)}, {"mptcp": {}}} {
		if got := s.Protocol(); got != 0 {
			t.Errorf("%v: %d", s, got)
		}
	}
}

// A client that asks for MPTCP from a server of plain TCP is told so.
func TestMPTCPFallback(t *testing.T) {
	s := Settings{"mptcp": Int(1)}
	if _, err := Check(Client, unix.AF_INET, s, Options{}); err != nil {
		t.Skip("needs MPTCP: ", err)
	}
	c := dial(t, networks[0], s, nil, Options{})
	rows := Audit(Client, s, Env{}, []StreamReadings{{Effective: s.Read(c.client, Client)}})
	check(t, rows, "mptcp", NoEffect)

	_, err := Check(Client, unix.AF_INET, Settings{"mptcp": Int(1), "user_timeout": Int(5)}, Options{})
	if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "not supported on MPTCP sockets by kernel "+release()) {
		t.Errorf("user-timeout with MPTCP: %v", err)
	}
}

// Check sees a buffer above the limit before any traffic, at each end.
func TestCheckBuffers(t *testing.T) {
	limit, ok := LocalEnv(Options{}).limit("net.core.rmem_max", 0)
	if !ok {
		t.Skip("needs a readable net.core.rmem_max")
	}
	s := Settings{"rcvbuf": Int(limit + 1)}
	for _, end := range []End{Client, Server} {
		rows, err := Check(end, unix.AF_INET, s, Options{})
		must(t, err)
		want := fmt.Sprintf("%s: rcvbuf=%d: clamped by net.core.rmem_max=%d: asked %d, twice that is %d, got %d",
			end, limit+1, limit, limit+1, 2*(limit+1), 2*limit)
		if err := Refused(rows, false); err == nil || err.Error() != want {
			t.Errorf("Refused: %v, want %s", err, want)
		}
		if err := Refused(rows, true); err != nil {
			t.Errorf("Refused with allowClamp: %v", err)
		}
		rows, err = Check(end, unix.AF_INET, s, Options{Force: true})
		if errors.Is(err, os.ErrPermission) {
			t.Skip("needs CAP_NET_ADMIN: ", err)
		}
		must(t, err)
		check(t, rows, "rcvbuf", Doubled)
	}
	rows, err := Check(Server, unix.AF_INET6, Settings{"sndbuf": Int(1)}, Options{})
	must(t, err)
	check(t, rows, "sndbuf", Raised)
}

func TestCheckErrors(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		s          Settings
		is         error
	}{
		{"algorithm", "setsockopt TCP_CONGESTION=nosuch: no such file or directory (available here: ", Settings{"congestion": Str("nosuch")}, unix.ENOENT},
		{"device", "setsockopt SO_BINDTODEVICE=nosuch: no such device", Settings{"bind_device": Str("nosuch")}, unix.ENODEV},
		{"generic", "setsockopt 999=1: protocol not available (not supported by kernel ", Settings{"SOL_TCP/999": Int(1)}, ErrNotSupported},
		{"knob", `unknown knob "turbo"`, Settings{"turbo": Int(1)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, err := Check(Client, unix.AF_INET, tt.s, Options{})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || len(rows) > 0 {
				t.Errorf("got %v, %v; want %s...", rows, err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v doesn't match %v", err, tt.is)
			}
		})
	}
}

// Without privilege the errors name the missing capability.
func TestMissingCapability(t *testing.T) {
	allowed := sysctl("net.ipv4.tcp_allowed_congestion_control")
	onThread(t, func() error {
		if err := dropCapabilities(unix.CAP_NET_ADMIN, unix.CAP_NET_RAW); err != nil {
			return err
		}
		for _, tt := range []struct {
			s    Settings
			o    Options
			want string
		}{
			{Settings{"mark": Int(1)}, Options{}, "setsockopt SO_MARK=1: operation not permitted (needs CAP_NET_ADMIN or CAP_NET_RAW)"},
			{Settings{"priority": Int(7)}, Options{}, "setsockopt SO_PRIORITY=7: operation not permitted (above 6 needs CAP_NET_ADMIN or CAP_NET_RAW)"},
			{Settings{"rcvbuf": Int(8192)}, Options{Force: true},
				"setsockopt SO_RCVBUFFORCE=8192: operation not permitted (needs CAP_NET_ADMIN in the initial user namespace)"},
			{Settings{"SOL_SOCKET/SO_PREFER_BUSY_POLL": Int(1)}, Options{},
				"setsockopt SO_PREFER_BUSY_POLL=1: operation not permitted (needs CAP_NET_ADMIN)"},
			{Settings{"congestion": Str("cubic")}, Options{}, "setsockopt TCP_CONGESTION=cubic: operation not permitted " +
				"(needs CAP_NET_ADMIN, or one of net.ipv4.tcp_allowed_congestion_control=" + allowed + ")"},
		} {
			_, err := Check(Client, unix.AF_INET, tt.s, tt.o)
			switch {
			case errors.Is(err, unix.ENOENT), errors.Is(err, ErrNotSupported):
				// This kernel is built without it.
			case err == nil && tt.s["congestion"].IsSet() && slices.Contains(strings.Fields(allowed), "cubic"):
			case err == nil, err.Error() != tt.want:
				t.Errorf("got %v, want %s", err, tt.want)
			case !errors.Is(err, os.ErrPermission):
				t.Errorf("%v isn't a permission error", err)
			}
		}
		i := slices.IndexFunc(Probe(unix.AF_INET), func(r ProbeRow) bool { return r.Knob == "mark" })
		if r := Probe(unix.AF_INET)[i]; !r.Supported || !strings.Contains(r.Reason, "needs CAP_NET_ADMIN") {
			t.Errorf("probe says %+v", r)
		}
		return nil
	})
}

// dropCapabilities takes capabilities from the calling thread alone.
func dropCapabilities(capabilities ...uint) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for _, c := range capabilities {
		data[c/32].Effective &^= 1 << (c % 32)
	}
	return unix.Capset(&header, &data[0])
}

// Fast Open needs the sysctl's bit of its end, and says so without it.
func TestFastOpenSysctl(t *testing.T) {
	inNamespace(t, func() {
		s := Settings{"fastopen": Int(16)}
		for _, tt := range []struct {
			sysctl         string
			client, server Verdict
		}{
			{"3", Exact, Exact},
			{"1", Exact, NoEffect},
		} {
			if err := writeSysctl("net.ipv4.tcp_fastopen", tt.sysctl); err != nil {
				t.Error(err)
				return
			}
			for end, want := range map[End]Verdict{Client: tt.client, Server: tt.server} {
				rows, err := Check(end, unix.AF_INET, s, Options{})
				if err != nil {
					t.Error(err)
					continue
				}
				check(t, rows, "fastopen", want)
			}
		}
		if err := writeSysctl("net.ipv4.tcp_fastopen", "0"); err != nil {
			t.Error(err)
			return
		}
		_, err := Check(Client, unix.AF_INET, s, Options{})
		const want = "setsockopt TCP_FASTOPEN_CONNECT=1: operation not supported (net.ipv4.tcp_fastopen=0 lacks bit 1, the client's)"
		if err == nil || err.Error() != want || errors.Is(err, ErrNotSupported) {
			t.Errorf("got %v, want %s, which is not about the kernel's age", err, want)
		}
	})
}

// MPTCP that is switched off is another thing than a kernel without it.
func TestMPTCPSysctl(t *testing.T) {
	if sysctl("net.mptcp.enabled") == "" {
		t.Skip("needs a kernel with MPTCP")
	}
	inNamespace(t, func() {
		if err := writeSysctl("net.mptcp.enabled", "0"); err != nil {
			t.Error(err)
			return
		}
		_, err := Check(Client, unix.AF_INET, Settings{"mptcp": Int(1)}, Options{})
		const want = "socket IPPROTO_MPTCP: protocol not available (net.mptcp.enabled=0)"
		if err == nil || err.Error() != want || errors.Is(err, ErrNotSupported) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// SO_RCVLOWAT is capped by the namespace's tcp_rmem, or by a buffer that was set.
func TestLowatLimits(t *testing.T) {
	inNamespace(t, func() {
		if err := writeSysctl("net.ipv4.tcp_rmem", "4096 131072 262144"); err != nil {
			t.Error(err)
			return
		}
		for _, tt := range []struct {
			s    Settings
			want string
		}{
			{Settings{"rcvlowat": Int(200000)}, "clamped by half of net.ipv4.tcp_rmem[2]=262144: asked 200000, got 131072"},
			{Settings{"rcvlowat": Int(200000), "rcvbuf": Int(100000)}, "clamped by half of the receive buffer: asked 200000, got 100000"},
		} {
			rows, err := Check(Server, unix.AF_INET, tt.s, Options{})
			if err != nil {
				t.Error(err)
				continue
			}
			if r := rows[len(rows)-1]; r.Detail != tt.want {
				t.Errorf("got %s, want %s", asJSON(t, r), tt.want)
			}
		}
	})
}

// Busy polling can't do anything on loopback, which only shows at the end.
func TestBusyPollOnLoopback(t *testing.T) {
	s := Settings{"busy_poll": Int(50)}
	if _, err := Check(Client, unix.AF_INET, s, Options{}); err != nil {
		t.Skip("needs SO_BUSY_POLL: ", err)
	}
	c := dial(t, networks[0], s, nil, Options{})
	r := s.Read(c.client, Client)
	check(t, Audit(Client, s, Env{}, []StreamReadings{{Effective: r, AtStart: r}}), "busy_poll", Exact)
	check(t, Audit(Client, s, Env{}, []StreamReadings{{Effective: r, AtStart: r, AtEnd: r}}), "busy_poll", NoEffect)
}

// The client's quick-ACK mode is undone by the handshake, which is why the
// knob is set after it; a switch that is on goes off by itself in a
// request/response exchange.
func TestQuickAckIsNotSticky(t *testing.T) {
	on := Settings{"quickack": Int(1)}
	c := dial(t, networks[0], on, on, Options{})
	set := on.Read(c.client, Client)
	for range 20 {
		c.write(t, c.client)
		c.read(t, c.server)
		c.write(t, c.server)
		c.read(t, c.client)
	}
	rows := Audit(Client, on, Env{}, []StreamReadings{{Effective: set, AtEnd: on.Read(c.client, Client)}})
	check(t, rows, "quickack", NotHeld)
}

func TestProbe(t *testing.T) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rows := Probe(family)
		if len(rows) != len(table) {
			t.Fatalf("%d rows for %d knobs", len(rows), len(table))
		}
		for i, r := range rows {
			if r.Knob != table[i].Name || r.Option == "" || r.When == "" || !r.Supported && r.Reason == "" {
				t.Errorf("row %d: %+v", i, r)
			}
			if r.Knob == "nodelay" && (!r.Supported || r.Default != Int(0)) {
				t.Errorf("%+v: every kernel has TCP_NODELAY, off", r)
			}
		}
	}
}

// The fields agree with x/sys's idea of the structure, at this kernel's length.
func TestReadTCPInfo(t *testing.T) {
	c := dial(t, networks[0], nil, nil, Options{})
	info, err := ReadTCPInfo(c.client, make([]byte, TCPInfoSize))
	must(t, err)
	if len(info) < 232 || len(info) > TCPInfoSize {
		t.Errorf("%d bytes; Linux 5.4 returns 232", len(info))
	}
	var x unix.TCPInfo
	if len(info) < int(unsafe.Sizeof(x)) {
		t.Skipf("needs Linux 6.18 for x/sys's structure; this kernel returns %d bytes", len(info))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x)), info)
	compareWithXSys(t, info, x)

	for f, want := range map[TCPField]uint64{State: 1, BytesAcked: 2, BytesReceived: 1, BytesSent: 1, TotalRetrans: 0} {
		if got, ok := info.Get(f); !ok || got != want {
			t.Errorf("%s = %d, %v; want %d", f, got, ok, want)
		}
	}
	for _, f := range []TCPField{MaxPacingRate, SndSsthresh} {
		if got, ok := info.Get(f); ok {
			t.Errorf("%s = %d, want no limit", f, got)
		}
	}
	if scale, ok := info.Get(RcvWscale); !ok || scale == 0 && sysctl("net.ipv4.tcp_window_scaling") != "0" {
		t.Errorf("rcv_wscale = %d, %v", scale, ok)
	}
	if _, err := ReadTCPInfo(-1, make([]byte, TCPInfoSize)); !errors.Is(err, unix.EBADF) || err.Error() != "getsockopt TCP_INFO: bad file descriptor" {
		t.Errorf("of no descriptor: %v", err)
	}
}

func TestReadTCPInfoAllocates(t *testing.T) {
	c := dial(t, networks[0], nil, nil, Options{})
	buf := make([]byte, TCPInfoSize)
	start, err := ReadTCPInfo(c.client, make([]byte, TCPInfoSize))
	must(t, err)
	allocs := testing.AllocsPerRun(100, func() {
		info, err := ReadTCPInfo(c.client, buf)
		if _, ok := info.Get(RTT); err != nil || !ok {
			t.Error("no RTT: ", err)
		}
		Delta(start, info, BytesSent)
	})
	if allocs != 0 {
		t.Errorf("%v allocations per reading", allocs)
	}
}

func BenchmarkReadTCPInfo(b *testing.B) {
	c := dial(b, networks[0], nil, nil, Options{})
	buf := make([]byte, TCPInfoSize)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadTCPInfo(c.client, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleReadTCPInfo() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	info, err := ReadTCPInfo(fd, make([]byte, TCPInfoSize))
	if err != nil {
		fmt.Println(err)
		return
	}
	state, _ := info.Get(State)
	fmt.Println("state " + strconv.FormatUint(state, 10))
	// Output: state 7
}
