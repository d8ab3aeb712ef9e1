// Package flow moves the bytes and keeps the time: the loops of each role, the
// threads that run them, and the clockwork of warm-up, window, intervals and
// stop. It is used by every personality on both ends. It is given connected
// sockets and knows no protocol, no command line and no output.
//
// The blocking engine gives each stream a locked thread that makes raw blocking
// system calls. See the comment at sys.Send for why the sockets must have
// SO_RCVTIMEO and SO_SNDTIMEO set (SetTimeouts).
package flow

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/splice"
	"gperf/stats"
)

// Timeout is what SetTimeouts sets: how long a call may block before it returns
// EAGAIN and the loop looks at its stop flag. It bounds the end of a test, not
// its accuracy: stopping is by shutdown(2), which wakes a blocked call at once.
const Timeout = 200 * time.Millisecond

// SetTimeouts sets SO_RCVTIMEO and SO_SNDTIMEO, see socket(7), the two options
// that gperf sets without being asked. To be called after connect or accept:
// before, they would cut a slow connect short.
func SetTimeouts(fd int) error {
	tv := unix.NsecToTimeval(int64(Timeout))
	for _, opt := range []struct {
		name string
		opt  int
	}{{"SO_RCVTIMEO", unix.SO_RCVTIMEO}, {"SO_SNDTIMEO", unix.SO_SNDTIMEO}} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, opt.opt, &tv); err != nil {
			return fmt.Errorf("setsockopt %s: %w", opt.name, err)
		}
	}
	return nil
}

// Socket is one connected data socket and the number of its stream. The
// descriptor belongs to the Group that it's given to.
type Socket struct{ Stream, FD int }

// Config says what a Group's workers do.
type Config struct {
	Direction                        plan.Direction
	Role                             plan.Role
	Carrier                          plan.Carrier
	SendSize, ReceiveSize            int           // bytes per call; bulk roles
	RequestSize, ResponseSize, Burst int           // request/response roles
	Limits                           []uint64      // of each stream: bytes or transactions; nil: none
	Moving                           Moving        // bulk roles
	Rate                             int64         // bits per second of each stream; senders; 0: unpaced
	Pause                            Pause         // between bursts of operations; zero: none
	ResponseTimeout                  time.Duration // after which a datagram's response is given up; 0: never
	Dialer                           *Dialer       // of a requester that connects for each transaction
	Acceptor                         Acceptor      // of its responder
	Threads                          int           // of the epoll engine; 0: the blocking engine
	CPUs                             []int         // for the threads in turn; nil: unpinned

	// For peers that speak another protocol than gperf's own:

	// UntilEOF makes the peer's end of a stream, or an empty datagram, the end
	// of it and no error.
	UntilEOF bool
	// Plain is set when datagrams carry payload only: no number and no time.
	Plain bool
	// TimeCalls records how long each call of a bulk role took.
	TimeCalls bool
}

// A role is what the loops of one role are made of. A new loop is a new row.
type role struct {
	loop          func(*stream)                   // blocking engine: to the end
	ready         func(*stream) (outcome, uint32) // epoll engine: one turn, and what to await next; nil: it has none
	first         uint32                          // what to await first
	send, receive func(*Config) int               // buffer sizes, bytes
	latency       bool
}

// A task is what a role does with a carrier.
type task struct {
	carrier plan.Carrier
	role    plan.Role
}

var roles = map[task]*role{
	{plan.Connection, plan.Sender}:    {sendLoop, sendReady, unix.EPOLLOUT, payloadBuffer, none, false},
	{plan.Connection, plan.Receiver}:  {receiveLoop, receiveReady, unix.EPOLLIN, none, receiveSize, false},
	{plan.Connection, plan.Requester}: {requestLoop, requestReady, unix.EPOLLOUT, requestSize, burstBuffer, true},
	{plan.Connection, plan.Responder}: {respondLoop, respondReady, unix.EPOLLIN, responseSize, requestSize, false},

	{plan.Connections, plan.Requester}: {connectLoop, nil, 0, greetedRequest, responseBuffer, true},
	{plan.Connections, plan.Responder}: {acceptLoop, nil, 0, responseSize, requestSize, false},

	{plan.Datagrams, plan.Sender}:    {sendDatagrams, nil, 0, payloadBuffer, none, false},
	{plan.Datagrams, plan.Receiver}:  {receiveDatagrams, nil, 0, none, receiveSize, false},
	{plan.Datagrams, plan.Requester}: {requestDatagrams, nil, 0, requestSize, responseBuffer, true},
	{plan.Datagrams, plan.Responder}: {respondDatagrams, nil, 0, responseSize, requestBuffer, false},
}

