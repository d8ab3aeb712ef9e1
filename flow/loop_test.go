package flow_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/plan"
	"gperf/stats"
)

// Tests that end by a number of bytes end at exactly that number on both ends.
func TestByteLimits(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, typ := range []plan.Type{plan.TCPStream, plan.TCPMaerts} {
			for _, streams := range []int{1, 3} {
				for _, total := range []int64{int64(streams), 5000003} {
					p := &plan.Test{Type: typ, Bytes: total, Streams: streams, Interval: plan.Seconds(10 * time.Millisecond)}
					p.Client.Threads, p.Server.Threads = threads, threads
					p.Client.SendSize, p.Server.ReceiveSize = 60013, 50021
					r := newMatch(t, p, buffers{}).pass(t)
					s := r.Summary
					if *s.SentBytes != uint64(total) || *s.ReceivedBytes != uint64(total) {
						t.Errorf("%s of %d bytes over %d streams: %d sent, %d received", typ, total, streams, *s.SentBytes, *s.ReceivedBytes)
					}
					// The sender's last snapshot follows the last acknowledgement.
					if s.AckedBytes == nil || *s.AckedBytes != uint64(total) {
						t.Errorf("%s of %d bytes over %d streams: acknowledged %v", typ, total, streams, s.AckedBytes)
					}
					for i, stream := range r.Streams {
						if got := stream.Client.SentBytes + stream.Server.SentBytes; got != uint64(p.Limit(i)) {
							t.Errorf("stream %d sent %d bytes, its share is %d", stream.ID, got, p.Limit(i))
						}
					}
				}
			}
		}
	})
}

// Every send asks for a whole message or for the rest of one: without short
// sends there are as many calls as messages.
func TestCallsAreMessages(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const size, messages = 256, 1000
		p := &plan.Test{Type: plan.TCPStream, Bytes: size*messages + 1}
		p.Client.SendSize, p.Client.Threads = size, threads
		s := newMatch(t, p, buffers{}).pass(t).Streams[0].Client
		if want := messages + 1 + s.ShortSends; s.SendCalls != want {
			t.Errorf("%d calls for %d messages, %d of them short", s.SendCalls, messages+1, s.ShortSends)
		}
	})
}

func TestTransactionLimits(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, tt := range []struct {
			streams, request, response, burst int
			total                             int64
			buffers                           buffers
		}{
			{1, 1, 1, 1, 1001, buffers{}},
			{3, 1, 1, 1, 1001, buffers{}},
			{3, 1, 1, 1, 3, buffers{}},
			{1, 1, 1, 16, 1001, buffers{}}, // one call brings several responses
			{1, 100, 70001, 5, 101, buffers{}},
			{1, 70001, 3, 5, 101, buffers{}},
			{1, 1, 1, 1000, 7, buffers{}}, // a burst larger than the test
			// Neither end's buffers hold what is outstanding.
			{1, 16 << 10, 16 << 10, 16, int64(scale(120)), buffers{8 << 10, 8 << 10}},
			{2, 16 << 10, 16 << 10, 16, int64(scale(120)), buffers{8 << 10, 8 << 10}},
			{1, 200_000, 200_000, 3, int64(scale(60)), buffers{4 << 10, 4 << 10}},
		} {
			name := fmt.Sprintf("%d x %d/%d burst %d", tt.streams, tt.request, tt.response, tt.burst)
			p := &plan.Test{
				Type: plan.TCPRR, Transactions: tt.total, Streams: tt.streams, Interval: plan.Seconds(10 * time.Millisecond),
				RequestSize: tt.request, ResponseSize: tt.response, Burst: tt.burst,
			}
			p.Client.Threads, p.Server.Threads = threads, threads
			m := newMatch(t, p, tt.buffers)
			r := m.pass(t)
			if n := *r.Summary.Transactions; n != uint64(tt.total) {
				t.Errorf("%s: %d transactions, not %d", name, n, tt.total)
			}
			if l := r.Summary.Latency; l == nil || l.Count != tt.total || l.Min <= 0 {
				t.Errorf("%s: latency %+v of %d transactions", name, l, tt.total)
			}
			d := r.Summary.Directions
			if sent := *d.ClientToServer.SentBytes; sent != uint64(tt.total)*uint64(tt.request) {
				t.Errorf("%s: %d bytes of requests", name, sent)
			}
			if received := *d.ServerToClient.ReceivedBytes; received != uint64(tt.total)*uint64(tt.response) {
				t.Errorf("%s: %d bytes of responses", name, received)
			}
			answered := uint64(0)
			for _, n := range m.server.halves[0].Series[len(m.server.halves[0].Series)-1].Transactions {
				answered += n
			}
			if answered != uint64(tt.total) {
				t.Errorf("%s: the responder answered %d", name, answered)
			}
		}
	})
}

