//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"gperf/internal/golden"
	"gperf/result"
)

// The test binary is gperf itself when it's called so: by scripts, by the tests
// below, and by a client that starts its own server.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gperf": main})
}

// gperf is a gperf that has not been started. It's killed at the test's end if
// it still runs then.
func gperf(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: path, Args: append([]string{"gperf"}, args...)}
}

// start starts a command that is to end with the test.
func start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

// An outcome is what came of a gperf.
type outcome struct {
	status         int
	stdout, stderr string
}

// outcomeOf runs a command to its end.
func outcomeOf(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start(t, cmd)
	err := cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// oneLine reports why stderr isn't exactly one line of gperf's that matches.
func oneLine(stderr, pattern string) error {
	if !strings.HasPrefix(stderr, "gperf: ") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		return fmt.Errorf("stderr is not one line of gperf's: %q", stderr)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	if !re.MatchString(strings.TrimSpace(stderr)) {
		return fmt.Errorf("stderr is %q, want a match of %q", stderr, pattern)
	}
	return nil
}

// resultSchema is the published schema of results.
var resultSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(result.SchemaJSON()))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("result.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("result.json")
})

// checkDocument reports why text isn't exactly one JSON document by the schema.
func checkDocument(text string) error {
	if err := strictJSON(text); err != nil {
		return err
	}
	schema, err := resultSchema()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

// strictJSON reports why text isn't exactly one JSON value: besides what
// encoding/json refuses, which includes NaN and Infinity, a key that is there
// twice and anything behind the value are errors.
func strictJSON(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := strictValue(d); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the document, %v", err)
	}
	return nil
}

func strictValue(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if name, _ := key.(string); seen[name] {
				return fmt.Errorf("key %q is there twice", name)
			} else {
				seen[name] = true
			}
			if err := strictValue(d); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for d.More() {
			if err := strictValue(d); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = d.Token() // the closing one
	return err
}

func TestStrictJSON(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"a": [1, {"b": null}], "c": 1e3}`: true,
		`{"a": 1, "a": 2}`:                  false,
		`[{"a": {"b": 1, "b": 1}}]`:         false,
		`{"a": NaN}`:                        false,
		`{"a": Infinity}`:                   false,
		`{} {}`:                             false,
		"{}\ndone":                          false,
		`{"a": 1`:                           false,
		``:                                  false,
	} {
		if err := strictJSON(text); (err == nil) != ok {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     true,
		UpdateScripts:       golden.Update(),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status":    cmdStatus,
			"quicker":   cmdQuicker,
			"oneline":   cmdOneLine,
			"document":  cmdDocument,
			"lines":     cmdLines,
			"listen":    cmdListen,
			"untouched": cmdUntouched,
			"peer":      cmdPeer,
			"server":    cmdServer,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("ESC", "\x1b")
			env.Values[lastRun{}] = new(time.Duration)
			env.Values[listeners{}] = map[string]*net.TCPListener{}
			return nil
		},
	})
}

// lastRun is the key of how long the script's last "status" took.
type lastRun struct{}

// status N PROGRAM [ARG...] runs a program, which must exit with status N.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM [ARG...]")
	}
	begun := time.Now()
	err := ts.Exec(args[1], args[2:]...)
	*ts.Value(lastRun{}).(*time.Duration) = time.Since(begun)
	status := 0
	if exit, exited := errors.AsType[*exec.ExitError](err); exited {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

// quicker SPAN: the last "status" took less.
func cmdQuicker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: quicker SPAN")
	}
	span, err := time.ParseDuration(args[0])
	ts.Check(err)
	if took := *ts.Value(lastRun{}).(*time.Duration); took >= span {
		ts.Fatalf("it took %v, want less than %v", took, span)
	}
}

// oneline PATTERN: stderr is exactly one line of gperf's, and matches.
func cmdOneLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: oneline PATTERN")
	}
	ts.Check(oneLine(ts.ReadFile("stderr"), args[0]))
}

// document FILE [KEY=VALUE...]: FILE holds exactly one document by the schema,
// with these values, written as in JSON; keys of inner objects follow a point.
func cmdDocument(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: document FILE [KEY=VALUE...]")
	}
	text := ts.ReadFile(args[0])
	if err := checkDocument(text); err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, text)
	}
	for _, want := range args[1:] {
		key, value, _ := strings.Cut(want, "=")
		got, err := lookUp(text, key)
		ts.Check(err)
		if got != value {
			ts.Fatalf("%s is %s, want %s", key, got, value)
		}
	}
}

// lookUp returns the value at a path of keys as compact JSON.
func lookUp(text, path string) (string, error) {
	value := json.RawMessage(text)
	for key := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(value, &object); err != nil {
			return "", fmt.Errorf("%s: above %s: %w", path, key, err)
		}
		var ok bool
		if value, ok = object[key]; !ok {
			return "", fmt.Errorf("%s: there is no %s", path, key)
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return "", err
	}
	return compact.String(), nil
}

// lines FILE N: FILE is JSON lines: N intervals or more, then a result that is
// a document by the schema.
func cmdLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE N")
	}
	text := ts.ReadFile(args[0])
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var least int
	_, err := fmt.Sscan(args[1], &least)
	ts.Check(err)
	if len(all)-1 < least {
		ts.Fatalf("%d intervals, want %d or more:\n%s", len(all)-1, least, text)
	}
	for i, line := range all {
		want := `"interval"`
		if i == len(all)-1 {
			want = `"result"`
			ts.Check(checkDocument(line))
		}
		ts.Check(strictJSON(line))
		kind, err := lookUp(line, "type")
		ts.Check(err)
		if kind != want {
			ts.Fatalf("line %d is of type %s, want %s", i+1, kind, want)
		}
	}
}
