package splice

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// A Zerocopy sends from memory with MSG_ZEROCOPY: the kernel reads the payload's
// pages until it reports, on the socket's error queue, that it is done with them
// (the kernel's networking/msg_zerocopy.rst). On loopback and veth it copies them
// after all, and says so.
//
// Reports that wait make the socket readable for errors: epoll gives EPOLLERR
// until they are read, which Send does when it moves nothing and every so often
// besides, and Reap at any time.
type Zerocopy struct {
	mover
	payload *Payload
	fd      int
	next    int    // where in the payload to go on
	issued  uint64 // sends of which the kernel reports
	unasked int    // sends since the error queue was looked at
	control []byte
}

// reapEvery is how many sends go between two looks at the error queue. The kernel
// merges reports that follow on each other, so that few looks see them all.
const reapEvery = 16

// NewZerocopy makes a sender for the socket fd alone and sets SO_ZEROCOPY on it.
// The payload stays its owner's, and must not be closed before the socket.
func NewZerocopy(payload *Payload, fd int) (*Zerocopy, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt SO_ZEROCOPY", err)
	}
	return &Zerocopy{payload: payload, fd: fd, control: make([]byte, 128)}, nil
}

// Send moves at most n bytes, and not past the payload's end. Where the kernel has
// no room to keep account of one more (ENOBUFS: net.core.optmem_max, or
// RLIMIT_MEMLOCK) even after reports were read, it copies, as a fallback.
func (z *Zerocopy) Send(fd, n, flags int) (int, bool, unix.Errno) {
	p := z.payload.mem[z.next:]
	p = p[:min(n, len(p))]
	flags = flags&(unix.MSG_DONTWAIT|unix.MSG_MORE) | unix.MSG_NOSIGNAL
	if z.unasked >= reapEvery {
		z.Reap()
	}
	moved, errno := sys.Send(fd, p, flags|unix.MSG_ZEROCOPY)
	if errno == unix.ENOBUFS && z.Reap() > 0 {
		moved, errno = sys.Send(fd, p, flags|unix.MSG_ZEROCOPY)
	}
	switch errno {
	case 0:
		z.issued++
		z.unasked++
	case unix.ENOBUFS:
		if moved, errno = sys.Send(fd, p, flags); errno != 0 {
			return z.failed("send", errno)
		}
		z.fellBack(moved)
	case unix.EAGAIN:
		z.Reap()
		return z.failed("send", errno)
	default:
		return z.failed("send", errno)
	}
	if z.next += moved; z.next == len(z.payload.mem) {
		z.next = 0
	}
	z.count(moved, len(p))
	return moved, true, 0
}

// Reap reads the reports that wait, without waiting for any, and returns how many
// sends they are about.
func (z *Zerocopy) Reap() uint64 {
	z.unasked = 0
	var done uint64
	for {
		n, errno := sys.RecvError(z.fd, z.control)
		if errno != 0 {
			return done // EAGAIN: none are left
		}
		first, last, copied, ok := completion(z.control[:n])
		if !ok {
			continue // of something else, as of timestamps
		}
		sends := uint64(last-first) + 1 // the numbers wrap around
		done += sends
		add(&z.completions, sends)
		if copied {
			add(&z.copied, sends)
		}
	}
}

// Pending is how many sends the kernel hasn't reported yet. It is for the owner
// to ask.
func (z *Zerocopy) Pending() uint64 { return z.issued - z.completions.Load() }

// Drain waits until the kernel has reported all sends, at most for the given
// time, and returns how many are left. They depend on the peer: on a real device
// a send is done once it is acknowledged.
func (z *Zerocopy) Drain(limit time.Duration) uint64 {
	deadline := sys.Monotonic() + int64(limit)
	for {
		found := z.Reap()
		left := deadline - sys.Monotonic()
		if z.Pending() == 0 || left <= 0 {
			return z.Pending()
		}
		// POLLERR comes unasked.
		ready, errno := sys.Poll(z.fd, 0, min(left, int64(pollTime)))
		if found == 0 && ready != 0 && errno == 0 {
			// A broken connection is ready for ever.
			sys.Nanosleep(int64(time.Millisecond))
		}
	}
}

// Period is the payload's length.
func (z *Zerocopy) Period() int { return len(z.payload.mem) }

// Close has nothing to give back. The socket keeps SO_ZEROCOPY.
func (z *Zerocopy) Close() error { return nil }

// completion reads the control messages of an entry of the error queue. If it is
// a report of MSG_ZEROCOPY, it is about the sends first to last of the socket,
// counted from 0 modulo 2^32, and says whether the kernel copied them.
func completion(control []byte) (first, last uint32, copied, ok bool) {
	// struct cmsghdr: length with this header (8 bytes), level, type (4 each);
	// then struct sock_extended_err (linux/errqueue.h): errno (4), origin, type,
	// code, pad (1 each), info, data (4 each).
	const header, align, size = 16, 8, 16
	for len(control) >= header {
		length := binary.NativeEndian.Uint64(control)
		if length < header || length > uint64(len(control)) {
			return 0, 0, false, false
		}
		level, kind := binary.NativeEndian.Uint32(control[8:]), binary.NativeEndian.Uint32(control[12:])
		e := control[header:length]
		if (level == unix.SOL_IP && kind == unix.IP_RECVERR || level == unix.SOL_IPV6 && kind == unix.IPV6_RECVERR) &&
			len(e) >= size && binary.NativeEndian.Uint32(e) == 0 && e[4] == unix.SO_EE_ORIGIN_ZEROCOPY {
			return binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:]), e[6]&unix.SO_EE_CODE_ZEROCOPY_COPIED != 0, true
		}
		control = control[min(uint64(len(control)), (length+align-1)&^(align-1)):]
	}
	return 0, 0, false, false
}
