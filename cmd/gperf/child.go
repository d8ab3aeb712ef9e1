//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"gperf/lab"
	"gperf/sockopt"
)

// A child is the server that a client without a host starts: a process of its
// own, so that each end has its own runtime and CPU accounts.
type child struct {
	addr   netip.AddrPort
	cmd    *exec.Cmd
	stderr bytes.Buffer // safe to read when done has spoken
	done   chan error
}

// startServer starts it on a free port of loopback or, if there is a lab, at its
// server's end on every address and the usual ports, and returns when it's ready.
// It also ends when this process does.
func startServer(in *lab.Lab) (*child, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{done: make(chan error, 1)}
	args := []string{"gperf", "server", "--listen", "127.0.0.1:0", "--netperf", netperfOff}
	if in != nil {
		args = []string{"gperf", "server"}
	}
	c.cmd = &exec.Cmd{
		Path: path, Args: args,
		Stderr: &c.stderr,
		SysProcAttr: &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL,
			Setpgid:   true, // Ctrl-C is for the client, which ends the test in order
		},
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	read := make(chan struct{})
	go func() {
		// The death signal comes when the thread that forked ends: it has to
		// live as long as the child.
		runtime.LockOSThread()
		start := c.cmd.Start
		if in != nil {
			start = func() error { return in.Start(sockopt.Server, c.cmd) }
		}
		err := start()
		started <- err
		if err == nil {
			<-read // Wait closes the pipe
			c.done <- c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	close(read)
	if err != nil {
		err := <-c.done
		if said := strings.TrimPrefix(strings.TrimSpace(c.stderr.String()), "gperf: server: "); said != "" {
			err = errors.New(said)
		}
		return nil, fmt.Errorf("it ended without being ready: %w", err)
	}
	_, text, _ := strings.Cut(strings.TrimSpace(line), readyWords)
	if c.addr, err = netip.ParseAddrPort(text); err != nil {
		c.end(io.Discard)
		return nil, fmt.Errorf("it said %q instead of its address", line)
	}
	return c, nil
}

// childGrace is how long a server that was told to end may take.
const childGrace = time.Second

// end ends the server, which has nothing more to do: a test that never reached
// it leaves it waiting. What it had to say is passed on.
func (c *child) end(stderr io.Writer) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	timer := time.AfterFunc(childGrace, func() { _ = c.cmd.Process.Kill() })
	<-c.done
	timer.Stop()
	_, _ = stderr.Write(c.stderr.Bytes())
}