func none(*Config) int           { return 0 }
func receiveSize(c *Config) int  { return c.ReceiveSize }
func requestSize(c *Config) int  { return c.RequestSize }
func responseSize(c *Config) int { return c.ResponseSize }

// requestBuffer and responseBuffer have room for a byte too many, which tells an
// empty or a wrong message.
func requestBuffer(c *Config) int  { return c.RequestSize + 1 }
func responseBuffer(c *Config) int { return c.ResponseSize + 1 }

// payloadBuffer is the bulk sender's: a message; if the payload shows its
// position, wherever in the pattern a message begins.
func payloadBuffer(c *Config) int {
	if c.Moving.Verify {
		return c.SendSize + splice.PatternPeriod
	}
	return c.SendSize
}

// burstBuffer is the requester's receive buffer: room for all the responses
// that can be there at once, but no more than one needs to read them quickly.
func burstBuffer(c *Config) int {
	const enough = 128 << 10
	return max(c.ResponseSize, min(c.ResponseSize*c.Burst, enough))
}

// A Group is the streams of one direction at one end, with their workers.
type Group struct {
	cfg     Config
	role    *role
	polled  bool // the epoll engine drives it
	streams []*stream
	workers []*worker
	gate    chan struct{} // closed by Start
	closing chan struct{} // closed by Close: the threads may go
	stopped atomic.Bool   // workers look at it once per call
	// openAt and closeAt are the window's edges on the requester's clock, which
	// counts by them itself: monotonic ns. Others' windows are the sampler's.
	openAt, closeAt atomic.Int64

	running atomic.Int64  // streams
	ended   chan struct{} // closed when the last stream has ended
	failed  chan struct{} // closed when the first stream has failed
	fail    sync.Once
	failure error // why it failed; written before failed is closed
	close   sync.Once
	started bool
	settled bool // the other end has said that there's nothing more to do, though the streams go on
}

// never is a monotonic time that doesn't come.
const never = 1<<63 - 1

