package sockopt

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// kernel is an environment with the limits of the machine that the issue's
// cases were written on.
var kernel = Env{
	Kernel: "6.18.0",
	Limits: map[string]string{
		"net.core.rmem_max": "4194304", "net.core.wmem_max": "4194304", "net.core.somaxconn": "4096",
		"net.ipv4.tcp_rmem": "4096 131072 33554432", "net.ipv4.tcp_fastopen": "1",
	},
}

// with returns kernel with some limits changed.
func with(limits map[string]string) Env {
	env := Env{Kernel: kernel.Kernel, Limits: map[string]string{}}
	for k, v := range kernel.Limits {
		env.Limits[k] = v
	}
	for k, v := range limits {
		env.Limits[k] = v
	}
	return env
}

// read makes a Readback of one to three readings.
func read(readings ...Value) Readback {
	r := Readback{Effective: readings[0]}
	if len(readings) > 1 {
		r.AtStart = readings[1]
	}
	if len(readings) > 2 {
		r.AtEnd = readings[2]
	}
	return r
}

func on(end End, r Readback) Readback {
	r.End = end
	return r
}

func TestJudge(t *testing.T) {
	small := with(map[string]string{"net.core.rmem_max": "212992", "net.core.wmem_max": "212992"})
	forced := kernel
	forced.Force = true
	const mib = 1 << 20
	enoprotoopt := &Error{Op: "getsockopt", Option: "X", Err: unix.ENOPROTOOPT, missing: true}
	for _, tt := range []struct {
		name      string
		knob      string
		requested Value
		r         Readback
		env       Env
		want      Verdict
		detail    string
	}{
		{"nothing asked", "sndbuf", Value{}, read(Int(16384), Int(16384), Int(4<<20)), kernel, Auto, ""},

		{"buffer doubled", "rcvbuf", Int(8192), read(Int(16384)), kernel, Doubled, ""},
		{"buffer doubled and held", "rcvbuf", Int(8192), read(Int(16384), Int(16384), Int(16384)), kernel, Doubled, ""},
		{"buffer moved", "rcvbuf", Int(8192), read(Int(16384), Int(16384), Int(32768)), kernel, NotHeld,
			"set as 16384, read 32768 at the window's end"},
		{"clamp hidden by doubling, P004", "rcvbuf", Int(300000), read(Int(425984)), small, Clamped,
			"clamped by net.core.rmem_max=212992: asked 300000, twice that is 600000, got 425984"},
		{"the same for the send buffer", "sndbuf", Int(300000), read(Int(425984)), small, Clamped,
			"clamped by net.core.wmem_max=212992: asked 300000, twice that is 600000, got 425984"},
		{"5 MiB under 4 MiB", "rcvbuf", Int(5 * mib), read(Int(8 * mib)), kernel, Clamped,
			"clamped by net.core.rmem_max=4194304: asked 5242880, twice that is 10485760, got 8388608"},
		{"exactly the limit", "rcvbuf", Int(4 * mib), read(Int(8 * mib)), kernel, Doubled, ""},
		{"limit unknown", "rcvbuf", Int(5 * mib), read(Int(8 * mib)), Env{}, Clamped,
			"clamped: asked 5242880, twice that is 10485760, got 8388608"},
		{"request not above the limit", "rcvbuf", Int(1 * mib), read(Int(1 * mib)), kernel, Clamped,
			"clamped: asked 1048576, twice that is 2097152, got 1048576"},
		{"below the minimum", "rcvbuf", Int(100), read(Int(2304)), kernel, Raised,
			"raised to the kernel's minimum: asked 100, twice that is 200, got 2304"},
		{"nothing is below the minimum too", "sndbuf", Int(0), read(Int(4608)), kernel, Raised,
			"raised to the kernel's minimum: asked 0, twice that is 0, got 4608"},
		{"forced past the limit", "rcvbuf", Int(5 * mib), read(Int(10 * mib)), forced, Doubled, ""},
		{"forced past all limits", "rcvbuf", Int(1<<31 - 1), read(Int(1<<31 - 2)), forced, Clamped,
			"clamped by the kernel's largest buffer: asked 2147483647, twice that is 4294967294, got 2147483646"},

		{"switch on", "nodelay", Int(1), read(Int(1), Int(1), Int(1)), kernel, Exact, ""},
		{"switch off", "nodelay", Int(0), read(Int(0)), kernel, Exact, ""},
		{"switch ignored", "nodelay", Int(1), read(Int(0)), kernel, Ignored, "asked 1, the kernel reports 0"},
		{"switch lost", "cork", Int(1), read(Int(1), Int(0), Int(0)), kernel, NotHeld,
			"set as 1, read 0 at the window's start"},

		{"quickack left", "quickack", Int(1), read(Int(1), Int(1), Int(0)), kernel, NotHeld,
			"set as 1, read 0 at the window's end: the kernel enters and leaves quick-ACK mode by itself"},
		{"quickack never in", "quickack", Int(1), read(Int(0)), kernel, NotHeld,
			"asked 1, read 0: the kernel enters and leaves quick-ACK mode by itself"},
		{"quickack off", "quickack", Int(0), read(Int(0), Int(0), Int(0)), kernel, Exact, ""},

		{"mss less timestamps", "mss", Int(1000), read(Int(988)), kernel, Adjusted, "12 bytes less for TCP options"},
		{"mss grows with the window", "mss", Int(1000), read(Int(500), Int(500), Int(988)), kernel, Adjusted, "12 bytes less for TCP options"},
		{"mss bounded by the path", "mss", Int(9000), read(Int(1448)), kernel, Adjusted,
			"lowered from 9000 to 1448 by the path, the peer or its window"},
		{"mss kept", "mss", Int(1000), read(Int(1000)), kernel, Exact, ""},
		{"mss set too late", "mss", Int(1000), read(Int(32768)), kernel, NoEffect, "asked 1000, the connection uses 32768"},

		{"window clamp drifts", "window-clamp", Int(32768), read(Int(32768), Int(32768), Int(7431275)), kernel, NotHeld,
			"set as 32768, read 7431275 at the window's end: the kernel moves the clamp with the receive buffer"},
		{"window clamp moved at once", "window-clamp", Int(32768), read(Int(196607)), kernel, NotHeld,
			"asked 32768, read 196607: the kernel moves the clamp with the receive buffer"},
		{"window clamp too small", "window-clamp", Int(1000), read(Int(1152)), kernel, Raised,
			"raised to half the smallest receive buffer: asked 1000, got 1152"},
		{"window clamp kept", "window-clamp", Int(32768), read(Int(32768), Int(32768), Int(32768)), kernel, Exact, ""},

		{"congestion", "congestion", Str("cubic"), read(Str("cubic")), kernel, Exact, ""},
		{"congestion ignored", "congestion", Str("cubic"), read(Str("bbr")), kernel, Ignored, "asked cubic, the kernel reports bbr"},

		{"pacing", "pacing-rate", Int(12500000), read(Int(12500000), Int(12500000), Int(12500000)), kernel, Exact, ""},
		{"pacing ignored", "pacing-rate", Int(12500000), read(Value{}), kernel, Ignored, "asked 12500000, the kernel reports none"},
		{"device", "bind-device", Str("lo"), read(Str("lo")), kernel, Exact, ""},

		{"tos", "tos", Int(0x20), read(Int(0x20)), kernel, Exact, ""},
		{"tos with ECN bits", "tos", Int(0x23), read(Int(0x20)), kernel, Adjusted, "asked 35, got 32: TCP keeps the two ECN bits for itself"},
		{"tos ignored", "tos", Int(0x20), read(Int(0)), kernel, Ignored, "asked 32, the kernel reports 0"},

		{"busy poll, before traffic", "busy-poll", Int(50), read(Int(50)), kernel, Exact, ""},
		{"busy poll on a device", "busy-poll", Int(50), Readback{Effective: Int(50), AtEnd: Int(50), NAPI: Int(8193)}, kernel, Exact, ""},
		{"busy poll on loopback", "busy-poll", Int(50), Readback{Effective: Int(50), AtEnd: Int(50), NAPI: Int(0)}, kernel, NoEffect,
			"packets came without a NAPI id (loopback, veth): there is no queue to poll"},
		{"busy poll off", "busy-poll", Int(0), Readback{Effective: Int(0), AtEnd: Int(0), NAPI: Int(0)}, kernel, Exact, ""},

		{"fast open client", "fastopen", Int(1), on(Client, read(Int(1))), kernel, Exact, ""},
		{"fast open client, given a length", "fastopen", Int(256), on(Client, read(Int(1))), kernel, Exact, ""},
		{"fast open server, sysctl off", "fastopen", Int(16), on(Server, read(Int(16))), kernel, NoEffect,
			"net.ipv4.tcp_fastopen=1 lacks bit 2, the server's"},
		{"fast open client, sysctl off", "fastopen", Int(1), on(Client, read(Int(1))), with(map[string]string{"net.ipv4.tcp_fastopen": "2"}), NoEffect,
			"net.ipv4.tcp_fastopen=2 lacks bit 1, the client's"},
		{"fast open server", "fastopen", Int(16), on(Server, read(Int(16))), with(map[string]string{"net.ipv4.tcp_fastopen": "3"}), Exact, ""},
		{"fast open queue too long", "fastopen", Int(70000), on(Server, read(Int(4096))), with(map[string]string{"net.ipv4.tcp_fastopen": "3"}), Clamped,
			"clamped by net.core.somaxconn=4096: asked 70000, got 4096"},
		{"fast open off", "fastopen", Int(0), on(Server, read(Int(0))), kernel, Exact, ""},

		{"mptcp", "mptcp", Int(1), read(Int(1), Int(1), Int(1)), kernel, Exact, ""},
		{"mptcp fell back", "mptcp", Int(1), read(Int(0)), kernel, NoEffect,
			"the connection fell back to TCP: the peer or the path doesn't speak MPTCP"},
		{"mptcp fell back later", "mptcp", Int(1), read(Int(1), Int(1), Int(0)), kernel, NoEffect,
			"the connection fell back to TCP: the peer or the path doesn't speak MPTCP"},
		{"mptcp off", "mptcp", Int(0), read(Int(0)), kernel, Exact, ""},

		{"linger off", "linger", Str("off"), read(Str("off")), kernel, Exact, ""},
		{"linger", "linger", Int(0), read(Int(0)), kernel, Exact, ""},
		{"linger lost", "linger", Int(0), read(Str("off")), kernel, Ignored, "asked 0, the kernel reports off"},

		{"rcvlowat", "rcvlowat", Int(1000), read(Int(1000)), kernel, Exact, ""},
		{"rcvlowat above tcp_rmem", "rcvlowat", Int(1 << 30), read(Int(16777216)), kernel, Clamped,
			"clamped by half of net.ipv4.tcp_rmem[2]=33554432: asked 1073741824, got 16777216"},
		{"rcvlowat above the buffer", "rcvlowat", Int(1000000), read(Int(100000)), kernel, Clamped,
			"clamped by half of the receive buffer: asked 1000000, got 100000"},

		{"incoming cpu overwritten", "incoming-cpu", Int(0), read(Int(0), Int(1)), kernel, NotHeld,
			"set as 0, read 1 at the window's start: on a connection it reads the CPU that handled the last packet"},

		{"generic", "SOL_TCP/TCP_SYNCNT", Int(3), read(Int(3)), kernel, Exact, ""},
		{"generic converted", "SOL_TCP/TCP_DEFER_ACCEPT", Int(2), read(Int(3)), kernel, Adjusted, "asked 2, the kernel reports 3"},
		{"generic ignored", "SOL_TCP/TCP_THIN_DUPACK", Int(1), read(Int(0)), kernel, Ignored, "asked 1, the kernel reports 0"},
		{"generic write-only", "SOL_SOCKET/SO_BUSY_POLL_BUDGET", Int(8), Readback{Err: enoprotoopt}, kernel, Unverified,
			"can't be read back: getsockopt X: protocol not available"},

		{"kernel lacks it", "mptcp", Int(1), Readback{Err: enoprotoopt}, kernel, Unsupported,
			"IPPROTO_MPTCP is not supported by kernel 6.18.0; needs Linux 5.6 or newer"},
		{"reading failed", "nodelay", Int(1), Readback{Err: errors.New("no")}, kernel, Unverified, "can't be read back: no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := Lookup(tt.knob)
			if err != nil {
				t.Fatal(err)
			}
			verdict, detail := Judge(k, tt.requested, tt.r, tt.env)
			if verdict != tt.want || detail != tt.detail {
				t.Errorf("Judge(%s, %s) = %s, %q; want %s, %q", tt.knob, tt.requested, verdict, detail, tt.want, tt.detail)
			}
		})
	}
}

