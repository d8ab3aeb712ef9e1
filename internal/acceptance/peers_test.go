package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gperf/control"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// A peer is this test itself as one end of a control connection.
type peer struct {
	*control.Conn
	t testing.TB
	c net.Conn
}

func newPeer(t testing.TB, c net.Conn) *peer {
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return &peer{control.NewConn(c), t, c}
}

// dial connects to a gperf server and says hello.
func (s *server) dial(t testing.TB, v control.Version) *peer {
	t.Helper()
	c, err := net.Dial("tcp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, c)
	p.say(control.TypeHello, control.Hello{Magic: control.Magic, Version: v, Program: "a test"})
	return p
}

func (p *peer) say(m control.Type, body any) {
	p.t.Helper()
	if err := p.Send(m, body); err != nil {
		p.t.Fatalf("send %s: %v", m, err)
	}
}

// hear returns the body of the next message, which must be of type m.
// Heartbeats are passed over, pings answered.
func (p *peer) hear(m control.Type) json.RawMessage {
	p.t.Helper()
	for {
		got, body, err := p.Receive()
		switch {
		case err != nil:
			p.t.Fatalf("instead of %s: %v", m, err)
		case got == m:
			return body
		case got == control.TypePing:
			p.say(control.TypePong, control.Pong{})
		case got != control.TypeHeartbeat:
			p.t.Fatalf("heard %s %s instead of %s", got, body, m)
		}
	}
}

// refused awaits an error that ends the session and returns it.
func (p *peer) refused() *control.Error {
	p.t.Helper()
	var e control.Error
	if err := json.Unmarshal(p.hear(control.TypeError), &e); err != nil {
		p.t.Fatal(err)
	}
	return &e
}

// validPlan is a plan that a server accepts, as JSON that can be edited.
func validPlan(t testing.TB) map[string]any {
	t.Helper()
	test := &plan.Test{Duration: plan.Seconds(100 * time.Millisecond)}
	test.Normalise()
	raw, err := json.Marshal(test)
	if err != nil {
		t.Fatal(err)
	}
	var edited map[string]any
	if err := json.Unmarshal(raw, &edited); err != nil {
		t.Fatal(err)
	}
	return edited
}

// Whatever a plan has that the server doesn't know, it refuses by name; the
// same plan without it is accepted.
func TestInventedPlans(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	tests := []struct {
		name string
		edit func(p map[string]any)
		want string // "" means accepted
	}{
		{"nothing invented", func(map[string]any) {}, ""},
		{"knob", func(p map[string]any) { p["server"].(map[string]any)["knobs"] = map[string]any{"warp_factor": 9} }, "warp_factor"},
		{"knob of the client", func(p map[string]any) { p["client"].(map[string]any)["knobs"] = map[string]any{"warp_factor": 9} }, "warp_factor"},
		{"generic knob", func(p map[string]any) {
			p["server"].(map[string]any)["knobs"] = map[string]any{"SOL_TCP/TCP_WARP": 9}
		}, "SOL_TCP/TCP_WARP"},
		{"knob in another spelling", func(p map[string]any) { p["server"].(map[string]any)["knobs"] = map[string]any{"notsent-lowat": 9} }, "notsent-lowat"},
		{"knob's value", func(p map[string]any) { p["server"].(map[string]any)["knobs"] = map[string]any{"nodelay": 7} }, "nodelay"},
		{"knob's type", func(p map[string]any) { p["server"].(map[string]any)["knobs"] = map[string]any{"nodelay": true} }, "true"},
		{"field", func(p map[string]any) { p["warp_speed"] = 1 }, "warp_speed"},
		{"field of an end", func(p map[string]any) { p["server"].(map[string]any)["warp_speed"] = 1 }, "warp_speed"},
		{"test type", func(p map[string]any) { p["test"] = "TCP_WARP" }, "TCP_WARP"},
		{"streams", func(p map[string]any) { p["streams"] = -1 }, "-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := validPlan(t)
			tt.edit(body)
			raw, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			p := s.dial(t, control.Current)
			p.hear(control.TypeHello)
			p.say(control.TypePlan, control.Plan{Plan: raw})
			if tt.want == "" {
				p.hear(control.TypeReady)
				return
			}
			e := p.refused()
			if e.Kind != "plan" || e.End != "server" || !strings.Contains(e.Message, tt.want) {
				t.Errorf("refused with %+v; want a plan error that names %q", e, tt.want)
			}
			if _, _, err := p.Receive(); err == nil {
				t.Error("the session goes on")
			}
		})
	}
}

