package flow_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"gperf/flow"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
)

// udpPair returns two UDP sockets on loopback that are connected to each other.
func udpPair(t testing.TB) (one, two int) {
	t.Helper()
	socket := func() (int, unix.Sockaddr) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(t, err, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), flow.SetTimeouts(fd))
		at, err := unix.Getsockname(fd)
		must(t, err)
		return fd, at
	}
	one, a := socket()
	two, b := socket()
	must(t, unix.Connect(one, b), unix.Connect(two, a))
	return one, two
}

// datagrams is a group's configuration for a role on UDP.
func datagrams(r plan.Role, size int) flow.Config {
	cfg := roleOf(r, 0, size)
	cfg.Carrier = plan.Datagrams
	return cfg
}

// datagram receives one datagram, nil when none comes.
func (p peer) datagram() []byte {
	p.t.Helper()
	b := make([]byte, 1<<16)
	for begun := time.Now(); ; {
		n, errno := sys.Recv(p.fd, b, 0)
		switch {
		case errno == 0:
			return b[:n]
		case errno != unix.EINTR && errno != unix.EAGAIN:
			p.t.Errorf("recv: %v", errno)
			return nil
		case time.Since(begun) > patience:
			p.t.Errorf("nothing came for %v", patience)
			return nil
		}
	}
}

// say sends one datagram, which may be empty.
func (p peer) say(b []byte) {
	p.t.Helper()
	must(p.t, unix.Send(p.fd, b, unix.MSG_NOSIGNAL))
}

// numbered is a bulk stream's datagram of n bytes.
func numbered(number uint64, n int) []byte {
	b := make([]byte, max(n, 16))
	binary.BigEndian.PutUint64(b, number)
	binary.BigEndian.PutUint64(b[8:], uint64(sys.Monotonic()))
	return b[:n]
}

// awaitSample waits until a group's counters are as they should be.
func awaitSample(t testing.TB, g *flow.Group, what string, holds func(s *result.Sample) bool) {
	t.Helper()
	for begun := time.Now(); ; runtime.Gosched() {
		s := g.Sample()
		if holds(&s) {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("not within %v: %s; %+v", patience, what, s)
		}
	}
}

func awaitEnd(t testing.TB, g *flow.Group) {
	t.Helper()
	select {
	case <-g.Ended():
	case <-time.After(patience):
		t.Fatalf("the group has not ended; %+v", g.Sample())
	}
}

// What datagrams' numbers say.
func TestNote(t *testing.T) {
	t.Parallel()
	const span, leap = flow.SeenSpan, uint64(flow.SeenLeap)
	for _, tt := range []struct {
		name    string
		numbers []uint64
		want    [4]uint64 // next, missing, out of order, duplicates
		aliens  int
	}{
		{"in order", []uint64{0, 1, 2, 3}, [4]uint64{4, 0, 0, 0}, 0},
		{"lost", []uint64{0, 3}, [4]uint64{4, 2, 0, 0}, 0},
		{"the first lost", []uint64{5}, [4]uint64{6, 5, 0, 0}, 0},
		{"swapped", []uint64{0, 2, 1, 3}, [4]uint64{4, 0, 1, 0}, 0},
		{"duplicate of the latest", []uint64{0, 1, 1}, [4]uint64{2, 0, 0, 1}, 0},
		{"duplicate of a late one", []uint64{0, 2, 1, 1}, [4]uint64{3, 0, 1, 1}, 0},
		{"as far back as is remembered", []uint64{0, span - 1, 0}, [4]uint64{span, span - 2, 0, 1}, 0},
		{"further back: late", []uint64{0, span, 0}, [4]uint64{span + 1, span - 2, 1, 0}, 0},
		{"further back: late each time", []uint64{0, span, 0, 0}, [4]uint64{span + 1, span - 3, 2, 0}, 0},
		{"all is forgotten in a leap", []uint64{0, 1, 2, 2 * span, span + 1, span + 2}, [4]uint64{2*span + 1, 2*span - 5, 2, 0}, 0},
		{"places are used again", []uint64{3, span + 2, 2 * span, span + 3}, [4]uint64{2*span + 1, 2*span - 3, 1, 0}, 0},
		{"the last that's ours", []uint64{leap - 1}, [4]uint64{leap, leap - 1, 0, 0}, 0},
		{"alien", []uint64{leap, 0, 1 + leap, 1<<64 - 1, 1}, [4]uint64{2, 0, 0, 0}, 3},
	} {
		m, aliens := flow.NewMemory(), 0
		for _, n := range tt.numbers {
			if !m.Note(n, 0, 0) {
				aliens++
			}
		}
		if m.Counts() != tt.want || aliens != tt.aliens {
			t.Errorf("%s: next, missing, out of order, duplicates %v and %d aliens; want %v and %d", tt.name, m.Counts(), aliens, tt.want, tt.aliens)
		}
	}
}

