package splice_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/splice"
)

func TestMain(m *testing.M) {
	// Raw calls hold a P while they wait.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 8))
	os.Exit(m.Run())
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// closed closes something when the test ends.
func closed(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A setup is what a test wants of its connection.
type setup struct {
	sndbuf, rcvbuf int // 0: the kernel's
	mss            int
	nonblock       bool
}

// tcpPair returns both ends of a TCP connection over loopback, with time-outs.
func tcpPair(t testing.TB, s setup) (out, in int) {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		if s.sndbuf > 0 {
			must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, s.sndbuf))
		}
		if s.rcvbuf > 0 {
			must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, s.rcvbuf))
		}
		if s.mss > 0 {
			must(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, s.mss))
		}
		return fd
	}
	listener := socket()
	must(t, unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(listener, 1))
	address, err := unix.Getsockname(listener)
	must(t, err)
	out = socket()
	must(t, unix.Connect(out, address))
	in, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(in) })
	limit := unix.NsecToTimeval(int64(200 * time.Millisecond))
	for _, fd := range []int{out, in} { // only now: with a time-out any signal ends a connect
		must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
	}
	if s.nonblock {
		must(t, unix.SetNonblock(out, true), unix.SetNonblock(in, true))
	}
	return out, in
}

// hangUp closes a socket and keeps its number taken: tests run side by side, and
// the clean-up closes the number once more.
func hangUp(t testing.TB, fd int) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	must(t, err)
	must(t, unix.Dup3(int(null.Fd()), fd, unix.O_CLOEXEC), null.Close())
}

// A reader is recv(2) as a receiver, which keeps what it got.
type reader struct {
	buffer []byte
	last   []byte
}

func newReader() *reader { return &reader{buffer: make([]byte, 128<<10)} }

func (r *reader) Receive(fd, n, flags int) (int, bool, unix.Errno) {
	moved, errno := sys.Recv(fd, r.buffer[:min(n, len(r.buffer))], flags)
	if errno != 0 {
		return 0, true, errno
	}
	r.last = r.buffer[:moved]
	return moved, true, 0
}
func (r *reader) Last() []byte { return r.last }

func (r *reader) Stats() splice.Stats { return splice.Stats{} }
func (r *reader) Sizes(*splice.Sizes) {}
func (r *reader) Op() string          { return "recv" }
func (r *reader) Pipe() *splice.Pipe  { return nil }
func (r *reader) Close() error        { return nil }

// A writer is send(2) as a sender of the pattern.
type writer struct {
	pattern []byte
	sent    int
}

func newWriter() *writer {
	p := splice.Pattern()
	for len(p) < 256<<10 {
		p = append(p, p...)
	}
	return &writer{pattern: p}
}

func (w *writer) Send(fd, n, flags int) (int, bool, unix.Errno) {
	p := w.pattern[w.sent%splice.PatternPeriod:]
	moved, errno := sys.Send(fd, p[:min(n, len(p))], flags|unix.MSG_NOSIGNAL)
	if errno != 0 {
		return 0, true, errno
	}
	w.sent += moved
	return moved, true, 0
}
func (w *writer) Period() int { return splice.PatternPeriod }

func (w *writer) Stats() splice.Stats { return splice.Stats{} }
func (w *writer) Sizes(*splice.Sizes) {}
func (w *writer) Op() string          { return "send" }
func (w *writer) Pipe() *splice.Pipe  { return nil }
func (w *writer) Close() error        { return nil }

// Senders and receivers by name: what the tests go through.
var (
	senderNames   = []string{"write", "sendfile", "sendfile of a file", "tee", "wide tee", "vmsplice", "zerocopy"}
	receiverNames = []string{"read", "discard", "sink", "sink into a file", "mapped"}
)