func TestVerdictRefuses(t *testing.T) {
	for v, want := range map[Verdict][2]bool{ // without and with allowClamp
		Auto: {false, false}, Exact: {false, false}, Doubled: {false, false}, Adjusted: {false, false},
		NotHeld: {false, false}, Unverified: {false, false},
		Raised: {true, false}, Clamped: {true, false},
		NoEffect: {true, true}, Ignored: {true, true}, Unsupported: {true, true},
	} {
		if got := [2]bool{v.Refuses(false), v.Refuses(true)}; got != want {
			t.Errorf("%s refuses %v, want %v", v, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	rows := []Row{
		{End: "client", Knob: "nodelay", Requested: Int(1), Verdict: Exact},
		{End: "server", Knob: "rcvbuf", Requested: Int(5 << 20), Verdict: Clamped, Detail: "clamped by net.core.rmem_max=4194304"},
		{End: "server", Knob: "fastopen", Requested: Int(1), Verdict: NoEffect, Detail: "the sysctl is off"},
	}
	for _, tt := range []struct {
		rows       []Row
		allowClamp bool
		want       string
	}{
		{rows[:1], false, ""},
		{rows[:2], false, "server: rcvbuf=5242880: clamped by net.core.rmem_max=4194304"},
		{rows[:2], true, ""},
		{rows, true, "server: fastopen=1: no effect: the sysctl is off"},
	} {
		got := ""
		if err := Refused(tt.rows, tt.allowClamp); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Refused(%d rows, %v) = %q, want %q", len(tt.rows), tt.allowClamp, got, tt.want)
		}
	}
}

func TestAuditMergesStreams(t *testing.T) {
	at := func(v int64) Readings { return Readings{"sndbuf": {Value: Int(v)}, "nodelay": {Value: Int(1)}} }
	s := Settings{"nodelay": Int(1)}
	rows := Audit(Client, s, kernel, []StreamReadings{
		{Stream: 1, Effective: at(100), AtStart: at(100)},
		{Stream: 2, Effective: at(100), AtStart: at(200)},
	})
	one, two := 1, 2
	want := []Row{
		{End: "client", Stream: &one, Knob: "sndbuf", Effective: Int(100), AtStart: Int(100), Verdict: Auto},
		{End: "client", Stream: &two, Knob: "sndbuf", Effective: Int(100), AtStart: Int(200), Verdict: Auto},
		{End: "client", Knob: "nodelay", Requested: Int(1), Effective: Int(1), AtStart: Int(1), Verdict: Exact},
	}
	if got, want := asJSON(t, rows), asJSON(t, want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A knob that was asked for has a row even when nobody read it.
func TestAuditWithoutReading(t *testing.T) {
	rows := Audit(Server, Settings{"cork": Int(1)}, kernel, []StreamReadings{{Stream: 1}})
	if len(rows) != 1 || rows[0].Knob != "cork" || rows[0].Verdict != Unverified || rows[0].Detail != "can't be read back: not read" {
		t.Errorf("got %s", asJSON(t, rows))
	}
}
