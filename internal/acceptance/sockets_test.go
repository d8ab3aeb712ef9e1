package acceptance

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gperf/sockopt"
)

// traced runs one client against one server, both under strace, and returns
// what they did. The server ends with the test.
func traced(t *testing.T, calls string, args ...string) (o *outcome, client, srv *trace) {
	t.Helper()
	dir := t.TempDir()
	s := serve(t, place{trace: filepath.Join(dir, "server"), calls: calls}, "--once")
	o = s.client(place{trace: filepath.Join(dir, "client"), calls: calls}, args...)
	if o.status != 0 || o.Run == nil || o.Error != nil {
		t.Fatalf("%v: exit status %d, stderr %q, document %s", args, o.status, o.stderr, o.verdict())
	}
	if status := s.status(); status != 0 {
		t.Fatalf("the server's exit status is %d, stderr %q", status, &s.stderr)
	}
	return o, readTrace(t, filepath.Join(dir, "client")), readTrace(t, filepath.Join(dir, "server"))
}

// timeouts are the two options that gperf sets by itself.
var timeouts = []string{"SO_RCVTIMEO", "SO_SNDTIMEO"}

// optionRow says which setsockopt calls a command line must cause, and there
// must be no others. The names and values are strace's.
type optionRow struct {
	name   string
	flags  []string
	before []string // client: before connect
	after  []string // client: after the preamble
	listen []string // server: on the listener, before listen
	accept []string // server: on the accepted socket
}

// pacing is a gigabyte per second, 0x3b9aca00, in the first of eight bytes that
// strace is told to show: no byte is more than it shows.
const pacing = `SO_MAX_PACING_RATE="\0\312\232;\0\0\0\0"`

