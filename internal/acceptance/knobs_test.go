package acceptance

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/netnstest"
	"gperf/result"
	"gperf/sockopt"
)

// Every knob is asked for and judged on both ends: what the kernel reports is
// held against the request.
func TestAudit(t *testing.T) {
	t.Parallel()
	asRoot(t)
	const both = "client and server"
	tests := []struct {
		flags     []string
		knob      string // key
		end       string // client, server or both
		requested sockopt.Value
		effective sockopt.Value // unset: not looked at
		verdicts  []sockopt.Verdict
	}{
		{[]string{"--sndbuf", "64K"}, "sndbuf", both, sockopt.Int(65536), sockopt.Int(131072), one(sockopt.Doubled)},
		{[]string{"--rcvbuf", "64K"}, "rcvbuf", both, sockopt.Int(65536), sockopt.Int(131072), one(sockopt.Doubled)},
		{[]string{"--rcvbuf", ":8K"}, "rcvbuf", "server", sockopt.Int(8192), sockopt.Int(16384), one(sockopt.Doubled)},
		{[]string{"--nodelay"}, "nodelay", both, sockopt.Int(1), sockopt.Int(1), one(sockopt.Exact)},
		{[]string{"--nodelay=off"}, "nodelay", both, sockopt.Int(0), sockopt.Int(0), one(sockopt.Exact)},
		{[]string{"--cork"}, "cork", both, sockopt.Int(1), sockopt.Int(1), one(sockopt.Exact)},
		{[]string{"--quickack=off"}, "quickack", both, sockopt.Int(0), sockopt.Int(0), []sockopt.Verdict{sockopt.Exact, sockopt.NotHeld}},
		{[]string{"--mss", "1000"}, "mss", both, sockopt.Int(1000), sockopt.Int(988), one(sockopt.Adjusted)},
		{[]string{"--congestion", "reno"}, "congestion", both, sockopt.Str("reno"), sockopt.Str("reno"), one(sockopt.Exact)},
		{[]string{"--notsent-lowat", "16K"}, "notsent_lowat", both, sockopt.Int(16384), sockopt.Int(16384), one(sockopt.Exact)},
		// Newer kernels move the clamp, at the end that receives.
		{[]string{"--window-clamp", "1M"}, "window_clamp", both, sockopt.Int(1 << 20), sockopt.Value{}, []sockopt.Verdict{sockopt.Exact, sockopt.NotHeld}},
		{[]string{"--user-timeout", "30s"}, "user_timeout", both, sockopt.Int(30000), sockopt.Int(30000), one(sockopt.Exact)},
		{[]string{"--pacing-rate", "8Gbit"}, "pacing_rate", both, sockopt.Int(1e9), sockopt.Int(1e9), one(sockopt.Exact)},
		{[]string{"--tos", "af41"}, "tos", both, sockopt.Int(136), sockopt.Int(136), one(sockopt.Exact)},
		{[]string{"--tos", "0x8b"}, "tos", both, sockopt.Int(139), sockopt.Int(136), one(sockopt.Adjusted)},
		{[]string{"--priority", "7"}, "priority", both, sockopt.Int(7), sockopt.Int(7), one(sockopt.Exact)},
		{[]string{"--mark", "0xffffffff"}, "mark", both, sockopt.Int(1<<32 - 1), sockopt.Int(1<<32 - 1), one(sockopt.Exact)},
		{[]string{"--busy-poll", "50"}, "busy_poll", both, sockopt.Int(50), sockopt.Int(50), one(sockopt.NoEffect)},
		{[]string{"--bind-device", "lo"}, "bind_device", both, sockopt.Str("lo"), sockopt.Str("lo"), one(sockopt.Exact)},
		{[]string{"--mtu-discover", "omit"}, "mtu_discover", both, sockopt.Int(5), sockopt.Int(5), one(sockopt.Exact)},
		{[]string{"--fastopen", "on"}, "fastopen", "client", sockopt.Int(1), sockopt.Int(1), one(sockopt.Exact)},
		{[]string{"--fastopen", "on"}, "fastopen", "server", sockopt.Int(256), sockopt.Int(256), one(sockopt.Exact)},
		{[]string{"--mptcp"}, "mptcp", both, sockopt.Int(1), sockopt.Int(1), one(sockopt.Exact)},
		{[]string{"--keepalive"}, "keepalive", both, sockopt.Int(1), sockopt.Int(1), one(sockopt.Exact)},
		{[]string{"--linger", "3"}, "linger", both, sockopt.Int(3), sockopt.Int(3), one(sockopt.Exact)},
		{[]string{"--linger", "off"}, "linger", both, sockopt.Str("off"), sockopt.Str("off"), one(sockopt.Exact)},
		{[]string{"--rcvlowat", "512"}, "rcvlowat", both, sockopt.Int(512), sockopt.Int(512), one(sockopt.Exact)},
		{[]string{"--incoming-cpu", "0"}, "incoming_cpu", both, sockopt.Int(0), sockopt.Value{}, []sockopt.Verdict{sockopt.Exact, sockopt.NotHeld}},
		{[]string{"--sockopt", "SOL_TCP/TCP_SYNCNT=4"}, "SOL_TCP/TCP_SYNCNT", both, sockopt.Int(4), sockopt.Int(4), one(sockopt.Exact)},
		{[]string{"--sockopt", "6/9=:2"}, "SOL_TCP/TCP_DEFER_ACCEPT", "server", sockopt.Int(2), sockopt.Int(3), one(sockopt.Adjusted)},
	}
	ns := netnstest.New(t)
	ns.SetSysctl("net.ipv4.tcp_fastopen", "3")
	if ns.Sysctl("net.mptcp.enabled") != "1" {
		t.Skip("needs a kernel with MPTCP")
	}
	s := serve(t, place{ns: ns})
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.knob] = true
		t.Run(strings.Join(tt.flags, " ")+" "+tt.end, func(t *testing.T) {
			o := s.complete(place{ns: ns}, append([]string{"--bytes", "200K"}, tt.flags...)...)
			for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
				r := func() sockopt.Row { return o.row(t, end, tt.knob) }
				if !strings.Contains(tt.end, end.String()) {
					if rows := o.rows(end, tt.knob); len(rows) == 1 && rows[0].Verdict != sockopt.Auto && !strings.Contains(tt.knob, "fastopen") {
						t.Errorf("%s: %+v, though nothing was asked of it", end, rows[0])
					}
					continue
				}
				if row := r(); row.Requested != tt.requested || !slices.Contains(tt.verdicts, row.Verdict) ||
					tt.effective.IsSet() && row.Effective != tt.effective {
					t.Errorf("%s: %+v; want request %s, reading %s, verdict %v", end, row, tt.requested, tt.effective, tt.verdicts)
				}
			}
		})
	}
	for _, k := range sockopt.Knobs() {
		if !covered[k.Key()] {
			t.Errorf("no row asks for %s", k.Name)
		}
	}
}

