package flow

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gperf/plan"
	"gperf/result"
	"gperf/splice"
)

// movers are how a stream's bytes move. Nil is the plain way, by send and recv.
type movers struct {
	sender   splice.Sender
	receiver splice.Receiver
	chunk    int  // most bytes per send
	verify   bool // the payload is the pattern, and the receiver checks it
	period   int  // of the payload in the worker's buffer, if it's the pattern
	closers  []io.Closer
	moved    moverReading // at the window's opening
	// copying is set when the kernel refused the mover's way with this socket, and
	// the stream goes on by copying.
	copying atomic.Bool
}

// moves reports whether the stream has a mover and uses it.
func (s *stream) moves() bool { return !s.copying.Load() && (s.sender != nil || s.receiver != nil) }

// Moving says how a group's bulk streams move their bytes.
type Moving struct {
	Send, Receive string // of plan's movers; empty: write, read
	PipeSize      int    // bytes; 0: the kernel's default
	Flags         splice.Flags
	Chunk         int // most bytes per send; 0: no bound
	More, Verify  bool
	Payload       []byte   // what the send buffers are filled with, again and again; nil: zeros
	File, Sink    *os.File // source of sendfile, sink of splice; nil: own
}

// equip gives a bulk stream its movers.
func (s *stream) equip(m *Moving) error {
	if m.Chunk > 0 {
		s.chunk = m.Chunk
	}
	if m.More {
		s.more = unix.MSG_MORE
	}
	s.verify = m.Verify
	var err error
	switch s.group.cfg.Role {
	case plan.Sender:
		if m.Verify {
			s.period = splice.PatternPeriod
		}
		s.sender, err = s.newSender(m)
	case plan.Receiver:
		s.receiver, err = s.newReceiver(m)
	case plan.Requester, plan.Responder:
	}
	if err != nil {
		return fmt.Errorf("stream %d: %w", s.id, err)
	}
	if s.group.polled && (s.sender != nil || s.receiver != nil) {
		// splice(2) and sendfile(2) have no flag for "don't wait".
		return os.NewSyscallError("fcntl", unix.SetNonblock(s.fd, true))
	}
	return nil
}

func (s *stream) newSender(m *Moving) (splice.Sender, error) {
	if m.Send == "" || m.Send == plan.Write {
		return nil, nil
	}
	content := []byte{0}
	if m.Verify {
		content = splice.Pattern()
	}
	if m.Send == plan.Splice {
		standing, err := s.worker.standingPipe(m.PipeSize, content)
		if err != nil {
			return nil, err
		}
		tee, err := splice.NewTee(standing, m.Flags)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, tee)
		return tee, nil
	}
	if m.Send == plan.Sendfile && m.File != nil {
		return splice.NewSendfile(m.File)
	}
	payload, err := s.worker.pages(content, min(s.chunk, s.group.cfg.SendSize))
	if err != nil {
		return nil, err
	}
	switch m.Send {
	case plan.Sendfile:
		return splice.NewSendfile(payload.File())
	case plan.Vmsplice:
		v, err := splice.NewVmsplice(m.PipeSize, payload, m.Flags)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, v)
		return v, nil
	case plan.Zerocopy:
		return splice.NewZerocopy(payload, s.fd)
	}
	return nil, fmt.Errorf("unknown mover %q", m.Send)
}

// standingPipe is the pipe from which the worker's streams tee, made for the
// first of them. One with wide slots makes the fewest calls; without a loopback
// device it can't be made, and one of pages serves.
func (w *worker) standingPipe(size int, content []byte) (*splice.Standing, error) {
	if w.standing != nil {
		return w.standing, nil
	}
	var limit *splice.LimitError
	standing, err := splice.NewWideStanding(size, content)
	if err != nil && !errors.As(err, &limit) {
		standing, err = splice.NewStanding(size, content)
	}
	if err != nil {
		return nil, err
	}
	w.standing, w.closers = standing, append(w.closers, standing)
	return standing, nil
}

// pages are what the worker's streams send of without copying, made for the first
// of them.
func (w *worker) pages(content []byte, size int) (*splice.Payload, error) {
	if w.payload != nil {
		return w.payload, nil
	}
	payload, err := splice.NewPayload(content, size)
	if err != nil {
		return nil, err
	}
	w.payload, w.closers = payload, append(w.closers, payload)
	return payload, nil
}

func (s *stream) newReceiver(m *Moving) (splice.Receiver, error) {
	var (
		r   splice.Receiver
		err error
	)
	switch m.Receive {
	case "", plan.Read:
		return nil, nil
	case plan.Discard:
		r = splice.NewDiscard()
	case plan.Splice:
		r, err = splice.NewSink(m.PipeSize, m.Sink, m.Flags)
	case plan.Zerocopy:
		r, err = splice.NewMapped(s.fd, s.group.cfg.ReceiveSize)
	default:
		err = fmt.Errorf("unknown mover %q", m.Receive)
	}
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, r)
	return r, nil
}

// payload is what the next message of n bytes sends. With verify it shows the
// position in the stream.
func (s *stream) payload(n int) []byte {
	at := 0
	if s.period > 0 {
		at = int(s.sent.Load() % uint64(s.period))
	}
	return s.worker.send[at : at+n]
}