var optionRows = []optionRow{
	{name: "none"},
	{name: "sndbuf", flags: []string{"--sndbuf", "64K"}, before: []string{"SO_SNDBUF=65536"}, accept: []string{"SO_SNDBUF=65536"}},
	{name: "rcvbuf", flags: []string{"--rcvbuf", "64K"}, before: []string{"SO_RCVBUF=65536"}, listen: []string{"SO_RCVBUF=65536"}},
	{name: "rcvbuf of the server", flags: []string{"--rcvbuf", ":8K"}, listen: []string{"SO_RCVBUF=8192"}},
	{name: "rcvbuf of the client", flags: []string{"--rcvbuf", "8K:"}, before: []string{"SO_RCVBUF=8192"}},
	{
		name: "both buffers by force", flags: []string{"--sndbuf", "5M", "--rcvbuf", "5M", "--force-buffers"},
		before: []string{"SO_SNDBUFFORCE=5242880", "SO_RCVBUFFORCE=5242880"},
		listen: []string{"SO_RCVBUFFORCE=5242880"}, accept: []string{"SO_SNDBUFFORCE=5242880"},
	},
	{name: "auto", flags: []string{"--sndbuf", "auto", "--rcvbuf", "auto", "--congestion", "auto"}},
	{name: "nodelay", flags: []string{"--nodelay"}, before: []string{"TCP_NODELAY=1"}, accept: []string{"TCP_NODELAY=1"}},
	{name: "nodelay per end", flags: []string{"--nodelay=on:off"}, before: []string{"TCP_NODELAY=1"}, accept: []string{"TCP_NODELAY=0"}},
	{name: "nodelay of the server", flags: []string{"--nodelay=:on"}, accept: []string{"TCP_NODELAY=1"}},
	{name: "cork", flags: []string{"--cork"}, after: []string{"TCP_CORK=1"}, accept: []string{"TCP_CORK=1"}},
	{name: "quickack", flags: []string{"--quickack=off"}, after: []string{"TCP_QUICKACK=0"}, accept: []string{"TCP_QUICKACK=0"}},
	{name: "mss", flags: []string{"--mss", "1000"}, before: []string{"TCP_MAXSEG=1000"}, listen: []string{"TCP_MAXSEG=1000"}},
	{name: "congestion", flags: []string{"--congestion", "reno"}, before: []string{`TCP_CONGESTION="reno"`}, accept: []string{`TCP_CONGESTION="reno"`}},
	{name: "notsent-lowat", flags: []string{"--notsent-lowat", "128K"}, before: []string{"TCP_NOTSENT_LOWAT=131072"}, accept: []string{"TCP_NOTSENT_LOWAT=131072"}},
	{name: "window-clamp", flags: []string{"--window-clamp", "64K"}, before: []string{"TCP_WINDOW_CLAMP=65536"}, listen: []string{"TCP_WINDOW_CLAMP=65536"}},
	{name: "user-timeout", flags: []string{"--user-timeout", "30s"}, before: []string{"TCP_USER_TIMEOUT=30000"}, accept: []string{"TCP_USER_TIMEOUT=30000"}},
	{name: "tos", flags: []string{"--tos", "af41"}, before: []string{"IP_TOS=136"}, accept: []string{"IP_TOS=136"}},
	{name: "priority", flags: []string{"--priority", "4"}, before: []string{"SO_PRIORITY=4"}, accept: []string{"SO_PRIORITY=4"}},
	{name: "mark", flags: []string{"--mark", "7"}, before: []string{"SO_MARK=7"}, accept: []string{"SO_MARK=7"}},
	{name: "bind-device", flags: []string{"--bind-device", "lo"}, before: []string{`SO_BINDTODEVICE="lo"`}, listen: []string{`SO_BINDTODEVICE="lo"`}},
	{name: "mtu-discover", flags: []string{"--mtu-discover", "do"}, before: []string{"IP_MTU_DISCOVER=2"}, accept: []string{"IP_MTU_DISCOVER=2"}},
	{name: "keepalive", flags: []string{"--keepalive"}, before: []string{"SO_KEEPALIVE=1"}, accept: []string{"SO_KEEPALIVE=1"}},
	{
		name: "linger", flags: []string{"--linger", "0"},
		before: []string{"SO_LINGER={l_onoff=1, l_linger=0}"}, accept: []string{"SO_LINGER={l_onoff=1, l_linger=0}"},
	},
	{name: "rcvlowat", flags: []string{"--rcvlowat", "512"}, after: []string{"SO_RCVLOWAT=512"}, accept: []string{"SO_RCVLOWAT=512"}},
	{
		name: "several in the table's order", flags: []string{"--priority", "3:", "--tos", "8:", "--nodelay=on:", "--rcvbuf", "64K", "--sndbuf", "32K:"},
		before: []string{"SO_SNDBUF=32768", "SO_RCVBUF=65536", "TCP_NODELAY=1", "IP_TOS=8", "SO_PRIORITY=3"},
		listen: []string{"SO_RCVBUF=65536"},
	},
	{name: "pacing-rate", flags: []string{"--pacing-rate", "8Gbit"}, after: []string{pacing}, accept: []string{pacing}},
	{name: "busy-poll", flags: []string{"--busy-poll", "50"}, before: []string{"SO_BUSY_POLL=50"}, accept: []string{"SO_BUSY_POLL=50"}},
	{name: "incoming-cpu", flags: []string{"--incoming-cpu", "0"}, before: []string{"SO_INCOMING_CPU=0"}, accept: []string{"SO_INCOMING_CPU=0"}},
	{name: "fastopen", flags: []string{"--fastopen", "on:"}, before: []string{"TCP_FASTOPEN_CONNECT=1"}},
	{name: "another option by name", flags: []string{"--sockopt", "SOL_TCP/TCP_LINGER2=20"}, before: []string{"TCP_LINGER2=20"}, accept: []string{"TCP_LINGER2=20"}},
	{name: "another option before listen", flags: []string{"--sockopt", "SOL_TCP/TCP_SYNCNT=4"}, before: []string{"TCP_SYNCNT=4"}, listen: []string{"TCP_SYNCNT=4"}},
}

// Whatever is asked for is what is set, at the moment when it counts, and
// nothing else.
func TestOptions(t *testing.T) {
	t.Parallel()
	asRoot(t)
	covered := map[string]bool{"mptcp": true} // an argument of socket(2)
	for _, tt := range optionRows {
		for _, f := range tt.flags {
			name, _, _ := strings.Cut(f, "=")
			covered[strings.TrimPrefix(name, "--")] = true
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, client, srv := traced(t, knobCalls, append([]string{"--bytes", "100K", "-P", "2"}, tt.flags...)...)
			checkOptions(t, tt, client, srv, 2)
		})
	}
	for _, k := range sockopt.Knobs() {
		if !covered[k.Name] {
			t.Errorf("no row sets %s", k.Name)
		}
	}
}

