package acceptance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/internal/netnstest"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/splice"
)

// uneven is a number of bytes that no message, page or pipe divides.
const uneven = 5000003

// moving are the flags for a sender and a receiver, wherever the test type puts
// them.
func moving(test, send, receive string) []string {
	if test == "TCP_MAERTS" {
		return []string{"-t", test, "--send", ":" + send, "--receive", receive + ":"}
	}
	return []string{"-t", test, "--send", send + ":", "--receive", ":" + receive}
}

// ends are the sending and the receiving end of one stream.
func ends(s *result.Stream) (from, to *result.StreamEnd) {
	if s.Direction == plan.ServerToClient {
		return s.Server, s.Client
	}
	return s.Client, s.Server
}

// checkMovers checks that all streams moved as they were asked to, and that the
// movers' own counts agree with the streams'.
func checkMovers(t *testing.T, o *outcome, send, receive string) {
	t.Helper()
	for i := range o.Streams {
		from, to := ends(&o.Streams[i])
		for _, e := range []struct {
			name  string
			m     *result.Mover
			bytes uint64
		}{{send, from.Mover, from.SentBytes}, {receive, to.Mover, to.ReceivedBytes}} {
			if e.m == nil || e.m.Name != e.name || e.m.FellBack {
				t.Errorf("%v: stream %d: asked for %s: %+v", o.args, o.Streams[i].ID, e.name, e.m)
				continue
			}
			if e.name == plan.Write || e.name == plan.Read {
				continue
			}
			if deref(e.m.Bytes) != e.bytes || deref(e.m.Calls) == 0 {
				t.Errorf("%v: stream %d: %s counts %d bytes in %d calls, the stream %d bytes", o.args, o.Streams[i].ID, e.name, deref(e.m.Bytes), deref(e.m.Calls), e.bytes)
			}
		}
	}
}

// Every mover on either end moves exactly what was asked for, in both engines;
// where the receiver sees the bytes, they are the right ones.
func TestMoversAreExact(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	pairs := []struct{ send, receive string }{
		{plan.Write, plan.Discard}, {plan.Write, plan.Splice}, {plan.Sendfile, plan.Splice}, {plan.Splice, plan.Splice},
		{plan.Vmsplice, plan.Discard}, {plan.Zerocopy, plan.Read},
		{plan.Write, plan.Zerocopy}, {plan.Sendfile, plan.Read}, {plan.Splice, plan.Zerocopy}, {plan.Vmsplice, plan.Read},
	}
	for _, p := range pairs {
		for _, test := range []string{"TCP_STREAM", "TCP_MAERTS"} {
			for _, streams := range []int{1, 4} {
				for _, engine := range [][]string{nil, {"--threads", "2"}} {
					args := append(moving(test, p.send, p.receive), "-P", fmt.Sprint(streams), "--bytes", fmt.Sprint(uneven))
					if p.receive == plan.Read || p.receive == plan.Zerocopy {
						args = append(args, "--verify")
					}
					o := s.complete(place{}, append(args, engine...)...)
					checkBytes(t, o, streams, uneven)
					checkMovers(t, o, p.send, p.receive)
				}
			}
		}
	}
}

func TestMoversBothWays(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, tt := range []struct {
		flags       []string
		there, back [2]string // sender and receiver
	}{
		{[]string{"--send", "splice:zerocopy", "--receive", "zerocopy:read", "--verify"}, [2]string{plan.Splice, plan.Read}, [2]string{plan.Zerocopy, plan.Zerocopy}},
		{[]string{"--send", "vmsplice:sendfile", "--receive", "splice:discard", "--threads", "2"}, [2]string{plan.Vmsplice, plan.Discard}, [2]string{plan.Sendfile, plan.Splice}},
	} {
		o := s.complete(place{}, append(tt.flags, "--bidir", "-P", "2", "--bytes", fmt.Sprint(uneven))...)
		for d, f := range o.directions() {
			if deref(f.SentBytes) != uneven || deref(f.ReceivedBytes) != uneven {
				t.Errorf("%v: %s: %d bytes sent, %d received", o.args, d, deref(f.SentBytes), deref(f.ReceivedBytes))
			}
		}
		for i := range o.Streams {
			want := tt.there
			if o.Streams[i].Direction == plan.ServerToClient {
				want = tt.back
			}
			if from, to := ends(&o.Streams[i]); from.Mover.Name != want[0] || to.Mover.Name != want[1] {
				t.Errorf("%v: stream %d, %s: %s to %s", o.args, o.Streams[i].ID, o.Streams[i].Direction, from.Mover.Name, to.Mover.Name)
			}
		}
	}
}

