package splice

import (
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// A Vmsplice sends from memory: vmsplice(2) maps the payload's pages into a pipe,
// splice(2) moves them into the socket. What the socket doesn't take stays in the
// pipe and goes first the next time.
type Vmsplice struct {
	mover
	payload *Payload
	pipe    *Pipe
	flags   int
	next    int // where in the payload to go on
	queued  int // bytes in the pipe
}

// NewVmsplice makes a sender with a pipe of size (see NewPipe). The payload stays
// its owner's.
func NewVmsplice(size int, payload *Payload, flags Flags) (*Vmsplice, error) {
	pipe, err := NewPipe(size)
	if err != nil {
		return nil, err
	}
	return &Vmsplice{payload: payload, pipe: pipe, flags: int(flags)}, nil
}

// Send moves at most n bytes, and at most what the pipe holds.
func (v *Vmsplice) Send(fd, n, flags int) (int, bool, unix.Errno) {
	if !v.canWait(fd, flags) {
		return v.failed("splice", unix.EOPNOTSUPP)
	}
	if v.queued == 0 {
		// It fills the pipe whatever n is: fewer calls. A pipe that is empty never
		// makes it wait.
		p := v.payload.mem[v.next:]
		got, errno := sys.Vmsplice(v.pipe.W, p[:min(len(p), v.pipe.size)], unix.SPLICE_F_NONBLOCK)
		if errno != 0 {
			return v.failed("vmsplice", errno)
		}
		add(&v.refills, 1)
		v.queued = got
		if v.next += got; v.next == len(v.payload.mem) {
			v.next = 0
		}
	}
	ask := min(n, v.queued)
	moved, errno := sys.Splice(v.pipe.R, nil, fd, nil, ask, v.flags|more(flags))
	if errno != 0 {
		return v.failed("splice", errno)
	}
	v.queued -= moved
	v.count(moved, ask)
	return moved, true, 0
}

// Period is the payload's length.
func (v *Vmsplice) Period() int { return len(v.payload.mem) }

// Pipe is the pipe.
func (v *Vmsplice) Pipe() *Pipe { return v.pipe }

// Close closes the pipe.
func (v *Vmsplice) Close() error { return v.pipe.Close() }