func checkOptions(t *testing.T, want optionRow, client, srv *trace, streams int) {
	t.Helper()
	if len(client.data) != streams || len(srv.data) != streams {
		t.Fatalf("%d data sockets at the client, %d at the server; want %d", len(client.data), len(srv.data), streams)
	}
	diff := func(what string, want, got []string) {
		t.Helper()
		if want == nil {
			want = []string{}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("setsockopt calls %s (-want +got):\n%s", what, d)
		}
	}
	for _, d := range client.data {
		connect := d.index("connect")
		diff("of the client before connect", want.before, options(d.calls[:connect]))
		diff("of the client after connect", slices.Concat(want.after, timeouts), options(d.calls[connect:]))
	}
	for _, d := range srv.data {
		diff("of the server after accept", slices.Concat(want.accept, timeouts), options(d.calls))
	}
	listeners := [][]string{{"SO_REUSEADDR=1"}} // the server's one port
	if len(want.listen) > 0 {
		listeners = append(listeners, append([]string{"SO_REUSEADDR=1"}, want.listen...))
	}
	if len(srv.listeners) != len(listeners) {
		t.Fatalf("the server has had %d listeners, not %d", len(srv.listeners), len(listeners))
	}
	for i, l := range srv.listeners {
		at := l.index("listen")
		diff("of a listener before listen", listeners[i], options(l.calls[:at]))
		diff("of a listener after listen", nil, options(l.calls[at:]))
	}
	// Every data connection has come by the listener with the knobs.
	last := srv.listeners[len(srv.listeners)-1]
	for _, d := range srv.data {
		if c := d.calls[0]; c.name != "accept4" || c.arg(0) != strconv.Itoa(last.fd) {
			t.Errorf("a data connection came by %v, not by the listener %d", c, last.fd)
		}
	}
	checkNoPolling(t, client, srv)
}

// checkNoPolling checks that nobody has polled a data socket from the moment
// when it was ready for its test.
func checkNoPolling(t *testing.T, traces ...*trace) {
	t.Helper()
	for _, tr := range traces {
		for _, d := range tr.data {
			ready := slices.IndexFunc(d.calls, func(c *syscallLine) bool { return strings.Contains(c.args, "SO_RCVTIMEO") })
			if ready < 0 {
				t.Errorf("descriptor %d never got its time-outs", d.fd)
				continue
			}
			watched := false
			for _, c := range d.calls[:ready] {
				if c.name == "epoll_ctl" {
					watched = c.arg(1) != "EPOLL_CTL_DEL"
				}
			}
			if watched {
				t.Errorf("descriptor %d is still in an epoll set during the test", d.fd)
			}
			for _, c := range d.calls[ready:] {
				switch c.name {
				case "poll", "ppoll", "select", "pselect6", "epoll_ctl":
					t.Errorf("a data socket in use is polled: %v", c)
				}
			}
		}
	}
}

