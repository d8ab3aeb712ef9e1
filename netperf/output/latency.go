package output

import (
	"math"
	"time"
)

// scales are the units of the histogram's decades in microseconds, with their
// labels.
var scales = [len(Latency{}.Buckets)]struct {
	µs    float64
	label string
}{
	{1, "UNIT_USEC"},
	{1e1, "TEN_USEC"},
	{1e2, "HUNDRED_USEC"},
	{1e3, "UNIT_MSEC"},
	{1e4, "TEN_MSEC"},
	{1e5, "HUNDRED_MSEC"},
	{1e6, "UNIT_SEC"},
	{1e7, "TEN_SEC"},
}

// Record counts one duration. A negative one is counted as ridiculous and
// nowhere else.
func (l *Latency) Record(d time.Duration) { l.RecordN(d, 1) }

// RecordN counts n durations that are alike.
func (l *Latency) RecordN(d time.Duration, n uint64) {
	if d < 0 {
		l.Ridiculous += n
		return
	}
	µs := float64(d) / 1e3
	if l.Count == 0 || µs < l.Min {
		l.Min = µs
	}
	l.Max = max(l.Max, µs)
	l.Count += n
	l.Sum += µs * float64(n)
	l.SumSquares += µs * µs * float64(n)
	unit := 100 * time.Nanosecond // a tenth of a microsecond
	for i := range l.Buckets {
		if at := int64(d / unit); at < int64(len(l.Buckets[i])) {
			l.Buckets[i][at] += n
			return
		}
		unit *= 10
	}
	l.Ridiculous += n
}

// Merge adds what other counted.
func (l *Latency) Merge(other *Latency) {
	for i := range l.Buckets {
		for j := range l.Buckets[i] {
			l.Buckets[i][j] += other.Buckets[i][j]
		}
	}
	if other.Count > 0 && (l.Count == 0 || other.Min < l.Min) {
		l.Min = other.Min
	}
	l.Max = max(l.Max, other.Max)
	l.Ridiculous += other.Ridiculous
	l.Count += other.Count
	l.Sum += other.Sum
	l.SumSquares += other.SumSquares
}

// Percentile returns the duration that the share p of all didn't exceed, 0 to 1,
// in whole microseconds, interpolated within its bucket.
func (l *Latency) Percentile(p float64) int {
	target := uint64(p * float64(l.Count))
	if target == 0 {
		return 0
	}
	before := uint64(0)
	for i := range l.Buckets {
		for j, n := range l.Buckets[i] {
			if before+n >= target {
				within := float64(target-before) / float64(n)
				return int((float64(j) + within) * scales[i].µs / 10)
			}
			before += n
		}
	}
	return int(l.Max) // among those of 100 s and more
}

// Mean returns microseconds.
func (l *Latency) Mean() float64 { return ratio(l.Sum, float64(l.Count)) }

// Stddev returns the population's standard deviation in microseconds.
func (l *Latency) Stddev() float64 {
	n := float64(l.Count)
	return math.Sqrt(max(0, ratio(n*l.SumSquares-l.Sum*l.Sum, n*n)))
}

// histogram prints the counts by tens of buckets.
func (p *page) histogram(l *Latency) {
	for i, s := range scales {
		p.printf("%-14s", s.label)
		for j := 0; j < len(l.Buckets[i]); j += 10 {
			n := uint64(0)
			for _, count := range l.Buckets[i][j : j+10] {
				n += count
			}
			p.printf(": %4d", n)
		}
		p.printf("\n")
	}
	p.printf(">100_SECS: %d\n", l.Ridiculous)
	p.printf("HIST_TOTAL:      %d\n", l.Count)
}
