package sys

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NeedDescriptors returns an error that gives both numbers when this process
// can't open n more descriptors under its RLIMIT_NOFILE, see getrlimit(2).
func NeedDescriptors(n int) error {
	// Where it isn't known, the calls themselves will tell.
	if free, ok := FreeDescriptors(); ok && free < int64(n) {
		return fmt.Errorf("%d descriptors are needed, %d are available (see ulimit -n)", n, max(free, 0))
	}
	return nil
}

// FreeDescriptors is how many more descriptors this process can open; false
// when that can't be known.
func FreeDescriptors() (int64, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, false
	}
	return int64(min(limit.Cur, 1<<62)) - int64(len(open)), true
}
