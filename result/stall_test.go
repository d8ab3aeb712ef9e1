package result

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gperf/plan"
)

// A stall is what follows on each other below a tenth of a stream's own median.
func TestStalls(t *testing.T) {
	t.Parallel()
	type stall struct {
		Stream        int
		Start, Length float64
		Bytes         uint64
		AtRTT         uint64
	}
	for _, tt := range []struct {
		name      string
		streams   [][]uint64 // bytes of each interval
		direction plan.Direction
		want      []stall
	}{
		{"steady", [][]uint64{{100, 90, 110, 100, 100, 50}}, plan.ClientToServer, nil},
		{"one", [][]uint64{{100, 100, 0, 100, 100, 100}}, plan.ClientToServer, []stall{{1, 2, 1, 0, 2}}},
		{"long", [][]uint64{{100, 100, 9, 0, 5, 100, 100, 100}}, plan.ServerToClient, []stall{{1, 2, 3, 14, 2}}},
		{"a tenth", [][]uint64{{100, 100, 10, 100, 100, 100}}, plan.ClientToServer, nil},
		{"two, at the edges", [][]uint64{{1, 100, 100, 100, 100, 2}}, plan.ClientToServer, []stall{{1, 0, 1, 1, 0}, {1, 5, 1, 2, 5}}},
		{"of one stream", [][]uint64{{100, 100, 100, 100, 100}, {10, 10, 10, 0, 10}}, plan.ClientToServer, []stall{{2, 3, 1, 0, 3}}},
		{"slow stream beside a fast one", [][]uint64{{1000, 1000, 1000, 1000, 1000}, {5, 5, 5, 5, 5}}, plan.ClientToServer, nil},
		{"too few intervals", [][]uint64{{100, 100, 0, 100}}, plan.ClientToServer, nil},
		{"mostly still", [][]uint64{{0, 0, 0, 0, 100, 100}}, plan.ClientToServer, nil},
		{"transactions", [][]uint64{{100, 100, 0, 100, 100, 100}}, plan.Both, nil},
		{"none", [][]uint64{{}}, plan.ClientToServer, nil},
	} {
		var intervals []Interval
		for i := range tt.streams[0] {
			iv := Interval{Direction: tt.direction, Start: float64(i), End: float64(i + 1)}
			for k := range tt.streams {
				iv.Streams = append(iv.Streams, IntervalStream{ID: k + 1, Bytes: tt.streams[k][i], RTT: new(uint64(i))})
			}
			intervals = append(intervals, iv)
		}
		var got []stall
		for _, s := range stalls(intervals) {
			got = append(got, stall{s.Stream, s.Start, math.Round(s.Length), s.Bytes, *s.At.RTT})
			if s.Direction != tt.direction || s.Median <= 0 {
				t.Errorf("%s: %+v", tt.name, s)
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}