func one(v sockopt.Verdict) []sockopt.Verdict { return []sockopt.Verdict{v} }

// attempts is how many TCP connections were begun in the namespace so far.
func attempts(t *testing.T, ns *netnstest.NS) (n int) {
	t.Helper()
	err := ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var names []string
		for _, line := range splitLines(string(text)) {
			fields := strings.Fields(line)
			switch {
			case fields[0] != "Tcp:":
			case names == nil:
				names = fields
			default:
				n, err = strconv.Atoi(fields[slices.Index(names, "ActiveOpens")])
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// P004: a request above the limit reads back as more than was asked for, since
// the kernel doubles it, and is seen all the same: before any traffic, with the
// limit's name and both values.
func TestClamp(t *testing.T) {
	t.Parallel()
	asRoot(t)
	ns := netnstest.New(t)
	s := serve(t, place{ns: ns})
	for _, tt := range []struct{ flag, sysctl, end string }{
		{"--rcvbuf", "net.core.rmem_max", "client"},
		{"--rcvbuf", "net.core.rmem_max", "server"},
		{"--sndbuf", "net.core.wmem_max", "client"},
		{"--sndbuf", "net.core.wmem_max", "server"},
	} {
		t.Run(tt.flag+" "+tt.end, func(t *testing.T) {
			text := ns.Sysctl(tt.sysctl)
			limit, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			// A quarter above: doubled after the cut it is still more than asked.
			asked := limit + limit/4
			end, pair, connections := sockopt.Client, strconv.Itoa(asked)+":", 0
			if tt.end == "server" {
				end, pair, connections = sockopt.Server, ":"+strconv.Itoa(asked), 1 // control
			}
			knob := strings.TrimPrefix(tt.flag, "--")
			before := attempts(t, ns)

			o := s.client(place{ns: ns}, "--bytes", "200K", tt.flag, pair)
			o.failed(t, 2, tt.sysctl+"="+text, strconv.Itoa(asked), strconv.Itoa(2*limit), tt.end)
			if o.Status != result.Failed || o.Error.Kind != "plan" || o.Summary != nil {
				t.Errorf("document: %s", o.verdict())
			}
			if n := attempts(t, ns) - before; n != connections {
				t.Errorf("%d connections were begun, not %d", n, connections)
			}

			o = s.client(place{ns: ns}, "--bytes", "200K", tt.flag, pair, "--allow-clamp")
			o.mustComplete(t)
			if r := o.row(t, end, knob); r.Verdict != sockopt.Clamped || r.Effective != sockopt.Int(int64(2*limit)) || !warns(o, tt.sysctl) {
				t.Errorf("--allow-clamp: %+v, warnings %+v", r, o.Warnings)
			}

			o = s.complete(place{ns: ns}, "--bytes", "200K", tt.flag, pair, "--force-buffers")
			if r := o.row(t, end, knob); r.Verdict != sockopt.Doubled || r.Effective != sockopt.Int(int64(2*asked)) || warns(o, tt.sysctl) {
				t.Errorf("--force-buffers: %+v, warnings %+v", r, o.Warnings)
			}
		})
	}
	t.Run("raised", func(t *testing.T) {
		o := s.client(place{ns: ns}, "--bytes", "200K", "--sndbuf", "1K:")
		o.failed(t, 2, "sndbuf", "1024", "raised to the kernel's minimum")
		o = s.client(place{ns: ns}, "--bytes", "200K", "--sndbuf", "1K:", "--allow-clamp")
		o.mustComplete(t)
		if r := o.row(t, sockopt.Client, "sndbuf"); r.Verdict != sockopt.Raised {
			t.Errorf("%+v", r)
		}
	})
}

// warns reports whether the document warns of a limit.
func warns(o *outcome, sysctl string) bool {
	return slices.ContainsFunc(o.Warnings, func(w result.Warning) bool {
		return w.Code == string(sockopt.Clamped) && strings.Contains(w.Message, sysctl)
	})
}

// Nobody is root here: what needs privilege is refused in words that say which.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	asRoot(t)
	const nobody = 65534
	s := serve(t, place{user: nobody})
	s.complete(place{user: nobody}, "--bytes", "200K")
	for _, args := range [][]string{{"--force-buffers", "--rcvbuf", "64K"}, {"--mark", "1"}} {
		o := s.client(place{user: nobody}, append(args, "--bytes", "200K")...)
		o.failed(t, 2, "CAP_NET_ADMIN")
		if o.Status != result.Failed || o.Error.Kind != "plan" {
			t.Errorf("%v: %s", args, o.verdict())
		}
	}
	// The server can't, though the client could.
	o := s.client(place{}, "--mark", "1", "--bytes", "200K")
	o.failed(t, 2, "CAP_NET_ADMIN", "server")
}

// A test that moved nothing has failed.
func TestZeroBytes(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	// A corked request leaves after 200 ms, or when the connection ends.
	o := s.client(place{}, "-t", "TCP_RR", "--cork=on:", "-d", "0.1")
	o.failed(t, 1, "no data")
	if o.Status != result.Failed && o.Status != result.Partial {
		t.Errorf("status %s", o.Status)
	}
	if o.Summary != nil && deref(o.Summary.Transactions) != 0 {
		t.Errorf("%d transactions", deref(o.Summary.Transactions))
	}
}