// moveRest is sendRest by the stream's mover.
func (s *stream) moveRest(flags int) outcome {
	asked := min(s.left, s.chunk)
	n, handled, errno := s.sender.Send(s.fd, asked, flags|s.more)
	switch {
	case !handled:
		s.copying.Store(true) // nothing was moved
		return blocked
	case errno == unix.EAGAIN && flags&unix.MSG_DONTWAIT != 0:
		return blocked
	case errno != 0:
		return s.interrupted(s.sender.Op(), errno)
	}
	s.sentOnce(n, asked)
	return progress
}

// moveInto is receiveInto by the stream's mover.
func (s *stream) moveInto(asked, flags int) (int, outcome) {
	n, handled, errno := s.receiver.Receive(s.fd, asked, flags)
	switch {
	case !handled:
		s.copying.Store(true)
		return 0, blocked
	case errno == unix.EAGAIN && flags&unix.MSG_DONTWAIT != 0:
		return 0, blocked
	case errno != 0:
		return 0, s.interrupted(s.receiver.Op(), errno)
	}
	if s.verify {
		if m, ok := s.receiver.(*splice.Mapped); ok && !s.intact(m.Last()) {
			return 0, ended
		}
	}
	if n > 0 {
		s.countReceive(n)
	}
	return n, progress
}

// intact checks what came next of the stream against the pattern, and fails the
// stream at the first byte that is wrong.
func (s *stream) intact(p []byte) bool {
	position := s.received.Load()
	if at := splice.CheckPattern(p, position); at >= 0 {
		s.fail(wrong{fmt.Errorf("stream %d: the payload is wrong at byte %d of the stream", s.id, position+uint64(at))})
		return false
	}
	return true
}

// ErrPayload is matched by errors about a receiver that checked its bytes and
// found a wrong one.
var ErrPayload = errors.New("wrong payload")

// wrong makes an error match ErrPayload and leaves its words alone.
type wrong struct{ error }

func (e wrong) Is(target error) bool { return target == ErrPayload }
func (e wrong) Unwrap() error        { return e.error }

// mover is the stream's own one, nil when it has none.
func (s *stream) mover() splice.Mover {
	switch {
	case s.sender != nil:
		return s.sender
	case s.receiver != nil:
		return s.receiver
	}
	return nil
}

// A moverReading is what a mover has done so far.
type moverReading struct {
	stats splice.Stats
	sizes splice.Sizes
}

func readMover(m splice.Mover) (r moverReading) {
	if m != nil {
		r.stats = m.Stats()
		m.Sizes(&r.sizes)
	}
	return r
}

// moverUse is what the stream's mover did since its window opened.
func (s *stream) moverUse() *result.Mover {
	m := s.mover()
	use := &result.Mover{Name: s.group.moverName(), FellBack: s.copying.Load()}
	if m == nil {
		return use
	}
	now := readMover(m)
	stats := now.stats.Sub(s.moved.stats)
	now.sizes.Sub(&s.moved.sizes)
	use.Calls, use.Bytes, use.ShortMoves = &stats.Calls, &stats.Bytes, &stats.Short
	use.Fallbacks, use.CopiedBytes = &stats.Fallbacks, &stats.CopiedBytes
	if pipe := m.Pipe(); pipe != nil {
		size := pipe.Size()
		use.PipeSize = &size
	}
	if stats.Completions > 0 {
		use.Completions, use.CopiedCompletions = &stats.Completions, &stats.CopiedCompletions
	}
	if stats.Calls > 0 {
		mean := float64(stats.Bytes) / float64(stats.Calls)
		p50, most := now.sizes.Quantile(0.5), now.sizes.Quantile(1)
		use.MeanBytes, use.P50Bytes, use.MaxBytes = &mean, &p50, &most
	}
	return use
}

// moverName is the mover that the group was asked to use.
func (g *Group) moverName() string {
	switch m := g.cfg.Moving; {
	case g.cfg.Role == plan.Sender && m.Send != "":
		return m.Send
	case g.cfg.Role == plan.Receiver && m.Receive != "":
		return m.Receive
	case g.cfg.Role == plan.Sender:
		return plan.Write
	}
	return plan.Read
}

// drainZerocopy bounds the wait for the kernel's last reports of MSG_ZEROCOPY.
const drainZerocopy = 100 * time.Millisecond

// finishMoves is for the worker's thread to call after its loops: only the
// mover's owner may ask for the last reports.
func (s *stream) finishMoves() {
	if z, ok := s.sender.(*splice.Zerocopy); ok {
		z.Drain(drainZerocopy)
	}
}

// closeMovers gives back what the movers own, after their last move. A sink may
// find only now that its file can't take the rest.
func (s *stream) closeMovers() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		if err := s.closers[i].Close(); err != nil && s.err == nil {
			s.err = fmt.Errorf("stream %d: %w", s.id, err)
		}
	}
}

// Pipes are the sizes in bytes that the kernel reports now of the pipes of the
// streams' movers, in order; -1 for a stream without one.
func (g *Group) pipes() []int {
	sizes := make([]int, len(g.streams))
	for i, s := range g.streams {
		sizes[i] = -1
		if m := s.mover(); m != nil && m.Pipe() != nil {
			if size, err := m.Pipe().Reported(); err == nil {
				sizes[i] = size
			}
		}
	}
	return sizes
}

// queued adds to a sample's columns what lies in the streams' pipes, if they have
// some.
func (g *Group) queued(columns map[string][]uint64) {
	column := make([]uint64, len(g.streams))
	for i, s := range g.streams {
		m := s.mover()
		if m == nil || m.Pipe() == nil {
			return
		}
		n, err := m.Pipe().Queued()
		if err != nil {
			return
		}
		column[i] = uint64(n)
	}
	columns[result.PipeQueued] = column
}
