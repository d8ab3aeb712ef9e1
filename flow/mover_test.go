package flow_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/splice"
)

// seen reports whether a receiver sees the bytes.
func seen(receive string) bool { return receive == plan.Read || receive == plan.Zerocopy }

// Every sender moves exactly what was asked for to every receiver, whichever end
// either is at, and whoever sees the bytes sees the right ones.
func TestMoverPairs(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const total = 1500007
		for i, send := range plan.SendMovers {
			for j, receive := range plan.ReceiveMovers {
				for _, streams := range []int{1, 4} {
					p := &plan.Test{Type: plan.TCPStream, Bytes: total, Streams: streams, Verify: seen(receive)}
					from, to := &p.Client, &p.Server
					if (i+j)%2 == 1 {
						p.Type, from, to = plan.TCPMaerts, to, from
					}
					from.Send, to.Receive = send, receive
					from.Threads, to.Threads = threads, threads
					from.SendSize, to.Chunk = 60013, 50021 // which no page and no pipe divides
					if streams == 4 {
						from.Chunk = 7001
					}
					r := newMatch(t, p, buffers{}).pass(t)
					name := fmt.Sprintf("%s to %s, %s, %d streams", send, receive, p.Type, streams)
					if s := r.Summary; *s.SentBytes != total || *s.ReceivedBytes != total {
						t.Errorf("%s: %d bytes sent, %d received, not %d", name, *s.SentBytes, *s.ReceivedBytes, total)
					}
					for k, s := range r.Streams {
						sender, receiver := s.Client, s.Server
						if p.Type == plan.TCPMaerts {
							sender, receiver = receiver, sender
						}
						if sender.SentBytes != uint64(p.Limit(k)) || receiver.ReceivedBytes != uint64(p.Limit(k)) {
							t.Errorf("%s: stream %d: %d sent, %d received, not %d", name, s.ID, sender.SentBytes, receiver.ReceivedBytes, p.Limit(k))
						}
						if m := sender.Mover; m.Name != send || m.FellBack || m.Bytes != nil && *m.Bytes != sender.SentBytes {
							t.Errorf("%s: stream %d: sender %+v of %d bytes", name, s.ID, m, sender.SentBytes)
						}
						if m := receiver.Mover; m.Name != receive || m.FellBack || m.Bytes != nil && *m.Bytes != receiver.ReceivedBytes {
							t.Errorf("%s: stream %d: receiver %+v of %d bytes", name, s.ID, m, receiver.ReceivedBytes)
						}
						if from.Chunk > 0 && sender.Mover.MaxBytes != nil && *sender.Mover.MaxBytes > from.Chunk {
							t.Errorf("%s: a call moved %d bytes", name, *sender.Mover.MaxBytes)
						}
					}
				}
			}
		}
	})
}

// A socket with little room cuts moves short. The rest goes first, at its place.
func TestShortMoves(t *testing.T) {
	t.Parallel()
	for _, send := range plan.SendMovers {
		const total = 1000003
		p := &plan.Test{Bytes: total, Verify: true}
		p.Client.Send, p.Client.Threads, p.Server.Threads = send, 1, 1
		p.Client.SendSize, p.Server.ReceiveSize = 100003, 3001
		r := newMatch(t, p, buffers{16 << 10, 16 << 10}).pass(t)
		if *r.Summary.ReceivedBytes != total {
			t.Errorf("%s: %d bytes, not %d", send, *r.Summary.ReceivedBytes, total)
		}
		if r.Streams[0].Client.ShortSends == 0 {
			t.Errorf("%s: nothing was cut short", send)
		}
	}
}

// The first wrong byte ends the test, by its place in the stream.
func TestVerify(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		for _, receive := range []string{plan.Read, plan.Zerocopy} {
			for _, wrong := range []int{0, 4093, 300_001} {
				near, far := tcpPair(t, buffers{})
				cfg := roleOf(plan.Receiver, threads, 10_000)
				cfg.Moving = flow.Moving{Receive: receive, Verify: true}
				cfg.Limits = []uint64{1 << 30}
				g := group(t, cfg, near)
				wait := failing(t, g, flow.Window{})
				payload := slices.Repeat(splice.Pattern(), 100)
				payload[wrong]++
				payload[wrong+2]++
				go peer{t, own(t, far)}.send(payload)
				_, err := wait()
				if !errors.Is(err, flow.ErrPayload) || !strings.Contains(err.Error(), fmt.Sprintf("at byte %d of the stream", wrong)) {
					t.Errorf("%s: byte %d: %v", receive, wrong, err)
				}
			}
		}
	})
}

