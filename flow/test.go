package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/splice"
)

// A Link is how the two ends' clockworks talk to each other, and to whoever
// watches this one. Its functions must not block for long.
type Link struct {
	// Closed tells the other end that this end has its last sample of d.
	Closed func(d plan.Direction) error
	// PeerClosed is closed when the other end has said so.
	PeerClosed func(d plan.Direction) <-chan struct{}
	// Live receives samples while the windows are open.
	Live func(d plan.Direction, s result.Sample)
	// Cut asks this end to close its windows before their time.
	Cut <-chan struct{}
	// Silent is how long nothing has been heard of the other end.
	Silent func() time.Duration
	// Begin is called when this end begins. It tells the other end.
	Begin func() error
	// Began is closed when the other end has begun: the windows of the roles
	// that measure don't open before. A pure sender doesn't wait for it, or the
	// receiver's window would open on silence.
	Began <-chan struct{}
	// Edge is called just before the first window opens and when the last has
	// closed: the moments for readings of the whole machine.
	Edge func()
}

// A Test is one end of a test: a Group for each direction.
type Test struct {
	plan   *plan.Test
	end    sockopt.End
	groups []*Group
	fds    []int
	// AtStart and AtEnd are the knobs as the sockets reported them at the
	// window's edges, by stream; nil until then.
	AtStart, AtEnd []sockopt.Readings
}

// Files are what an end's movers read from and write to, if not memory and the
// null device. They stay their owner's.
type Files struct{ Source, Sink *os.File }

// Connections is where the streams of a connection test get theirs: the
// requester's from a Dialer, the responder's from an Acceptor.
type Connections struct {
	Dialer   *Dialer
	Acceptor Acceptor
}

// MaxBlocking is how many streams of one direction the blocking engine takes
// unless the plan asks for the epoll engine: beyond that, threads cost more than
// they gain.
const MaxBlocking = 32

// Streams is how many data connections the plan asks for.
func Streams(t *plan.Test) int { return t.Streams * len(t.Directions()) }

// NewTest prepares end's side of the plan on the connected sockets, one for
// each stream, of which it takes over the ownership.
func NewTest(t *plan.Test, end sockopt.End, sockets []Socket, files Files, connections Connections) (*Test, error) {
	slices.SortFunc(sockets, func(a, b Socket) int { return cmp.Compare(a.Stream, b.Stream) })
	own := t.End(end)
	x := &Test{plan: t, end: end}
	flags, err := splice.ParseFlags(own.SpliceFlags)
	if err != nil {
		closeSockets(sockets)
		return nil, err
	}
	threads := own.Threads
	if threads == 0 && t.Streams > MaxBlocking && t.Type.Carrier() == plan.Connection {
		threads = cmp.Or(len(own.CPUs), runtime.NumCPU())
	}
	for i, d := range t.Directions() {
		cfg := Config{
			Direction: d, Role: d.Role(end), Carrier: t.Type.Carrier(),
			SendSize: own.SendSize, ReceiveSize: own.ReceiveSize,
			RequestSize: t.RequestSize, ResponseSize: t.ResponseSize, Burst: t.Burst,
			Moving: Moving{
				Send: own.Send, Receive: own.Receive, PipeSize: own.PipeSize, Flags: flags, Chunk: own.Chunk,
				More: own.More, Verify: t.Verify, File: files.Source, Sink: files.Sink,
			},
			Rate: own.Rate, Threads: threads, CPUs: own.CPUs,
			ResponseTimeout: time.Duration(t.ResponseTimeout), Dialer: connections.Dialer, Acceptor: connections.Acceptor,
		}
		// A responder serves for as long as it's asked.
		if t.Limited() && cfg.Role != plan.Responder {
			for s := range t.Streams {
				cfg.Limits = append(cfg.Limits, uint64(t.Limit(s)))
			}
		}
		g, err := NewGroup(cfg, sockets[i*t.Streams:(i+1)*t.Streams])
		if err != nil {
			x.Close()
			closeSockets(sockets[(i+1)*t.Streams:])
			return nil, err
		}
		x.groups = append(x.groups, g)
	}
	for _, s := range sockets {
		x.fds = append(x.fds, s.FD)
	}
	return x, nil
}

// Threads are the ids of all worker threads, direction by direction; valid until
// the sockets are closed.
func (x *Test) Threads() [][]int {
	all := make([][]int, len(x.groups))
	for i, g := range x.groups {
		all[i] = g.Threads()
	}
	return all
}

// Pipes are the sizes in bytes that the kernel reports now of the pipes of the
// streams' movers, in the order of the streams; -1 for a stream without one.
func (x *Test) Pipes() []int {
	var all []int
	for _, g := range x.groups {
		all = append(all, g.pipes()...)
	}
	return all
}