// The bitmap says the same as a list of all numbers would.
func TestNoteModel(t *testing.T) {
	t.Parallel()
	const span = flow.SeenSpan
	rapid.Check(t, func(t *rapid.T) {
		m := flow.NewMemory()
		var (
			came = map[uint64]bool{}
			want [4]uint64
		)
		step := rapid.OneOf(
			rapid.Int64Range(-5, 5), rapid.Int64Range(-70, 200), rapid.Int64Range(-span-2, -span+2),
			rapid.Int64Range(span-2, span+2), rapid.Int64Range(-2*span, 3*span),
		)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			number := uint64(max(int64(want[0])+step.Draw(t, "step"), 0))
			if !m.Note(number, 0, 0) {
				t.Fatalf("%d is alien after %d", number, want[0])
			}
			switch {
			case number >= want[0]:
				want[1] += number - want[0]
				want[0] = number + 1
			case want[0]-number > span || !came[number]:
				want[1] = max(want[1], 1) - 1
				want[2]++
			default:
				want[3]++
			}
			came[number] = true
			if m.Counts() != want {
				t.Fatalf("after %d: %v, want %v", number, m.Counts(), want)
			}
		}
	})
}

// Jitter is the sixteenth part of each change of the transit time, smoothed.
func TestJitter(t *testing.T) {
	t.Parallel()
	note := func(transits ...int64) uint64 {
		m := flow.NewMemory()
		for i, transit := range transits {
			m.Note(uint64(i), int64(i)*1000, int64(i)*1000+transit)
		}
		return m.Jitter()
	}
	const offset = 1 << 50 // between two clocks
	for _, tt := range []struct {
		name     string
		transits []int64
		want     uint64
	}{
		{"one", []int64{offset}, 0},
		{"even", []int64{offset, offset, offset}, 0},
		{"one change", []int64{offset, offset + 1600}, 100},
		{"one change down", []int64{offset, offset - 1600}, 100},
		{"and none", []int64{offset, offset + 1600, offset + 1600}, 93}, // 100 - 100/16
		{"two changes", []int64{offset, offset + 1600, offset}, 193},    // 100 + (1600-100)/16
	} {
		if got := note(tt.transits...); got != tt.want {
			t.Errorf("%s: %d ns, want %d", tt.name, got, tt.want)
		}
	}
	var zigzag []int64
	for i := range 400 {
		zigzag = append(zigzag, offset+int64(i%2)*5000)
	}
	if got := note(zigzag...); got < 4999 || got > 5000 {
		t.Errorf("changes of 5000 ns come to %d", got)
	}
}

// A bulk sender numbers and stamps its datagrams; a plain one sends what it has.
func TestDatagramSender(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		const size, n = 100, 20
		fd, far := udpPair(t)
		p := peer{t, own(t, far)}
		cfg := datagrams(plan.Sender, size)
		cfg.Plain, cfg.Limits = plain, []uint64{size * n}
		g := group(t, cfg, fd)
		pattern(g.SendBuffers()[0])
		payload := slices.Clone(g.SendBuffers()[0])
		g.Start()
		latest := int64(0)
		for i := range n {
			b := p.datagram()
			if plain {
				if !slices.Equal(b, payload) {
					t.Fatalf("datagram %d is %x", i, b)
				}
				continue
			}
			number, at := binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))
			if len(b) != size || number != uint64(i) || at < latest || !slices.Equal(b[16:], payload[16:]) {
				t.Fatalf("datagram %d: number %d, at %d after %d, %d bytes", i, number, at, latest, len(b))
			}
			latest = at
		}
		awaitEnd(t, g)
		s := g.Sample()
		if s.Sent[0] != size*n || s.SendCalls[0] != n || s.TCP[result.SendErrors][0] != 0 {
			t.Errorf("plain %v: %+v", plain, s)
		}
	}
}

