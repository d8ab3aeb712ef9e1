package flow

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// A Window says when a Group is measured.
type Window struct {
	Warmup   time.Duration // from the start of the workers to the opening
	Duration time.Duration // 0: the workers' limits end it
	Interval time.Duration // 0: no intervals
	// Begin is called when this end begins. It tells the other end.
	Begin func() error
	// Began is closed when the other end has begun; only the roles that measure
	// wait for it.
	Began <-chan struct{}
	// Closed is closed when the other end has closed its window; only the roles
	// that don't measure wait for it.
	Closed <-chan struct{}
	// Cut closes the windows of the roles that measure before their time.
	Cut <-chan struct{}
	// Opening is called just before the window opens.
	Opening func()
	// Live receives the samples as they are taken: the opening one, each
	// interval's (or one each progressEvery when there are none), the closing
	// one. It must not block.
	Live func(result.Sample)
	// Own makes the window this end's own business, whatever its role: it opens
	// with the workers and closes by this end's clock or when the streams have
	// ended. It's for peers that speak another protocol than gperf's.
	Own bool
}

// measures reports whether this end's clock, or its streams, close the window.
func (g *Group) measures(win *Window) bool { return g.cfg.Role.Measures() || win.Own }

const (
	progressEvery = 250 * time.Millisecond // of live samples when no intervals were asked for
	// openingLead is how long before the opening of a window that has a warm-up
	// the machine is read, so that the reading doesn't delay the opening.
	openingLead = 20 * time.Millisecond
	// drainWait bounds the wait for the last acknowledgements after the receiver
	// has confirmed the last byte.
	drainWait = time.Second
	drainPoll = 500 * time.Microsecond
)

// Measure starts the workers, opens the window, takes the samples and closes it.
// The half it returns is complete when the error is nil, else it holds what was
// measured until then: the error is the context's cause, or what ended a stream
// early. Without warm-up the window opens before the workers start, so that not
// a byte of theirs is missed.
func (g *Group) Measure(ctx context.Context, win Window) (*result.Half, error) {
	half := &result.Half{
		Direction: g.cfg.Direction, Role: g.cfg.Role, Engine: "blocking", Paced: g.cfg.Rate > 0, Streams: make([]result.HalfStream, len(g.streams)),
	}
	if g.polled {
		half.Engine = "epoll"
	}
	openAt, err := g.begin(ctx, win)
	opening := g.sample(0)
	infos := g.infos(g.infoBuffer())
	opening.TCP = g.tcp(infos)
	cpu := g.threadCPU()
	for _, s := range g.streams {
		s.moved = readMover(s.mover())
	}
	if g.cfg.Role == plan.Requester {
		// Its workers count by openAt on their own clock.
		clear(opening.Transactions)
		opening.AtNs = openAt
	}
	if !g.started {
		g.Start()
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
		err = g.ticks(ctx, win, openAt, half)
	}

	// Whether the streams ended by themselves: once stopped, all do.
	finished := g.allEnded()
	closing := g.sample(result.LastTick)
	// From here on the workers are free to end in any way: what they meet is
	// the end of the test, not an error.
	g.stopped.Store(true)
	infos = g.infos(g.infoBuffer())
	closing.TCP = g.tcp(infos)
	switch {
	case err != nil:
	case g.cfg.Role == plan.Requester && win.Duration > 0:
		closing.AtNs = g.closeAt.Load()
	case g.measures(&win) && (win.Duration == 0 || win.Own) && finished:
		// The last tick may have come between the end and the news of it.
		closing.AtNs = max(g.lastEnd(), half.Series[len(half.Series)-1].AtNs)
	}
	half.ClosedNs = closing.AtNs
	half.Series = append(half.Series, closing)
	for i, s := range g.streams {
		h := &half.Streams[i]
		h.InfoEnd = infos[i]
		if g.cfg.Role == plan.Sender || g.cfg.Role == plan.Receiver {
			h.Mover = s.moverUse()
		}
		if cc, err := sockopt.ReadCCInfo(s.fd); err == nil {
			h.Algorithm, h.CCInfo = cc.Algorithm, cc.Fields
		}
	}
	for i, after := range g.threadCPU() {
		t := result.HalfThread{CPUs: g.workers[i].cpus}
		for _, s := range g.workers[i].streams {
			t.Streams = append(t.Streams, s.id)
		}
		if before := cpu[i]; before != nil && after != nil {
			used := *after - *before
			t.CPUNs = &used
		}
		half.Threads = append(half.Threads, t)
	}
	if g.cfg.Role.Measures() && !win.Own && win.Duration == 0 && finished {
		// The other end waits for its last byte's acknowledgement, which may be
		// a delayed one: a FIN carries it now. (After a cut it would come in the
		// middle of something.)
		for _, s := range g.streams {
			_ = unix.Shutdown(s.fd, unix.SHUT_WR)
		}
	}
	if win.Live != nil {
		win.Live(closing)
	}
	return half, err
}

