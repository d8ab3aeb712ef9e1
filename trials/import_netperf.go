package trials

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/units"
	"gperf/result"
)

// netperfHeadings are the headings of netperf's CSV output that differ from the
// selectors of its keyval output by more than case and blanks.
var netperfHeadings = map[string]string{
	"Elapsed Time (sec)": "ELAPSED_TIME", "Throughput": "THROUGHPUT", "Throughput Units": "THROUGHPUT_UNITS",
	"Transaction Rate Tran/s": "TRANSACTION_RATE", "Round Trip Latency usec/tran": "RT_LATENCY",
	"Minimum Latency Microseconds": "MIN_LATENCY", "Maximum Latency Microseconds": "MAX_LATENCY", "Mean Latency Microseconds": "MEAN_LATENCY",
	"50th Percentile Latency Microseconds": "P50_LATENCY", "90th Percentile Latency Microseconds": "P90_LATENCY",
	"99th Percentile Latency Microseconds": "P99_LATENCY", "Stddev Latency Microseconds": "STDDEV_LATENCY",
	"Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS", "Remote Transport Retransmissions": "REMOTE_TRANSPORT_RETRANS",
	"Local CPU Util %": "LOCAL_CPU_UTIL", "Local CPU User %": "LOCAL_CPU_PERCENT_USER", "Local CPU System %": "LOCAL_CPU_PERCENT_SYSTEM", "Local CPU swintr %": "LOCAL_CPU_PERCENT_SWINTR",
	"Remote CPU Util %": "REMOTE_CPU_UTIL", "Remote CPU User %": "REMOTE_CPU_PERCENT_USER", "Remote CPU System %": "REMOTE_CPU_PERCENT_SYSTEM", "Remote CPU swintr %": "REMOTE_CPU_PERCENT_SWINTR",
	"Local Service Demand": "LOCAL_SD", "Remote Service Demand": "REMOTE_SD", "Service Demand Units": "SD_UNITS",
	"Request Size Bytes": "REQUEST_SIZE", "Response Size Bytes": "RESPONSE_SIZE", "Result Tag": "RESULT_BRAND",
	"Local Send Socket Size Requested": "LSS_SIZE_REQ", "Local Recv Socket Size Requested": "LSR_SIZE_REQ",
	"Remote Send Socket Size Requested": "RSS_SIZE_REQ", "Remote Recv Socket Size Requested": "RSR_SIZE_REQ",
	"Local Congestion Control Algorithm": "LOCAL_CONG_CONTROL", "Remote Congestion Control Algorithm": "REMOTE_CONG_CONTROL",
	"Initial Burst Requests": "BURST_SIZE",
}

// netperfUnits are the rates that a throughput can be in, as bit/s.
var netperfUnits = map[string]float64{
	"10^9bits/s": 1e9, "10^6bits/s": 1e6, "10^3bits/s": 1e3,
	"GBytes/s": 8 << 30, "MBytes/s": 8 << 20, "KBytes/s": 8 << 10, "Bytes/s": 8,
	"10^0bits/s": 8, // netperf prints bytes there
}

// isNetperf reports whether text holds output of netperf that has names: keyval or
// CSV.
func isNetperf(text []byte) bool {
	for line := range bytes.Lines(text[:min(len(text), 64<<10)]) {
		if k, _, ok := strings.Cut(string(line), "="); ok && k == "THROUGHPUT" || isNetperfHeading(string(line)) {
			return true
		}
	}
	return false
}

// isNetperfHeading tells the line of headings of the CSV output.
func isNetperfHeading(line string) bool {
	known := 0
	for h := range strings.SplitSeq(strings.TrimRight(line, "\r\n"), ",") {
		if netperfHeadings[strings.TrimSpace(h)] != "" {
			known++
		}
		if h == "Throughput" {
			known++
		}
	}
	return known >= 3
}

// notNetperf says what text is that isn't JSON and isn't netperf's.
func notNetperf(text []byte) string {
	switch {
	case bytes.HasPrefix(text, []byte("id,started,status,")):
		return "gperf's CSV, which is for spreadsheets (--format json is for this)"
	case bytes.HasPrefix(text, []byte("schema=gperf/")):
		return "gperf's keyval (--format json is for this)"
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Sprintf("it begins with %.30q", bytes.TrimSpace(line))
}

// importNetperf reads netperf's output with -k or -o, of any number of runs one
// after the other. A key that comes again, or a banner, begins the next run.
func importNetperf(file string, text []byte) ([]*Trial, error) {
	var (
		all      []*Trial
		now      map[string]string
		began    int
		line     int
		headings []string
	)
	flush := func() {
		if t := netperfTrial(now); t != nil {
			t.File, t.Line = file, began
			all = append(all, t)
		}
		now = nil
	}
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, maxDocument)
	for in.Scan() {
		line++
		s := strings.TrimRight(in.Text(), "\r")
		key, value, isKey := strings.Cut(s, "=")
		switch {
		case isKey && isSelector(key):
			if _, again := now[key]; again {
				flush()
			}
			if now == nil {
				now, began = map[string]string{}, line
			}
			now[key] = strings.TrimSpace(value)
		case isNetperfHeading(s):
			flush()
			headings = strings.Split(s, ",")
		case headings != nil && strings.Count(s, ",") >= len(headings)-1 && !strings.Contains(s, " TEST from "):
			flush()
			now, began = netperfRow(headings, s), line
			flush()
		case strings.Contains(s, " TEST from "):
			flush()
		}
	}
	flush()
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, line+1, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: names of netperf's figures without the figures", file)
	}
	return all, nil
}

// isSelector reports whether a key is written as netperf's are.
func isSelector(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
}

