package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
)

// gperf is the program under test, built once by TestMain, and schema that of
// its documents.
var (
	gperf  string
	schema *jsonschema.Schema
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gperf-acceptance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	gperf = filepath.Join(dir, "gperf")
	if out, err := exec.Command("go", "build", "-o", gperf, "gperf/cmd/gperf").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build gperf: %v\n%s", err, out)
		return 1
	}
	// Tests that drop their privileges run it as somebody else.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if schema, err = readSchema("../../docs/result.schema.json"); err != nil {
		fmt.Fprintln(os.Stderr, "read the schema:", err)
		return 1
	}
	return m.Run()
}

func readSchema(path string) (*jsonschema.Schema, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("result.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("result.json")
}

// patience bounds every wait for something that has to happen.
const patience = 20 * time.Second

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A buffer is a process's output, which may be read while it grows.
type buffer struct {
	mu sync.Mutex
	b  []byte
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, p...)
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.b)
}

func (b *buffer) lines() int { return strings.Count(b.String(), "\n") }

// A place is where and how a process runs. The zero value is here and plainly.
type place struct {
	ns    *netnstest.NS // network namespace; nil: the test's own
	trace string        // file for the system calls that strace sees; "": no strace
	calls string        // which of them
	user  uint32        // user and group; 0: the test's own
}

// A process is one gperf that a test has started.
type process struct {
	t              testing.TB
	cmd            *exec.Cmd
	stdout, stderr buffer
	ended          chan struct{}
}

// start starts gperf. The test's end is the process's.
func start(t testing.TB, at place, args ...string) *process {
	t.Helper()
	argv := append([]string{gperf}, args...)
	if at.trace != "" {
		strace, err := exec.LookPath("strace")
		if err != nil {
			t.Skip("needs strace: ", err)
		}
		argv = slices.Concat([]string{strace, "-f", "--seccomp-bpf", "-s", "8", "-e", "trace=" + at.calls, "-o", at.trace}, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if at.ns != nil {
		cmd = at.ns.Command(argv[0], argv[1:]...)
	}
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // strace's program is in the group too
	if at.user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: at.user, Gid: at.user}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the exit status is looked at by those who care
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		<-p.ended
		for _, bad := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if text := p.stderr.String(); strings.Contains(text, bad) {
				t.Errorf("%s of %v:\n%s", bad, args, text)
			}
		}
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v", s, err)
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// status waits for the process's end and returns its exit status.
func (p *process) status() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%v has not ended within %v; stderr: %s", p.cmd.Args, patience, &p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// A server is a gperf server that is ready.
type server struct {
	*process
	addr netip.AddrPort
}

// serve starts a server and awaits its ready line. It listens on a free port of
// loopback unless args say otherwise.
func serve(t testing.TB, at place, args ...string) *server {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	s := &server{process: start(t, at, append([]string{"server"}, args...)...)}
	eventually(t, "the server's ready line", func() bool { return s.stdout.lines() > 0 || s.hasEnded() })
	line, _, _ := strings.Cut(s.stdout.String(), "\n")
	_, text, _ := strings.Cut(line, "listening on ")
	var err error
	if s.addr, err = netip.ParseAddrPort(text); err != nil {
		t.Fatalf("the server said %q and %q", line, s.stderr.String())
	}
	return s
}

// port is the server's port at another address.
func (s *server) at(host string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s:%d", host, s.addr.Port())
}

// descriptors and threads count what the process has now.
func (p *process) descriptors() int { return p.count("fd") }
func (p *process) threads() int     { return p.count("task") }

func (p *process) count(what string) int {
	p.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", p.pid(), what))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(entries)
}

// An outcome is what a client's user got.
type outcome struct {
	args           []string
	status         int
	stdout, stderr string
	*result.Run    // the document of a client with -J; nil if there is none
}

// run runs a client to its end.
func run(t testing.TB, at place, args ...string) *outcome {
	t.Helper()
	return start(t, at, append([]string{"client"}, args...)...).outcome()
}

// outcome waits for the end of a client.
func (p *process) outcome() *outcome {
	p.t.Helper()
	o := &outcome{args: p.cmd.Args, status: p.status(), stdout: p.stdout.String(), stderr: p.stderr.String()}
	text := o.stdout
	if slices.Contains(o.args, "jsonl") {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		text = lines[len(lines)-1] + "\n"
	} else if !slices.Contains(o.args, "-J") {
		return o
	}
	o.Run = document(p.t, text)
	return o
}

// client runs a client in JSON mode against s.
func (s *server) client(at place, args ...string) *outcome {
	s.t.Helper()
	return run(s.t, at, append([]string{"-J", s.addr.String()}, args...)...)
}

// complete is client for a test that has to succeed without a word.
func (s *server) complete(at place, args ...string) *outcome {
	s.t.Helper()
	o := s.client(at, args...)
	o.mustComplete(s.t)
	return o
}

func (o *outcome) mustComplete(t testing.TB) {
	t.Helper()
	if o.status != 0 || o.stderr != "" || o.Run == nil || o.Status != result.Complete || o.Error != nil {
		t.Fatalf("%v: exit status %d, stderr %q, document %s", o.args, o.status, o.stderr, o.verdict())
	}
}

// verdict is what the document says of its run as a whole.
func (o *outcome) verdict() string {
	if o.Run == nil {
		return "none"
	}
	if o.Error == nil {
		return string(o.Status)
	}
	return fmt.Sprintf("%s: %s error of %q: %s", o.Status, o.Error.Kind, o.Error.End, o.Error.Message)
}

// failed checks that a client ended with a status, one line on stderr that
// contains the words, and, in JSON mode, a document that says the same.
func (o *outcome) failed(t testing.TB, status int, words ...string) {
	t.Helper()
	if o.status != status || strings.Count(o.stderr, "\n") != 1 || !strings.HasPrefix(o.stderr, "gperf: ") {
		t.Fatalf("%v: exit status %d, stderr %q, document %s; want %d and one line", o.args, o.status, o.stderr, o.verdict(), status)
	}
	for _, w := range words {
		if !strings.Contains(o.stderr, w) {
			t.Errorf("%v: stderr lacks %q: %s", o.args, w, o.stderr)
		}
	}
	if o.Run == nil {
		return
	}
	if o.Error == nil || !strings.Contains(o.stderr, o.Error.Message) {
		t.Errorf("%v: the document says %s, stderr %q", o.args, o.verdict(), o.stderr)
	}
}

// document reads the one document that text must be, strictly, and holds it
// against the schema.
func document(t testing.TB, text string) *result.Run {
	t.Helper()
	if err := strict(text); err != nil {
		t.Fatalf("not one strict JSON document: %v\n%s", err, text)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Fatalf("not a valid result: %v\n%s", err, text)
	}
	r, err := encode.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// strict reports why text isn't exactly one JSON value in which no object has
// a key twice. (NaN and Infinity are no JSON to begin with.)
func strict(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := strictValue(d); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more after the document: %v", err)
	}
	return nil
}

func strictValue(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for delim, open := token.(json.Delim); open && d.More(); {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name := key.(string)
			if seen[name] {
				return fmt.Errorf("key %q twice", name)
			}
			seen[name] = true
		}
		if err := strictValue(d); err != nil {
			return err
		}
	}
	if _, open := token.(json.Delim); open {
		_, err = d.Token() // the closing one
	}
	return err
}

