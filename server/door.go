package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/internal/sys"
)

// The door is where connections come in and say what they are. All of them wait
// in one epoll set, so that a silent connection costs a descriptor and no
// thread, until their first bytes tell which protocol they speak, or their time
// is over. Those bytes are looked at and left in the socket. Once told, a
// connection has left the set for good: data sockets are never polled.
type door struct {
	log       *slog.Logger
	epoll     int
	wake      int // eventfd that ends run
	spare     int // a descriptor to give up when there are no others
	protocols []taker
	allowed   func(netip.Addr) bool
	limit     func() int    // connections waiting
	patience  time.Duration // how long one may say nothing
	last      func()        // called when a connection has left for its protocol, or for good; nil: nobody waits

	mu        sync.Mutex
	listeners map[int]bool
	waiting   map[int]*visitor
	queue     []*visitor // in the order of their coming, which is that of their deadlines
}

// A taker takes the connections that speak its protocol.
type taker interface {
	Match(first []byte) control.Match // as Protocol's
	// Serve takes over a connection, of which nothing has been read yet, and
	// returns at once.
	Serve(fd int, peer netip.AddrPort)
}

// A visitor is a connection that has not yet said what it is.
type visitor struct {
	fd       int
	peer     netip.AddrPort
	deadline time.Time
	told     bool // it has left
}

// lookAhead is how many bytes a protocol gets to see: a data connection's whole
// preamble, so that reading it later can't block.
const lookAhead = 64

func newDoor(log *slog.Logger, allowed func(netip.Addr) bool, limit func() int, patience time.Duration) (*door, error) {
	d := &door{
		log: log, allowed: allowed, limit: limit, patience: patience,
		listeners: map[int]bool{}, waiting: map[int]*visitor{},
	}
	var err1, err2, err3 error
	d.epoll, err1 = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	d.wake, err2 = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	d.spare, err3 = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	err := errors.Join(err1, err2, err3)
	if err == nil {
		err = d.watch(d.wake, unix.EPOLLIN)
	}
	if err != nil {
		d.close()
		return nil, fmt.Errorf("server: %w", err)
	}
	return d, nil
}

func (d *door) watch(fd int, events uint32) error {
	return unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// open lets connections of a listening socket in. The door owns it now.
func (d *door) open(listener int) error {
	d.mu.Lock()
	d.listeners[listener] = true
	d.mu.Unlock()
	return d.watch(listener, unix.EPOLLIN)
}

// shut closes a listening socket.
func (d *door) shut(listener int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listeners[listener] {
		delete(d.listeners, listener)
		_ = unix.Close(listener) // which takes it out of the epoll set
	}
}

// release gives a listening socket back to whoever opened it.
func (d *door) release(listener int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listeners[listener] {
		delete(d.listeners, listener)
		_ = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, listener, nil)
	}
}

// run lets connections in until the context ends; then it closes everything
// that still waits, and the listeners.
func (d *door) run(ctx context.Context) error {
	// The thread sits in epoll_wait; it must not be a worker's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer d.close()
	stop := context.AfterFunc(ctx, func() { _, _ = unix.Write(d.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) })
	defer stop()
	events := make([]unix.EpollEvent, 128)
	for ctx.Err() == nil {
		n, err := unix.EpollWait(d.epoll, events, d.expire(time.Now()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("server: epoll_wait: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			d.mu.Lock()
			isListener, v := d.listeners[int(e.Fd)], d.waiting[int(e.Fd)]
			d.mu.Unlock()
			switch {
			case isListener:
				d.accept(int(e.Fd))
			case v != nil:
				d.look(v)
			}
		}
	}
	return nil
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for fd := range d.listeners {
		_ = unix.Close(fd)
	}
	for fd := range d.waiting {
		_ = unix.Close(fd)
	}
	clear(d.listeners)
	clear(d.waiting)
	for _, fd := range []int{d.epoll, d.wake, d.spare} {
		if fd > 0 {
			_ = unix.Close(fd)
		}
	}
}

// expire drops who has waited too long and returns the time until the next one
// will have, in ms as epoll_wait takes it; -1: nobody waits.
func (d *door) expire(now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 {
		v := d.queue[0]
		if !v.told && now.Before(v.deadline) {
			return int(v.deadline.Sub(now)/time.Millisecond) + 1
		}
		if !v.told {
			d.log.Debug("connection said nothing in time", "peer", v.peer)
			d.dismiss(v)
		}
		d.queue = d.queue[1:]
	}
	return -1
}

// dismiss closes a waiting connection. The caller holds the lock.
func (d *door) dismiss(v *visitor) {
	v.told = true
	delete(d.waiting, v.fd)
	_ = unix.Close(v.fd)
	if d.last != nil {
		d.last()
	}
}

// accept takes in all connections that a listener has ready.
func (d *door) accept(listener int) {
	for {
		fd, sa, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			d.refuse(listener, err)
			return
		case err != nil:
			// EINTR and ECONNABORTED among them: the connection's trouble, not
			// the listener's. epoll reports the listener again if it's ready.
			return
		}
		d.enter(fd, sys.AddrPort(sa))
	}
}

// refuse takes one connection in with the spare descriptor and closes it:
// otherwise the peer would wait, and epoll report the listener for ever.
func (d *door) refuse(listener int, why error) {
	d.log.Error("out of descriptors, connection refused", "error", why)
	_ = unix.Close(d.spare)
	if fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC); err == nil {
		_ = unix.Close(fd)
	}
	d.spare, _ = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// enter lets one connection wait. When there is no place left, the one that
// has waited longest goes.
func (d *door) enter(fd int, peer netip.AddrPort) {
	if !d.allowed(peer.Addr()) {
		d.log.Warn("connection from an address that is not allowed", "peer", peer)
		_ = unix.Close(fd)
		return
	}
	v := &visitor{fd: fd, peer: peer, deadline: time.Now().Add(d.patience)}
	d.mu.Lock()
	for len(d.waiting) >= d.limit() {
		for d.queue[0].told {
			d.queue = d.queue[1:]
		}
		d.dismiss(d.queue[0])
	}
	d.waiting[fd] = v
	d.queue = append(d.queue, v)
	d.mu.Unlock()
	// Edge-triggered: a connection that has said too little to be told is
	// looked at again when it says more, not all the time.
	if err := d.watch(fd, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET); err != nil {
		d.log.Error("epoll_ctl", "error", err)
		d.mu.Lock()
		d.dismiss(v)
		d.mu.Unlock()
	}
}

// look peeks at what a connection has said and hands it on once that's enough.
func (d *door) look(v *visitor) {
	var first [lookAhead]byte
	n, _, err := unix.Recvfrom(v.fd, first[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return
	}
	var (
		found taker
		maybe bool
	)
	if err == nil && n > 0 {
		for _, p := range d.protocols {
			switch p.Match(first[:n]) {
			case control.Yes:
				found = p
			case control.More:
				maybe = true
			case control.No:
			}
			if found != nil {
				break
			}
		}
		if found == nil && maybe {
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if found == nil {
		d.log.Debug("connection of no known protocol", "peer", v.peer, "begins", string(first[:max(n, 0)]), "error", err)
		d.dismiss(v)
		return
	}
	v.told = true
	delete(d.waiting, v.fd)
	_ = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, v.fd, nil)
	found.Serve(v.fd, v.peer)
	if d.last != nil {
		d.last()
	}
}
