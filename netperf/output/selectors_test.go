package output

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/netperf/options"
)

// selectorFacts reads testdata/selectors.tsv, which describes the selectors of a
// real netperf, a map of columns for each.
func selectorFacts(t *testing.T) []map[string]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/selectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	names := strings.Split(lines[0], "\t")
	var facts []map[string]string
	for _, line := range lines[1:] {
		row := make(map[string]string)
		for i, cell := range strings.Split(line, "\t") {
			row[names[i]] = cell
		}
		facts = append(facts, row)
	}
	return facts
}

func TestSelectorTable(t *testing.T) {
	facts := selectorFacts(t)
	if len(facts) != 175 || len(selectors) != len(facts) {
		t.Fatalf("%d selectors, %d described", len(selectors), len(facts))
	}
	r := sampleRun(defaults(options.TCPRR))
	for i := range selectors {
		s, f := &selectors[i], facts[i]
		lines := s.lines()
		got := []string{s.name, lines[0], lines[1], lines[2], lines[3], s.line(), s.format}
		want := []string{f["selector"], f["heading1"], f["heading2"], f["heading3"], f["heading4"],
			f["csv_header"], strings.ReplaceAll(f["printf_format"], "%lu", "%d")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f["selector"], diff)
		}
		if want := map[string]int{"": 0, "1": 1, "2": 2, "3": 3, "4": 4}[f["block_in_all"]]; s.block != want {
			t.Errorf("%s in block %d, want %d", s.name, s.block, want)
		}
		if want := f["turns_on_statistics"] == "yes"; s.latency != want {
			t.Errorf("%s turns on statistics: %t, want %t", s.name, s.latency, want)
		}
		// fmt prints a value of another type than its format's with a mark.
		if text, _ := s.text(r); strings.Contains(text, "%!") {
			t.Errorf("%s prints %s", s.name, text)
		}
	}
}