func TestStrict(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"a": [1, {"b": null}, "c"], "d": {}}` + "\n": true,
		`{"a": 1, "a": 2}`:          false,
		`{"x": [{"a": 1, "a": 2}]}`: false,
		`{"a": NaN}`:                false,
		`{"a": Infinity}`:           false,
		`{} {}`:                     false,
		`{} trailing`:               false,
		`{"a": `:                    false,
		``:                          false,
	} {
		if err := strict(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// rows are the audit's rows of one knob at one end.
func (o *outcome) rows(end sockopt.End, knob string) []sockopt.Row {
	var rows []sockopt.Row
	for _, r := range o.Audit {
		if r.End == end.String() && r.Knob == knob {
			rows = append(rows, r)
		}
	}
	return rows
}

// row is the one row that stands for all streams.
func (o *outcome) row(t testing.TB, end sockopt.End, knob string) sockopt.Row {
	t.Helper()
	rows := o.rows(end, knob)
	if len(rows) != 1 {
		t.Fatalf("%d rows of %s's %s in the audit: %+v", len(rows), end, knob, o.Audit)
	}
	return rows[0]
}

// directions are the figures of each way that is there.
func (o *outcome) directions() map[plan.Direction]*result.Figures {
	all := map[plan.Direction]*result.Figures{}
	if f := o.Summary.Directions.ClientToServer; f != nil {
		all[plan.ClientToServer] = f
	}
	if f := o.Summary.Directions.ServerToClient; f != nil {
		all[plan.ServerToClient] = f
	}
	return all
}

// asRoot skips a test that needs to be root.
func asRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func splitLines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// quick are the flags of a test that moves a little and ends by itself, so that
// it can't end with nothing on a busy machine.
func quick(test string) []string {
	if test == "TCP_RR" {
		return []string{"-t", test, "--transactions", "50"}
	}
	return []string{"-t", test, "--bytes", "200K"}
}
