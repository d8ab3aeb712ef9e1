package splice

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Stats are what a mover has done since it was made. A call that moves nothing
// isn't counted.
type Stats struct {
	Calls   uint64 // calls that moved bytes into or out of the socket
	Bytes   uint64 // moved into or out of the socket, copied or not
	Short   uint64 // calls that moved less than they were asked for and had
	Largest uint64 // bytes of the largest call
	// Refills are the calls beside those that touch the socket: of tee or vmsplice
	// into the working pipe, of splice from the pipe into the sink.
	Refills uint64
	// Fallbacks are calls that copied because the mover's own way was closed, and
	// CopiedBytes their bytes: sends without MSG_ZEROCOPY after ENOBUFS, receives
	// of what can't be mapped.
	Fallbacks   uint64
	CopiedBytes uint64
	// Completions are sends with MSG_ZEROCOPY that the kernel has reported done,
	// and CopiedCompletions those of them that it copied after all.
	Completions       uint64
	CopiedCompletions uint64
}

// Sub returns what has happened since before. Largest stays as it is.
func (s Stats) Sub(before Stats) Stats {
	s.Calls -= before.Calls
	s.Bytes -= before.Bytes
	s.Short -= before.Short
	s.Refills -= before.Refills
	s.Fallbacks -= before.Fallbacks
	s.CopiedBytes -= before.CopiedBytes
	s.Completions -= before.Completions
	s.CopiedCompletions -= before.CopiedCompletions
	return s
}

// cacheLine keeps what one thread writes apart from what others touch: two lines
// of 64 bytes, because processors prefetch them in pairs.
const cacheLine = 128

// counters are the live form of Stats and Sizes. The mover's thread alone writes
// them, by an atomic store of what it has read itself.
type counters struct {
	_           [cacheLine]byte
	calls       atomic.Uint64
	bytes       atomic.Uint64
	short       atomic.Uint64
	largest     atomic.Uint64
	refills     atomic.Uint64
	fallbacks   atomic.Uint64
	copiedBytes atomic.Uint64
	completions atomic.Uint64
	copied      atomic.Uint64
	sizes       [buckets]atomic.Uint64
	_           [cacheLine]byte
}

// add adds to a counter that only this thread writes.
func add(counter *atomic.Uint64, n uint64) { counter.Store(counter.Load() + n) }

// count notes a call that moved some of the bytes that it was asked for.
func (c *counters) count(moved, asked int) {
	add(&c.calls, 1)
	add(&c.bytes, uint64(moved))
	add(&c.sizes[bucket(moved)], 1)
	if moved < asked {
		add(&c.short, 1)
	}
	if uint64(moved) > c.largest.Load() {
		c.largest.Store(uint64(moved))
	}
}

// fellBack notes that a call, which count notes as well, copied.
func (c *counters) fellBack(moved int) {
	add(&c.fallbacks, 1)
	add(&c.copiedBytes, uint64(moved))
}

// Stats returns the counts so far. Any goroutine may ask.
func (c *counters) Stats() Stats {
	return Stats{
		Calls:             c.calls.Load(),
		Bytes:             c.bytes.Load(),
		Short:             c.short.Load(),
		Largest:           c.largest.Load(),
		Refills:           c.refills.Load(),
		Fallbacks:         c.fallbacks.Load(),
		CopiedBytes:       c.copiedBytes.Load(),
		Completions:       c.completions.Load(),
		CopiedCompletions: c.copied.Load(),
	}
}

// Sizes fills in the distribution of bytes per call so far. Any goroutine may ask.
func (c *counters) Sizes(into *Sizes) {
	for i := range c.sizes {
		into.counts[i] = c.sizes[i].Load()
	}
}

// Each power of two of the sizes has subBuckets buckets; sizes below subBuckets
// and from 2^maxBits on (which no call reaches: MAX_RW_COUNT of linux/fs.h) have
// the first and the last.
const (
	subBits    = 5
	subBuckets = 1 << subBits
	maxBits    = 31
	buckets    = subBuckets + (maxBits-subBits)*subBuckets
)

// Sizes are a distribution of bytes per call. The zero value is empty.
type Sizes struct {
	counts [buckets]uint64
}

// bucket is where a size is counted: its first bit and the subBits after it.
func bucket(size int) int {
	if size < subBuckets {
		return max(size, 0)
	}
	shift := bits.Len(uint(size)) - 1 - subBits
	return min(shift*subBuckets+size>>shift, buckets-1)
}

// lowest is the smallest size that is counted in a bucket.
func lowest(bucket int) int {
	if bucket < 2*subBuckets {
		return bucket
	}
	shift := bucket/subBuckets - 1
	return (bucket - shift*subBuckets) << shift
}

// Sub takes away what an earlier reading had.
func (s *Sizes) Sub(before *Sizes) {
	for i := range s.counts {
		s.counts[i] -= before.counts[i]
	}
}

// Add adds another distribution, as of another stream.
func (s *Sizes) Add(other *Sizes) {
	for i := range s.counts {
		s.counts[i] += other.counts[i]
	}
}

// Calls is how many calls are counted.
func (s *Sizes) Calls() uint64 {
	var n uint64
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Quantile is the size below or at which the share q of all calls lies (0.5: the
// median; 1: the largest; by nearest rank), rounded down by less than a 32nd.
// Powers of two, and sizes up to 64, are exact. Without calls it is 0.
func (s *Sizes) Quantile(q float64) int {
	calls := s.Calls()
	if calls == 0 {
		return 0
	}
	const slack = 1e-6 // 0.07 of 100 calls is the 7th, not the next
	need := max(uint64(math.Ceil(q*float64(calls)-slack)), 1)
	var seen uint64
	last := 0
	for i, c := range s.counts {
		if c == 0 {
			continue
		}
		last = i
		if seen += c; seen >= need {
			break
		}
	}
	return lowest(last)
}
