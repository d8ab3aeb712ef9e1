package acceptance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// netperf makes a run of gperf as netperf against s, which serves netperf's
// clients as well as its own.
func (s *server) netperf(args ...string) *command {
	s.t.Helper()
	return newCommand(s.t, nil, append([]string{"netperf", "-H", "127.0.0.1", "-p", fmt.Sprint(s.addr.Port())}, args...)...)
}

// What programs that drive netperf take out of its output, and how, they find.
func TestNetperfScripts(t *testing.T) {
	s := serve(t, place{})
	// fields are the words of a line, if they are that many; the last is a rate.
	fields := func(line, count int) func(*testing.T, *ran) {
		return func(t *testing.T, r *ran) {
			if words := strings.Fields(r.lines()[line]); len(words) != count {
				t.Errorf("line %d has not %d fields: %q", line+1, count, words)
			}
			if r.field(t, line) <= 0 {
				t.Errorf("no rate in line %d: %s", line+1, r.stdout)
			}
		}
	}
	csv := func(headings ...string) func(*testing.T, *ran) {
		return func(t *testing.T, r *ran) {
			lines := r.lines()
			if len(lines) != 3 {
				t.Fatalf("not banner, headings and a row: %q", lines)
			}
			values := strings.Split(lines[2], ",")
			if got := strings.Split(lines[1], ","); strings.Join(got, ",") != strings.Join(headings, ",") || len(values) != len(got) {
				t.Fatalf("headings %q of values %q", got, values)
			}
			for i, h := range headings {
				if strings.HasPrefix(h, "Throughput") && h != "Throughput Units" && parseNumber(t, values[i]) <= 0 {
					t.Errorf("%s is %s", h, values[i])
				}
			}
		}
	}
	keys := func(names ...string) func(*testing.T, *ran) {
		return func(t *testing.T, r *ran) {
			var got []string
			for _, line := range r.lines() {
				if key, _, ok := strings.Cut(line, "="); ok && !strings.Contains(line, " TEST from ") {
					got = append(got, key)
				}
			}
			if strings.Join(got, ",") != strings.Join(names, ",") {
				t.Errorf("keys %q, want %q", got, names)
			}
			r.figures(t).positive(t, "THROUGHPUT")
		}
	}
	tests := []struct {
		name, args string
		status     int
		check      func(*testing.T, *ran)
	}{
		{"stream's table", "-l 1 -t TCP_STREAM", 0, fields(6, 5)},
		{"backward stream's table", "-l 1 -t TCP_MAERTS -f k", 0, fields(6, 5)},
		{"stream's table with CPU", "-l 1 -c -C", 0, func(t *testing.T, r *ran) {
			words := strings.Fields(r.lines()[6])
			if len(words) != 9 || parseNumber(t, words[4]) <= 0 || !strings.Contains(r.stdout, "% S") {
				t.Error(r.stdout)
			}
		}},
		{"transactions' table", "-l 1 -t TCP_RR", 0, func(t *testing.T, r *ran) {
			fields(6, 6)(t, r)
			if lines := r.lines(); len(lines) != 8 || len(strings.Fields(lines[7])) != 2 {
				t.Errorf("no second row of two: %q", lines)
			}
		}},
		{"datagrams' table", "-l 1 -t UDP_STREAM -- -m 1024", 0, func(t *testing.T, r *ran) {
			fields(5, 6)(t, r)
			fields(6, 4)(t, r)
		}},
		{"one number", "-P 0 -v 0 -l 1 -t TCP_STREAM", 0, fields(0, 1)},
		{"one number of transactions", "-P 0 -v 0 -l 1 -t UDP_RR", 0, fields(0, 1)},
		{"keyval by name", "-l 1 -- -k throughput,THROUGHPUT_UNITS,Elapsed_Time", 0, keys("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME")},
		{"keyval with blanks", "-l 1 -P 0 -- -k THROUGHPUT, CONFIDENCE_LEVEL", 0, keys("THROUGHPUT")},
		{"keyval without the unknown", "-l 1 -- -k NO_SUCH,THROUGHPUT,NOR_THIS,PROTOCOL", 0, keys("THROUGHPUT", "PROTOCOL")},
		{"keyval, silent", "-l 1 -P 0 -v 0 -- -k THROUGHPUT", 0, keys("THROUGHPUT")},
		{"CSV by column", "-l 1 -- -o THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME", 0, csv("Throughput", "Throughput Units", "Elapsed Time (sec)")},
		{"CSV without headings", "-P 0 -l 1 -t TCP_RR -- -o P50_LATENCY,THROUGHPUT", 0, func(t *testing.T, r *ran) {
			if values := strings.Split(strings.TrimSuffix(r.stdout, "\n"), ","); len(values) != 2 || parseNumber(t, values[1]) <= 0 {
				t.Error(r.stdout)
			}
		}},
		{"row that begins with a digit", "-l 1s -t TCP_RR -- -R 1 -o MIN_LATENCY,MEAN_LATENCY,MAX_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,TRANSACTION_RATE,THROUGHPUT,THROUGHPUT_UNITS", 0, func(t *testing.T, r *ran) {
			rows := regexp.MustCompile(`(?m)^[0-9].*$`).FindAllString(r.stdout, -1)
			if len(rows) != 1 || len(strings.Split(rows[0], ",")) != 9 || !strings.HasSuffix(rows[0], ",Trans/s") {
				t.Errorf("%q in %s", rows, r.stdout)
			}
		}},
		{"last line of columns", "-l 1 -t TCP_RR -- -r100,200 -O MIN_LATENCY,P90_LATENCY,P99_LATENCY,THROUGHPUT", 0, func(t *testing.T, r *ran) {
			lines := r.lines()
			fields(len(lines)-1, 4)(t, r)
		}},
		{"words that are no options", "-L 0.0.0.0 AF_INET -l 1 -- -k THROUGHPUT 42424", 0, keys("THROUGHPUT")},
		{"no unit for latency of streams", "-l 1 -- -k RT_LATENCY,THROUGHPUT,LOCAL_TRANSPORT_RETRANS", 0, func(t *testing.T, r *ran) {
			f := r.figures(t)
			f.are(t, figures{"RT_LATENCY": "-1.000"})
			if f.number(t, "LOCAL_TRANSPORT_RETRANS") < 0 {
				t.Error(r.stdout)
			}
		}},
		{"a round trip without its pauses", "-l 1 -b 10 -w 100 -t TCP_RR -- -k THROUGHPUT,RT_LATENCY", 0, func(t *testing.T, r *ran) {
			f := r.figures(t)
			f.positive(t, "RT_LATENCY")
			if latency, spacing := f.number(t, "RT_LATENCY"), 1e6/f.number(t, "THROUGHPUT"); latency > 0.99*spacing { // a busy machine sleeps little, but some
				t.Errorf("%g us of latency, with a transaction every %g us", latency, spacing)
			}
		}},
		{"no retransmissions of UDP", "-l 1 -t UDP_STREAM -- -m 1024 -R 1 -k LOCAL_TRANSPORT_RETRANS,REMOTE_RECV_CALLS,LOCAL_SEND_CALLS", 0, func(t *testing.T, r *ran) {
			f := r.figures(t)
			f.are(t, figures{"LOCAL_TRANSPORT_RETRANS": "-1"})
			f.positive(t, "REMOTE_RECV_CALLS", "LOCAL_SEND_CALLS")
		}},
		{"the probe for interim results", "-l 1 -D -0.2 -- -e 1", 0, func(t *testing.T, r *ran) {
			if n := strings.Count(r.stdout, "Interim result:"); n < 2 {
				t.Errorf("%d interim results in %s", n, r.stdout)
			}
		}},
		{"the version", "-V", 0, func(t *testing.T, r *ran) {
			if r.stdout != "Netperf version 2.7.1\n" {
				t.Error(r.stdout)
			}
		}},
		{"debug output", "-d -l 1 -- -k THROUGHPUT", 0, func(t *testing.T, r *ran) {
			for _, words := range []string{"remote port is ", "complete_addrinfo"} {
				if !strings.Contains(r.stdout, words) {
					t.Errorf("no %q in %s", words, r.stdout)
				}
			}
		}},
	}
	commands := make([]*command, len(tests))
	for i, tt := range tests {
		commands[i] = s.netperf(strings.Fields(tt.args)...)
	}
	for i, r := range runAll(commands) {
		t.Run(tests[i].name, func(t *testing.T) {
			r.ended(t, tests[i].status)
			if r.stderr != "" && tests[i].name != "debug output" { // which has warnings there
				t.Errorf("stderr: %s", r.stderr)
			}
			tests[i].check(t, r)
		})
	}
}

