package splice_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
	"gperf/splice"
)

func TestPayload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ content, size, want int }{
		{1, 0, 1}, {1, 5, 5}, {3, 5, 6}, {3, 6, 6}, {5000, 1, 5000}, {4093, 1 << 20, 257 * 4093},
	} {
		content := bytes.Repeat([]byte("ab"), tt.content)[:tt.content]
		p, err := splice.NewPayload(content, tt.size)
		must(t, err)
		want := bytes.Repeat(content, tt.want/tt.content)
		got := make([]byte, tt.want+1)
		n, _ := p.File().ReadAt(got, 0)
		if !bytes.Equal(p.Bytes(), want) || !bytes.Equal(got[:n], want) {
			t.Errorf("%d bytes to %d: %d in memory, %d in the file; want %d", tt.content, tt.size, len(p.Bytes()), n, tt.want)
		}
		must(t, p.Close())
	}
	if _, err := splice.NewPayload(nil, 100); err == nil {
		t.Error("an empty payload")
	}
	if _, err := splice.NewStanding(0, nil); err == nil {
		t.Error("an empty standing pipe")
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	stream := bytes.Repeat(splice.Pattern(), 60)
	for _, at := range []int{0, 1, 4092, 4093, 4096, 100_000} {
		for _, n := range []int{0, 1, 4093, 4096, 140_000} {
			p := bytes.Clone(stream[at : at+n])
			if wrong := splice.CheckPattern(p, uint64(at)); wrong != -1 {
				t.Errorf("%d bytes from %d on: %d is wrong", n, at, wrong)
			}
			for _, i := range []int{0, n / 2, n - 1} {
				if i >= 0 && i < n {
					p[i]++
					if wrong := splice.CheckPattern(p, uint64(at)); wrong != i {
						t.Errorf("%d bytes from %d on, with %d wrong: %d", n, at, i, wrong)
					}
					p[i]--
				}
			}
		}
	}
	// What is lost or comes twice shows at once.
	for _, shift := range []int{1, 64, 1448, 4096, 65536} {
		if wrong := splice.CheckPattern(stream[shift:shift+1000], 0); wrong < 0 || wrong > 8 {
			t.Errorf("%d bytes missing: %d", shift, wrong)
		}
	}
}

// The standing pipe holds what fits, whole.
func TestStanding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ content, pipe, want int }{
		{1, 4096, 4096}, {4093, 4096, 4093}, {4093, 65536, 16 * 4093}, {100_000, 65536, 65536}, {3, 65536, 65535},
	} {
		s, err := splice.NewStanding(tt.pipe, make([]byte, tt.content))
		must(t, err)
		tee, err := splice.NewTee(s, 0)
		must(t, err)
		if n, err := s.Pipe().Queued(); n != tt.want || err != nil || tee.Period() != tt.want {
			t.Errorf("%d bytes in a pipe of %d: %d, %v; period %d, want %d", tt.content, tt.pipe, n, err, tee.Period(), tt.want)
		}
		must(t, tee.Close(), s.Close())
	}
}

// A wide one holds more, in the same number of slots.
func TestWideStanding(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	for _, size := range []int{1, 16 * page, 256 * page} {
		for _, content := range []int{1, splice.PatternPeriod, 100_000, 20 << 20} {
			s, err := splice.NewWideStanding(size, make([]byte, content))
			must(t, err)
			queued, err := s.Pipe().Queued()
			must(t, err)
			if most := s.Pipe().Size() / page * 32 << 10; queued != s.Period() || queued > most ||
				queued%content != 0 && queued > content {
				t.Errorf("%d bytes in a pipe of %d: %d, period %d", content, s.Pipe().Size(), queued, s.Period())
			} else if content == 1 {
				t.Logf("pipe of %d: %d bytes", size, queued)
			}
			if content == 1 && s.Period() < s.Pipe().Size() {
				t.Errorf("a pipe of %d holds no more than %d", s.Pipe().Size(), s.Period())
			}
			must(t, s.Close())
		}
	}
	if _, err := splice.NewWideStanding(0, nil); err == nil {
		t.Error("an empty wide pipe")
	}
}

// What the socket doesn't take is in the pipe, and senders that share a standing
// pipe don't disturb each other.
func TestSharedStanding(t *testing.T) {
	t.Parallel()
	standing, err := splice.NewStanding(64<<10, splice.Pattern())
	must(t, err)
	closed(t, standing)
	const n, streams = 1_000_003, 4
	done := make(chan struct{})
	for range streams {
		tee, err := splice.NewTee(standing, 0)
		must(t, err)
		closed(t, tee)
		out, in := tcpPair(t, setup{})
		go func() {
			sendAll(t, tee, out, n, 50_000, 0)
			_ = unix.Shutdown(out, unix.SHUT_WR)
			if queued, err := tee.Pipe().Queued(); err != nil || queued != (tee.Period()-n%tee.Period())%tee.Period() {
				t.Errorf("%d bytes of %d are left in the pipe, %v", queued, tee.Period(), err)
			}
			done <- struct{}{}
		}()
		go func() {
			receiveAll(t, newReader(), in, n, 64<<10, 0, nothing)
			done <- struct{}{}
		}()
	}
	for range 2 * streams {
		<-done
	}
}

