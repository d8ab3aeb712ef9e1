package sys

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// ReadFile is os.ReadFile for the small files of /proc and /sys, which gperf
// reads by the dozen around every test: three system calls or four, without
// asking the file's size, which is 0 for all of them, or whether it can be
// polled, which it can't.
func ReadFile(path string) ([]byte, error) {
	fd, err := openRetry(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = append(make([]byte, 0, 4*cap(b)), b...)
		}
	}
}

func openRetry(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