// Without a server the words are on standard output, where scripts look for them.
func TestNetperfRefused(t *testing.T) {
	r := newCommand(t, netperfNS(t), "netperf", "-H", "127.0.0.1", "-l", "1").run()
	r.ended(t, 255)
	lines := r.lines()
	if len(lines) != 2 || r.stderr != "" ||
		lines[0] != "establish control: are you sure there is a netserver listening on 127.0.0.1 at port 12865?" ||
		!strings.HasPrefix(lines[1], "establish_control could not establish the control connection from") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
}

// interimLines are the forms of interim results, by the option of the output.
var interimLines = map[string]*regexp.Regexp{
	"":   regexp.MustCompile(`^Interim result: +([\d.]+) (\S+/s) over ([\d.]+) seconds ending at (\d+\.\d{3})$`),
	"-o": regexp.MustCompile(`^ *([\d.]+),(\S+/s),([\d.]+),(\d+\.\d{3})$`),
	"-k": regexp.MustCompile(`^NETPERF_(INTERIM_RESULT|UNITS|INTERVAL|ENDING)\[\d+\]=(\S+)$`),
}

// Interim results come while the test runs: a test of which a reader needs three
// to end it would else go on for long. A signal ends it with its results.
func TestNetperfLive(t *testing.T) {
	s := serve(t, place{})
	for _, tt := range []struct {
		test, style string // of output: "" or an option
		signal      syscall.Signal
	}{
		{"TCP_STREAM", "", syscall.SIGINT},
		{"TCP_MAERTS", "", syscall.SIGALRM},
		{"TCP_RR", "-k", syscall.SIGALRM},
		{"UDP_RR", "-o", syscall.SIGINT},
		{"TCP_CRR", "-k", syscall.SIGINT},
		{"UDP_STREAM", "-o", syscall.SIGINT},
		{"TCP_SENDFILE", "", syscall.SIGINT},
	} {
		t.Run(strings.Join([]string{tt.test, tt.style, tt.signal.String()}, " "), func(t *testing.T) {
			args := []string{"-l", "60", "-D", "-0.1", "-t", tt.test}
			if tt.style != "" {
				args = append(args, "--", tt.style, "THROUGHPUT,ELAPSED_TIME")
			}
			c := s.netperf(args...)
			c.cmd.Stdout = nil
			out, err := c.cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := c.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
			const enough = 12 // lines, of which -k has four for a result
			var lines []string
			interims, before := 0, 0.0
			for scanner := bufio.NewScanner(out); scanner.Scan(); {
				lines = append(lines, scanner.Text())
				if m := interimLines[tt.style].FindStringSubmatch(scanner.Text()); m != nil {
					if end := m[len(m)-1]; len(m) == 5 {
						if parseNumber(t, end) < before { // the last may be next to nothing
							t.Errorf("an interval ended at %s, the one before at %g", end, before)
						}
						before = parseNumber(t, end)
					}
					if interims++; interims == enough/map[bool]int{true: 1, false: 4}[tt.style == "-k"] {
						_ = c.cmd.Process.Signal(tt.signal)
					}
				}
			}
			err = c.cmd.Wait()
			late.Stop()
			if err != nil || c.stderr.String() != "" {
				t.Fatalf("%v; %s\n%s", err, &c.stderr, strings.Join(lines, "\n"))
			}
			if !strings.Contains(lines[0], " TEST from ") {
				t.Errorf("the banner isn't first: %q", lines[0])
			}
			last := lines[len(lines)-1]
			switch tt.style {
			case "-k":
				last = strings.TrimPrefix(last, "ELAPSED_TIME=")
			case "-o":
				_, last, _ = strings.Cut(last, ",")
			default:
				words := strings.Fields(last)
				last = words[len(words)-2]
			}
			if elapsed := parseNumber(t, last); elapsed <= 0 || elapsed > time.Since(begun).Seconds()+0.01 {
				t.Errorf("%g seconds elapsed of a test that took %v", elapsed, time.Since(begun))
			}
		})
	}
}

