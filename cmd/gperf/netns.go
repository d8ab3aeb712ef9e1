//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// enterNetns makes the whole process one of the namespace that s names: a name
// of ip-netns(8), a process id, or a path. It does so by starting the program
// anew from a thread inside: a thread alone would leave the others, and with
// them name resolution, counters and the runtime's own helpers, outside.
// Inside already, it does nothing.
func enterNetns(s string) error {
	path := filepath.Join("/run/netns", s)
	if _, err := strconv.ParseUint(s, 10, 32); err == nil {
		path = filepath.Join("/proc", s, "ns/net")
	} else if strings.Contains(s, "/") {
		path = s
	}
	same, err := sameFile(path, "/proc/self/ns/net")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no such network namespace (%s)", path)
	case err != nil:
		return err
	case same:
		return nil
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // never unlocked: this thread is in another namespace, or gone
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		if errors.Is(err, unix.EPERM) {
			return errors.New("entering a network namespace needs CAP_SYS_ADMIN")
		}
		return fmt.Errorf("%s is no network namespace: %w", path, err)
	}
	return os.NewSyscallError("execve", unix.Exec(program, os.Args, os.Environ()))
}

// sameFile reports whether two paths lead to the same file, which is how
// namespaces are told apart.
func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}
