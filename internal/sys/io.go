// Package sys makes the Linux system calls that golang.org/x/sys/unix lacks or
// wraps too thickly for gperf's loops. Wrappers keep the call's name and the
// order of its arguments, return the bare errno and allocate nothing. It is the
// one package that uses unsafe.
package sys

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Send is send(2): p goes to the connected socket fd. It goes around Go's
// scheduler, which costs no more than C, but holds the thread's P while it
// blocks: use it on a locked thread, and only on sockets with SO_SNDTIMEO set,
// so that the runtime's preemption signal gets it out with EINTR (a socket
// without time-out restarts the call, and the runtime could never stop it).
// p must not be empty.
func Send(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(flags), 0, 0)
	return int(n), errno
}

// Recv is recv(2) into p, under the conditions of Send (with SO_RCVTIMEO). 0
// without errno is the end of the stream.
func Recv(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(flags), 0, 0)
	return int(n), errno
}

// ThreadCPU is the CPU time in nanoseconds that the thread tid of this process
// has used, user and system together, exact to the scheduler's clock: the
// thread's CPU-time clock of clock_gettime(2).
func ThreadCPU(tid int) (int64, error) {
	// The clock's number is made from the thread's as in the kernel's
	// include/linux/posix-timers_types.h: inverted, shifted by three, with the
	// bits for "one thread" (4) and "scheduler's time" (2).
	const perThread, sched = 4, 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^tid<<3|perThread|sched), &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

// Nanosleep sleeps for ns nanoseconds, or until a signal comes.
func Nanosleep(ns int64) {
	ts := unix.NsecToTimespec(ns)
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// EpollWait is epoll_pwait2(2), which takes its time-out in ns; on kernels before
// 5.11, which lack it, epoll_pwait(2) with the time-out rounded up to a
// millisecond. Like Send it goes around Go's scheduler; a signal always ends
// it with EINTR.
func EpollWait(epoll int, events []unix.EpollEvent, ns int64) (int, unix.Errno) {
	if !noPwait2.Load() {
		ts := unix.NsecToTimespec(ns)
		ready, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno != unix.ENOSYS {
			return int(ready), errno
		}
		noPwait2.Store(true)
	}
	const ms = 1e6
	ready, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr((ns+ms-1)/ms), 0, 0)
	return int(ready), errno
}

// noPwait2 is set when the kernel has no epoll_pwait2.
var noPwait2 atomic.Bool

// Connect is connect(2), under the conditions of Send: SO_SNDTIMEO bounds it, and
// it then returns EINPROGRESS while the handshake goes on.
func Connect(fd int, to *RawAddr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.size))
	return errno
}

// Bind is bind(2).
func Bind(fd int, to *RawAddr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.size))
	return errno
}

// Accept is accept4(2) with SOCK_CLOEXEC, under the conditions of Send:
// SO_RCVTIMEO of the listener bounds it, with EAGAIN, and is inherited by what
// it accepts, as is SO_SNDTIMEO. from receives the peer's address.
func Accept(fd int, from *RawAddr) (int, unix.Errno) {
	from.size = uint32(unsafe.Sizeof(from.raw))
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&from.raw)), uintptr(unsafe.Pointer(&from.size)), unix.SOCK_CLOEXEC, 0, 0)
	return int(n), errno
}

// Socket is socket(2) with SOCK_CLOEXEC.
func Socket(family, kind, protocol int) (int, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), uintptr(kind|unix.SOCK_CLOEXEC), uintptr(protocol))
	return int(fd), errno
}

// Close is close(2) of a socket without SO_LINGER, which can't block.
func Close(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// SetTimeouts sets SO_RCVTIMEO and SO_SNDTIMEO, see socket(7), to ns nanoseconds.
func SetTimeouts(fd int, ns int64) unix.Errno {
	tv := unix.NsecToTimeval(ns)
	for _, name := range []uintptr{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, name, uintptr(unsafe.Pointer(&tv)), unsafe.Sizeof(tv), 0)
		if errno != 0 {
			return errno
		}
	}
	return 0
}

// SetInt is setsockopt(2) of an option that is an int.
func SetInt(fd, level, name, value int) unix.Errno {
	v := int32(value)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return errno
}

// SocketDrops is how many packets the kernel has dropped at the socket since it
// was made (the ninth word of SO_MEMINFO, from Linux 4.12; linux/sock_diag.h tells
// of it); false where the kernel doesn't say.
func SocketDrops(fd int) (uint64, bool) {
	const drops, words = 8, 9
	var b [words * 4]byte
	n, err := Getsockopt(fd, unix.SOL_SOCKET, unix.SO_MEMINFO, b[:])
	if err != nil || n < len(b) {
		return 0, false
	}
	return uint64(binary.NativeEndian.Uint32(b[drops*4:])), true
}
