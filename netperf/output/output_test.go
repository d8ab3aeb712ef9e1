package output

import (
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/netperf/options"
)

// sampleRun is a run of two seconds in which both ends sent and received.
func sampleRun(o *options.Netperf) *Run {
	local := Side{
		SendBuffer: 16384, RecvBuffer: 131072, SendBufferEnd: 4194304, RecvBufferEnd: 131072,
		SendSize: 1024, RecvSize: 2048, SendWidth: 17, RecvWidth: 65,
		BytesSent: 2_500_000, BytesReceived: 1_250_000, SendCalls: 2442, RecvCalls: 611, FailedSends: 3,
		Retransmits: 4, Congestion: "cubic", Priority: -1, TOS: -1, MSS: 1448,
		CPU: &CPU{Util: 25, User: 10, System: 12, IOWait: 1, IRQ: 0.5, SoftIRQ: 1.5, Count: 4,
			PeakUtil: 90, PeakID: 2, Method: 'S', Rate: 100},
	}
	remote := local
	remote.SendBuffer, remote.RecvBuffer, remote.SendSize = 8192, 65536, 512
	remote.BytesSent, remote.BytesReceived, remote.SendCalls, remote.RecvCalls = 1_250_000, 2_000_000, 1221, 500
	remote.CPU = &CPU{Util: 50, Count: 2, Method: 'S', Rate: 100}
	r := &Run{Options: o, Family: unix.AF_INET, UUID: "u", Latency: &Latency{}, Iterations: []Iteration{
		{Elapsed: 2 * time.Second, Local: local, Remote: remote, Transactions: 1000},
	}}
	r.Latency.Record(15 * time.Microsecond)
	return r
}

