package sys

import (
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