// A bulk receiver counts what comes, and tells what didn't by the numbers.
func TestDatagramReceiver(t *testing.T) {
	t.Parallel()
	fd, far := udpPair(t)
	p := peer{t, own(t, far)}
	g := group(t, datagrams(plan.Receiver, 200), fd)
	g.Start()
	for _, number := range []uint64{0, 1, 4, 3, 3, 6} {
		p.say(numbered(number, 100))
	}
	p.say(nil)                   // an empty one,
	p.say(make([]byte, 15))      // one too short for a number,
	p.say(numbered(1<<63, 100))  // one with a number that can't be
	p.say(numbered(7, 300)[:16]) // and the shortest
	awaitSample(t, g, "all have come", func(s *result.Sample) bool { return s.ReceiveCalls[0] == 7 })
	s := g.Sample()
	if s.Received[0] != 6*100+16 {
		t.Errorf("%d bytes", s.Received[0])
	}
	got := map[string]uint64{}
	for _, name := range []string{result.LostDatagrams, result.OutOfOrder, result.Duplicates, result.SocketDrops} {
		if column, ok := s.TCP[name]; ok {
			got[name] = column[0]
		}
	}
	want := map[string]uint64{result.LostDatagrams: 2, result.OutOfOrder: 1, result.Duplicates: 1, result.SocketDrops: 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// What the kernel drops at the socket is lost, and counted as dropped there.
func TestSocketDrops(t *testing.T) {
	t.Parallel()
	fd, far := udpPair(t)
	p := peer{t, own(t, far)}
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1))
	g := group(t, datagrams(plan.Receiver, 2000), fd)
	const n = 100
	for i := range uint64(n) { // before anybody reads
		p.say(numbered(i, 1000))
	}
	g.Start()
	said := uint64(n)
	awaitSample(t, g, "somebody reads", func(s *result.Sample) bool { return s.ReceiveCalls[0] > 0 })
	p.say(numbered(n, 1000))
	said++
	awaitSample(t, g, "each has come or is lost", func(s *result.Sample) bool {
		return s.ReceiveCalls[0]+s.TCP[result.SocketDrops][0] == said
	})
	if s := g.Sample(); s.TCP[result.SocketDrops][0] < n/2 {
		t.Errorf("%d dropped at the socket", s.TCP[result.SocketDrops][0])
	}
}

// The end of a datagram stream: an empty one where the protocol says so, the
// port's being closed, which is an error, and nothing else.
func TestDatagramEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		role         plan.Role
		plain, until bool
		want         string // error; "": none
		goesOn       bool
	}{
		{plan.Receiver, false, true, "", false},
		{plan.Receiver, true, true, "", false},
		{plan.Receiver, false, false, "", true},
		{plan.Receiver, true, false, "", true},
		{plan.Responder, false, true, "", false},
		{plan.Responder, true, true, "", false},
		{plan.Responder, false, false, "", true},
		{plan.Requester, true, true, "", false},
		{plan.Requester, true, false, "the peer closed the connection after 0 bytes", false},
		{plan.Requester, false, false, "", true},
	} {
		name := fmt.Sprintf("%s, plain %v, until the end %v", tt.role, tt.plain, tt.until)
		fd, far := udpPair(t)
		p := peer{t, own(t, far)}
		cfg := datagrams(tt.role, 100)
		cfg.Plain, cfg.UntilEOF = tt.plain, tt.until
		g := group(t, cfg, fd)
		cut := make(chan struct{})
		done := failing(t, g, flow.Window{Own: true, Duration: time.Hour, Cut: cut})
		p.say(nil)
		if tt.goesOn {
			// It does what it does with the next one.
			switch tt.role {
			case plan.Receiver:
				p.say(numbered(0, 100))
				awaitSample(t, g, name, func(s *result.Sample) bool { return s.Received[0] == 100 })
			case plan.Responder:
				p.say(make([]byte, 100))
				p.datagram()
			case plan.Requester:
				p.say(p.datagram())
				awaitSample(t, g, name, func(s *result.Sample) bool { return s.Transactions[0] == 1 })
			}
			close(cut)
		}
		half, err := done()
		if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		must(t, g.Finish(half))
	}
	for _, role := range []plan.Role{plan.Sender, plan.Requester} {
		fd, far := udpPair(t)
		must(t, unix.Close(far))
		g := group(t, datagrams(role, 100), fd)
		half, err := failing(t, g, flow.Window{Own: true, Duration: time.Hour})()
		if err == nil || !strings.Contains(err.Error(), "stream 1: ") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s whose peer is gone: %v", role, err)
		}
		must(t, g.Finish(half))
	}
}

