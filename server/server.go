// Package server is the passive side: it listens, lets connections tell what
// they are, admits tests within its limits, and runs its end of each. It serves
// any number of clients at once; nothing of one test is seen in another.
//
// It knows no command line: cmd/gperf fills in a Config. Other protocols than
// gperf's own are added with Config.Protocols.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gperf/control"
	"gperf/internal/sys"
	"gperf/plan"
)

// A Protocol is another way of talking to the server than gperf's own.
type Protocol interface {
	// Match says whether a connection that begins with first speaks it. It's
	// asked again, with more, while it answers control.More.
	Match(first []byte) control.Match
	// Serve runs one connection to its end, which it also is to find when ctx
	// ends. It runs on a goroutine of its own.
	Serve(ctx context.Context, v *Visit)
}

// A Visit is a connection that a Protocol has recognised, and what the server lets
// it do.
type Visit struct {
	FD     int // the Protocol's, of which nothing has been read yet
	Peer   netip.AddrPort
	Log    *slog.Logger
	Limits Limits
	Ports  PortRange // for data sockets
	server *Server
	tested bool // a test was admitted
}

// Admit counts a test among those that the server runs, until leave is called.
// The error is why it may not run. others is how many other tests the server has
// run at some time of it.
func (v *Visit) Admit() (leave func(), others func() int, err error) {
	s := v.server
	t := randomToken()
	number, running, err := s.admit(t, nil)
	if err != nil {
		return nil, nil, err
	}
	v.tested = true
	return func() { s.dismiss(t) }, func() int { return s.others(number, running) }, nil
}

// guest lets a Protocol's connections in.
type guest struct {
	*Server
	Protocol
}

func (g guest) Serve(fd int, peer netip.AddrPort) {
	g.sessions.Go(func() {
		v := &Visit{
			FD: fd, Peer: peer, Log: g.log.With("peer", peer), Limits: g.cfg.Limits, Ports: g.cfg.DataPorts, server: g.Server,
		}
		g.Protocol.Serve(g.ctx, v)
		if v.tested && g.cfg.Once {
			g.shut()
		}
	})
}

// admit puts a test on the server's list: x is its session, nil for other
// protocols'. It returns the test's number and how many were running.
func (s *Server) admit(t token, x *session) (number uint64, running int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if running = len(s.tests); running >= s.cfg.Limits.Tests {
		return 0, 0, fmt.Errorf("%d tests are running, this server's limit", running)
	}
	s.tests[t] = x
	s.begun++
	return s.begun, running, nil
}

// dismiss takes a test off the list.
func (s *Server) dismiss(t token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tests, t)
}

// others is how many tests the server has run at some time of one that was
// admitted as number while others were running.
func (s *Server) others(number uint64, running int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return running + int(s.begun-number)
}

// Limits bound what clients may ask for. Zero fields take DefaultLimits'.
type Limits struct {
	Streams  int           // per test
	Duration time.Duration // warm-up and window, or the life of a test that ends by a count
	Tests    int           // at once
	Memory   int64         // bytes of buffers per test
	Waiting  int           // connections that have not said what they are
	Patience time.Duration // how long such a connection may wait, and a client dawdle
}

// DefaultLimits are a server's limits unless told otherwise.
var DefaultLimits = Limits{
	Streams: plan.MaxStreams, Duration: 24 * time.Hour, Tests: 64, Memory: 4 << 30,
	Waiting: 1024, Patience: 10 * time.Second,
}

// Config says how a Server serves.
type Config struct {
	// Listen are the addresses: HOST:PORT, :PORT or HOST. Empty: every address,
	// port control.Port.
	Listen []string
	// Listeners are listening sockets, as Listen makes them, that the server takes
	// over. If not nil, an empty Listen means none.
	Listeners []int
	DataPorts PortRange      // of tests that need a listener of their own
	Secret    []byte         // nil: open to everyone
	Allow     []netip.Prefix // client networks; empty: all
	Limits    Limits
	Protocols []Protocol // others than gperf's own
	Once      bool       // serve one test, then end; a refused one is none
	Program   string     // how it calls itself: "gperf 1.2.3"
	Log       *slog.Logger
}

