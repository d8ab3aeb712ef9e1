package control_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gperf/control"
	"gperf/plan"
	"gperf/result"
)

// stream is what a peer has sent, and what it is sent.
type stream struct {
	io.Reader
	io.Writer
}

// reading returns a Conn that reads r.
func reading(r io.Reader) *control.Conn { return control.NewConn(stream{r, io.Discard}) }

// frame is the frame of a message, or the test's end.
func frame(t testing.TB, typ control.Type, body any) []byte {
	t.Helper()
	b, err := control.Append(nil, typ, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// raw is a frame of any text.
func raw(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// cat joins pieces of a stream.
func cat(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

func TestFrameBytes(t *testing.T) {
	t.Parallel()
	got := frame(t, control.TypePong, control.Pong{MonotonicNs: 7})
	want := "1234" + `{"type":"pong","body":{"monotonic_ns":7}}`
	want = string(binary.BigEndian.AppendUint32(nil, uint32(len(want)-4))) + want[4:]
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := frame(t, control.TypeStart, nil); string(got[4:]) != `{"type":"start"}` {
		t.Errorf("a message without body: %q", got)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		out := control.NewConn(stream{nil, &wire})
		types := rapid.SliceOfN(rapid.SampledFrom([]control.Type{control.TypeSample, control.TypeSeries}), 1, 8).Draw(t, "types")
		var sent []control.Sample
		for _, typ := range types {
			s := control.Sample{
				Direction: rapid.SampledFrom([]plan.Direction{plan.ClientToServer, plan.Both}).Draw(t, "direction"),
				Sample: result.Sample{
					Tick: rapid.Int().Draw(t, "tick"), AtNs: rapid.Int64().Draw(t, "at"),
					Sent: rapid.SliceOfN(rapid.Uint64(), 1, 2000).Draw(t, "sent"),
					TCP:  map[string][]uint64{"rtt_us": rapid.SliceOfN(rapid.Uint64(), 0, 3).Draw(t, "rtt")},
				},
			}
			sent = append(sent, s)
			if err := out.Send(typ, s); err != nil {
				t.Fatal(err)
			}
		}
		var r io.Reader = &wire
		if rapid.Bool().Draw(t, "byte by byte") {
			r = iotest.OneByteReader(r)
		}
		in := reading(r)
		for i, typ := range types {
			got, body, err := in.Receive()
			if err != nil || got != typ {
				t.Fatalf("message %d: %s, %v; want %s", i, got, err, typ)
			}
			var s control.Sample
			if err := control.Unmarshal(got, body, &s); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(sent[i], s); d != "" {
				t.Fatalf("message %d (-sent +received):\n%s", i, d)
			}
		}
		if _, _, err := in.Receive(); err != io.EOF {
			t.Fatalf("after the last: %v", err)
		}
	})
}

// Messages of several goroutines don't mix.
func TestConcurrentSend(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	out := control.NewConn(stream{nil, w})
	const senders, each = 8, 50
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for range each {
				if err := out.Send(control.TypeError, control.Error{Message: strings.Repeat("x", i*100)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	in := reading(r)
	for range senders * each {
		if typ, _, err := in.Receive(); err != nil || typ != control.TypeError {
			t.Fatal(typ, err)
		}
	}
	all.Wait()
}

func TestOversize(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	c := control.NewConn(stream{nil, &wire})
	text := func(n int) control.Error { return control.Error{Message: strings.Repeat("x", n)} }
	overhead := len(frame(t, control.TypeError, text(0))) - 4
	if err := c.Send(control.TypeError, text(control.MaxFrame-overhead+1)); err == nil || !strings.Contains(err.Error(), "1048577") {
		t.Errorf("a frame of one byte too many: %v", err)
	}
	if wire.Len() > 0 {
		t.Errorf("%d bytes of it were sent", wire.Len())
	}
	if err := c.Send(control.TypeError, text(control.MaxFrame-overhead)); err != nil {
		t.Fatal(err)
	}
	if typ, _, err := reading(&wire).Receive(); err != nil || typ != control.TypeError {
		t.Errorf("a frame of the greatest size: %s, %v", typ, err)
	}
	if _, err := control.Append(nil, control.TypePlan, func() {}); err == nil {
		t.Error("a body that is no JSON is accepted")
	}
}

func TestReceiveErrors(t *testing.T) {
	t.Parallel()
	hello := frame(t, control.TypeHello, control.Hello{})
	tests := []struct {
		name, in string
		begins   string // of a *ForeignError; empty: another error
		is       error
	}{
		{"nothing", "", "", io.EOF},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\nServer: x\r\n", `"HTTP/1.1 400 Bad Request\r\nServer"`, nil},
		{"SSH, short", "SSH-2", `"SSH-2"`, nil},
		{"two bytes", "hi", `"hi"`, nil},
		{"a length just over", "\x00\x10\x00\x01{", `"\x00\x10\x00\x01{"`, nil},
		{"no JSON", string(raw("netserver")), `"\x00\x00\x00\tnetserver"`, nil},
		{"no type", string(raw("{}")), `"\x00\x00\x00\x02{}"`, nil},
		{"a list", string(raw("[1]")), `"\x00\x00\x00\x03[1]"`, nil},
		{"an empty frame", "\x00\x00\x00\x00", `"\x00\x00\x00\x00"`, nil},
		{"cut in the text", string(hello[:len(hello)-1]), "", io.ErrUnexpectedEOF},
		{"cut after the length", string(hello[:4]), "", io.ErrUnexpectedEOF},

		// After the first message the peer is known.
		{"then cut in the length", string(hello) + "\x00\x00", "", io.ErrUnexpectedEOF},
		{"then too long", string(hello) + "\xff\xff\xff\xff", "", nil},
		{"then no JSON", string(hello) + string(raw("oops")), "", nil},
		{"then the end", string(hello), "", io.EOF},
	}
	for _, tt := range tests {
		c := reading(strings.NewReader(tt.in))
		_, _, err := c.Receive()
		if strings.HasPrefix(tt.name, "then") {
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = c.Receive()
		}
		var foreign *control.ForeignError
		switch isForeign := errors.As(err, &foreign); {
		case err == nil:
			t.Errorf("%s: accepted", tt.name)
		case isForeign != (tt.begins != ""), isForeign && foreign.Begins != tt.begins:
			t.Errorf("%s: error %q, want one of a foreign peer that begins with %s", tt.name, err, tt.begins)
		case tt.is != nil && !errors.Is(err, tt.is):
			t.Errorf("%s: error %q, want %q", tt.name, err, tt.is)
		}
	}
}

// A peer that promises a mebibyte and sends little doesn't cost one.
func TestGrowth(t *testing.T) {
	promise := []byte{0, 0x10, 0, 0, '{'}
	var before, after runtime.MemStats
	const peers = 64
	runtime.ReadMemStats(&before)
	for range peers {
		if _, _, err := reading(bytes.NewReader(promise)).Receive(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / peers; each > 128<<10 {
		t.Errorf("a promise costs %d bytes", each)
	}
}

// The buffers of a connection are used again.
func TestConnAllocations(t *testing.T) {
	var wire bytes.Buffer
	c := control.NewConn(stream{&wire, &wire})
	body := json.RawMessage(`{"x":"` + strings.Repeat("x", 64<<10) + `"}`)
	exchange := func() {
		if err := c.Send(control.TypePlan, body); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	exchange()
	// The JSON package's own: a handful of pieces, none of them per byte.
	if n := testing.AllocsPerRun(50, exchange); n > 20 {
		t.Errorf("%v allocations for a message", n)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	typ, body, err := control.Parse([]byte(`{"body": {"a": 1}, "type": "future", "more": []}`))
	if typ != "future" || string(body) != `{"a": 1}` || err != nil {
		t.Errorf("a message of a later version: %s, %s, %v", typ, body, err)
	}
	if err := control.ParseError(json.RawMessage(`{"kind":"plan","message":"no","end":"server"}`)); err.Error() != "no" {
		t.Errorf("an error message: %v", err)
	}
	var told *control.Error
	if err := control.ParseError(json.RawMessage(`7`)); err == nil || errors.As(err, &told) {
		t.Errorf("a bad error message: %v", err)
	}
	if err := control.Unmarshal(control.TypePong, nil, new(control.Pong)); err == nil || !strings.Contains(err.Error(), "pong") {
		t.Errorf("a missing body: %v", err)
	}
}

func TestCheckHello(t *testing.T) {
	t.Parallel()
	version := func(major, minor int) control.Version { return control.Version{Major: major, Minor: minor} }
	current := control.Current
	tests := []struct {
		name  string
		hello control.Hello
		want  string // in the error; empty: none
	}{
		{"same", control.Hello{Magic: control.Magic, Version: current}, ""},
		{"another minor", control.Hello{Magic: control.Magic, Version: version(current.Major, current.Minor+7)}, ""},
		{"later major", control.Hello{Magic: control.Magic, Program: "gperf 9", Version: version(current.Major+1, 3)}, `"gperf 9" speaks control protocol 2.3, this program 1.0: both ends need the same major version`},
		{"nameless", control.Hello{Magic: control.Magic, Version: version(0, 0)}, "the other end speaks"},
		{"chatty", control.Hello{Magic: control.Magic, Program: strings.Repeat("\x1b", 65)}, "the other end speaks"},
		{"control characters", control.Hello{Magic: control.Magic, Program: "\x1b[2J"}, `"\x1b[2J" speaks`},
		{"no magic", control.Hello{Version: current}, `not gperf: it begins with ""`},
		{"another magic", control.Hello{Magic: "iperf3", Version: current}, `"iperf3"`},
	}
	for _, tt := range tests {
		switch err := control.CheckHello(&tt.hello); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	secret, plan := []byte("sesame"), []byte(`{"test":"TCP_RR"}`)
	mac := control.Authenticate(secret, "abc", plan)
	if len(mac) != 64 || !control.Authentic(secret, "abc", plan, mac) {
		t.Fatalf("%q doesn't prove what it should", mac)
	}
	for name, ok := range map[string]bool{
		"secret":     control.Authentic([]byte("sesamE"), "abc", plan, mac),
		"no secret":  control.Authentic(nil, "abc", plan, mac),
		"nonce":      control.Authentic(secret, "abd", plan, mac),
		"plan":       control.Authentic(secret, "abc", append([]byte(nil), plan[1:]...), mac),
		"boundary":   control.Authentic(secret, "ab", append([]byte("c"), plan...), mac),
		"cut":        control.Authentic(secret, "abc", plan, mac[:63]),
		"empty":      control.Authentic(secret, "abc", plan, ""),
		"upper case": control.Authentic(secret, "abc", plan, strings.ToUpper(mac)),
	} {
		if ok {
			t.Errorf("another %s is accepted", name)
		}
	}
}

func TestPreamble(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := control.Preamble{Stream: rapid.Uint32().Draw(t, "stream")}
		copy(want.Token[:], rapid.SliceOfN(rapid.Byte(), control.TokenSize, control.TokenSize).Draw(t, "token"))
		wire := want.Append(nil)
		if len(wire) != control.PreambleSize {
			t.Fatalf("%d bytes, not %d", len(wire), control.PreambleSize)
		}
		if got, err := control.ParsePreamble(wire); err != nil || got != want {
			t.Fatalf("got %v, %v", got, err)
		}
		if _, err := control.ParsePreamble(wire[:len(wire)-1]); err == nil {
			t.Fatal("a short one is accepted")
		}
		if _, err := control.ParsePreamble(append(wire, 0)); err == nil {
			t.Fatal("a long one is accepted")
		}
		wire[rapid.IntRange(0, 7).Draw(t, "spoilt")] ^= 1
		if _, err := control.ParsePreamble(wire); err == nil {
			t.Fatal("another magic is accepted")
		}
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	data := control.Preamble{Stream: 1}.Append(nil)
	hello := frame(t, control.TypeHello, control.Hello{})
	const no, more, yes = control.No, control.More, control.Yes
	tests := []struct {
		name            string
		first           []byte
		frame, preamble control.Match
	}{
		{"nothing", nil, more, more},
		{"data", data, no, yes},
		{"part of data", data[:len(data)-1], no, more},
		{"a byte of data", data[:1], no, more},
		{"data and payload", append(data[:len(data):len(data)], 0, 0), no, yes},
		{"almost data", []byte("gperfDT2"), no, no},
		{"hello", hello, yes, no},
		{"a byte of hello", hello[:1], more, no},
		{"the length of hello", hello[:4], more, no},
		{"the length and a brace", hello[:5], yes, no},
		{"the greatest length", []byte{0, 0x10, 0, 0, '{'}, yes, no},
		{"a greater length", []byte{0, 0x10, 0, 1, '{'}, no, no},
		{"a much greater length", []byte{0, 0x11}, no, no},
		{"not JSON", []byte{0, 0, 0, 9, '['}, no, no},
		{"netperf", append([]byte{0, 0, 2, 0x90}, make([]byte, 100)...), no, no},
		{"iperf3's cookie", []byte("abcdefghijklmnopqrstuvwxyz234567abcd\x00"), no, no},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), no, no},
		{"TLS", []byte{0x16, 3, 1, 2}, no, no},
	}
	for _, tt := range tests {
		if f, p := control.MatchFrame(tt.first), control.MatchPreamble(tt.first); f != tt.frame || p != tt.preamble {
			t.Errorf("%s: frame %v, preamble %v; want %v, %v", tt.name, f, p, tt.frame, tt.preamble)
		}
	}
}

// A matcher never takes back a No or a Yes when more bytes come, and Receive
// agrees with it.
func FuzzFrame(f *testing.F) {
	f.Add(frame(f, control.TypeHello, control.Hello{Magic: control.Magic, Version: control.Current}))
	f.Add(cat(frame(f, control.TypeSample, control.Sample{Sample: result.Sample{Sent: []uint64{1}}}), frame(f, control.TypeFinish, nil)))
	f.Add(raw(`{"type":"x","body":null}`))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0x10, 0, 0, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		stable(t, b, control.MatchFrame)
		c := reading(bytes.NewReader(b))
		for first := true; ; first = false {
			typ, body, err := c.Receive()
			if err != nil {
				return
			}
			if first && control.MatchFrame(b) != control.Yes && b[4] == '{' {
				t.Fatal("a message is received that no port would have let in")
			}
			var any any
			if body != nil {
				any = body
			}
			again, err := control.Append(nil, typ, any)
			if err != nil {
				continue // what was just below the limit may grow by escapes
			}
			typ2, body2, err := reading(bytes.NewReader(again)).Receive()
			if err != nil || typ2 != typ || !sameJSON(body, body2) {
				t.Fatalf("%s %s was sent on as %s %s, %v", typ, body, typ2, body2, err)
			}
		}
	})
}

func FuzzPreamble(f *testing.F) {
	f.Add(control.Preamble{Stream: 7}.Append(nil))
	f.Add([]byte("gperfDT1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		stable(t, b, control.MatchPreamble)
		p, err := control.ParsePreamble(b)
		if err != nil {
			return
		}
		if control.MatchPreamble(b) != control.Yes || control.MatchFrame(b) != control.No {
			t.Fatalf("%q is a preamble, and not matched as one only", b)
		}
		if again := p.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%q is written again as %q", b, again)
		}
	})
}

func stable(t *testing.T, b []byte, match func([]byte) control.Match) {
	t.Helper()
	last := control.More
	for i := range min(len(b), 64) + 1 {
		m := match(b[:i])
		if last != control.More && m != last {
			t.Fatalf("%q: %v, with a byte more %v", b[:i], last, m)
		}
		last = m
	}
}

func sameJSON(a, b []byte) bool {
	if a == nil || b == nil {
		return len(a) == len(b)
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(escaped(x.Bytes()), escaped(y.Bytes()))
}

// escaped makes what Marshal escapes alike in both.
func escaped(b []byte) []byte {
	var out bytes.Buffer
	json.HTMLEscape(&out, b)
	return out.Bytes()
}
