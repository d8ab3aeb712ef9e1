package flow_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/plan"
	"gperf/splice"
)

// drive moves n messages through a group with one stream, as its peer: messages
// or transactions, by the group's role.
func drive(p peer, role plan.Role, b []byte, n int) bool {
	for range n {
		ok := true
		switch role {
		case plan.Sender:
			ok = p.receive(b)
		case plan.Receiver:
			ok = p.send(b)
		case plan.Requester:
			ok = p.receive(b) && p.send(b)
		case plan.Responder:
			ok = p.send(b) && p.receive(b)
		}
		if !ok {
			p.t.Error("the stream has ended")
			return false
		}
	}
	return true
}

// No loop allocates anything per message or per transaction, in either engine.
func TestLoopAllocations(t *testing.T) {
	const few = 50 // whatever the runtime does for itself
	for engine, threads := range engines {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver, plan.Requester, plan.Responder} {
			for _, paced := range []bool{false, true} {
				if paced && role != plan.Sender {
					continue
				}
				fd, far := unixPair(t)
				cfg := roleOf(role, threads, 256)
				if paced {
					cfg.Rate = 1 << 40
				}
				g := group(t, cfg, fd)
				g.Start()
				p, b := peer{t, own(t, far)}, make([]byte, 256)
				drive(p, role, b, 100)
				runtime.GC() // the collector is off: this is the last until Close
				var before, after runtime.MemStats
				messages := scale(10_000)
				runtime.ReadMemStats(&before)
				drive(p, role, b, messages)
				runtime.ReadMemStats(&after)
				if n := after.Mallocs - before.Mallocs; n > few {
					t.Errorf("%s %s, paced %v: %d allocations for %d messages", engine, role, paced, n, messages)
				}
				if before.NumGC != after.NumGC {
					t.Errorf("%s %s: %d collections", engine, role, after.NumGC-before.NumGC)
				}
				g.Close()
			}
		}
	}
}

// Nor does any mover.
func TestMoverAllocations(t *testing.T) {
	const few = 50
	for engine, threads := range engines {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver} {
			movers := plan.SendMovers
			if role == plan.Receiver {
				movers = plan.ReceiveMovers
			}
			for _, mover := range movers {
				for _, verify := range []bool{false, true} {
					if verify && role == plan.Receiver && !seen(mover) {
						continue
					}
					near, far := tcpPair(t, buffers{})
					const size = splice.PatternPeriod // so that each message is the same
					cfg := roleOf(role, threads, size)
					cfg.Moving = flow.Moving{Verify: verify}
					if role == plan.Sender {
						cfg.Moving.Send = mover
					} else {
						cfg.Moving.Receive = mover
					}
					g := group(t, cfg, near)
					g.Start()
					p, b := peer{t, own(t, far)}, splice.Pattern()
					drive(p, role, b, 100)
					runtime.GC()
					var before, after runtime.MemStats
					messages := scale(3000)
					runtime.ReadMemStats(&before)
					drive(p, role, b, messages)
					runtime.ReadMemStats(&after)
					if n := after.Mallocs - before.Mallocs; n > few {
						t.Errorf("%s %s by %s, verify %v: %d allocations for %d messages", engine, role, mover, verify, n, messages)
					}
					g.Close()
				}
			}
		}
	}
}

// Nor do datagrams.
func TestDatagramAllocations(t *testing.T) {
	const few, size = 50, 256
	for _, role := range []plan.Role{plan.Sender, plan.Receiver, plan.Requester, plan.Responder} {
		for _, plain := range []bool{false, true} {
			fd, far := udpPair(t)
			cfg := datagrams(role, size)
			cfg.Plain, cfg.ResponseTimeout = plain, time.Hour
			if role == plan.Sender {
				cfg.Rate = 100_000_000 // lest its datagrams get lost
			}
			g := group(t, cfg, fd)
			g.Start()
			p, b := peer{t, own(t, far)}, make([]byte, size)
			number := uint64(0)
			if role == plan.Receiver { // to which nobody listens: it must not be overrun
				must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20))
			}
			exchange := func(n int) {
				for range n {
					binary.BigEndian.PutUint64(b, number)
					number++
					switch {
					case role == plan.Sender:
						p.receive(b)
					case role == plan.Requester:
						p.receive(b)
						p.send(b)
					case role == plan.Responder:
						p.send(b)
						p.receive(b)
					default:
						p.send(b)
					}
				}
			}
			exchange(100)
			runtime.GC()
			var before, after runtime.MemStats
			messages := scale(3000)
			runtime.ReadMemStats(&before)
			exchange(messages)
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > few {
				t.Errorf("%s, plain %v: %d allocations for %d datagrams", role, plain, n, messages)
			}
			g.Close()
		}
	}
}

