package flow

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/stats"
)

// A Window says when a Group is measured. Times are monotonic ns.
type Window struct {
	OpenAt   int64
	Duration time.Duration // 0: the workers' limits end it
	Interval time.Duration // 0: no intervals
	// Closed is closed when the other end has closed its window; only the roles
	// that don't measure wait for it.
	Closed <-chan struct{}
	// Cut closes the windows of the roles that measure before their time.
	Cut <-chan struct{}
	// Opened is called once the window is open, before the first bytes of a
	// window without warm-up.
	Opened func()
	// Live receives the samples as they are taken: the opening one, each
	// interval's (or one a second when there are no intervals), the closing
	// one. It must not block.
	Live func(result.Sample)
}

const (
	progressEvery = time.Second
	// drainWait bounds the wait for the last acknowledgements after the receiver
	// has confirmed the last byte.
	drainWait = time.Second
	drainPoll = 500 * time.Microsecond
)

// Measure opens the window, takes the samples and closes it. The half it
// returns is complete when the error is nil, else it holds what was measured
// until then: the error is the context's cause, or what ended a worker early.
// Workers that have not been started are started at the opening of a window
// without warm-up, so that not a byte of theirs is missed.
func (g *Group) Measure(ctx context.Context, win Window) (*result.Half, error) {
	if win.Duration > 0 && g.cfg.Role.Measures() {
		g.closeAt.Store(win.OpenAt + int64(win.Duration))
	}
	g.openAt.Store(win.OpenAt)
	half := &result.Half{Direction: g.cfg.Direction, Role: g.cfg.Role, Streams: make([]result.HalfStream, len(g.workers))}

	_, err := g.await(ctx, win.OpenAt, win.Cut)
	opening := g.sample(0)
	infos := g.infos(g.infoBuffer())
	opening.TCP = columns(infos)
	cpu := g.threadCPU()
	if g.cfg.Role == plan.Requester {
		// Its workers count by openAt on their own clock.
		clear(opening.Transactions)
		opening.AtNs = max(win.OpenAt, 0)
	}
	if !g.started {
		g.Start()
	}
	if win.Opened != nil {
		win.Opened()
	}
	if win.Live != nil {
		win.Live(opening)
	}
	half.OpenedNs = opening.AtNs
	half.Series = append(half.Series, opening)
	for i := range half.Streams {
		half.Streams[i].InfoStart = infos[i]
	}

	if err == nil {
		err = g.ticks(ctx, win, half)
	}

	closing := g.sample(result.LastTick)
	// From here on the workers are free to end in any way: what they meet is
	// the end of the test, not an error.
	g.stopped.Store(true)
	infos = g.infos(g.infoBuffer())
	closing.TCP = columns(infos)
	switch {
	case err != nil:
	case g.cfg.Role == plan.Requester && win.Duration > 0:
		closing.AtNs = g.closeAt.Load()
	case g.cfg.Role.Measures() && win.Duration == 0:
		closing.AtNs = g.lastEnd()
	}
	half.ClosedNs = closing.AtNs
	half.Series = append(half.Series, closing)
	for i, after := range g.threadCPU() {
		half.Streams[i].InfoEnd = infos[i]
		if before := cpu[i]; before != nil && after != nil {
			used := *after - *before
			half.Streams[i].ThreadCPUNs = &used
		}
	}
	if g.cfg.Role.Measures() && win.Duration == 0 {
		// The other end waits for its last byte's acknowledgement, which may be
		// a delayed one: a FIN carries it now.
		for _, w := range g.workers {
			_ = unix.Shutdown(w.fd, unix.SHUT_WR)
		}
	}
	if win.Live != nil {
		win.Live(closing)
	}
	return half, err
}

