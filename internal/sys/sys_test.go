package sys_test

import (
	"errors"
	"math"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"gperf/internal/sys"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// pair returns two connected local sockets.
func pair(t testing.TB) (one, two int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func TestSendRecv(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	if n, errno := sys.Send(a, []byte("hello"), unix.MSG_NOSIGNAL); n != 5 || errno != 0 {
		t.Errorf("Send: %d, %v", n, errno)
	}
	p := make([]byte, 10)
	if n, errno := sys.Recv(b, p, 0); n != 5 || errno != 0 || string(p[:5]) != "hello" {
		t.Errorf("Recv: %d, %v, %q", n, errno, p)
	}
	if _, errno := sys.Recv(b, p, unix.MSG_DONTWAIT); errno != unix.EAGAIN {
		t.Errorf("Recv of nothing: %v", errno)
	}
	must(t, unix.Shutdown(a, unix.SHUT_WR))
	if n, errno := sys.Recv(b, p, 0); n != 0 || errno != 0 {
		t.Errorf("Recv at the end: %d, %v", n, errno)
	}
	if _, errno := sys.Send(a, p, unix.MSG_NOSIGNAL); errno != unix.EPIPE {
		t.Errorf("Send after the end: %v", errno)
	}
	if _, errno := sys.Send(-1, p, 0); errno != unix.EBADF {
		t.Errorf("Send on no socket: %v", errno)
	}
}

func TestAllocations(t *testing.T) {
	a, b := pair(t)
	p := make([]byte, 64)
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(t, err)
	defer unix.Close(epoll)
	events := make([]unix.EpollEvent, 4)
	for name, f := range map[string]func(){
		"Send and Recv": func() {
			_, _ = sys.Send(a, p, 0)
			_, _ = sys.Recv(b, p, 0)
		},
		"Monotonic":  func() { sys.Monotonic() },
		"Nanosleep":  func() { sys.Nanosleep(1) },
		"ThreadCPU":  func() { _, _ = sys.ThreadCPU(unix.Gettid()) },
		"EpollWait":  func() { _, _ = sys.EpollWait(epoll, events, 0) },
		"Getsockopt": func() { _, _ = sys.Getsockopt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, p) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Monotonic is the kernel's clock, so that two processes can compare readings.
func TestMonotonic(t *testing.T) {
	t.Parallel()
	best := int64(1 << 62)
	for range 20 { // the tightest of a few: a thread can be suspended between two readings
		var ts unix.Timespec
		before := sys.Monotonic()
		must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
		after := sys.Monotonic()
		if after < before {
			t.Fatal("it goes backwards")
		}
		best = min(best, max(before-ts.Nano(), ts.Nano()-after, 0))
	}
	if best > int64(100*time.Microsecond) {
		t.Errorf("it differs from CLOCK_MONOTONIC by %d ns", best)
	}
}

func TestThreadCPU(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	before, err := sys.ThreadCPU(tid)
	must(t, err)
	for {
		after, err := sys.ThreadCPU(tid)
		must(t, err)
		if after < before {
			t.Fatalf("from %d to %d", before, after)
		}
		if after-before > int64(time.Millisecond) {
			break // it has counted the work of this loop
		}
	}
	if _, err := sys.ThreadCPU(1 << 22); err == nil {
		t.Error("a thread that doesn't exist has used CPU time")
	}
}

func TestEpollWait(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(t, err)
	defer unix.Close(epoll)
	must(t, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, b, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: 7}))
	events := make([]unix.EpollEvent, 4)
	const wait = 20 * time.Millisecond
	begun := time.Now()
	if n, errno := sys.EpollWait(epoll, events, int64(wait)); n > 0 || errno == 0 && time.Since(begun) < wait {
		t.Errorf("of nothing: %d, %v after %v", n, errno, time.Since(begun))
	}
	_, _ = sys.Send(a, []byte{1}, 0)
	n, errno := sys.EpollWait(epoll, events, int64(time.Minute))
	for errno == unix.EINTR {
		n, errno = sys.EpollWait(epoll, events, int64(time.Minute))
	}
	if n != 1 || errno != 0 || events[0].Fd != 7 || events[0].Events != unix.EPOLLIN {
		t.Errorf("%d, %v, %+v", n, errno, events[0])
	}
	if _, errno := sys.EpollWait(-1, events, 0); errno != unix.EBADF {
		t.Errorf("on no set: %v", errno)
	}
}

func TestNanosleep(t *testing.T) {
	t.Parallel()
	const span = 5 * time.Millisecond
	begun := time.Now()
	for left := span; left > 0; left = span - time.Since(begun) { // a signal ends it early
		sys.Nanosleep(int64(left))
	}
	if took := time.Since(begun); took < span {
		t.Errorf("%v", took)
	}
}

func TestSockaddrRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address")
		addr := netip.AddrFrom16([16]byte(b))
		switch {
		case rapid.Bool().Draw(t, "IPv4"):
			addr = netip.AddrFrom4([4]byte(b[:4]))
		case rapid.Bool().Draw(t, "scoped"):
			addr = addr.WithZone("1")
		}
		want := netip.AddrPortFrom(addr, rapid.Uint16().Draw(t, "port"))
		sa, err := sys.Sockaddr(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := sys.AddrPort(sa); got != netip.AddrPortFrom(addr.Unmap(), want.Port()) {
			t.Fatalf("%v became %v", want, got)
		}
		if family := sys.Family(addr); (family == unix.AF_INET) != addr.Unmap().Is4() {
			t.Fatalf("%v is of family %d", addr, family)
		}
	})
}

