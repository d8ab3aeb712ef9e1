package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"gperf/result"
	"gperf/result/encode"
)

// A tool is one tester: its command lines, and how its output reads. Its
// server listens on the first of the ports that are chosen for it, and may use
// the second as well.
type tool struct {
	name     string
	programs []string // it needs
	versionq []string // asks for its version

	noRR      bool // it has no request/response test
	oneSize   bool // it receives with the message size, too
	perStream bool // a stream is a client and a server process
	oneShot   bool // its server ends with its test

	server func(t test, p ports) []string
	client func(t test, p ports) []string

	// parse reads the rate in a client's output: bits per second as the receiver
	// counts them, or transactions per second.
	parse func(t test, stdout []byte) (float64, error)

	// perCall reads how many bytes the calls of both ends moved, nil if the tool
	// doesn't tell.
	perCall func(t test, stdout []byte) (sent, received float64, err error)
}

// missing says why the tool can't be used here.
func (t *tool) missing() error {
	for _, program := range t.programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not in PATH", program)
		}
	}
	return nil
}

// version is the first line that the tool says of itself, which some end with a
// failing exit status, and some say without their name.
func (t *tool) version() string {
	out, _ := exec.Command(t.versionq[0], t.versionq[1:]...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !strings.HasPrefix(strings.ToLower(line), t.name[:5]) {
		line = t.name + " " + line
	}
	return line
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// gperfTool is the gperf at path.
func gperfTool(path string) *tool {
	return &tool{
		name: "gperf", programs: []string{path},
		server: func(_ test, p ports) []string {
			return []string{path, "server", "--listen", "127.0.0.1:" + p[0]}
		},
		client: func(t test, p ports) []string {
			args := []string{path, "client", "-J", "--congestion", congestion}
			if t.rr {
				args = append(args, "-t", "TCP_RR") // 1 byte each way by default
			} else {
				args = append(args, "-m", strconv.Itoa(t.size), "--receive-size", strconv.Itoa(t.receive))
			}
			if t.nodelay {
				args = append(args, "--nodelay")
			}
			if t.streams > 1 {
				args = append(args, "-P", strconv.Itoa(t.streams))
			}
			if t.cpus != nil {
				args = append(args, "--cpu", t.placement())
			}
			args = append(args, t.more...)
			return append(args, "-d", seconds(t.window), "127.0.0.1:"+p[0])
		},
		parse: parseGperf,
	}
}

func parseGperf(t test, stdout []byte) (float64, error) {
	run, err := encode.Decode(bytes.NewReader(stdout))
	if err != nil {
		return 0, err
	}
	if run.Status != result.Complete || run.Summary == nil {
		return 0, fmt.Errorf("run is %s", run.Status)
	}
	rate := run.Summary.Throughput
	if t.rr {
		rate = run.Summary.TPS
	}
	if rate == nil {
		return 0, errors.New("the result has no rate")
	}
	return *rate, nil
}

var peerTools = []*tool{netperf, iperf3, neper}

// netserver serves one after the other (-f), so that its CPU time is all in one
// process; a stream has a netserver of its own.
var netperf = &tool{
	name: "netperf", programs: []string{"netperf", "netserver"}, versionq: []string{"netperf", "-V"}, perStream: true,
	server: func(_ test, p ports) []string {
		return []string{"netserver", "-f", "-D", "-4", "-L", "127.0.0.1", "-p", p[0]}
	},
	client: func(t test, p ports) []string {
		args := []string{"netperf", "-4", "-H", "127.0.0.1", "-p", p[0], "-P", "0", "-l", seconds(t.window), "-t", "TCP_STREAM"}
		own := []string{"-m", strconv.Itoa(t.size), "-M", strconv.Itoa(t.receive)}
		if t.rr {
			args[len(args)-1] = "TCP_RR"
			own = []string{"-r", "1,1"}
		}
		if t.cpus != nil {
			args = append(args, "-T", fmt.Sprintf("%d,%d", t.cpus[0], t.cpus[1]))
		}
		args = append(args, "--", "-K", congestion+","+congestion)
		if t.nodelay {
			args = append(args, "-D")
		}
		args = append(args, own...)
		return append(args, "-k", "THROUGHPUT,THROUGHPUT_UNITS,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL")
	},
	parse: parseNetperf,
}

// parseNetperf reads NAME=value lines. The throughput of a stream is the bytes
// that the server received until the end, over the client's time from before
// connect until the server has closed.
func parseNetperf(t test, stdout []byte) (float64, error) {
	values := keyValues(stdout)
	for _, key := range []string{"LOCAL_CONG_CONTROL", "REMOTE_CONG_CONTROL"} {
		if got := values[key]; got != congestion {
			return 0, fmt.Errorf("%s is %q in %q", key, got, stdout)
		}
	}
	units, scale := "10^6bits/s", 1e6
	if t.rr {
		units, scale = "Trans/s", 1
	}
	if got := values["THROUGHPUT_UNITS"]; got != units {
		return 0, fmt.Errorf("THROUGHPUT_UNITS is %q, not %s", got, units)
	}
	rate, err := number(values, "THROUGHPUT")
	return rate * scale, err
}

var iperf3 = &tool{
	name: "iperf3", programs: []string{"iperf3"}, versionq: []string{"iperf3", "--version"}, noRR: true, oneSize: true,
	server: func(_ test, p ports) []string {
		return []string{"iperf3", "-s", "-B", "127.0.0.1", "-p", p[0]}
	},
	client: func(t test, p ports) []string {
		args := []string{"iperf3", "-c", "127.0.0.1", "-p", p[0], "-J", "-i", "0", "-C", congestion,
			"-t", seconds(t.window), "-l", strconv.Itoa(t.size), "-P", strconv.Itoa(t.streams)}
		if t.nodelay {
			args = append(args, "-N")
		}
		if t.cpus != nil {
			args = append(args, "-A", fmt.Sprintf("%d,%d", t.cpus[0], t.cpus[1]))
		}
		return append(args, t.more...)
	},
	parse: parseIperf3,
}

// parseIperf3 takes the server's bytes over the server's time.
func parseIperf3(_ test, stdout []byte) (float64, error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			Sender   string `json:"sender_tcp_congestion"`
			Receiver string `json:"receiver_tcp_congestion"`
		} `json:"end"`
	}
	if err := json.Unmarshal(stdout, &doc); err != nil {
		return 0, fmt.Errorf("iperf3's JSON: %w", err)
	}
	switch end := doc.End; {
	case doc.Error != "":
		return 0, errors.New(doc.Error)
	case end.Sender != congestion || end.Receiver != congestion:
		return 0, fmt.Errorf("congestion control is %q and %q", end.Sender, end.Receiver)
	case end.Received.Rate == 0:
		return 0, errors.New("iperf3's JSON has no sum_received")
	default:
		return end.Received.Rate, nil
	}
}

