package sockopt

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names are the knobs that design.md section 5 promises.
var names = strings.Fields(`sndbuf rcvbuf nodelay cork quickack mss congestion notsent-lowat window-clamp user-timeout
	pacing-rate tos priority mark busy-poll bind-device mtu-discover fastopen mptcp keepalive linger rcvlowat incoming-cpu`)

func TestTable(t *testing.T) {
	var got []string
	for _, k := range Knobs() {
		got = append(got, k.Name)
		if k.Option == "" || k.Usage == "" || strings.Contains(k.Usage, "\n") || k.parse == nil || k.judge == nil {
			t.Errorf("%s: row is not complete", k.Name)
		}
		if k.codec != codecString && k.max <= k.min {
			t.Errorf("%s: range %d to %d", k.Name, k.min, k.max)
		}
		if k.IsBool && (k.min != 0 || k.max != 1) {
			t.Errorf("%s: a switch has the values 0 and 1", k.Name)
		}
		for _, name := range []string{k.Name, k.Key()} {
			if found, err := Lookup(name); found != k || err != nil {
				t.Errorf("Lookup(%q) = %v, %v", name, found, err)
			}
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("knobs are %v, want %v", got, names)
	}
}

func TestLookupGeneric(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"SOL_TCP/TCP_SYNCNT", "SOL_TCP/TCP_SYNCNT"},
		{"IPPROTO_TCP/TCP_SYNCNT", "SOL_TCP/TCP_SYNCNT"},
		{"TCP/SYNCNT", "SOL_TCP/TCP_SYNCNT"},
		{"6/7", "SOL_TCP/TCP_SYNCNT"},
		{"IP/IP_TTL", "SOL_IP/IP_TTL"},
		{"41/IPV6_UNICAST_HOPS", "SOL_IPV6/IPV6_UNICAST_HOPS"},
		{"SOL_TCP/999", "SOL_TCP/999"},
		{"284/1", "284/1"},
		// The table's own knob, where it means the same.
		{"SOL_SOCKET/SO_RCVBUF", "rcvbuf"},
		{"6/1", "nodelay"},
		// Not where the knob depends on family or end.
		{"SOL_IP/IP_TOS", "SOL_IP/IP_TOS"},
		{"6/23", "SOL_TCP/TCP_FASTOPEN"},
	} {
		k, err := Lookup(tt.name)
		if err != nil {
			t.Errorf("Lookup(%q): %v", tt.name, err)
			continue
		}
		if k.Name != tt.want {
			t.Errorf("Lookup(%q) is %q, want %q", tt.name, k.Name, tt.want)
		}
		if again, err := Lookup(k.Key()); err != nil || again.Name != k.Name {
			t.Errorf("Lookup(%q) = %v, %v", k.Key(), again, err)
		}
	}
	for name, want := range map[string]string{
		"nosuch":             `unknown knob "nosuch"`,
		"":                   `unknown knob ""`,
		"SOL_FOO/TCP_SYNCNT": `unknown knob "SOL_FOO/TCP_SYNCNT": no level "SOL_FOO" (SOL_SOCKET, SOL_IP, SOL_TCP, SOL_UDP, SOL_IPV6, or a number)`,
		"SOL_TCP/TCP_FOO":    `unknown knob "SOL_TCP/TCP_FOO": no integer option of that name at level SOL_TCP; a number works as well`,
		"6/07":               `unknown knob "6/07": no integer option of that name at level SOL_TCP; a number works as well`,
		"6/":                 `unknown knob "6/": no integer option of that name at level SOL_TCP; a number works as well`,
		"/":                  `unknown knob "/": no level "" (SOL_SOCKET, SOL_IP, SOL_TCP, SOL_UDP, SOL_IPV6, or a number)`,
	} {
		if _, err := Lookup(name); err == nil || err.Error() != want {
			t.Errorf("Lookup(%q): %v, want %s", name, err, want)
		}
	}
}

// No two names of the generic table may stand for one option.
func TestGenericNamesAreUnique(t *testing.T) {
	seen := make(map[[2]int]string)
	for _, o := range others {
		at := [2]int{o.level, o.number}
		if seen[at] != "" {
			t.Errorf("%s and %s are the same option", seen[at], o.name)
		}
		seen[at] = o.name
		l, _ := findLevel(levelName(o.level))
		k, err := Lookup(l.name + "/" + o.name)
		if err != nil || k.opt != o.option {
			t.Errorf("%s is not found under its own name: %v", o.name, err)
		}
	}
}