const moverCalls = "%network,close,splice,tee,vmsplice,sendfile,fcntl"

// A moverTrace is what a process did with one data socket and the pipes that go
// with it.
type moverTrace struct {
	socket int
	calls  []*syscallLine // while the socket was open
}

// tracedMovers is traced for movers. Both ends have one stream.
func tracedMovers(t *testing.T, args ...string) (o *outcome, client, srv *moverTrace) {
	t.Helper()
	dir := t.TempDir()
	s := serve(t, place{trace: filepath.Join(dir, "server"), calls: moverCalls}, "--once")
	o = s.complete(place{trace: filepath.Join(dir, "client"), calls: moverCalls}, args...)
	if status := s.status(); status != 0 {
		t.Fatalf("the server's exit status is %d, stderr %q", status, &s.stderr)
	}
	read := func(name string) *moverTrace {
		calls, err := parseStrace(readFile(t, filepath.Join(dir, name)))
		if err != nil {
			t.Fatal(err)
		}
		data := readTrace(t, filepath.Join(dir, name)).data
		if len(data) != 1 {
			t.Fatalf("%s: %d data sockets", name, len(data))
		}
		d := data[0]
		m := &moverTrace{socket: d.fd}
		for _, c := range calls {
			if c.begun >= d.calls[0].ended && c.begun <= d.calls[len(d.calls)-1].begun && !strings.Contains(c.args, `"gperfDT1"`) {
				m.calls = append(m.calls, c)
			}
		}
		return m
	}
	return o, read("client"), read("server")
}

// of are the calls of one name whose ith argument is the socket.
func (m *moverTrace) of(name string, i int) (found []*syscallLine) {
	for _, c := range m.calls {
		if c.name == name && c.arg(i) == strconv.Itoa(m.socket) {
			found = append(found, c)
		}
	}
	return found
}

// with are the calls of one name whose arguments have some words.
func (m *moverTrace) with(name, words string) (found []*syscallLine) {
	for _, c := range m.calls {
		if c.name == name && strings.Contains(c.args, words) {
			found = append(found, c)
		}
	}
	return found
}

// checkCalls checks that calls moved all bytes, that none asks, in the argument
// of that number, for more than most, and how their arguments end ("": anyhow).
func checkCalls(t *testing.T, calls []*syscallLine, length int, flags string, bytes, most int) {
	t.Helper()
	total := 0
	for _, c := range calls {
		if asked, err := strconv.Atoi(c.arg(length)); err != nil || asked > most {
			t.Errorf("asks for more than %d: %v", most, c)
		}
		total += max(c.number(), 0)
		if flags != "" && !strings.HasSuffix(c.args, ", "+flags) {
			t.Errorf("flags are not %s: %v", flags, c)
		}
	}
	if total != bytes {
		t.Errorf("%d bytes in %d calls, not %d: %.5v", total, len(calls), bytes, calls)
	}
}

