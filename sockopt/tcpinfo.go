package sockopt

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// TCPInfoSize is the buffer size for [ReadTCPInfo], with room to grow: Linux
// 6.18 returns 280 bytes.
const TCPInfoSize = 512

// TCPInfo holds TCP_INFO (tcp(7)) as the kernel returned it, in the machine's
// byte order. Its length says which fields the kernel has: a field is there if
// all of it is.
type TCPInfo []byte

// ReadTCPInfo reads TCP_INFO of fd into buf, which should have TCPInfoSize
// bytes, and returns the part that the kernel wrote. It makes one system call,
// which takes the socket's lock, and allocates nothing. Totals stay readable
// after shutdown and reset, until close.
func ReadTCPInfo(fd int, buf []byte) (TCPInfo, error) {
	n, err := sys.Getsockopt(fd, unix.IPPROTO_TCP, unix.TCP_INFO, buf)
	if err != nil {
		return nil, &Error{Op: "getsockopt", Option: "TCP_INFO", Err: err}
	}
	return TCPInfo(buf[:n]), nil
}

// A TCPField is one field of TCP_INFO.
type TCPField int

// The fields in the order of struct tcp_info (linux/tcp.h); [TCPFields] gives
// their units and meanings. tcpi_fackets and tcpi_last_ack_sent are left out:
// the kernels that gperf runs on never fill them.
const (
	State TCPField = iota
	CAState
	Retransmits
	Probes
	Backoff
	TCPOptions
	SndWscale
	RcvWscale
	DeliveryRateAppLimited
	FastopenClientFail
	RTO
	ATO
	SndMSS
	RcvMSS
	Unacked
	Sacked
	Lost
	Retrans
	LastDataSent
	LastDataRecv
	LastAckRecv
	PMTU
	RcvSsthresh
	RTT
	RTTVar
	SndSsthresh
	SndCwnd
	AdvMSS
	Reordering
	RcvRTT
	RcvSpace
	TotalRetrans
	PacingRate
	MaxPacingRate
	BytesAcked
	BytesReceived
	SegsOut
	SegsIn
	NotsentBytes
	MinRTT
	DataSegsIn
	DataSegsOut
	DeliveryRate
	BusyTime
	RwndLimited
	SndbufLimited
	Delivered
	DeliveredCE
	BytesSent
	BytesRetrans
	DsackDups
	ReordSeen
	RcvOoopack
	SndWnd
	RcvWnd
	Rehash
	TotalRTO
	TotalRTORecoveries
	TotalRTOTime
	ReceivedCE
	DeliveredE1Bytes
	DeliveredE0Bytes
	DeliveredCEBytes
	ReceivedE1Bytes
	ReceivedE0Bytes
	ReceivedCEBytes
	AccECNFailMode
	AccECNOptSeen

	numTCPFields
)

// TCPFieldInfo describes a field of TCP_INFO.
type TCPFieldInfo struct {
	Field  TCPField
	Name   string // key in JSON, with the unit as suffix
	Kernel string // member of struct tcp_info
	Unit   string // "us", "bytes", "segments", ..., or "" for codes and flags
	// Counter is set for a total that only grows over the connection's life:
	// the one kind for which Delta makes sense.
	Counter bool
	Since   string // first kernel that reports it
	Doc     string
}

// layout says where a field lies.
type layout struct {
	offset, size int
	shift, bits  int    // part of the byte, if bits isn't 0; the low bit is bit 0
	none         uint64 // value by which the kernel says "no limit" or "not yet"; 0 if it has none
}

type fieldRow struct {
	TCPFieldInfo
	layout
}

const (
	none31 = math.MaxInt32  // TCP_INFINITE_SSTHRESH
	none32 = math.MaxUint32 // ~0U
	none64 = math.MaxUint64 // ~0ULL
)