// IPv6 listeners get IPV6_V6ONLY besides, and traffic class instead of TOS.
func TestOptionsIPv6(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, place{trace: filepath.Join(dir, "server"), calls: knobCalls}, "--once", "--listen", "[::1]:0")
	o := s.client(place{trace: filepath.Join(dir, "client"), calls: knobCalls}, "--bytes", "100K", "--tos", "8", "--rcvbuf", "64K")
	o.mustComplete(t)
	s.status()
	client, srv := readTrace(t, filepath.Join(dir, "client")), readTrace(t, filepath.Join(dir, "server"))
	var got [][]string
	for _, d := range slices.Concat(srv.listeners, srv.data, client.data) {
		got = append(got, options(d.calls))
	}
	want := [][]string{
		{"SO_REUSEADDR=1", "IPV6_V6ONLY=1"},
		{"SO_REUSEADDR=1", "IPV6_V6ONLY=1", "SO_RCVBUF=65536"},
		{"IPV6_TCLASS=8", "SO_RCVTIMEO", "SO_SNDTIMEO"},
		{"SO_RCVBUF=65536", "IPV6_TCLASS=8", "SO_RCVTIMEO", "SO_SNDTIMEO"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// P002: without options for them, buffers are the kernel's to choose; the
// result says so, with what they were at both edges of the window.
func TestAutoBuffers(t *testing.T) {
	t.Parallel()
	o, client, srv := traced(t, knobCalls, "-t", "TCP_STREAM", "-d", "0.2")
	for _, tr := range []*trace{client, srv} {
		for _, d := range slices.Concat(tr.data, tr.listeners, tr.others) {
			for _, option := range options(d.calls) {
				if strings.Contains(option, "BUF") {
					t.Errorf("setsockopt %s", option)
				}
			}
		}
	}
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		for _, knob := range []string{"sndbuf", "rcvbuf"} {
			r := o.row(t, end, knob)
			if r.Verdict != sockopt.Auto || r.Requested.IsSet() || !r.AtStart.IsSet() || !r.AtEnd.IsSet() {
				t.Errorf("%s: %s: %+v", end, knob, r)
			}
		}
	}
	text := run(t, place{}, "--bytes", "200K").stdout
	if !strings.Contains(text, "auto") {
		t.Errorf("text doesn't say that buffers are auto-tuned:\n%s", text)
	}
}

// Sends are of the message size, or of what the kernel left of one; receives
// ask for the receive size (P012). Nothing else touches a data socket while it
// is in use.
func TestMessages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		flags            []string
		sends, receives  int
		reply            int  // size of sends the other way, in request/response tests
		short            bool // the kernel cuts sends short
		clientIsReceiver bool
	}{
		{name: "256 bytes", flags: []string{"-d", "0.2", "-m", "256"}, sends: 256, receives: 128 << 10},
		{name: "receive size apart", flags: []string{"-d", "0.2", "-m", "256", "--receive-size", "65536"}, sends: 256, receives: 65536},
		{name: "the other way", flags: []string{"-t", "TCP_MAERTS", "-d", "0.2", "-m", "256", "--receive-size", "1000"}, sends: 256, receives: 1000, clientIsReceiver: true},
		{name: "the default", flags: []string{"-d", "0.2"}, sends: 128 << 10, receives: 128 << 10},
		{name: "per end", flags: []string{"-d", "0.2", "-m", "5000:77", "--receive-size", "88:3000"}, sends: 5000, receives: 3000},
		// 1 MiB at 20 Mbit/s takes twice the time that a send may block.
		{name: "cut short", flags: []string{"-d", "0.6", "-m", "1M", "--sndbuf", "64K:", "--pacing-rate", "20Mbit:"}, sends: 1 << 20, receives: 128 << 10, short: true},
		{name: "transactions", flags: []string{"-t", "TCP_RR", "-d", "0.2", "--request-size", "300", "--response-size", "700"}, sends: 300, receives: 300, reply: 700},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, client, srv := traced(t, allCalls, tt.flags...)
			checkNoPolling(t, client, srv)
			sender, receiver := client, srv
			if tt.clientIsReceiver {
				sender, receiver = srv, client
			}
			if tt.reply > 0 {
				checkSends(t, client, tt.sends)
				checkSends(t, srv, tt.reply)
				checkReceives(t, srv, func(int) bool { return true }, tt.receives)
				checkReceives(t, client, func(int) bool { return true }, tt.reply)
				return
			}
			short := checkSends(t, sender, tt.sends)
			if tt.short && short == 0 { // others may be, by a signal or the test's end
				t.Error("no send was cut short")
			}
			checkReceives(t, receiver, func(n int) bool { return n == tt.receives }, tt.receives)
			for _, d := range sender.data {
				for _, c := range d.payload() {
					if c.name != "sendto" {
						t.Errorf("the sender called %v", c)
					}
				}
			}
		})
	}
}

// checkSends checks the sizes of all sends on the data sockets and returns how
// many were cut short.
func checkSends(t *testing.T, tr *trace, size int) (short int) {
	t.Helper()
	for _, d := range tr.data {
		offset, whole := 0, 0
		for _, c := range d.payload() {
			switch c.name {
			case "sendto":
			case "recvfrom":
				continue
			default:
				t.Errorf("payload goes by %v", c)
			}
			asked, err := strconv.Atoi(c.arg(2))
			if err != nil || asked != size-offset {
				t.Fatalf("message size %d, of which %d are sent: %v", size, offset, c)
			}
			sent := max(c.number(), 0)
			if sent > 0 && sent < asked {
				short++
			}
			if offset += sent; offset == size {
				offset = 0
				whole++
			}
		}
		if whole == 0 {
			t.Errorf("not one message of %d was sent on descriptor %d", size, d.fd)
		}
	}
	return short
}

