package splice

import (
	"bytes"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Payload is what senders send: bytes in memory whose pages sockets, pipes and
// sendfile(2) can share. It is a memory file (memfd_create(2)), mapped. Any
// number of senders can share one, also on different threads; on different CPUs
// each has better one of its own, because every send counts references to pages.
type Payload struct {
	file *os.File
	mem  []byte
}

// NewPayload makes a payload of content, repeated whole until it is at least
// size bytes long, so that calls of up to size bytes rarely meet its end.
func NewPayload(content []byte, size int) (*Payload, error) {
	if len(content) == 0 {
		return nil, errors.New("payload is empty")
	}
	size = (max(size, 1) + len(content) - 1) / len(content) * len(content)
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	p := &Payload{file: os.NewFile(uintptr(fd), "payload")}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, errors.Join(os.NewSyscallError("ftruncate", err), p.Close())
	}
	p.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), p.Close())
	}
	for n := 0; n < size; n += len(content) {
		copy(p.mem[n:], content)
	}
	return p, nil
}

// Bytes is the payload. It must not be written to once it is sent: what the peer
// gets would change while it is on its way.
func (p *Payload) Bytes() []byte { return p.mem }

// File is the payload as a file, for NewSendfile. The payload owns it.
func (p *Payload) File() *os.File { return p.file }

// Close gives the memory back. No sender may use it any more; what is in pipes
// and sockets stays as it is.
func (p *Payload) Close() error {
	var err error
	if p.mem != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(p.mem))
		p.mem = nil
	}
	return errors.Join(err, p.file.Close())
}

// PatternPeriod is after how many bytes the pattern repeats: the largest prime
// below 4096, so that a run of it fits into the smallest pipe and that no page or
// power of two can be lost or repeated without a trace.
const PatternPeriod = 4093

// pattern is the pattern, repeated to make comparing quick.
var pattern = sync.OnceValue(func() []byte {
	p := make([]byte, PatternPeriod, 32*PatternPeriod)
	x := uint32(2463534242) // xorshift (Marsaglia 2003)
	for i := range p {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		p[i] = byte(x >> 24)
	}
	return bytes.Repeat(p, cap(p)/PatternPeriod)
})

// Pattern is one period of the bytes that show their position in a stream: the
// content of a payload for a test whose receiver checks every byte.
func Pattern() []byte { return bytes.Clone(pattern()[:PatternPeriod]) }

// CheckPattern compares p with the pattern from the given position of a stream
// on, and returns the index of the first byte that is wrong, or -1.
func CheckPattern(p []byte, position uint64) int {
	for done := 0; done < len(p); {
		want := pattern()[(position+uint64(done))%PatternPeriod:]
		got := p[done:min(len(p), done+len(want))]
		if !bytes.Equal(got, want[:len(got)]) {
			for i := range got {
				if got[i] != want[i] {
					return done + i
				}
			}
		}
		done += len(got)
	}
	return -1
}