func levelName(number int) string {
	for _, l := range levels {
		if l.number == number {
			return l.name
		}
	}
	return ""
}

func TestParse(t *testing.T) {
	auto := Value{}
	for _, tt := range []struct {
		knob, text string
		want       Value
	}{
		{"rcvbuf", "", auto},
		{"rcvbuf", "auto", auto},
		{"rcvbuf", "8K", Int(8192)},
		{"rcvbuf", "8k", Int(8192)},
		{"rcvbuf", "8KiB", Int(8192)},
		{"rcvbuf", "8kB", Int(8000)},
		{"rcvbuf", "8192", Int(8192)},
		{"rcvbuf", "0", Int(0)},
		{"nodelay", "on", Int(1)},
		{"nodelay", "TRUE", Int(1)},
		{"nodelay", "yes", Int(1)},
		{"nodelay", "1", Int(1)},
		{"nodelay", "off", Int(0)},
		{"nodelay", "false", Int(0)},
		{"nodelay", "no", Int(0)},
		{"nodelay", "0", Int(0)},
		{"mss", "88", Int(88)},
		{"mss", "32767", Int(32767)},
		{"congestion", "cubic", Str("cubic")},
		{"notsent-lowat", "16K", Int(16384)},
		{"notsent-lowat", "4294967295", Int(1<<32 - 1)},
		{"user-timeout", "1500", Int(1500)},
		{"user-timeout", "1.5s", Int(1500)},
		{"user-timeout", "30s", Int(30000)},
		{"pacing-rate", "100Mbit", Int(12500000)},
		{"pacing-rate", "10G", Int(1250000000)},
		{"pacing-rate", "12", Int(2)}, // 1.5 bytes/s, rounded
		{"tos", "184", Int(184)},
		{"tos", "0xb8", Int(184)},
		{"tos", "EF", Int(184)},
		{"tos", "cs1", Int(32)},
		{"tos", "af41", Int(136)},
		{"tos", "le", Int(4)},
		{"priority", "7", Int(7)},
		{"mark", "0xffffffff", Int(1<<32 - 1)},
		{"busy-poll", "50", Int(50)},
		{"bind-device", "eth0.100", Str("eth0.100")},
		{"mtu-discover", "do", Int(2)},
		{"mtu-discover", "dont", Int(0)},
		{"mtu-discover", "want", Int(1)},
		{"mtu-discover", "probe", Int(3)},
		{"mtu-discover", "5", Int(5)},
		{"fastopen", "on", Int(256)},
		{"fastopen", "off", Int(0)},
		{"fastopen", "16", Int(16)},
		{"fastopen", "1", Int(1)},
		{"linger", "off", Str("off")},
		{"linger", "0", Int(0)},
		{"linger", "10", Int(10)},
		{"rcvlowat", "64K", Int(65536)},
		{"incoming-cpu", "3", Int(3)},
		{"SOL_TCP/TCP_SYNCNT", "-1", Int(-1)},
		{"SOL_TCP/TCP_SYNCNT", "0x10", Int(16)},
	} {
		k, err := Lookup(tt.knob)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Parse(tt.text); err != nil || got != tt.want {
			t.Errorf("%s: Parse(%q) = %v, %v; want %v", tt.knob, tt.text, got, err, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ knob, text, want string }{
		{"rcvbuf", "abc", ""}, // internal/units words this one
		{"rcvbuf", "-1", ""},
		{"rcvbuf", " 8K", ""},
		{"rcvbuf", "4G", "rcvbuf: 4294967296 is outside 0 to 2147483647"},
		{"nodelay", "maybe", `nodelay: "maybe" is neither on nor off`},
		{"nodelay", "2", `nodelay: "2" is neither on nor off`},
		{"mss", "87", "mss: 87 is outside 88 to 32767"},
		{"mss", "32768", "mss: 32768 is outside 88 to 32767"},
		{"congestion", "a-very-long-name", `congestion: name "a-very-long-name" is longer than 15 bytes`},
		{"congestion", "cub\x00ic", `congestion: name "cub\x00ic" contains a zero byte`},
		{"user-timeout", "soon", `user-timeout: "soon" is neither milliseconds nor a span such as 30s`},
		{"user-timeout", "1us", `user-timeout: "1us" is not a whole number of milliseconds`},
		{"user-timeout", "-1s", "user-timeout: -1000 is outside 0 to 2147483647"},
		{"pacing-rate", "fast", ""},
		{"pacing-rate", "0", "pacing-rate: 0 is outside 1 to 9223372036854775807"},
		{"pacing-rate", "99999999T", `pacing-rate: rate "99999999T" is out of range`},
		{"tos", "256", "tos: 256 is outside 0 to 255"},
		{"tos", "cs8", `tos: "cs8" is neither a number nor a DSCP name (cs0-cs7, af11-af43, ef, le)`},
		{"tos", "af44", `tos: "af44" is neither a number nor a DSCP name (cs0-cs7, af11-af43, ef, le)`},
		{"tos", "0x-1", `tos: "0x-1" is neither a number nor a DSCP name (cs0-cs7, af11-af43, ef, le)`},
		{"priority", "+1", `priority: "+1" is not a number`},
		{"mark", "0x100000000", "mark: 4294967296 is outside 0 to 4294967295"},
		{"mtu-discover", "never", `mtu-discover: "never" is none of dont, want, do, probe, interface, omit`},
		{"mtu-discover", "6", "mtu-discover: 6 is outside 0 to 5"},
		{"fastopen", "maybe", `fastopen: "maybe" is neither on, off nor a queue length`},
		{"linger", "on", `linger: "on" is neither seconds nor off`},
		{"linger", "-1", "linger: -1 is outside 0 to 2147483647"},
		{"rcvlowat", "0", "rcvlowat: 0 is outside 1 to 2147483647"},
		{"SOL_TCP/TCP_SYNCNT", "2147483648", "SOL_TCP/TCP_SYNCNT: 2147483648 is outside -2147483648 to 2147483647"},
		{"SOL_TCP/TCP_SYNCNT", "x", `SOL_TCP/TCP_SYNCNT: "x" is not a number`},
	} {
		k, err := Lookup(tt.knob)
		if err != nil {
			t.Fatal(err)
		}
		v, err := k.Parse(tt.text)
		switch {
		case err == nil:
			t.Errorf("%s: Parse(%q) = %v, want an error", tt.knob, tt.text, v)
		case tt.want != "" && err.Error() != tt.want:
			t.Errorf("%s: Parse(%q): %v, want %s", tt.knob, tt.text, err, tt.want)
		case !strings.HasPrefix(err.Error(), tt.knob+": ") || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: Parse(%q): error %q is not one line that names the knob", tt.knob, tt.text, err)
		}
	}
}

func TestValueJSON(t *testing.T) {
	for _, tt := range []struct {
		v    Value
		json string
	}{
		{Value{}, "null"}, {Int(0), "0"}, {Int(-1), "-1"}, {Int(1 << 62), "4611686018427387904"},
		{Str("cubic"), `"cubic"`}, {Str(""), `""`}, {Str("7"), `"7"`},
	} {
		if got := asJSON(t, tt.v); got != tt.json {
			t.Errorf("Marshal(%#v) = %s, want %s", tt.v, got, tt.json)
		}
		back := Int(99)
		if err := json.Unmarshal([]byte(tt.json), &back); err != nil || back != tt.v {
			t.Errorf("Unmarshal(%s) = %#v, %v", tt.json, back, err)
		}
	}
	for _, bad := range []string{"true", "1.5", "1e3", "[]", "{}", "9223372036854775808"} {
		var v Value
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("Unmarshal(%s) = %v, want an error", bad, v)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Settings{
		"rcvbuf": Int(8192), "nodelay": Int(1), "congestion": Str("cubic"), "linger": Str("off"),
		"notsent_lowat": {}, "SOL_TCP/TCP_SYNCNT": Int(3), "284/1": Int(1),
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		key  string
		v    Value
		want string
	}{
		{"turbo", Int(1), `unknown knob "turbo"`},
		{"notsent-lowat", Int(1), `knob "notsent-lowat" is called "notsent_lowat" here`},
		{"6/1", Int(1), `knob "6/1" is called "nodelay" here`},
		{"IPPROTO_TCP/TCP_SYNCNT", Int(1), `knob "IPPROTO_TCP/TCP_SYNCNT" is called "SOL_TCP/TCP_SYNCNT" here`},
		{"rcvbuf", Int(-1), "rcvbuf: -1 is outside 0 to 2147483647"},
		{"rcvbuf", Str("8K"), `rcvbuf: "8K" is not a number`},
		{"nodelay", Int(2), "nodelay: 2 is outside 0 to 1"},
		{"congestion", Int(1), `congestion: "1" is not a name`},
		{"congestion", Str(""), `congestion: "" is not a name`},
		{"bind_device", Str("a-very-long-name"), `bind-device: name "a-very-long-name" is longer than 15 bytes`},
		{"linger", Str("on"), `linger: "on" is not a number`},
	} {
		if err := (Settings{tt.key: tt.v}).Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("{%q: %s}: %v, want %s", tt.key, tt.v, err, tt.want)
		}
	}
}

// A UDP socket has what isn't TCP's or a connection's.
func TestCheckDatagram(t *testing.T) {
	has := strings.Fields("sndbuf rcvbuf tos ttl priority mark bind_device pacing_rate busy_poll incoming_cpu dontroute rcvlowat mtu_discover")
	for _, k := range Knobs() {
		err := Settings{k.Key(): Int(1)}.CheckDatagram()
		if slices.Contains(has, k.Key()) {
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || err.Error() != k.Name+": a UDP socket has no such option" {
			t.Errorf("%s: %v", k.Name, err)
		}
		if err := (Settings{k.Key(): {}}).CheckDatagram(); err != nil {
			t.Errorf("unset: %v", err)
		}
	}
	if err := (Settings{"tcp/cork": Int(1), "ip/mtu_discover": Int(1), "nodelay": Int(1)}).CheckDatagram(); err == nil || !strings.Contains(err.Error(), "nodelay") {
		t.Errorf("the first in alphabetical order: %v", err)
	}
}

func TestNeedsListener(t *testing.T) {
	listener := strings.Fields("rcvbuf mss window_clamp bind_device fastopen mptcp")
	for _, k := range Knobs() {
		want := slices.Contains(listener, k.Key())
		if got := (Settings{k.Key(): Int(1)}).NeedsListener(); got != want {
			t.Errorf("%s: NeedsListener is %v", k.Name, got)
		}
		if (Settings{k.Key(): {}}).NeedsListener() {
			t.Errorf("%s: an unset knob needs a listener", k.Name)
		}
	}
	if (Settings{"mptcp": Int(0)}).NeedsListener() {
		t.Error("mptcp off needs a listener")
	}
}

func FuzzKnobParse(f *testing.F) {
	for _, name := range names {
		for _, text := range []string{"", "auto", "on", "8K", "0x10", "-1", "10Gbit", "1.5s", "af41", "do", "cubic", "9223372036854775808"} {
			f.Add(name, text)
		}
	}
	f.Add("SOL_TCP/TCP_SYNCNT", "3")
	f.Add("6/7", "-0x3")
	f.Fuzz(func(t *testing.T, name, text string) {
		k, err := Lookup(name)
		if err != nil {
			return
		}
		v, err := k.Parse(text)
		if err != nil {
			if v.IsSet() {
				t.Errorf("%s: Parse(%q) gives %v with the error %v", name, text, v, err)
			}
			return
		}
		s := Settings{k.Key(): v}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: Parse(%q) = %v, which isn't valid: %v", name, text, v, err)
		}
		if v.IsSet() && k.codec != codecString {
			// What goes to the kernel comes back from it.
			if got := k.codec.decode(k.codec.encode(v)); got != v {
				t.Errorf("%s: %v is encoded as %v", name, v, got)
			}
		}
	})
}

func FuzzSettingsJSON(f *testing.F) {
	f.Add([]byte(`{"rcvbuf":8192,"congestion":"cubic","nodelay":null,"SOL_TCP/TCP_SYNCNT":3}`))
	f.Add([]byte(`{"nodelay":true}`))
	f.Add([]byte(`{"linger":"off","pacing_rate":9223372036854775807}`))
	f.Add([]byte(`{"congestion":"\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Settings
		if json.Unmarshal(data, &s) != nil || s.Validate() != nil {
			return
		}
		var again Settings
		if err := json.Unmarshal([]byte(asJSON(t, s)), &again); err != nil {
			t.Fatal(err)
		}
		if got, want := asJSON(t, again), asJSON(t, s); got != want {
			t.Errorf("read back as %s, was %s", got, want)
		}
		for _, k := range s.knobs() {
			if k.codec != codecString && k.codec.decode(k.codec.encode(s[k.Key()])) != s[k.Key()] {
				t.Errorf("%s: %v doesn't survive the system call's form", k.Name, s[k.Key()])
			}
		}
	})
}