// fields is indexed by TCPField. Offsets are the kernel's ABI and the same on
// every architecture; bit-fields are allocated from the low bit on, as on all
// little-endian machines.
var fields = [numTCPFields]fieldRow{
	State:                  row("state", "state", "", false, "2.6", "TCP state: 1 established, 4 and 5 FIN_WAIT, 7 closed, 8 CLOSE_WAIT, 9 LAST_ACK, 10 listening", u8(0)),
	CAState:                row("ca_state", "ca_state", "", false, "2.6", "congestion state: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss", u8(1)),
	Retransmits:            row("unanswered_timeouts", "retransmits", "timeouts", false, "2.6", "retransmission timeouts in a row that are still unanswered; not a total", u8(2)),
	Probes:                 row("unanswered_probes", "probes", "probes", false, "2.6", "window and keep-alive probes that are still unanswered", u8(3)),
	Backoff:                row("backoff", "backoff", "", false, "2.6", "how many times the retransmission timer has doubled", u8(4)),
	TCPOptions:             row("options", "options", "", false, "2.6", "bits: 1 timestamps, 2 SACK, 4 window scaling, 8 ECN, 16 ECN seen, 32 data in SYN acknowledged, 64 microsecond timestamps, 128 accepted by Fast Open", u8(5)),
	SndWscale:              row("snd_wscale", "snd_wscale", "", false, "2.6", "window scale that the peer offered, as a shift", part(6, 0, 4)),
	RcvWscale:              row("rcv_wscale", "rcv_wscale", "", false, "2.6", "window scale offered to the peer, as a shift", part(6, 4, 4)),
	DeliveryRateAppLimited: row("delivery_rate_app_limited", "delivery_rate_app_limited", "", false, "4.9", "1 if the application, not the path, bounded the delivery rate", part(7, 0, 1)),
	FastopenClientFail:     row("fastopen_client_fail", "fastopen_client_fail", "", false, "5.5", "why Fast Open failed: 0 it didn't, 1 no cookie, 2 data not acknowledged, 3 SYN retransmitted", part(7, 1, 2)),
	RTO:                    row("rto_us", "rto", "us", false, "2.6", "retransmission timeout", u32(8)),
	ATO:                    row("ato_us", "ato", "us", false, "2.6", "delayed-ACK timeout", u32(12)),
	SndMSS:                 row("snd_mss_bytes", "snd_mss", "bytes", false, "2.6", "payload of a full segment sent", u32(16)),
	RcvMSS:                 row("rcv_mss_bytes", "rcv_mss", "bytes", false, "2.6", "estimate of the peer's segment size", u32(20)),
	Unacked:                row("unacked_segments", "unacked", "segments", false, "2.6", "sent and not acknowledged; of a listener: connections waiting for accept", u32(24)),
	Sacked:                 row("sacked_segments", "sacked", "segments", false, "2.6", "in flight and selectively acknowledged; of a listener: its backlog", u32(28)),
	Lost:                   row("lost_segments", "lost", "segments", false, "2.6", "in flight and taken for lost", u32(32)),
	Retrans:                row("retrans_segments", "retrans", "segments", false, "2.6", "in flight and retransmitted", u32(36)),
	LastDataSent:           row("last_data_sent_ms", "last_data_sent", "ms", false, "2.6", "time since data was sent", u32(44)),
	LastDataRecv:           row("last_data_recv_ms", "last_data_recv", "ms", false, "2.6", "time since data was received", u32(52)),
	LastAckRecv:            row("last_ack_recv_ms", "last_ack_recv", "ms", false, "2.6", "time since an ACK was received", u32(56)),
	PMTU:                   row("pmtu_bytes", "pmtu", "bytes", false, "2.6", "path MTU", u32(60)),
	RcvSsthresh:            row("rcv_ssthresh_bytes", "rcv_ssthresh", "bytes", false, "2.6", "window that the receiver would grant now", u32(64)),
	RTT:                    row("rtt_us", "rtt", "us", false, "2.6", "smoothed round-trip time", u32(68)),
	RTTVar:                 row("rttvar_us", "rttvar", "us", false, "2.6", "mean deviation of the round-trip time", u32(72)),
	SndSsthresh:            row("snd_ssthresh_segments", "snd_ssthresh", "segments", false, "2.6", "slow-start threshold; null before the first loss", u32(76).unless(none31)),
	SndCwnd:                row("snd_cwnd_segments", "snd_cwnd", "segments", false, "2.6", "congestion window", u32(80)),
	AdvMSS:                 row("advmss_bytes", "advmss", "bytes", false, "2.6", "MSS advertised to the peer", u32(84)),
	Reordering:             row("reordering_segments", "reordering", "segments", false, "2.6", "reordering distance that is not yet taken for loss", u32(88)),
	RcvRTT:                 row("rcv_rtt_us", "rcv_rtt", "us", false, "2.6", "the receiver's coarse estimate of the round-trip time", u32(92)),
	RcvSpace:               row("rcv_space_bytes", "rcv_space", "bytes", false, "2.6", "bytes that the application took in the last rcv_rtt", u32(96)),
	TotalRetrans:           row("retransmitted_segments", "total_retrans", "segments", true, "2.6", "segments retransmitted, tail-loss probes included", u32(100)),
	PacingRate:             row("pacing_rate_bytes_per_second", "pacing_rate", "bytes_per_second", false, "3.15", "rate at which the sender paces; null without pacing", u64(104).unless(none64)),
	MaxPacingRate:          row("max_pacing_rate_bytes_per_second", "max_pacing_rate", "bytes_per_second", false, "3.15", "SO_MAX_PACING_RATE; null without a limit", u64(112).unless(none64)),
	BytesAcked:             row("acked_bytes", "bytes_acked", "bytes", true, "4.1", "payload acknowledged by the peer; SYN and FIN count as one each", u64(120)),
	BytesReceived:          row("received_bytes", "bytes_received", "bytes", true, "4.1", "payload received in order; a FIN counts as one", u64(128)),
	SegsOut:                row("segments_out", "segs_out", "segments", true, "4.2", "segments sent, with and without payload", u32(136)),
	SegsIn:                 row("segments_in", "segs_in", "segments", true, "4.2", "segments received, with and without payload", u32(140)),
	NotsentBytes:           row("notsent_bytes", "notsent_bytes", "bytes", false, "4.6", "in the send queue and not yet sent", u32(144)),
	MinRTT:                 row("min_rtt_us", "min_rtt", "us", false, "4.6", "smallest round-trip time in the last tcp_min_rtt_wlen seconds; null before the first", u32(148).unless(none32)),
	DataSegsIn:             row("data_segments_in", "data_segs_in", "segments", true, "4.6", "segments received with payload", u32(152)),
	DataSegsOut:            row("data_segments_out", "data_segs_out", "segments", true, "4.6", "segments sent with payload, retransmits included", u32(156)),
	DeliveryRate:           row("delivery_rate_bytes_per_second", "delivery_rate", "bytes_per_second", false, "4.9", "rate of the latest delivery sample", u64(160)),
	BusyTime:               row("busy_us", "busy_time", "us", true, "4.10", "time with data to send or in flight, in steps of a kernel tick", u64(168)),
	RwndLimited:            row("rwnd_limited_us", "rwnd_limited", "us", true, "4.10", "part of busy_us that the peer's window bounded", u64(176)),
	SndbufLimited:          row("sndbuf_limited_us", "sndbuf_limited", "us", true, "4.10", "part of busy_us that the send buffer bounded; 0 doesn't prove that it never did", u64(184)),
	Delivered:              row("delivered_segments", "delivered", "segments", true, "4.18", "segments delivered, by ACK or SACK; SYN and FIN count", u32(192)),
	DeliveredCE:            row("delivered_ce_segments", "delivered_ce", "segments", true, "4.18", "delivered segments that were marked for congestion (ECN)", u32(196)),
	BytesSent:              row("sent_bytes", "bytes_sent", "bytes", true, "4.19", "payload sent, retransmits included", u64(200)),
	BytesRetrans:           row("retransmitted_bytes", "bytes_retrans", "bytes", true, "4.19", "payload retransmitted", u64(208)),
	DsackDups:              row("dsack_dups_segments", "dsack_dups", "segments", true, "4.19", "segments that the peer reported as received twice", u32(216)),
	ReordSeen:              row("reordering_events", "reord_seen", "events", true, "4.19", "reordering events seen", u32(220)),
	RcvOoopack:             row("out_of_order_segments", "rcv_ooopack", "segments", true, "5.4", "segments received out of order", u32(224)),
	SndWnd:                 row("snd_wnd_bytes", "snd_wnd", "bytes", false, "5.4", "window that the peer advertises", u32(228)),
	RcvWnd:                 row("rcv_wnd_bytes", "rcv_wnd", "bytes", false, "6.2", "window advertised to the peer", u32(232)),
	Rehash:                 row("rehash_events", "rehash", "events", true, "6.2", "changes of the flow hash, to get onto another path", u32(236)),
	TotalRTO:               row("rto_events", "total_rto", "events", true, "6.7", "retransmission timeouts", u16(240)),
	TotalRTORecoveries:     row("rto_recoveries", "total_rto_recoveries", "events", true, "6.7", "finished recoveries from timeouts", u16(242)),
	TotalRTOTime:           row("rto_recovery_ms", "total_rto_time", "ms", true, "6.7", "time from first timeout to end of recovery; not the time that the connection stood still", u32(244)),
	ReceivedCE:             row("received_ce_segments", "received_ce", "segments", true, "6.18", "segments received with a congestion mark (AccECN)", u32(248)),
	DeliveredE1Bytes:       row("delivered_e1_bytes", "delivered_e1_bytes", "bytes", true, "6.18", "payload delivered as ECT(1), by the peer's AccECN option", u32(252)),
	DeliveredE0Bytes:       row("delivered_e0_bytes", "delivered_e0_bytes", "bytes", true, "6.18", "payload delivered as ECT(0), by the peer's AccECN option", u32(256)),
	DeliveredCEBytes:       row("delivered_ce_bytes", "delivered_ce_bytes", "bytes", true, "6.18", "payload delivered with a congestion mark, by the peer's AccECN option", u32(260)),
	ReceivedE1Bytes:        row("received_e1_bytes", "received_e1_bytes", "bytes", true, "6.18", "payload received as ECT(1)", u32(264)),
	ReceivedE0Bytes:        row("received_e0_bytes", "received_e0_bytes", "bytes", true, "6.18", "payload received as ECT(0)", u32(268)),
	ReceivedCEBytes:        row("received_ce_bytes", "received_ce_bytes", "bytes", true, "6.18", "payload received with a congestion mark", u32(272)),
	AccECNFailMode:         row("accecn_fail_mode", "accecn_fail_mode", "", false, "6.18", "bits: 1 ACE sent, 2 ACE received, 4 option sent, 8 option received; each failed", u16(276)),
	AccECNOptSeen:          row("accecn_opt_seen", "accecn_opt_seen", "", false, "6.18", "AccECN option: 0 not seen, 1 empty, 2 with counters, 3 failed", u16(278)),
}

