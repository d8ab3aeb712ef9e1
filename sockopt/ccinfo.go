package sockopt

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// CCInfo is what a socket's congestion control algorithm says of itself.
type CCInfo struct {
	Algorithm string
	// Fields is TCP_CC_INFO by name, with units as suffix: of bbr bandwidth,
	// minimum RTT and gains. It is nil for the algorithms that say nothing,
	// cubic and reno among them, and for those that gperf doesn't know.
	Fields map[string]float64
}

// ccLayouts are the forms of union tcp_cc_info (linux/inet_diag.h) that gperf
// knows, by algorithm. A shorter answer than the form's is not decoded.
var ccLayouts = map[string]struct {
	size   int
	decode func(b []byte) map[string]float64
}{
	"bbr": {20, func(b []byte) map[string]float64 {
		const unit = 256 // of both gains
		return map[string]float64{
			"bandwidth_bytes_per_second": float64(word(b[4:])<<32 | word(b)),
			"min_rtt_us":                 float64(word(b[8:])),
			"pacing_gain":                float64(word(b[12:])) / unit,
			"cwnd_gain":                  float64(word(b[16:])) / unit,
		}
	}},
	"vegas": {16, func(b []byte) map[string]float64 {
		return map[string]float64{
			"enabled": float64(word(b)), "rtt_samples": float64(word(b[4:])),
			"rtt_us": float64(word(b[8:])), "min_rtt_us": float64(word(b[12:])),
		}
	}},
	"dctcp": {16, func(b []byte) map[string]float64 {
		const unit = 1024 // of alpha
		return map[string]float64{
			"enabled": float64(binary.NativeEndian.Uint16(b)), "ce_state": float64(binary.NativeEndian.Uint16(b[2:])),
			"alpha":           float64(word(b[4:])) / unit,
			"acked_ecn_bytes": float64(word(b[8:])), "acked_bytes": float64(word(b[12:])),
		}
	}},
}

// word reads a word as the kernel wrote it, in the machine's own order.
func word(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b)) }

// ReadCCInfo reads the congestion control algorithm of a TCP socket and what it
// says of itself: TCP_CONGESTION, TCP_CC_INFO (Linux 4.1), see tcp(7).
func ReadCCInfo(fd int) (CCInfo, error) {
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return CCInfo{}, &Error{Op: "getsockopt", Option: "TCP_CONGESTION", Err: err}
	}
	info := CCInfo{Algorithm: name}
	layout, ok := ccLayouts[name]
	if !ok {
		return info, nil
	}
	buf := make([]byte, 64)
	if n, err := sys.Getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_CC_INFO, buf); err == nil && n >= layout.size {
		info.Fields = layout.decode(buf)
	}
	return info, nil
}