// requests makes a requester for the test to answer.
func requests(t *testing.T, size, burst int, limit uint64, timeout time.Duration, plain bool) (*flow.Group, peer) {
	fd, far := udpPair(t)
	cfg := datagrams(plan.Requester, size)
	cfg.Burst, cfg.Limits, cfg.ResponseTimeout, cfg.Plain = burst, []uint64{limit}, timeout, plain
	return group(t, cfg, fd), peer{t, own(t, far)}
}

// idSizes are sizes of messages with numbers of different lengths.
var idSizes = []int{1, 2, 7, 8, 1400}

// Requests whose responses don't come in time are counted, and made up for.
func TestLostResponses(t *testing.T) {
	t.Parallel()
	for _, size := range idSizes {
		for _, burst := range []int{1, 3} {
			const lose, n = 4, 40
			g, p := requests(t, size, burst, n, 20*time.Millisecond, false)
			done := measured(t, g, flow.Window{})
			for i := 0; i < n+lose; i++ {
				b := p.datagram()
				if i%10 == 9 {
					continue
				}
				p.say(b)
			}
			half := p.echo(done) // of requests that a busy machine has given up, there are more
			must(t, g.Finish(half))
			last := lastOf(half)
			// A busy machine may be late with others, which are then lost too.
			if lost := last.TCP[result.LostTransactions][0]; last.Transactions[0] != n || lost < lose {
				t.Errorf("%d bytes, burst %d: %d transactions, %d lost", size, burst, last.Transactions[0], lost)
			}
			if c := count(t, half.Threads[0].Latency); c != n {
				t.Errorf("%d bytes: %d latencies", size, c)
			}
		}
	}
}

// A response that comes after its time is nobody's, nor is a second one, one of
// another size, or one that answers nothing.
func TestLateResponses(t *testing.T) {
	t.Parallel()
	for _, size := range idSizes {
		g, p := requests(t, size, 1, 2, 20*time.Millisecond, false)
		done := measured(t, g, flow.Window{})
		late := p.datagram()
		second := p.datagram() // the first has been given up
		received := uint64(0)
		nobodys := func(what string, b []byte) {
			p.say(b)
			if len(b) == size {
				received++
				awaitSample(t, g, what, func(s *result.Sample) bool { return s.ReceiveCalls[0] >= received })
			}
			if n := g.Sample().Transactions[0]; n != 0 {
				t.Errorf("%d bytes: %s is taken for a transaction", size, what)
			}
		}
		nobodys("a late response", late)
		nobodys("a second late response", late)
		nobodys("a longer one", append(slices.Clone(second), 0))
		nobodys("a shorter one", second[:size-1])
		never := slices.Clone(second)
		never[0] += 100
		nobodys("one that answers nothing", never)
		half := p.echo(done) // this one, or those that follow it
		must(t, g.Finish(half))
		if last := lastOf(half); last.Transactions[0] != 2 || last.TCP[result.LostTransactions][0] == 0 {
			t.Errorf("%d bytes: %d transactions, %d lost", size, last.Transactions[0], last.TCP[result.LostTransactions][0])
		}
	}
}

