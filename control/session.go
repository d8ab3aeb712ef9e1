package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gperf/internal/sys"
	"gperf/plan"
)

// HeartbeatEvery is how often each side says that it's there.
const HeartbeatEvery = time.Second

// ErrLost is a control connection that ended while a test was under way.
var ErrLost = errors.New("control connection lost")

// A Message is one that a Session has received and not handled itself.
type Message struct {
	Type Type
	Body json.RawMessage
}

// A Session is a control connection in use by either end: it reads in the
// background, says heartbeats, and sorts what comes in. Its methods may be
// called by several goroutines.
type Session struct {
	*Conn
	onSample func(Sample)

	inbox chan Message
	begun chan struct{} // closed when the peer has begun
	stop  chan struct{} // closed when the peer asks for an early end
	lost  chan struct{} // closed when nothing more will come
	err   error         // why; written before lost is closed
	heard atomic.Int64  // monotonic ns of the last message

	closed map[plan.Direction]chan struct{}
	live   chan Sample
	news   chan struct{} // says that live isn't empty

	flushing sync.Mutex    // held by who takes from live to send
	quit     chan struct{} // ends the background senders
	once     sync.Once
}

const (
	// inboxSize bounds what a peer may send ahead; beyond it TCP holds it back.
	inboxSize = 16
	// liveSize bounds the samples that wait to be sent. One that finds no room
	// is dropped, which only makes two intervals one: counters are totals.
	liveSize = 64
)

// NewSession starts a session over conn. onSample, if any, receives the peer's
// samples in order; it must not block.
func NewSession(conn *Conn, onSample func(Sample)) *Session {
	s := &Session{
		Conn: conn, onSample: onSample,
		inbox: make(chan Message, inboxSize), begun: make(chan struct{}), stop: make(chan struct{}), lost: make(chan struct{}),
		closed: map[plan.Direction]chan struct{}{},
		live:   make(chan Sample, liveSize), news: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	for _, d := range []plan.Direction{plan.ClientToServer, plan.ServerToClient, plan.Both} {
		s.closed[d] = make(chan struct{})
	}
	s.heard.Store(sys.Monotonic())
	go s.read()
	go s.say()
	return s
}

// End ends the background senders. The reader ends when the caller closes the
// stream.
func (s *Session) End() { s.once.Do(func() { close(s.quit) }) }

// read sorts incoming messages until the connection ends.
func (s *Session) read() {
	s.err = s.readAll()
	close(s.lost)
}

func (s *Session) readAll() error {
	for {
		t, body, err := s.Receive()
		if err != nil {
			return lostBecause(err)
		}
		s.heard.Store(sys.Monotonic())
		switch t {
		case TypeHeartbeat:
		case TypeError:
			return ParseError(body)
		case TypeStarted:
			closeOnce(s.begun)
		case TypeStop:
			closeOnce(s.stop)
		case TypeSample:
			var sample Sample
			if err := Unmarshal(t, body, &sample); err != nil {
				return err
			}
			if s.onSample != nil {
				s.onSample(sample)
			}
		case TypeClosed:
			var c Closed
			if err := Unmarshal(t, body, &c); err != nil {
				return err
			}
			done, ok := s.closed[c.Direction]
			if !ok {
				return fmt.Errorf("control: closed: unknown direction %q", c.Direction)
			}
			select {
			case <-done:
				return fmt.Errorf("control: direction %s closed twice", c.Direction)
			default:
				close(done)
			}
		default:
			// The body lies in the Conn's buffer, which the next frame overwrites.
			m := Message{t, append(json.RawMessage(nil), body...)}
			select {
			case s.inbox <- m:
			case <-s.quit:
				return ErrLost
			}
		}
	}
}

// closeOnce closes a channel that only the reader closes, if it's open.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// lostBecause says in words how the connection ended.
func lostBecause(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: closed by the other end", ErrLost)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: nothing heard in time", ErrLost)
	}
	var foreign *ForeignError
	if errors.As(err, &foreign) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// say sends heartbeats and samples. Errors are the reader's to find.
func (s *Session) say() {
	beat := time.NewTicker(HeartbeatEvery)
	defer beat.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-s.lost:
			return
		case <-beat.C:
			_ = s.Send(TypeHeartbeat, nil)
		case <-s.news:
			_ = s.Flush()
		}
	}
}

// Live has a sample sent when the connection has room, and never blocks.
func (s *Session) Live(sample Sample) {
	select {
	case s.live <- sample:
	default:
		return
	}
	select {
	case s.news <- struct{}{}:
	default: // there is news already
	}
}

// Flush sends the samples that still wait, in order.
func (s *Session) Flush() error {
	s.flushing.Lock() // two senders at once could change the order
	defer s.flushing.Unlock()
	for {
		select {
		case sample := <-s.live:
			if err := s.Send(TypeSample, sample); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// Next returns the next message that the session doesn't handle itself.
func (s *Session) Next(ctx context.Context) (Message, error) {
	select {
	case m := <-s.inbox: // what came before the end comes first
		return m, nil
	default:
	}
	select {
	case m := <-s.inbox:
		return m, nil
	case <-s.lost:
		select {
		case m := <-s.inbox:
			return m, nil
		default:
			return Message{}, s.err
		}
	case <-ctx.Done():
		select {
		case m := <-s.inbox: // the context may have ended because the session has
			return m, nil
		default:
			return Message{}, context.Cause(ctx)
		}
	}
}

// Expect returns the body of the next message, which must be of type t.
func (s *Session) Expect(ctx context.Context, t Type, body any) error {
	m, err := s.Next(ctx)
	switch {
	case err != nil:
		return err
	case m.Type != t:
		return fmt.Errorf("control: expected %s, got %q", t, m.Type)
	case body == nil:
		return nil
	}
	return Unmarshal(t, m.Body, body)
}

// PeerClosed is closed when the peer has its last sample of d.
func (s *Session) PeerClosed(d plan.Direction) <-chan struct{} { return s.closed[d] }

// Begun is closed when the peer has begun.
func (s *Session) Begun() <-chan struct{} { return s.begun }

// Stop is closed when the peer asks for an early end of the windows.
func (s *Session) Stop() <-chan struct{} { return s.stop }

// Lost is closed when nothing more will come; Err says why.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Err is why the session was lost, nil while it isn't.
func (s *Session) Err() error {
	select {
	case <-s.lost:
		return s.err
	default:
		return nil
	}
}

// Silent is how long nothing has been heard.
func (s *Session) Silent() time.Duration { return time.Duration(sys.Monotonic() - s.heard.Load()) }
