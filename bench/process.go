package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds what a tool may take beyond its window.
const patience = 15 * time.Second

// A child is a process that this program has started, and ends.
type child struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer // to be read when it has ended
	ended          chan struct{}
}

// start starts argv, with stdin if that isn't nil. It ends with ctx, with the thread of the caller, which
// must not run out before, and by kill.
func start(ctx context.Context, argv []string, stdin *os.File) (*child, error) {
	c := &child{Cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ended: make(chan struct{})}
	if c.Stdout, c.Stderr = &c.stdout, &c.stderr; stdin != nil {
		c.Stdin = stdin
	}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.Wait() // the status is in ProcessState
		close(c.ended)
	}()
	return c, nil
}

// kill ends the process, if it hasn't ended, and waits for that.
func (c *child) kill() {
	_ = c.Process.Kill()
	<-c.ended
}

// failure says how the process failed, nil if it ended well.
func (c *child) failure() error {
	<-c.ended
	if c.ProcessState.Success() {
		return nil
	}
	said := strings.TrimSpace(c.stderr.String() + " " + c.stdout.String())
	if len(said) > 300 {
		said = said[:300] + "..."
	}
	return fmt.Errorf("%s: %v: %s", c.Args[0], c.ProcessState, said)
}

// usedCPU is the user and system time of a process that has ended, as wait4(2)
// gives it: in microseconds, and with its children that it has waited for.
func (c *child) usedCPU() time.Duration {
	<-c.ended
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// runningCPU is the user and system time that all threads of a process have
// used so far, those that have ended as well. /proc/PID/stat has the same
// figure, but in ticks of 10 ms, and that is a percent or two of a run; the
// process's CPU clock has it in nanoseconds.
func (c *child) runningCPU() (time.Duration, error) {
	const schedClock = 2                           // CPUCLOCK_SCHED, of include/linux/posix-timers.h
	clock := ^int32(c.Process.Pid)<<3 | schedClock // as clock_getcpuclockid(3) makes it
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of %s: %w", c.Args[0], err)
	}
	return time.Duration(ts.Nano()), nil
}

// ports are two ports of 127.0.0.1.
type ports [2]string

// freePorts finds ports that are free now. Somebody else may take one before
// the server does, which then fails its row.
func freePorts() (p ports, err error) {
	for i := range p {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return p, err
		}
		defer l.Close()
		if _, p[i], err = net.SplitHostPort(l.Addr().String()); err != nil {
			return p, err
		}
	}
	return p, nil
}

// ready waits until the process listens on a port. It looks instead of
// connecting, which one-shot servers would take for their client.
func (c *child) ready(ctx context.Context, port string) error {
	var n int
	if _, err := fmt.Sscan(port, &n); err != nil {
		return err
	}
	listening := fmt.Sprintf(":%04X 00000000:0000 0A", n)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return err
		}
		if strings.Contains(string(table), listening) {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.ended:
			return errors.Join(errors.New("the server ended at once"), c.failure())
		case <-timeout:
			return fmt.Errorf("%s does not listen on port %s", c.Args[0], port)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
