package splice_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/splice"
)

// sysctl reads a limit of pipes.
func sysctl(t testing.TB, name string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/fs/" + name)
	must(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must(t, err)
	return n
}

func TestPipeSize(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	for _, tt := range []struct{ ask, want int }{
		{0, 16 * page},
		{1, page},
		{page, page},
		{page + 904, 2 * page},
		{16 * page, 16 * page},
		{24*page + 1696, 32 * page}, // 100000 with pages of 4096
	} {
		p, err := splice.NewPipe(tt.ask)
		must(t, err)
		if got, err := p.Reported(); p.Size() != tt.want || got != tt.want || err != nil {
			t.Errorf("%d: %d, reported %d, %v; want %d", tt.ask, p.Size(), got, err, tt.want)
		}
		must(t, p.Close())
	}
	if _, err := splice.NewPipe(-1); err == nil {
		t.Error("a negative size")
	}
	if _, err := splice.NewPipe(1 << 40); err == nil {
		t.Error("a size beyond any pipe")
	}
}

func TestPipeQueued(t *testing.T) {
	t.Parallel()
	p, err := splice.NewPipe(0)
	must(t, err)
	if n, err := p.Queued(); n != 0 || err != nil {
		t.Errorf("empty: %d, %v", n, err)
	}
	_, err = unix.Write(p.W, make([]byte, 5000))
	must(t, err)
	if n, err := p.Queued(); n != 5000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	must(t, p.Close())
}

// asNobody calls f on a thread of a user without privileges. Linux gives each
// thread its own user (credentials(7)); setresuid(2) by hand changes only one.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		const nobody = 65534
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		if errno == 0 {
			f()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(os.NewSyscallError("setresuid", errno))
	}
}

// A pipe above the limit of the system.
func TestPipeMaxSize(t *testing.T) {
	t.Parallel()
	largest := sysctl(t, "pipe-max-size")
	check := func() {
		_, err := splice.NewPipe(largest + 1)
		want := fmt.Sprintf("pipe of %d bytes: limited by fs.pipe-max-size=%d: fcntl F_SETPIPE_SZ: operation not permitted", largest+1, largest)
		limited, ok := errors.AsType[*splice.LimitError](err)
		if !ok || err.Error() != want || !errors.Is(err, unix.EPERM) || len(limited.Limits) != 1 || limited.Limits[0].Value != largest {
			t.Errorf("%v, want %s", err, want)
		}
	}
	asNobody(t, check)
	if p, err := splice.NewPipe(largest + 1); err == nil {
		// This process has CAP_SYS_RESOURCE, and the limit isn't for it.
		if p.Size() <= largest {
			t.Errorf("the pipe has %d bytes", p.Size())
		}
		must(t, p.Close())
	} else {
		check()
	}
}

// The limit of a user without privileges: large pipes are refused, and those that
// the kernel silently makes smaller are found out.
func TestPipeUserLimit(t *testing.T) {
	t.Parallel()
	soft, largest := sysctl(t, "pipe-user-pages-soft"), sysctl(t, "pipe-max-size")
	if soft == 0 || soft*os.Getpagesize()/largest > 1000 {
		t.Skip("fs.pipe-user-pages-soft is no limit here")
	}
	asNobody(t, func() {
		var pipes []*splice.Pipe
		defer func() {
			for _, p := range pipes {
				_ = p.Close()
			}
		}()
		most := soft * os.Getpagesize() / largest
		var err error
		for err == nil {
			var p *splice.Pipe
			if p, err = splice.NewPipe(largest); err == nil {
				if pipes = append(pipes, p); len(pipes) > most || p.Size() != largest {
					t.Errorf("pipe %d has %d bytes, in spite of fs.pipe-user-pages-soft=%d", len(pipes), p.Size(), soft)
					return
				}
			}
		}
		want := fmt.Sprintf("pipe of %d bytes: limited by fs.pipe-user-pages-soft=%d: fcntl F_SETPIPE_SZ: operation not permitted", largest, soft)
		if hard := sysctl(t, "pipe-user-pages-hard"); hard == 0 && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		// What is left of the limit, in pipes of the default size.
		for err = nil; err == nil && len(pipes) < most+1000; {
			var p *splice.Pipe
			if p, err = splice.NewPipe(0); err == nil {
				pipes = append(pipes, p)
			}
		}
		limited, ok := errors.AsType[*splice.LimitError](err)
		if !ok || limited.Got == 0 || limited.Got >= limited.Size || limited.Err != nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("limited by fs.pipe-user-pages-soft=%d: the kernel gave %d bytes", soft, limited.Got)) {
			t.Errorf("the default size: %v", err)
		}
		// One that is as small as the kernel gives them is as asked.
		if p, err := splice.NewPipe(1); err != nil || p.Size() != os.Getpagesize() {
			t.Errorf("the smallest: %v", err)
		} else {
			_ = p.Close()
		}
		// A mover's pipe is no other.
		if _, err := splice.NewSink(largest, nil, 0); !errors.As(err, &limited) {
			t.Errorf("sink: %v", err)
		}
	})
	// Privileged users pass that limit.
	var pipes []*splice.Pipe
	for range soft*os.Getpagesize()/largest + 1 {
		p, err := splice.NewPipe(largest)
		must(t, err)
		pipes = append(pipes, p)
	}
	for _, p := range pipes {
		must(t, p.Close())
	}
}
