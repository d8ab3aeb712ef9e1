package sys

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// Family is the socket family of an address: AF_INET or AF_INET6.
func Family(a netip.Addr) int {
	if a.Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Unspecified is the address of a family that stands for any of its own.
func Unspecified(family int) netip.Addr {
	if family == unix.AF_INET6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Sockaddr is ap as connect(2) and bind(2) take it. The zone of a scoped
// address is an interface's name or number; an interface that doesn't exist in
// the calling thread's namespace is an error.
func Sockaddr(ap netip.AddrPort) (unix.Sockaddr, error) {
	addr := ap.Addr().Unmap()
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: addr.As4()}, nil
	}
	sa := &unix.SockaddrInet6{Port: int(ap.Port()), Addr: addr.As16()}
	if zone := addr.Zone(); zone != "" {
		index, err := strconv.ParseUint(zone, 10, 32)
		if err != nil {
			ifi, err := net.InterfaceByName(zone)
			if err != nil {
				return nil, fmt.Errorf("scope %q: no such interface", zone)
			}
			index = uint64(ifi.Index)
		}
		sa.ZoneId = uint32(index)
	}
	return sa, nil
}

// AddrPort is the address in sa, an IPv4-mapped one as IPv4, the zone as a
// number. It is the zero AddrPort for other families.
func AddrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(sa.ZoneId), 10))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// Names are the local and the peer's address of a connected socket, the zero
// AddrPort where the kernel doesn't say.
func Names(fd int) (local, peer netip.AddrPort) {
	if sa, err := unix.Getsockname(fd); err == nil {
		local = AddrPort(sa)
	}
	if sa, err := unix.Getpeername(fd); err == nil {
		peer = AddrPort(sa)
	}
	return local, peer
}

// A RawAddr is an address in the form that the system calls take, so that a loop
// which connects again and again need not convert it each time. IPv4's form is
// the shorter one, at the beginning of IPv6's.
type RawAddr struct {
	raw  unix.RawSockaddrInet6
	size uint32
}

// NewRawAddr is the form of ap, in which Sockaddr finds the scope.
func NewRawAddr(ap netip.AddrPort) (RawAddr, error) {
	sa, err := Sockaddr(ap)
	if err != nil {
		return RawAddr{}, err
	}
	var a RawAddr
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		a.raw.Family, a.size = unix.AF_INET, unix.SizeofSockaddrInet4
		a.raw.Flowinfo = binary.NativeEndian.Uint32(sa.Addr[:]) // where IPv4 has its address
	case *unix.SockaddrInet6:
		a.raw.Family, a.size = unix.AF_INET6, unix.SizeofSockaddrInet6
		a.raw.Addr, a.raw.Scope_id = sa.Addr, sa.ZoneId
	}
	a.SetPort(ap.Port())
	return a, nil
}

// SetPort changes the port.
func (a *RawAddr) SetPort(port uint16) {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	a.raw.Port = binary.NativeEndian.Uint16(b[:])
}

// Addr is the address without the port, an IPv4-mapped one as IPv4, and without
// its scope.
func (a *RawAddr) Addr() netip.Addr {
	if a.raw.Family == unix.AF_INET {
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], a.raw.Flowinfo)
		return netip.AddrFrom4(b)
	}
	return netip.AddrFrom16(a.raw.Addr).Unmap()
}