func TestSockaddr(t *testing.T) {
	t.Parallel()
	sa, err := sys.Sockaddr(netip.MustParseAddrPort("[fe80::1%lo]:7"))
	if six, ok := sa.(*unix.SockaddrInet6); err != nil || !ok || six.ZoneId != 1 {
		t.Errorf("a scope by name: %+v, %v", sa, err)
	}
	if sa, err := sys.Sockaddr(netip.MustParseAddrPort("[::ffff:127.0.0.1]:7")); err != nil {
		t.Error(err)
	} else if _, ok := sa.(*unix.SockaddrInet4); !ok {
		t.Errorf("a mapped address is %T", sa)
	}
	if _, err := sys.Sockaddr(netip.MustParseAddrPort("[fe80::1%nowhere0]:7")); err == nil || !strings.Contains(err.Error(), `"nowhere0"`) {
		t.Errorf("a scope that doesn't exist: %v", err)
	}
	if got := sys.AddrPort(&unix.SockaddrUnix{Name: "x"}); got.IsValid() {
		t.Errorf("a local socket has the address %v", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	local, peer := sys.Names(fd)
	if local.Addr() != netip.MustParseAddr("127.0.0.1") || local.Port() == 0 || peer.IsValid() {
		t.Errorf("unconnected: %v, %v", local, peer)
	}
	must(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(local.Port())}))
	if _, peer := sys.Names(fd); peer != local {
		t.Errorf("connected to itself: %v, not %v", peer, local)
	}
	if local, peer := sys.Names(-1); local.IsValid() || peer.IsValid() {
		t.Errorf("no socket: %v, %v", local, peer)
	}
}

func TestTuneControl(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, sys.TuneControl(fd))
	timeout, err1 := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	priority, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY)
	must(t, err1, err2)
	if timeout != int(sys.ControlTimeout.Milliseconds()) || priority != 6 {
		t.Errorf("time-out %d ms, priority %d", timeout, priority)
	}
	local, _ := pair(t)
	if err := sys.TuneControl(local); err == nil || !strings.Contains(err.Error(), "TCP_USER_TIMEOUT") {
		t.Errorf("of a local socket: %v", err)
	}
}

func TestSockopt(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, sys.Setsockopt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, []byte{1, 0, 0, 0}))
	b := make([]byte, 64)
	if n, err := sys.Getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, b); n != 4 || err != nil || b[0]+b[3] != 1 {
		t.Errorf("TCP_NODELAY: %d bytes, %v, %v", n, err, b[:4])
	}
	if n, err := sys.Getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_INFO, b); n != len(b) || err != nil {
		t.Errorf("TCP_INFO into a short buffer: %d bytes, %v", n, err)
	}
	if _, err := sys.Getsockopt(fd, unix.IPPROTO_TCP, 9999, b); !errors.Is(err, unix.ENOPROTOOPT) {
		t.Errorf("an option that doesn't exist: %v", err)
	}
	if err := sys.Setsockopt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("no value: %v", err)
	}
}

func TestNeedDescriptors(t *testing.T) {
	t.Parallel()
	must(t, sys.NeedDescriptors(1))
	if err := sys.NeedDescriptors(math.MaxInt); err == nil || !strings.Contains(err.Error(), "9223372036854775807 descriptors are needed") {
		t.Errorf("more than there can be: %v", err)
	}
}

func TestEthtoolNames(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	req := make([]byte, 256)
	for _, device := range []string{"nowhere0", strings.Repeat("x", 16), strings.Repeat("x", 100)} {
		if err := sys.Ethtool(fd, device, req); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%q: %v", device, err)
		}
	}
}
