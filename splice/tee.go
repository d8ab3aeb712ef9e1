package splice

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// A Standing is a pipe that is filled once and never drained. Tees take from it. It
// can be shared, but see Payload.
type Standing struct {
	pipe *Pipe
	n    int    // bytes in the pipe
	mem  []byte // where they are, if by vmsplice
}

// NewStanding makes a standing pipe of size (see NewPipe) and fills it by
// vmsplice(2), a page in each slot, with content as often as it fits. Content that is longer than the pipe is cut to
// the pipe's size. It is copied once.
func NewStanding(size int, content []byte) (*Standing, error) {
	if len(content) == 0 {
		return nil, errors.New("payload is empty")
	}
	pipe, err := NewPipe(size)
	if err != nil {
		return nil, err
	}
	s := &Standing{pipe: pipe}
	if err := s.fill(content); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// fill fills the pipe. The memory starts on a page and is contiguous, so that it
// takes one slot of the pipe per page, which is what the pipe has.
func (s *Standing) fill(content []byte) error {
	content = content[:min(len(content), s.pipe.size)]
	n := s.pipe.size / len(content) * len(content)
	s.n = n
	var err error
	s.mem, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	for at := 0; at < n; at += len(content) {
		copy(s.mem[at:], content)
	}
	for at := 0; at < n; {
		moved, errno := sys.Vmsplice(s.pipe.W, s.mem[at:], unix.SPLICE_F_NONBLOCK)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return os.NewSyscallError("vmsplice", errno)
		}
		at += moved
	}
	return nil
}

// Period is how many bytes the pipe holds.
func (s *Standing) Period() int { return s.n }

// Pipe is the standing pipe.
func (s *Standing) Pipe() *Pipe { return s.pipe }

// Close gives the pipe and the memory back. No Tee may use it any more.
func (s *Standing) Close() error {
	err := s.pipe.Close()
	if s.mem != nil {
		err = errors.Join(err, os.NewSyscallError("munmap", unix.Munmap(s.mem)))
		s.mem = nil
	}
	return err
}

// A Tee sends from a standing pipe: tee(2) into a working pipe of the same size,
// then splice(2) into the socket. What the socket doesn't take stays in the
// working pipe and goes first the next time. Unlike a Vmsplice it pins no pages,
// which makes it the faster of the two.
type Tee struct {
	mover
	standing *Standing
	pipe     *Pipe
	flags    int
	queued   int // bytes in the working pipe
}

// NewTee makes a sender with a working pipe of its own. The standing pipe stays
// its owner's.
func NewTee(standing *Standing, flags Flags) (*Tee, error) {
	pipe, err := NewPipe(standing.pipe.size)
	if err != nil {
		return nil, err
	}
	return &Tee{standing: standing, pipe: pipe, flags: int(flags)}, nil
}

// Send moves at most n bytes, and at most what the working pipe holds.
func (t *Tee) Send(fd, n, flags int) (int, bool, unix.Errno) {
	if !t.canWait(fd, flags) {
		return t.failed("splice", unix.EOPNOTSUPP)
	}
	if t.queued == 0 {
		// Always the whole of it, whatever n is: tee starts at the standing pipe's
		// first byte, so that only whole rounds put together make one stream.
		got, errno := sys.Tee(t.standing.pipe.R, t.pipe.W, t.standing.n, unix.SPLICE_F_NONBLOCK)
		if errno != 0 {
			return t.failed("tee", errno)
		}
		t.queued = got
		add(&t.refills, 1)
		if got != t.standing.n {
			// It can't be: the working pipe is empty and has as many slots. To go on
			// would send a wrong stream.
			return t.failed("tee", unix.EIO)
		}
	}
	ask := min(n, t.queued)
	moved, errno := sys.Splice(t.pipe.R, nil, fd, nil, ask, t.flags|more(flags))
	if errno != 0 {
		return t.failed("splice", errno)
	}
	t.queued -= moved
	t.count(moved, ask)
	return moved, true, 0
}

// Period is how many bytes the standing pipe holds.
func (t *Tee) Period() int { return t.standing.n }

// Pipe is the working pipe.
func (t *Tee) Pipe() *Pipe { return t.pipe }

// Close closes the working pipe.
func (t *Tee) Close() error { return t.pipe.Close() }
