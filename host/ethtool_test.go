package host

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
)

// The answer doesn't depend on how much stack is left when the question is
// asked: see the comment on type ethtool.
func TestFeaturesAtAnyStackDepth(t *testing.T) {
	ask := func() map[string]bool {
		e, err := openEthtool()
		if err != nil {
			t.Error(err)
			return nil
		}
		defer e.close()
		f, err := e.features("lo")
		if err != nil {
			t.Error(err)
		}
		return f
	}
	want := ask()
	if !want["tx-generic-segmentation"] {
		t.Fatalf("features of lo: %v", want)
	}
	for depth := range 200 {
		answer := make(chan map[string]bool)
		go func() { atDepth(depth, func() { answer <- ask() }) }()
		if diff := cmp.Diff(want, <-answer); diff != "" {
			t.Fatalf("at depth %d (-want +got):\n%s", depth, diff)
		}
	}
}

// atDepth calls f below so many frames.
//
//go:noinline
func atDepth(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	atDepth(depth-1, f)
}

func TestEthtool(t *testing.T) {
	a, _ := netnstest.NewPair(t, netnstest.Pair{})
	a.SetFeatures(map[string]bool{"rx-gro": true, "tx-generic-segmentation": false})
	err := a.Do(func() error {
		e, err := openEthtool()
		if err != nil {
			return err
		}
		defer e.close()
		if mbit, known, err := e.speed(a.Device); mbit != 10000 || !known || err != nil { // the veth driver's word
			t.Errorf("speed: got %d, %v, %v", mbit, known, err)
		}
		if rx, tx, err := e.channels(a.Device); rx < 1 || tx < 1 || err != nil {
			t.Errorf("channels: got %d, %d, %v", rx, tx, err)
		}
		f, err := e.features(a.Device)
		if !f["rx-gro"] || f["tx-generic-segmentation"] || err != nil {
			t.Errorf("features: got %v, %v", f, err)
		}
		if _, _, err := e.channels("lo"); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("channels of lo: got %v, want EOPNOTSUPP", err)
		}
		for _, device := range []string{"", "nosuch", "a-name-that-is-too-long"} {
			if _, err := e.features(device); !errors.Is(err, unix.ENODEV) {
				t.Errorf("device %q: got %v, want ENODEV", device, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDecodeFeatures(t *testing.T) {
	const size = 4
	names := make([]byte, 34*size)
	copy(names[0*size:], "a")
	copy(names[1*size:], "full")
	copy(names[33*size:], "b") // 32 has no name
	blocks := make([]byte, 2*16)
	putWord(blocks, 2, 1<<1)
	putWord(blocks, 4+2, 1<<1)
	want := map[string]bool{"a": false, "full": true, "b": true}
	if diff := cmp.Diff(want, decodeFeatures(names, blocks, size)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Fewer blocks than names: what they don't cover isn't known.
	delete(want, "b")
	if diff := cmp.Diff(want, decodeFeatures(names, blocks[:16], size)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzDecodeFeatures(f *testing.F) {
	f.Add([]byte("abc\x00def\x00"), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, names, blocks []byte) {
		if got := decodeFeatures(names, blocks, 4); len(got) > len(names)/4 {
			t.Errorf("%d features in %d bytes", len(got), len(names))
		}
	})
}

func BenchmarkEthtoolFeatures(b *testing.B) {
	e, err := openEthtool()
	if err != nil {
		b.Fatal(err)
	}
	defer e.close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.features("lo"); err != nil {
			b.Fatal(err)
		}
	}
}