// Latency runs from the beginning of a request to the end of its response: with
// a peer that answers the nth request after n steps, all of them are told apart.
func TestLatencyByOrder(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const burst, step = 4, 20 * time.Millisecond
		fd, far := unixPair(t)
		cfg := roleOf(plan.Requester, threads, 100)
		cfg.Burst, cfg.Limits = burst, []uint64{burst}
		g := group(t, cfg, fd)
		done := measured(t, g, flow.Window{})
		p := peer{t, own(t, far)}
		b := make([]byte, 100*burst)
		p.receive(b) // all requests go before the first response comes
		for i := range burst {
			time.Sleep(step) // the latency to be measured
			p.send(b[:100-i])
			p.send(b[:i]) // a response in two pieces
		}
		half := <-done
		must(t, g.Finish(half))
		h, err := stats.DecodeHistogram(half.Threads[0].Latency)
		must(t, err)
		if h.TotalCount() != burst || h.Min() < int64(step) || h.Max() < burst*int64(step) || h.ValueAtQuantile(50) < 2*int64(step) {
			t.Errorf("%d latencies, least %d ns, median %d ns, highest %d ns", h.TotalCount(), h.Min(), h.ValueAtQuantile(50), h.Max())
		}
	})
}

// Sends that the kernel cuts short, because a signal came while they waited for
// room or because they must not wait, continue where they were cut.
func TestShortSendsKeepTheStreamExact(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const size = 60013 // no multiple of anything
		messages := scale(250)
		fd, far := tcpPair(t, buffers{4 << 10, 4 << 10})
		p := peer{t, own(t, far)}
		cfg := roleOf(plan.Sender, threads, size)
		last := size / 3 // the last message is a part of one
		cfg.Limits = []uint64{uint64((messages-1)*size + last)}
		g := group(t, cfg, fd)
		want := g.SendBuffers()[0]
		pattern(want)
		g.Start()
		tid := g.Threads()[0]
		got := make([]byte, size)
		for i := range messages {
			if i == messages-1 {
				got = got[:last]
			}
			for at := 0; at < len(got); {
				piece := min(3001, len(got)-at)
				if !p.receive(got[at : at+piece]) {
					t.Fatalf("message %d ends at %d", i, at)
				}
				at += piece
				must(t, signal(tid)) // into a call that waits for room, as likely as not
			}
			if !bytes.Equal(got, want[:len(got)]) {
				t.Fatalf("message %d differs from byte %d on", i, differs(got, want))
			}
		}
		<-g.Ended()
		s := g.Sample()
		if s.ShortSends[0] == 0 {
			t.Error("no send was cut short: the test tests nothing")
		}
		if s.Sent[0] != cfg.Limits[0] {
			t.Errorf("%d bytes sent, not %d", s.Sent[0], cfg.Limits[0])
		}
		// One more would be a byte too many.
		must(t, unix.Shutdown(far, unix.SHUT_WR))
		g.Close()
		if p.receive(make([]byte, 1)) {
			t.Error("more came than the limit")
		}
		t.Logf("%d calls, %d short, %d interrupted", s.SendCalls[0], s.ShortSends[0], s.Interruptions[0])
	})
}