// echo answers with what comes, until the other end is done.
func (p peer) echo(done <-chan *result.Half) *result.Half {
	p.t.Helper()
	b := make([]byte, 1<<16)
	for begun := time.Now(); ; {
		select {
		case half := <-done:
			return half
		default:
		}
		if time.Since(begun) > patience {
			p.t.Fatalf("the other end isn't done within %v", patience)
		}
		if n, errno := sys.Recv(p.fd, b, 0); errno == 0 {
			_ = unix.Send(p.fd, b[:n], unix.MSG_NOSIGNAL) // ECONNREFUSED: it's done
		}
	}
}

// One lost response doesn't hold up the others, and one that is answered at last
// is a transaction like them.
func TestBurstGoesOn(t *testing.T) {
	t.Parallel()
	for _, size := range idSizes {
		const burst, n = 4, 100
		g, p := requests(t, size, burst, n, time.Hour, false)
		done := measured(t, g, flow.Window{})
		first := p.datagram()
		for range n - 1 {
			p.say(p.datagram())
		}
		awaitSample(t, g, "all others are done", func(s *result.Sample) bool { return s.Transactions[0] == n-1 })
		p.say(first)
		half := <-done
		must(t, g.Finish(half))
		last := lastOf(half)
		if last.Transactions[0] != n || last.TCP[result.LostTransactions][0] != 0 || last.SendCalls[0] != n || g.MostOutstanding() != burst {
			t.Errorf("%d bytes: %+v, at most %d outstanding", size, last, g.MostOutstanding())
		}
	}
}

// With few numbers a lost response holds up the others once they run out, but
// not for longer than the time-out.
func TestNumbersRunOut(t *testing.T) {
	t.Parallel()
	const n = 1000
	g, p := requests(t, 1, 2, n, 50*time.Millisecond, false)
	done := measured(t, g, flow.Window{})
	p.datagram() // lost
	half := p.echo(done)
	must(t, g.Finish(half))
	if last := lastOf(half); last.Transactions[0] != n || last.TCP[result.LostTransactions][0] == 0 {
		t.Errorf("%d transactions, %d lost", last.Transactions[0], last.TCP[result.LostTransactions][0])
	}
}

// A plain requester takes responses in the order of its requests, of any size,
// and gives all up that are outstanding when none comes in time.
func TestPlainRequester(t *testing.T) {
	t.Parallel()
	const burst, n = 3, 20
	g, p := requests(t, 100, burst, n, 50*time.Millisecond, true)
	pattern(g.SendBuffers()[0])
	payload := slices.Clone(g.SendBuffers()[0])
	done := measured(t, g, flow.Window{})
	for range burst { // none of which is answered
		if b := p.datagram(); !slices.Equal(b, payload) {
			t.Fatalf("a request is %x", b)
		}
	}
	for i := range n {
		p.datagram()
		p.say(make([]byte, 1+i%100))
	}
	half := p.echo(done)
	must(t, g.Finish(half))
	if last := lastOf(half); last.Transactions[0] != n || last.TCP[result.LostTransactions][0] < burst {
		t.Errorf("%d transactions, %d lost", last.Transactions[0], last.TCP[result.LostTransactions][0])
	}
}

// A responder returns the request's number, and a plain one answers anything.
func TestDatagramResponder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		request, response int
		plain             bool
	}{{1, 1, false}, {8, 8, false}, {100, 4, false}, {4, 100, false}, {100, 100, true}} {
		fd, far := udpPair(t)
		p := peer{t, own(t, far)}
		cfg := datagrams(plan.Responder, 0)
		cfg.RequestSize, cfg.ResponseSize, cfg.Plain = tt.request, tt.response, tt.plain
		g := group(t, cfg, fd)
		g.Start()
		request := make([]byte, tt.request)
		answered := uint64(0)
		for i := range 10 {
			pattern(request)
			request[0] = byte(i)
			if !tt.plain {
				p.say(append(slices.Clone(request), 1)) // nobody's
				p.say(request[1:])
			} else {
				p.say(request[:50])
				if b := p.datagram(); len(b) != tt.response {
					t.Errorf("%+v: a response of %d bytes", tt, len(b))
				}
				answered++
			}
			p.say(request)
			answered++
			b := p.datagram()
			if id := min(tt.request, tt.response, 8); len(b) != tt.response || !slices.Equal(b[:id], request[:id]) {
				t.Errorf("%+v: %x is answered by %x", tt, request, b)
			}
		}
		awaitSample(t, g, fmt.Sprintf("%+v: as many as came are counted", tt), func(s *result.Sample) bool { return s.Transactions[0] == answered })
	}
}

