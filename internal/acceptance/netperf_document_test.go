package acceptance

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/result"
	"gperf/sockopt"
)

// documented makes a run whose document goes to a file, and the file's name.
func (s *server) documented(t testing.TB, args ...string) (*command, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	return s.netperf(append([]string{"-J", file}, args...)...), file
}

// read reads the document of a run.
func (r *ran) read(t testing.TB, file string) *outcome {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: %v", r.args, err)
	}
	return &outcome{args: r.args, status: r.status, stdout: r.stdout, stderr: r.stderr, Run: document(t, string(text))}
}

// The document has the same figures as the text, and says what became of what was
// asked of the sockets of both ends.
func TestNetperfDocument(t *testing.T) {
	s := serve(t, place{})
	const names = "THROUGHPUT,ELAPSED_TIME,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD"
	tests := []struct{ test, options string }{
		{"TCP_STREAM", "-m 8K"},
		{"TCP_MAERTS", "-s 64K -S 128K"},
		{"TCP_RR", "-D -r 100,200"},
		{"TCP_RR", "-D -b 4"},
		{"TCP_CRR", ""},
		{"UDP_STREAM", "-m 1024"},
		{"UDP_RR", "-s 64K,32K -S 32K,64K"},
		{"OMNI", "-c"},
		{"TCP_STREAM", "-V -s 64K -S 64K -D -K reno,cubic"},
	}
	var commands []*command
	var files []string
	for _, tt := range tests {
		c, file := s.documented(t, strings.Fields("-l 1 -t "+tt.test+" -- -k "+names+" "+tt.options)...)
		commands, files = append(commands, c), append(files, file)
	}
	for i, r := range runAll(commands) {
		t.Run(tests[i].test+" "+tests[i].options, func(t *testing.T) {
			r.good(t)
			o := r.read(t, files[i])
			o.mustComplete(t)
			f := r.figures(t)
			per := 1.0 // transactions
			got := o.Summary.TPS
			if got == nil {
				per, got = 1e6, o.Summary.Throughput
			}
			same(t, "THROUGHPUT", f.number(t, "THROUGHPUT")*per, got, 0.006*per)
			same(t, "ELAPSED_TIME", f.number(t, "ELAPSED_TIME"), o.Summary.Duration, 0.006)
			if o.Plan.Type.RequestResponse() {
				return
			}
			sent, received := "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"
			if tests[i].test == "TCP_MAERTS" {
				sent, received = "REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"
			}
			same(t, sent, f.number(t, sent), asFloat(o.Summary.SentBytes), 0)
			same(t, received, f.number(t, received), asFloat(o.Summary.ReceivedBytes), 0)
		})
	}
}

