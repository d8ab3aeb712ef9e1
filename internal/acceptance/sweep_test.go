package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/result"
)

// sweepLines are the trials in the file of a sweep.
func sweepLines(t *testing.T, path string) (runs []*result.Run) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var l struct {
			Line string `json:"line"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v: %q", path, err, line)
		}
		if l.Line != "" {
			continue
		}
		r := new(result.Run)
		if err := json.Unmarshal(line, r); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// everyTrialOnce fails unless each of the cells has each of its trials once.
func everyTrialOnce(t *testing.T, runs []*result.Run, cells, trials int) {
	t.Helper()
	seen := map[[2]int]int{}
	for _, r := range runs {
		seen[[2]int{r.Sweep.Index, r.Sweep.Trial}]++
	}
	for c := range cells {
		for n := 1; n <= trials; n++ {
			if seen[[2]int{c, n}] != 1 {
				t.Errorf("trial %d of cell %d is there %d times", n, c, seen[[2]int{c, n}])
			}
		}
	}
	if len(runs) != cells*trials {
		t.Errorf("%d trials, not %d", len(runs), cells*trials)
	}
}

// hostNetwork is what a lab must leave alone.
func hostNetwork(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{"/sys/class/net/lo/mtu", "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_sack"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	links, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		b.WriteString(l.Name() + " ")
	}
	return b.String()
}

// needsLab skips where no lab can be made.
func needsLab(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces with sysctls and offloads")
	}
	if out, err := exec.Command(gperf, "lab", "--", "true").CombinedOutput(); err != nil {
		t.Skipf("needs network namespaces: %v: %s", err, out)
	}
}

// A sweep in a lab sets what its axes say, reads it back, and leaves the machine as
// it was.
func TestSweepInLab(t *testing.T) {
	needsLab(t)
	before := hostNetwork(t)
	path := filepath.Join(t.TempDir(), "x.jsonl")
	p := start(t, place{}, "sweep", "--preset", "splice-mtu", "--axis", "mtu=16436,61492", "--axis", "pipe-size=64K",
		"--trials", "2", "-d", "0.05", "--warmup", "0.01", "-o", path)
	if p.status() != 0 {
		t.Fatalf("status %d: %s", p.status(), &p.stderr)
	}
	runs := sweepLines(t, path)
	everyTrialOnce(t, runs, 4, 2)
	for _, r := range runs {
		if r.Status != result.Complete || r.Summary == nil || len(r.Audit) == 0 || r.Streams != nil || r.Hosts.Client != nil || r.Sweep.Hosts == 0 {
			t.Errorf("trial %+v: %s, %v", r.Sweep, r.Status, r.Error)
			continue
		}
		effective := map[string]string{}
		for _, s := range r.Lab.Settings {
			effective[s.Name] = s.Effective
		}
		if effective["mtu"] != r.Sweep.Cell["mtu"] || strings.Join(strings.Fields(effective["sysctl.net.ipv4.tcp_rmem"]), " ") != r.Sweep.Cell["sysctl.net.ipv4.tcp_rmem"] {
			t.Errorf("cell %v has %v", r.Sweep.Cell, effective)
		}
	}
	if !strings.Contains(p.stderr.String(), "beyond its window") {
		t.Errorf("no overhead: %s", &p.stderr)
	}
	if !strings.Contains(p.stdout.String(), "16436") || !strings.Contains(p.stdout.String(), "fewer than 5 trials") {
		t.Errorf("the table: %s", &p.stdout)
	}
	if after := hostNetwork(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
}

// A sweep that a signal, or a kill, has ended goes on where it was, and nothing of it
// is left.
func TestSweepResumes(t *testing.T) {
	t.Parallel()
	needsLab(t)
	for name, sig := range map[string]unix.Signal{"SIGINT": unix.SIGINT, "SIGKILL": unix.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.jsonl")
			args := []string{"sweep", "--lab", "loopback", "--axis", "mtu=1500,9000", "--axis", "message-size=1K,16K", "--trials", "5", "-d", "0.05", "-o", path}
			p := start(t, place{}, args...)
			eventually(t, "two trials", func() bool {
				b, _ := os.ReadFile(path)
				return bytes.Count(b, []byte("\n")) >= 4
			})
			p.signal(sig)
			<-p.ended
			if sig == unix.SIGINT && p.status() != 3 {
				t.Errorf("status %d: %s", p.status(), &p.stderr)
			}
			// What the lab's processes have open ends with them.
			eventually(t, "the sweep's processes are gone", func() bool {
				out, _ := exec.Command("pgrep", "-f", path).Output()
				return len(out) == 0
			})
			part := len(sweepLines2(t, path))
			if part >= 20 {
				t.Fatalf("the sweep was over")
			}
			p = start(t, place{}, append(args, "--resume")...)
			if p.status() != 0 {
				t.Fatalf("status %d: %s", p.status(), &p.stderr)
			}
			everyTrialOnce(t, sweepLines(t, path), 4, 5)
		})
	}
}

// sweepLines2 are the trials of a file whose last line may be torn.
func sweepLines2(t *testing.T, path string) []*result.Run {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	if err := os.WriteFile(whole, b[:bytes.LastIndexByte(b, '\n')+1], 0o644); err != nil {
		t.Fatal(err)
	}
	return sweepLines(t, whole)
}

func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no output":       {[]string{"--axis", "nodelay=on"}, "--output is missing"},
		"unknown axis":    {[]string{"--axis", "nodely=on"}, "nodely is no flag of the client, no knob and no setting of a lab"},
		"lab's axis":      {[]string{"--axis", "mtu=1500"}, "mtu is a setting of a lab: --lab is missing"},
		"bad value":       {[]string{"--axis", "message-size=1K,zero"}, `zero`},
		"bad cell":        {[]string{"--axis", "test=TCP_RR", "--axis", "bytes=1M"}, "TCP_RR counts transactions"},
		"read only":       {[]string{"--lab", "veth", "--axis", "sysctl.net.core.rmem_max=1,2"}, "rmem_max"},
		"unknown preset":  {[]string{"--preset", "splice"}, "splice-mtu"},
		"unknown word":    {[]string{"-f", file("a.yaml", "trails: 3\n")}, "trails"},
		"no file":         {[]string{"-f", filepath.Join(dir, "none.yaml")}, "no such file"},
		"file that's not": {[]string{"--axis", "nodelay=on", "-o", file("x.jsonl", "hello\n")}, "is not empty"},
		"not a sweep's":   {[]string{"--axis", "nodelay=on", "--resume", "-o", file("y.jsonl", "{}\n")}, "doesn't begin like the file of a sweep"},
		"lab and host":    {[]string{"--lab", "veth", "--axis", "nodelay=on", "-o", filepath.Join(dir, "z"), "127.0.0.1"}, "not at a host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, place{}, append([]string{"sweep"}, tt.args...)...)
			if status, said := p.status(), p.stderr.String(); status != 2 || !strings.Contains(said, tt.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("status %d: %q, want %q", status, said, tt.want)
			}
		})
	}
}

// Only hooks are run by a shell, with the cell in their environment; a trial whose
// hook fails is a failed one, and the sweep goes on.
func TestSweepHooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	canary, seen := filepath.Join(dir, "canary"), filepath.Join(dir, "seen")
	spec := filepath.Join(dir, "s.yaml")
	text := "flags: {duration: '0.05', label: \"x\"}\naxes:\n  message-size: [1K, 2K]\ntrials: 2\n" +
		"hook-before: 'echo $GPERF_AXIS_MESSAGE_SIZE >> " + seen + "; test $GPERF_AXIS_MESSAGE_SIZE = 1K'\n"
	text = strings.Replace(text, ", label: \"x\"", "", 1)
	if err := os.WriteFile(spec, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.jsonl")
	p := start(t, place{}, "sweep", "-f", spec, "-o", path, "--label", "a=$(touch "+canary+")")
	if p.status() != 1 || !strings.Contains(p.stderr.String(), "2 of 4 trials failed") {
		t.Errorf("status %d: %s", p.status(), &p.stderr)
	}
	runs := sweepLines(t, path)
	everyTrialOnce(t, runs, 2, 2)
	for _, r := range runs {
		if failed := r.Status != result.Complete; failed != (r.Sweep.Cell["message-size"] == "2K") {
			t.Errorf("cell %v: %s", r.Sweep.Cell, r.Status)
		}
	}
	if b, _ := os.ReadFile(seen); strings.Count(string(b), "1K\n") != 2 || strings.Count(string(b), "2K\n") != 2 {
		t.Errorf("the hook saw %q", b)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a label was run by a shell")
	}
}

func TestSweepDryRun(t *testing.T) {
	t.Parallel()
	p := start(t, place{}, "sweep", "--preset", "splice-mtu", "--trials", "7", "-d", "0.2", "--dry-run")
	if p.status() != 0 {
		t.Fatalf("status %d: %s", p.status(), &p.stderr)
	}
	out := p.stdout.String()
	if !strings.Contains(out, "47  mtu=61492") || !strings.Contains(out, "48 cells, 7 trials each, interleaved: at least 1m24s") {
		t.Errorf("%s", out)
	}
}

// regression sweeps in a lab of two ends until compare finds that b of an axis is
// slower than a, and returns the folder of the trials. A busy machine hides it
// among few trials, and one whose backlog overflows makes some fail: then another
// sweep adds more.
func regression(t *testing.T, axis, a, b string, compare []string, flags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const most = 4
	for n := 1; ; n++ {
		p := start(t, place{}, append([]string{"sweep", "--lab", "veth", "--congestion", "cubic", "--warmup", "0.1", "-o", filepath.Join(dir, fmt.Sprint(n, ".jsonl"))}, flags...)...)
		if p.status() != 0 && !strings.Contains(p.stderr.String(), " trials failed: client: no data arrived inside the window") {
			t.Fatalf("status %d: %s", p.status(), &p.stderr)
		}
		c := start(t, place{}, append([]string{"compare", "--a", axis + "=" + a, "--b", axis + "=" + b, dir}, compare...)...)
		if c.status() == 1 {
			return dir
		}
		if c.status() != 125 || n == most {
			t.Fatalf("after %d sweeps status %d\n%s%s", n, c.status(), &c.stdout, &c.stderr)
		}
	}
}

// A difference made on purpose is found, and none where there is none.
func TestSweepAndCompare(t *testing.T) {
	needsLab(t)
	dir := regression(t, "link-rate", "1Gbit", "950Mbit", nil, "--axis", "link-rate=1Gbit,950Mbit,1000Mbit", "--trials", "8", "--seed", "7", "-d", "0.3")
	// Equal sides are called different by chance in alpha of all tests.
	c := start(t, place{}, "compare", "--a", "link-rate=1Gbit", "--b", "link-rate=1000Mbit", "--alpha", "0.001", dir)
	if s := c.status(); s != 0 && s != 125 || strings.Contains(c.stdout.String(), "verdict  improvement") || !strings.Contains(c.stdout.String(), "verdict  ") {
		t.Errorf("equal sides: status %d\n%s%s", s, &c.stdout, &c.stderr)
	}
}

// NODELAY costs small messages much, which six trials of each show.
func TestSweepNodelay(t *testing.T) {
	needsLab(t)
	regression(t, "nodelay", "off", "on", []string{"--metric", "bytes-per-segment"}, "--axis", "nodelay=off,on", "-m", "256", "--trials", "6", "-d", "0.2")
}

// A command in a lab finds a server there, which serves netperf's clients, too; its
// exit status is the lab's.
func TestLabCommand(t *testing.T) {
	t.Parallel()
	needsLab(t)
	p := start(t, place{}, "lab", "--set", "mtu=1400", "--", "sh", "-c", gperf+" client -d 0.05 -J $GPERF_SERVER; exit 42")
	if p.status() != 42 {
		t.Fatalf("status %d: %s", p.status(), &p.stderr)
	}
	var r result.Run
	if err := json.Unmarshal([]byte(p.stdout.String()), &r); err != nil || r.Status != result.Complete {
		t.Errorf("%v: %s %s", err, &p.stdout, &p.stderr)
	}
	p = start(t, place{}, "lab", "--lab", "loopback", "--", gperf, "netperf", "-l", "1", "-P", "0", "-v", "0")
	if p.status() != 0 || p.stderr.String() != "" {
		t.Errorf("status %d: %s %s", p.status(), &p.stdout, &p.stderr)
	}
	for _, args := range [][]string{{"lab"}, {"lab", "--", "no-such-program"}, {"lab", "--set", "mtu", "--", "true"}, {"lab", "--set", "mtu=-1", "--", "true"}, {"lab", "--lab", "mesh", "--", "true"}} {
		if p := start(t, place{}, args...); p.status() != 2 || strings.Count(p.stderr.String(), "\n") != 1 {
			t.Errorf("%v: status %d: %s", args, p.status(), &p.stderr)
		}
	}
}