func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// The same of requests and responses.
func TestShortSendsKeepTransactionsExact(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const size = 50021
		rounds := scale(120)
		for _, role := range []plan.Role{plan.Requester, plan.Responder} {
			fd, far := tcpPair(t, buffers{4 << 10, 4 << 10})
			p := peer{t, own(t, far)}
			cfg := roleOf(role, threads, size)
			cfg.Burst = 3
			g := group(t, cfg, fd)
			want := g.SendBuffers()[0]
			pattern(want)
			g.Start()
			tid := g.Threads()[0]
			got := make([]byte, size)
			for i := range rounds {
				if role == plan.Responder {
					p.send(got)
				}
				for at := 0; at < size; {
					piece := min(3001, size-at)
					if !p.receive(got[at : at+piece]) {
						t.Fatalf("%s: message %d ends at %d", role, i, at)
					}
					at += piece
					must(t, signal(tid))
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: message %d differs from byte %d on", role, i, differs(got, want))
				}
				if role == plan.Requester {
					p.send(got)
				}
			}
			if s := g.Sample(); s.ShortSends[0] == 0 {
				t.Errorf("%s: no send was cut short: the test tests nothing", role)
			}
			g.Close()
		}
	})
}

// A peer that breaks the connection, or ends it in the middle, is an error that
// names the stream; so are the bytes that did come.
func TestPeerFails(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		reset := func(fd int) {
			must(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}), unix.Close(fd))
		}
		end := func(fd int) { must(t, unix.Shutdown(fd, unix.SHUT_WR)) }
		for _, tt := range []struct {
			name string
			role plan.Role
			send int // bytes that come before
			how  func(fd int)
			want string
		}{
			{"sender is reset", plan.Sender, 0, reset, "stream 2: send: connection reset by peer"},
			{"receiver is reset", plan.Receiver, 0, reset, "stream 2: recv: connection reset by peer"},
			{"receiver's stream ends", plan.Receiver, 77, end, "stream 2: the peer closed the connection after 77 bytes"},
			{"requester is reset", plan.Requester, 0, reset, "stream 2: "},
			{"requester's stream ends", plan.Requester, 150, end, "stream 2: the peer closed the connection after 150 bytes"},
			{"responder is reset", plan.Responder, 150, reset, ": connection reset by peer"},
			{"responder's stream ends in a request", plan.Responder, 150, end, "stream 2: the peer closed the connection after 150 bytes"},
		} {
			one, farOne := tcpPair(t, buffers{})
			two, farTwo := tcpPair(t, buffers{})
			own(t, farOne)
			g := group(t, roleOf(tt.role, threads, 100), one, two)
			done := failing(t, g, flow.Window{Duration: time.Hour})
			// The other stream goes on, or waits.
			go func() { // what comes is of no interest
				b := make([]byte, 1<<16)
				for {
					if n, err := unix.Read(farOne, b); n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR {
						return
					}
				}
			}()
			peer{t, farTwo}.send(make([]byte, tt.send))
			if tt.role == plan.Requester { // lest unread requests turn the end into a reset
				peer{t, farTwo}.receive(make([]byte, 100))
			}
			tt.how(farTwo)
			half, err := done()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
			}
			must(t, g.Finish(half))
			if half.Streams[1].Error != fmt.Sprint(err) || half.Streams[0].Error != "" {
				t.Errorf("%s: the streams' errors are %q and %q", tt.name, half.Streams[0].Error, half.Streams[1].Error)
			}
			if herr := half.Check(2); herr != nil {
				t.Errorf("%s: %v", tt.name, herr)
			}
		}
	})
}

// The end of the stream between two requests is how a requester ends.
func TestResponderEnds(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		fd, far := unixPair(t)
		g := group(t, roleOf(plan.Responder, threads, 100), fd)
		g.Start()
		p, b := peer{t, own(t, far)}, make([]byte, 100)
		for range 10 {
			p.send(b)
			p.receive(b)
		}
		must(t, unix.Shutdown(far, unix.SHUT_WR))
		<-g.Ended()
		if s := g.Sample(); s.Transactions[0] != 10 || s.Received[0] != 1000 || s.Sent[0] != 1000 {
			t.Errorf("%d transactions, %d bytes in, %d out", s.Transactions[0], s.Received[0], s.Sent[0])
		}
	})
}