func asFloat(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func same(t *testing.T, name string, text float64, got *float64, within float64) {
	t.Helper()
	if got == nil || math.Abs(text-*got) > within {
		t.Errorf("%s=%v, in the document %v", name, text, got)
	}
}

// Each option of a socket has a row in the audit for either end, with a verdict.
func TestNetperfAudit(t *testing.T) {
	s := serve(t, place{})
	c, file := s.documented(t, strings.Fields("-l -1000 -t TCP_RR -- -s 64K,32K -S 48K,80K -D -K reno")...)
	r := c.run()
	r.good(t)
	o := r.read(t, file)
	o.mustComplete(t)
	for _, want := range []struct {
		end       sockopt.End
		knob      string
		requested sockopt.Value
		verdict   sockopt.Verdict
	}{
		{sockopt.Client, "sndbuf", sockopt.Int(64 << 10), sockopt.Doubled},
		{sockopt.Client, "rcvbuf", sockopt.Int(32 << 10), sockopt.Doubled},
		{sockopt.Client, "nodelay", sockopt.Int(1), sockopt.Exact},
		{sockopt.Client, "congestion", sockopt.Str("reno"), sockopt.Exact},
		{sockopt.Server, "sndbuf", sockopt.Int(48 << 10), sockopt.Doubled},
		{sockopt.Server, "rcvbuf", sockopt.Int(80 << 10), sockopt.Doubled},
		{sockopt.Server, "nodelay", sockopt.Int(1), sockopt.Exact},
		{sockopt.Server, "congestion", sockopt.Str("reno"), sockopt.Exact},
	} {
		row := o.row(t, want.end, want.knob)
		if row.Requested != want.requested || row.Verdict != want.verdict {
			t.Errorf("%s's %s: %+v, want %v and %s", want.end, want.knob, row, want.requested, want.verdict)
		}
	}
}

// A buffer that the kernel made smaller is worth a line on standard error, and
// nothing else is in a test that nobody asked for more.
func TestNetperfClamped(t *testing.T) {
	s := serve(t, place{})
	for _, tt := range []struct {
		options string
		rows    []string // "end knob" of those that were clamped
	}{
		{"-s 1G,", []string{"client sndbuf"}},
		{"-S ,1G", []string{"server rcvbuf"}},
		{"-s 1G", []string{"client sndbuf", "client rcvbuf"}},
		{"-s 16K -S 16K", nil},
	} {
		t.Run(tt.options, func(t *testing.T) {
			c, file := s.documented(t, strings.Fields("-l -100000 -- "+tt.options)...)
			r := c.run()
			r.ended(t, 0)
			o := r.read(t, file)
			var clamped []string
			for _, row := range o.Audit {
				if row.Verdict == sockopt.Clamped {
					clamped = append(clamped, row.End+" "+row.Knob)
				}
			}
			if !slices.Equal(clamped, tt.rows) {
				t.Errorf("clamped in the document: %q, want %q", clamped, tt.rows)
			}
			if n := strings.Count(r.stderr, "\n"); n != len(tt.rows) || strings.Count(r.stderr, "clamped by net.core.") != n {
				t.Errorf("stderr: %q", r.stderr)
			}
		})
	}
}

// The document's warnings are on standard error as well where that is wanted, and
// only there.
func TestNetperfWarnings(t *testing.T) {
	s := serve(t, place{})
	tests := []struct {
		name, args, env string
		shown           bool
	}{
		{"unasked", "", "", false},
		{"-d", "-d", "", true},
		{"GPERF_WARN", "", "GPERF_WARN=1", true},
		{"GPERF_WARN=", "", "GPERF_WARN=", false},
	}
	var commands []*command
	var files []string
	for _, tt := range tests {
		// Of one byte each, and side by side: there's nearly always something to say
		// of it.
		c, file := s.documented(t, strings.Fields("-l 1 -t TCP_STREAM "+tt.args+" -- -m 1")...)
		c.cmd.Env = append(c.cmd.Env, tt.env)
		commands, files = append(commands, c), append(files, file)
	}
	for i, r := range runAll(commands) {
		t.Run(tests[i].name, func(t *testing.T) {
			r.ended(t, 0)
			want := ""
			for _, w := range r.read(t, files[i]).Warnings {
				want += fmt.Sprintf("netperf: warning: %s (%s)\n", w.Message, w.Code)
			}
			if !tests[i].shown {
				want = ""
			}
			if r.stderr != want {
				t.Errorf("stderr %q, want %q", r.stderr, want)
			}
		})
	}
}

// A document that goes to standard output comes after the text, and a run that a
// signal ended has one too.
func TestNetperfDocumentPlaces(t *testing.T) {
	s := serve(t, place{})
	r := s.netperf("-J", "-", "-l", "-100000", "-P", "0", "-v", "0").run()
	r.good(t)
	number, text, _ := strings.Cut(r.stdout, "\n")
	if parseNumber(t, strings.TrimSpace(number)) <= 0 {
		t.Errorf("%q before the document", number)
	}
	if o := document(t, text); o.Status != result.Complete {
		t.Errorf("status %s", o.Status)
	}
	r = s.netperf("-J", filepath.Join(t.TempDir(), "no", "such", "folder"), "-l", "1").run()
	r.ended(t, 1)
	if r.stdout != "" || !strings.Contains(r.stderr, "no such file or directory") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
}

// TCP_NODELAY is set on data sockets when it was asked for, and else never.
func TestNetperfNoDelay(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want bool
	}{
		{"TCP_STREAM", []string{"-t", "TCP_STREAM", "-l", "-100000"}, false},
		{"TCP_RR", []string{"-t", "TCP_RR", "-l", "-100"}, false},
		{"TCP_CRR", []string{"-t", "TCP_CRR", "-l", "-20"}, false},
		{"TCP_STREAM with -D", []string{"-t", "TCP_STREAM", "-l", "-100000", "--", "-D"}, true},
		{"TCP_CRR with -D", []string{"-t", "TCP_CRR", "-l", "-20", "--", "-D"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(end string) place { return place{trace: filepath.Join(dir, end), calls: knobCalls} }
			s := serve(t, at("server"), "--once")
			control := fmt.Sprintf("htons(%d)", s.addr.Port())
			p := start(t, at("client"), append([]string{"netperf", "-H", "127.0.0.1", "-p", strconv.Itoa(int(s.addr.Port()))}, tt.args...)...)
			if p.status() != 0 || p.stderr.String() != "" {
				t.Fatalf("exit status %d, stderr %s", p.status(), &p.stderr)
			}
			s.status() // it ends after its one test
			for _, end := range []string{"client", "server"} {
				text, err := os.ReadFile(filepath.Join(dir, end))
				if err != nil {
					t.Fatal(err)
				}
				calls, err := parseStrace(string(text))
				if err != nil {
					t.Fatal(err)
				}
				sockets, withOption := dataSockets(histories(calls), control), 0
				for _, d := range sockets {
					if slices.ContainsFunc(d.calls, func(c *syscallLine) bool { return c.name == "setsockopt" && c.arg(2) == "TCP_NODELAY" }) {
						withOption++
					}
				}
				if len(sockets) == 0 || (withOption > 0) != tt.want || tt.want && end == "client" && withOption != len(sockets) {
					t.Errorf("%s: TCP_NODELAY was set on %d of %d data sockets", end, withOption, len(sockets))
				}
			}
		})
	}
}

// dataSockets are the sockets of a trace that data goes through, and the listeners
// that such sockets have their options from: all but the first listener, which is
// of the control connections, and what it accepts or what connects to it.
func dataSockets(all []*descriptor, control string) (data []*descriptor) {
	first, listeners := -1, map[string]bool{}
	for _, d := range all {
		for _, c := range d.calls {
			switch made := d.calls[0].name; {
			case c.name == "listen" && first < 0:
				first = d.fd
			case c.name == "listen" && d.fd != first:
				listeners[strconv.Itoa(d.fd)] = true
			case c.name == "connect" && strings.Contains(c.args, "AF_INET") && !strings.Contains(c.args, control):
			case c == d.calls[0] && strings.HasPrefix(made, "accept") && listeners[c.arg(0)]:
			default:
				continue
			}
			if d.fd != first {
				data = append(data, d)
			}
			break
		}
	}
	return data
}
