package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of this file move bytes without copying them. Like Send they go
// around Go's scheduler and have its conditions: a locked thread, and
// SO_SNDTIMEO or SO_RCVTIMEO on the socket that they may wait for.

// Splice is splice(2): up to n bytes go from one descriptor to another, of which
// one is a pipe. Its time-outs and whether it waits are the socket's
// (O_NONBLOCK); unix.SPLICE_F_NONBLOCK is about the pipe only. The offsets are
// for files, nil otherwise, and are moved on. 0 without errno is the end of what
// is read. A socket whose peer is gone raises SIGPIPE besides EPIPE, which Go's
// runtime ignores.
func Splice(from int, fromOffset *int64, to int, toOffset *int64, n, flags int) (int, unix.Errno) {
	moved, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), uintptr(unsafe.Pointer(fromOffset)),
		uintptr(to), uintptr(unsafe.Pointer(toOffset)), uintptr(n), uintptr(flags))
	return int(moved), errno
}

// Tee is tee(2): up to n bytes of the pipe from also go into the pipe to; from
// keeps them.
func Tee(from, to, n, flags int) (int, unix.Errno) {
	moved, _, errno := unix.RawSyscall6(unix.SYS_TEE, uintptr(from), uintptr(to), uintptr(n), uintptr(flags), 0, 0)
	return int(moved), errno
}

// Vmsplice is vmsplice(2) with one vector: the pages of p go into a pipe, as
// they are and by reference. Whoever reads the pipe sees what is in them then.
// p must lie outside Go's heap.
func Vmsplice(pipe int, p []byte, flags int) (int, unix.Errno) {
	vector := unix.Iovec{Base: unsafe.SliceData(p), Len: uint64(len(p))}
	moved, _, errno := unix.RawSyscall6(unix.SYS_VMSPLICE, uintptr(pipe), uintptr(unsafe.Pointer(&vector)), 1, uintptr(flags), 0, 0)
	return int(moved), errno
}

// Sendfile is sendfile(2): up to n bytes of the file in from *offset on, which
// moves on by what was sent. 0 without errno is the end of the file.
func Sendfile(out, in int, offset *int64, n int) (int, unix.Errno) {
	moved, _, errno := unix.RawSyscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in), uintptr(unsafe.Pointer(offset)), uintptr(n), 0, 0)
	return int(moved), errno
}

// Discard is recv(2) with MSG_TRUNC and without a buffer: a TCP socket drops up
// to n bytes of what it has and says how many; see tcp(7).
func Discard(fd, n, flags int) (int, unix.Errno) {
	moved, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(n), uintptr(flags)|unix.MSG_TRUNC, 0, 0)
	return int(moved), errno
}

// RecvError is recvmsg(2) with MSG_ERRQUEUE: the control messages of the next
// entry of the socket's error queue go into control; see ip(7). It returns their
// length and never waits: an empty queue is EAGAIN.
func RecvError(fd int, control []byte) (int, unix.Errno) {
	msg := unix.Msghdr{Control: unsafe.SliceData(control), Controllen: uint64(len(control))}
	_, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if errno != 0 {
		return 0, errno
	}
	return int(msg.Controllen), 0
}

// ZerocopyReceive is getsockopt(2) of TCP_ZEROCOPY_RECEIVE: the pages of
// received data are mapped into window, which is part of a mapping of the socket
// and starts on a page. It returns how many bytes it mapped and how many have to
// be taken with recv(2) before there is something to map again. It never waits:
// nothing to map or to take is 0 and 0. At the end of the stream it is EIO.
//
// Of struct tcp_zerocopy_receive (linux/tcp.h) it passes the first 16 bytes,
// which are all of it in Linux 4.18 to 5.5 and which newer kernels accept.
func ZerocopyReceive(fd int, window []byte) (mapped, copyNext int, errno unix.Errno) {
	var arg struct {
		address  uint64
		length   uint32
		skipHint uint32
	}
	arg.address = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(window))))
	arg.length = uint32(len(window))
	size := uint32(unsafe.Sizeof(arg))
	_, _, errno = unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_ZEROCOPY_RECEIVE,
		uintptr(unsafe.Pointer(&arg)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(arg.length), int(arg.skipHint), 0
}

// Poll is ppoll(2) of one descriptor, for at most ns nanoseconds. It returns the
// events that came, 0 when the time ran out; a signal always ends it with EINTR.
func Poll(fd int, events int16, ns int64) (int16, unix.Errno) {
	one := unix.PollFd{Fd: int32(fd), Events: events}
	limit := unix.NsecToTimespec(ns)
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&one)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return one.Revents, 0
}