// A Server is a server that listens.
type Server struct {
	cfg   Config
	log   *slog.Logger
	door  *door
	addrs []netip.AddrPort

	ctx      context.Context // of the sessions; set by Serve
	shut     func()          // closes the door
	sessions sync.WaitGroup
	expected atomic.Int64 // data connections of admitted tests that have yet to come

	mu    sync.Mutex
	tests map[token]*session // from admission to end
	begun uint64             // tests ever admitted
}

// A token ties data connections to their test.
type token = [control.TokenSize]byte

func randomToken() (t token) {
	_, _ = rand.Read(t[:]) // never fails, says its documentation
	return t
}

// New opens the listening sockets. Serve must follow.
func New(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Listen) == 0 && cfg.Listeners == nil {
		cfg.Listen = []string{fmt.Sprintf(":%d", control.Port)}
	}
	setDefaults(&cfg.Limits)
	s := &Server{cfg: cfg, log: cfg.Log, tests: map[token]*session{}}
	var err error
	if s.door, err = newDoor(s.log, s.allowed, s.places, cfg.Limits.Patience); err != nil {
		return nil, err
	}
	s.door.protocols = []taker{native{s}, data{s}}
	for _, p := range cfg.Protocols {
		s.door.protocols = append(s.door.protocols, guest{s, p})
	}
	for _, text := range cfg.Listen {
		addr, err := ParseListen(text, control.Port)
		if err == nil {
			err = s.Open(addr)
		}
		if err != nil {
			s.door.close()
			return nil, err
		}
	}
	for _, fd := range cfg.Listeners {
		if err := s.take(fd); err != nil {
			s.door.close()
			return nil, err
		}
	}
	return s, nil
}

func setDefaults(l *Limits) {
	d := &DefaultLimits
	setDefault(&l.Streams, d.Streams)
	setDefault(&l.Duration, d.Duration)
	setDefault(&l.Tests, d.Tests)
	setDefault(&l.Memory, d.Memory)
	setDefault(&l.Waiting, d.Waiting)
	setDefault(&l.Patience, d.Patience)
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Open opens another address. Before Serve.
func (s *Server) Open(addr netip.AddrPort) error {
	fd, err := Listen(addr)
	if err != nil {
		return err
	}
	return s.take(fd)
}

// take lets connections of a listening socket in.
func (s *Server) take(fd int) error {
	local, _ := sys.Names(fd)
	s.addrs = append(s.addrs, local)
	return s.door.open(fd)
}

// ServeOne serves one connection, which somebody else has accepted, and no other.
func (s *Server) ServeOne(ctx context.Context, fd int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.ctx, s.shut = ctx, func() { cancel(nil) }
	_, peer := sys.Names(fd)
	s.door.enter(fd, peer)
	s.door.last = func() {
		go func() {
			s.sessions.Wait()
			cancel(nil)
		}()
	}
	return s.door.run(ctx)
}

// Addrs are the addresses that the server really listens on.
func (s *Server) Addrs() []netip.AddrPort { return s.addrs }

// ErrShutdown is why a session ends when its server does.
var ErrShutdown = errors.New("the server is shutting down")

// Serve serves until the context ends, or with Config.Once until the first test
// has. It returns when all sessions have ended and their sockets are closed.
func (s *Server) Serve(ctx context.Context) error {
	sessions, end := context.WithCancelCause(context.WithoutCancel(ctx))
	door, shut := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { end(ErrShutdown) })()
	s.ctx, s.shut = sessions, shut
	err := s.door.run(door)
	if err != nil {
		end(err)
	}
	s.sessions.Wait()
	shut()
	end(nil)
	return err
}

// places is how many connections may wait to be told: strangers up to a limit,
// and those that are expected.
func (s *Server) places() int { return s.cfg.Limits.Waiting + int(s.expected.Load()) }

// allowed reports whether clients may come from addr.
func (s *Server) allowed(addr netip.Addr) bool {
	if len(s.cfg.Allow) == 0 {
		return true
	}
	for _, p := range s.cfg.Allow {
		if p.Contains(addr.WithZone("")) {
			return true
		}
	}
	return false
}
