package output

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/netperf/options"
)

// A golden is one file of testdata/golden: what a real netperf printed. Line 1
// is its command line, line 2 its exit status; then may follow what server it
// had and the file of selectors that it read; then standard output and standard
// error between markers.
type golden struct {
	name    string
	options *options.Netperf
	file    string   // the selector file
	lines   []string // of standard output, each with its newline
}

// Why a golden isn't simply compared with what this package writes.
var (
	// foreign files have nothing of this package in them.
	foreign = map[string]string{
		"conf_bad_level":              "options: a confidence level that there isn't",
		"err_bad_option":              "options: usage",
		"err_missing_arg":             "options: usage",
		"err_fill_remote_long":        "options: name of a fill file",
		"err_bad_test":                "client: unknown test",
		"d270_err_bad_test":           "client: unknown test",
		"err_sctp":                    "client: unknown test",
		"err_refused":                 "client: no server",
		"d270_err_refused":            "client: no server",
		"err_refused_family":          "client: no server",
		"err_unresolvable":            "client: no such host",
		"version":                     "options: -V",
		"d270_version":                "options: -V",
		"netserver_bad_host":          "netserver",
		"netserver_bad_option":        "netserver",
		"netserver_pass_start":        "netserver",
		"netserver_port_in_use":       "netserver",
		"netserver_start":             "netserver",
		"netserver_start_any":         "netserver",
		"netserver_start_any4":        "netserver",
		"netserver_start_any6":        "netserver",
		"netserver_start_family":      "netserver",
		"netserver_version":           "netserver",
		"d270_netserver_start":        "netserver",
		"d270_netserver_version":      "netserver",
		"err_bad_test_option":         "options: refuses what netperf goes on after",
		"err_bad_test_option_sockets": "options: refuses what netperf goes on after",
		"omni_o_bad_first":            "netperf crashes; TestUnknownSelectors has what comes here",
	}
	// bannerOnly files have a banner and then the words of a failure, which are
	// the client's.
	bannerOnly = map[string]string{
		"conf_sendfile_missed": "netserver dies in the second iteration",
		"err_fill_local":       "netperf crashes after a message of the client's",
		"err_no_control":       "nothing answers",
		"passphrase_none":      "server closes",
		"passphrase_wrong":     "server closes",
		"remote_close_legacy":  "server closes",
		"remote_close_omni":    "server closes",
		"remote_err_legacy":    "server reports an error",
		"remote_err_omni":      "server reports an error",
		"remote_short_legacy":  "server closes",
		"remote_short_omni":    "server closes",
	}
	// notes are lines before the banner or result that other packages print.
	notes = map[string]int{
		"err_bad_family": 2, // options
		"err_dirty":      1, // options
		"d270_intervals": 2, // of a build without pacing: never here
	}
)

// TestGolden writes anew what each golden file shows, from a run whose figures
// are worked out of the file's own, and compares every byte. It goes the way
// from counts and times to results, so that the calculations are tested too.
//
// Files d270_* are of a build without histogram and intervals: their banners get
// the two words, and the histogram at verbosity 2 is left out here. Where
// netperf prints -nan, of memory that it never set, 0.00 is wanted.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		seen[name] = true
		if foreign[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			if name == "omni_k_bad_debug" { // most lines are the client's
				ours := regexp.MustCompile(`^(Ignoring unknown|OMNI|THROUGHPUT=)`)
				g.lines = slices.DeleteFunc(g.lines, func(line string) bool { return !ours.MatchString(line) })
			}
			var got string
			if bannerOnly[name] != "" {
				g.lines = g.lines[:1]
				got = g.banner(t)
			} else {
				got = g.rewrite(t)
			}
			want := strings.Join(g.lines[notes[name]:], "")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", strings.Join(g.options.Args, " "), diff)
			}
		})
	}
	for _, list := range []map[string]string{foreign, bannerOnly} {
		for name := range list {
			if !seen[name] {
				t.Errorf("no golden file %s", name)
			}
		}
	}
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata/golden", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	g := golden{name: name}
	text := string(raw)
	command, text, _ := strings.Cut(text, "\n")
	g.options = parse(t, command)
	if _, after, ok := strings.Cut(text, "--- file sel.txt (shown between the markers)\n"); ok {
		g.file, _, _ = strings.Cut(after, "--- stdout")
	}
	if _, after, ok := strings.Cut(text, "--- file selh.txt (shown between the markers)\n"); ok {
		g.file, _, _ = strings.Cut(after, "--- stdout")
	}
	_, text, _ = strings.Cut(text, "--- stdout")
	marker, text, _ := strings.Cut(text, "\n")
	stdout, _, _ := strings.Cut("\n"+text, "\n--- stderr")
	stdout = strings.TrimPrefix(stdout, "\n")
	if stdout != "" && !strings.Contains(marker, "no newline") {
		stdout += "\n"
	}
	stdout = strings.ReplaceAll(stdout, "-nan", "0.00")
	if strings.HasPrefix(name, "d270_") {
		stdout = strings.Replace(stdout, " : demo", " : histogram : interval : demo", 1)
	}
	g.lines = strings.SplitAfter(stdout, "\n")
	if last := len(g.lines) - 1; g.lines[last] == "" {
		g.lines = g.lines[:last]
	}
	return g
}

