package stats

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSummariseLatency(t *testing.T) {
	t.Parallel()
	if l, err := SummariseLatency(NewHistogram(), true); l != nil || err != nil {
		t.Errorf("of nothing: %+v, %v", l, err)
	}
	if l, err := SummariseLatency(nil, true); l != nil || err != nil {
		t.Errorf("of no histogram: %+v, %v", l, err)
	}
	h := NewHistogram()
	for us := int64(1); us <= 1000; us++ {
		if err := h.RecordValue(us * 1000); err != nil {
			t.Fatal(err)
		}
	}
	l, err := SummariseLatency(h, false)
	if err != nil {
		t.Fatal(err)
	}
	if l.Count != 1000 || l.Histogram != "" {
		t.Errorf("%d in it, histogram %q", l.Count, l.Histogram)
	}
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"min", l.Min, 1}, {"mean", l.Mean, 500.5}, {"stddev", l.Stddev, 288.675}, {"p50", l.P50, 500}, {"p90", l.P90, 900},
		{"p99", l.P99, 990}, {"p999", l.P999, 999}, {"max", l.Max, 1000},
	} {
		if math.Abs(f.got-f.want) > f.want/1000 {
			t.Errorf("%s is %v, want %v within 0.1 %%", f.name, f.got, f.want)
		}
	}
}

// A histogram survives its encoding, holds every value to 0.1 %, and merging
// two is recording both.
func TestHistogramLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, int64(HighestLatency)), 1, 40)
		one, two, both := NewHistogram(), NewHistogram(), NewHistogram()
		for i, h := range []interface{ RecordValue(int64) error }{one, two} {
			for _, v := range values.Draw(t, "values") {
				if err := h.RecordValue(v >> (20 * i)); err != nil {
					t.Fatal(err)
				}
				if err := both.RecordValue(v >> (20 * i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, err := EncodeHistogram(one)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeHistogram(s)
		if err != nil || !again.Equals(one) {
			t.Fatalf("read again it differs: %v", err)
		}
		if dropped := again.Merge(two); dropped != 0 || !again.Equals(both) {
			t.Fatalf("merged: %d dropped, %d in it, want %d", dropped, again.TotalCount(), both.TotalCount())
		}
		l, err := SummariseLatency(both, true)
		if err != nil {
			t.Fatal(err)
		}
		rising := []float64{l.Min, l.P50, l.P90, l.P99, l.P999, l.Max}
		for i := 1; i < len(rising); i++ {
			// Quantiles are told as the highest value of their bucket.
			if rising[i] < rising[i-1]*0.999 {
				t.Fatalf("not rising: %v", rising)
			}
		}
		if l.Mean < l.Min*0.999 || l.Mean > l.Max*1.001 || l.Stddev < 0 {
			t.Fatalf("mean %v, stddev %v of %v", l.Mean, l.Stddev, rising)
		}
	})
}

// The highest value that a histogram holds is at least what is promised.
func TestHistogramRange(t *testing.T) {
	t.Parallel()
	h := NewHistogram()
	for _, d := range []time.Duration{1, HighestLatency} {
		if err := h.RecordValue(int64(d)); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
	if h.RecordValue(h.HighestTrackableValue()) != nil {
		t.Error("the highest trackable value isn't trackable")
	}
	if h.RecordValue(int64(HighestLatency)*100) == nil {
		t.Error("a value far beyond the range is taken without a word")
	}
}

// Recording allocates nothing.
func TestRecordAllocations(t *testing.T) {
	h, v := NewHistogram(), int64(1)
	if n := testing.AllocsPerRun(1000, func() {
		v = v*7%int64(HighestLatency) + 1
		_ = h.RecordValue(v)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a peer or a file calls a histogram can be anything.
func FuzzDecodeHistogram(f *testing.F) {
	h := NewHistogram()
	for _, v := range []int64{1, 1500, 2e6, int64(HighestLatency)} {
		if err := h.RecordValue(v); err != nil {
			f.Fatal(err)
		}
	}
	s, err := EncodeHistogram(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add(s[:len(s)/2])
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := DecodeHistogram(s)
		if err != nil {
			return
		}
		total := NewHistogram()
		total.Merge(h)
		l, err := SummariseLatency(total, true)
		if err != nil {
			t.Fatal(err)
		}
		if l != nil && (math.IsNaN(l.Mean) || math.IsNaN(l.Stddev) || math.IsInf(l.Mean, 0)) {
			t.Fatalf("%+v", l)
		}
	})
}
