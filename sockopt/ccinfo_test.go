package sockopt

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCCInfoBBRLayout(t *testing.T) {
	t.Parallel()
	b := make([]byte, 20)
	for i, v := range []uint32{5, 1, 250, 739, 512} {
		binary.NativeEndian.PutUint32(b[4*i:], v)
	}
	got := ccLayouts["bbr"].decode(b)
	want := map[string]float64{
		"bandwidth_bytes_per_second": 1<<32 + 5, "min_rtt_us": 250, "pacing_gain": 739.0 / 256, "cwnd_gain": 2,
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s: got %v, want %v", name, got[name], v)
		}
	}
}

// The algorithm's name decides whether there is anything to decode.
func TestReadCCInfo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"reno", "bbr"} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
			t.Skipf("needs a kernel with congestion control %s: %v", name, err)
		}
		info, err := ReadCCInfo(fd)
		if err != nil || info.Algorithm != name {
			t.Fatalf("got %+v, %v", info, err)
		}
		if known := info.Fields != nil; known != (name == "bbr") {
			t.Errorf("%s: fields %v", name, info.Fields)
		}
	}
}