// Other minor versions are welcome, other major ones are told so by both sides.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	minor := s.dial(t, control.Version{Major: control.Current.Major, Minor: control.Current.Minor + 7})
	minor.hear(control.TypeHello)
	raw, err := json.Marshal(validPlan(t))
	if err != nil {
		t.Fatal(err)
	}
	minor.say(control.TypePlan, control.Plan{Plan: raw})
	minor.hear(control.TypeReady)

	// The server says its version and ends; what that means the client knows.
	major := s.dial(t, control.Version{Major: control.Current.Major + 1})
	var hello control.Hello
	if err := json.Unmarshal(major.hear(control.TypeHello), &hello); err != nil || hello.Version != control.Current {
		t.Errorf("hello %+v, %v", hello, err)
	}
	for err == nil { // it may say why before it ends
		_, _, err = major.Receive()
	}

	f := fake(t, func(f *fakeServer) {
		f.control.hear(control.TypeHello)
		f.control.say(control.TypeHello, control.Hello{Magic: control.Magic, Version: control.Version{Major: 9, Minor: 4}, Program: "gperf 9.0"})
	})
	f.client().failed(t, 1, f.addr, "9.4", control.Current.String(), "major version")
}

// A fakeServer is this test itself in the place of a server.
type fakeServer struct {
	t       testing.TB
	addr    string
	port    int
	l       net.Listener
	control *peer
}

// fake makes a server that plays a part on its first connection.
func fake(t testing.TB, play func(f *fakeServer)) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{t: t, addr: l.Addr().String(), port: l.Addr().(*net.TCPAddr).Port, l: l}
	played := make(chan struct{})
	go func() {
		defer close(played)
		c, err := l.Accept()
		if err != nil {
			return // the client never came
		}
		f.control = newPeer(t, c)
		play(f)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-played
	})
	return f
}

func (f *fakeServer) client(args ...string) *outcome {
	f.t.Helper()
	return run(f.t, place{}, append([]string{"-J", f.addr, "--bytes", "200K"}, args...)...)
}

// greet plays a server up to the plan, which it returns.
func (f *fakeServer) greet() *plan.Test {
	f.control.hear(control.TypeHello)
	f.control.say(control.TypeHello, control.Hello{Magic: control.Magic, Version: control.Current, Program: "gperf 0.9"})
	var msg control.Plan
	if err := json.Unmarshal(f.control.hear(control.TypePlan), &msg); err != nil {
		f.t.Error(err)
	}
	test, err := plan.Parse(msg.Plan)
	if err != nil {
		f.t.Error(err)
	}
	return test
}

