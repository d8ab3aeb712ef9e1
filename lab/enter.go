package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// variable is the environment variable by which a process knows that Enter has
// started it: the process that did and the namespace that it was in. Neither
// holds for a process that got the variable by another way.
const variable = "GPERF_LAB_PARENT"

// Enter starts this program again inside a new network namespace, with the same
// arguments, environment, descriptors and standard streams, waits for it and
// returns its exit status: 128 and the signal's number if a signal ended it.
// inside is true in the process that was started: go on there, with Open.
//
// It makes the namespace with CAP_SYS_ADMIN and CAP_NET_ADMIN, and else in a
// new user namespace, in which the caller is root (user_namespaces(7)).
//
// Call it before the program has started anything or written to stdout. Signals
// that ask a process to end, stop or continue are passed on. The process inside
// dies with this one (PR_SET_PDEATHSIG in prctl(2)), and what it leaves running
// dies with it. For that there is a third process of the program, which doesn't
// return from Enter.
func Enter(kind Kind) (status int, inside bool, err error) {
	guardIfAsked()
	if err := kind.check(); err != nil {
		return 0, false, err
	}
	own, err := namespaceID()
	if err != nil {
		return 0, false, err
	}
	if enteredBy(own) {
		return 0, true, nil
	}
	// The death signal comes when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o, err := start(own)
	if err != nil {
		return 0, false, fmt.Errorf("enter lab: %w", err)
	}
	status, err = o.wait()
	return status, false, err
}

// namespaceID names the network namespace of the process.
func namespaceID() (string, error) {
	id, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "", fmt.Errorf("this kernel has no network namespaces: %w", err)
	}
	return id, nil
}

// enteredBy reports whether Enter has started this process, whose namespace is
// own. The variable goes, for it isn't true of the processes started here.
func enteredBy(own string) bool {
	inside.Lock()
	defer inside.Unlock()
	pid, outer, ok := strings.Cut(os.Getenv(variable), " ")
	_ = os.Unsetenv(variable)
	if ok && pid == strconv.Itoa(os.Getppid()) && outer != own {
		inside.yes, inside.from = true, outer
	}
	return inside.yes
}

// privileged reports whether this process can make network namespaces and
// devices in them without a user namespace.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 has 64 bits in two words
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	const need = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	return data[0].Effective&need == need
}

// An outer is the process inside as the outer one sees it.
type outer struct {
	pid      int
	terminal bool         // it has the terminal's foreground
	shared   bool         // it is in our own process group
	group    int          // our own process group
	before   map[int]bool // children that we had already
	signals  chan os.Signal
}

// passedOn are the signals that the outer process passes on. The process inside
// has a process group of its own, so that signals to our group come once and
// not a second time by way of us. Those that a terminal sends to a group (true)
// go to the whole of that one.
var passedOn = map[os.Signal]bool{
	unix.SIGHUP: true, unix.SIGINT: true, unix.SIGQUIT: true, unix.SIGTSTP: true, unix.SIGWINCH: true,
	unix.SIGTERM: false, unix.SIGUSR1: false, unix.SIGUSR2: false,
}

func start(own string) (*outer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: program, Args: os.Args,
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d %s", variable, os.Getpid(), own)),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWNET,
			Pdeathsig:  syscall.SIGKILL,
			Setpgid:    true,
		},
	}
	if !privileged() {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	o := &outer{group: unix.Getpgrp(), before: map[int]bool{}, signals: make(chan os.Signal, 16)}
	// A program that reads the terminal has to be in its foreground group. If
	// our output goes elsewhere, that may be a pager, which has to be there
	// too: then it stays in our group, with us.
	if foreground(os.Stdin) == o.group {
		o.terminal = foreground(os.Stdout) == o.group
		o.shared = !o.terminal
		cmd.SysProcAttr.Setpgid = o.terminal
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = o.terminal, int(os.Stdin.Fd())
	}
	for _, pid := range children() {
		o.before[pid] = true
	}
	// What is left running when the process inside has ended becomes our
	// child, and can be found.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", err)
	}
	for s := range passedOn {
		if !signal.Ignored(s) { // as nohup(1) wants it
			signal.Notify(o.signals, s)
		}
	}
	if err := cmd.Start(); err != nil {
		signal.Stop(o.signals)
		if cmd.SysProcAttr.Cloneflags&unix.CLONE_NEWUSER != 0 && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("a network namespace needs CAP_SYS_ADMIN and CAP_NET_ADMIN, or user namespaces, which this system refuses: %w", err)
		}
		return nil, err
	}
	o.pid = cmd.Process.Pid
	_ = cmd.Process.Release() // wait4 below also tells of stops
	return o, nil
}

// wait passes signals on until the process inside has ended, and returns its
// status.
func (o *outer) wait() (int, error) {
	go func() {
		for s := range o.signals {
			to := o.pid
			if passedOn[s] {
				to = -o.pid
				if o.shared {
					continue // the terminal has sent it there as well
				}
			}
			_ = unix.Kill(to, s.(unix.Signal)) // it may have ended just now
		}
	}()
	defer close(o.signals)
	defer signal.Stop(o.signals)
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(o.pid, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, os.NewSyscallError("wait4", err)
		case ws.Stopped():
			o.stop()
		default:
			o.takeTerminal(o.group)
			o.killRest()
			if ws.Signaled() {
				return 128 + int(ws.Signal()), nil
			}
			return ws.ExitStatus(), nil
		}
	}
}

// stop stops this process as well, so that a shell sees its job stopped, and
// wakes the process inside when it is continued.
func (o *outer) stop() {
	o.takeTerminal(o.group)
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	// Continued. Only a shell's fg gives the terminal back, bg doesn't.
	if foreground(os.Stdin) == o.group {
		o.takeTerminal(o.pid)
	}
	if !o.shared {
		_ = unix.Kill(-o.pid, unix.SIGCONT)
	}
}

// takeTerminal makes a process group the foreground one of the terminal, if the
// process inside has had the foreground.
func (o *outer) takeTerminal(group int) {
	if !o.terminal {
		return
	}
	// A background process that does this gets SIGTTOU, which would stop it.
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, group) // the terminal may be gone
	signal.Reset(unix.SIGTTOU)
}

// foreground is the foreground process group of a terminal, or -1.
func foreground(f *os.File) int {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// killRest kills what the process inside has left running. Each that dies may
// hand its own children to us.
func (o *outer) killRest() {
	for {
		var rest []int
		for _, pid := range children() {
			if !o.before[pid] {
				rest = append(rest, pid)
			}
		}
		if len(rest) == 0 {
			return
		}
		for _, pid := range rest {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for _, pid := range rest {
			for {
				if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
					break
				}
			}
		}
	}
}

// children lists the processes whose parent is this one.
func children() []int {
	self := strconv.Itoa(os.Getpid())
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// proc_pid_stat(5): pid (name) state parent ... The name may hold
		// anything, also a parenthesis.
		text := string(b)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || fields[1] != self {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