// NewGroup takes over the sockets and prepares their workers: threads, CPUs,
// buffers. The workers wait for Start. On error the sockets are closed.
func NewGroup(cfg Config, sockets []Socket) (*Group, error) {
	role, ok := roles[task{cfg.Carrier, cfg.Role}]
	if !ok || cfg.Threads > 0 && role.ready == nil {
		closeSockets(sockets)
		return nil, fmt.Errorf("flow: no loop for role %q of carrier %d with %d threads", cfg.Role, cfg.Carrier, cfg.Threads)
	}
	if cfg.Carrier == plan.Connections && cfg.Dialer == nil && cfg.Acceptor == nil {
		closeSockets(sockets)
		return nil, errors.New("flow: a connection test needs a dialer or an acceptor")
	}
	g := &Group{
		cfg: cfg, role: role, polled: cfg.Threads > 0,
		gate: make(chan struct{}), closing: make(chan struct{}), ended: make(chan struct{}), failed: make(chan struct{}),
	}
	g.openAt.Store(never)
	g.closeAt.Store(never)
	g.running.Store(int64(len(sockets)))
	threads := len(sockets)
	if g.polled {
		threads = min(cfg.Threads, threads)
	}
	for range threads {
		g.workers = append(g.workers, &worker{group: g, done: make(chan struct{})})
	}
	for i, socket := range sockets {
		s := g.newStream(i, socket)
		s.worker = g.workers[i%threads]
		s.worker.streams = append(s.worker.streams, s)
		g.streams = append(g.streams, s)
	}
	for _, s := range g.streams {
		if t := g.cfg.ResponseTimeout; t > 0 && t < Timeout {
			sys.SetTimeouts(s.fd, int64(max(t, time.Microsecond))) // 0 would be no time-out
		}
		if err := s.equip(&g.cfg.Moving); err != nil {
			g.closeStreams()
			return nil, err
		}
	}
	if err := g.startThreads(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func closeSockets(sockets []Socket) {
	for _, s := range sockets {
		_ = unix.Close(s.FD)
	}
}

// newStream prepares the ith stream.
func (g *Group) newStream(i int, socket Socket) *stream {
	s := &stream{group: g, id: socket.Stream, fd: socket.FD}
	s.chunk = math.MaxInt
	s.local, s.peer = sys.Names(s.fd) // Close forgets them
	if g.cfg.Limits != nil {
		s.limit = g.cfg.Limits[i]
	}
	s.pacer = pacedTo(g.cfg.Rate, g.cfg.Pause)
	switch g.cfg.Role {
	case plan.Sender:
	case plan.Requester:
		s.need = g.cfg.ResponseSize
		s.began = make([]int64, ringSize(&g.cfg))
	case plan.Responder:
		s.need = g.cfg.RequestSize
	case plan.Receiver:
		if g.cfg.Carrier == plan.Datagrams && !g.cfg.Plain {
			s.seen = new(seen)
		}
	}
	return s
}

// ringSize is how many requests a stream remembers the beginning of.
func ringSize(c *Config) int {
	if c.Carrier == plan.Datagrams {
		return datagramRing(c)
	}
	return c.Burst
}

// startThreads gives each worker its buffers and its thread.
func (g *Group) startThreads() error {
	reserve(len(g.workers))
	var pattern []byte
	if g.cfg.Moving.Verify {
		pattern = splice.Pattern()
	}
	ready := make(chan error, len(g.workers))
	var errs []error
	for i, w := range g.workers {
		if g.role.latency || g.cfg.TimeCalls {
			w.latency = stats.NewHistogram()
		}
		if g.cfg.Dialer != nil {
			w.connects = stats.NewHistogram()
		}
		var err1, err2 error
		w.send, err1 = buffer(g.role.send(&g.cfg))
		w.receive, err2 = buffer(g.role.receive(&g.cfg))
		if p := g.cfg.Moving.Payload; len(p) > 0 && err1 == nil {
			for at := 0; at < len(w.send); at += len(p) {
				copy(w.send[at:], p)
			}
		}
		if g.cfg.Dialer != nil && err1 == nil {
			copy(w.send, g.cfg.Dialer.Greeting)
		}
		if g.cfg.Moving.Verify && err1 == nil {
			for at := 0; at < len(w.send); at += splice.PatternPeriod {
				copy(w.send[at:], pattern)
			}
		}
		errs = append(errs, err1, err2)
		cpu := -1
		if len(g.cfg.CPUs) > 0 {
			cpu = g.cfg.CPUs[i%len(g.cfg.CPUs)]
		}
		go w.run(cpu, ready)
	}
	for range g.workers {
		errs = append(errs, <-ready)
	}
	return errors.Join(errs...)
}

// Start lets the workers go.
func (g *Group) Start() {
	g.started = true
	close(g.gate)
}

// Sample reads the counters of all streams, as a closing sample. Once the streams
// have ended they are final.
func (g *Group) Sample() result.Sample {
	s := g.sample(result.LastTick)
	s.TCP = g.tcp(g.infos(g.infoBuffer()))
	return s
}

// Ended is closed when the last stream has ended: by its limit, by the peer's end
// if that is no error, by failing, or after the window by Timeout at the latest.
func (g *Group) Ended() <-chan struct{} { return g.ended }

// MostOutstanding is how many requests of one stream were under way at once at
// most. Valid once the streams have ended.
func (g *Group) MostOutstanding() (most int) {
	for _, s := range g.streams {
		most = max(most, s.most)
	}
	return most
}

// Paused is how long the streams have slept for their rate or their pauses, in
// all, with a thread for each stream: the epoll engine serves others meanwhile.
// Valid once the streams have ended.
func (g *Group) Paused() (all time.Duration) {
	for _, s := range g.streams {
		all += time.Duration(s.waited)
	}
	return all
}

// streamEnded is called by the stream's worker, once.
func (g *Group) streamEnded(s *stream) {
	if s.err != nil {
		g.fail.Do(func() {
			g.failure = s.err
			close(g.failed)
		})
	}
	if g.running.Add(-1) == 0 {
		close(g.ended)
	}
}

// Close stops the workers, waits for them and closes the sockets. Blocked calls
// are woken by shutdown, never by closing a descriptor under them.
func (g *Group) Close() {
	g.close.Do(func() {
		g.stopped.Store(true)
		close(g.closing)
		if !g.started {
			g.Start()
		}
		for _, s := range g.streams {
			_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // ENOTCONN: the peer was first
		}
		if g.cfg.Acceptor != nil {
			g.cfg.Acceptor.Stop()
		}
		for _, w := range g.workers {
			<-w.done
			for _, b := range [][]byte{w.send, w.receive} {
				if b != nil {
					_ = unix.Munmap(b)
				}
			}
		}
		g.closeStreams()
		release(len(g.workers))
	})
}

// closeStreams closes the sockets and what the movers own, which the kernel may
// use for as long as the socket is there.
func (g *Group) closeStreams() {
	for _, s := range g.streams {
		// Unread data makes this close a reset, which empties the peer's queue.
		_ = unix.Close(s.fd)
		s.closeMovers()
	}
	for _, w := range g.workers {
		for _, c := range w.closers {
			_ = c.Close() // pipes and memory: nothing was to be kept
		}
	}
}

// err is what ended the first stream that failed, nil if none did yet.
func (g *Group) err() error {
	select {
	case <-g.failed:
		return g.failure
	default:
		return nil
	}
}

// sample reads the counters of all streams.
func (g *Group) sample(tick int) result.Sample {
	n := len(g.streams)
	columns := make([]uint64, 7*n)
	column := func(i int) []uint64 { return columns[i*n : (i+1)*n : (i+1)*n] }
	s := result.Sample{
		Tick: tick, Sent: column(0), Received: column(1), SendCalls: column(2), ReceiveCalls: column(3),
		ShortSends: column(4), Interruptions: column(5), Transactions: column(6), AtNs: sys.Monotonic(),
	}
	for i, c := range g.streams {
		s.Sent[i], s.Received[i] = c.sent.Load(), c.received.Load()
		s.SendCalls[i], s.ReceiveCalls[i] = c.sendCalls.Load(), c.receiveCalls.Load()
		s.ShortSends[i], s.Interruptions[i] = c.shortSends.Load(), c.interruptions.Load()
		s.Transactions[i] = c.transactions.Load()
	}
	return s
}

// tcp is the sample's other columns: of TCP_INFO and, where datagrams or
// connections are the carrier, of what can happen to them.
func (g *Group) tcp(infos []sockopt.TCPInfo) map[string][]uint64 {
	all := columns(infos)
	add := func(name string, of func(*stream) uint64) {
		column := make([]uint64, len(g.streams))
		for i, s := range g.streams {
			column[i] = of(s)
		}
		all[name] = column
	}
	load := func(name string, of func(*stream) *atomic.Uint64) {
		add(name, func(s *stream) uint64 { return of(s).Load() })
	}
	switch (task{g.cfg.Carrier, g.cfg.Role}) {
	case task{plan.Connections, plan.Requester}:
		load(result.ConnectErrors, func(s *stream) *atomic.Uint64 { return &s.errors })
	case task{plan.Datagrams, plan.Sender}:
		load(result.SendErrors, func(s *stream) *atomic.Uint64 { return &s.errors })
	case task{plan.Datagrams, plan.Requester}:
		load(result.LostTransactions, func(s *stream) *atomic.Uint64 { return &s.lost })
	case task{plan.Datagrams, plan.Receiver}:
		if !g.cfg.Plain {
			load(result.LostDatagrams, func(s *stream) *atomic.Uint64 { return &s.missing })
			load(result.OutOfOrder, func(s *stream) *atomic.Uint64 { return &s.outOfOrder })
			load(result.Duplicates, func(s *stream) *atomic.Uint64 { return &s.duplicates })
			load(result.JitterNs, func(s *stream) *atomic.Uint64 { return &s.jitter })
		}
		if _, ok := sys.SocketDrops(g.streams[0].fd); ok {
			add(result.SocketDrops, func(s *stream) uint64 { n, _ := sys.SocketDrops(s.fd); return n })
		}
	}
	return all
}

// infos reads TCP_INFO of every stream into buf, which has room for all; nil
// where it can't be read.
func (g *Group) infos(buf []byte) []sockopt.TCPInfo {
	infos := make([]sockopt.TCPInfo, len(g.streams))
	if g.cfg.Carrier != plan.Connection {
		return infos // of the connections that carried the payload nothing is left
	}
	for i, s := range g.streams {
		at := i * sockopt.TCPInfoSize
		if info, err := sockopt.ReadTCPInfo(s.fd, buf[at:at+sockopt.TCPInfoSize:at+sockopt.TCPInfoSize]); err == nil {
			infos[i] = info
		}
	}
	return infos
}

// infoBuffer is room for one reading of every stream's TCP_INFO.
func (g *Group) infoBuffer() []byte { return make([]byte, len(g.streams)*sockopt.TCPInfoSize) }

// columns turns readings of TCP_INFO into a sample's columns, leaving out one
// that some stream doesn't have: a partial sum would be an invented one.
func columns(infos []sockopt.TCPInfo) map[string][]uint64 {
	all := make(map[string][]uint64, len(result.SampleFields))
fields:
	for _, f := range result.SampleFields {
		column := make([]uint64, len(infos))
		for i, info := range infos {
			v, ok := info.Get(f)
			if !ok {
				continue fields
			}
			column[i] = v
		}
		all[f.Name()] = column
	}
	return all
}
