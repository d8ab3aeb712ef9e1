package sys_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// pipe returns the ends of a pipe.
func pipe(t testing.TB) (r, w int) {
	t.Helper()
	var fds [2]int
	must(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// tcpPair returns both ends of a TCP connection over loopback.
func tcpPair(t testing.TB) (out, in int) {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
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
	return out, in
}

// mapping returns memory outside Go's heap.
func mapping(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(t, err)
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// A pipe that keeps its bytes, one that gets them, a socket, a pipe, a file.
func TestSplice(t *testing.T) {
	t.Parallel()
	standing, working := [2]int{}, [2]int{}
	standing[0], standing[1] = pipe(t)
	working[0], working[1] = pipe(t)
	out, in := tcpPair(t)
	content := mapping(t, 10_000)
	copy(content, "page by page")
	if n, errno := sys.Vmsplice(standing[1], content, 0); n != len(content) || errno != 0 {
		t.Fatalf("Vmsplice: %d, %v", n, errno)
	}
	for range 2 {
		if n, errno := sys.Tee(standing[0], working[1], 1<<20, unix.SPLICE_F_NONBLOCK); n != len(content) || errno != 0 {
			t.Fatalf("Tee: %d, %v", n, errno)
		}
		if n, errno := sys.Splice(working[0], nil, out, nil, 1<<20, 0); n != len(content) || errno != 0 {
			t.Fatalf("Splice to a socket: %d, %v", n, errno)
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "sink"))
	must(t, err)
	defer file.Close()
	offset := int64(3)
	for offset < int64(3+2*len(content)) {
		n, errno := sys.Splice(in, nil, working[1], nil, 1<<20, 0)
		if n <= 0 || errno != 0 {
			t.Fatalf("Splice from a socket: %d, %v", n, errno)
		}
		before := offset
		if m, errno := sys.Splice(working[0], nil, int(file.Fd()), &offset, n, 0); m != n || errno != 0 || offset != before+int64(n) {
			t.Fatalf("Splice to a file: %d of %d, %v, from %d to %d", m, n, errno, before, offset)
		}
	}
	got, err := os.ReadFile(file.Name())
	must(t, err)
	if want := "\x00\x00\x00" + string(content) + string(content); string(got) != want {
		t.Errorf("%d bytes arrived, %d were sent", len(got), len(want))
	}
	if _, errno := sys.Tee(working[0], standing[1], 1, unix.SPLICE_F_NONBLOCK); errno != unix.EAGAIN {
		t.Errorf("Tee of nothing: %v", errno)
	}
	if _, errno := sys.Splice(out, nil, in, nil, 1, 0); errno != unix.EINVAL {
		t.Errorf("Splice without a pipe: %v", errno)
	}
	if _, errno := sys.Vmsplice(in, content, 0); errno != unix.EBADF {
		t.Errorf("Vmsplice into a socket: %v", errno)
	}
}

// SIGPIPE, which splice raises and can't be told not to, ends no Go program.
func TestSpliceAfterTheEnd(t *testing.T) {
	t.Parallel()
	r, w := pipe(t)
	out, _ := tcpPair(t)
	must(t, unix.Shutdown(out, unix.SHUT_WR))
	if n, errno := sys.Vmsplice(w, mapping(t, 100), 0); n != 100 || errno != 0 {
		t.Fatal(n, errno)
	}
	if _, errno := sys.Splice(r, nil, out, nil, 100, 0); errno != unix.EPIPE {
		t.Errorf("%v", errno)
	}
}

func TestSendfileAndDiscard(t *testing.T) {
	t.Parallel()
	out, in := tcpPair(t)
	path := filepath.Join(t.TempDir(), "payload")
	must(t, os.WriteFile(path, make([]byte, 10_000), 0o600))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	offset := int64(1)
	if n, errno := sys.Sendfile(out, int(file.Fd()), &offset, 1<<20); n != 9_999 || errno != 0 || offset != 10_000 {
		t.Errorf("Sendfile: %d, %v, now at %d", n, errno, offset)
	}
	if n, errno := sys.Sendfile(out, int(file.Fd()), &offset, 1<<20); n != 0 || errno != 0 {
		t.Errorf("Sendfile at the end: %d, %v", n, errno)
	}
	for left := 9_999; left > 0; {
		n, errno := sys.Discard(in, 4000, 0)
		if n <= 0 || n > 4000 || errno != 0 {
			t.Fatalf("Discard: %d, %v", n, errno)
		}
		left -= n
	}
	if n, errno := sys.Discard(in, 4000, unix.MSG_DONTWAIT); errno != unix.EAGAIN {
		t.Errorf("Discard of nothing: %d, %v", n, errno)
	}
}

func TestRecvError(t *testing.T) {
	t.Parallel()
	out, in := tcpPair(t)
	control := make([]byte, 128)
	if _, errno := sys.RecvError(out, control); errno != unix.EAGAIN {
		t.Errorf("of nothing: %v", errno)
	}
	must(t, unix.SetsockoptInt(out, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1))
	if n, errno := sys.Send(out, mapping(t, 4096), unix.MSG_ZEROCOPY); n != 4096 || errno != 0 {
		t.Fatal(n, errno)
	}
	if n, errno := sys.Discard(in, 4096, unix.MSG_WAITALL); n != 4096 || errno != 0 {
		t.Fatal(n, errno)
	}
	for range 1000 {
		if events, errno := sys.Poll(out, 0, int64(time.Second)); events&unix.POLLERR != 0 && errno == 0 {
			break
		}
	}
	n, errno := sys.RecvError(out, control)
	if n < 32 || errno != 0 {
		t.Errorf("of a completion: %d, %v", n, errno)
	}
	messages, err := unix.ParseSocketControlMessage(control[:max(n, 0)])
	if err != nil || len(messages) == 0 || messages[0].Header.Type != unix.IP_RECVERR {
		t.Errorf("of a completion: %+v, %v", messages, err)
	}
}

func TestZerocopyReceive(t *testing.T) {
	t.Parallel()
	out, in := tcpPair(t)
	window, err := unix.Mmap(in, 0, 8192, unix.PROT_READ, unix.MAP_SHARED)
	must(t, err)
	defer unix.Munmap(window)
	if mapped, copyNext, errno := sys.ZerocopyReceive(in, window); mapped != 0 || copyNext != 0 || errno != 0 {
		t.Errorf("of nothing: %d, %d, %v", mapped, copyNext, errno)
	}
	if n, errno := sys.Send(out, make([]byte, 10), 0); n != 10 || errno != 0 {
		t.Fatal(n, errno)
	}
	for range 1000 {
		if events, errno := sys.Poll(in, unix.POLLIN, int64(time.Second)); events == unix.POLLIN && errno == 0 {
			break
		}
	}
	if mapped, copyNext, errno := sys.ZerocopyReceive(in, window); mapped != 0 || copyNext != 10 || errno != 0 {
		t.Errorf("of 10 bytes: %d, %d, %v", mapped, copyNext, errno)
	}
	if n, errno := sys.Discard(in, 10, 0); n != 10 || errno != 0 {
		t.Fatal(n, errno)
	}
	must(t, unix.Shutdown(out, unix.SHUT_WR))
	for range 1000 {
		if events, errno := sys.Poll(in, unix.POLLIN, int64(time.Second)); events == unix.POLLIN && errno == 0 {
			break
		}
	}
	if _, _, errno := sys.ZerocopyReceive(in, window); errno != unix.EIO {
		t.Errorf("at the end: %v", errno)
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	for {
		events, errno := sys.Poll(a, unix.POLLIN, int64(time.Millisecond))
		if errno == unix.EINTR {
			continue
		}
		if events != 0 || errno != 0 {
			t.Errorf("of nothing: %#x, %v", events, errno)
		}
		break
	}
	_, _ = sys.Send(b, []byte{1}, 0)
	if events, errno := sys.Poll(a, unix.POLLIN|unix.POLLOUT, 0); events != unix.POLLIN|unix.POLLOUT || errno != 0 {
		t.Errorf("%#x, %v", events, errno)
	}
	if events, errno := sys.Poll(1<<20, unix.POLLIN, 0); events != unix.POLLNVAL || errno != 0 {
		t.Errorf("of no descriptor: %#x, %v", events, errno)
	}
}

func TestSpliceAllocations(t *testing.T) {
	r, w := pipe(t)
	r2, w2 := pipe(t)
	out, in := tcpPair(t)
	p, control := mapping(t, 4096), make([]byte, 128)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	sink, offset := int(null.Fd()), int64(0)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = sys.Vmsplice(w, p, 0)
		_, _ = sys.Tee(r, w2, 4096, 0)
		_, _ = sys.Splice(r, nil, sink, nil, 4096, 0)
		_, _ = sys.Splice(r2, nil, out, nil, 4096, 0)
		_, _ = sys.Sendfile(out, sink, &offset, 1)
		_, _ = sys.Discard(in, 4096, 0)
		_, _ = sys.RecvError(out, control)
		_, _, _ = sys.ZerocopyReceive(in, p)
		_, _ = sys.Poll(in, unix.POLLIN, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
