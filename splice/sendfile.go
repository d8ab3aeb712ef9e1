package splice

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// A Sendfile sends a file, over and over, by sendfile(2). The kernel moves it
// through a pipe of 16 pages of its own, whose size can't be chosen.
type Sendfile struct {
	mover
	file   *os.File
	fd     int
	size   int64
	offset int64
}

// NewSendfile makes a sender of a regular file: the user's, or a Payload's. The
// file stays its owner's; several senders can share it, for each has its own
// offset. What it sends is what the file holds at the time, its length that of
// now.
func NewSendfile(file *os.File) (*Sendfile, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("sendfile: %s is not a regular file", file.Name())
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("sendfile: %s is empty", file.Name())
	}
	return &Sendfile{file: file, fd: int(file.Fd()), size: info.Size()}, nil
}

// Send moves at most n bytes, and not past the file's end. sendfile(2) has no
// flags: MSG_MORE has no effect. A file that has become shorter is ENODATA.
func (s *Sendfile) Send(fd, n, flags int) (int, bool, unix.Errno) {
	if !s.canWait(fd, flags) {
		return s.failed("sendfile", unix.EOPNOTSUPP)
	}
	ask := int(min(int64(n), s.size-s.offset))
	moved, errno := sys.Sendfile(fd, s.fd, &s.offset, ask)
	if errno != 0 {
		return s.failed("sendfile", errno)
	}
	if moved == 0 {
		return s.failed("sendfile", unix.ENODATA)
	}
	if s.offset == s.size {
		s.offset = 0
	}
	s.count(moved, ask)
	return moved, true, 0
}

// Period is the file's length.
func (s *Sendfile) Period() int { return int(s.size) }

// Close has nothing to give back.
func (s *Sendfile) Close() error { return nil }
