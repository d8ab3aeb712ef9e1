package encode

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// GoBench prints the run as one line of a Go benchmark, its set parameters in
// the name, below configuration lines for the ends and the labels, so that
// benchstat compares files of such runs:
//
//	kernel: 6.18.1
//	BenchmarkTCPStream/msg=64Ki/sndbuf=4Mi/streams=1 1 9.81e+09 bits/sec
//
// What differs from run to run (id, time) is left out: benchstat would give
// each run a table of its own. A run that measured nothing has no such line. A
// series has one for each of its complete runs, which are benchstat's samples:
// whole for the run that is shown, the rest with what is kept of them.
func GoBench(w io.Writer, r *result.Run) error {
	var b bytes.Buffer
	config := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, oneLine(value))
		}
	}
	config("gperf", r.Gperf.Version)
	client, server := kernel(r.Hosts.Client), kernel(r.Hosts.Server)
	if client == server {
		config("kernel", client)
	} else {
		config("client-kernel", client)
		config("server-kernel", server)
	}
	for _, label := range slices.Sorted(maps.Keys(r.Labels)) {
		config(configKey(label), r.Labels[label])
	}
	if r.Status != result.Complete {
		config("status", string(r.Status))
	}
	if r.Plan != nil && r.Summary != nil {
		benchmark(&b, r)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func kernel(h *result.Host) string {
	if h == nil || h.Kernel == nil {
		return ""
	}
	return *h.Kernel
}

// configKey makes a key that the format allows: it starts with a lower-case
// letter and holds neither upper case nor blanks.
func configKey(label string) string {
	key := strings.Map(func(r rune) rune {
		switch {
		case r == ':' || unicode.IsSpace(r):
			return '-'
		default:
			return unicode.ToLower(r)
		}
	}, label)
	if key == "" || key[0] < 'a' || key[0] > 'z' {
		key = "label-" + key
	}
	return key
}

// benchmark prints the lines of the runs, below what benchstat needs to know of
// their units.
func benchmark(b *bytes.Buffer, r *result.Run) {
	name := benchName(r.Plan)
	own := runFigures(r)
	for _, f := range own {
		if f.value != nil {
			fmt.Fprintf(b, "Unit %s better=%s\n", f.unit, f.better)
		}
	}
	if r.Repeat == nil {
		benchLine(b, name, own)
		return
	}
	for i := range r.Repeat.Trials {
		switch trial := &r.Repeat.Trials[i]; {
		case trial.ID == r.ID:
			benchLine(b, name, own)
		case trial.Status == result.Complete:
			benchLine(b, name, trialFigures(trial))
		}
	}
}

// A benchFigure is one figure of a benchmark's line, left out when it's unknown.
type benchFigure struct {
	value        *float64
	unit, better string
}

func benchLine(b *bytes.Buffer, name string, figures []benchFigure) {
	fmt.Fprintf(b, "Benchmark%s 1", name)
	for _, f := range figures {
		if f.value != nil {
			fmt.Fprintf(b, " %s %s", strconv.FormatFloat(*f.value, 'g', -1, 64), f.unit)
		}
	}
	fmt.Fprintln(b)
}

// headline, latencyFigure and retransmits are the figures that runs and trials have.
func headline(throughput, tps *float64) []benchFigure {
	return []benchFigure{{throughput, "bits/sec", "higher"}, {tps, "trans/sec", "higher"}}
}

func latencyFigure(name string, microseconds float64) benchFigure {
	ns := microseconds * 1e3
	return benchFigure{&ns, name + "-ns", "lower"}
}

func retransmits(segments *uint64) benchFigure {
	return benchFigure{float(segments), "retransmits", "lower"}
}

func runFigures(r *result.Run) []benchFigure {
	s := r.Summary
	all := headline(s.Throughput, s.TPS)
	if l := s.Latency; l != nil {
		all = append(all, latencyFigure("mean", l.Mean), latencyFigure("p50", l.P50), latencyFigure("p90", l.P90),
			latencyFigure("p99", l.P99), latencyFigure("p999", l.P999), latencyFigure("max", l.Max))
	}
	if l := s.Connect; l != nil {
		all = append(all, latencyFigure("connect-mean", l.Mean), latencyFigure("connect-p50", l.P50), latencyFigure("connect-p99", l.P99))
	}
	all = append(all, benchFigure{float(failures(&s.Figures)), "connect-errors", "lower"}, benchFigure{float(s.LostTransactions), "lost-transactions", "lower"})
	if d := s.Datagrams; d != nil {
		all = append(all, benchFigure{float(d.Lost), "lost-datagrams", "lower"})
		if d.Jitter != nil {
			all = append(all, latencyFigure("jitter", *d.Jitter))
		}
	}
	all = append(all, retransmits(s.RetransSegs))
	for _, end := range []struct {
		name string
		cpu  *result.EndCPU
	}{{"client", s.CPU.Client}, {"server", s.CPU.Server}} {
		if end.cpu != nil {
			all = append(all, benchFigure{end.cpu.DemandKiB, end.name + "-us/KiB", "lower"}, benchFigure{end.cpu.DemandTrans, end.name + "-us/trans", "lower"})
		}
	}
	return all
}

func trialFigures(t *result.Trial) []benchFigure {
	all := headline(t.Throughput, t.TPS)
	if t.LatencyP50 != nil {
		all = append(all, latencyFigure("p50", *t.LatencyP50))
	}
	if t.LatencyP99 != nil {
		all = append(all, latencyFigure("p99", *t.LatencyP99))
	}
	return append(all, retransmits(t.RetransSegs))
}

// benchName is the test's type and its parameters. The number of streams comes
// last, so that no value of a knob can be taken for GOMAXPROCS ("-8").
func benchName(t *plan.Test) string {
	var s strings.Builder
	for _, word := range strings.Split(string(t.Type), "_") {
		if len(word) > len("UDP") {
			word = word[:1] + strings.ToLower(word[1:])
		}
		s.WriteString(word)
	}
	param := func(key, value string) {
		fmt.Fprintf(&s, "/%s=%s", benchWord(key), benchWord(value))
	}
	if t.Type.RequestResponse() {
		param("request", benchSize(t.RequestSize))
		param("response", benchSize(t.ResponseSize))
		param("burst", strconv.Itoa(t.Burst))
	} else {
		sender, receiver := &t.Client, &t.Server
		if slices.Contains(t.Directions(), plan.ServerToClient) {
			sender, receiver = receiver, sender
		}
		param("msg", benchSize(sender.SendSize))
		if receiver.ReceiveSize != receiveDefault(t.Type) {
			param("receive", benchSize(receiver.ReceiveSize))
		}
	}
	for _, key := range askedKnobs(t) {
		client, server := t.Client.Knobs[key], t.Server.Knobs[key]
		name := knobName(key)
		if client == server {
			param(name, benchKnob(key, client))
			continue
		}
		if client.IsSet() {
			param("client-"+name, benchKnob(key, client))
		}
		if server.IsSet() {
			param("server-"+name, benchKnob(key, server))
		}
	}
	param("streams", strconv.Itoa(t.Streams))
	return s.String()
}

// receiveDefault is how many bytes a receiver asks for unless told otherwise.
func receiveDefault(t plan.Type) int {
	if t == plan.UDPStream {
		return plan.MaxDatagram
	}
	return plan.DefaultMessageSize
}

// benchSize prints bytes as benchunit reads them: 64Ki.
func benchSize(n int) string {
	s := units.ExactSize(int64(n))
	if s[len(s)-1] > '9' {
		s += "i"
	}
	return s
}

func benchKnob(key string, v sockopt.Value) string {
	n, isInt := v.Int()
	if k, err := sockopt.Lookup(key); err == nil && isInt && k.Unit == "bytes" {
		return benchSize(int(n))
	}
	return v.String()
}

// benchWord replaces what would end a name or one of its parts.
func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '=' || !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, s)
}
