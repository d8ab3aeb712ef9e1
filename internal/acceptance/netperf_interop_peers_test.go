package acceptance

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"gperf/internal/netnstest"
	"gperf/sockopt"
)

// A pairing is who is the client and who the server.
type pairing struct{ realClient, realServer bool }

func (p pairing) String() string {
	name := map[bool]string{false: "gperf", true: "real"}
	return name[p.realClient] + " to " + name[p.realServer]
}

// pairings are all but the real programs' own, which is what the others are
// compared with.
var (
	pairings = []pairing{{true, false}, {false, true}, {false, false}}
	realPair = pairing{true, true}
)

// Selectors that most tests of an option ask for.
const (
	byteFigures = "THROUGHPUT,ELAPSED_TIME,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD,LOCAL_SEND_SIZE,REMOTE_SEND_SIZE"
	timeFigures = "THROUGHPUT,MIN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MAX_LATENCY,MEAN_LATENCY,RT_LATENCY"
)

// An interop is a command line for all pairings.
type interop struct {
	name   string
	args   string // $FILE is a file of a megabyte
	host   string // "": 127.0.0.1; "-": none given
	length time.Duration
	secret bool // the servers that want a passphrase
	// connects: nothing on the wire says that the test is over, so that the real
	// netserver waits four seconds more than it takes.
	connects bool
	status   int
	wording  string // why gperf's words are its own
	// except are the pairings that can't, and why.
	except map[pairing]string
	// check looks at the figures of a run with -k; nil where it's without.
	check func(t *testing.T, p pairing, f figures)
	// rows are the lines whose last field is a rate, of a run without -k; empty:
	// the seventh, of a test that succeeds.
	rows []int
}

// notBuiltIn are the exceptions of tests that pace.
var notBuiltIn = map[pairing]string{
	{true, false}: "Debian's netperf is built without pacing",
	realPair:      "Debian's netperf is built without pacing",
}

func latencies(t *testing.T, _ pairing, f figures) {
	last := 0.0
	for _, name := range strings.Split("MIN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MAX_LATENCY", ",") {
		n, ok := f[name]
		if !ok {
			t.Fatalf("no %s", name)
		}
		if n := parseNumber(t, n); n < last {
			t.Errorf("latencies are out of order: %v", f)
		} else {
			last = n
		}
	}
	f.positive(t, "THROUGHPUT", "P99_LATENCY", "MAX_LATENCY", "MEAN_LATENCY", "RT_LATENCY")
}

// streamed checks that what was sent has arrived.
func streamed(t *testing.T, p pairing, f figures) {
	f.positive(t, "THROUGHPUT", "ELAPSED_TIME", "LOCAL_BYTES_SENT")
	sent, received := f.number(t, "LOCAL_BYTES_SENT"), f.number(t, "REMOTE_BYTES_RECVD")
	most := sent
	if p.realClient { // which doesn't count the send that its alarm interrupts
		most += f.number(t, "LOCAL_SEND_SIZE")
	}
	if received < sent || received > most {
		t.Errorf("%.0f bytes sent, %.0f received", sent, received)
	}
}

// received checks that not more has arrived than the server sent.
func received(t *testing.T, p pairing, f figures) {
	f.positive(t, "THROUGHPUT", "ELAPSED_TIME", "LOCAL_BYTES_RECVD")
	sent, received := f.number(t, "REMOTE_BYTES_SENT"), f.number(t, "LOCAL_BYTES_RECVD")
	if p.realServer {
		sent += f.number(t, "REMOTE_SEND_SIZE")
	}
	if received > sent {
		t.Errorf("%.0f bytes sent, %.0f received", sent, received)
	}
}

// exchanged checks that all but the last transaction are whole.
func exchanged(t *testing.T, _ pairing, f figures) {
	f.positive(t, "THROUGHPUT", "ELAPSED_TIME", "LOCAL_BYTES_SENT", "LOCAL_BYTES_RECVD")
	for _, way := range [][2]string{{"LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"}, {"REMOTE_BYTES_SENT", "LOCAL_BYTES_RECVD"}} {
		if from, to := f.number(t, way[0]), f.number(t, way[1]); from < to || from > to+1 {
			t.Errorf("%s=%.0f, %s=%.0f", way[0], from, way[1], to)
		}
	}
}

