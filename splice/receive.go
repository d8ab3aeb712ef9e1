package splice

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// A Discard drops what the socket has by recv(2) with MSG_TRUNC and no buffer:
// TCP takes the bytes out of its queue without looking at them (tcp(7)).
type Discard struct{ mover }

// NewDiscard makes a receiver. It needs nothing.
func NewDiscard() *Discard { return &Discard{} }

// Receive drops at most n bytes.
func (d *Discard) Receive(fd, n, flags int) (int, bool, unix.Errno) {
	moved, errno := sys.Discard(fd, n, flags&unix.MSG_DONTWAIT)
	if errno != 0 {
		if errno == unix.EFAULT { // the socket wants a buffer
			errno = unix.EOPNOTSUPP
		}
		return d.failed("recv", errno)
	}
	if moved > 0 {
		d.count(moved, moved)
	}
	return moved, true, 0
}

// Close has nothing to give back.
func (d *Discard) Close() error { return nil }

// A Sink takes payload out by splice(2) from the socket into a pipe and from there
// into a file or the null device.
type Sink struct {
	mover
	pipe   *Pipe
	file   *os.File
	own    bool // the file is the sink's
	fd     int
	offset *int64 // of a regular file
	flags  int
	queued int // bytes in the pipe
}

// NewSink makes a receiver with a pipe of size (see NewPipe). file is where the
// bytes go: a regular file, from its present position on and with an offset of
// the sink's own, or the null device; it stays its owner's. nil: /dev/null.
func NewSink(size int, file *os.File, flags Flags) (*Sink, error) {
	s := &Sink{file: file, flags: int(flags)}
	if file == nil {
		var err error
		if s.file, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return nil, err
		}
		s.own = true
	}
	if err := s.prepare(size); err != nil {
		if s.own {
			_ = s.file.Close()
		}
		return nil, err
	}
	return s, nil
}

func (s *Sink) prepare(size int) error {
	s.fd = int(s.file.Fd())
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		at, err := s.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		set, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
		if err == nil && set&unix.O_APPEND != 0 {
			return fmt.Errorf("splice: %s is open for appending, which splice(2) can't do", s.file.Name())
		}
		s.offset = &at
	case !isNull(info):
		// Pipes and sockets might not take what is in our pipe for ever, and not
		// every device can be spliced into (/dev/full can't).
		return fmt.Errorf("splice: %s is neither a regular file nor the null device", s.file.Name())
	}
	s.pipe, err = NewPipe(size)
	return err
}

// isNull reports whether a file is the null device, which has the same number on
// all of Linux (the kernel's admin-guide/devices.txt).
func isNull(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&os.ModeCharDevice != 0 && stat.Rdev == unix.Mkdev(1, 3)
}

// Receive takes at most n bytes, and at most what fits into the pipe, and moves
// them on into the file. What fits is the pipe's size at most since Linux 6.5, but
// can be less: a pipe has a slot for each page of its size, and each piece of a
// segment takes a slot, however small it is. (Before 6.5 it can be more, because a
// slot also takes a piece of up to 32 KiB.) What the file doesn't take must go
// there before more is taken: until then Receive moves nothing and returns the
// file's errno, with the Op "splice to sink".
func (s *Sink) Receive(fd, n, flags int) (int, bool, unix.Errno) {
	if !s.canWait(fd, flags) {
		return s.failed("splice", unix.EOPNOTSUPP)
	}
	if s.queued > 0 {
		if errno := s.drain(); errno != 0 {
			return s.failed(sinkOp, errno)
		}
	}
	moved, errno := sys.Splice(fd, nil, s.pipe.W, nil, n, s.flags)
	if errno != 0 {
		return s.failed("splice", errno)
	}
	if moved > 0 {
		s.count(moved, moved)
		s.queued = moved
		_ = s.drain() // if it fails, it fails again in the next call, or in Close
	}
	return moved, true, 0
}

const sinkOp = "splice to sink"

// drain moves what is in the pipe into the file.
func (s *Sink) drain() unix.Errno {
	for s.queued > 0 {
		n, errno := sys.Splice(s.pipe.R, nil, s.fd, s.offset, s.queued, s.flags)
		if errno != 0 {
			return errno
		}
		if n == 0 {
			return unix.EIO
		}
		add(&s.refills, 1)
		s.queued -= n
	}
	return 0
}

// Pipe is the pipe.
func (s *Sink) Pipe() *Pipe { return s.pipe }

