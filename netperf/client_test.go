package netperf

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/netperf/options"
	"gperf/netperf/wire"
	"gperf/plan"
	"gperf/result"
	"gperf/server"
)

// A fakeServer is the test itself as netserver.
type fakeServer struct {
	t    testing.TB
	l    net.Listener
	done chan struct{}
}

// fake plays a part on the first connection to a port of host.
func fake(t testing.TB, host string, play func(c *caller)) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skip("needs ", host, ": ", err)
	}
	f := &fakeServer{t, l, make(chan struct{})}
	go func() {
		defer close(f.done)
		conn, err := l.Accept()
		if err != nil {
			return // nobody came
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		play(&caller{t, conn})
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-f.done
	})
	return f
}

// A printed run is what a client left behind.
type printed struct {
	Status         int
	Stdout, Stderr string
}

// netperf runs a client against the server. edit may change it before.
func (f *fakeServer) netperf(edit func(*Client), args ...string) printed {
	f.t.Helper()
	port := f.l.Addr().(*net.TCPAddr).Port
	return runClient(f.t, edit, append([]string{"-p", strconv.Itoa(port)}, args...)...)
}

func runClient(t testing.TB, edit func(*Client), args ...string) printed {
	t.Helper()
	o, err := options.ParseNetperf(append([]string{"netperf"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := &Client{Options: o, Stdout: &stdout, Stderr: &stderr}
	if edit != nil {
		edit(c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return printed{c.Run(ctx), stdout.String(), stderr.String()}
}

// A request that a real client has sent is what this one sends, byte for byte, when
// it gets the same command line.
func TestRequestsAsNetperf(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("wire/testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "classic_") || strings.HasPrefix(name, "v260_client") || strings.HasPrefix(name, "passphrase_") {
			continue // other programs
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		var args []string
		var want []wire.Message
		for i, line := range lines {
			if words := strings.Fields(line); args == nil && len(words) > 2 && words[0] == "#" && words[1] == "netperf" && strings.HasPrefix(words[2], "-") {
				args = words[2:]
			}
			if strings.HasPrefix(line, "request ") && len(want) < 2 {
				var m wire.Message
				if _, err := hex.Decode(m[:], []byte(lines[i+1])); err != nil {
					t.Fatal(err)
				}
				if want = append(want, m); m.Type() != wire.TypePassphrase {
					break
				}
			}
		}
		if args == nil || want == nil {
			t.Errorf("%s: no command line, or no request", name)
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := "127.0.0.1"
			if strings.Contains(strings.Join(args, " "), "-6 ") {
				host = "::1"
			}
			got := make([]wire.Message, len(want))
			f := fake(t, host, func(c *caller) {
				for i := range got {
					got[i] = *c.hear()
				}
				c.say(wire.New(0, int32(unix.EPERM)))
			})
			ran := f.netperf(nil, args...)
			<-f.done
			if !strings.HasSuffix(ran.Stderr, "Operation not permitted\n") && name != "rem_cpu_calibrate.txt" {
				t.Errorf("%+v", ran)
			}
			for i := range want {
				const netperfPort, netperfIP, netserverIP = 108, 120, 136
				if strings.Contains(strings.Join(args, " "), " -L ") {
					// 2.7.1 doesn't bind TCP sockets for it, and so doesn't tell.
					copy(want[i][netperfIP:netserverIP], got[i][netperfIP:netserverIP])
				}
				if want[i].Type() == wire.TypeOmni && binary.BigEndian.Uint32(want[i][netperfPort:]) != 0 {
					clear(want[i][netperfPort:][:4]) // which 2.7.0 binds for TCP too
					clear(got[i][netperfPort:][:4])
				}
				if diff := cmp.Diff(hex.Dump(want[i][:]), hex.Dump(got[i][:])); diff != "" {
					t.Errorf("%v (-want +got):\n%s", args, diff)
				}
			}
		})
	}
	if tried < 30 {
		t.Errorf("only %d", tried)
	}
}

// What a server that fails looks like to netperf's user.
func TestServerFails(t *testing.T) {
	t.Parallel()
	partly := func(n int) func(*caller) {
		return func(c *caller) {
			c.hear()
			_, _ = c.Write(make([]byte, n))
		}
	}
	errno := func(n int32) func(*caller) {
		return func(c *caller) {
			c.hear()
			c.say(wire.New(wire.TypeOmniResponse, n))
		}
	}
	offer := func(port uint32) func(*caller) {
		return func(c *caller) {
			c.hear()
			m, _ := wire.OmniResponse{DataPort: port}.Encode()
			c.say(m)
		}
	}
	for _, tt := range []struct {
		name string
		args []string
		play func(*caller)
		want printed
	}{
		{"errno", nil, errno(int32(unix.EACCES)), printed{255, "netperf: remote error 13", "Permission denied\n"}},
		{"errno of a classic test", []string{"-t", "TCP_CC"}, errno(int32(unix.EADDRINUSE)), printed{1, "netperf: remote error 98", "Address already in use\n"}},
		{"errno of TCP_MSS", []string{"-t", "TCP_MSS"}, errno(int32(unix.EPERM)), printed{1, "netperf: remote error 1", "Operation not permitted\n"}},
		{"errno of REM_CPU", []string{"-t", "REM_CPU"}, errno(int32(unix.EIO)), printed{1, "netperf: remote error 5", "Input/output error\n"}},
		{"no errno of ours", nil, errno(998), printed{255, "netperf: remote error 998", "Unknown error 998\n"}},
		{"negative errno", nil, errno(-5), printed{255, "netperf: remote error -5", "Unknown error -5\n"}},
		{"short answer", nil, partly(100), printed{1, "", "recv_response: partial response received: 100 bytes\n"}},
		{"one byte less", nil, partly(wire.Size - 1), printed{1, "", "recv_response: partial response received: 655 bytes\n"}},
		{"close", nil, partly(0), printed{1, "", "recv_response: partial response received: 0 bytes\n"}},
		{"close at once", []string{"-t", "REM_CPU"}, func(c *caller) { c.hear() }, printed{1, "", "recv_response: partial response received: 0 bytes\n"}},
		{"reset", nil, func(c *caller) {
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			c.hear()
		}, printed{1, "", "recv_response: Connection reset by peer\n"}},
		{"no port", nil, offer(0), printed{1, "", "netperf: the server offers no port\n"}},
		{"no possible port", nil, offer(1<<16 + 12865), printed{1, "", "netperf: the server offers no port\n"}},
		{"silence", nil, func(c *caller) { _, _ = io.Copy(io.Discard, c) },
			printed{1, "recv_response_timed_n: no response received. errno 0 counter 0\n", ""}},
		{"half an answer and silence", nil, func(c *caller) {
			_, _ = c.Write(make([]byte, 100))
			_, _ = io.Copy(io.Discard, c)
		}, printed{1, "", "recv_response: partial response received: 100 bytes\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := fake(t, "127.0.0.1", tt.play)
			wait := patience
			if strings.Contains(tt.name, "silence") {
				wait = 20 * time.Millisecond
			}
			got := f.netperf(func(c *Client) { c.answerWait = wait }, append([]string{"-H", "127.0.0.1", "-P", "0"}, tt.args...)...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A data port that nobody listens on, and no netserver at all.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	f := fake(t, "127.0.0.1", func(c *caller) {
		c.hear()
		m, _ := wire.OmniResponse{DataPort: uint32(port)}.Encode()
		c.say(m)
		c.gone()
	})
	got := f.netperf(nil, "-H", "127.0.0.1", "-P", "0")
	if diff := cmp.Diff(printed{1, "", "netperf: send_omni: connect_data_socket failed: Connection refused\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = runClient(t, nil, "-H", "127.0.0.1", "-p", strconv.Itoa(port))
	want := printed{255, "establish control: are you sure there is a netserver listening on 127.0.0.1 at port " + strconv.Itoa(port) + "?\n" +
		"establish_control could not establish the control connection from 0.0.0.0 port 0 address family AF_UNSPEC to 127.0.0.1 port " +
		strconv.Itoa(port) + " address family AF_INET\n", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// dataPort listens for a fake server's data connection.
func dataPort(t testing.TB) (l net.Listener, port uint32) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, uint32(l.Addr().(*net.TCPAddr).Port)
}

// accept takes the data connection in.
func accept(t testing.TB, l net.Listener) net.Conn {
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	c, err := l.Accept()
	if err != nil {
		t.Error(err)
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// echo answers requests of one byte until there are no more.
func echo(t testing.TB, l net.Listener) (n uint32) {
	c := accept(t, l)
	if c == nil {
		return 0
	}
	defer c.Close()
	var b [1]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			return n
		}
		if _, err := c.Write(b[:]); err != nil {
			return n
		}
		n++
	}
}

// What a real server leaves in fields that it doesn't set is not taken for a word.
func TestJunkIsIgnored(t *testing.T) {
	t.Parallel()
	l, port := dataPort(t)
	nan := float32(0)
	nan /= nan
	f := fake(t, "127.0.0.1", func(c *caller) {
		c.hear()
		answer, err := wire.OmniResponse{
			RecvBufSize: 11111, SendBufSize: 22222, DataPort: port, SocketPrio: -1, SocketTOS: -1,
			Flags: 0x65726462 &^ 1, CPURate: nan, TestLength: 0x65442c64, CPUMHz: 0xdeadbeef, SecurityInfo: 0xdeadbeef,
			SystemModel: "old words", CPUModel: "more of them", SecurityString: "and more",
		}.Encode()
		if err != nil {
			c.t.Error(err)
		}
		answer[0] = 0x62
		c.say(answer)
		n := echo(c.t, l)
		results, err := wire.OmniResults{
			BytesReceived: uint64(n), BytesSent: uint64(n), RecvCalls: n, SendCalls: n, TransReceived: n, RecvBufSize: 11111, SendBufSize: 22222,
			FailedSends: 0xdeadbeef, ElapsedSeconds: nan, CPUPercent: nan, CPUPercentUser: -1e30, CPUPercentSoftIRQ: nan, ServiceDemand: nan,
			CPUMethod: 77, NumCPUs: 0xdeadbeef, PeakCPUID: -99, PeakCPUPercent: 1e30, TransportRetrans: 3, CongControl: "test",
			IfName: "eth9", Driver: "junk",
		}.Encode(wire.Layout27)
		if err != nil {
			c.t.Error(err)
		}
		copy(results[:4], []byte{0x62, 0, 0, 0})
		c.say(results)
	})
	got := f.netperf(nil, "-H", "127.0.0.1", "-P", "0", "-t", "TCP_RR", "-l", "-7", "--",
		"-k", "REMOTE_CPU_UTIL,REMOTE_CPU_COUNT,REMOTE_CPU_METHOD,REMOTE_CPU_PEAK_UTIL,REMOTE_CPU_PERCENT_USER,REMOTE_SD,RSR_SIZE,RSS_SIZE,REMOTE_RECV_CALLS,REMOTE_TRANSPORT_RETRANS,REMOTE_CONG_CONTROL,REMOTE_NODELAY")
	want := `REMOTE_CPU_UTIL=-1.00
REMOTE_CPU_COUNT=0
REMOTE_CPU_METHOD=U
REMOTE_CPU_PEAK_UTIL=0.00
REMOTE_CPU_PERCENT_USER=0.00
REMOTE_SD=-1.000
RSR_SIZE=11111
RSS_SIZE=22222
REMOTE_RECV_CALLS=7
REMOTE_TRANSPORT_RETRANS=3
REMOTE_CONG_CONTROL=test
REMOTE_NODELAY=0
`
	if diff := cmp.Diff(want, got.Stdout); diff != "" || got.Status != 0 || got.Stderr != "" {
		t.Errorf("%d, %q, (-want +got):\n%s", got.Status, got.Stderr, diff)
	}
}

// A server that fails in the test says so in the place of its results, and one
// that never says anything ends the wait.
func TestResultsFail(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]printed{
		"errno":   {255, "netperf: remote error 104", "Connection reset by peer\n"},
		"silence": {1, "recv_response_timed_n: no response received. errno 0 counter 0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, port := dataPort(t)
			f := fake(t, "127.0.0.1", func(c *caller) {
				c.hear()
				m, _ := wire.OmniResponse{DataPort: port}.Encode()
				c.say(m)
				echo(c.t, l)
				if name == "errno" {
					c.say(wire.New(0x62000000, int32(unix.ECONNRESET)))
				}
				c.gone()
			})
			got := f.netperf(func(c *Client) {
				if name == "silence" {
					c.answerWait = 100 * time.Millisecond
				}
			}, "-H", "127.0.0.1", "-P", "0", "-t", "TCP_RR", "-l", "-3")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A passphrase goes first, without waiting for an answer, and is cut as netperf
// cuts it. The CPU for the server stands in every message but that one.
func TestPassphraseIsSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("sesame ", 100)
	f := fake(t, "127.0.0.1", func(c *caller) {
		text, err := wire.ParsePassphrase(c.hear())
		if err != nil || text != long[:647] {
			c.t.Errorf("%q, %v", text, err)
		}
		if m := c.hear(); m.Type() != wire.TypeOmni || m.Second() != 3 {
			c.t.Errorf("type %d, CPU %d", m.Type(), m.Second())
		}
	})
	f.netperf(nil, "-H", "127.0.0.1", "-Z", long, "-T", "0,3")
	<-f.done
}

// Stopping ends a timed test early; its results are awaited and printed.
func TestStop(t *testing.T) {
	t.Parallel()
	l, port := dataPort(t)
	stop := make(chan struct{})
	f := fake(t, "127.0.0.1", func(c *caller) {
		c.hear()
		m, _ := wire.OmniResponse{DataPort: port}.Encode()
		c.say(m)
		data := accept(c.t, l)
		if data == nil {
			return
		}
		defer data.Close()
		if _, err := io.ReadFull(data, make([]byte, 1<<20)); err != nil {
			c.t.Error(err)
		}
		close(stop)
		n, err := io.Copy(io.Discard, data)
		if err != nil {
			c.t.Error(err)
		}
		_ = data.Close()
		results, _ := wire.OmniResults{BytesReceived: uint64(n + 1<<20)}.Encode(wire.Layout27)
		c.say(results)
	})
	got := f.netperf(func(c *Client) { c.Stop = stop }, "-H", "127.0.0.1", "-P", "0", "-l", "3600", "--", "-k", "REMOTE_BYTES_RECVD,LOCAL_BYTES_SENT")
	keys := map[string]string{}
	for line := range strings.Lines(got.Stdout) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			keys[key] = value
		}
	}
	if got.Status != 0 || got.Stderr != "" || keys["REMOTE_BYTES_RECVD"] == "" || keys["REMOTE_BYTES_RECVD"] != keys["LOCAL_BYTES_SENT"] {
		t.Errorf("%+v", got)
	}
}

// TCP_INFO is shown on standard error, in pairs, for tests that have a connection.
func TestDumpTCPInfo(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	names := []string{
		"tcpi_rto", "tcpi_ato", "tcpi_pmtu", "tcpi_rcv_ssthresh", "tcpi_rtt", "tcpi_rttvar", "tcpi_snd_ssthresh", "tcpi_snd_cwnd",
		"tcpi_reordering", "tcpi_total_retrans",
	}
	for test, want := range map[string][]string{"TCP_STREAM": names, "TCP_RR": names, "TCP_CRR": nil, "UDP_RR": nil} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			got := runClient(t, func(c *Client) { c.DumpTCPInfo = true }, "-H", "127.0.0.1", "-p", strconv.Itoa(int(addr.Port())), "-t", test, "-l", "-20")
			var seen []string
			values := map[string]int{}
			for line := range strings.Lines(got.Stderr) {
				words := strings.Fields(line)
				if !strings.HasPrefix(line, "tcpi") || len(words)%2 != 0 {
					t.Fatalf("%q", line)
				}
				for i := 0; i < len(words); i += 2 {
					n, err := strconv.Atoi(words[i+1])
					if err != nil || n < 0 {
						t.Errorf("%s %s", words[i], words[i+1])
					}
					seen = append(seen, words[i])
					values[words[i]] = n
				}
			}
			if diff := cmp.Diff(want, seen); diff != "" || got.Status != 0 {
				t.Errorf("%d, (-want +got):\n%s", got.Status, diff)
			}
			if want != nil && (values["tcpi_rto"] == 0 || values["tcpi_rtt"] == 0 || values["tcpi_pmtu"] == 0) {
				t.Errorf("%v", values)
			}
		})
	}
}

// A type of service of 0 is asked for like any other, and told.
func TestTOS(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	for option, want := range map[string][2]string{
		"cs0":       {"0x00", "0x00"},
		"ef,0x20":   {"0xb8", "0x20"},
		",af11":     {"0xffffffff", "0x28"},
		"lowdelay,": {"0x10", "0xffffffff"},
	} {
		for _, test := range []string{"TCP_RR", "UDP_RR"} {
			got := runClient(t, nil, "-H", "127.0.0.1", "-p", strconv.Itoa(int(addr.Port())), "-P", "0", "-t", test, "-l", "-1", "-Y", option,
				"--", "-k", "LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS")
			if text := "LOCAL_SOCKET_TOS=" + want[0] + "\nREMOTE_SOCKET_TOS=" + want[1] + "\n"; got != (printed{0, text, ""}) {
				t.Errorf("%s %s: %+v", test, option, got)
			}
		}
	}
}

// An interval in which nothing happened is part of the next one.
func TestInterimResults(t *testing.T) {
	t.Parallel()
	o, err := options.ParseNetperf([]string{"netperf", "-D", "-0.1", "-t", "UDP_RR", "--", "-k"})
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	c := &Client{Options: o, Stdout: &stdout}
	show := c.interimPrinter(&flow.Config{Role: plan.Requester, RequestSize: 1, ResponseSize: 1})
	for tick, n := range []uint64{0, 10, 10, 10, 40, 45} {
		show(result.Sample{Tick: tick, AtNs: int64(tick) * 1e8, Transactions: []uint64{n}})
	}
	show(result.Sample{Tick: result.LastTick, AtNs: 55e7, Transactions: []uint64{45}})
	var got []string
	for line := range strings.Lines(stdout.String()) {
		if !strings.HasPrefix(line, "NETPERF_ENDING") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"NETPERF_INTERIM_RESULT[0]=100.00", "NETPERF_UNITS[0]=Trans/s", "NETPERF_INTERVAL[0]=0.100",
		"NETPERF_INTERIM_RESULT[1]=100.00", "NETPERF_UNITS[1]=Trans/s", "NETPERF_INTERVAL[1]=0.300",
		"NETPERF_INTERIM_RESULT[2]=50.00", "NETPERF_UNITS[2]=Trans/s", "NETPERF_INTERVAL[2]=0.100",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// -d says which addresses a name has, which port the server offers and which
// options have no effect: words that scripts look for among them.
func TestDebug(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	got := runClient(t, nil, "-d", "-H", "127.0.0.1", "-p", strconv.Itoa(int(addr.Port())), "-P", "0", "-v", "0", "-t", "TCP_RR", "-l", "-1", "-n", "2")
	for _, words := range []string{"complete_addrinfo", "remote port is ", "without effect: -n"} {
		if !strings.Contains(got.Stdout, words) {
			t.Errorf("%q is not in %q", words, got.Stdout)
		}
	}
	if got.Status != 0 {
		t.Errorf("status %d, stderr %q", got.Status, got.Stderr)
	}
}