func text(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var out strings.Builder
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What the golden files don't have: a $ is the end of a line, histogram its
// rows.
func TestClassicLayouts(t *testing.T) {
	histogram := text(t, func(w io.Writer) error {
		var p page
		l := &Latency{}
		l.Record(15 * time.Microsecond)
		p.histogram(l)
		return p.to(w)
	})
	brand := "B"
	tests := []struct {
		name string
		test options.Test
		set  func(*options.Netperf)
		want string
	}{
		{"brand at verbosity 0", options.TCPStream, func(o *options.Netperf) {
			o.Verbosity, o.Banner, o.Brand = 0, false, &brand
		}, "  13.00 B$"},
		{"brand with CPU figures", options.TCPStream, func(o *options.Netperf) {
			o.CPU.Local, o.Banner, o.Brand = true, false, &brand
		}, " 65536  16384   1024    2.00         13.00   25.00    50.00    546.133  546.133 B$"},
		{"remote demand at verbosity 0", options.TCPMaerts, func(o *options.Netperf) {
			o.Verbosity, o.CPU.Remote = 0, true
		}, "546.133 S $"},
		{"maerts without CPU figures has its own direction's buffers", options.TCPMaerts, func(o *options.Netperf) {
			o.Banner = false
		}, "131072   8192    512    2.00        5.00   $"},
		{"maerts with CPU figures has the other's", options.TCPMaerts, func(o *options.Netperf) {
			o.Banner, o.CPU.Local, o.CPU.Remote = false, true, true
		}, " 65536  16384    512    2.00          5.00   25.00    50.00    546.133  546.133 $"},
		{"maerts at verbosity 3", options.TCPMaerts, func(o *options.Netperf) {
			o.Verbosity = 3
			o.Align.Local.Recv, o.Align.Remote.Recv, o.Offset.Local.Recv, o.Offset.Remote.Recv = 1, 2, 3, 4
		}, "$Alignment      Offset         Bytes    Bytes       Recvs   Bytes    Sends$" +
			"Local  Remote  Local  Remote  Xfered   Per                 Per$" +
			"Recv   Send    Recv   Send             Recv (avg)          Send (avg)$" +
			"    1       2      3       4 1250000  2045.83       611   1023.75   1221$" +
			"$Maximum$Segment$Size (bytes)$  1448$$$Histogram of time spent in recv() call.$" + histogram},
		{"sendfile at verbosity 3 counts what arrived", options.TCPSendfile, func(o *options.Netperf) {
			o.Verbosity = 3
		}, "$Alignment      Offset         Bytes    Bytes       Sends   Bytes    Recvs$" +
			"Local  Remote  Local  Remote  Xfered   Per                 Per$" +
			"Send   Recv    Send   Recv             Send (avg)          Recv (avg)$" +
			"    8       8      0       0  2e+06  819.00      2442   4000.00    500$" +
			"$Maximum$Segment$Size (bytes)$  1448$$$Histogram of time spent in send() call.$" + histogram},
		{"request/response at verbosity 3", options.TCPRR, func(o *options.Netperf) {
			o.Verbosity, o.Request, o.Response, o.Burst = 3, 1000, 4000, 1
			o.Align.Local.Send, o.Align.Remote.Recv, o.Offset.Local.Send, o.Offset.Remote.Recv = 1, 2, 3, 4
		}, "Alignment      Offset         RoundTrip  Trans    Throughput$" +
			"Local  Remote  Local  Remote  Latency    Rate     10^6bits/s$" +
			"Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound$" +
			"    1      4       3      4   4000.000   500.000 4.000     16.000$" +
			"$Histogram of request/response times$" + histogram},
		{"UDP request/response with other units and CPU figures", options.UDPRR, func(o *options.Netperf) {
			o.Unit, o.CPU.Local, o.CPU.Remote = 'K', true, true
		}, "Local /Remote$" +
			"Socket Size   Request Resp.  Elapsed Tput     CPU    CPU    S.dem   S.dem$" +
			"Send   Recv   Size    Size   Time    KBytes   local  remote local   remote$" +
			"bytes  bytes  bytes   bytes  secs.   per sec  % S    % S    us/KB   us/KB$$" +
			"16384  131072 1       1      2.00    1586.91   25.00  50.00  546.133  546.133 $" +
			"8192   65536 $"},
		{"connect/request/response at verbosity 0", options.TCPCRR, func(o *options.Netperf) {
			o.Verbosity = 0
		}, " 500.00$"},
		{"connect/request/response at verbosity 0 with CPU figures", options.TCPCRR, func(o *options.Netperf) {
			o.Verbosity, o.CPU.Local = 0, true
		}, "2000.000$"},
		{"connect/request/response with other units has the same headings", options.TCPCRR, func(o *options.Netperf) {
			o.Unit, o.Brand = 'm', &brand
		}, "Local /Remote$" +
			"Socket Size   Request  Resp.   Elapsed  Trans.$" +
			"Send   Recv   Size     Size    Time     Rate         $" +
			"bytes  Bytes  bytes    bytes   secs.    per sec   $$" +
			"16384  131072 1        1       2.00       13.00   $" +
			"8192   65536 $"},
		{"connect/close counts connections in any unit", options.TCPCC, func(o *options.Netperf) {
			o.Unit, o.Banner, o.Brand, o.CPU.Local = 'm', false, &brand, true
		}, "16384  131072 1       1      2.00    500.00   25.00  50.00  2000.000  2000.000$8192   65536 $"},
		{"UDP at verbosity 0 with remote CPU figures", options.UDPStream, func(o *options.Netperf) {
			o.Verbosity, o.CPU.Remote = 0, true
		}, "546.13 S$"},
		{"UDP at verbosity 3", options.UDPStream, func(o *options.Netperf) {
			o.Verbosity = 3
		}, "$Histogram of time spent in send() call$" + histogram},
		{"UDP with errors", options.UDPStream, func(o *options.Netperf) {
			o.Banner = false
		}, " 16384    1024   2.00         2442      3      10.00$ 65536           2.00          500              8.00$$"},
		{"segment size at verbosity 3", options.TCPMSS, func(o *options.Netperf) { o.Verbosity = 3 }, ""},
		{"segment size with a brand", options.TCPMSS, func(o *options.Netperf) {
			o.Banner, o.Brand = false, &brand
		}, "1448 B$"},
		{"no remote CPU figures to be had", options.TCPStream, func(o *options.Netperf) {
			o.Banner, o.CPU.Remote = false, true
		}, " 65536  16384   1024    2.00       13.00   $"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := defaults(test.test)
			test.set(o)
			r := sampleRun(o)
			if strings.HasPrefix(test.name, "no remote") {
				r.Iterations[0].Remote.CPU = nil
			}
			got := text(t, func(w io.Writer) error { return Classic(w, r) })
			want := strings.ReplaceAll(test.want, "$", "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever a run lacks, there is a result and no crash, and no number that
// others can't read.
func TestEmptyRuns(t *testing.T) {
	for test := range layouts {
		for verbosity := -1; verbosity <= 3; verbosity++ {
			for _, unit := range []byte{0, 'u', 'x', 'K'} {
				for _, style := range []options.Style{options.Classic, options.Human, options.CSV, options.Keyval} {
					if style != options.Classic && verbosity != 2 { // it changes nothing but the histogram
						continue
					}
					o := defaults(test)
					o.Verbosity, o.Unit, o.Style = verbosity, unit, style
					o.CPU = options.Ends[bool]{Local: true, Remote: true}
					o.Confidence = options.Confidence{Min: 3, Max: 3, Level: 95, Width: 5}
					for _, r := range []*Run{{Options: o, Selection: all()}, {Options: o, Iterations: make([]Iteration, 2)},
						{Options: o, Latency: &Latency{}, Iterations: []Iteration{{Local: Side{CPU: &CPU{}}, Remote: Side{CPU: &CPU{}}}}}} {
						got := text(t, func(w io.Writer) error { return Result(w, r) })
						if regexp.MustCompile(`NaN|Inf|inf|%!`).MatchString(got) {
							t.Errorf("%s, verbosity %d, style %d: %s", test, verbosity, style, got)
						}
					}
				}
			}
		}
	}
}

func TestUnknownSelectors(t *testing.T) {
	tests := []struct {
		name  string
		style options.Style
		spec  string
		want  string
	}{
		{"first in CSV", options.CSV, "NO_SUCH,THROUGHPUT", "Throughput\n, 13.00\n"},
		{"last in CSV", options.CSV, "THROUGHPUT,NO_SUCH", "Throughput\n13.00,,\n"},
		{"among others in CSV", options.CSV, "OUTPUT_NONE,FOO,THROUGHPUT,FOO", " ,Throughput\n ,, 13.00,,\n"},
		{"alone in CSV", options.CSV, "FOO,BAR", "\n, ,\n"},
		{"first in columns", options.Human, "FOO,THROUGHPUT", " Throughput \n            \n            \n            \n 13.00      \n"},
		{"in keyval", options.Keyval, "FOO,throughput", "THROUGHPUT=13.00\n"},
		{"alone in keyval", options.Keyval, "FOO,BAR", ""},
		{"no value at the end", options.CSV, "THROUGHPUT,RESULT_BRAND", "Throughput,Result Tag\n13.00,,\n"},
		{"separators only", options.Human, ", ;;", ""},
		{"blanks", options.Keyval, "THROUGHPUT ELAPSED_TIME,, PROTOCOL", "THROUGHPUT=13.00\nELAPSED_TIME=2.00\nPROTOCOL=TCP\n"},
		{"empty blocks don't count", options.Keyval, "PROTOCOL;;;;;PROTOCOL;", "PROTOCOL=TCP\nPROTOCOL=TCP\n"},
		{"end of a block", options.Keyval, "PROTOCOL,output_end,PROTOCOL;DIRECTION", "PROTOCOL=TCP\nDIRECTION=Send\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := defaults(options.TCPStream)
			o.Style = test.style
			r := sampleRun(o)
			var err error
			if r.Selection, err = ParseSelectors(test.style, test.spec, nil); err != nil {
				t.Fatal(err)
			}
			got := text(t, func(w io.Writer) error { return Omni(w, r) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOmniBlocksWithoutHeadings(t *testing.T) {
	o := defaults(options.TCPStream)
	o.Style, o.Banner = options.Human, false
	r := sampleRun(o)
	r.Selection = list("THROUGHPUT;ELAPSED_TIME")
	got := text(t, func(w io.Writer) error { return Omni(w, r) })
	if want := "13.00      \n\n2.00    \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOmniHistogram(t *testing.T) {
	for want, set := range map[string]func(*options.Netperf){
		"send":                           func(o *options.Netperf) { o.Direction = options.Transmit },
		"recv":                           func(o *options.Netperf) { o.Direction = options.Receive },
		"request/response":               func(o *options.Netperf) { o.Direction = options.Both },
		"connect/request/response/close": func(o *options.Netperf) { o.Direction, o.Connection = options.Both, true },
		"connect/close":                  func(o *options.Netperf) { o.Connection = true },
	} {
		for _, style := range []options.Style{options.Human, options.CSV, options.Keyval} {
			o := defaults(options.Omni)
			o.Verbosity, o.Style = 2, style
			set(o)
			got := text(t, func(w io.Writer) error { return Omni(w, sampleRun(o)) })
			if !strings.Contains(got, "\n\nHistogram of "+want+" times\nUNIT_USEC     :    0:") ||
				!strings.HasSuffix(got, "\n>100_SECS: 0\nHIST_TOTAL:      1\n") {
				t.Errorf("%s, style %d:\n%s", want, style, got)
			}
		}
	}
}

func TestParseSelectors(t *testing.T) {
	files := map[string]string{
		"long":    "PROTOCOL\nPROTOCOL," + strings.Repeat("A", 80),
		"fits":    strings.Repeat("A", 79),
		"empty":   "",
		"latency": "P99_LATENCY",
		"end":     "PROTOCOL,OUTPUT_END,PROTOCOL\n\nThroughput Units",
	}
	readFile := func(name string) ([]byte, error) {
		if name == "forbidden" {
			return nil, &os.PathError{Op: "open", Path: name, Err: unix.EACCES}
		}
		text, ok := files[name]
		if !ok {
			return nil, os.ErrNotExist
		}
		return []byte(text), nil
	}
	tests := []struct {
		name, spec string
		want       string // names, blocks between semicolons
		latency    bool
		exit       *options.Exit
	}{
		{name: "default", spec: "", want: ""},
		{name: "one name", spec: "protocol", want: "PROTOCOL"},
		{name: "five blocks", spec: "UUID;UUID;UUID;UUID;PROTOCOL", want: "UUID;UUID;UUID;UUID"},
		{name: "unknown", spec: "PROTOCOL,x,UUID", want: "PROTOCOL,?,UUID"},
		{name: "latency", spec: "PROTOCOL;UUID,mean_latency", want: "PROTOCOL;UUID,MEAN_LATENCY", latency: true},
		{name: "round trips aren't latencies", spec: "rt_latency", want: "RT_LATENCY"},
		{name: "latency after the end", spec: "UUID,OUTPUT_END,P50_LATENCY", want: "UUID"},
		{name: "file", spec: "end", want: "PROTOCOL;OUTPUT_NONE;THROUGHPUT_UNITS"},
		{name: "latency from a file", spec: "latency", want: "P99_LATENCY"},
		{name: "empty file", spec: "empty", want: ""},
		{name: "79 letters", spec: "fits", want: "OUTPUT_NONE"},
		{name: "80 letters", spec: "long", exit: &options.Exit{Status: 255,
			Stdout: "Output selection starting column 10 on line 2 is too long\n"}},
		{name: "no file", spec: "NO_SUCH", exit: &options.Exit{Status: 255,
			Stdout: "Could not open output selection file 'NO_SUCH' errno 2\n"}},
		{name: "no permission", spec: "forbidden", exit: &options.Exit{Status: 255,
			Stdout: "Could not open output selection file 'forbidden' errno 13\n"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := ParseSelectors(options.Keyval, test.spec, readFile)
			var exit *options.Exit
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.exit, exit); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			var blocks []string
			for _, block := range s.blocks {
				var names []string
				for _, selector := range block {
					if selector == nil {
						names = append(names, "?")
					} else {
						names = append(names, selector.name)
					}
				}
				blocks = append(blocks, strings.Join(names, ","))
			}
			if got := strings.Join(blocks, ";"); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := s.WantsLatency(); got != test.latency {
				t.Errorf("WantsLatency: %t, want %t", got, test.latency)
			}
		})
	}

	s, _ := ParseSelectors(options.CSV, "X;PROTOCOL,Y", nil)
	if diff := cmp.Diff([]Unknown{{"X", 1, 1}, {"Y", 2, 2}}, s.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	s, _ = ParseSelectors(options.CSV, "aLL", nil)
	total := 0
	for _, block := range s.blocks {
		total += len(block)
	}
	if len(s.blocks) != 4 || total != 173 || !s.WantsLatency() {
		t.Errorf("all: %d selectors in %d blocks", total, len(s.blocks))
	}
}

func TestWantsLatency(t *testing.T) {
	latencies := list("P99_LATENCY")
	tests := []struct {
		name      string
		set       func(*options.Netperf)
		selection Selection
		want      bool
	}{
		{"nothing", func(*options.Netperf) {}, Selection{}, false},
		{"-j", func(o *options.Netperf) { o.Histogram = true }, Selection{}, true},
		{"-v 2", func(o *options.Netperf) { o.Verbosity = 2 }, Selection{}, true},
		{"selected", func(o *options.Netperf) { o.Style = options.CSV }, latencies, true},
		{"selected and not shown", func(*options.Netperf) {}, latencies, false},
	}
	for _, test := range tests {
		o := defaults(options.TCPRR)
		test.set(o)
		if got := WantsLatency(o, test.selection); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	tests := []struct {
		test   options.Test
		letter byte
		name   string
		want   float64 // of 125 MB/s or transactions/s
	}{
		{options.TCPStream, 0, "10^6bits", 1000},
		{options.TCPStream, 'x', "10^6bits", 1000},
		{options.TCPStream, 'g', "10^9bits", 1},
		{options.TCPStream, 'k', "10^3bits", 1e6},
		{options.TCPStream, 'b', "10^0bits", 125e6},
		{options.TCPStream, 'B', "Bytes", 125e6},
		{options.TCPStream, 'K', "KBytes", 125e6 / 1024},
		{options.TCPStream, 'M', "MBytes", 125e6 / (1 << 20)},
		{options.TCPStream, 'G', "GBytes", 125e6 / (1 << 30)},
		{options.TCPStream, 'u', "Usec", 0.008},
		{options.TCPStream, 'X', "KBytes", 125e6 / 1024},
		{options.TCPRR, 0, "Trans", 125e6},
		{options.TCPRR, 'm', "10^6bits", 1000},
		{options.UDPRR, 'x', "Trans", 125e6},
		{options.TCPCRR, 0, "Trans", 125e6},
		{options.TCPCC, 0, "Trans", 125e6},
		{options.TCPCC, 'm', "Trans", 125e6},
	}
	for _, test := range tests {
		o := defaults(test.test)
		o.Unit = test.letter
		u := unitOf(o)
		if got := u.of(125e6); u.name != test.name || math.Abs(got/test.want-1) > 1e-12 {
			t.Errorf("%s -f %c: %v %s, want %v %s", test.test, test.letter, got, u.name, test.want, test.name)
		}
		if got := ByTransaction(o); got != (test.name == "Trans") {
			t.Errorf("%s -f %c: by transaction: %t", test.test, test.letter, got)
		}
	}
}

func TestFigures(t *testing.T) {
	run := func(test options.Test, set func(*Run)) *Run {
		r := sampleRun(defaults(test))
		set(r)
		return r
	}
	nothing := func(*Run) {}
	tests := []struct {
		name      string
		got, want float64
	}{
		{"stream: what arrived", run(options.TCPStream, nothing).mean(throughput), 13},
		{"maerts: what arrived here", run(options.TCPMaerts, nothing).mean(throughput), 5},
		{"sendfile", run(options.TCPSendfile, nothing).mean(throughput), 13},
		{"no control connection: what was sent", run(options.TCPStream, func(r *Run) {
			r.Options.NoControl = true
		}).mean(throughput), 10},
		{"transactions", run(options.UDPRR, nothing).mean(throughput), 500},
		{"transactions in bytes", run(options.TCPRR, func(r *Run) { r.Options.Unit = 'B' }).mean(throughput), 1.625e6},
		{"mean over iterations", run(options.TCPRR, func(r *Run) {
			r.Iterations = append(r.Iterations, Iteration{Elapsed: time.Second, Transactions: 1500})
		}).mean(throughput), 1000},
		{"rate of the last iteration", run(options.TCPRR, func(r *Run) {
			r.Iterations = append(r.Iterations, Iteration{Elapsed: time.Second, Transactions: 1500})
		}).transactionRate(), 1500},
		{"rate of a stream", run(options.TCPStream, nothing).transactionRate(), 1},
		{"round trip", run(options.TCPRR, nothing).roundTrip(), 2000},
		{"round trip of a burst", run(options.TCPRR, func(r *Run) { r.Options.Burst = 3 }).roundTrip(), 8000},
		{"round trip of a burst that connects", run(options.TCPCRR, func(r *Run) { r.Options.Burst = 3 }).roundTrip(), 2000},
		{"round trip without pauses", run(options.TCPRR, func(r *Run) { r.Iterations[0].Paused = time.Second }).roundTrip(), 1000},
		{"round trip of a stream", run(options.TCPStream, nothing).roundTrip(), -1},
		{"demand by transaction", run(options.TCPRR, nothing).mean(localDemand), 25e4 / 500 * 4},
		{"demand by KB", run(options.TCPStream, nothing).mean(localDemand), 25e4 / (3.75e6 / 1024 / 2) * 4},
		{"remote demand is of the local bytes", run(options.TCPStream, nothing).mean(remoteDemand), 50e4 / (3.75e6 / 1024 / 2) * 2},
		{"demand of sendfile", run(options.TCPSendfile, nothing).mean(localDemand), 25e4 / (2e6 / 1024 / 2) * 4},
		{"demand of connect/close", run(options.TCPCC, nothing).mean(remoteDemand), 50e4 / 500 * 2},
		{"no remote time at all is the local end's", run(options.TCPRR, func(r *Run) {
			r.Iterations[0].Remote.CPU.Util = 0
		}).mean(remoteDemand), 25e4 / 500 * 2},
		{"no CPU figures", run(options.TCPRR, func(r *Run) { r.Iterations[0].Local.CPU = nil }).mean(localDemand), -1},
	}
	for _, test := range tests {
		if math.Abs(test.got-test.want) > 1e-9*math.Abs(test.want) {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
}

func TestConfidence(t *testing.T) {
	iteration := func(rate uint64, util float64) Iteration {
		return Iteration{Elapsed: time.Second, Transactions: rate, Local: Side{CPU: &CPU{Util: util}}}
	}
	steady, even := iteration(1000, 50), iteration(1000, 50)
	tests := []struct {
		name       string
		confidence options.Confidence
		iterations []Iteration
		more       bool
		widths     [3]float64
	}{
		{"nothing asked, nothing run", options.Confidence{Min: 1, Max: 1, Width: -1}, nil, true, [3]float64{-1, -1, -1}},
		{"nothing asked", options.Confidence{Min: 1, Max: 1, Width: -1}, []Iteration{steady}, false, [3]float64{-1, -1, -1}},
		{"fewer than asked", options.Confidence{Min: 3, Max: 10, Level: 99, Width: 5},
			[]Iteration{steady, even}, true, [3]float64{}},
		{"all the same", options.Confidence{Min: 3, Max: 10, Level: 99, Width: 5},
			[]Iteration{steady, even, steady}, false, [3]float64{}},
		// Mean 1000, variance of the population 20000/3: 2·9.925·√(20000/3/2)/1000.
		{"too wide", options.Confidence{Min: 3, Max: 10, Level: 99, Width: 5},
			[]Iteration{iteration(900, 50), steady, iteration(1100, 50)}, true, [3]float64{114.604, 0, 0}},
		{"too wide, but the last", options.Confidence{Min: 3, Max: 3, Level: 95, Width: 5},
			[]Iteration{iteration(900, 50), steady, iteration(1100, 50)}, false, [3]float64{49.687, 0, 0}},
		{"CPU too wide", options.Confidence{Min: 3, Max: 10, Level: 95, Width: 5},
			[]Iteration{iteration(1000, 45), steady, iteration(1000, 55)}, true, [3]float64{0, 49.687, 0}},
		{"on result only", options.Confidence{Min: 3, Max: 10, Level: 95, Width: 5, ResultOnly: true},
			[]Iteration{iteration(1000, 45), steady, iteration(1000, 55)}, false, [3]float64{0, 49.687, 0}},
		{"wide enough", options.Confidence{Min: 3, Max: 10, Level: 95, Width: 50},
			[]Iteration{iteration(900, 50), steady, iteration(1100, 50)}, false, [3]float64{49.687, 0, 0}},
	}
	for _, test := range tests {
		for _, kind := range []options.Test{options.TCPRR, options.TCPCC} {
			t.Run(test.name, func(t *testing.T) {
				o := defaults(kind)
				o.Confidence = test.confidence
				c := NewConfidence(o)
				for _, it := range test.iterations {
					c.Add(it)
				}
				if got := c.More(); got != test.more {
					t.Errorf("More: %t, want %t", got, test.more)
				}
				var got [3]float64
				got[0], got[1], got[2] = c.Widths()
				for i, want := range test.widths {
					if math.Abs(got[i]-want) > 0.001 {
						t.Errorf("widths %v, want %v", got, test.widths)
						break
					}
				}
			})
		}
	}
}

func TestLatency(t *testing.T) {
	var l, odd, even Latency
	for i := 1; i <= 1000; i++ {
		d := time.Duration(i) * time.Microsecond
		l.Record(d)
		if i%2 == 0 {
			even.Record(d)
		} else {
			odd.Record(d)
		}
	}
	odd.Merge(&even)
	odd.Merge(&Latency{})
	if diff := cmp.Diff(l, odd); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	for p, want := range map[float64]int{0: 0, 0.0001: 0, 0.01: 11, 0.5: 501, 0.9: 901, 0.99: 991, 1: 1100} {
		if got := l.Percentile(p); got != want {
			t.Errorf("Percentile(%v) = %d, want %d", p, got, want)
		}
	}
	if l.Mean() != 500.5 || math.Abs(l.Stddev()-288.675) > 0.001 || l.Min != 1 || l.Max != 1000 {
		t.Errorf("mean %v, stddev %v, %v to %v", l.Mean(), l.Stddev(), l.Min, l.Max)
	}

	for d, want := range map[time.Duration][2]int{
		0:                                     {0, 0},
		99 * time.Nanosecond:                  {0, 0},
		100 * time.Nanosecond:                 {0, 1},
		9999 * time.Nanosecond:                {0, 99},
		10 * time.Microsecond:                 {1, 10},
		99*time.Second + 999*time.Millisecond: {7, 99},
	} {
		var l Latency
		l.Record(d)
		if l.Buckets[want[0]][want[1]] != 1 || l.Count != 1 {
			t.Errorf("%v is not in bucket %v", d, want)
		}
	}

	var far Latency
	far.Record(100 * time.Second)
	far.Record(-1)
	if far.Ridiculous != 2 || far.Count != 1 || far.Max != 1e8 || far.Percentile(0.5) != 0 || far.Percentile(1) != 1e8 {
		t.Errorf("%d ridiculous of %d, up to %v, median %d", far.Ridiculous, far.Count, far.Max, far.Percentile(0.5))
	}
	var none Latency
	if none.Percentile(0.5) != 0 || none.Mean() != 0 || none.Stddev() != 0 {
		t.Error("an empty one isn't all zeros")
	}
	if n := testing.AllocsPerRun(100, func() { l.Record(time.Millisecond) }); n != 0 {
		t.Errorf("Record allocates %v times", n)
	}
}

// What scripts take out of outputs, in their ways.
func TestWhatScriptsRead(t *testing.T) {
	write := func(test options.Test, set func(*options.Netperf), spec string) []string {
		o := defaults(test)
		set(o)
		r := sampleRun(o)
		var err error
		if r.Selection, err = ParseSelectors(o.Style, spec, nil); err != nil {
			t.Fatal(err)
		}
		return strings.Split(text(t, func(w io.Writer) error {
			if err := Banner(w, o, Address{"0.0.0.0", "0.0.0.0", 0}, Address{"h", "127.0.0.1", 0}, unix.AF_INET); err != nil {
				return err
			}
			i := Interim{Units: 1e6, Length: time.Second / 2, End: time.Unix(1796025052, 7_999_999)}
			if err := WriteInterim(w, o, &i); err != nil {
				return err
			}
			return Result(w, r)
		}), "\n")
	}
	noInterim := func(lines []string) []string { return append(lines[:1:1], lines[2:]...) }
	nothing := func(*options.Netperf) {}

	if row := noInterim(write(options.TCPStream, nothing, ""))[6]; last(row) != "13.00" {
		t.Errorf("line 7 ends in %s", last(row))
	}
	rr := noInterim(write(options.TCPRR, nothing, ""))
	if last(rr[6]) != "500.00" || len(strings.Fields(rr[7])) != 2 {
		t.Errorf("line 7 ends in %s, line 8 is %q", last(rr[6]), rr[7])
	}
	udp := noInterim(write(options.UDPStream, nothing, ""))
	for i, want := range map[int]string{5: "10.00", 6: "8.00"} {
		if last(udp[i]) != want || len(strings.Fields(udp[i])) != map[int]int{5: 6, 6: 4}[i] {
			t.Errorf("line %d is %q", i+1, udp[i])
		}
	}

	interim := regexp.MustCompile(`^Interim result: +([0-9.]+) +[^ ]+ over ([0-9.]+) seconds ending at ([0-9.]+)$`)
	m := interim.FindStringSubmatch(write(options.TCPStream, nothing, "")[1])
	if diff := cmp.Diff([]string{"16.00", "0.500", "1796025052.007"}, m[min(1, len(m)):]); diff != "" {
		t.Errorf("interim (-want +got):\n%s", diff)
	}

	values := make(map[string]string)
	for _, line := range write(options.TCPRR, func(o *options.Netperf) { o.Style = options.Keyval },
		"throughput, LOCAL_CPU_UTIL,no_such,LOCAL_SOCKET_TOS,RT_latency,p99_latency") {
		if key, value, ok := strings.Cut(line, "="); ok {
			values[key] = value
		}
	}
	want := map[string]string{
		"NETPERF_INTERIM_RESULT[0]": "2000000.00", "NETPERF_UNITS[0]": "Trans/s",
		"NETPERF_INTERVAL[0]": "0.500", "NETPERF_ENDING[0]": "1796025052.007",
		"THROUGHPUT": "500.00", "LOCAL_CPU_UTIL": "25.00", "LOCAL_SOCKET_TOS": "0xffffffff",
		"RT_LATENCY": "2000.000", "P99_LATENCY": "0",
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("keyval (-want +got):\n%s", diff)
	}

	csv := write(options.TCPCRR, func(o *options.Netperf) { o.Style = options.CSV }, "TRANSACTION_RATE,THROUGHPUT_UNITS,LOCAL_BYTES_SENT")
	if cells := strings.Split(csv[3], ","); cells[0] != "500.000" || cells[1] != "Trans/s" || cells[2] != "2500000" {
		t.Errorf("CSV: %q", csv)
	}
	if cells := strings.Split(csv[1], ","); len(cells) != 4 {
		t.Errorf("interim in CSV: %q", csv[1])
	}
}

func TestBanner(t *testing.T) {
	from, to := Address{"0.0.0.0", "0.0.0.0", 0}, Address{"host.example", "10.0.0.1", 42424}
	tests := []struct {
		name string
		set  func(*options.Netperf)
		want string
	}{
		{"none", func(o *options.Netperf) { o.Banner = false }, ""},
		{"no test", func(o *options.Netperf) { o.Test = options.UUID }, ""},
		{"options", func(o *options.Netperf) {
			o.NoDelay, o.CopyAvoidance, o.NoControl, o.Bind.Remote, o.Burst = true, true, true, 0, 7
			o.Confidence = options.Confidence{Min: 3, Max: 10, Level: 95, Width: 5, ResultOnly: true}
		}, "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to host.example () port 42424 AF_INET" +
			" : +/-2.500% @ 95% conf.  on result only : nodelay : copy avoidance : no control" +
			" : histogram : interval : demo : first burst 7 : cpu bind\n"},
		{"omni", func(o *options.Netperf) { o.Test, o.Connection, o.Direction = options.Omni, true, options.Both },
			"OMNI Connect|Send|Recv TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to host.example () port 42424 AF_INET" +
				" : histogram : interval : demo\n"},
	}
	for _, test := range tests {
		o := defaults(options.TCPRR)
		test.set(o)
		got := text(t, func(w io.Writer) error { return Banner(w, o, from, to, unix.AF_INET) })
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrors(t *testing.T) {
	o := defaults(options.TCPStream)
	for name, err := range map[string]error{
		"Banner":       Banner(failingWriter{}, o, Address{}, Address{}, unix.AF_INET),
		"WriteInterim": WriteInterim(failingWriter{}, o, &Interim{}),
		"Classic":      Classic(failingWriter{}, sampleRun(o)),
		"Omni":         Omni(failingWriter{}, sampleRun(o)),
	} {
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseSelectors(f *testing.F) {
	for _, seed := range []string{"", "?", "all", "THROUGHPUT", "a;b,c ; ;OUTPUT_END", "Elapsed Time (sec),\n\n,x"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, words string, isFile bool) {
		spec := words
		if isFile {
			spec = "file"
		}
		for _, style := range []options.Style{options.Human, options.CSV, options.Keyval} {
			s, err := ParseSelectors(style, spec, func(string) ([]byte, error) { return []byte(words), nil })
			if err != nil {
				var exit *options.Exit
				if !errors.As(err, &exit) {
					t.Fatalf("%v is no Exit", err)
				}
				continue
			}
			if len(s.blocks) > blocks {
				t.Fatalf("%d blocks", len(s.blocks))
			}
			o := defaults(options.TCPRR)
			o.Style = style
			r := sampleRun(o)
			r.Selection = s
			if err := Omni(io.Discard, r); err != nil {
				t.Fatal(err)
			}
		}
	})
}