func TestDefaultSelectors(t *testing.T) {
	for test, set := range map[options.Test]string{
		options.TCPStream: "stream",
		options.TCPMaerts: "maerts",
		options.TCPRR:     "rr",
		options.TCPCRR:    "rr",
	} {
		o := defaults(test)
		o.CPU = options.Ends[bool]{Local: true}
		got := make(map[string]bool)
		for name := range strings.SplitSeq(defaultNames(&Run{Options: o}), ",") {
			got[name] = true
		}
		want := make(map[string]bool)
		for _, f := range selectorFacts(t) {
			for s := range strings.SplitSeq(f["default_sets"], "+") {
				if s == set || s == "tput" || s == "cpu" {
					want[f["selector"]] = true
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test, diff)
		}
	}
}

// A selector whose value isn't known prints what its description says first:
// "-1 = not requested", "-1.00 without -c". Stale memory isn't copied.
func TestUnknownValues(t *testing.T) {
	unknown := Side{Retransmits: -1, MSS: -1, Priority: -1, TOS: -1, SendSize: -1, RecvSize: -1}
	o := defaults(options.TCPStream)
	r := &Run{Options: o, Family: unix.AF_INET, Iterations: []Iteration{{Local: unknown, Remote: unknown}}}
	ours := map[string]string{
		"LOCAL_SEND_SIZE": "-1", "LOCAL_RECV_SIZE": "-1", // as the sides above say
		"REMOTE_CPU_PEAK_UTIL": "0.00", "REMOTE_CPU_PEAK_ID": "0",
		"LOCAL_CONG_CONTROL": "", "REMOTE_CONG_CONTROL": "", "LOCAL_FILL_FILE": "", "REMOTE_FILL_FILE": "",
	}
	for i, f := range selectorFacts(t) {
		want, _, _ := strings.Cut(f["value_when_unavailable"], " ")
		want = strings.TrimSuffix(want, ";")
		if strings.HasPrefix(f["value_when_unavailable"], "stale memory") {
			want = "0.00"
		}
		if text, ok := ours[f["selector"]]; ok {
			want = text
		} else if want == "" {
			continue
		}
		got, ok := selectors[i].text(r)
		if !ok {
			got = "no"
		}
		if got != want {
			t.Errorf("%s=%s, want %s", f["selector"], got, want)
		}
	}
}

func TestSelectorValues(t *testing.T) {
	ipv6 := defaults(options.UDPRR)
	ipv6.Family = options.IPv6
	asked := defaults(options.Omni)
	asked.Args = []string{"netperf", "-H", "h"}
	asked.Protocol = "udplite"
	asked.Connection = true
	asked.Target.Name, asked.DataTarget.Name = "control", "data"
	asked.Source.Name = "from"
	asked.DataSource.Family = options.IPv4
	asked.DataPort = options.Ends[int]{Local: 7, Remote: 8}
	asked.Fill = options.Ends[string]{Local: "a", Remote: "b"}
	asked.Socket.Remote = options.SendRecv{Send: 10, Recv: 20}
	asked.Offset.Local = options.SendRecv{Send: 30, Recv: 40}
	asked.Bind.Remote = 3
	asked.Dirty.Local.Send = 5
	udp := defaults(options.Omni)
	udp.Protocol, udp.Direction, udp.Unit = "udp", options.Both, 'k'
	tests := []struct {
		name   string
		run    *Run
		values map[string]string
	}{
		{"IPv6", &Run{Options: ipv6, Family: unix.AF_INET6}, map[string]string{
			"SOCKET_TYPE": "Datagram", "PROTOCOL": "UDP", "SOURCE_ADDR": "::0", "DEST_ADDR": "::1",
			"DEST_FAMILY": "10", "SOURCE_FAMILY": "0",
		}},
		{"asked for", &Run{Options: asked, Family: unix.AF_INET}, map[string]string{
			"SOCKET_TYPE": "Stream", "PROTOCOL": "UDPLite", "DIRECTION": "Connection", "REQUEST_SIZE": "-1",
			"SOURCE_ADDR": "from", "SOURCE_FAMILY": "2", "DEST_ADDR": "data", "DEST_FAMILY": "2",
			"SOURCE_PORT": "7", "DEST_PORT": "8", "LOCAL_FILL_FILE": "a", "REMOTE_FILL_FILE": "b",
			"RSS_SIZE_REQ": "10", "RSR_SIZE_REQ": "20", "LOCAL_SEND_OFFSET": "30", "LOCAL_RECV_OFFSET": "40",
			"LOCAL_CPU_BIND": "-1", "REMOTE_CPU_BIND": "3", "COMMAND_LINE": `"netperf -H h"`,
			"LOCAL_SEND_DIRTY_COUNT": "-1",
		}},
		{"omni over UDP", &Run{Options: udp}, map[string]string{
			"SOCKET_TYPE": "Stream", "PROTOCOL": "UDP", "DIRECTION": "Send|Recv", "SD_UNITS": "usec/KB",
			"THROUGHPUT_UNITS": "10^3bits/s", "REQUEST_SIZE": "1", "CONFIDENCE_ITERATION": "0",
		}},
		{"socket options", &Run{Options: defaults(options.TCPStream), Iterations: []Iteration{
			{Local: Side{Congestion: "first", MSS: 1448}, Remote: Side{Congestion: "first"}},
			{Local: Side{Congestion: "last", NoDelay: true, Priority: -2}, Remote: Side{Congestion: "last", Cork: true, TOS: 0x2e}},
		}}, map[string]string{
			"LOCAL_CONG_CONTROL": "first", "REMOTE_CONG_CONTROL": "last", "TRANSPORT_MSS": "1448",
			"LOCAL_NODELAY": "1", "REMOTE_NODELAY": "0", "LOCAL_CORK": "0", "REMOTE_CORK": "1",
			"LOCAL_SOCKET_PRIO": "-2", "REMOTE_SOCKET_TOS": "0x2e", "LOCAL_SOCKET_TOS": "0x00",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for name, want := range test.values {
				if got, _ := byName(name).text(test.run); got != want {
					t.Errorf("%s=%s, want %s", name, got, want)
				}
			}
		})
	}
}