// netperfRow is a line of CSV values by selector. Only the brand and the command
// line have quotes, which don't escape anything: what stands behind them can't be
// told, and is left out.
func netperfRow(headings []string, s string) map[string]string {
	row := map[string]string{}
	before, _, _ := strings.Cut(s, `"`)
	for i, value := range strings.Split(before, ",") {
		if i >= len(headings) {
			break
		}
		heading := strings.TrimSpace(headings[i])
		name := netperfHeadings[heading]
		if name == "" {
			name = strings.ReplaceAll(strings.ToUpper(heading), " ", "_")
		}
		row[name] = strings.TrimSpace(value)
	}
	return row
}

// netperfTrial makes a trial of selectors, nil if they have no throughput.
func netperfTrial(row map[string]string) *Trial {
	if _, ok := row["THROUGHPUT"]; !ok {
		return nil
	}
	t := &Trial{
		Format: Netperf, Gperf: "netperf", Status: result.Complete, Trusted: true,
		foreign: netperfFigures(row), Plan: netperfSettings(row), Labels: map[string]string{},
	}
	if brand := strings.Trim(row["RESULT_BRAND"], `"`); brand != "" {
		t.Labels["brand"] = brand
	}
	_, bytes := t.foreign["summary.throughput_bits_per_second"]
	_, transactions := t.foreign["summary.transactions_per_second"]
	if !bytes && !transactions {
		t.Status, t.Why = result.Failed, fmt.Sprintf("its throughput of %s has no unit that is known (THROUGHPUT_UNITS)", row["THROUGHPUT"])
	}
	return t
}

// netperfFigures are netperf's figures at the places of gperf's document. What it
// prints for a figure that it doesn't know is negative, mostly.
func netperfFigures(row map[string]string) map[string]float64 {
	f := map[string]float64{}
	known := func(name string) (float64, bool) {
		v, err := strconv.ParseFloat(row[name], 64)
		return v, err == nil && v >= 0 && !math.IsInf(v, 0)
	}
	set := func(path, name string) {
		if v, ok := known(name); ok {
			f["summary."+path] = v
		}
	}
	if v, ok := known("THROUGHPUT"); ok {
		switch unit := row["THROUGHPUT_UNITS"]; {
		case unit == "Trans/s":
			f["summary.transactions_per_second"] = v
		case netperfUnits[unit] > 0:
			f["summary.throughput_bits_per_second"] = v * netperfUnits[unit]
		}
	}
	set("duration_seconds", "ELAPSED_TIME")
	if rate, ok := known("TRANSACTION_RATE"); ok && rate > 0 {
		f["summary.transactions_per_second"] = rate // with more digits
	}
	if most, ok := known("MAX_LATENCY"); ok && most > 0 { // else the statistics were off
		for name, path := range map[string]string{"MIN": "min", "MEAN": "mean", "STDDEV": "stddev", "P50": "p50", "P90": "p90", "P99": "p99", "MAX": "max"} {
			set("latency_us."+path, name+"_LATENCY")
		}
	}
	var retransmits float64
	ends := 0
	for _, end := range []string{"LOCAL", "REMOTE"} {
		if v, ok := known(end + "_TRANSPORT_RETRANS"); ok {
			retransmits += v
			ends++
		}
		name := map[string]string{"LOCAL": "client", "REMOTE": "server"}[end]
		if util, ok := known(end + "_CPU_UTIL"); ok {
			f["summary.cpu."+name+".total_percent"] = util
			set("cpu."+name+".user_percent", end+"_CPU_PERCENT_USER")
			set("cpu."+name+".system_percent", end+"_CPU_PERCENT_SYSTEM")
			set("cpu."+name+".softirq_percent", end+"_CPU_PERCENT_SWINTR")
		}
		switch row["SD_UNITS"] {
		case "usec/KB":
			set("cpu."+name+".service_demand_us_per_kib", end+"_SD")
		case "usec/Tran":
			set("cpu."+name+".service_demand_us_per_transaction", end+"_SD")
		}
	}
	if ends > 0 {
		f["summary.retransmitted_segments"] = retransmits
	}
	return f
}

// netperfSettings is what netperf says of its plan, in gperf's words.
func netperfSettings(row map[string]string) map[string]string {
	s := map[string]string{}
	for name, flag := range map[string]string{
		"PROTOCOL": "protocol", "DIRECTION": "direction", "LOCAL_CONG_CONTROL": "congestion", "BURST_SIZE": "burst", "LOCAL_NODELAY": "nodelay",
	} {
		if v := row[name]; v != "" {
			s[flag] = v
		}
	}
	switch s["nodelay"] {
	case "0":
		s["nodelay"] = "off"
	case "1":
		s["nodelay"] = "on"
	}
	size := func(flag, local, remote string) {
		var pair []string
		for _, name := range []string{local, remote} {
			n, err := strconv.ParseInt(row[name], 10, 64)
			switch {
			case err == nil && n > 0:
				pair = append(pair, units.ExactSize(n))
			case err == nil && n < 0:
				pair = append(pair, "auto")
			}
		}
		if pair = slices.Compact(pair); len(pair) > 0 {
			s[flag] = strings.Join(pair, ":")
		}
	}
	size("message-size", "LOCAL_SEND_SIZE", "")
	size("request-size", "REQUEST_SIZE", "")
	size("response-size", "RESPONSE_SIZE", "")
	size("sndbuf", "LSS_SIZE_REQ", "RSS_SIZE_REQ")
	size("rcvbuf", "LSR_SIZE_REQ", "RSR_SIZE_REQ")
	if command := strings.Trim(row["COMMAND_LINE"], `"`); command != "" {
		fields := strings.Fields(command)
		if i := slices.Index(fields, "-t"); i >= 0 && i+1 < len(fields) {
			s["test"] = strings.ToUpper(fields[i+1])
		}
	}
	return s
}
