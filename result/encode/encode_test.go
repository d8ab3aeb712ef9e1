package encode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gperf/internal/golden"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

func TestGolden(t *testing.T) {
	for name, fixture := range fixtures {
		for _, format := range Formats() {
			t.Run(name+"."+format, func(t *testing.T) {
				encode, err := Lookup(format)
				if err != nil {
					t.Fatal(err)
				}
				var got bytes.Buffer
				err = encode(&got, fixture(t))
				if noHistogram := name != "rr" && (format == "hdr" || format == "hgrm"); noHistogram {
					if err != ErrNoHistogram || got.Len() > 0 {
						t.Errorf("got %q, %v; want nothing and ErrNoHistogram", &got, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				golden.Compare(t, filepath.Join("testdata", name+"."+format), got.Bytes())
			})
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	_, err := Lookup("xml")
	if err == nil || !strings.Contains(err.Error(), `"xml"`) || !strings.Contains(err.Error(), "text, json, jsonl") {
		t.Errorf("got %v", err)
	}
}

// Text keeps to 100 columns, messages apart, and leaves no blanks at the end.
func TestTextLayout(t *testing.T) {
	for name, fixture := range fixtures {
		var b bytes.Buffer
		if err := Text(&b, fixture(t)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%s: blanks at the end of %q", name, line)
			}
			if message := regexp.MustCompile(`^(warning|failed|partial): |  (clamped|adjusted): `); len(line) > 100 && !message.MatchString(line) {
				t.Errorf("%s: %d columns: %s", name, len(line), line)
			}
		}
	}
}

// What is printed while a test runs, and Text of the run afterwards, are the
// same.
func TestTextInParts(t *testing.T) {
	r := streamRun(t)
	var whole, parts bytes.Buffer
	Text(&whole, r)
	Header(&parts, r)
	IntervalHeader(&parts, &r.Intervals[0])
	for i := range r.Intervals {
		IntervalLine(&parts, &r.Intervals[i])
	}
	fmt.Fprintln(&parts)
	Figures(&parts, r)
	if diff := cmp.Diff(whole.String(), parts.String()); diff != "" {
		t.Errorf("(-whole +parts):\n%s", diff)
	}
}

// A peer's strings can't steer the terminal or pass for other lines.
func TestTextIsPrintable(t *testing.T) {
	const evil = "x\x1b[2J\ttab\nwarning: none"
	r := partialRun(t)
	r.Plan.Client.Knobs["congestion"] = sockopt.Str(evil)
	r.Labels = map[string]string{"a": evil}
	r.Hosts.Server = &result.Host{Kernel: new(evil)}
	r.Audit = []sockopt.Row{asked(evil, "congestion", sockopt.Str(evil), sockopt.Str(evil), evil, evil)}
	r.Streams[0].Client.Remote, r.Streams[0].Client.Error = evil, new(evil)
	r.Warnings = []result.Warning{{Code: evil, End: evil, Message: evil}}
	r.Error = &result.Error{Kind: evil, End: evil, Message: evil}
	for _, encode := range []Encoder{Text, KeyVal, GoBench} {
		var b bytes.Buffer
		if err := encode(&b, r); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if line = strings.TrimSuffix(line, "\n"); line != oneLine(line) || strings.HasPrefix(line, "warning: none") {
				t.Errorf("printed %q", line)
			}
		}
	}
}

func TestAuditGroupsStreams(t *testing.T) {
	var rows []sockopt.Row
	for _, stream := range []int{1, 2, 3, 5, 8, 9} {
		row := asked("server", "rcvbuf", sockopt.Int(8192), sockopt.Int(16384), sockopt.Doubled, "")
		row.Stream = &stream
		if stream == 9 {
			row.AtEnd, row.Verdict = sockopt.Int(32768), sockopt.NotHeld
		}
		rows = append(rows, row)
	}
	var b bytes.Buffer
	audit(&b, rows)
	want := `knob    end     stream   asked  effective  at start  at end  verdict
rcvbuf  server  1-3,5,8  8K     16K        16K       16K     doubled
rcvbuf  server  9        8K     16K        16K       32K     not held

`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for name, fixture := range fixtures {
		for _, encode := range []Encoder{JSON, ResultJSON} {
			var first, second bytes.Buffer
			if err := encode(&first, fixture(t)); err != nil {
				t.Fatal(err)
			}
			r, err := Decode(bytes.NewReader(first.Bytes()))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := encode(&second, r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first.String(), second.String()); diff != "" {
				t.Errorf("%s (-first +second):\n%s", name, diff)
			}
		}
	}
}

// A document is one strict JSON value: no key twice in an object, nothing
// behind it. Each record of JSON lines is one, too.
func TestJSONIsStrict(t *testing.T) {
	for name, fixture := range fixtures {
		var doc, lines bytes.Buffer
		if err := JSON(&doc, fixture(t)); err != nil {
			t.Fatal(err)
		}
		if err := JSONLines(&lines, fixture(t)); err != nil {
			t.Fatal(err)
		}
		if err := strict(doc.Bytes()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for line := range bytes.Lines(lines.Bytes()) {
			if err := strict(line); err != nil {
				t.Errorf("%s: %v in %s", name, err, line)
			}
		}
	}
}

// strict walks the tokens of b, since a decoder lets duplicate keys pass.
func strict(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := walk(d); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("text behind the document: %v", err)
	}
	return nil
}

func walk(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[json.Token]bool{}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("key %q twice", key)
			}
			seen[key] = true
		}
		if err := walk(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func TestJSONRefusesWhatIsNoNumber(t *testing.T) {
	tests := []struct {
		name string
		set  func(r *result.Run)
		want string
	}{
		{"NaN", func(r *result.Run) { r.Summary.TPS = new(math.NaN()) }, "summary.transactions_per_second is NaN"},
		{"infinity", func(r *result.Run) { r.Intervals[1].End = math.Inf(1) }, "intervals[1].end_seconds is +Inf"},
		{"nested", func(r *result.Run) { r.Summary.CPU.Client.User = new(math.Inf(-1)) }, "summary.cpu.client.user_percent is -Inf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := streamRun(t)
			tt.set(r)
			for _, encode := range []Encoder{JSON, JSONLines, KeyVal} {
				var b bytes.Buffer
				err := encode(&b, r)
				if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(tt.want, "intervals[1].")) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				if b.Len() > 0 {
					t.Errorf("printed %q", &b)
				}
			}
		})
	}
}

// Encoding fills in empty lists in a copy.
func TestJSONLeavesRunAlone(t *testing.T) {
	r := partialRun(t)
	r.Intervals[0].Streams = nil
	if err := JSON(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	if r.Labels != nil || r.Warnings != nil || r.Intervals[0].Streams != nil {
		t.Error("JSON changed the run")
	}
}

func TestDecodeErrors(t *testing.T) {
	var doc bytes.Buffer
	if err := JSON(&doc, rrRun(t)); err != nil {
		t.Fatal(err)
	}
	whole := doc.String()
	tests := []struct {
		name, in, want string
	}{
		{"empty", " \n", "empty: not a gperf result"},
		{"text", "Connection refused\n", "not a gperf result: line 1: invalid character 'C' looking for beginning of value"},
		{"number", "42", "not a gperf result: number instead of an object"},
		{"list", "[]", "not a gperf result: array instead of an object"},
		{"other JSON", `{"start": {}, "end": {}}`, "not a gperf result: it names no schema"},
		{"other schema", `{"schema": "gperf/2", "summary": 7}`, `schema is "gperf/2", and this gperf reads gperf/1`},
		{"schema of another kind", `{"schema": 1}`, "not a gperf result: schema: number instead of string"},
		{"truncated", whole[:len(whole)/2], "not a gperf result: the document ends too early"},
		{"last brace missing", whole[:len(whole)-2], "not a gperf result: the document ends too early"},
		{"two documents", whole + whole, "after top-level value"},
		{"intervals only", "{\"type\": \"interval\"}\n{\"type\": \"interval\"}\n", "intervals without a result"},
		{"bad line after intervals", "{\"type\": \"interval\"}\n{\"type\": \"interval\"}\n{;\n", "line 3: invalid character ';'"},
		{"trailing text", whole + "done\n", "after top-level value"},
		{"NaN", strings.Replace(whole, "8250", "NaN", 1), "invalid character 'N'"},
		{"wrong type", strings.Replace(whole, `"transactions": 99,`, `"transactions": "99",`, 1), "plan.transactions: string instead of int64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Decode(strings.NewReader(tt.in))
			if err == nil {
				t.Fatalf("no error, run %v", r)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want %q", err, tt.want)
			}
		})
	}
}

func TestDecodeIgnoresUnknownKeys(t *testing.T) {
	in := `{"schema": "gperf/1", "weather": "fine", "summary": {"transactions": 3, "mood": [1]}}`
	r, err := Decode(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Summary.Transactions; n == nil || *n != 3 {
		t.Errorf("transactions: %v", n)
	}
}

func TestDecodeJSONLines(t *testing.T) {
	want := streamRun(t)
	var lines, document bytes.Buffer
	if err := JSONLines(&lines, want); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(lines.Bytes(), []byte("\n")); n != len(want.Intervals)+1 || n < 3 {
		t.Fatalf("%d lines for %d intervals", n, len(want.Intervals))
	}
	got, err := Decode(&lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := JSON(&document, want); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := JSON(&again, got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(document.String(), again.String()); d != "" {
		t.Errorf("the document came back changed (-want +got):\n%s", d)
	}
}

// The encoded histogram is whole: a reader gets back the very percentiles.
func TestHistogramDecodes(t *testing.T) {
	var b bytes.Buffer
	r := rrRun(t)
	if err := Histogram(&b, r); err != nil {
		t.Fatal(err)
	}
	h, err := stats.DecodeHistogram(strings.TrimSpace(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := stats.SummariseLatency(h, false)
	if err != nil {
		t.Fatal(err)
	}
	want := *r.Summary.Latency
	want.Histogram = ""
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// GoBench keeps to the grammar of Go's benchmark format, whatever the labels
// and knobs are called.
func TestGoBenchGrammar(t *testing.T) {
	r := streamRun(t)
	r.Labels = map[string]string{"Ümlaut": "x", "two words": "a\nb", "7": "seven", "a:b": ""}
	r.Plan.Client.Knobs["SOL_TCP/TCP_SYNCNT"] = sockopt.Int(3)
	r.Plan.Client.Knobs["bind_device"] = sockopt.Str("veth/a b-4")
	var b bytes.Buffer
	if err := GoBench(&b, r); err != nil {
		t.Fatal(err)
	}
	var (
		config = regexp.MustCompile(`^[a-z][^\sA-Z:]*: \S.*$`)
		unit   = regexp.MustCompile(`^Unit \S+ better=(higher|lower)$`)
		bench  = regexp.MustCompile(`^Benchmark[A-Z]\w*(/[^\s/=]+=[^\s/=]+)+ 1( [-+.0-9e]+ \S+)+$`)
	)
	benchmarks := 0
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case bench.MatchString(line):
			benchmarks++
		case !config.MatchString(line) && !unit.MatchString(line):
			t.Errorf("not of the format: %q", line)
		}
	}
	if benchmarks != 1 {
		t.Errorf("%d benchmarks, want 1:\n%s", benchmarks, &b)
	}
}

func TestBenchName(t *testing.T) {
	tests := []struct {
		plan plan.Test
		want string
	}{
		{plan.Test{}, "TCPStream/msg=128Ki/streams=1"},
		{
			plan.Test{Type: plan.TCPMaerts, Streams: 8, Server: plan.End{SendSize: 1000}, Client: plan.End{ReceiveSize: 1 << 20, Knobs: sockopt.Settings{"rcvbuf": sockopt.Int(4 << 20)}}},
			"TCPMaerts/msg=1000/receive=1Mi/client-rcvbuf=4Mi/streams=8",
		},
		{
			plan.Test{Type: plan.TCPRR, Client: plan.End{Knobs: sockopt.Settings{"nodelay": sockopt.Int(1)}}, Server: plan.End{Knobs: sockopt.Settings{"nodelay": sockopt.Int(1)}}},
			"TCPRR/request=1/response=1/burst=1/nodelay=1/streams=1",
		},
	}
	for _, tt := range tests {
		tt.plan.Normalise()
		if got := benchName(&tt.plan); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// Whatever Decode accepts, every encoder prints or refuses without a panic,
// and JSON prints in a form that is read back to the same.
func FuzzDecode(f *testing.F) {
	for _, fixture := range fixtures {
		var b bytes.Buffer
		if err := ResultJSON(&b, fixture(f)); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(`{"schema":"gperf/1"}`))
	f.Add([]byte(`{"schema":"gperf/1","summary":{"latency_us":{"histogram":"SElTVA=="}},"intervals":[{"streams":[{},{}]}]}`))
	f.Add([]byte(`{"schema":"gperf/1","plan":{"client":{},"server":{}},"streams":[{"client":{}}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Decode(bytes.NewReader(in))
		if err != nil {
			return
		}
		for _, e := range encoders {
			e.encode(io.Discard, r)
		}
		var first, second bytes.Buffer
		if err := JSON(&first, r); err != nil {
			t.Fatalf("decoded, but: %v", err)
		}
		if err := strict(first.Bytes()); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := JSON(&second, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("(-first +second):\n%s", cmp.Diff(first.String(), second.String()))
		}
	})
}