// Nor do connections.
func TestConnectionAllocations(t *testing.T) {
	var mallocs [2]uint64
	for i, n := range []uint64{uint64(scale(200)), uint64(scale(1200))} {
		s := streets["listener"](t)
		one, two := standingPairs(t, 1)
		rcfg, ccfg := connections(plan.Responder, 1, 1), connections(plan.Requester, 1, 1)
		rcfg.Acceptor, ccfg.Limits = s.acceptor, []uint64{n}
		responder, requester := group(t, rcfg, two...), s.clients(t, ccfg, one...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		responder.Start()
		<-measured(t, requester, flow.Window{})
		runtime.ReadMemStats(&after)
		requester.Close()
		responder.Close()
		mallocs[i] = after.Mallocs - before.Mallocs
	}
	if mallocs[1] > mallocs[0]+100 {
		t.Errorf("%d allocations for 200 connections, %d for 1,200", mallocs[0], mallocs[1])
	}
	q, err := flow.NewQueue(nil)
	must(t, err)
	defer q.Close()
	one, two := tcpPair(t, buffers{})
	own(t, one)
	own(t, two)
	if n := testing.AllocsPerRun(100, func() {
		if !q.Put(one) {
			t.Error("no room")
		}
		if _, errno := q.Accept(); errno != 0 {
			t.Error(errno)
		}
	}); n > 0 {
		t.Errorf("%v allocations per connection in a queue", n)
	}
}

// The clockwork around the loops doesn't allocate by their number either.
func TestMeasureAllocations(t *testing.T) {
	for engine, threads := range engines {
		var mallocs [2]uint64
		for i, n := range []int64{int64(scale(500)), int64(scale(5_000))} {
			p := &plan.Test{Type: plan.TCPRR, Transactions: n}
			p.Client.Threads, p.Server.Threads = threads, threads
			m := newMatch(t, p, buffers{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m.run(t.Context())
			runtime.ReadMemStats(&after)
			must(t, m.clientErr, m.serverErr)
			m.finish(t)
			mallocs[i] = after.Mallocs - before.Mallocs
		}
		if mallocs[1] > mallocs[0]+300 {
			t.Errorf("%s: %d allocations for 500 transactions, %d for 5,000", engine, mallocs[0], mallocs[1])
		}
	}
}

func BenchmarkBulk(b *testing.B) {
	for engine, threads := range engines {
		for _, role := range []plan.Role{plan.Sender, plan.Receiver} {
			for _, size := range []int{256, 16 << 10, 128 << 10} {
				b.Run(fmt.Sprintf("engine=%s/role=%s/message=%d", engine, role, size), func(b *testing.B) {
					benchmark(b, threads, role, size)
				})
			}
		}
	}
}

func BenchmarkRR(b *testing.B) {
	for engine, threads := range engines {
		for _, role := range []plan.Role{plan.Requester, plan.Responder} {
			b.Run(fmt.Sprintf("engine=%s/role=%s", engine, role), func(b *testing.B) {
				benchmark(b, threads, role, 1)
			})
		}
	}
}

// benchmark moves a message through a group with each iteration; the benchmark
// itself is the peer.
func benchmark(b *testing.B, threads int, role plan.Role, size int) {
	fd, far := tcpPair(b, buffers{})
	g := group(b, roleOf(role, threads, size), fd)
	g.Start()
	p, message := peer{b, own(b, far)}, make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if !drive(p, role, message, 1) {
			return
		}
	}
	g.Close()
}