// strace sees the calls that were asked for, with their sizes and flags, and no
// others move payload.
func TestMoverCalls(t *testing.T) {
	t.Parallel()
	const bytes = 1000003
	total := []string{"--bytes", fmt.Sprint(bytes)}
	t.Run("splice to splice", func(t *testing.T) {
		t.Parallel()
		o, client, srv := tracedMovers(t, append(total, "--send", "splice", "--receive", "splice", "--pipe-size", "100000:30000")...)
		checkCalls(t, client.of("splice", 2), 4, "0", bytes, 1<<20)
		if len(client.of("sendto", 0)) > 0 || len(srv.of("recvfrom", 0)) > 0 {
			t.Error("payload was copied too")
		}
		// Always the whole standing pipe, which holds more than its size if its
		// slots hold more than a page.
		tees := client.with("tee", "")
		if len(tees) == 0 || tees[0].number() < 131072 {
			t.Errorf("tee: %v", tees)
		} else {
			checkCalls(t, tees, 2, "SPLICE_F_NONBLOCK", len(tees)*tees[0].number(), tees[0].number())
		}
		checkCalls(t, srv.of("splice", 0), 4, "0", bytes, 131072)
		for end, want := range map[sockopt.End]struct {
			trace      *moverTrace
			asked, got int
		}{sockopt.Client: {client, 100000, 131072}, sockopt.Server: {srv, 30000, 32768}} {
			set := want.trace.with("fcntl", fmt.Sprintf("F_SETPIPE_SZ, %d", want.asked))
			get := want.trace.with("fcntl", "F_GETPIPE_SZ")
			if len(set) == 0 || len(get) == 0 {
				t.Errorf("%s: the pipe's size was set %d times, read %d times", end, len(set), len(get))
			}
			for _, c := range slices.Concat(set, get) {
				if c.number() != want.got {
					t.Errorf("%s: %v, not %d", end, c, want.got)
				}
			}
			row := o.row(t, end, "pipe_size")
			if row.Requested != sockopt.Int(int64(want.asked)) || row.Effective != sockopt.Int(int64(want.got)) || row.AtEnd != row.Effective || row.AtStart != row.Effective {
				t.Errorf("%s: audit %+v", end, row)
			}
		}
	})
	t.Run("vmsplice to discard", func(t *testing.T) {
		t.Parallel()
		_, client, srv := tracedMovers(t, append(total, "--send", "vmsplice", "--receive", "discard", "--splice-flags", "more:")...)
		checkCalls(t, client.of("splice", 2), 4, "SPLICE_F_MORE", bytes, 131072)
		if len(client.with("vmsplice", "iov_len=")) == 0 {
			t.Error("no vmsplice")
		}
		checkCalls(t, srv.with("recvfrom", "MSG_TRUNC"), 2, "MSG_TRUNC, NULL, NULL", bytes, 1<<20)
	})
	t.Run("sendfile to zerocopy", func(t *testing.T) {
		t.Parallel()
		o, client, srv := tracedMovers(t, append(total, "--send", "sendfile", "--receive", "zerocopy")...)
		checkCalls(t, client.of("sendfile", 0), 3, "", bytes, 128<<10)
		if len(srv.with("getsockopt", "TCP_ZEROCOPY_RECEIVE")) == 0 {
			t.Error("no TCP_ZEROCOPY_RECEIVE")
		}
		if rows := o.rows(sockopt.Client, "pipe_size"); len(rows) > 0 {
			t.Errorf("there are no pipes: %+v", rows)
		}
	})
	t.Run("zerocopy to read, the other way", func(t *testing.T) {
		t.Parallel()
		_, client, srv := tracedMovers(t, append(total, "-t", "TCP_MAERTS", "--send", ":zerocopy", "--more=:on")...)
		checkCalls(t, srv.of("sendto", 0), 2, "MSG_NOSIGNAL|MSG_MORE|MSG_ZEROCOPY, NULL, 0", bytes, 128<<10)
		if set := srv.with("setsockopt", "SO_ZEROCOPY, [1]"); len(set) != 1 {
			t.Errorf("SO_ZEROCOPY: %v", set)
		}
		checkCalls(t, client.of("recvfrom", 0), 2, "0, NULL, NULL", bytes, 128<<10)
	})
	t.Run("chunks of copies, with MSG_MORE", func(t *testing.T) {
		t.Parallel()
		_, client, srv := tracedMovers(t, append(total, "--chunk", "30000:20000", "--more=on:")...)
		checkCalls(t, client.of("sendto", 0), 2, "MSG_NOSIGNAL|MSG_MORE, NULL, 0", bytes, 30000)
		checkCalls(t, srv.of("recvfrom", 0), 2, "0, NULL, NULL", bytes, 20000)
	})
	t.Run("chunks of splices", func(t *testing.T) {
		t.Parallel()
		o, client, srv := tracedMovers(t, append(total, "--send", "splice", "--receive", "splice", "--chunk", "30000:20000", "--splice-flags", ":move,nonblock")...)
		checkCalls(t, client.of("splice", 2), 4, "0", bytes, 30000)
		checkCalls(t, srv.of("splice", 0), 4, "SPLICE_F_MOVE|SPLICE_F_NONBLOCK", bytes, 20000)
		from, to := ends(&o.Streams[0])
		if *from.Mover.MaxBytes > 30000 || *to.Mover.MaxBytes > 20000 {
			t.Errorf("at most %d and %d bytes per call", *from.Mover.MaxBytes, *to.Mover.MaxBytes)
		}
	})
}

