package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Option numbers, bits and levels of the kernel's headers that x/sys/unix
// v0.50.0 lacks.
const (
	// TCP_IS_MPTCP reads 1 while a connection speaks MPTCP and 0 once it has
	// fallen back to TCP, or never was anything else (linux/tcp.h, Linux 6.10).
	TCP_IS_MPTCP = 43
	// MPTCP_INFO of level SOL_MPTCP fails with EOPNOTSUPP after a fallback
	// (linux/mptcp.h, Linux 5.16).
	MPTCP_INFO = 1

	// UDP_SEGMENT and UDP_GRO batch datagrams (linux/udp.h, Linux 4.18, 5.0).
	UDP_SEGMENT = 103
	UDP_GRO     = 104
)

// Bits of tcpi_options (linux/tcp.h).
const (
	TCPI_OPT_TIMESTAMPS = 1 << 0
	TCPI_OPT_SACK       = 1 << 1
	TCPI_OPT_WSCALE     = 1 << 2
	TCPI_OPT_ECN        = 1 << 3 // ECN was negotiated
	TCPI_OPT_ECN_SEEN   = 1 << 4 // at least one packet with ECT came in
	TCPI_OPT_SYN_DATA   = 1 << 5 // the SYN carried data (TCP Fast Open)
	TCPI_OPT_USEC_TS    = 1 << 6 // timestamps count microseconds
	TCPI_OPT_TFO_CHILD  = 1 << 7 // accepted by TCP Fast Open
)

// Getsockopt is getsockopt(2): it reads an option of any size into buf and
// returns how many bytes the kernel wrote. That length is what tells an old
// kernel's short structure from a new one's zeros, and x/sys/unix drops it.
//
// It doesn't allocate, and it bypasses Go's scheduler: none of the options
// read here can block.
func Getsockopt(fd, level, name int, buf []byte) (int, error) {
	size := uint32(len(buf))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(size), nil
}

// Setsockopt is setsockopt(2) with an option value of any size. Unlike
// Getsockopt it goes through Go's scheduler, because TCP_CONGESTION may wait
// for a kernel module to load.
func Setsockopt(fd, level, name int, value []byte) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