// A lost or repeated piece is wrong bytes, too.
func TestVerifyFindsGaps(t *testing.T) {
	t.Parallel()
	for name, gap := range map[string]int{"lost page": 4096, "lost byte": 1, "lost MiB": 1 << 20, "repeated page": -4096} {
		near, far := tcpPair(t, buffers{})
		cfg := roleOf(plan.Receiver, 0, 10_000)
		cfg.Moving = flow.Moving{Verify: true}
		cfg.Limits = []uint64{1 << 30}
		g := group(t, cfg, near)
		wait := failing(t, g, flow.Window{})
		payload := slices.Repeat(splice.Pattern(), 300)
		const at = 100_000
		payload = slices.Concat(payload[:at], payload[at+gap:])
		go peer{t, own(t, far)}.send(payload)
		// The pattern has few bytes that equal their neighbours some periods on.
		if _, err := wait(); !errors.Is(err, flow.ErrPayload) || !strings.Contains(err.Error(), "at byte 10000") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reluctant sender moves some messages' pieces and then refuses the socket.
type reluctant struct {
	splice.Sender
	calls int // that it makes before it refuses
}

func (r *reluctant) Send(fd, n, flags int) (int, bool, unix.Errno) {
	if r.calls == 0 {
		return 0, false, unix.EINVAL
	}
	r.calls--
	return r.Sender.Send(fd, min(n, 777), flags)
}

// A reluctant receiver refuses the socket after some calls.
type reluctantReceiver struct {
	splice.Receiver
	calls int
}

func (r *reluctantReceiver) Receive(fd, n, flags int) (int, bool, unix.Errno) {
	if r.calls == 0 {
		return 0, false, unix.EINVAL
	}
	r.calls--
	return r.Receiver.Receive(fd, min(n, 777), flags)
}

// A stream whose mover refuses goes on by copying, where it was, and says so.
func TestFallBack(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const total = 100_003
		for _, calls := range []int{0, 1, 5} {
			near, far := tcpPair(t, buffers{})
			cfg := roleOf(plan.Sender, threads, 2000)
			cfg.Limits = []uint64{total}
			cfg.Moving = flow.Moving{Send: plan.Sendfile, Verify: true}
			g := group(t, cfg, near)
			memory, err := splice.NewPayload(splice.Pattern(), 2000)
			must(t, err)
			inner, err := splice.NewSendfile(memory.File())
			must(t, err)
			g.SetSender(&reluctant{inner, calls})
			done := measured(t, g, flow.Window{Closed: closed})
			got := make([]byte, total)
			if !(peer{t, own(t, far)}).receive(got) {
				t.Error("the stream ended early")
			}
			if at := splice.CheckPattern(got, 0); at >= 0 {
				t.Errorf("after %d calls: byte %d is wrong", calls, at)
			}
			if m := (<-done).Streams[0].Mover; !m.FellBack || *m.Calls != uint64(calls) || *m.Bytes != uint64(777*calls-calls/3*(777*3-2000)) {
				t.Errorf("after %d calls: fell back %v, %d calls of %d bytes", calls, m.FellBack, *m.Calls, *m.Bytes)
			}
			g.Close()
			must(t, memory.Close())

			near, far = tcpPair(t, buffers{})
			cfg = roleOf(plan.Receiver, threads, 2000)
			cfg.Limits = []uint64{total}
			cfg.Moving = flow.Moving{Receive: plan.Discard, Verify: calls == 0}
			g = group(t, cfg, near)
			g.SetReceiver(&reluctantReceiver{splice.NewDiscard(), calls})
			done = measured(t, g, flow.Window{Closed: closed})
			if !(peer{t, own(t, far)}).send(slices.Repeat(splice.Pattern(), 25)[:total]) {
				t.Error("the stream ended early")
			}
			half := <-done
			if m, got := half.Streams[0].Mover, half.Series[len(half.Series)-1].Received[0]; !m.FellBack || got != total {
				t.Errorf("receiver after %d calls: fell back %v, %d bytes", calls, m.FellBack, got)
			}
		}
	})
}

