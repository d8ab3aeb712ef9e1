package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// A child is the server that a client without a host starts: a process of its
// own, so that each end has its own runtime and CPU accounts.
type child struct {
	addr netip.AddrPort
	done chan error
}

// startServer starts it on a free port of loopback and returns when it's ready.
// It serves one test and ends; it also ends when this process does.
func startServer(stderr io.Writer) (*child, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "server", "--listen", "127.0.0.1:0", "--once")
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // Ctrl-C is for the client, which ends the test in order
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &child{done: make(chan error, 1)}
	started := make(chan error, 1)
	go func() {
		// The death signal comes when the thread that forked ends: it has to
		// live as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.done <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(errors.New("it ended without being ready"), <-c.done)
	}
	_, text, _ := strings.Cut(strings.TrimSpace(line), readyWords)
	if c.addr, err = netip.ParseAddrPort(text); err != nil {
		return nil, fmt.Errorf("it said %q instead of its address", line)
	}
	return c, nil
}

// wait waits for the server's end, which follows the test's.
func (c *child) wait() { <-c.done }
