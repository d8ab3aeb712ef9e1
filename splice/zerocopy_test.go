package splice_test

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
	"gperf/splice"
)

// Every send is reported, on loopback as copied.
func TestZerocopyCompletions(t *testing.T) {
	t.Parallel()
	out, in := tcpPair(t, setup{})
	z := newSender(t, "zerocopy", 0, out, 0).(*splice.Zerocopy)
	const n = 5_000_003
	go sendThenDrain(t, z, out, n)
	receiveAll(t, newReader(), in, n, 100_000, 0, nothing)
	s := z.Stats()
	if s.Completions+s.Fallbacks != s.Calls || s.CopiedCompletions != s.Completions || s.Completions == 0 || s.Bytes != n {
		t.Errorf("%+v", s)
	}
}

// sendThenDrain ends the stream after the last report.
func sendThenDrain(t *testing.T, z *splice.Zerocopy, fd, n int) {
	sendAll(t, z, fd, n, 64<<10, 0)
	if left := z.Drain(10 * time.Second); left != 0 || z.Pending() != 0 {
		t.Errorf("%d sends were never reported", left)
	}
	_ = unix.Shutdown(fd, unix.SHUT_WR)
}

// Drain keeps to its time, also on a connection that is ready for ever.
func TestZerocopyDrain(t *testing.T) {
	t.Parallel()
	out, in := tcpPair(t, setup{})
	z := newSender(t, "zerocopy", 0, out, 0).(*splice.Zerocopy)
	if left := z.Drain(time.Hour); left != 0 {
		t.Errorf("%d of no sends", left)
	}
	sendAll(t, z, out, 1000, 1000, 0)
	must(t, unix.SetsockoptLinger(in, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	hangUp(t, in)
	begun := time.Now()
	if left := z.Drain(10 * time.Second); left != 0 || time.Since(begun) > 5*time.Second {
		t.Errorf("%d left after %v", left, time.Since(begun))
	}
}

// A kernel without room for another report: the bytes are copied, and counted so.
func TestZerocopyNoRoom(t *testing.T) {
	ns := netnstest.New(t)
	ns.SetSysctl("net.core.optmem_max", "1")
	var out, in int
	must(t, ns.Do(func() error { out, in = tcpPair(t, setup{}); return nil }))
	z := newSender(t, "zerocopy", 0, out, 0)
	const n = 300_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendAll(t, z, out, n, 64<<10, 0)
		_ = unix.Shutdown(out, unix.SHUT_WR)
	}()
	receiveAll(t, newReader(), in, n, 100_000, 0, nothing)
	<-done
	if s := z.Stats(); s.Fallbacks != s.Calls || s.CopiedBytes != n || s.Completions != 0 {
		t.Errorf("%+v", s)
	}
}

// report is an entry of the error queue as the kernel writes it.
func report(level, kind int32, errno uint32, origin, code byte, first, last uint32) []byte {
	b := make([]byte, 48) // with the address of the offender, which stays zero
	binary.NativeEndian.PutUint64(b, 48)
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	binary.NativeEndian.PutUint32(b[16:], errno)
	b[20], b[22] = origin, code
	binary.NativeEndian.PutUint32(b[24:], first)
	binary.NativeEndian.PutUint32(b[28:], last)
	return b
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	good := report(unix.SOL_IP, unix.IP_RECVERR, 0, unix.SO_EE_ORIGIN_ZEROCOPY, unix.SO_EE_CODE_ZEROCOPY_COPIED, 7, 9)
	six := report(unix.SOL_IPV6, unix.IPV6_RECVERR, 0, unix.SO_EE_ORIGIN_ZEROCOPY, 0, 0xffff_ffff, 1)
	stamp := report(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0, 0, 0, 1, 1)
	long := append([]byte(nil), good...)
	binary.NativeEndian.PutUint64(long, 1<<63)
	for _, tt := range []struct {
		name        string
		control     []byte
		first, last uint32
		copied, ok  bool
	}{
		{"copied", good, 7, 9, true, true},
		{"not copied, over IPv6, wrapped around", six, 0xffff_ffff, 1, false, true},
		{"behind another message", append(append([]byte(nil), stamp...), six...), 0xffff_ffff, 1, false, true},
		{"another message", stamp, 0, 0, false, false},
		{"an ICMP error", report(unix.SOL_IP, unix.IP_RECVERR, 111, unix.SO_EE_ORIGIN_ICMP, 0, 0, 0), 0, 0, false, false},
		{"nothing", nil, 0, 0, false, false},
		{"cut off", good[:40], 0, 0, false, false},
		{"longer than memory", long, 0, 0, false, false},
		{"no length", make([]byte, 64), 0, 0, false, false},
	} {
		first, last, copied, ok := splice.Completion(tt.control)
		if first != tt.first || last != tt.last || copied != tt.copied || ok != tt.ok {
			t.Errorf("%s: %d to %d, %v, %v", tt.name, first, last, copied, ok)
		}
	}
}

func FuzzCompletion(f *testing.F) {
	f.Add(report(unix.SOL_IP, unix.IP_RECVERR, 0, unix.SO_EE_ORIGIN_ZEROCOPY, 1, 7, 9))
	f.Add(report(unix.SOL_IPV6, unix.IPV6_RECVERR, 0, unix.SO_EE_ORIGIN_ZEROCOPY, 0, 0, 0))
	f.Add(append(report(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0, 0, 0, 1, 1), 1, 2, 3))
	f.Fuzz(func(t *testing.T, control []byte) {
		first, last, copied, ok := splice.Completion(control)
		if !ok && (first != 0 || last != 0 || copied) {
			t.Errorf("%d to %d, %v, of no report", first, last, copied)
		}
		// x/sys reads the same messages by another way, where it can read them at all.
		messages, err := unix.ParseSocketControlMessage(control)
		if err != nil {
			return
		}
		for _, m := range messages {
			kind := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR ||
				m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR
			if kind && len(m.Data) >= 16 && binary.NativeEndian.Uint32(m.Data) == 0 && m.Data[4] == unix.SO_EE_ORIGIN_ZEROCOPY {
				if !ok || first != binary.NativeEndian.Uint32(m.Data[8:]) || last != binary.NativeEndian.Uint32(m.Data[12:]) {
					t.Errorf("%d to %d, %v, of %x", first, last, ok, m.Data)
				}
				return
			}
		}
		if ok {
			t.Errorf("%d to %d of %x", first, last, control)
		}
	})
}