func datagrams(t *testing.T, _ pairing, f figures) {
	f.positive(t, "THROUGHPUT", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD")
	if sent, received := f.number(t, "LOCAL_BYTES_SENT"), f.number(t, "REMOTE_BYTES_RECVD"); received > sent {
		t.Errorf("%.0f bytes sent, %.0f received", sent, received)
	}
}

// keeps checks that a count was kept to: exactly, where gperf keeps it.
func keeps(name string, want float64, exact func(pairing) bool) func(*testing.T, pairing, figures) {
	return func(t *testing.T, p pairing, f figures) {
		f.positive(t, "THROUGHPUT")
		if n := f.number(t, name); n < want || exact(p) && n != want {
			t.Errorf("%s=%.0f, want %.0f", name, n, want)
		}
	}
}

func gperfClient(p pairing) bool { return !p.realClient }
func gperfServer(p pairing) bool { return !p.realServer }

// throughput checks nothing but the rate.
func throughput(t *testing.T, _ pairing, f figures) { f.positive(t, "THROUGHPUT") }

// exactly checks figures besides the rate.
func exactly(want figures) func(*testing.T, pairing, figures) {
	return func(t *testing.T, p pairing, f figures) {
		throughput(t, p, f)
		f.are(t, want)
	}
}

// below checks that a paced test was.
func below(most float64) func(*testing.T, pairing, figures) {
	return func(t *testing.T, p pairing, f figures) {
		throughput(t, p, f)
		if n := f.number(t, "THROUGHPUT"); n > most {
			t.Errorf("THROUGHPUT=%g, at most %g when paced", n, most)
		}
	}
}

var interops = []interop{
	// Every test, in its own format.
	{name: "TCP_STREAM", args: "-t TCP_STREAM"},
	{name: "TCP_MAERTS", args: "-t TCP_MAERTS"},
	{name: "TCP_RR", args: "-t TCP_RR"},
	{name: "TCP_CRR", args: "-t TCP_CRR", connects: true},
	{name: "UDP_STREAM", args: "-t UDP_STREAM", rows: []int{5, 6}},
	{name: "UDP_RR", args: "-t UDP_RR"},
	{name: "TCP_SENDFILE", args: "-t TCP_SENDFILE"},
	{name: "TCP_CC", args: "-t TCP_CC", connects: true},
	{name: "omni connect", args: "-t omni -- -c -k THROUGHPUT,THROUGHPUT_UNITS", connects: true, check: exactly(figures{"THROUGHPUT_UNITS": "Trans/s"})},
	{name: "omni send", args: "-t omni -- -d send -k " + byteFigures, check: streamed},
	{name: "omni receive", args: "-t omni -- -d recv -k " + byteFigures, check: received},
	{name: "omni both", args: "-t omni -- -d rr -k " + byteFigures, check: exchanged},
	{name: "omni in columns", args: "-t omni -- -d send", rows: []int{}},

	// What was moved, and how long it took.
	{name: "bytes TCP_STREAM", args: "-t TCP_STREAM -- -k " + byteFigures, check: streamed},
	{name: "bytes TCP_MAERTS", args: "-t TCP_MAERTS -- -k " + byteFigures, check: received},
	{name: "bytes TCP_RR", args: "-t TCP_RR -- -k " + byteFigures, check: exchanged},
	{name: "bytes UDP_STREAM", args: "-t UDP_STREAM -- -m 1024 -R 1 -k " + byteFigures, check: datagrams},
	{name: "latency TCP_RR", args: "-t TCP_RR -- -k " + timeFigures, check: latencies},
	{name: "latency UDP_RR", args: "-t UDP_RR -j -- -k " + timeFigures, check: latencies},
	{name: "latency TCP_CRR", args: "-t TCP_CRR -- -k " + timeFigures, connects: true, check: latencies},

	// CPU utilisation.
	{name: "CPU TCP_STREAM", args: "-c -C -t TCP_STREAM"},
	{name: "CPU TCP_RR", args: "-c -C -t TCP_RR"},
	{name: "CPU UDP_STREAM", args: "-c -C -t UDP_STREAM", rows: []int{5, 6}},
	{name: "CPU figures", args: "-c -C -- -k THROUGHPUT,LOCAL_CPU_UTIL,REMOTE_CPU_UTIL,LOCAL_SD,REMOTE_SD,LOCAL_CPU_COUNT,REMOTE_CPU_COUNT,LOCAL_CPU_METHOD,REMOTE_CPU_METHOD",
		check: func(t *testing.T, p pairing, f figures) {
			f.positive(t, "THROUGHPUT", "LOCAL_CPU_UTIL", "REMOTE_CPU_UTIL", "LOCAL_SD", "REMOTE_SD", "LOCAL_CPU_COUNT", "REMOTE_CPU_COUNT")
			f.are(t, figures{"LOCAL_CPU_METHOD": "S", "REMOTE_CPU_METHOD": "S"})
		}},

	// A wait before the test, as long as the test.
	{name: "wait TCP_STREAM", args: "-s 1 -t TCP_STREAM", length: 2 * time.Second},
	{name: "wait TCP_CRR", args: "-s 1 -t TCP_CRR", length: 2 * time.Second, connects: true},
	{name: "wait UDP_RR", args: "-s 1 -t UDP_RR", length: 2 * time.Second},

	// Counts instead of a time.
	{name: "count TCP_STREAM", args: "-l -1000000 -t TCP_STREAM -- -k " + byteFigures, check: keeps("LOCAL_BYTES_SENT", 1e6, gperfClient)},
	{name: "count TCP_MAERTS", args: "-l -1000000 -t TCP_MAERTS -- -k " + byteFigures, check: keeps("LOCAL_BYTES_RECVD", 1e6, gperfServer)},
	{name: "count TCP_RR", args: "-l -2000 -t TCP_RR -- -k " + byteFigures, check: keeps("LOCAL_BYTES_RECVD", 2000, gperfClient)},
	{name: "count UDP_RR", args: "-l -2000 -t UDP_RR -- -k " + byteFigures, check: keeps("LOCAL_BYTES_RECVD", 2000, gperfClient)},
	{name: "count TCP_CRR", args: "-l -200 -t TCP_CRR -- -k " + byteFigures, check: keeps("LOCAL_BYTES_RECVD", 200, gperfClient)},
	{name: "count TCP_CC", args: "-l -200 -t TCP_CC"},
	{name: "count TCP_SENDFILE", args: "-l -1000000 -t TCP_SENDFILE"},

	// Several iterations.
	{name: "confidence", args: "-i 5,3 -I 95,5 -t TCP_RR -- -k THROUGHPUT,CONFIDENCE_LEVEL,CONFIDENCE_ITERATION,THROUGHPUT_CONFID", length: 5 * time.Second,
		check: func(t *testing.T, p pairing, f figures) {
			exactly(figures{"CONFIDENCE_LEVEL": "95"})(t, p, f)
			if n := f.number(t, "CONFIDENCE_ITERATION"); n < 3 || n > 5 {
				t.Errorf("CONFIDENCE_ITERATION=%g", n)
			}
		}},
	{name: "confidence with CPU", args: "-i 3,3 -I 99,200 -r -c -C -t UDP_STREAM -- -k THROUGHPUT,LOCAL_CPU_UTIL", length: 3 * time.Second, check: throughput},
	{name: "iterations TCP_SENDFILE", args: "-i 3,3 -I 99,200 -t TCP_SENDFILE", length: 3 * time.Second, except: map[pairing]string{
		{false, true}: "the real netserver dies in the second iteration of TCP_SENDFILE",
		realPair:      "the real netserver dies in the second iteration of TCP_SENDFILE"}},

	// Interim results.
	{name: "interim TCP_STREAM", args: "-D 0.2 -t TCP_STREAM", rows: []int{}},
	{name: "interim TCP_MAERTS", args: "-D -0.2 -t TCP_MAERTS", rows: []int{}},
	{name: "interim TCP_RR", args: "-D -0.2 -t TCP_RR", rows: []int{}},
	{name: "interim UDP_RR", args: "-D -0.2 -t UDP_RR -- -k THROUGHPUT", check: throughput},
	{name: "interim in CSV", args: "-D -0.2 -t omni -- -o THROUGHPUT,THROUGHPUT_UNITS", rows: []int{}},

	// Sockets and sizes, of tests that end by a count: it's quicker, and connection
	// tests don't wait.
	{name: "buffers", args: "-l -20000000 -t TCP_STREAM -- -s 64K -S 64K -k THROUGHPUT,LSS_SIZE,LSR_SIZE,RSS_SIZE,RSR_SIZE,LSS_SIZE_REQ,LSS_SIZE_END,RSR_SIZE_END",
		check: exactly(figures{"LSS_SIZE": "131072", "LSR_SIZE": "131072", "RSS_SIZE": "131072", "RSR_SIZE": "131072",
			"LSS_SIZE_REQ": "65536", "LSS_SIZE_END": "131072", "RSR_SIZE_END": "131072"})},
	{name: "buffers of UDP", args: "-l -20000000 -t UDP_STREAM -- -s 64K -S 64K -m 1400 -k THROUGHPUT,LSS_SIZE,RSR_SIZE,LOCAL_SEND_SIZE",
		check: exactly(figures{"LSS_SIZE": "131072", "RSR_SIZE": "131072", "LOCAL_SEND_SIZE": "1400"})},
	{name: "message sizes", args: "-l -20000000 -t TCP_STREAM -- -m 8K -M 32K -k THROUGHPUT,LOCAL_SEND_SIZE,REMOTE_RECV_SIZE,LOCAL_BYTES_PER_SEND",
		check: func(t *testing.T, p pairing, f figures) {
			exactly(figures{"LOCAL_SEND_SIZE": "8192", "REMOTE_RECV_SIZE": "32768"})(t, p, f)
			if n := f.number(t, "LOCAL_BYTES_PER_SEND"); math.Abs(n-8192) > 82 { // the last send may not be whole
				t.Errorf("%g bytes per send", n)
			}
		}},
	{name: "message sizes backwards", args: "-l -20000000 -t TCP_MAERTS -- -m ,4K -M ,8K -k THROUGHPUT,REMOTE_SEND_SIZE,LOCAL_RECV_SIZE",
		check: exactly(figures{"REMOTE_SEND_SIZE": "4096", "LOCAL_RECV_SIZE": "8192"})},
	{name: "request and response", args: "-l -2000 -t TCP_RR -- -r 100,1000 -k THROUGHPUT,REQUEST_SIZE,RESPONSE_SIZE",
		check: exactly(figures{"REQUEST_SIZE": "100", "RESPONSE_SIZE": "1000"})},
	{name: "request and response of UDP", args: "-l -2000 -t UDP_RR -- -r 100,1000 -k THROUGHPUT,REQUEST_SIZE,RESPONSE_SIZE",
		check: exactly(figures{"REQUEST_SIZE": "100", "RESPONSE_SIZE": "1000"})},
	{name: "request and response of connections", args: "-l -2000 -t TCP_CRR -- -r 100,1000"},
	{name: "burst", args: "-t TCP_RR -- -b 4 -D"},
	{name: "burst of UDP", args: "-t UDP_RR -- -b 4 -k THROUGHPUT,BURST_SIZE", check: exactly(figures{"BURST_SIZE": "4"})},
	{name: "no delay", args: "-l -2000 -t TCP_RR -- -D -k THROUGHPUT,LOCAL_NODELAY,REMOTE_NODELAY", check: exactly(figures{"LOCAL_NODELAY": "1", "REMOTE_NODELAY": "1"})},
	{name: "congestion control", args: "-l -20000000 -t TCP_STREAM -- -K cubic,reno -k THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL",
		check: exactly(figures{"LOCAL_CONG_CONTROL": "cubic", "REMOTE_CONG_CONTROL": "reno"})},
	{name: "copy avoidance", args: "-l -20000000 -t TCP_STREAM -- -V -k " + byteFigures, check: streamed},
	{name: "copy avoidance backwards", args: "-l -20000000 -t TCP_MAERTS -- -V -k " + byteFigures, check: received},
	{name: "type of service", args: "-l -20000000 -Y ef,cs1 -t TCP_STREAM -- -k THROUGHPUT,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS",
		check: exactly(figures{"LOCAL_SOCKET_TOS": "0xb8", "REMOTE_SOCKET_TOS": "0x20"})},
	{name: "priority", args: "-l -2000 -y 1,2 -t UDP_RR -- -k THROUGHPUT,LOCAL_SOCKET_PRIO,REMOTE_SOCKET_PRIO",
		check: exactly(figures{"LOCAL_SOCKET_PRIO": "1", "REMOTE_SOCKET_PRIO": "2"})},
	{name: "CPU binding", args: "-l -2000 -T 0,1 -t TCP_RR -- -k THROUGHPUT,LOCAL_CPU_BIND,REMOTE_CPU_BIND", check: exactly(figures{"LOCAL_CPU_BIND": "0", "REMOTE_CPU_BIND": "1"})},
	{name: "fill file", args: "-l -20000000 -F $FILE -t TCP_STREAM"},
	{name: "file to send", args: "-l -20000000 -F $FILE -t TCP_SENDFILE"},
	{name: "segment size", args: "-l -2000000 -t TCP_STREAM -- -G 1000 -k THROUGHPUT,TRANSPORT_MSS", check: exactly(figures{"TRANSPORT_MSS": "988"})}, // of 1000 without time stamps
	{name: "segment size of connections", args: "-l -200 -t TCP_CRR -- -k THROUGHPUT,TRANSPORT_MSS",
		check: func(t *testing.T, _ pairing, f figures) { f.positive(t, "THROUGHPUT", "TRANSPORT_MSS") }},
	{name: "too long for a datagram", args: "-t UDP_STREAM -- -m 70000", status: 1, wording: "netperf names its own function, too"},
	{name: "burst that doesn't fit", args: "-t TCP_RR -- -b 100000 -r 64K,64K -s 8K -S 8K", status: 255},
	{name: "keepalive", args: "-l -2000 -S -t TCP_RR"},

	// Addresses.
	{name: "IPv6 stream", host: "::1", args: "-l -20000000 -t TCP_STREAM -- -k " + byteFigures, check: streamed},
	{name: "IPv6 datagrams", host: "::1", args: "-l -2000 -t UDP_RR"},
	{name: "IPv6 files", host: "::1", args: "-l -20000000 -t TCP_SENDFILE"},
	{name: "IPv6 connections", host: "::1", args: "-l -200 -t TCP_CRR"},
	{name: "IPv6 by default", host: "-", args: "-l -2000 -6 -t TCP_RR"},
	{name: "IPv4 by name", host: "localhost", args: "-l -20000000 -4 -t UDP_STREAM", rows: []int{5, 6}},
	{name: "data to another address", args: "-l -20000000 -t TCP_STREAM -L 127.0.0.1 -- -H 10.77.0.1 -k " + byteFigures, check: streamed},
	{name: "data port", args: "-l -2000 -t TCP_RR -- -P 0,42123", rows: []int{6}},

	// Others.
	{name: "right passphrase", args: "-l -2000 -Z sesame -t TCP_RR", secret: true},
	{name: "wrong passphrase", args: "-l -2000 -Z wrong -t TCP_RR", secret: true, status: 1},
	{name: "no passphrase", args: "-l -2000 -t TCP_RR", secret: true, status: 1},
	{name: "needless passphrase", args: "-l -2000 -Z sesame -t TCP_RR"},
	{name: "no control connection", args: "-N -t TCP_STREAM", status: 1},
	{name: "unknown test", args: "-t NO_SUCH", status: 1},
	{name: "REM_CPU", args: "-t REM_CPU", rows: []int{0}},
	{name: "TCP_MSS", args: "-t TCP_MSS", rows: []int{5}},
	{name: "paced requests", args: "-b 1 -w 10 -t TCP_RR -- -k THROUGHPUT", except: notBuiltIn, check: below(200)},
	// The server's own build decides whether it paces: Debian's doesn't.
	{name: "paced sends", args: "-b 1 -w 10 -t TCP_STREAM -- -m 1000 -k THROUGHPUT", except: notBuiltIn, check: below(2)},
	{name: "paced sends backwards", args: "-b 1,1 -w 10,10 -t TCP_MAERTS -- -m ,1000 -k THROUGHPUT", check: below(2), except: map[pairing]string{
		{true, false}: notBuiltIn[realPair], realPair: notBuiltIn[realPair], {false, true}: "Debian's netserver is built without pacing"}},
}

// Either netperf does with the other's netserver, and with its own, what the real
// two do with each other.
func TestNetperfInterop(t *testing.T) {
	client, server := realNetperf(t, "netperf"), realNetperf(t, "netserver")
	const secret = 10 // further than the other servers' ports
	ns := netperfNS(t)
	for _, c := range []string{"cubic", "reno"} {
		if !slices.Contains(strings.Fields(ns.Sysctl("net.ipv4.tcp_available_congestion_control")), c) {
			t.Skip("needs the congestion control ", c)
		}
	}
	for program, port := range map[string]int{server: netperfPort, "netserver": otherPort} {
		netserver(t, ns, program, port)
		netserver(t, ns, program, port+secret, "-Z", "sesame")
	}
	file := filepath.Join(t.TempDir(), "fill")
	if err := os.WriteFile(file, []byte(strings.Repeat("0123456789abcde\n", 1<<16)), 0o644); err != nil {
		t.Fatal(err)
	}
	type cell struct {
		row int
		pairing
	}
	var commands []*command
	places := map[cell]int{}
	for i, row := range interops {
		for _, p := range append(slices.Clone(pairings), realPair) {
			if row.except[p] != "" {
				continue
			}
			argv := []string{"netperf"}
			if p.realClient {
				argv[0] = client
			}
			if row.host != "-" {
				argv = append(argv, "-H", cmp.Or(row.host, "127.0.0.1"))
			}
			port := otherPort
			if p.realServer {
				port = netperfPort
			}
			if row.secret {
				port += secret
			}
			argv = append(argv, "-p", strconv.Itoa(port))
			if !strings.Contains(row.args, "-l ") {
				argv = append(argv, "-l", "1")
			}
			argv = append(argv, strings.Fields(strings.ReplaceAll(row.args, "$FILE", file))...)
			c := newCommand(t, ns, argv...)
			c.length = max(row.length, c.length)
			if row.connects && p.realServer {
				c.length += 4 * time.Second
			}
			places[cell{i, p}] = len(commands)
			commands = append(commands, c)
		}
	}
	ends := runAll(commands)
	for i, row := range interops {
		t.Run(row.name, func(t *testing.T) {
			want := ""
			if at, ok := places[cell{i, realPair}]; ok {
				ends[at].ended(t, row.status)
				want = ends[at].stdout
			}
			for _, p := range pairings {
				t.Run(p.String(), func(t *testing.T) {
					if why := row.except[p]; why != "" {
						t.Skip(why)
					}
					row.judge(t, p, ends[places[cell{i, p}]], want)
				})
			}
		})
	}
}

// judge holds a run of a row against what the real programs printed.
func (row *interop) judge(t *testing.T, p pairing, r *ran, want string) {
	r.ended(t, row.status)
	if row.status == 0 {
		r.good(t)
	}
	if !p.realClient {
		want = banner271(want)
	}
	if row.wording != "" && !p.realClient {
		want = ""
	}
	if d := diff.Diff(shape(want), shape(r.stdout)); want != "" && d != "" {
		t.Errorf("%v (-real +got):\n%s", r.args, d)
	}
	rows := row.rows
	switch {
	case row.check != nil:
		row.check(t, p, r.figures(t))
	case rows == nil && row.status == 0:
		rows = []int{6}
	case row.secret && r.stderr == "":
		t.Error("nothing on standard error")
	}
	for _, line := range rows {
		result := *r
		result.stdout = missedForm.ReplaceAllString(r.stdout, "")
		if n := result.field(t, line); n <= 0 {
			t.Errorf("%v: line %d ends in %g:\n%s", r.args, line+1, n, r.stdout)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s", r.stdout)
	}
}

// With -P the server's data port is the one that the firewall lets through.
func TestNetperfDataPort(t *testing.T) {
	programs := map[bool][2]string{false: {"netperf", "netserver"}, true: {realNetperf(t, "netperf"), realNetperf(t, "netserver")}}
	const data = 42424
	var all sync.WaitGroup
	type named struct {
		name string
		*ran
	}
	ends := make([][]named, len(pairings))
	for i, p := range pairings {
		a, b := netnstest.NewPair(t, netnstest.Pair{})
		netserver(t, b, programs[p.realServer][1], netperfPort)
		b.Nft(fmt.Sprintf(`table inet gate {
			chain input {
				type filter hook input priority 0; policy accept;
				ip protocol { tcp, udp } ct state established accept
				tcp dport { %d, %d } accept
				udp dport %d accept
				ip protocol { tcp, udp } drop
			}
		}`, netperfPort, data, data))
		var commands []*command // one after the other, on the same port
		tests := []string{"TCP_STREAM", "TCP_CRR", "UDP_RR"}
		lengths := map[string]string{"TCP_STREAM": "1", "TCP_CRR": "-200", "UDP_RR": "1"}
		for _, test := range tests {
			c := newCommand(t, a, programs[p.realClient][0], "-H", b.Addr4.String(), "-l", lengths[test], "-t", test,
				"--", "-P", fmt.Sprintf("0,%d", data), "-k", "THROUGHPUT")
			commands = append(commands, c)
		}
		all.Go(func() {
			for j, c := range commands {
				ends[i] = append(ends[i], named{tests[j] + " " + p.String(), c.run()})
			}
		})
	}
	all.Wait()
	for _, r := range slices.Concat(ends...) {
		t.Run(r.name, func(t *testing.T) {
			r.good(t)
			r.figures(t).positive(t, "THROUGHPUT")
		})
	}
}

// A document comes of a run against the real netserver, too: of what that doesn't
// tell nothing is made up.
func TestNetperfDocumentWithPeer(t *testing.T) {
	ns := netperfNS(t)
	netserver(t, ns, realNetperf(t, "netserver"), netperfPort)
	dir := t.TempDir()
	tests := []string{"TCP_STREAM -- -s 64K -S 64K -D", "TCP_MAERTS", "TCP_RR", "UDP_STREAM -- -m 1024", "UDP_RR", "TCP_SENDFILE", "TCP_CC", "OMNI -- -d recv"}
	var commands []*command
	for i, test := range tests {
		args := append([]string{"netperf", "-H", "127.0.0.1", "-J", filepath.Join(dir, strconv.Itoa(i)), "-l", "1", "-t"}, strings.Fields(test)...)
		c := newCommand(t, ns, args...)
		c.length += 4 * time.Second
		commands = append(commands, c)
	}
	for i, r := range runAll(commands) {
		t.Run(tests[i], func(t *testing.T) {
			r.good(t)
			o := r.read(t, filepath.Join(dir, strconv.Itoa(i)))
			o.mustComplete(t)
			n := o.Summary.Throughput
			if o.Plan.Type.RequestResponse() {
				n = o.Summary.TPS
			}
			if n == nil || *n <= 0 {
				t.Errorf("neither throughput nor transactions: %+v", o.Summary.Figures)
			}
			if i == 0 && (o.row(t, sockopt.Server, "rcvbuf").Verdict != sockopt.Doubled || o.row(t, sockopt.Server, "nodelay").Verdict != sockopt.Exact) {
				t.Errorf("audit: %+v", o.Audit)
			}
		})
	}
}