// newSender makes a sender of the pattern by name.
func newSender(t testing.TB, name string, pipe, fd int, flags splice.Flags) splice.Sender {
	t.Helper()
	payload, err := splice.NewPayload(splice.Pattern(), 1<<20)
	must(t, err)
	closed(t, payload)
	var s splice.Sender
	switch name {
	case "write":
		s = newWriter()
	case "sendfile":
		s, err = splice.NewSendfile(payload.File())
	case "sendfile of a file":
		path := filepath.Join(t.TempDir(), "payload")
		must(t, os.WriteFile(path, payload.Bytes(), 0o600))
		file, err := os.Open(path)
		must(t, err)
		closed(t, file)
		s, err = splice.NewSendfile(file)
		must(t, err)
	case "tee":
		standing, err := splice.NewStanding(pipe, splice.Pattern())
		must(t, err)
		closed(t, standing)
		s, err = splice.NewTee(standing, flags)
		must(t, err)
	case "wide tee":
		standing, err := splice.NewWideStanding(pipe, splice.Pattern())
		must(t, err)
		closed(t, standing)
		s, err = splice.NewTee(standing, flags)
		must(t, err)
	case "vmsplice":
		s, err = splice.NewVmsplice(pipe, payload, flags)
	case "zerocopy":
		s, err = splice.NewZerocopy(payload, fd)
	default:
		t.Fatal("no sender ", name)
	}
	must(t, err)
	closed(t, s)
	return s
}

// newReceiver makes a receiver by name, and a function that closes it and checks
// that the first n bytes of the pattern came, as far as anyone can see them.
func newReceiver(t testing.TB, name string, pipe, fd int, flags splice.Flags) (r splice.Receiver, check func(n int)) {
	t.Helper()
	check = func(int) { must(t, r.Close()) }
	var err error
	switch name {
	case "read":
		r = newReader()
	case "discard":
		r = splice.NewDiscard()
	case "sink":
		r, err = splice.NewSink(pipe, nil, flags)
	case "sink into a file":
		var file *os.File
		file, err = os.Create(filepath.Join(t.TempDir(), "sink"))
		must(t, err)
		closed(t, file)
		r, err = splice.NewSink(pipe, file, flags)
		check = func(n int) {
			t.Helper()
			must(t, r.Close())
			got, err := os.ReadFile(file.Name())
			must(t, err)
			if at := splice.CheckPattern(got, 0); at >= 0 || len(got) != n {
				t.Errorf("%s: %d of %d bytes in the file, the first wrong one at %d", name, len(got), n, at)
			}
		}
	case "mapped":
		r, err = splice.NewMapped(fd, 256<<10)
	default:
		t.Fatal("no receiver ", name)
	}
	must(t, err)
	return r, check
}

// await waits until a socket is ready.
func await(fd int, events int16) {
	_, _ = sys.Poll(fd, events, int64(time.Second))
}

// sendAll sends n bytes in messages of chunk, and reports an error by t.Error.
func sendAll(t testing.TB, s splice.Sender, fd, n, chunk, flags int) {
	begun := time.Now()
	for sent := 0; sent < n; {
		moved, handled, errno := s.Send(fd, min(chunk, n-sent), flags)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && time.Since(begun) < 20*time.Second:
			await(fd, unix.POLLOUT)
		case errno != 0 || !handled || moved <= 0 || moved > min(chunk, n-sent):
			t.Errorf("after %d of %d bytes: %s: %d, %v, %v", sent, n, s.Op(), moved, handled, errno)
			return
		}
		sent += moved
	}
}

// receiveAll receives n bytes in calls of chunk and checks those that can be
// seen; then the end of the stream must come. pause is called before each call.
func receiveAll(t testing.TB, r splice.Receiver, fd, n, chunk, flags int, pause func()) {
	begun := time.Now()
	seen, _ := r.(interface{ Last() []byte })
	for got := 0; ; {
		pause()
		// Up to the limit exactly, then more than there is.
		ask := chunk
		if got < n {
			ask = min(chunk, n-got)
		}
		moved, handled, errno := r.Receive(fd, ask, flags)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN && time.Since(begun) < 20*time.Second:
			await(fd, unix.POLLIN)
			continue
		case errno != 0 || !handled || moved < 0 || moved > ask:
			t.Errorf("after %d of %d bytes: %s: %d, %v, %v", got, n, r.Op(), moved, handled, errno)
			return
		case moved == 0:
			if got != n {
				t.Errorf("the stream ended after %d of %d bytes", got, n)
			}
			return
		}
		if seen != nil {
			last := seen.Last()
			if len(last) != moved {
				t.Errorf("%d bytes can be seen of %d", len(last), moved)
			}
			if at := splice.CheckPattern(last, uint64(got)); at >= 0 {
				t.Errorf("byte %d is wrong", got+at)
				return
			}
		}
		if got += moved; got > n {
			t.Errorf("%d bytes came of %d", got, n)
			return
		}
	}
}