// accept admits the client's data connections and reads their preambles.
func (f *fakeServer) accept(streams int) []net.Conn {
	token := [control.TokenSize]byte{1, 2, 3}
	f.control.say(control.TypeReady, control.Ready{Port: f.port, Token: fmt.Sprintf("%x", token)})
	var conns []net.Conn
	for range streams {
		c, err := f.l.Accept()
		if err != nil {
			f.t.Error(err)
			return conns
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		f.t.Cleanup(func() { _ = c.Close() })
		b := make([]byte, control.PreambleSize)
		_, err = io.ReadFull(c, b)
		p, perr := control.ParsePreamble(b)
		if err != nil || perr != nil || p.Token != token {
			f.t.Errorf("preamble %q: %v, %v", b, err, perr)
		}
		conns = append(conns, c)
	}
	return conns
}

// An older server doesn't know a knob: the client says so and ends with the
// status of a plan that can't be honoured; it never opens a data connection.
func TestUnknownToServer(t *testing.T) {
	t.Parallel()
	connected := make(chan error, 1)
	f := fake(t, func(f *fakeServer) {
		f.greet()
		f.control.say(control.TypeError, control.Error{Kind: "plan", Message: `plan: server: unknown knob "keepalive"`, End: "server"})
		_ = f.l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		_, err := f.l.Accept() // until the clean-up closes the listener
		connected <- err
	})
	o := f.client("--keepalive")
	o.failed(t, 2, f.addr, `unknown knob "keepalive"`)
	if o.Status != result.Failed || o.Error.Kind != "plan" || o.Error.End != "server" {
		t.Errorf("document: %s", o.verdict())
	}
	_ = f.l.Close() // the client has ended: whatever it began would be in the queue
	if err := <-connected; err == nil {
		t.Error("the client opened a data connection")
	}
}

// A server that takes a plan and then says nothing of a knob has not set it:
// nothing is sent on the data connections but their preambles.
func TestMissingAuditRow(t *testing.T) {
	t.Parallel()
	rest := make(chan []byte, 2)
	f := fake(t, func(f *fakeServer) {
		f.greet()
		conns := f.accept(2)
		one := 1
		f.control.say(control.TypeAudit, control.Audit{Rows: []sockopt.Row{
			{End: "server", Knob: "nodelay", Requested: sockopt.Int(1), Effective: sockopt.Int(1), Verdict: sockopt.Exact},
			{End: "server", Stream: &one, Knob: "sndbuf", Verdict: sockopt.Auto},
		}})
		for _, c := range conns {
			b, _ := io.ReadAll(c) // to the end, or a reset
			rest <- b
		}
		if len(conns) < 2 {
			close(rest)
		}
	})
	o := f.client("-P", "2", "--nodelay", "--keepalive")
	o.failed(t, 2, "server", "keepalive")
	if o.Status != result.Failed || o.Error.Kind != "plan" {
		t.Errorf("document: %s", o.verdict())
	}
	for range 2 {
		if b := <-rest; len(b) > 0 {
			t.Errorf("%d bytes on a data connection: %q", len(b), b[:min(len(b), 50)])
		}
	}
}

// A server whose audit shows that a knob wasn't honoured is not used either.
func TestRefusedAudit(t *testing.T) {
	t.Parallel()
	rest := make(chan []byte, 1)
	f := fake(t, func(f *fakeServer) {
		f.greet()
		conns := f.accept(1)
		f.control.say(control.TypeAudit, control.Audit{Rows: []sockopt.Row{{
			End: "server", Knob: "keepalive", Requested: sockopt.Int(1), Effective: sockopt.Int(0), Verdict: sockopt.Ignored,
			Detail: "asked 1, the kernel reports 0",
		}}})
		for _, c := range conns {
			b, _ := io.ReadAll(c)
			rest <- b
		}
	})
	f.client("--keepalive").failed(t, 2, "server", "keepalive", "ignored")
	if b := <-rest; len(b) > 0 {
		t.Errorf("%d bytes on a data connection", len(b))
	}
}

// What isn't a gperf server is named as such, within the connect time-out.
func TestForeignServers(t *testing.T) {
	t.Parallel()
	for name, banner := range map[string]string{
		"SSH":     "SSH-2.0-OpenSSH_9.6\r\n",
		"HTTP":    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"silence": "",
		"a frame": "\x00\x00\x00\x0d{\"type\":\"x\"}\n",
		"zeros":   strings.Repeat("\x00", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fake(t, func(f *fakeServer) {
				if banner == "" {
					_, _ = io.Copy(io.Discard, f.control.c)
					return
				}
				_, _ = io.Copy(f.control.c, bytes.NewReader([]byte(banner)))
			})
			before := time.Now()
			o := f.client("--connect-timeout", "0.3")
			o.failed(t, 1, f.addr)
			if o.Status != result.Failed || o.Summary != nil {
				t.Errorf("document: %s", o.verdict())
			}
			if took := time.Since(before); took > patience/4 {
				t.Errorf("that took %v", took)
			}
		})
	}
}
