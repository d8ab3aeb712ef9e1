package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ethtool makes a SIOCETHTOOL request (linux/ethtool.h) about a device of the
// namespace of the socket fd. The kernel answers in place. An overlong name is
// ENODEV, as that of a device that doesn't exist.
func Ethtool(fd int, device string, req []byte) error {
	var ifr struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer // to the request; not an integer, so that it follows the request if that moves
		_    [16]byte       // the kernel copies a whole struct ifreq
	}
	if len(device) >= len(ifr.name) {
		return unix.ENODEV
	}
	copy(ifr.name[:], device)
	ifr.data = unsafe.Pointer(&req[0])
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr))); errno != 0 {
		return errno
	}
	return nil
}