// A signal also ends a wait before the test (-s), and a test without an end of its
// own.
func TestNetperfStopped(t *testing.T) {
	s := serve(t, place{})
	for _, test := range []string{"TCP_STREAM", "TCP_RR", "TCP_CRR", "TCP_CC", "UDP_STREAM", "UDP_RR"} {
		for _, args := range [][]string{{"-s", "60"}, {"-l", "0"}} {
			t.Run(test+" "+args[0], func(t *testing.T) {
				c := s.netperf(append([]string{"-t", test}, args...)...)
				if err := c.cmd.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the banner", func() bool { return c.stdout.lines() > 0 })
				late := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
				_ = c.cmd.Process.Signal(syscall.SIGINT)
				err := c.cmd.Wait()
				late.Stop()
				if err != nil || c.stderr.String() != "" || c.stdout.lines() < 5 {
					t.Errorf("%v\nstdout: %s\nstderr: %s", err, &c.stdout, &c.stderr)
				}
			})
		}
	}
}

// What is sent is what the fill file has, over and over.
func TestNetperfFillFile(t *testing.T) {
	content := []byte("0123456789abcdefghijklmnopqrstuvwxyz\n")
	file := filepath.Join(t.TempDir(), "fill")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []string{"TCP_STREAM", "TCP_SENDFILE"} {
		t.Run(test, func(t *testing.T) {
			ns := netperfNS(t)
			l := listenIn(t, ns, "127.0.0.1:0")
			got := make(chan []byte, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					got <- nil
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				b, _ := io.ReadAll(c)
				_ = c.Close()
				got <- b
			}()
			const count = 100_000
			_, port, _ := strings.Cut(l.Addr().String(), ":")
			r := newCommand(t, ns, "netperf", "-H", "127.0.0.1", "-N", "-F", file, "-t", test, "-l", fmt.Sprint(-count), "--", "-P", "0,"+port, "-m", "3700").run()
			r.good(t)
			_ = l.Close()
			want := bytes.Repeat(content, count/len(content)+1)[:count]
			if b := <-got; !bytes.Equal(b, want) {
				t.Errorf("%d bytes of %d, which begin with %q and end with %q", len(b), count, b[:min(len(b), 80)], b[max(0, len(b)-80):])
			}
		})
	}
}

