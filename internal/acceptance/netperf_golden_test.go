package acceptance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gperf/internal/netnstest"
	"gperf/netperf/wire"
)

// goldenRuns are recorded runs of the real netperf: on line 1 the command line, on
// line 2 the exit status, then, if need be, what server it had and its file of
// selectors, then standard output and standard error between markers.
const goldenRuns = "../../netperf/output/testdata/golden"

// A goldenRun is one of them.
type goldenRun struct {
	name, command, status string
	file, selectors       string // name and text of the selector file
	stdout, stderr        string
}

var fileForm = regexp.MustCompile(`(?s)--- file (\S+) \(.*?\)\n(.*?)--- stdout`)

func readGoldenRun(t *testing.T, path string) *goldenRun {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	g := &goldenRun{name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	if m := fileForm.FindStringSubmatch(text); m != nil {
		g.file, g.selectors = m[1], m[2]
	}
	head, rest, found := strings.Cut(text, "--- stdout")
	lines := strings.SplitN(head, "\n", 3)
	if !found || len(lines) < 2 {
		t.Fatalf("%s is no recorded run", path)
	}
	g.command, g.status = lines[0], strings.TrimPrefix(lines[1], "exit status: ")
	marker, rest, _ := strings.Cut(rest, "\n")
	g.stdout, g.stderr, _ = strings.Cut("\n"+rest, "\n--- stderr")
	g.stdout = strings.TrimPrefix(g.stdout+"\n", "\n")
	_, g.stderr, _ = strings.Cut(g.stderr, "\n")
	if strings.Contains(marker, "no newline") {
		g.stdout = strings.TrimSuffix(g.stdout, "\n")
	}
	return g
}

// words splits a command line as the shell does.
func words(line string) []string {
	var args []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args
}

// A difference is one that is meant: what a golden run would be of gperf.
type difference struct {
	why  string
	edit func(g *goldenRun)
}

// refusedOption are the words of a test-specific option that there isn't.
func refusedOption(g *goldenRun) {
	g.status, g.stdout = "1", ""
}

const usagePlace = "\n[usage text stands here: ours is our own]\n"

// differences are all that are meant, by the golden run's name.
var differences = map[string]difference{
	"err_bad_test_option":         {"a mistyped test-specific option is an error, not another test than the one asked for", refusedOption},
	"err_bad_test_option_sockets": {"a mistyped test-specific option is an error, not another test than the one asked for", refusedOption},
	"err_fill_local": {"netperf crashes when it can't read the fill file", func(g *goldenRun) {
		g.status, g.stdout, g.stderr = "1", "", "netperf: fill file open no-such-file: no such file or directory\n"
	}},
	"omni_o_bad_first": {"netperf crashes on an unknown selector that comes first", func(g *goldenRun) {
		g.status, g.stderr = "0", ""
		g.stdout = "OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 0 AF_INET : histogram : interval : demo\n" +
			"Throughput\n, 1.00\n"
	}},
	"conf_sendfile_missed": {"netserver dies in the second iteration of TCP_SENDFILE", func(g *goldenRun) {
		g.status, g.stderr = "0", ""
		g.stdout += "Recv Send Send \nSocket Socket Message Elapsed \nSize Size Size Time Throughput \nbytes bytes bytes secs. 10^6bits/sec \n\n1 1 1 1.00 1.00 \n"
	}},
	"omni_k_bad_debug": {"what -d tells is the program's own business, but for what scripts look for", func(g *goldenRun) {
		var kept []string
		for _, line := range strings.SplitAfter(g.stdout, "\n") {
			if strings.HasPrefix(line, "Ignoring unknown") || strings.HasPrefix(line, "OMNI Send TEST") || strings.HasPrefix(line, "THROUGHPUT=") ||
				strings.HasPrefix(line, "remote port is") {
				kept = append(kept, line)
			}
		}
		g.stdout = strings.Join(kept, "")
	}},
	"d270_intervals":         {"gperf paces", func(g *goldenRun) { g.stdout = afterLine(g.stdout, 2) }},
	"d270_version":           {"gperf says that it's the later version", func(g *goldenRun) { g.stdout = strings.Replace(g.stdout, "2.7.0", "2.7.1", 1) }},
	"d270_netserver_version": {"gperf says that it's the later version", func(g *goldenRun) { g.stdout = strings.Replace(g.stdout, "2.7.0", "2.7.1", 1) }},
}

// afterLine is a text without its first lines.
func afterLine(text string, n int) string {
	for range n {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}

// Selectors that only the later version has.
var laterSelectors = regexp.MustCompile(`(?m)^(LOCAL|REMOTE)_FILL_FILE=.*\n`)

// Whatever the real netperf was seen to print, gperf prints the same of its own
// test but for the figures: headings, columns, their formats and order, messages
// and exit statuses.
func TestNetperfGolden(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenRuns, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no recorded runs: ", err)
	}
	ns := netperfNS(t)
	netserver(t, ns, "netserver", netperfPort)
	netserver(t, ns, "netserver", 24300, "-L", "127.0.0.1", "-Z", "sesame")
	badServers(t, ns)
	dir := t.TempDir()
	var runs []*goldenRun
	var commands []*command
	missing := map[string]bool{}
	for name := range differences {
		missing[name] = true
	}
	for _, path := range paths {
		g := readGoldenRun(t, path)
		delete(missing, g.name)
		if g.file != "" {
			if err := os.WriteFile(filepath.Join(dir, g.file), []byte(g.selectors), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args := words(strings.Replace(g.command, "-l 2", "-l 1", 1))
		in := ns
		if args[0] == "netserver" {
			// Each has the port to itself; what stays behind ends with the namespace.
			in = netperfNS(t)
			if g.name == "netserver_port_in_use" {
				listenIn(t, in, "127.0.0.1:24300")
			}
		}
		c := newCommand(t, in, args...)
		c.cmd.Dir = dir
		if strings.HasPrefix(g.name, "conf_") {
			c.length = 4 * time.Second
		}
		runs, commands = append(runs, g), append(commands, c)
	}
	for name := range missing {
		t.Errorf("no recorded run %s", name)
	}
	for i, r := range runAll(commands) {
		t.Run(runs[i].name, func(t *testing.T) { runs[i].compare(t, r) })
	}
}

// compare holds a run against the golden one.
func (g *goldenRun) compare(t *testing.T, r *ran) {
	got := *r
	if d, ok := differences[g.name]; ok {
		t.Log("different on purpose: ", d.why)
		d.edit(g)
	}
	switch {
	case strings.HasPrefix(g.name, "d270_"):
		// That build had no histograms and no pacing, and says so in its banner.
		g.stdout = banner271(g.stdout)
		if text := withoutHistogram(got.stdout); text != got.stdout {
			// How many empty lines stood before it is of no account.
			got.stdout, g.stdout = strings.TrimRight(text, "\n"), strings.TrimRight(g.stdout, "\n")
		}
		if strings.Contains(g.command, "-k all") && !strings.Contains(g.stdout, "FILL_FILE") {
			got.stdout = laterSelectors.ReplaceAllString(got.stdout, "")
		}
	case g.name == "omni_k_bad_debug":
		var kept []string
		for _, line := range strings.SplitAfter(got.stdout, "\n") {
			if regexp.MustCompile(`^(Ignoring unknown|OMNI Send TEST|THROUGHPUT=|remote port is)`).MatchString(line) {
				kept = append(kept, line)
			}
		}
		got.stdout, got.stderr = strings.Join(kept, ""), ""
	}
	want, err := strconv.Atoi(g.status)
	if err != nil {
		t.Fatalf("exit status %q, and no reason why gperf's is another", g.status)
	}
	got.ended(t, want)
	if diff := cmp.Diff(shape(g.stdout), shape(got.stdout)); diff != "" {
		t.Errorf("%s\nstdout (-golden +got):\n%s\n%s", g.command, diff, r.stdout)
	}
	wantErr, gotErr := g.stderr, got.stderr
	if before, isUsage := strings.CutSuffix(wantErr, usagePlace); isUsage { // whose words are gperf's own
		wantErr = before
		gotErr, _, _ = strings.Cut(gotErr, "\n")
		if !strings.HasPrefix(strings.TrimPrefix(got.stderr, gotErr), "\n\nUsage:") {
			t.Errorf("no usage text in %q", got.stderr)
		}
	}
	if g.name == "passphrase_wrong" { // a close and a reset are much the same
		wantErr = strings.Replace(wantErr, "Connection reset by peer", "partial response received: 0 bytes", 1)
		gotErr = strings.Replace(gotErr, "Connection reset by peer", "partial response received: 0 bytes", 1)
	}
	if diff := cmp.Diff(strings.TrimSuffix(wantErr, "\n"), strings.TrimSuffix(gotErr, "\n")); diff != "" {
		t.Errorf("%s\nstderr (-golden +got):\n%s", g.command, diff)
	}
}

// badServers are the servers that the golden runs had which fail on purpose.
func badServers(t *testing.T, ns *netnstest.NS) {
	const errno = 98
	for port, answer := range map[int]func(request int32) []byte{
		24302: func(request int32) []byte { m := wire.New(request+1, errno); return m[:] },
		24303: func(int32) []byte { return nil },
		24304: func(int32) []byte { return make([]byte, 100) },
	} {
		l := listenIn(t, ns, fmt.Sprintf("127.0.0.1:%d", port))
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go misbehave(c, answer)
			}
		}()
	}
}

func misbehave(c net.Conn, answer func(request int32) []byte) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	var m wire.Message
	if _, err := io.ReadFull(c, m[:]); err != nil {
		return
	}
	if _, err := c.Write(answer(m.Type())); err != nil || len(answer(m.Type())) < len(m) {
		return
	}
	if _, err := c.Read(m[:]); !errors.Is(err, io.EOF) { // the client's end
		return
	}
}
