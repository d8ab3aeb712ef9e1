package splice_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/splice"
)

// transfer moves n bytes from a sender to a receiver and checks everything that
// can be checked.
func transfer(t *testing.T, sender, receiver string, n, chunk, pipe int, set setup, flags splice.Flags, pause func()) (splice.Stats, splice.Stats) {
	t.Helper()
	out, in := tcpPair(t, set)
	s := newSender(t, sender, pipe, out, flags)
	r, check := newReceiver(t, receiver, pipe, in, flags)
	mode := 0
	if set.nonblock {
		mode = unix.MSG_DONTWAIT
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendAll(t, s, out, n, chunk, mode)
		_ = unix.Shutdown(out, unix.SHUT_WR)
	}()
	receiveAll(t, r, in, n, chunk, mode, pause)
	<-done
	check(n)
	sent, got := s.Stats(), r.Stats()
	if sender != "write" {
		checkStats(t, s, n)
	}
	if receiver != "read" {
		checkStats(t, r, n)
	}
	return sent, got
}

// checkStats checks that a mover's figures agree with each other.
func checkStats(t *testing.T, m splice.Mover, n int) {
	t.Helper()
	var sizes splice.Sizes
	m.Sizes(&sizes)
	s := m.Stats()
	if s.Bytes != uint64(n) || s.Calls == 0 || s.Calls != sizes.Calls() || s.Largest > s.Bytes ||
		sizes.Quantile(1) > int(s.Largest) || sizes.Quantile(0.5) > sizes.Quantile(1) || s.Short > s.Calls {
		t.Errorf("%d bytes: %+v; %d calls, median %d, maximum %d", n, s, sizes.Calls(), sizes.Quantile(0.5), sizes.Quantile(1))
	}
}

func nothing() {}

// Every sender with every receiver, waiting and not waiting, moves exactly what
// it should.
func TestMovers(t *testing.T) {
	t.Parallel()
	for _, sender := range senderNames {
		for _, receiver := range receiverNames {
			for _, nonblock := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s, nonblock %v", sender, receiver, nonblock), func(t *testing.T) {
					for _, n := range []int{1, splice.PatternPeriod, 65536, 5_000_003} {
						transfer(t, sender, receiver, n, 128<<10, 64<<10, setup{nonblock: nonblock}, 0, nothing)
					}
				})
			}
		}
	}
}

// Which way the bytes went.
func TestPath(t *testing.T) {
	t.Parallel()
	const n = 5_000_003
	for _, tt := range []struct {
		sender, receiver string
		ok               func(sent, got splice.Stats) bool
	}{
		{"tee", "sink", func(sent, got splice.Stats) bool {
			return sent.Refills >= n/(64<<10) && got.Refills == got.Calls && sent.Fallbacks+got.Fallbacks == 0
		}},
		{"vmsplice", "sink into a file", func(sent, got splice.Stats) bool {
			return sent.Refills >= n/(64<<10) && got.Refills >= got.Calls && got.Largest <= 64<<10
		}},
		{"sendfile", "discard", func(sent, got splice.Stats) bool {
			return sent.Refills+got.Refills == 0 && sent.Calls >= n/(128<<10)
		}},
		{"write", "mapped", func(_, got splice.Stats) bool { // nothing to map
			return got.CopiedBytes <= n && got.Fallbacks <= got.Calls && got.Fallbacks > 0
		}},
	} {
		sent, got := transfer(t, tt.sender, tt.receiver, n, 128<<10, 64<<10, setup{}, 0, nothing)
		if !tt.ok(sent, got) {
			t.Errorf("%s to %s: %+v, %+v", tt.sender, tt.receiver, sent, got)
		}
	}
}

// Buffers that are far smaller than a message force short moves in both ways.
func TestShortMoves(t *testing.T) {
	t.Parallel()
	for _, sender := range senderNames {
		for _, receiver := range receiverNames {
			for _, nonblock := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s, nonblock %v", sender, receiver, nonblock), func(t *testing.T) {
					sent, _ := transfer(t, sender, receiver, 300_007, 100_003, 64<<10,
						setup{sndbuf: 1, rcvbuf: 16 << 10, nonblock: nonblock}, 0, nothing)
					if sender != "write" && nonblock && sent.Short == 0 {
						t.Errorf("none was short: %+v", sent)
					}
				})
			}
		}
	}
}

// Messages of any size through pipes of any size.
func TestPipeSizes(t *testing.T) {
	t.Parallel()
	for _, pipe := range []int{0, 1, 5000, 100_000, 1 << 20} {
		for _, sender := range []string{"tee", "wide tee", "vmsplice"} {
			for _, receiver := range []string{"read", "sink into a file"} {
				for _, chunk := range []int{1000, 70_001, 3 << 20} {
					transfer(t, sender, receiver, 300_001, chunk, pipe, setup{}, splice.More|splice.Move|splice.Nonblock, nothing)
				}
			}
		}
	}
}

// Without MSG_DONTWAIT the socket decides, with it the socket must agree.
func TestNoWaiting(t *testing.T) {
	t.Parallel()
	for _, sender := range senderNames {
		out, in := tcpPair(t, setup{sndbuf: 16 << 10, rcvbuf: 16 << 10})
		s := newSender(t, sender, 64<<10, out, 0)
		if sender != "write" && sender != "zerocopy" {
			if moved, handled, errno := s.Send(out, 1<<20, unix.MSG_DONTWAIT); moved != 0 || handled || errno != unix.EOPNOTSUPP {
				t.Errorf("%s on a socket that waits: %d, %v, %v", sender, moved, handled, errno)
			}
		}
		must(t, unix.SetNonblock(out, true))
		total := 0
		for {
			moved, handled, errno := s.Send(out, 1<<20, unix.MSG_DONTWAIT)
			if errno == unix.EAGAIN {
				break
			}
			if !handled || errno != 0 {
				t.Fatalf("%s: %d, %v, %v", sender, moved, handled, errno)
			}
			if total += moved; total > 8<<20 {
				t.Fatalf("%s: the socket takes everything", sender)
			}
		}
		// What it took is what comes.
		must(t, unix.Shutdown(out, unix.SHUT_WR))
		receiveAll(t, newReader(), in, total, 64<<10, 0, nothing)
	}
	for _, receiver := range receiverNames {
		_, in := tcpPair(t, setup{})
		r, check := newReceiver(t, receiver, 64<<10, in, 0)
		if receiver == "sink" {
			if moved, handled, errno := r.Receive(in, 1, unix.MSG_DONTWAIT); moved != 0 || handled || errno != unix.EOPNOTSUPP {
				t.Errorf("%s on a socket that waits: %d, %v, %v", receiver, moved, handled, errno)
			}
		}
		if _, handled, errno := r.Receive(in, 1<<20, 0); !handled || errno != unix.EAGAIN && errno != unix.EINTR {
			t.Errorf("%s, waiting for nothing: %v, %v", receiver, handled, errno)
		}
		must(t, unix.SetNonblock(in, true))
		if _, handled, errno := r.Receive(in, 1<<20, unix.MSG_DONTWAIT); !handled || errno != unix.EAGAIN {
			t.Errorf("%s of nothing: %v, %v", receiver, handled, errno)
		}
		check(0)
	}
}
