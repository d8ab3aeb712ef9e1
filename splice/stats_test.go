package splice_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gperf/splice"
)

// The buckets lie side by side, and each is narrower than a 32nd of its sizes.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for i := range splice.Buckets {
		low := splice.Lowest(i)
		if splice.Bucket(low) != i || i > 0 && splice.Bucket(low-1) != i-1 {
			t.Errorf("bucket %d begins with %d, which is in %d", i, low, splice.Bucket(low))
		}
		if i+1 < splice.Buckets && splice.Lowest(i+1)-low > max(low/32, 1) {
			t.Errorf("bucket %d goes from %d to %d", i, low, splice.Lowest(i+1))
		}
	}
	if splice.Bucket(math.MaxInt64) != splice.Buckets-1 || splice.Bucket(0) != 0 {
		t.Error("the ends")
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	var none, first, all splice.Sizes
	if none.Quantile(0.5) != 0 || none.Calls() != 0 {
		t.Error("an empty distribution isn't")
	}
	splice.Count(&first, 10, 10)
	stats := splice.Count(&all, 10, 10, 65536, 65536, 65536)
	want := splice.Stats{Calls: 5, Bytes: 3*65536 + 20, Short: 5, Largest: 65536}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if all.Quantile(0.4) != 10 || all.Quantile(0.41) != 65536 || all.Quantile(1) != 65536 || all.Quantile(0) != 10 {
		t.Errorf("quantiles: %d %d %d", all.Quantile(0.4), all.Quantile(0.41), all.Quantile(1))
	}
	all.Sub(&first)
	if all.Calls() != 3 || all.Quantile(0) != 65536 {
		t.Errorf("after Sub: %d calls", all.Calls())
	}
	all.Add(&first)
	all.Add(&first)
	if all.Calls() != 7 || all.Quantile(0.5) != 10 {
		t.Errorf("after Add: %d calls", all.Calls())
	}
	later := splice.Stats{Calls: 9, Bytes: 8, Short: 7, Largest: 6, Refills: 5, Fallbacks: 4, CopiedBytes: 3, Completions: 2, CopiedCompletions: 1}
	if diff := cmp.Diff(splice.Stats{Largest: 6}, later.Sub(later)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Quantiles are those of the sorted sizes, less a 32nd.
func TestQuantile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 1<<31-1), 1, 200).Draw(t, "sizes")
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		var s splice.Sizes
		splice.Count(&s, sizes...)
		slices.Sort(sizes)
		want := sizes[(percent*len(sizes)+99)/100-1]
		if got := s.Quantile(float64(percent) / 100); got > want || want-got > want/32 {
			t.Fatalf("%d %%: %d, want %d", percent, got, want)
		}
	})
}
