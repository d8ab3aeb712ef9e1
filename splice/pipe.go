package splice

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Pipe is a pipe of a known size. Whoever makes it closes it.
type Pipe struct {
	R, W int // descriptors, close-on-exec, blocking
	size int
}

// NewPipe makes a pipe of at least size bytes. Linux rounds up to a power of two
// of pages (fcntl(2), F_SETPIPE_SZ); Size is what it reports afterwards. Size 0
// leaves the kernel's default, 16 pages.
//
// A size that the kernel doesn't grant is a *LimitError. So is a pipe smaller
// than the default where that was asked for: to a user without CAP_SYS_RESOURCE
// and CAP_SYS_ADMIN who is over fs.pipe-user-pages-soft, the kernel silently gives
// pipes of two pages or of one (pipe(7)).
func NewPipe(size int) (*Pipe, error) {
	if size < 0 {
		return nil, fmt.Errorf("pipe size %d is negative", size)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		err = os.NewSyscallError("pipe2", err)
		if errors.Is(err, unix.ENFILE) && sysctl("pipe-user-pages-hard") > 0 {
			// Also the answer when the whole system has no more descriptors.
			return nil, &LimitError{Size: size, Limits: limits("pipe-user-pages-hard", "file-max"), Err: err}
		}
		return nil, err
	}
	p := &Pipe{R: fds[0], W: fds[1]}
	if err := p.setSize(size); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// setSize makes the pipe size bytes large, or finds that it has the default.
func (p *Pipe) setSize(size int) error {
	if size > 0 {
		if _, err := unix.FcntlInt(uintptr(p.W), unix.F_SETPIPE_SZ, size); err != nil {
			return explain(size, os.NewSyscallError("fcntl F_SETPIPE_SZ", err))
		}
	}
	var err error
	if p.size, err = p.Reported(); err != nil {
		return err
	}
	want := size
	if size == 0 {
		want = defaultSize()
	}
	if p.size < want {
		return &LimitError{Size: want, Got: p.size, Limits: limits("pipe-user-pages-soft")}
	}
	return nil
}

// explain turns the failure of F_SETPIPE_SZ into one that names the limit.
func explain(size int, err error) error {
	if !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("pipe of %d bytes: %w", size, err)
	}
	e := &LimitError{Size: size, Err: err}
	// The order is that of pipe_set_size in the kernel's fs/pipe.c: EPERM of the
	// system's limit first, then of the user's.
	if largest := sysctl("pipe-max-size"); largest >= 0 && rounded(size) > largest {
		e.Limits = limits("pipe-max-size")
		return e
	}
	for _, name := range []string{"pipe-user-pages-soft", "pipe-user-pages-hard"} {
		if sysctl(name) > 0 { // 0: no limit
			e.Limits = append(e.Limits, limits(name)...)
		}
	}
	return e
}

// Size is the pipe's capacity in bytes, as F_GETPIPE_SZ reported when it was made.
func (p *Pipe) Size() int { return p.size }

// Reported asks the kernel for the pipe's capacity again (F_GETPIPE_SZ).
func (p *Pipe) Reported() (int, error) {
	n, err := unix.FcntlInt(uintptr(p.W), unix.F_GETPIPE_SZ, 0)
	return n, os.NewSyscallError("fcntl F_GETPIPE_SZ", err)
}

// Queued is how many bytes are in the pipe now (FIONREAD). Any thread may ask.
func (p *Pipe) Queued() (int, error) {
	n, err := unix.IoctlGetInt(p.R, unix.TIOCINQ) // FIONREAD by its other name
	return n, os.NewSyscallError("ioctl FIONREAD", err)
}

// Close closes both ends. What is in the pipe is lost.
func (p *Pipe) Close() error {
	return errors.Join(os.NewSyscallError("close", unix.Close(p.R)), os.NewSyscallError("close", unix.Close(p.W)))
}

// A LimitError says which of the system's limits a pipe has met.
type LimitError struct {
	Size   int     // bytes asked for; 0: the default
	Got    int     // bytes that the kernel gave instead, silently; 0: it refused
	Limits []Limit // the limit, or those between which the kernel doesn't distinguish
	Err    error   // the refusal
}

// A Limit is a sysctl and its value.
type Limit struct {
	Name  string // "fs.pipe-max-size"
	Value int    // bytes or pages, as the sysctl has it
}

func (l Limit) String() string { return l.Name + "=" + strconv.Itoa(l.Value) }

func (e *LimitError) Error() string {
	var names []string
	for _, l := range e.Limits {
		names = append(names, l.String())
	}
	limit := strings.Join(names, " or ")
	if limit == "" {
		limit = "a limit of the system"
	}
	switch {
	case e.Err == nil:
		return fmt.Sprintf("pipe of %d bytes: limited by %s: the kernel gave %d bytes", e.Size, limit, e.Got)
	case e.Size == 0:
		return fmt.Sprintf("pipe: limited by %s: %v", limit, e.Err)
	}
	return fmt.Sprintf("pipe of %d bytes: limited by %s: %v", e.Size, limit, e.Err)
}

func (e *LimitError) Unwrap() error { return e.Err }

// limits returns limits with their present values.
func limits(names ...string) []Limit {
	var all []Limit
	for _, name := range names {
		all = append(all, Limit{"fs." + name, sysctl(name)})
	}
	return all
}

// sysctl reads a number of /proc/sys/fs; -1 when it can't.
func sysctl(name string) int {
	b, err := os.ReadFile("/proc/sys/fs/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// defaultSize is the size of a pipe that meets no limit: 16 pages, or
// fs.pipe-max-size if that is less (alloc_pipe_info in fs/pipe.c).
func defaultSize() int {
	size := 16 * os.Getpagesize()
	if largest := sysctl("pipe-max-size"); largest > 0 {
		size = min(size, largest)
	}
	return size
}

// rounded is what the kernel makes of a size: a power of two of pages.
func rounded(size int) int {
	n := os.Getpagesize()
	for n < size && n < 1<<31 {
		n <<= 1
	}
	return n
}