// The kernel's own word on the pipes of running processes agrees with the audit.
func TestPipesOfProcesses(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	p := s.underWay(t, place{}, "--send", "splice", "--receive", "splice", "--pipe-size", "100000:200000", "-P", "2", "-m", "256K")
	for _, tt := range []struct {
		process *process
		pipes   int
		size    int
	}{{p, 4, 131072}, {s.process, 2, 262144}} {
		sizes := tt.process.pipes(t)
		if len(sizes) != tt.pipes {
			t.Errorf("%d pipes, not %d", len(sizes), tt.pipes)
		}
		for pipe, size := range sizes {
			if size != tt.size {
				t.Errorf("%s has %d bytes, not %d", pipe, size, tt.size)
			}
		}
	}
	p.signal(syscall.SIGINT)
	o := p.outcome()
	if o.Run == nil {
		t.Fatalf("no document: %q", o.stderr)
	}
	for end, size := range map[sockopt.End]int64{sockopt.Client: 131072, sockopt.Server: 262144} {
		if row := o.row(t, end, "pipe_size"); row.Effective != sockopt.Int(size) {
			t.Errorf("%s: audit %+v", end, row)
		}
	}
	eventually(t, "the server has no pipes left", func() bool { return len(s.pipes(t)) == 0 })
}

// pipes are the sizes of the pipes that a process has made, as the kernel
// reports them of the same pipes opened here. The standard streams and others
// that it has been given are this process's too.
func (p *process) pipes(t *testing.T) map[string]int {
	t.Helper()
	given := map[string]bool{}
	for _, l := range pipeLinks(t, "self") {
		target, _ := os.Readlink(l)
		given[target] = true
	}
	sizes := map[string]int{}
	for _, l := range pipeLinks(t, strconv.Itoa(p.pid())) {
		target, err := os.Readlink(l)
		if err != nil || given[target] {
			continue
		}
		fd, err := unix.Open(l, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // closed just now
		}
		if sizes[target], err = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err != nil {
			t.Error(err)
		}
		_ = unix.Close(fd)
	}
	return sizes
}

// pipeLinks are the links in /proc to the pipes that a process has open.
func pipeLinks(t *testing.T, pid string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/" + pid + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, "pipe:") {
			found = append(found, l)
		}
	}
	return found
}

func TestPipeSizes(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for asked, want := range map[string]int64{"1": 4096, "5000": 8192, "100000": 131072} {
		o := s.complete(place{}, "--send", "vmsplice", "--receive", "splice", "--pipe-size", asked, "--bytes", "300007")
		checkBytes(t, o, 1, 300007)
		for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
			if row := o.row(t, end, "pipe_size"); row.Effective != sockopt.Int(want) || row.AtStart != sockopt.Int(want) || row.AtEnd != sockopt.Int(want) {
				t.Errorf("a pipe of %s: %+v", asked, row)
			}
		}
	}
}