func row(name, kernel, unit string, counter bool, since, doc string, l layout) fieldRow {
	return fieldRow{TCPFieldInfo{Name: name, Kernel: "tcpi_" + kernel, Unit: unit, Counter: counter, Since: since, Doc: doc}, l}
}

func u8(offset int) layout  { return layout{offset: offset, size: 1} }
func u16(offset int) layout { return layout{offset: offset, size: 2} }
func u32(offset int) layout { return layout{offset: offset, size: 4} }
func u64(offset int) layout { return layout{offset: offset, size: 8} }

func part(offset, shift, bits int) layout {
	return layout{offset: offset, size: 1, shift: shift, bits: bits}
}

func (l layout) unless(none uint64) layout {
	l.none = none
	return l
}

// width returns the field's size in bits.
func (l layout) width() int {
	if l.bits != 0 {
		return l.bits
	}
	return 8 * l.size
}

// TCPFields describes all fields, in the kernel's order.
func TCPFields() []TCPFieldInfo {
	infos := make([]TCPFieldInfo, numTCPFields)
	for f := range fields {
		infos[f] = fields[f].TCPFieldInfo
		infos[f].Field = TCPField(f)
	}
	return infos
}

func (f TCPField) valid() bool { return f >= 0 && f < numTCPFields }

