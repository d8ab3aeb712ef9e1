package host

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gperf/result"
)

// describeDevice returns the device of the route to peer in the calling
// thread's namespace, nil when there is none. The route is that of a socket
// without a mark, a bound device or a chosen source.
func describeDevice(peer netip.Addr) *result.Device {
	link, err := routeLink(peer)
	if err != nil {
		return nil
	}
	a := link.Attrs()
	d := &result.Device{
		Name:        a.Name,
		MTU:         positive(a.MTU),
		Qdisc:       rootQdisc(link),
		TxQueueLen:  &a.TxQLen,
		RxQueues:    positive(a.NumRxQueues),
		TxQueues:    positive(a.NumTxQueues),
		GSOMaxSize:  positive(a.GSOMaxSize),
		GSOMaxSegs:  positive(a.GSOMaxSegs),
		GROMaxSize:  positive(a.GROMaxSize),
		GSOMaxSize4: positive(a.GSOIPv4MaxSize),
	}
	if kind := link.Type(); kind != "device" { // netlink's word for "no kind"
		d.Kind = &kind
	}
	e, err := openEthtool()
	if err != nil {
		return d
	}
	defer e.close()
	if info, err := e.driver(a.Name); err == nil {
		d.Driver = text(info.Driver[:])
		d.DriverVersion = text(info.Version[:])
		d.Firmware = text(info.Fw_version[:])
		d.Bus = text(info.Bus_info[:])
	}
	if mbit, known, err := e.speed(a.Name); err == nil && known {
		d.SpeedMbit = new(int64(mbit))
	}
	if rx, tx, err := e.channels(a.Name); err == nil {
		d.RxQueues, d.TxQueues = positive(rx), positive(tx)
	}
	if f, err := e.features(a.Name); err == nil {
		d.Offloads = offloads(f)
	}
	return d
}

// routeLink returns the link of the route to peer.
func routeLink(peer netip.Addr) (netlink.Link, error) {
	if !peer.IsValid() {
		return nil, fmt.Errorf("route to %v: no address", peer)
	}
	peer = peer.Unmap()
	var o netlink.RouteGetOptions
	if zone := peer.Zone(); zone != "" { // fe80::1%eth0 or fe80::1%2
		if i, err := strconv.Atoi(zone); err == nil {
			o.OifIndex = i
		} else {
			o.Oif = zone
		}
	}
	routes, err := netlink.RouteGetWithOptions(peer.AsSlice(), &o)
	if err != nil {
		return nil, fmt.Errorf("route to %v: %w", peer, err)
	}
	if len(routes) == 0 {
		return nil, fmt.Errorf("route to %v: no answer", peer)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return nil, fmt.Errorf("link %d: %w", routes[0].LinkIndex, err)
	}
	return link, nil
}

// rootQdisc returns the kind of the queueing discipline at link's root.
func rootQdisc(link netlink.Link) *string {
	qdiscs, err := netlink.QdiscList(link)
	if err != nil {
		return nil
	}
	for _, q := range qdiscs {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return new(q.Type())
		}
	}
	return nil
}

// offloads picks from a device's features.
func offloads(f map[string]bool) result.Offloads {
	// anyOf reports whether one of the features is in force; nil when the kernel
	// knows none of them.
	anyOf := func(names ...string) *bool {
		var answer *bool
		for _, n := range names {
			if on, ok := f[n]; ok {
				answer = new(on || answer != nil && *answer)
			}
		}
		return answer
	}
	return result.Offloads{
		TSO:        anyOf("tx-tcp-segmentation"),
		TSO6:       anyOf("tx-tcp6-segmentation"),
		GSO:        anyOf("tx-generic-segmentation"),
		GRO:        anyOf("rx-gro"),
		HWGRO:      anyOf("rx-gro-hw"),
		LRO:        anyOf("rx-lro"),
		UDPGSO:     anyOf("tx-udp-segmentation"),
		SG:         anyOf("tx-scatter-gather"),
		TxChecksum: anyOf("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"),
		RxChecksum: anyOf("rx-checksum"),
	}
}

// positive returns a number that is never 0 in truth: the libraries give 0 for
// what the kernel didn't say.
func positive[N int | uint32](n N) *N {
	if n <= 0 {
		return nil
	}
	return &n
}

// text returns a string that the kernel padded with zeros; nil when it is
// empty, or N/A as some drivers say.
func text(b []byte) *string {
	s := unix.ByteSliceToString(b)
	if s == "" || s == "N/A" {
		return nil
	}
	return &s
}