// Pipes beyond the limits are refused by the limit's name (P014): never a test
// with pipes of mixed sizes.
func TestPipeLimits(t *testing.T) {
	t.Parallel()
	asRoot(t)
	const user = 65533 // whom no other test's pipes are counted against
	largest, err := strconv.Atoi(strings.TrimSpace(readFile(t, "/proc/sys/fs/pipe-max-size")))
	if err != nil {
		t.Fatal(err)
	}
	privileged, plain := serve(t, place{}), serve(t, place{user: user})
	over := fmt.Sprint(largest + 1)
	o := privileged.client(place{user: user}, "--send", "splice", "--pipe-size", over+":", "--bytes", "200K")
	o.failed(t, 2, "client", "fs.pipe-max-size="+fmt.Sprint(largest))
	o = plain.client(place{}, "--receive", "splice", "--pipe-size", ":"+over, "--bytes", "200K")
	o.failed(t, 2, "server", "fs.pipe-max-size="+fmt.Sprint(largest))

	soft, err := strconv.Atoi(strings.TrimSpace(readFile(t, "/proc/sys/fs/pipe-user-pages-soft")))
	if err != nil {
		t.Fatal(err)
	}
	streams := soft*os.Getpagesize()/largest + 36
	if soft == 0 || streams > 200 {
		t.Skip("fs.pipe-user-pages-soft can't be reached: ", soft)
	}
	for _, tt := range []struct {
		s    *server
		at   place
		args []string
		end  string
	}{
		{plain, place{}, []string{"--receive", "splice"}, "server"},
		{privileged, place{user: user}, []string{"-t", "TCP_MAERTS", "--receive", "splice"}, "client"},
	} {
		o := tt.s.client(tt.at, append(tt.args, "-P", fmt.Sprint(streams), "--pipe-size", fmt.Sprint(largest), "--bytes", "20M")...)
		o.failed(t, 2, tt.end, "fs.pipe-user-pages-soft="+fmt.Sprint(soft))
		if o.Status != result.Failed || o.Error.Kind != "plan" {
			t.Errorf("%v: %s", o.args, o.verdict())
		}
		// Not one of the many is left, and a test within the limit runs.
		eventually(t, "the pipes are gone", func() bool { return len(tt.s.pipes(t)) == 0 })
		tt.s.complete(tt.at, append(tt.args, "-P", "2", "--pipe-size", fmt.Sprint(largest), "--bytes", "200K")...)
	}
}

// What can't be done is refused before any traffic.
func TestMoversRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	total := []string{"--bytes", "200K"}
	dir := t.TempDir()
	tests := []struct {
		args  []string
		words []string
	}{
		{[]string{"--verify", "--receive", "discard"}, []string{"verify", "discard", "doesn't see the bytes"}},
		{[]string{"--verify", "--receive", ":splice"}, []string{"verify", "splice", "doesn't see the bytes"}},
		{[]string{"--verify", "--bidir", "--receive", "discard:"}, []string{"verify", "client", "discard"}},
		{[]string{"--pipe-size", "64K"}, []string{"pipe_size", "send write nor receive read"}},
		{[]string{"--splice-flags", "more"}, []string{"splice_flags", "send write nor receive read"}},
		{[]string{"--send", "splice", "--splice-flags", "gift"}, []string{"--splice-flags", `"gift"`, "more, move or nonblock"}},
		{[]string{"--send", "splice", "--splice-flags", "more,,move"}, []string{"--splice-flags"}},
		{[]string{"--send", "teleport"}, []string{"--send", "vmsplice"}},
		{[]string{"--receive", "sendfile"}, []string{"--receive", "discard"}},
		{[]string{"--send", "sendfile", "--more"}, []string{"more", "sendfile"}},
		{[]string{"--file", "/dev/null"}, []string{"--file"}},
		{[]string{"--send", "sendfile", "--file", filepath.Join(dir, "missing")}, []string{"--file", "no such file"}},
		{[]string{"--send", "sendfile", "--file", "/dev/null"}, []string{"/dev/null", "regular file"}},
		{[]string{"--sink", filepath.Join(dir, "sink")}, []string{"--sink"}},
	}
	for _, tt := range tests {
		o := s.client(place{}, append(total, tt.args...)...)
		o.failed(t, 2, tt.words...)
	}
	if _, err := os.Stat(filepath.Join(dir, "sink")); err == nil {
		t.Error("the refused sink's file was made")
	}
	for _, mover := range [][]string{{"--send", "splice"}, {"--receive", "discard"}, {"--verify"}} {
		o := s.client(place{}, append(mover, "-t", "TCP_RR", "--transactions", "10")...)
		o.failed(t, 2, "TCP_RR")
	}
	if on := strings.TrimSpace(readFile(t, "/proc/sys/net/mptcp/enabled")); on != "1" {
		t.Skip("net.mptcp.enabled=", on)
	}
	for _, mover := range [][]string{{"--send", "zerocopy:"}, {"--receive", ":zerocopy"}} {
		o := s.client(place{}, append(total, append(mover, "--mptcp")...)...)
		o.failed(t, 2, strings.TrimPrefix(mover[0], "--")+" zerocopy")
		if o.Error.Kind != "plan" && o.Error.Kind != "usage" {
			t.Errorf("%v: %s", o.args, o.verdict())
		}
	}
}

