package flow

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"gperf/result"
)

// The pool is the one place that turns the runtime's own knobs. Workers that
// block in raw system calls hold a P each, and a stop of the world has to wait
// for every one of them to be interrupted. So there must be more Ps than
// workers, and collections are kept out of the windows.
var pool struct {
	sync.Mutex
	workers int
	percent int // GOGC to return to
	limit   int64
}

const (
	spareProcs = 2 // for the sampler and for the control connection
	procsStep  = 4 // raising GOMAXPROCS stops the world: do it rarely
	// worthCollecting is from how many bytes on a collection before the window is
	// worth its time: a client that has just started has nothing to collect.
	worthCollecting = 32 << 20
	// windowMemory is what the heap may grow by before the collector runs even
	// inside a window: enough for the samples that the plan's bounds allow.
	windowMemory = 1 << 30
)

// reserve prepares the runtime for n more workers. It collects garbage and
// switches the collector off when there were none. It comes before Start: what
// it costs must not fall into a window of this test.
func reserve(n int) {
	pool.Lock()
	defer pool.Unlock()
	if pool.workers == 0 {
		if memoryInUse() > worthCollecting {
			runtime.GC()
		}
		pool.percent = debug.SetGCPercent(-1)
		pool.limit = debug.SetMemoryLimit(int64(memoryInUse()) + windowMemory)
	}
	pool.workers += n
	// Never lowered: that would stop the world again, for no gain.
	if need := pool.workers + spareProcs; need > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS((need + procsStep - 1) / procsStep * procsStep)
	}
}

// release takes back what reserve gave, when n workers have ended.
func release(n int) {
	pool.Lock()
	defer pool.Unlock()
	pool.workers -= n
	if pool.workers == 0 {
		debug.SetMemoryLimit(pool.limit)
		debug.SetGCPercent(pool.percent)
	}
}

// memoryInUse is what the runtime holds of the operating system, in bytes.
func memoryInUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// A RuntimeReading is how often and how long Go's runtime has stood in the way
// of its threads so far.
type RuntimeReading struct {
	collections uint64
	pauses      float64 // seconds
}

// ReadRuntime takes a reading. It doesn't stop the world itself.
func ReadRuntime() RuntimeReading {
	s := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/sched/pauses/total/gc:seconds"},
		{Name: "/sched/pauses/total/other:seconds"},
	}
	metrics.Read(s)
	r := RuntimeReading{collections: s[0].Value.Uint64()}
	for _, h := range []*metrics.Float64Histogram{s[1].Value.Float64Histogram(), s[2].Value.Float64Histogram()} {
		for i, n := range h.Counts {
			// The lower bound of the bucket: at least so long.
			r.pauses += float64(n) * max(h.Buckets[i], 0)
		}
	}
	return r
}

// Until is what happened from a to b.
func (a RuntimeReading) Until(b RuntimeReading) *result.Runtime {
	return &result.Runtime{Collections: b.collections - a.collections, PauseSeconds: max(b.pauses-a.pauses, 0)}
}