// begin brings the group to the opening of its window, whose time it returns.
func (g *Group) begin(ctx context.Context, win Window) (openAt int64, err error) {
	if win.Warmup == 0 {
		win.Opening()
	}
	err = win.Begin()
	if err == nil && g.cfg.Role.Measures() && !win.Own {
		_, err = g.await(ctx, never, win.Began, win.Cut)
	}
	openAt = sys.Monotonic() + int64(win.Warmup)
	g.setEdges(openAt, win)
	if win.Warmup > 0 {
		g.Start()
		cut := false
		if err == nil {
			cut, err = g.await(ctx, openAt-int64(openingLead), win.Cut)
		}
		win.Opening()
		if err == nil && !cut {
			cut, err = g.await(ctx, openAt, win.Cut)
		}
		if cut || err != nil { // over before it opened: an empty window
			openAt = sys.Monotonic()
			g.openAt.Store(openAt)
		}
	}
	return openAt, err
}

// setEdges tells a requester's workers the edges of the window.
func (g *Group) setEdges(openAt int64, win Window) {
	if win.Duration > 0 && g.measures(&win) {
		g.closeAt.Store(openAt + int64(win.Duration))
	}
	g.openAt.Store(openAt)
}

// ticks samples the open window at its intervals' edges until it has to close.
func (g *Group) ticks(ctx context.Context, win Window, openAt int64, half *result.Half) error {
	interval, record := win.Interval, true
	if interval == 0 {
		interval, record = progressEvery, false
	}
	scratch := g.infoBuffer()
	step := 1 // ticks from one recorded sample to the next
	for tick := 1; ; tick++ {
		edge := openAt + int64(tick)*int64(interval)
		if over, err := g.awaitEdge(ctx, min(edge, g.closeAt.Load()), win); over || err != nil {
			return err
		}
		s := g.sample(tick)
		if closeAt := g.closeAt.Load(); s.AtNs >= closeAt {
			// So late that the closing sample does.
			if record {
				half.Late += int((closeAt-1-edge)/int64(interval)) + 1
			}
			return nil
		}
		if record {
			s.TCP = g.tcp(g.infos(scratch))
			g.queued(s.TCP)
		}
		// A late tick makes one longer interval, never an invented one.
		if late := int((s.AtNs - edge) / int64(interval)); late > 0 {
			tick += late
			s.Tick = tick
			if record { // nobody sees the others
				half.Late += late
			}
		}
		if record && s.Tick%step == 0 {
			half.Series = append(half.Series, s)
			// A test that ends by a count may take any time; its samples may not
			// take any memory.
			if len(half.Series)*len(g.streams) > plan.MaxSamples {
				step *= 2
				half.Series = result.Thin(half.Series, step)
			}
		}
		if win.Live != nil {
			win.Live(s)
		}
	}
}

