package sys

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NeedDescriptors returns an error that gives both numbers when this process
// can't open n more descriptors under its RLIMIT_NOFILE, see getrlimit(2).
func NeedDescriptors(n int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // not known: the calls themselves will tell
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	if free := int64(limit.Cur) - int64(len(open)); free < int64(n) {
		return fmt.Errorf("%d descriptors are needed, %d are available (limit %d, see ulimit -n)", n, max(free, 0), limit.Cur)
	}
	return nil
}