// Name returns the field's key in JSON.
func (f TCPField) Name() string {
	if !f.valid() {
		return "TCPField(" + strconv.Itoa(int(f)) + ")"
	}
	return fields[f].Name
}

// String returns Name.
func (f TCPField) String() string { return f.Name() }

// Get returns a field's value. It is false if this kernel doesn't report the
// field, or reports that there is no limit or no value yet. It allocates
// nothing.
func (t TCPInfo) Get(f TCPField) (uint64, bool) {
	if !f.valid() {
		return 0, false
	}
	l := &fields[f].layout
	if l.offset+l.size > len(t) {
		return 0, false
	}
	b := t[l.offset:]
	var v uint64
	switch l.size {
	case 1:
		v = uint64(b[0])
		if l.bits != 0 {
			v = v >> l.shift & (1<<l.bits - 1)
		}
	case 2:
		v = uint64(binary.NativeEndian.Uint16(b))
	case 4:
		v = uint64(binary.NativeEndian.Uint32(b))
	case 8:
		v = binary.NativeEndian.Uint64(b)
	}
	if l.none != 0 && v == l.none {
		return 0, false
	}
	return v, true
}

// A TCPValue is one field with its value. Known is false, and Value 0, where
// Get says false.
type TCPValue struct {
	Field TCPField
	Value uint64
	Known bool
}

// Fields returns all fields in the kernel's order.
func (t TCPInfo) Fields() []TCPValue {
	values := make([]TCPValue, numTCPFields)
	for i := range values {
		f := TCPField(i)
		v, known := t.Get(f)
		values[i] = TCPValue{Field: f, Value: v, Known: known}
	}
	return values
}

// MarshalDoc returns the JSON object of the result document: every field under
// its name, in the kernel's order, null where the value is unknown. (TCPInfo
// itself marshals as bytes, for the other end to decode.)
func (t TCPInfo) MarshalDoc() ([]byte, error) {
	doc := []byte{'{'}
	for i, v := range t.Fields() {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = fmt.Appendf(doc, "%q:", v.Field.Name())
		if v.Known {
			doc = strconv.AppendUint(doc, v.Value, 10)
		} else {
			doc = append(doc, "null"...)
		}
	}
	return append(doc, '}'), nil
}

// Delta returns how far a counter moved from start to end, across at most one
// wrap of its width (segment counters have 32 bits: a wrap takes 2^32
// segments). It is false for fields that aren't counters and for fields that
// either reading lacks.
func Delta(start, end TCPInfo, f TCPField) (uint64, bool) {
	if !f.valid() || !fields[f].Counter {
		return 0, false
	}
	from, ok := start.Get(f)
	to, ok2 := end.Get(f)
	if !ok || !ok2 {
		return 0, false
	}
	return (to - from) & (math.MaxUint64 >> (64 - fields[f].width())), true
}