// Many streams on few threads all get their turn.
func TestEpollFairness(t *testing.T) {
	t.Parallel()
	for _, typ := range []plan.Type{plan.TCPStream, plan.TCPRR} {
		p := &plan.Test{Type: typ, Duration: plan.Seconds(300 * time.Millisecond), Streams: 40}
		p.Client.Threads, p.Server.Threads, p.Client.SendSize = 2, 1, 4096
		m := newMatch(t, p, buffers{})
		r := m.pass(t)
		for _, s := range r.Streams {
			if s.Server.ReceivedBytes == 0 || s.Transactions != nil && *s.Transactions == 0 {
				t.Errorf("%s: stream %d starved", typ, s.ID)
			}
		}
		if n := len(m.client.halves[0].Threads); n != 2 {
			t.Errorf("%s: %d threads", typ, n)
		}
	}
}

// Without being asked, a test with more streams than threads make sense for is
// driven by the epoll engine.
func TestEngineByStreams(t *testing.T) {
	t.Parallel()
	for streams, want := range map[int]string{1: "blocking", flow.MaxBlocking + 1: "epoll"} {
		r := newMatch(t, &plan.Test{Type: plan.TCPStream, Bytes: 1 << 20, Streams: streams}, buffers{}).pass(t)
		if r.Engines.Client.Name != want || r.Engines.Server.Name != want {
			t.Errorf("%d streams: %s and %s", streams, r.Engines.Client.Name, r.Engines.Server.Name)
		}
	}
}

// Both directions at once, on connections of their own.
func TestBidir(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		p := &plan.Test{Type: plan.TCPStream, Bidir: true, Bytes: 1000003, Streams: 2, Interval: plan.Seconds(10 * time.Millisecond)}
		p.Client.Threads, p.Server.Threads = threads, threads
		r := newMatch(t, p, buffers{}).pass(t)
		d := r.Summary.Directions
		if *d.ClientToServer.ReceivedBytes != 1000003 || *d.ServerToClient.ReceivedBytes != 1000003 || *r.Summary.SentBytes != 2000006 {
			t.Errorf("%d one way, %d the other, %d sent", *d.ClientToServer.ReceivedBytes, *d.ServerToClient.ReceivedBytes, *r.Summary.SentBytes)
		}
		if len(r.Streams) != 4 {
			t.Errorf("%d streams", len(r.Streams))
		}
	})
}

// A paced sender never exceeds its rate by more than one burst.
func TestPacing(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const rate = 80_000_000 // bit/s
		p := &plan.Test{Type: plan.TCPStream, Duration: plan.Seconds(300 * time.Millisecond), Streams: 2, Interval: plan.Seconds(10 * time.Millisecond)}
		p.Client.Rate, p.Client.Threads = rate, threads
		m := newMatch(t, p, buffers{})
		r := m.pass(t)
		burst := uint64(rate/8*flow.MaxPacedBurst.Seconds()) + 2*uint64(p.Client.SendSize)
		h := m.client.halves[0]
		for k := range p.Streams {
			for i, from := range h.Series {
				for _, to := range h.Series[i+1:] {
					allowed := uint64(float64(to.AtNs-from.AtNs)/1e9*rate/8) + burst
					if sent := to.Sent[k] - from.Sent[k]; sent > allowed {
						t.Fatalf("stream %d: %d bytes in %d ns, %d are allowed", k+1, sent, to.AtNs-from.AtNs, allowed)
					}
				}
			}
			if got := *r.Streams[k].Throughput; got < rate/10 {
				t.Errorf("stream %d: %.0f bit/s of %d", k+1, got, rate)
			}
		}
	})
}

func TestPacer(t *testing.T) {
	t.Parallel()
	const rate, size = 8_000_000, 1000 // a millisecond each
	const ms = int64(time.Millisecond)
	for _, tt := range []struct {
		name           string
		due, now, due2 int64
	}{
		{"on time", 100 * ms, 100 * ms, 101 * ms},
		{"a little late: it catches up", 100 * ms, 100*ms + 300, 101 * ms},
		{"late by a burst", 100 * ms, 101 * ms, 101 * ms},
		{"very late: the rest is lost", 100 * ms, 500 * ms, 500 * ms},
		{"the first", 0, 500 * ms, 500 * ms},
	} {
		if got := flow.Next(rate, tt.due, tt.now, size); got != tt.due2 {
			t.Errorf("%s: the next at %d, want %d", tt.name, got, tt.due2)
		}
	}
}