// ticks samples the open window at its intervals' edges until it has to close.
func (g *Group) ticks(ctx context.Context, win Window, half *result.Half) error {
	interval, record := win.Interval, true
	if interval == 0 {
		interval, record = progressEvery, false
	}
	scratch := g.infoBuffer()
	for tick := 1; ; tick++ {
		edge := win.OpenAt + int64(tick)*int64(interval)
		if over, err := g.awaitEdge(ctx, min(edge, g.closeAt.Load()), win); over || err != nil {
			return err
		}
		s := g.sample(tick)
		if record {
			s.TCP = columns(g.infos(scratch))
		}
		// A late tick makes one longer interval, never an invented one.
		if late := int((s.AtNs - edge) / int64(interval)); late > 0 {
			tick += late
			s.Tick = tick
		}
		if record {
			half.Series = append(half.Series, s)
		}
		if win.Live != nil {
			win.Live(s)
		}
	}
}

// awaitEdge waits until the edge of an interval, or until the window is over.
func (g *Group) awaitEdge(ctx context.Context, edge int64, win Window) (over bool, err error) {
	switch {
	case !g.cfg.Role.Measures():
		over, err = g.await(ctx, edge, win.Closed)
		if over && win.Duration == 0 {
			// The other end has every byte; the snapshot waits for their
			// acknowledgement, so that retransmits of the tail count.
			g.awaitDrained(ctx)
		}
		return over, err
	case win.Duration == 0:
		return g.await(ctx, edge, g.ended, win.Cut)
	}
	over, err = g.await(ctx, edge, win.Cut)
	if over {
		g.closeAt.Store(sys.Monotonic()) // a requester counts by it
	}
	return over || edge >= g.closeAt.Load(), err
}

// await waits until the monotonic time t, until one of over is closed, until a
// worker fails or until the context ends, and reports whether it was the second.
func (g *Group) await(ctx context.Context, t int64, over ...<-chan struct{}) (bool, error) {
	var one, two <-chan struct{}
	one = over[0]
	if len(over) > 1 {
		two = over[1]
	}
	timer := time.NewTimer(time.Duration(t - sys.Monotonic()))
	defer timer.Stop()
	select {
	case <-one:
		return true, g.err() // workers end by their limits, or by failing
	case <-two:
		return true, nil
	case <-g.failed:
		return false, g.err()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-timer.C:
		return false, nil
	}
}

// awaitDrained waits until every stream's send queue is empty, at most
// drainWait.
func (g *Group) awaitDrained(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	for _, w := range g.workers {
		awaitEmpty(ctx, w.fd)
	}
}

// awaitEmpty waits until all that was sent on fd is acknowledged (SIOCOUTQ, see
// tcp(7)) or the context ends. The kernel tells nobody when that happens, so it
// has to be asked.
func awaitEmpty(ctx context.Context, fd int) {
	for ctx.Err() == nil {
		if n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err != nil || n == 0 {
			return
		}
		time.Sleep(drainPoll)
	}
}

// lastEnd is when the last worker ended, monotonic ns.
func (g *Group) lastEnd() int64 {
	var last int64
	for _, w := range g.workers {
		<-w.done
		last = max(last, w.endedAt)
	}
	return last
}

// threadCPU reads the CPU time of each worker's thread so far, ns; nil where it
// can't be read.
func (g *Group) threadCPU() []*int64 {
	readings := make([]*int64, len(g.workers))
	for i, w := range g.workers {
		select {
		case <-w.done:
			readings[i] = &w.endedCPU
		default:
			if ns, err := sys.ThreadCPU(w.tid); err == nil {
				readings[i] = &ns
			}
		}
	}
	return readings
}

// Finish closes the group, if it isn't, and completes the half with what the
// workers alone know. A requester's count is final only now: the sampler may
// have looked while a worker was between completing a transaction and saying so.
func (g *Group) Finish(half *result.Half) error {
	g.Close()
	closing := &half.Series[len(half.Series)-1]
	for i, w := range g.workers {
		s := &half.Streams[i]
		s.ID, s.CPUs, s.Local, s.Remote = w.id, w.cpus, w.local.String(), w.peer.String()
		if w.err != nil {
			s.Error = w.err.Error()
		}
		if w.latency == nil {
			continue
		}
		closing.Transactions[i] = w.transactions.Load()
		var err error
		if s.Latency, err = stats.EncodeHistogram(w.latency); err != nil {
			return err
		}
	}
	return nil
}