// descriptors counts what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// What movers own goes with their group: pipes, memory files, the null device.
// So it does when the group can't be made.
func TestMoversLeaveNothing(t *testing.T) {
	moving := func(cfg *flow.Config, send, receive string) {
		cfg.Moving = flow.Moving{Send: send, Receive: receive}
	}
	before := descriptors(t)
	for _, threads := range engines {
		for _, send := range plan.SendMovers {
			near, far := tcpPair(t, buffers{})
			cfg := roleOf(plan.Sender, threads, 5000)
			moving(&cfg, send, "")
			g := group(t, cfg, near)
			g.Start()
			peer{t, far}.receive(make([]byte, 20_000))
			g.Close()
			must(t, unix.Close(far))
		}
		for _, receive := range plan.ReceiveMovers {
			near, far := tcpPair(t, buffers{})
			cfg := roleOf(plan.Receiver, threads, 5000)
			moving(&cfg, "", receive)
			g := group(t, cfg, near)
			g.Start()
			peer{t, far}.send(make([]byte, 20_000))
			g.Close()
			must(t, unix.Close(far))
		}
	}
	for _, bad := range []flow.Moving{{Send: plan.Splice, PipeSize: -1}, {Send: "teleport"}} {
		var sockets []flow.Socket
		for i := range 2 {
			near, far := tcpPair(t, buffers{})
			must(t, unix.Close(far))
			sockets = append(sockets, flow.Socket{Stream: i + 1, FD: near})
		}
		cfg := roleOf(plan.Sender, 0, 5000)
		cfg.Moving = bad
		if _, err := flow.NewGroup(cfg, sockets); err == nil {
			t.Errorf("%+v makes a group", bad)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// A sink that splice can't fill is refused before anything moves.
func TestSinkThatIsFull(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	near, far := tcpPair(t, buffers{})
	defer unix.Close(far)
	cfg := roleOf(plan.Receiver, 0, 5000)
	cfg.Moving = flow.Moving{Receive: plan.Splice, Sink: full}
	if g, err := flow.NewGroup(cfg, []flow.Socket{{Stream: 1, FD: near}}); err == nil {
		g.Close()
		t.Error("/dev/full was taken for a sink")
	}
}

// Movers keep to a rate as sends do.
func TestPacedMovers(t *testing.T) {
	eachEngine(t, func(t *testing.T, threads int) {
		const rate = 40_000_000
		for _, send := range plan.SendMovers {
			p := &plan.Test{Bytes: 200_000, Verify: true}
			p.Client.Send, p.Client.Rate = send, rate
			p.Client.Threads, p.Server.Threads = threads, threads
			r := newMatch(t, p, buffers{}).pass(t)
			// All but the first message and what may catch up with it has to wait. The
			// receiver's window may open later than the sender's.
			took, least := r.Streams[0].Client.Duration, float64(200_000-8*p.Client.SendSize)*8/rate
			if *r.Summary.ReceivedBytes != 200_000 || took < least {
				t.Errorf("%s: %d bytes in %.4f s, at least %.4f s at the rate", send, *r.Summary.ReceivedBytes, took, least)
			}
		}
	})
}

// The kernel's reports wake the epoll engine while a paced stream is parked. They
// are no reason to end it, and they are all read; a broken connection is found
// all the same.
func TestParkedZerocopy(t *testing.T) {
	t.Parallel()
	const size, messages = 1000, 10
	near, far := tcpPair(t, buffers{})
	cfg := roleOf(plan.Sender, 1, size)
	cfg.Rate = 1_000_000 // 8 ms each
	cfg.Moving = flow.Moving{Send: plan.Zerocopy, Verify: true}
	g := group(t, cfg, near)
	wait := failing(t, g, flow.Window{})
	got := make([]byte, size*messages)
	if !(peer{t, far}).receive(got) || splice.CheckPattern(got, 0) >= 0 {
		t.Error("not what was to come")
	}
	must(t, unix.SetsockoptLinger(far, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}), unix.Close(far)) // a reset
	begun := sys.Monotonic()
	half, err := wait()
	if !errors.Is(err, flow.ErrBroken) {
		t.Errorf("the end is %v", err)
	}
	if took := time.Duration(sys.Monotonic() - begun); took > patience/4 {
		t.Errorf("found out after %v", took)
	}
	if m := half.Streams[0].Mover; m.Completions == nil || *m.Completions+1 < messages || *m.CopiedCompletions != *m.Completions {
		t.Errorf("%d messages: %+v", messages, m)
	}
}
