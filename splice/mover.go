package splice

import (
	"golang.org/x/sys/unix"
)

// A Mover is what senders and receivers have in common.
type Mover interface {
	// Stats and Sizes are what was done so far. Any goroutine may ask.
	Stats() Stats
	Sizes(into *Sizes)
	// Op names the system call that the latest errno came from.
	Op() string
	// Pipe is the pipe between the socket and the rest; nil if there is none.
	Pipe() *Pipe
	// Close gives back what the mover owns, which is never the socket. It is for
	// the owner to call, after its last move.
	Close() error
}

// A Sender moves payload into a connected socket.
type Sender interface {
	Mover
	// Send makes one attempt to move at most n bytes (more than 0) into the
	// socket fd, always the same one, and returns what the socket took. Of flags,
	// MSG_DONTWAIT and MSG_MORE count.
	Send(fd, n, flags int) (moved int, handled bool, errno unix.Errno)
	// Period is the length of what is sent over and over.
	Period() int
}

// A Receiver takes payload out of a connected socket.
type Receiver interface {
	Mover
	// Receive makes one attempt to take at most n bytes (more than 0) out of the
	// socket fd, always the same one. 0 without errno is the end of the stream.
	// Of flags, MSG_DONTWAIT counts.
	Receive(fd, n, flags int) (moved int, handled bool, errno unix.Errno)
}

// mover is the part that all movers share.
type mover struct {
	counters
	op      string
	checked int // 1 + the descriptor that is known to have O_NONBLOCK
}

// Op is the system call that the latest errno came from.
func (m *mover) Op() string { return m.op }

// Pipe is nil: there is none.
func (m *mover) Pipe() *Pipe { return nil }

// failed returns what a call returns that moved nothing.
func (m *mover) failed(op string, errno unix.Errno) (int, bool, unix.Errno) {
	m.op = op
	switch errno {
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOPROTOOPT:
		return 0, m.calls.Load() > 0, errno
	}
	return 0, true, errno
}

// canWait reports whether flags and the socket agree: neither splice nor sendfile
// can be told not to wait by a flag.
func (m *mover) canWait(fd, flags int) bool {
	return flags&unix.MSG_DONTWAIT == 0 || m.checked == fd+1 || m.check(fd)
}

//go:noinline
func (m *mover) check(fd int) bool {
	set, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || set&unix.O_NONBLOCK == 0 {
		return false
	}
	m.checked = fd + 1
	return true
}

// more turns MSG_MORE into its like of splice.
func more(flags int) int {
	if flags&unix.MSG_MORE != 0 {
		return unix.SPLICE_F_MORE
	}
	return 0
}