// A burst that the sockets have no room for can't be outstanding at once: netperf
// says so, and doesn't wait for ever. One that fits is.
func TestNetperfBurst(t *testing.T) {
	s := serve(t, place{})
	tests := []struct {
		args string
		fits bool
	}{
		{"-t TCP_RR -l 1 -- -b 100000 -r 64K,64K -s 8K -S 8K", false},
		{"-t TCP_RR -l 1 -- -b 1000 -r 64K,64K", false},
		{"-t TCP_RR -l 1 -- -b 16 -r 1K,1K -s 64K -S 64K", true},
		{"-t TCP_RR -l -2000 -- -b 64 -D", true},
		{"-t TCP_RR -l 1 -- -b 4 -r 256K,256K -s 4M -S 4M", true},
		{"-t UDP_RR -l 1 -- -b 16", true},
	}
	commands := make([]*command, len(tests))
	for i, tt := range tests {
		commands[i] = s.netperf(strings.Fields(tt.args)...)
	}
	for i, r := range runAll(commands) {
		t.Run(tests[i].args, func(t *testing.T) {
			if tests[i].fits {
				r.ended(t, 0)
				if r.field(t, 6) <= 0 {
					t.Error(r.stdout)
				}
				return
			}
			r.ended(t, 255)
			if !strings.Contains(r.stderr, "send_omni: initial burst data send error: ") || len(r.lines()) != 1 {
				t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
			}
		})
	}
}