var neper = &tool{
	name: "neper", programs: []string{"tcp_stream", "tcp_rr", "taskset"}, versionq: []string{"tcp_stream", "--version"},
	oneSize: true, oneShot: true,
	server: func(t test, p ports) []string { return neperArgs(t, p, 1) },
	client: func(t test, p ports) []string { return append(neperArgs(t, p, 0), "-c", "-H", "127.0.0.1") },
	parse:  parseNeper,
}

// neperArgs are the flags that both ends must be given. --no-cork: by default it
// sends with MSG_MORE, as no other tool does.
func neperArgs(t test, p ports, end int) []string {
	var args []string
	if t.cpus != nil {
		args = []string{"taskset", "-c", strconv.Itoa(t.cpus[end])}
	}
	if t.rr {
		args = append(args, "tcp_rr")
	} else {
		args = append(args, "tcp_stream", "--no-cork", "-B", strconv.Itoa(t.size))
	}
	args = append(args, "--nolog", "-4", "-C", p[0], "-P", p[1], "-F", strconv.Itoa(t.streams), "-l", seconds(t.window), "--congestion-control", congestion)
	if t.nodelay {
		args = append(args, "--no-delay")
	}
	return append(args, t.more...)
}

// parseNeper takes what the server counts of the client's data or requests.
func parseNeper(_ test, stdout []byte) (float64, error) {
	return number(keyValues(stdout), "remote_throughput")
}

// keyValues reads lines of NAME=value, and leaves out others.
func keyValues(text []byte) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok {
			values[key] = strings.TrimSpace(value)
		}
	}
	return values
}

// number reads a value that must be there, and above 0.
func number(values map[string]string, key string) (float64, error) {
	v, err := strconv.ParseFloat(values[key], 64)
	if err != nil || !(v > 0) {
		return 0, fmt.Errorf("%s is %q", key, values[key])
	}
	return v, nil
}