// Close moves the last bytes into the file, and says so if it can't.
func (s *Sink) Close() error {
	var err error
	errno := s.drain()
	for errno == unix.EINTR {
		errno = s.drain()
	}
	if errno != 0 {
		err = fmt.Errorf("%s: the last %d bytes: %w", s.file.Name(), s.queued, os.NewSyscallError("splice", errno))
	}
	err = errors.Join(err, s.pipe.Close())
	if s.own {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

// A Mapped takes payload by mapping the pages in which it came
// (TCP_ZEROCOPY_RECEIVE). What doesn't fill whole pages is copied; with a peer
// that copies into its socket, or over a path whose segments aren't whole pages,
// that is everything.
type Mapped struct {
	mover
	mem      []byte // a mapping of the socket
	buffer   []byte
	copyNext int    // bytes that must be copied before more can be mapped
	last     []byte // what the latest Receive took
}

// NewMapped makes a receiver for the socket fd alone, with a mapping of size
// bytes, rounded up to whole pages, and room for as many copied ones.
func NewMapped(fd, size int) (*Mapped, error) {
	page := os.Getpagesize()
	size = (max(size, 1) + page - 1) / page * page
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("TCP_ZEROCOPY_RECEIVE: %w", os.NewSyscallError("mmap of the socket", err))
	}
	return &Mapped{mem: mem, buffer: make([]byte, size)}, nil
}

// pollTime bounds a wait that a system call doesn't bound by the socket's own
// time-out.
const pollTime = 200 * time.Millisecond

// Receive takes at most n bytes, by mapping or by copying. TCP_ZEROCOPY_RECEIVE
// never waits: without MSG_DONTWAIT Receive polls first, and returns EAGAIN after
// 200 ms.
func (m *Mapped) Receive(fd, n, flags int) (int, bool, unix.Errno) {
	m.last = nil
	if m.copyNext > 0 {
		return m.copy(fd, min(n, m.copyNext), flags)
	}
	window := m.mem[:min(n, len(m.mem))&^(os.Getpagesize()-1)]
	if len(window) == 0 {
		return m.copy(fd, n, flags) // less than a page can't be mapped
	}
	mapped, copyNext, errno := sys.ZerocopyReceive(fd, window)
	if errno == 0 && mapped == 0 && copyNext == 0 && flags&unix.MSG_DONTWAIT == 0 {
		ready, errno := sys.Poll(fd, unix.POLLIN, int64(pollTime))
		if errno != 0 {
			return m.failed("poll", errno)
		}
		if ready == 0 {
			return m.failed("poll", unix.EAGAIN)
		}
		mapped, copyNext, _ = sys.ZerocopyReceive(fd, window)
		// An errno is for verdict to find.
	}
	switch {
	case errno != 0 && errno != unix.EIO:
		return m.failed(zerocopyOp, errno)
	case mapped > 0:
		m.copyNext = copyNext
		m.last = m.mem[:mapped]
		m.count(mapped, mapped)
		return mapped, true, 0
	case copyNext > 0:
		m.copyNext = copyNext
		return m.copy(fd, min(n, copyNext), flags)
	}
	return m.verdict(fd, errno)
}

const zerocopyOp = "getsockopt TCP_ZEROCOPY_RECEIVE"

// copy takes at most n bytes by copying.
func (m *Mapped) copy(fd, n, flags int) (int, bool, unix.Errno) {
	n = min(n, len(m.buffer))
	moved, errno := sys.Recv(fd, m.buffer[:n], flags&unix.MSG_DONTWAIT)
	if errno != 0 {
		return m.failed("recv", errno)
	}
	m.copyNext = max(m.copyNext-moved, 0)
	if moved > 0 {
		m.last = m.buffer[:moved]
		m.count(moved, moved)
		m.fellBack(moved)
	}
	return moved, true, 0
}

// verdict says why there was nothing: the option returns EIO at the end of the
// stream, and nothing at all when the connection has been reset.
func (m *Mapped) verdict(fd int, errno unix.Errno) (int, bool, unix.Errno) {
	n, peeked := sys.Recv(fd, m.buffer[:1], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case peeked != 0:
		return m.failed("recv", peeked)
	case n == 0:
		return 0, true, 0
	case errno != 0:
		return m.failed(zerocopyOp, errno)
	}
	return m.failed(zerocopyOp, unix.EAGAIN) // it came just now
}

// Last is what the latest Receive took, mapped or copied; valid until the next.
func (m *Mapped) Last() []byte { return m.last }

// Close unmaps what is mapped.
func (m *Mapped) Close() error {
	err := os.NewSyscallError("munmap", unix.Munmap(m.mem))
	m.mem, m.last = nil, nil
	return err
}