// checkReceives checks the sizes that receives on the data sockets ask for.
func checkReceives(t *testing.T, tr *trace, good func(int) bool, most int) {
	t.Helper()
	for _, d := range tr.data {
		count := 0
		for _, c := range d.payload() {
			if c.name != "recvfrom" {
				continue
			}
			asked, err := strconv.Atoi(c.arg(2))
			if err != nil || asked > most || !good(asked) {
				t.Fatalf("receive size %d: %v", most, c)
			}
			if flags, _, _ := strings.Cut(c.arg(3), ","); !strings.HasPrefix(flags, "0") {
				t.Fatalf("a receive with flags: %v", c)
			}
			count++
		}
		if count == 0 {
			t.Errorf("no receives on descriptor %d", d.fd)
		}
	}
}

// P010: TCP_NODELAY is 1 where it was asked for and nowhere else, not even for
// a moment, and the result says what was in force. (TestOptions looks at the
// calls.)
func TestNodelay(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, tt := range []struct {
		flag           string
		client, server int64
	}{
		{"", 0, 0},
		{"--nodelay", 1, 1},
		{"--nodelay=on:off", 1, 0},
		{"--nodelay=off:on", 0, 1},
		{"--nodelay=:on", 0, 1},
	} {
		args := []string{"-t", "TCP_STREAM", "--bytes", "200K", "-m", "100"}
		if tt.flag != "" {
			args = slices.Insert(args, 0, tt.flag) // what follows is still read
		}
		o := s.complete(place{}, args...)
		if got := o.Plan.Client.SendSize; got != 100 {
			t.Errorf("%q: message size %d", tt.flag, got)
		}
		for end, want := range map[sockopt.End]int64{sockopt.Client: tt.client, sockopt.Server: tt.server} {
			r := o.row(t, end, "nodelay")
			for when, v := range map[string]sockopt.Value{"effective": r.Effective, "at start": r.AtStart, "at end": r.AtEnd} {
				if v != sockopt.Int(want) {
					t.Errorf("%q: %s's TCP_NODELAY reads %s %s, not %d", tt.flag, end, v, when, want)
				}
			}
		}
	}
}

// P008: the receiving end's buffer is set before the handshake, so that the
// window scale fits it.
func TestWindowScale(t *testing.T) {
	t.Parallel()
	const buffer = 4 << 20
	for _, tt := range []struct{ test, flag string }{{"TCP_STREAM", ":4M"}, {"TCP_MAERTS", "4M:"}, {"TCP_STREAM", "4M"}, {"TCP_MAERTS", "4M"}} {
		t.Run(tt.test+" "+tt.flag, func(t *testing.T) {
			t.Parallel()
			o, client, srv := traced(t, knobCalls, "-t", tt.test, "--bytes", "200K", "--rcvbuf", tt.flag)
			row := optionRow{}
			if c, s, both := strings.Cut(tt.flag, ":"); c != "" {
				row.before = []string{"SO_RCVBUF=4194304"}
				if !both {
					row.listen = row.before
				}
			} else if s != "" {
				row.listen = []string{"SO_RCVBUF=4194304"}
			}
			checkOptions(t, row, client, srv, 1)
			sender, receiver := o.Streams[0].Client, o.Streams[0].Server
			if tt.test == "TCP_MAERTS" {
				sender, receiver = receiver, sender
			}
			offered, seen := receiver.TCPInfo.Start["rcv_wscale"], sender.TCPInfo.Start["snd_wscale"]
			if offered == nil || seen == nil || *offered != *seen {
				t.Fatalf("window scale offered %v, seen %v", offered, seen)
			}
			if most := 65535 << *offered; most < buffer {
				t.Errorf("window scale %d allows %d, less than the buffer of %d", *offered, most, buffer)
			}
		})
	}
}