// awaitEdge waits until the edge of an interval, or until the window is over.
func (g *Group) awaitEdge(ctx context.Context, edge int64, win Window) (over bool, err error) {
	switch {
	case !g.measures(&win):
		over, err = g.await(ctx, edge, win.Closed)
		if over && err == nil && win.Duration == 0 {
			// The other end has every byte; the snapshot waits for their
			// acknowledgement, so that retransmits of the tail count. What comes
			// and goes by other sockets than the streams' has no such end.
			if g.settled = g.cfg.Carrier != plan.Connection; !g.settled {
				g.awaitDrained(ctx, win.Cut)
			}
		}
		return over, err
	case win.Duration == 0:
		return g.await(ctx, edge, g.ended, win.Cut)
	case win.Own: // whose peer may end the streams
		over, err = g.await(ctx, edge, g.ended, win.Cut)
	default:
		over, err = g.await(ctx, edge, win.Cut)
	}
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

// awaitDrained waits until every stream's send queue is empty and every stream
// has ended, at most drainWait. A stream ends by its own limit, or a responder's
// by the requester's FIN; until it has, a send whose bytes the other end already
// counts may not have returned here. After a cut, streams don't end by themselves
// and the other end reads no more: there is nothing to wait for.
func (g *Group) awaitDrained(ctx context.Context, cut <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	go func() {
		select {
		case <-cut: // the news of it may come after that of the other end's close
			cancel()
		case <-ctx.Done():
		}
	}()
	for _, s := range g.streams {
		awaitEmpty(ctx, s.fd)
	}
	select {
	case <-g.ended:
	case <-ctx.Done():
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

// allEnded reports whether every stream has ended.
func (g *Group) allEnded() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// lastEnd is when the last stream ended, monotonic ns. All have.
func (g *Group) lastEnd() int64 {
	var last int64
	for _, s := range g.streams {
		last = max(last, s.endedAt)
	}
	return last
}

// threadCPU reads the CPU time of each worker's thread so far, ns; nil where it
// can't be read.
func (g *Group) threadCPU() []*int64 {
	readings := make([]*int64, len(g.workers))
	for i, w := range g.workers {
		if ns, err := sys.ThreadCPU(w.tid); err == nil {
			readings[i] = &ns
		}
	}
	return readings
}

// Threads are the ids of the workers' threads, valid until Close.
func (g *Group) Threads() []int {
	tids := make([]int, len(g.workers))
	for i, w := range g.workers {
		tids[i] = w.tid
	}
	return tids
}

// Finish closes the group, if it isn't, and completes the half with what the
// workers alone know. A requester's counts are final only now: the sampler may
// have looked while a worker was between completing a transaction, or failing to
// connect, and saying so. So is every count of an end that has settled.
func (g *Group) Finish(half *result.Half) error {
	g.Close()
	closing := &half.Series[len(half.Series)-1]
	for i, s := range g.streams {
		h := &half.Streams[i]
		h.ID, h.Local, h.Remote = s.id, s.local.String(), s.peer.String()
		if s.err != nil {
			h.Error = s.err.Error()
		}
		if g.role.latency || g.settled {
			closing.Transactions[i] = s.transactions.Load()
		}
		if g.settled {
			closing.Sent[i], closing.Received[i] = s.sent.Load(), s.received.Load()
			closing.SendCalls[i], closing.ReceiveCalls[i] = s.sendCalls.Load(), s.receiveCalls.Load()
		}
		h.ConnectErrors = s.connectErrors
		if failed := closing.TCP[result.ConnectErrors]; failed != nil {
			failed[i] = s.errors.Load()
		}
	}
	for i, w := range g.workers {
		for _, h := range []struct {
			from *hdrhistogram.Histogram
			to   *string
		}{{w.latency, &half.Threads[i].Latency}, {w.connects, &half.Threads[i].Connects}} {
			if h.from == nil {
				continue
			}
			var err error
			if *h.to, err = stats.EncodeHistogram(h.from); err != nil {
				return err
			}
		}
	}
	return nil
}