// On loopback the kernel copies what was to go without a copy, and the result
// says what that means.
func TestZerocopyIsCopied(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, engine := range [][]string{nil, {"--threads", "2"}} {
		o := s.complete(place{}, append(engine, "--send", "zerocopy", "-P", "2", "-d", "0.2")...)
		for _, stream := range o.Streams {
			m := stream.Client.Mover
			if m.Completions == nil || *m.Completions == 0 || *m.CopiedCompletions != *m.Completions {
				t.Errorf("%v: stream %d: %d of %d completions copied", o.args, stream.ID, deref(m.CopiedCompletions), deref(m.Completions))
			}
		}
		if !slices.ContainsFunc(o.Warnings, func(w result.Warning) bool {
			return w.Code == "zerocopy_copied" && w.End == "client" && strings.Contains(w.Message, "cost more than plain sends")
		}) {
			t.Errorf("warnings: %+v", o.Warnings)
		}
	}
}

// A receiver behind a slow link makes the socket's buffer full, so that calls
// move less than they could have; the count stays exact.
func TestShortMoves(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	a.AddTBF("60mbit", "32kb", "64kb")
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	const bytes = 1000003
	for _, send := range []string{plan.Sendfile, plan.Splice, plan.Vmsplice, plan.Zerocopy} {
		for _, engine := range [][]string{nil, {"--threads", "2"}} {
			args := append(moving("TCP_STREAM", send, plan.Read), "--verify", "--sndbuf", "48K:", "-m", "100003", "--bytes", fmt.Sprint(bytes))
			o := s.complete(place{ns: a}, append(args, engine...)...)
			checkBytes(t, o, 1, bytes)
			checkMovers(t, o, send, plan.Read)
			e := o.Streams[0].Client
			// A blocking call goes on until it has moved all, unless time runs out.
			if engine != nil && deref(e.Mover.ShortMoves)+e.ShortSends == 0 {
				t.Errorf("%v: no short moves in %d calls", o.args, deref(e.Mover.Calls))
			}
		}
	}
}

// A proxy stands between a client and a server. It relays both the control
// connection, in which it puts its own port in place of the server's, and the
// data connections, whose bytes edit may change.
type proxy struct {
	addr string
	l    net.Listener
}

// flip flips a bit of the byte at one offset of a stream's payload.
type flip struct {
	d      plan.Direction
	offset int
}

func (s *server) behindProxy(t *testing.T, f flip) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l.Addr().String(), l}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.relay(t, near, s.addr.String(), f) })
		}
	})
	return p
}