// Close ends the test at once and closes the sockets.
func (x *Test) Close() {
	for _, g := range x.groups {
		g.Close()
	}
}

// Run measures every direction, from now to the moment when both ends have
// their last samples, and closes the sockets of the directions that this end
// receives: a receiver's reset empties the sender's queue. The halves hold what
// was measured also when the error isn't nil.
func (x *Test) Run(ctx context.Context, link Link) ([]result.Half, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go x.watch(ctx, cancel, link)
	var (
		halves = make([]result.Half, len(x.groups))
		errs   = make([]error, len(x.groups))
		open   sync.WaitGroup
		begin  = sync.OnceValue(link.Begin)
		edge   = sync.OnceFunc(func() {
			link.Edge()
			x.AtStart = x.readings()
		})
	)
	x.AtEnd = make([]sockopt.Readings, len(x.fds))
	for i, g := range x.groups {
		d := g.cfg.Direction
		open.Go(func() {
			half, err := g.Measure(ctx, Window{
				Warmup: time.Duration(x.plan.Warmup), Duration: time.Duration(x.plan.Duration), Interval: time.Duration(x.plan.Interval),
				Opening: edge, Begin: begin, Began: link.Began, Closed: link.PeerClosed(d), Cut: link.Cut,
				Live: func(s result.Sample) { link.Live(d, s) },
			})
			// Before the other end may close: a reset connection reads otherwise.
			for k := i * x.plan.Streams; k < (i+1)*x.plan.Streams; k++ {
				x.AtEnd[k] = x.read(x.fds[k])
			}
			if err == nil {
				err = link.Closed(d)
			}
			if err != nil {
				cancel(err) // the other directions end too
			}
			halves[i], errs[i] = *half, err
		})
	}
	open.Wait()
	link.Edge()
	if err := firstError(errs); err != nil {
		return halves, err
	}
	for _, g := range x.groups {
		select {
		case <-link.PeerClosed(g.cfg.Direction):
		case <-ctx.Done():
			return halves, context.Cause(ctx)
		}
		if g.cfg.Role.Measures() {
			g.Close()
		}
	}
	return halves, nil
}

// AwaitAcked waits until what has been sent on the sockets (the preambles) is
// acknowledged, so that it isn't counted as acknowledged inside the window; at
// most ackWait, since the other end may delay an acknowledgement.
func AwaitAcked(ctx context.Context, sockets []Socket) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	for _, s := range sockets {
		awaitEmpty(ctx, s.FD)
	}
}

const ackWait = 250 * time.Millisecond

// Grace is how long after the end of a timed test the other end's word is
// awaited, and how long an end may be silent while nothing moves. It's part of
// the protocol: both ends give up by it.
const Grace = 5 * time.Second

// ErrSilent is a test that outlived its time because the other end said nothing.
var ErrSilent = errors.New("the other end is silent")

// watch ends the test when it has outlived its time, or when the other end has
// been silent while no data moved. Silence alone ends nothing: heartbeats can be
// stuck behind data on a slow link.
func (x *Test) watch(ctx context.Context, cancel context.CancelCauseFunc, link Link) {
	const often = 250 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	deadline := int64(never)
	if !x.plan.Limited() {
		deadline = sys.Monotonic() + int64(x.plan.Warmup) + int64(x.plan.Duration) + int64(Grace)
	}
	moved, movedAt := uint64(0), sys.Monotonic()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := sys.Monotonic()
		if m := x.moved(); m != moved {
			moved, movedAt = m, now
		}
		switch {
		case now > deadline:
			cancel(fmt.Errorf("%w: no word %v after the end of the test", ErrSilent, Grace))
		case link.Silent() > Grace && time.Duration(now-movedAt) > Grace:
			cancel(fmt.Errorf("%w: no word and no data for %v", ErrSilent, Grace))
		}
	}
}

// moved is what grows when this end's workers move something: bytes, and
// transactions, for some have none.
func (x *Test) moved() (n uint64) {
	for _, g := range x.groups {
		for _, s := range g.streams {
			n += s.sent.Load() + s.received.Load() + s.transactions.Load()
		}
	}
	return n
}

// Finish closes all sockets and completes the halves that Run returned.
func (x *Test) Finish(halves []result.Half) error {
	for i, g := range x.groups {
		if err := g.Finish(&halves[i]); err != nil {
			return fmt.Errorf("finish %s: %w", g.cfg.Direction, err)
		}
	}
	return nil
}

func (x *Test) readings() []sockopt.Readings {
	all := make([]sockopt.Readings, len(x.fds))
	for i, fd := range x.fds {
		all[i] = x.read(fd)
	}
	return all
}

func (x *Test) read(fd int) sockopt.Readings { return x.plan.End(x.end).Knobs.Read(fd, x.end) }

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