// parse reads a command line as the shell and netperf do.
func parse(t *testing.T, line string) *options.Netperf {
	t.Helper()
	var args []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	o, err := options.ParseNetperf(args)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// defaults are the options of a test without any.
func defaults(test options.Test) *options.Netperf {
	return &options.Netperf{
		Args: []string{"netperf"},
		Test: test,
		Data: options.Data{
			Request: options.Unset, Response: options.Unset,
			Socket: options.Ends[options.SendRecv]{
				Local: options.SendRecv{Send: -1, Recv: -1}, Remote: options.SendRecv{Send: -1, Recv: -1}},
		},
		Confidence: options.Confidence{Min: 1, Max: 1, Width: -1},
		Bind:       options.Ends[int]{Local: -1, Remote: -1},
		Align: options.Ends[options.SendRecv]{
			Local: options.SendRecv{Send: 8, Recv: 8}, Remote: options.SendRecv{Send: 8, Recv: 8}},
		Verbosity: 1,
		Banner:    true,
	}
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func float(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// rewrite is what this package makes of the golden's figures.
func (g golden) rewrite(t *testing.T) string {
	t.Helper()
	selection, err := ParseSelectors(g.options.Style, g.options.Selectors, g.readFile)
	if err != nil {
		exit, ok := err.(*options.Exit)
		if !ok {
			t.Fatal(err)
		}
		return exit.Stdout
	}
	var out strings.Builder
	for _, unknown := range selection.Unknown {
		if strings.Contains(g.name, "debug") {
			fmt.Fprintln(&out, unknown)
		}
	}
	out.WriteString(g.banner(t))
	interims, lines := g.interims(t)
	for _, i := range interims {
		if err := WriteInterim(&out, g.options, &i); err != nil {
			t.Fatal(err)
		}
	}
	var r *Run
	if g.options.Style == options.Classic {
		r = classicRun(t, g.options, lines)
	} else {
		r = omniRun(t, g.options, omniValues(t, g.options, selection, lines))
	}
	r.Selection = selection
	if r.Latency == nil && g.options.Verbosity > 1 && !strings.HasPrefix(g.name, "d270_") {
		r.Latency = histogramOf(lines)
	}
	if err := Result(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (g golden) readFile(name string) ([]byte, error) {
	if g.file == "" {
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.ENOENT}
	}
	return []byte(g.file), nil
}

func (g golden) banner(t *testing.T) string {
	t.Helper()
	family, from := unix.AF_INET, Address{Name: "0.0.0.0", Text: "0.0.0.0"}
	to := Address{Name: g.options.Target.Name, Text: "127.0.0.1"}
	if strings.Contains(to.Name, ":") {
		family, from, to.Text = unix.AF_INET6, Address{Name: "::0", Text: "::"}, to.Name
	}
	for _, name := range []string{g.options.Source.Name, g.options.DataSource.Name} {
		if name != "" {
			from = Address{Name: name, Text: name}
		}
	}
	if g.options.NoControl {
		to.Port = 9
	}
	var out strings.Builder
	if err := Banner(&out, g.options, from, to, family); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var (
	interimText   = regexp.MustCompile(`^Interim result: +([\d.]+) (\S+)/s over ([\d.]+) seconds ending at ([\d.]+)\n$`)
	interimCSV    = regexp.MustCompile(`^ *([\d.]+),(\S+)/s,([\d.]+),(\d+\.\d{3})\n$`)
	interimKeyval = regexp.MustCompile(`^NETPERF_(INTERIM_RESULT|UNITS|INTERVAL|ENDING)\[(\d+)\]=(.*)\n$`)
)

// interims takes the lines of intervals out of the output, and the banner and
// the notes before them, as scripts do: by regular expression.
func (g golden) interims(t *testing.T) (interims []Interim, rest []string) {
	t.Helper()
	lines := g.lines[notes[g.name]:]
	if g.options.Banner {
		for i, line := range lines {
			if strings.Contains(line, " TEST from ") {
				lines = lines[i+1:]
				break
			}
		}
	}
	add := func(rate, seconds, end string) {
		length := duration(float(seconds))
		whole, ms, _ := strings.Cut(end, ".")
		interims = append(interims, Interim{
			Index:  len(interims),
			Units:  perSecond(g.options, float(rate)) * length.Seconds(),
			Length: length,
			End:    time.Unix(int64(number(whole)), int64(number(ms))*1e6+999_999),
		})
	}
	var keyval []string
	for _, line := range lines {
		if m := interimText.FindStringSubmatch(line); m != nil {
			add(m[1], m[3], m[4])
		} else if m := interimCSV.FindStringSubmatch(line); m != nil && g.options.Style == options.CSV {
			add(m[1], m[3], m[4])
		} else if m := interimKeyval.FindStringSubmatch(line); m != nil {
			if keyval = append(keyval, m[3]); m[1] == "ENDING" {
				add(keyval[0], keyval[2], keyval[3])
				keyval = nil
			}
		} else {
			rest = append(rest, line)
		}
	}
	return interims, rest
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// perSecond undoes the unit.
func perSecond(o *options.Netperf, rate float64) float64 {
	u := unitOf(o)
	switch {
	case u.divisor != 0:
		return rate * u.divisor
	case rate == 0: // so small that it shows as 0.00
		return 1e9
	}
	return 1e6 / rate
}

// solve finds a whole number of units and a time near seconds whose quotient
// prints like rate.
func solve(t *testing.T, o *options.Netperf, rate string, seconds float64) (uint64, time.Duration) {
	t.Helper()
	digits := len(rate) - strings.IndexByte(rate, '.') - 1
	each := perSecond(o, float(rate))
	for n := range 100_000 {
		elapsed := duration(seconds) + time.Duration(n)
		units := math.Round(each * elapsed.Seconds())
		elapsed = duration(units / each)
		if strconv.FormatFloat(unitOf(o).of(units/elapsed.Seconds()), 'f', digits, 64) == rate {
			return uint64(units), elapsed
		}
	}
	t.Fatalf("no whole number gives a rate of %s", rate)
	return 0, 0
}

// classicRun works a run out of a classic table.
func classicRun(t *testing.T, o *options.Netperf, lines []string) *Run {
	t.Helper()
	r := &Run{Options: o, UUID: o.UUID, Family: unix.AF_INET}
	widths := []float64{0, 0, 0}
	if len(lines) > 0 && strings.HasPrefix(lines[0], "!!!") {
		for i := range widths {
			widths[i] = float(strings.TrimSuffix(last(lines[4+i]), "%"))
		}
		lines = lines[8:]
	}
	switch o.Test {
	case options.LocalCPU, options.RemoteCPU:
		cpu := &CPU{Rate: 100, Count: 2}
		r.Iterations = []Iteration{{Local: Side{CPU: cpu}, Remote: Side{CPU: cpu}}}
		return r
	case options.TCPMSS:
		r.Iterations = []Iteration{{Local: Side{MSS: number(strings.TrimSpace(lines[len(lines)-1]))}}}
		return r
	case options.UUID:
		return r
	}

	if o.Banner && rowVerbosity(o) { // headings end in a blank line
		for lines[0] != "\n" {
			lines = lines[1:]
		}
		lines = lines[1:]
	}
	it := Iteration{}
	var row []string
	if len(lines) > 0 {
		row = strings.Fields(lines[0])
	}
	seconds, result, cpuRow, rate := 1.0, "1000.00", []string(nil), ""
	integers := func(fields ...*int) {
		for i, f := range fields {
			*f = number(row[i])
		}
	}
	extra := []string(nil) // the row of verbosity 2
	for _, line := range lines {
		if regexp.MustCompile(`^    8 `).MatchString(line) {
			extra = strings.Fields(line)
		}
	}
	cpu := o.CPU.Local || o.CPU.Remote
	switch {
	case o.Verbosity < 0:
	case o.Verbosity == 0 && cpu:
		cpuRow = []string{"100.00", "100.00", row[0], row[0]}
	case o.Verbosity == 0:
		result = row[0]
	case !rowVerbosity(o):
	case o.Test == options.UDPStream:
		integers(&it.Local.SendBuffer, &it.Local.SendSize)
		seconds, result = float(row[2]), row[5]
		it.Local.SendCalls = uint64(number(row[3]))
		it.Local.FailedSends = uint64(number(row[4]))
		second := strings.Fields(lines[1])
		it.Remote.RecvBuffer = number(second[0])
		it.Remote.RecvCalls = uint64(number(second[2]))
		rate = second[3]
		if cpu {
			cpuRow = []string{row[6], second[4], row[7], second[5]}
		}
	case transactional(o):
		integers(&it.Local.SendBuffer, &it.Local.RecvBuffer, &o.Request, &o.Response)
		seconds, result = float(row[4]), row[5]
		second := strings.Fields(lines[1])
		it.Remote.SendBuffer, it.Remote.RecvBuffer = number(second[0]), number(second[1])
		if cpu {
			cpuRow = row[6:]
		}
	case o.Test == options.TCPMaerts && !cpu:
		integers(&it.Local.RecvBuffer, &it.Remote.SendBuffer, &it.Remote.SendSize)
		seconds, result = float(row[3]), row[4]
	default:
		integers(&it.Remote.RecvBuffer, &it.Local.SendBuffer, &it.Local.SendSize)
		it.Remote.SendSize = it.Local.SendSize
		seconds, result = float(row[3]), row[4]
		if cpu {
			cpuRow = row[5:9]
		}
	}

	work, elapsed := solve(t, o, result, seconds)
	if cpuRow != nil && o.Verbosity == 0 { // all that is known is the demand
		work = uint64(math.Round(100 * 2e4 * 1024 * elapsed.Seconds() / float(cpuRow[2])))
		if ByTransaction(o) {
			work /= 1024
		}
	}
	if cpuRow != nil && transactional(o) && !ByTransaction(o) { // the demand says it more exactly
		work = uint64(math.Round(float(cpuRow[0]) * 2e4 * 1024 * elapsed.Seconds() / float(cpuRow[2])))
	}
	it.Local.MSS = 32768
	switch {
	case o.Test == options.TCPRR && extra != nil: // the rate is known to three decimals
		work, elapsed = solve(t, defaults(o.Test), extra[5], seconds)
		it.Transactions = work
		it.Remote.BytesReceived = work * uint64(o.Request)
		it.Remote.BytesSent = work * uint64(o.Response)
	case ByTransaction(o):
		it.Transactions = work
	case transactional(o):
		it.Remote.BytesReceived, it.Remote.BytesSent = work/2, work-work/2
		it.Local.BytesSent, it.Local.BytesReceived = work/2, work-work/2
	case o.Test == options.TCPMaerts:
		if extra != nil {
			it.Local.RecvCalls, it.Remote.SendCalls = uint64(number(extra[6])), uint64(number(extra[8]))
			it.Local.MSS = 32768
			work, elapsed = uint64(number(extra[4])), duration(float(extra[4])/perSecond(o, float(result)))
			it.Remote.BytesSent = it.Remote.SendCalls * uint64(it.Remote.SendSize)
		}
		it.Local.BytesReceived = work
	case extra != nil:
		it.Local.SendCalls, it.Remote.RecvCalls = uint64(number(extra[6])), uint64(number(extra[8]))
		it.Local.MSS = 65483
		it.Local.BytesSent = uint64(number(extra[4]))
		it.Remote.BytesReceived = it.Local.BytesSent
		if o.Test == options.TCPSendfile { // the whole count isn't shown, but the mean of a call
			it.Remote.BytesReceived = uint64(float(extra[7]) * float(extra[8]))
		}
		elapsed = duration(float64(it.Remote.BytesReceived) / perSecond(o, float(result)))
	case o.Test == options.UDPStream:
		it.Local.BytesSent = work
		it.Remote.BytesReceived = uint64(math.Round(perSecond(o, float(rate)) * elapsed.Seconds()))
	default:
		it.Local.BytesSent, it.Remote.BytesReceived = work, work
	}
	it.Elapsed = elapsed
	if cpuRow != nil {
		it.Local.CPU = cpuOf(o, &it, cpuRow[0], cpuRow[2])
		it.Remote.CPU = cpuOf(o, &it, cpuRow[1], cpuRow[3])
	}
	r.Iterations = spread(it, o.Confidence.Min, o.Confidence.Level, widths[0])
	return r
}

func last(line string) string {
	fields := strings.Fields(line)
	return fields[len(fields)-1]
}

// cpuOf is a CPU figure with the utilisation and, if what is printed of the
// utilisation leaves room for it, exactly the demand.
func cpuOf(o *options.Netperf, it *Iteration, util, service string) *CPU {
	if util == "-1.00" {
		return nil
	}
	printed := float(util)
	cpu := &CPU{Util: printed, Count: 2, Method: 'S'}
	if o.Confidence.Min > 1 { // the demand is a mean
		return cpu
	}
	cpu.Util = printed * float(service) / demand(o, it, cpu)
	cpu.Util = min(max(cpu.Util, printed-0.00499), printed+0.00499)
	return cpu
}

// spread makes n iterations of one, the same in the mean, with a confidence
// interval of that width in percent.
func spread(it Iteration, n, level int, width float64) []Iteration {
	if n <= 1 {
		return []Iteration{it}
	}
	d := math.Sqrt(3) * width / 100 / (2 * students[level][n-2])
	var its []Iteration
	for i := range n {
		share := 1 + d*[2][]float64{{-1, 1, -1, 1}, {-1, 0, 1}}[n%2][i]
		scaled := it
		for _, count := range []*uint64{&scaled.Transactions, &scaled.Local.BytesSent, &scaled.Remote.BytesReceived} {
			if exact := float64(*count) * share; exact > 0 {
				*count = uint64(math.Round(exact))
				scaled.Elapsed = time.Duration(math.Round(float64(it.Elapsed) * float64(*count) / exact))
			}
		}
		its = append(its, scaled)
	}
	return its
}

// histogramOf reads a histogram: what a column sums up goes into the first of
// its buckets.
func histogramOf(lines []string) *Latency {
	l := &Latency{}
	for i, s := range scales {
		for _, line := range lines {
			if label, counts, _ := strings.Cut(line, ":"); strings.TrimSpace(label) == s.label {
				for j, count := range strings.Split(counts, ":") {
					l.Buckets[i][10*j] = uint64(number(strings.TrimSpace(count)))
					l.Count += l.Buckets[i][10*j]
				}
			}
		}
	}
	return l
}

// omniValues reads the values of an omni output by the selectors' names.
func omniValues(t *testing.T, o *options.Netperf, s Selection, lines []string) map[string]string {
	t.Helper()
	values := make(map[string]string)
	for i, line := range lines {
		if strings.HasPrefix(line, "Histogram of ") { // what is wanted is before it
			lines = lines[:i-1]
			break
		}
	}
	if o.Style == options.Keyval {
		for _, line := range lines {
			if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
				values[name] = value
			}
		}
		return values
	}
	if s.blocks == nil {
		r := &Run{Options: o, Iterations: []Iteration{{Remote: Side{CPU: &CPU{}}}}}
		s = list(defaultNames(r))
	}
	var cells []string
	if o.Style == options.CSV {
		row := strings.TrimSuffix(lines[len(lines)-1], "\n")
		row, command, _ := strings.Cut(row, `"`)
		if command != "" {
			command = `"` + command
		}
		cells = append(strings.Split(strings.TrimSuffix(row, ","), ","), command)
	} else {
		if !o.Banner {
			cells = strings.Fields(lines[0])
		}
		for i := 4; i < len(lines); i += 6 {
			cells = append(cells, strings.Fields(lines[i])...)
		}
	}
	for _, block := range s.blocks {
		for _, selector := range block {
			if len(cells) == 0 {
				return values
			}
			if selector == nil {
				if o.Style == options.CSV {
					cells = cells[1:]
				}
				continue
			}
			switch selector.name {
			case "OUTPUT_NONE", "RESULT_BRAND", "LOCAL_FILL_FILE", "REMOTE_FILL_FILE", "COMMAND_LINE":
				if o.Style == options.CSV {
					cells = cells[1:]
				}
				continue
			}
			values[selector.name] = strings.TrimSpace(cells[0])
			cells = cells[1:]
		}
	}
	return values
}

// omniRun works a run out of an omni output's values.
func omniRun(t *testing.T, o *options.Netperf, values map[string]string) *Run {
	t.Helper()
	r := &Run{Options: o, Family: unix.AF_INET, UUID: values["UUID"]}
	it := Iteration{}
	for name, field := range map[string]any{
		"LSS_SIZE": &it.Local.SendBuffer, "LSS_SIZE_END": &it.Local.SendBufferEnd,
		"LSR_SIZE": &it.Local.RecvBuffer, "LSR_SIZE_END": &it.Local.RecvBufferEnd,
		"RSS_SIZE": &it.Remote.SendBuffer, "RSS_SIZE_END": &it.Remote.SendBufferEnd,
		"RSR_SIZE": &it.Remote.RecvBuffer, "RSR_SIZE_END": &it.Remote.RecvBufferEnd,
		"LOCAL_SEND_SIZE": &it.Local.SendSize, "LOCAL_RECV_SIZE": &it.Local.RecvSize,
		"REMOTE_SEND_SIZE": &it.Remote.SendSize, "REMOTE_RECV_SIZE": &it.Remote.RecvSize,
		"LOCAL_SEND_WIDTH": &it.Local.SendWidth, "LOCAL_RECV_WIDTH": &it.Local.RecvWidth,
		"REMOTE_SEND_WIDTH": &it.Remote.SendWidth, "REMOTE_RECV_WIDTH": &it.Remote.RecvWidth,
		"LOCAL_SEND_CALLS": &it.Local.SendCalls, "LOCAL_RECV_CALLS": &it.Local.RecvCalls,
		"REMOTE_SEND_CALLS": &it.Remote.SendCalls, "REMOTE_RECV_CALLS": &it.Remote.RecvCalls,
		"LOCAL_BYTES_SENT": &it.Local.BytesSent, "LOCAL_BYTES_RECVD": &it.Local.BytesReceived,
		"REMOTE_BYTES_SENT": &it.Remote.BytesSent, "REMOTE_BYTES_RECVD": &it.Remote.BytesReceived,
		"LOCAL_TRANSPORT_RETRANS": &it.Local.Retransmits, "REMOTE_TRANSPORT_RETRANS": &it.Remote.Retransmits,
		"TRANSPORT_MSS":     &it.Local.MSS,
		"LOCAL_SOCKET_PRIO": &it.Local.Priority, "REMOTE_SOCKET_PRIO": &it.Remote.Priority,
		"LOCAL_SOCKET_TOS": &it.Local.TOS, "REMOTE_SOCKET_TOS": &it.Remote.TOS,
		"LOCAL_CONG_CONTROL": &it.Local.Congestion, "REMOTE_CONG_CONTROL": &it.Remote.Congestion,
	} {
		switch field := field.(type) {
		case *int:
			n, _ := strconv.ParseInt(values[name], 0, 64)
			*field = int(int32(n))
		case *uint64:
			*field = uint64(number(values[name]))
		case *string:
			*field = values[name]
		}
	}

	seconds := 1000.0 // when it isn't shown: long enough for any fraction
	if s, ok := values["ELAPSED_TIME"]; ok {
		seconds = float(s)
	}
	result, ok := values["TRANSACTION_RATE"]
	if !ok || result == "1.000" {
		result, ok = values["THROUGHPUT"]
	}
	if !ok {
		result = "1.00"
	}
	var work uint64
	work, it.Elapsed = solve(t, o, result, seconds)
	if it.Local.SendCalls > 0 { // counts are known, then
		work = moved(o, &it)
		if ByTransaction(o) {
			work = it.Local.SendCalls
		}
		it.Elapsed = duration(float64(work) / perSecond(o, float(result)))
		if sent, ok := values["LOCAL_SEND_THROUGHPUT"]; ok && o.Test == options.UDPStream {
			it.Elapsed = duration(float64(it.Local.BytesSent) / perSecond(o, float(sent)))
		}
		// Another rate that is shown as well may want a time beside that one.
		it.Transactions = it.Local.SendCalls
		for i := time.Duration(1); i < 100_000 && fmt.Sprintf("%.2f", throughput(o, &it)) != values["THROUGHPUT"]; i++ {
			it.Elapsed += 10 * i * (2*(i%2) - 1)
		}
	}
	switch {
	case ByTransaction(o):
		it.Transactions = work
	case direction(o) == options.Receive:
		it.Local.BytesReceived = work
	case it.Local.BytesSent == 0:
		it.Local.BytesSent, it.Remote.BytesReceived = work, work
	}
	if latency, ok := values["RT_LATENCY"]; ok && o.Pace.Local.Burst > 0 {
		it.Paused = it.Elapsed - duration(float(latency)/1e6*float64(work))
	}
	for prefix, side := range map[string]*Side{"LOCAL_": &it.Local, "REMOTE_": &it.Remote} {
		value := func(name string) float64 { return float(values[prefix+name]) }
		if util, ok := values[prefix+"CPU_UTIL"]; ok && util != "-1.00" {
			side.CPU = cpuOf(o, &it, util, values[prefix+"SD"])
			side.CPU.User, side.CPU.System = value("CPU_PERCENT_USER"), value("CPU_PERCENT_SYSTEM")
			side.CPU.IOWait, side.CPU.IRQ = value("CPU_PERCENT_IOWAIT"), value("CPU_PERCENT_IRQ")
			side.CPU.SoftIRQ = value("CPU_PERCENT_SWINTR")
			side.CPU.PeakUtil, side.CPU.PeakID = value("CPU_PEAK_UTIL"), int(value("CPU_PEAK_ID"))
		}
	}
	n := 1
	if text, ok := values["CONFIDENCE_ITERATION"]; ok {
		n = number(text)
	}
	r.Iterations = spread(it, n, o.Confidence.Level, float(values["THROUGHPUT_CONFID"]))
	if _, ok := values["MIN_LATENCY"]; ok {
		r.Latency = latencyOf(values)
	}
	return r
}

// latencyOf makes a histogram of a million durations with the given statistics.
func latencyOf(values map[string]string) *Latency {
	const n = 1e6
	mean, stddev := float(values["MEAN_LATENCY"]), float(values["STDDEV_LATENCY"])
	l := &Latency{
		Count:      n,
		Min:        float(values["MIN_LATENCY"]),
		Max:        float(values["MAX_LATENCY"]),
		Sum:        n * mean,
		SumSquares: n * (stddev*stddev + mean*mean),
	}
	// Each percentile's bucket gets counts such that interpolation ends at the
	// wanted share of it; the others on the way to it go just below it.
	below, position := 0.0, 0
	for _, p := range []struct {
		name  string
		share float64
	}{{"P50_LATENCY", 0.50}, {"P90_LATENCY", 0.90}, {"P99_LATENCY", 0.99}} {
		µs := float(values[p.name])
		decade := 0
		for decade < len(scales)-1 && µs >= 10*scales[decade].µs {
			decade++
		}
		bucket := int(µs * 10 / scales[decade].µs)
		within := (µs+0.5)*10/scales[decade].µs - float64(bucket)
		if within > 1 {
			within = 0.5
		}
		target, here := math.Floor(p.share*n), 1000.0
		before := math.Round(target - within*here)
		if at := 100*decade + bucket - 1; at > position {
			l.Buckets[at/100][at%100] += uint64(before - below)
		} else { // next to the last one: that one's own counts say where it ends
			here = math.Round((target - below) / 0.99)
			before = below
		}
		l.Buckets[decade][bucket] += uint64(here)
		below, position = before+here, 100*decade+bucket
	}
	return l
}