func (p *proxy) relay(t *testing.T, near net.Conn, server string, f flip) {
	defer near.Close()
	far, err := net.Dial("tcp", server)
	if err != nil {
		t.Error(err)
		return
	}
	defer far.Close()
	_ = near.SetDeadline(time.Now().Add(patience))
	_ = far.SetDeadline(time.Now().Add(patience))
	head := make([]byte, 1)
	if _, err := io.ReadFull(near, head); err != nil {
		return
	}
	var both sync.WaitGroup
	defer both.Wait()
	begun := io.MultiReader(bytes.NewReader(head), near)
	if head[0] != 'g' { // a frame of the control protocol
		both.Go(func() { _, _ = io.Copy(far, begun); _ = far.(*net.TCPConn).CloseWrite() })
		p.relayControl(near, far)
		return
	}
	pre := make([]byte, control.PreambleSize)
	if _, err := io.ReadFull(begun, pre); err != nil {
		return
	}
	if _, err := far.Write(pre); err != nil {
		return
	}
	both.Go(func() { relayData(far, near, f, plan.ClientToServer) })
	relayData(near, far, f, plan.ServerToClient)
}

// relayControl relays what the server says.
func (p *proxy) relayControl(near, far net.Conn) {
	from, to := control.NewConn(far), control.NewConn(near)
	for {
		m, raw, err := from.Receive()
		if err != nil {
			_ = near.(*net.TCPConn).CloseWrite()
			return
		}
		var body any
		if raw != nil {
			body = raw
		}
		if m == control.TypeReady {
			var ready control.Ready
			if json.Unmarshal(raw, &ready) == nil {
				ready.Port = p.l.Addr().(*net.TCPAddr).Port
				body = ready
			}
		}
		if to.Send(m, body) != nil {
			return
		}
	}
}