func TestNewSendfile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payload")
	must(t, os.WriteFile(path, nil, 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	closed(t, file)
	if _, err := splice.NewSendfile(file); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file: %v", err)
	}
	null, err := os.Open(os.DevNull)
	must(t, err)
	closed(t, null)
	if _, err := splice.NewSendfile(null); err == nil || err.Error() != "sendfile: /dev/null is not a regular file" {
		t.Errorf("/dev/null: %v", err)
	}
	// A file that shrinks ends the stream, rather than sending nothing for ever.
	_, err = file.Write(make([]byte, 100))
	must(t, err)
	s, err := splice.NewSendfile(file)
	must(t, err)
	out, _ := tcpPair(t, setup{})
	sendAll(t, s, out, 50, 50, 0)
	must(t, file.Truncate(50))
	if moved, handled, errno := s.Send(out, 50, 0); moved != 0 || !handled || errno != unix.ENODATA {
		t.Errorf("a shorter file: %d, %v, %v", moved, handled, errno)
	}
}

// MSG_MORE holds a small message back, as long as another may follow.
func TestMore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sender string
		flags  splice.Flags
		mode   int
	}{{"tee", splice.More, 0}, {"vmsplice", 0, unix.MSG_MORE}, {"zerocopy", 0, unix.MSG_MORE}} {
		out, _ := tcpPair(t, setup{})
		must(t, unix.SetsockoptInt(out, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
		s := newSender(t, tt.sender, 0, out, tt.flags)
		begun := time.Now()
		sendAll(t, s, out, 100, 100, tt.mode)
		info, err := unix.GetsockoptTCPInfo(out, unix.IPPROTO_TCP, unix.TCP_INFO)
		must(t, err)
		// After 200 ms a timer sends it all the same.
		if info.Notsent_bytes != 100 && time.Since(begun) < 150*time.Millisecond {
			t.Errorf("%s: %d bytes were held back", tt.sender, info.Notsent_bytes)
		}
	}
}

// A probe tries what it says, and doesn't take a network that isn't there for a
// mover that doesn't work.
func TestProbe(t *testing.T) {
	t.Parallel()
	senders := []string{splice.SendSendfile, splice.SendTee, splice.SendVmsplice, splice.SendZerocopy}
	receivers := []string{splice.ReceiveDiscard, splice.ReceiveSplice, splice.ReceiveMapped}
	for _, name := range senders {
		must(t, splice.ProbeSender(name, 0))
	}
	for _, name := range receivers {
		must(t, splice.ProbeReceiver(name, unix.IPPROTO_TCP))
	}
	for _, err := range []error{splice.ProbeSender("carrier pigeon", 0), splice.ProbeReceiver("carrier pigeon", 0)} {
		if err == nil || !strings.Contains(err.Error(), "carrier pigeon: unknown") {
			t.Errorf("an unknown mover: %v", err)
		}
	}
	for _, name := range senders {
		t.Logf("MPTCP, send %s: %v", name, splice.ProbeSender(name, unix.IPPROTO_MPTCP))
	}
	for _, name := range receivers {
		t.Logf("MPTCP, receive %s: %v", name, splice.ProbeReceiver(name, unix.IPPROTO_MPTCP))
	}
}

// No mover allocates anything per call.
func TestAllocations(t *testing.T) {
	for _, sender := range senderNames {
		for _, receiver := range receiverNames {
			out, in := tcpPair(t, setup{nonblock: true})
			s := newSender(t, sender, 0, out, 0)
			r, check := newReceiver(t, receiver, 0, in, 0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const calls = 200
			var sent, got int
			for range calls {
				n, _, _ := s.Send(out, 100_000, unix.MSG_DONTWAIT)
				m, _, _ := r.Receive(in, 100_000, unix.MSG_DONTWAIT)
				sent, got = sent+n, got+m
			}
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > calls/10 { // whatever the runtime does for itself
				t.Errorf("%s to %s: %d allocations for %d calls", sender, receiver, n, calls)
			}
			if sent == 0 || got == 0 {
				t.Errorf("%s to %s: %d bytes sent, %d received", sender, receiver, sent, got)
			}
			if receiver != "sink into a file" { // which would have to be read
				check(0)
			} else {
				must(t, r.Close())
			}
		}
	}
}

// Where loopback is down nothing can be probed, and nothing is said.
func TestProbeUntried(t *testing.T) {
	t.Parallel()
	must(t, netnstest.New(t).Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		lo, err := unix.NewIfreq("lo")
		must(t, err)
		lo.SetUint16(0) // flags: down
		must(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
		if err := splice.ProbeSender(splice.SendTee, 0); !errors.Is(err, splice.ErrUntried) {
			t.Errorf("%v", err)
		}
		return nil
	}))
}
