package acceptance

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
)

// The tests of netperf's personality have many runs of a second, which only wait:
// they go side by side, whatever number of tests go test has run at once, and the
// tests themselves one after the other, so as not to load the machine under tests
// of gperf's own.
const (
	atOnce = 16
	// grace is how much longer than its length a run may take: scripts have
	// watchdogs that kill a netperf then.
	grace = 10 * time.Second
	// Ports of the servers in a namespace: netperf's own is the default.
	netperfPort = 12865
	otherPort   = 12866
)

// personalities makes the links by which gperf is netperf and netserver, once, in
// the folder that it returns.
var personalities = sync.OnceValues(func() (string, error) {
	dir := filepath.Dir(gperf)
	for _, name := range []string{"netperf", "netserver"} {
		if err := os.Symlink(filepath.Base(gperf), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// realNetperf is the path of the real netperf or netserver.
func realNetperf(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs the real %s to compare with: %v", name, err)
	}
	return path
}

// A command is one run of netperf or netserver that ends by itself.
type command struct {
	cmd    *exec.Cmd
	length time.Duration // that it's to take
	stdout buffer
	stderr buffer
}

// newCommand makes the run of a program in ns, or here. Without a folder in its
// name it's gperf under that name.
func newCommand(t testing.TB, ns *netnstest.NS, argv ...string) *command {
	t.Helper()
	dir, err := personalities()
	if err != nil {
		t.Fatal(err)
	}
	c := &command{length: time.Second}
	switch {
	case ns != nil:
		c.cmd = ns.Command(argv[0], argv[1:]...)
	default:
		c.cmd = exec.Command(argv[0], argv[1:]...)
		if !strings.Contains(argv[0], "/") {
			c.cmd.Path, c.cmd.Err = filepath.Join(dir, argv[0]), nil
		}
	}
	c.cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// A ran is a run's end. Its status is -1 when a signal ended it.
type ran struct {
	args           []string
	status         int
	stdout, stderr string
	failure        error // to start, or to end in time
}

// run runs the command to its end, on any goroutine.
func (c *command) run() *ran {
	r := &ran{args: c.cmd.Args, status: -1}
	if r.failure = c.cmd.Start(); r.failure != nil {
		return r
	}
	late := time.AfterFunc(c.length+grace, func() { _ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL) })
	_ = c.cmd.Wait() // the exit status is looked at by those who care
	if !late.Stop() {
		r.failure = fmt.Errorf("has not ended within %v", c.length+grace)
	}
	r.status, r.stdout, r.stderr = c.cmd.ProcessState.ExitCode(), c.stdout.String(), c.stderr.String()
	return r
}

// runAll runs commands side by side, the longest first, and returns their ends in
// the commands' order.
func runAll(commands []*command) []*ran {
	order := make([]int, len(commands))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(commands[b].length, commands[a].length) })
	ends := make([]*ran, len(commands))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, i := range order {
		slots <- struct{}{}
		all.Go(func() {
			ends[i] = commands[i].run()
			<-slots
		})
	}
	all.Wait()
	return ends
}

// good checks that a run was a good one: netperf says nothing on standard error
// then.
func (r *ran) good(t testing.TB) {
	t.Helper()
	r.ended(t, 0)
	if r.stderr != "" {
		t.Errorf("%v: stderr %q", r.args, r.stderr)
	}
}

// ended checks that a run came to an end of its own, with that status.
func (r *ran) ended(t testing.TB, status int) {
	t.Helper()
	if r.failure != nil || r.status != status {
		t.Fatalf("%v: exit status %d, want %d; %v\nstdout: %s\nstderr: %s", r.args, r.status, status, r.failure, r.stdout, r.stderr)
	}
}

// lines are the lines of standard output.
func (r *ran) lines() []string { return splitLines(r.stdout) }

// field is the last word of the line at that index, as a number.
func (r *ran) field(t testing.TB, line int) float64 {
	t.Helper()
	lines := r.lines()
	if line >= len(lines) {
		t.Fatalf("%v: no line %d in %q", r.args, line+1, r.stdout)
	}
	words := strings.Fields(lines[line])
	if len(words) == 0 {
		t.Fatalf("%v: line %d is empty in %q", r.args, line+1, r.stdout)
	}
	return parseNumber(t, words[len(words)-1])
}

func parseNumber(t testing.TB, s string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// figures are the values of a run with -k, by name.
type figures map[string]string

func (r *ran) figures(t testing.TB) figures {
	t.Helper()
	f := figures{}
	for _, line := range r.lines() {
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		if _, twice := f[key]; twice {
			t.Errorf("%v: %s twice", r.args, key)
		}
		f[key] = value
	}
	return f
}

func (f figures) number(t testing.TB, name string) float64 {
	t.Helper()
	value, ok := f[name]
	if !ok {
		t.Fatalf("no %s in %v", name, f)
	}
	return parseNumber(t, value)
}

// positive checks that figures are greater than nothing.
func (f figures) positive(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if n := f.number(t, name); n <= 0 {
			t.Errorf("%s=%s", name, f[name])
		}
	}
}

// are checks figures that are no measurements.
func (f figures) are(t testing.TB, want figures) {
	t.Helper()
	for name, value := range want {
		if f[name] != value {
			t.Errorf("%s=%s, want %s", name, f[name], value)
		}
	}
}

var (
	wordForm    = regexp.MustCompile(`[^ \t,=()\[\]:%"]+`)
	uuidForm    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	countForm   = regexp.MustCompile(`^\d+(\.\d+e[+-]\d+)?$`)
	decimalForm = regexp.MustCompile(`^\d+(\.\d+)$`)
	controlForm = regexp.MustCompile(`\b(bbr|cubic|reno|dctcp)\b`)
	blanksForm  = regexp.MustCompile(`[ \t]+`)
	digitForm   = regexp.MustCompile(`\d`)
	missedForm  = regexp.MustCompile(`(?m)(^!!!.*\n)+\n`)
	interimForm = regexp.MustCompile(`^(Interim result:|NETPERF_|#\.##,\S+/s,)`)
)

// bothClocks is what the real netperf says when its clock ends a test that the
// server's has just ended.
const bothClocks = "catcher: timer popped with times_up != 0\n"

// shape is netperf's output without what varies between two runs: numbers, of
// which the decimals are kept, their columns' widths, names of congestion
// controls, how many interim results there are, and whether confidence was
// reached. Negative numbers stand for what isn't known, and stay.
func shape(text string) string {
	text = strings.ReplaceAll(text, bothClocks, "")
	text = missedForm.ReplaceAllString(text, "")
	text = uuidForm.ReplaceAllString(text, "UUID")
	text = controlForm.ReplaceAllString(text, "CONTROL")
	seen := map[string]bool{}
	var out []string
	for _, line := range strings.SplitAfter(text, "\n") {
		masked := wordForm.ReplaceAllStringFunc(line, func(word string) string {
			newline := word[len(strings.TrimSuffix(word, "\n")):]
			word = strings.TrimSuffix(word, "\n")
			switch m := decimalForm.FindStringSubmatch(word); {
			case word == "-nan": // of memory that was never set: netperf's own mistake
				word = "#.##"
			case m != nil:
				word = "#" + digitForm.ReplaceAllString(m[1], "#")
			case countForm.MatchString(word):
				word = "#"
			}
			return word + newline
		})
		masked = blanksForm.ReplaceAllString(masked, " ")
		if masked != " \n" {
			masked = strings.TrimLeft(masked, " ")
		}
		masked = strings.ReplaceAll(masked, ": #", ":#")
		masked = strings.ReplaceAll(masked, "# \n", "#\n") // a column's padding, if the number leaves any
		if interimForm.MatchString(masked) {
			if seen[masked] {
				continue
			}
			seen[masked] = true
		}
		out = append(out, masked)
	}
	return strings.Join(out, "")
}

// Debian's netperf has neither histograms nor pacing, and gperf has both: their
// words in the banner, and the histogram at verbosity 2.
func banner271(text string) string {
	return strings.Replace(text, " : demo", " : histogram : interval : demo", 1)
}

var histogramForm = regexp.MustCompile(`\n+Histogram of (.*\n){10}HIST_TOTAL.*\n`)

func withoutHistogram(text string) string {
	return histogramForm.ReplaceAllString(text, "\n")
}

// netperfNS is a namespace for the two programs to talk in: with an address of
// its own, without which the real netperf can't look any up.
func netperfNS(t testing.TB) *netnstest.NS {
	t.Helper()
	ns, _ := netnstest.NewPair(t, netnstest.Pair{})
	return ns
}

// netserver starts a netserver, gperf's or the real one, that stays until the
// test's end, and waits until it listens.
func netserver(t testing.TB, ns *netnstest.NS, program string, port int, args ...string) {
	t.Helper()
	c := newCommand(t, ns, append([]string{program, "-D", "-p", strconv.Itoa(port)}, args...)...)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
		<-ended
		if text := c.stderr.String(); text != "" {
			t.Errorf("%s said: %s", program, text)
		}
	})
	eventually(t, "a netserver that listens", func() bool {
		listens := false
		_ = ns.Do(func() error {
			all, err := sockets()
			listens = slices.ContainsFunc(all, func(s sock) bool { return s.state == listening && s.local.Port() == uint16(port) })
			return err
		})
		return listens
	})
}

// listenIn opens a listening socket of the test's own in ns.
func listenIn(t testing.TB, ns *netnstest.NS, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	err := ns.Do(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
