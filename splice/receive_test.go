package splice_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/splice"
)

// Whole pages are mapped, if the segments bring whole pages: 4096 bytes and 12 of
// timestamps. On loopback they are those into which MSG_ZEROCOPY was copied.
func TestMapped(t *testing.T) {
	t.Parallel()
	if os.Getpagesize() != 4096 {
		t.Skip("pages aren't of 4096 bytes")
	}
	const n = 5_000_003
	_, got := transfer(t, "zerocopy", "mapped", n, 256<<10, 0, setup{mss: 4108}, 0, nothing)
	if mapped := got.Bytes - got.CopiedBytes; mapped == 0 {
		t.Errorf("nothing was mapped: %+v", got)
	} else {
		t.Logf("%d of %d bytes mapped", mapped, got.Bytes)
	}
}

// A broken connection isn't the end of a stream.
func TestReset(t *testing.T) {
	t.Parallel()
	for _, receiver := range receiverNames {
		for _, nonblock := range []bool{false, true} {
			out, in := tcpPair(t, setup{nonblock: nonblock})
			r, check := newReceiver(t, receiver, 0, in, 0)
			must(t, unix.SetsockoptLinger(out, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
			hangUp(t, out)
			flags := 0
			if nonblock {
				flags = unix.MSG_DONTWAIT
			}
			moved, handled, errno := r.Receive(in, 1<<20, flags)
			for errno == unix.EINTR {
				moved, handled, errno = r.Receive(in, 1<<20, flags)
			}
			if moved != 0 || !handled || errno != unix.ECONNRESET {
				t.Errorf("%s, nonblock %v: %d, %v, %v", receiver, nonblock, moved, handled, errno)
			}
			check(0)
		}
	}
	for _, sender := range senderNames {
		out, in := tcpPair(t, setup{})
		s := newSender(t, sender, 0, out, 0)
		sendAll(t, s, out, 100, 100, 0)
		hangUp(t, in) // with bytes that nobody has read
		_, handled, errno := s.Send(out, 1<<20, 0)
		for errno == 0 || errno == unix.EINTR {
			_, handled, errno = s.Send(out, 1<<20, 0)
		}
		if !handled || errno != unix.EPIPE && errno != unix.ECONNRESET {
			t.Errorf("%s: %v, %v", sender, handled, errno)
		}
	}
}

// A sink that takes no more: nothing else leaves the socket, and closing tells.
func TestFullSink(t *testing.T) {
	t.Parallel()
	out, in := tcpPair(t, setup{})
	fd, err := unix.MemfdCreate("sink", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must(t, err, unix.Ftruncate(fd, 4096))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_GROW)
	file := os.NewFile(uintptr(fd), "the sink")
	must(t, err)
	closed(t, file)
	s, err := splice.NewSink(64<<10, file, 0)
	must(t, err)
	if n, errno := sys.Send(out, make([]byte, 10_000), 0); n != 10_000 || errno != 0 {
		t.Fatal(n, errno)
	}
	for _, n := range []int{4096, 100} { // what fits, what doesn't
		if moved, handled, errno := s.Receive(in, n, 0); moved != n || !handled || errno != 0 {
			t.Fatalf("%d, %v, %v", moved, handled, errno)
		}
	}
	for range 2 {
		if moved, handled, errno := s.Receive(in, 100, 0); moved != 0 || !handled || errno != unix.EPERM || s.Op() != "splice to sink" {
			t.Errorf("%d, %v, %s: %v", moved, handled, s.Op(), errno)
		}
	}
	if n, err := s.Pipe().Queued(); n != 100 || err != nil || s.Stats().Bytes != 4196 {
		t.Errorf("%d bytes in the pipe, %v; %+v", n, err, s.Stats())
	}
	if n, errno := sys.Discard(in, 1<<20, unix.MSG_DONTWAIT); n != 10_000-4196 || errno != 0 {
		t.Errorf("%d bytes left in the socket, %v", n, errno)
	}
	if err := s.Close(); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "the sink: the last 100 bytes") {
		t.Errorf("%v", err)
	}
}

func TestNewSink(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sink")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	appending, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	closed(t, appending)
	if _, err := splice.NewSink(0, appending, 0); err == nil || !strings.Contains(err.Error(), "appending") {
		t.Errorf("appending: %v", err)
	}
	r, w, err := os.Pipe()
	must(t, err)
	closed(t, r)
	closed(t, w)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	closed(t, full)
	for _, file := range []*os.File{w, full} {
		if _, err := splice.NewSink(0, file, 0); err == nil || !strings.Contains(err.Error(), "neither a regular file nor the null device") {
			t.Errorf("%s: %v", file.Name(), err)
		}
	}
	// It goes on where the file is.
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	closed(t, file)
	_, err = file.Seek(3, io.SeekStart)
	must(t, err)
	s, err := splice.NewSink(0, file, 0)
	must(t, err)
	out, in := tcpPair(t, setup{})
	if n, errno := sys.Send(out, []byte("after"), 0); n != 5 || errno != 0 {
		t.Fatal(n, errno)
	}
	if moved, _, errno := s.Receive(in, 100, 0); moved != 5 || errno != 0 {
		t.Errorf("%d, %v", moved, errno)
	}
	must(t, s.Close())
	if b, err := os.ReadFile(path); string(b) != "befafter" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// What isn't TCP is refused before anything is consumed, where it is refused.
func TestUnhandled(t *testing.T) {
	t.Parallel()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	if n, errno := sys.Send(fds[1], []byte("still here"), 0); n != 10 || errno != 0 {
		t.Fatal(n, errno)
	}
	d := splice.NewDiscard()
	if moved, handled, errno := d.Receive(fds[0], 10, 0); moved != 0 || handled || errno != unix.EOPNOTSUPP {
		t.Errorf("discard: %d, %v, %v", moved, handled, errno)
	}
	b := make([]byte, 20)
	if n, errno := sys.Recv(fds[0], b, 0); string(b[:max(n, 0)]) != "still here" || errno != 0 {
		t.Errorf("then recv: %q, %v", b[:max(n, 0)], errno)
	}
	if _, err := splice.NewMapped(fds[0], 4096); !errors.Is(err, unix.ENODEV) {
		t.Errorf("mapped: %v", err)
	}
	payload, err := splice.NewPayload([]byte{1}, 1)
	must(t, err)
	closed(t, payload)
	if _, err := splice.NewZerocopy(payload, fds[0]); !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.Errno(524)) {
		t.Errorf("zerocopy: %v", err)
	}
	for _, name := range []string{"tee", "vmsplice"} {
		s := newSender(t, name, 0, -1, 0)
		// An event descriptor can be read and written, but nothing spliced into it.
		event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		must(t, err)
		if moved, handled, errno := s.Send(event, 100, 0); moved != 0 || handled || errno != unix.EINVAL {
			t.Errorf("%s: %d, %v, %v", name, moved, handled, errno)
		}
		must(t, unix.Close(event))
	}
}