// relayData relays payload in direction d.
func relayData(to, from net.Conn, f flip, d plan.Direction) {
	b := make([]byte, 64<<10)
	for at := 0; ; {
		n, err := from.Read(b)
		if i := f.offset - at; d == f.d && i >= 0 && i < n {
			b[i] ^= 0x10
		}
		at += n
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// One wrong bit anywhere is found, with the place of its byte, whoever receives
// and however.
func TestVerifyFindsTheByte(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, tt := range []struct {
		test, send, receive string
		offset              int
		threads             string
	}{
		{"TCP_STREAM", plan.Write, plan.Read, 0, ""},
		{"TCP_STREAM", plan.Splice, plan.Read, 1234567, "2"},
		{"TCP_STREAM", plan.Vmsplice, plan.Zerocopy, uneven - 1, ""},
		{"TCP_MAERTS", plan.Sendfile, plan.Read, 4093, ""},
		{"TCP_MAERTS", plan.Zerocopy, plan.Zerocopy, 777777, "2"},
	} {
		d := plan.ClientToServer
		if tt.test == "TCP_MAERTS" {
			d = plan.ServerToClient
		}
		p := s.behindProxy(t, flip{d, tt.offset})
		args := append(moving(tt.test, tt.send, tt.receive), "--verify", "--bytes", fmt.Sprint(uneven))
		if tt.threads != "" {
			args = append(args, "--threads", tt.threads)
		}
		o := run(t, place{}, append([]string{"-J", p.addr}, args...)...)
		o.failed(t, 1, fmt.Sprintf("stream 1: the payload is wrong at byte %d of the stream", tt.offset))
		end := sockopt.Server
		if tt.test == "TCP_MAERTS" {
			end = sockopt.Client
		}
		if o.Error.Kind != "data" || o.Error.End != end.String() {
			t.Errorf("%v: %s", o.args, o.verdict())
		}
	}
	// Through the same proxy, unchanged, all is well.
	p := s.behindProxy(t, flip{plan.ClientToServer, uneven})
	o := run(t, place{}, "-J", p.addr, "--verify", "--bytes", fmt.Sprint(uneven))
	o.mustComplete(t)
}

// --file sends the file over and over; --sink has what came.
func TestFileAndSink(t *testing.T) {
	t.Parallel()
	const bytes = 1000003
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	content := []byte(strings.Repeat("gperf moves bytes. ", 1000))[:10007]
	if err := os.WriteFile(source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f := fake(t, func(f *fakeServer) {
		f.greet()
		conn := f.accept(1)[0]
		f.control.say(control.TypeAudit, control.Audit{})
		f.control.hear(control.TypeStart)
		f.control.say(control.TypeStarted, nil)
		got := make([]byte, bytes)
		if _, err := io.ReadFull(conn, got); err != nil {
			t.Error(err)
		}
		for i, b := range got {
			if b != content[i%len(content)] {
				t.Errorf("byte %d is %q, the file's %q", i, b, content[i%len(content)])
				break
			}
		}
		_ = f.control.c.Close()
	})
	// The server that isn't one ends without a report.
	f.client("--bytes", fmt.Sprint(bytes), "--send", "sendfile", "--file", source).failed(t, 1)

	s := serve(t, place{})
	for _, test := range [][]string{{"-t", "TCP_MAERTS"}, {"-t", "TCP_MAERTS", "--threads", "1", "--pipe-size", "1M:"}, {"--bidir"}} {
		sink := filepath.Join(dir, "sink")
		o := s.complete(place{}, append(test, "--receive", "splice:", "--sink", sink, "--send", ":sendfile", "--bytes", fmt.Sprint(bytes))...)
		text := readFile(t, sink)
		if len(text) != bytes || strings.Trim(text, "\x00") != "" {
			t.Errorf("%v: the sink has %d bytes: %s...", o.args, len(text), hex.EncodeToString([]byte(text[:min(len(text), 16)])))
		}
	}
}

// The sink has the very bytes that came: here the pattern, from a sender that
// was told to show its position.
func TestSinkHasThePattern(t *testing.T) {
	t.Parallel()
	const bytes = 1000003
	sink := filepath.Join(t.TempDir(), "sink")
	f := fake(t, func(f *fakeServer) {
		f.greet()
		conn := f.accept(1)[0]
		f.control.say(control.TypeAudit, control.Audit{})
		f.control.hear(control.TypeStart)
		f.control.say(control.TypeStarted, nil)
		payload := slices.Repeat(splice.Pattern(), bytes/splice.PatternPeriod+1)[:bytes]
		if _, err := conn.Write(payload); err != nil {
			t.Error(err)
		}
		// Until the client has all and says so.
		f.control.hear(control.TypeClosed)
		_ = f.control.c.Close()
	})
	f.client("--bytes", fmt.Sprint(bytes), "-t", "TCP_MAERTS", "--receive", "splice:", "--sink", sink).failed(t, 1)
	text := readFile(t, sink)
	if at := splice.CheckPattern([]byte(text), 0); len(text) != bytes || at >= 0 {
		t.Errorf("the sink has %d bytes, the first wrong at %d", len(text), at)
	}
}

// A sender that stands still for a while shows in the stalls.
func TestStalls(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	s := serve(t, place{})
	p := start(t, place{}, "client", s.addr.String(), "-d", "1.5", "-i", "0.05", "--format", "jsonl", "--send", "splice", "--receive", "splice")
	eventually(t, "a few intervals", func() bool { return p.stdout.lines() >= 6 || p.hasEnded() })
	p.signal(syscall.SIGSTOP)
	time.Sleep(pause) // this is the stall
	p.signal(syscall.SIGCONT)
	o := p.outcome()
	o.mustComplete(t)
	var longest result.Stall
	for _, stall := range o.Stalls {
		if stall.Length > longest.Length {
			longest = stall
		}
	}
	if longest.Length < pause.Seconds()/2 || longest.Stream != 1 || longest.Direction != plan.ClientToServer || longest.Median <= 0 {
		t.Errorf("stalls: %+v", o.Stalls)
	}
	if longest.At.RTT == nil || longest.At.PipeQueued == nil {
		t.Errorf("at that time: %+v", longest.At)
	}
	if !slices.ContainsFunc(o.Warnings, func(w result.Warning) bool { return w.Code == "stall" && w.Stream != nil && *w.Stream == 1 }) {
		t.Errorf("warnings: %+v", o.Warnings)
	}
}
