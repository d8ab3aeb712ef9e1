package netperf

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"gperf/netperf/wire"
)

// calibrate asks the server for the rate and the number of its CPUs.
func (c *Client) calibrate(ctx context.Context) (rate float64, count int, err error) {
	if c.control == nil {
		return 0, 0, die(1, "netperf: REM_CPU needs a control connection")
	}
	if err := c.control.send(wire.New(wire.TypeCPUCalibrate, wire.NoAffinity)); err != nil {
		return 0, 0, err
	}
	m, err := c.control.receive(ctx)
	if err != nil {
		return 0, 0, err
	}
	r, err := wire.ParseCPUCalibration(m)
	if err != nil {
		return 0, 0, remoteError(err, 1)
	}
	return float64(r.Rate), int(r.NumCPUs), nil
}

func passphrase(text string) (wire.Message, error) {
	return wire.EncodePassphrase(text, wire.NoAffinity)
}

// uuid is the run's: as given, or made up like one of version 1 (RFC 9562), which
// has the time in it, with a random node.
func (c *Client) uuid() string {
	if u := c.Options.UUID; u != "" {
		return u
	}
	const (
		gregorian = 0x01B21DD213814000 // 1582-10-15 to 1970, in 100 ns
		version   = 1 << 12
	)
	stamp := uint64(time.Now().UnixNano()/100) + gregorian
	var node [8]byte
	_, _ = rand.Read(node[:])      // never fails, says its documentation
	node[0] = node[0]&^0xc0 | 0x80 // the variant
	node[2] |= 1                   // multicast: no real device's address
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", uint32(stamp), uint16(stamp>>32), uint16(stamp>>48)&0x0fff|version,
		binary.BigEndian.Uint16(node[:2]), binary.BigEndian.Uint64(append([]byte{0, 0}, node[2:]...)))
}

// masked is an address with random bits below the mask, if there is one: one of a
// network that answers for all its addresses.
func masked(a netip.Addr, mask int) netip.Addr {
	b := a.AsSlice()
	if mask <= 0 || mask >= 8*len(b) {
		return a
	}
	random := make([]byte, len(b))
	_, _ = rand.Read(random)
	for i := range b {
		keep := min(max(mask-8*i, 0), 8)
		low := byte(0xff >> keep)
		b[i] = b[i]&^low | random[i]&low
	}
	r, _ := netip.AddrFromSlice(b)
	return r
}
