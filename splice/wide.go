package splice

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// block is how large the pieces of memory are in which a socket keeps what is
// written to it: SKB_FRAG_PAGE_ORDER of the kernel's net/core/sock.c.
const block = 32 << 10

// NewWideStanding makes a standing pipe whose slots hold up to 32 KiB instead of a
// page, and so up to eight times its size: nothing says that what is in a slot is
// a page, and splice(2) takes out of a socket's queue whole pieces of its memory.
// So the content goes through a scratch connection on loopback into the pipe.
// Tees of it make fewer calls, and the segments have fewer pieces, which is most
// of what sending costs.
//
// content is repeated and cut as NewStanding does it. Where the kernel had no
// large pieces to give, the slots hold less, and Period tells.
func NewWideStanding(size int, content []byte) (*Standing, error) {
	if len(content) == 0 {
		return nil, errors.New("payload is empty")
	}
	runtime.LockOSThread() // see align
	defer runtime.UnlockOSThread()
	want := 0
	for try := range 10 {
		pipe, err := NewPipe(size)
		if err != nil {
			return nil, err
		}
		if want == 0 {
			want = wideRoom(pipe.size)
			content = content[:min(len(content), want)]
			want = want / len(content) * len(content)
		}
		got, err := through(pipe, content, want)
		if err == nil && got == want {
			return &Standing{pipe: pipe, n: want}, nil
		}
		_ = pipe.Close()
		if err != nil {
			return nil, fmt.Errorf("fill a pipe through a socket: %w", err)
		}
		if try >= 3 {
			// The pieces are smaller than hoped for: as much as there was room for, whole.
			content = content[:min(len(content), got)]
			want = got / len(content) * len(content)
		}
	}
	return nil, fmt.Errorf("fill a pipe of %d bytes through a socket: the kernel never gave the same pieces twice", size)
}

// wideRoom is how much a pipe holds at best: a block in each slot, but never more
// than a page for each slot that is free before (do_splice_read in fs/splice.c,
// since Linux 6.5).
func wideRoom(size int) int {
	page := os.Getpagesize()
	n := 0
	for free := size / page; free > 0; free-- {
		n += min(block, free*page)
	}
	return n
}

// through moves n bytes of content, over and over, through a connection into the
// pipe. It returns how many there was room for.
func through(pipe *Pipe, content []byte, n int) (int, error) {
	w, err := newWidener()
	if err != nil {
		return 0, err
	}
	defer w.close()
	if err := w.align(); err != nil {
		return 0, err
	}
	return w.fill(pipe, content, n)
}

// A widener sends bytes over a connection so that they come out of it in blocks.
type widener struct {
	out, in int
	scratch [block]byte
}

func newWidener() (*widener, error) {
	out, in, err := connected(0)
	if err != nil {
		return nil, err
	}
	w := &widener{out: out, in: in}
	// A block may be a little more than a segment, and its rest mustn't wait.
	if err := unix.SetsockoptInt(out, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		w.close()
		return nil, os.NewSyscallError("setsockopt TCP_NODELAY", err)
	}
	return w, nil
}

func (w *widener) close() {
	_, _ = unix.Close(w.out), unix.Close(w.in)
}

// fill moves n bytes of content, over and over, into the pipe. It returns how
// many there was room for.
func (w *widener) fill(pipe *Pipe, content []byte, n int) (int, error) {
	if len(content) < block {
		content = bytes.Repeat(content, block/len(content))
	}
	for done := 0; done < n; {
		p := w.scratch[:min(block, n-done)]
		for i := 0; i < len(p); {
			i += copy(p[i:], content[(done+i)%len(content):])
		}
		if err := w.send(p); err != nil {
			return 0, err
		}
		for left := len(p); left > 0; {
			// The socket waits for its bytes, the pipe not for room.
			moved, errno := sys.Splice(w.in, nil, pipe.W, nil, left, unix.SPLICE_F_NONBLOCK)
			switch {
			case errno == unix.EINTR:
				continue
			case errno == unix.EAGAIN && done+len(p)-left > 0:
				return done + len(p) - left, nil
			case errno != 0:
				return 0, os.NewSyscallError("splice", errno)
			case moved == 0:
				return 0, os.NewSyscallError("splice", unix.ECONNRESET)
			}
			left -= moved
		}
		done += len(p)
	}
	return n, nil
}

// align sees to it that the next byte will be the first of a piece of memory. A
// thread has one piece, which all its sockets fill up; it begins it anew when
// nobody refers to it (skb_page_frag_refill in net/core/sock.c). A block more, and
// it is one of which only this connection has had a part.
func (w *widener) align() error {
	if err := w.send(w.scratch[:]); err != nil {
		return err
	}
	for left := block; left > 0; {
		n, errno := sys.Discard(w.in, left, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return os.NewSyscallError("recv", errno)
		case n == 0:
			return os.NewSyscallError("recv", unix.ECONNRESET)
		}
		left -= max(n, 0)
	}
	// The sender lets go when it is acknowledged. If that takes long, so be it: it
	// costs room, nothing else.
	if err := unix.SetsockoptInt(w.in, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1); err != nil {
		return os.NewSyscallError("setsockopt TCP_QUICKACK", err)
	}
	for range 100 {
		unacked, err := unix.IoctlGetInt(w.out, unix.TIOCOUTQ) // SIOCOUTQ by its other name
		if err != nil {
			return os.NewSyscallError("ioctl SIOCOUTQ", err)
		}
		if unacked == 0 {
			break
		}
		sys.Nanosleep(int64(100 * time.Microsecond))
	}
	return nil
}

// send sends all of p.
func (w *widener) send(p []byte) error {
	for len(p) > 0 {
		n, errno := sys.Send(w.out, p, unix.MSG_NOSIGNAL)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return os.NewSyscallError("send", errno)
		}
		p = p[n:]
	}
	return nil
}