// The whole of both ends, through Test.
func TestDatagramPlans(t *testing.T) {
	t.Parallel()
	for _, p := range []*plan.Test{
		{Type: plan.UDPStream, Duration: plan.Seconds(100 * time.Millisecond), Streams: 2, Client: plan.End{Rate: 20_000_000}},
		{Type: plan.UDPStream, Duration: plan.Seconds(100 * time.Millisecond), Client: plan.End{SendSize: plan.MinDatagram, Rate: 1_000_000}},
		{Type: plan.UDPStream, Duration: plan.Seconds(300 * time.Millisecond), Warmup: plan.Seconds(50 * time.Millisecond), Client: plan.End{SendSize: plan.MaxDatagram, Rate: 100_000_000}},
		{Type: plan.UDPRR, Transactions: 301, Streams: 3},
		{Type: plan.UDPRR, Transactions: 301, Burst: 16},
		{Type: plan.UDPRR, Transactions: 100, RequestSize: 8, ResponseSize: 1400, Burst: 16},
		{Type: plan.UDPRR, Transactions: 10, RequestSize: plan.MaxDatagram, ResponseSize: plan.MaxDatagram},
		{Type: plan.UDPRR, Duration: plan.Seconds(100 * time.Millisecond), Warmup: plan.Seconds(50 * time.Millisecond), Streams: 2},
	} {
		name := fmt.Sprintf("%s %d/%d", p.Type, p.Client.SendSize, p.RequestSize)
		p.Interval = plan.Seconds(10 * time.Millisecond)
		if p.Type == plan.UDPRR {
			p.ResponseTimeout = plan.Seconds(patience)
		}
		m := newMatchOn(t, p, udpPair, flow.Connections{})
		r := m.pass(t)
		if p.Type == plan.UDPRR {
			s := r.Summary
			n := *s.Transactions
			if p.Transactions > 0 && n != uint64(p.Transactions) || n == 0 || s.Latency.Count != int64(n) || *s.LostTransactions != 0 || s.Datagrams != nil {
				t.Errorf("%s: %d transactions, %d latencies, %d lost", name, n, s.Latency.Count, *s.LostTransactions)
			}
			continue
		}
		d := r.Summary.Datagrams
		if d == nil || d.Sent == nil || d.Received == nil || d.Lost == nil || d.Jitter == nil || *d.Received == 0 {
			t.Fatalf("%s: %+v", name, d)
		}
		size := uint64(p.Client.SendSize)
		if *r.Summary.SentBytes != *d.Sent*size || *r.Summary.ReceivedBytes != *d.Received*size || *d.OutOfOrder != 0 || *d.Duplicates != 0 {
			t.Errorf("%s: %+v, %d bytes sent, %d received", name, d, *r.Summary.SentBytes, *r.Summary.ReceivedBytes)
		}
		// Without warm-up the receiver's window lies inside the sender's: what
		// was still on its way at the end is missing in the sum, nothing else. (Of
		// each stream one may have come by a send that hadn't returned yet.)
		if p.Warmup == 0 && *d.Received+*d.Lost > *d.Sent+uint64(p.Streams) {
			t.Errorf("%s: %d received and %d lost of %d", name, *d.Received, *d.Lost, *d.Sent)
		}
		var sent, received, lost uint64
		ivLost := int64(0)
		for _, s := range r.Streams {
			sent, received, lost = sent+*s.Datagrams.Sent, received+*s.Datagrams.Received, lost+*s.Datagrams.Lost
		}
		for _, iv := range r.Intervals {
			for _, s := range iv.Streams {
				ivLost += *s.Lost
			}
		}
		if sent != *d.Sent || received != *d.Received || lost != *d.Lost || ivLost != int64(*d.Lost) {
			t.Errorf("%s: the streams add up to %d, %d, %d, the intervals to %d lost; the totals are %d, %d, %d",
				name, sent, received, lost, ivLost, *d.Sent, *d.Received, *d.Lost)
		}
	}
}
