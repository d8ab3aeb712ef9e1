package result

import (
	"slices"

	"gperf/plan"
)

const (
	// stallShare of the median interval's rate, and less, is a stall.
	stallShare = 0.1
	// stallFrom is how many intervals it takes to speak of a median.
	stallFrom = 5
)

// stalls finds, in the intervals of one direction, the times in which a stream
// hardly moved. Intervals that follow on each other make one stall. (They may be
// the machine's: a worker that waited for a CPU. Threads have that in their
// run-queue wait.)
func stalls(intervals []Interval) (all []Stall) {
	if len(intervals) < stallFrom || intervals[0].Direction == plan.Both {
		return nil
	}
	for k := range intervals[0].Streams {
		rates := make([]float64, 0, len(intervals))
		for i := range intervals {
			if r := streamRate(&intervals[i], k); r != nil {
				rates = append(rates, *r)
			}
		}
		if len(rates) < stallFrom {
			continue
		}
		middle := median(rates)
		var last *Stall // the stall that the interval before belongs to
		for i := range intervals {
			iv := &intervals[i]
			r := streamRate(iv, k)
			if r == nil || *r >= stallShare*middle {
				last = nil
				continue
			}
			if last == nil {
				all = append(all, Stall{
					Stream: iv.Streams[k].ID, Direction: iv.Direction, Start: iv.Start, Median: middle, At: iv.Streams[k],
				})
				last = &all[len(all)-1]
			}
			last.Length += iv.End - iv.Start
			last.Bytes += iv.Streams[k].Bytes
		}
	}
	return all
}

func streamRate(iv *Interval, k int) *float64 { return rate(iv.Streams[k].Bytes, iv.End-iv.Start) }

// median is the middle one of some values, the upper of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
