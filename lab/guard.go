package lab

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guard is a third process of the program, in the lab. The death signal
// reaches only what the process inside has started itself; what that has put
// into the background would outlive kill -9, and with it the namespaces. The
// guard waits for the process inside to end, by whatever way, kills what is
// left in them, and ends.

// guardVariable is the environment variable by which a process knows that it is
// to be the guard of its parent. Its value is the parent's process id and the
// namespace that the lab was entered from.
const guardVariable = "GPERF_LAB_GUARD"

// A guard is the guard as the process inside sees it.
type guard struct {
	cmd  *exec.Cmd
	pipe io.Closer // its other end is at its end when this process is
}

// startGuard starts the guard of a lab and returns when it is on watch.
func startGuard(places []*place) (*guard, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: program, Args: os.Args,
		Env:         append(os.Environ(), fmt.Sprintf("%s=%d %s", guardVariable, os.Getpid(), inside.from)),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // a terminal's signals aren't for it
	}
	for _, p := range places {
		if p.ns != nil {
			cmd.ExtraFiles = append(cmd.ExtraFiles, p.ns)
		}
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of the lab: %w", err)
	}
	if said, err := io.ReadAll(stdout); err != nil || string(said) != onWatch {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("the guard of the lab ended: %w", cmp.Or(err, cmd.Wait()))
	}
	return &guard{cmd, pipe}, nil
}

// onWatch is what the guard says when it is. It closes stdout then.
const onWatch = "on watch\n"

// end has the guard kill what there is in the lab, and waits for it.
func (g *guard) end() error {
	_ = g.pipe.Close()
	return g.cmd.Wait()
}

// guardIfAsked is the guard, in a process that is to be one, and doesn't return
// there.
func guardIfAsked() {
	value, asked := os.LookupEnv(guardVariable)
	if !asked {
		return
	}
	text, outer, _ := strings.Cut(value, " ")
	parent, err := strconv.Atoi(text)
	own, err2 := namespaceID()
	// It kills all that is in its namespace: that has to be the lab's.
	if err != nil || err2 != nil || parent != os.Getppid() || own == outer || !strings.HasPrefix(outer, "net:") {
		fmt.Fprintf(os.Stderr, "%s is set, but not for this process\n", guardVariable)
		os.Exit(1)
	}
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP)
	var namespaces []unix.Stat_t
	for _, path := range []string{"/proc/self/ns/net", "/proc/self/fd/3"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil { // the second is there in a Veth lab only
			namespaces = append(namespaces, st)
		}
	}
	_, _ = os.Stdout.WriteString(onWatch)
	_ = os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := processes(namespaces, os.Getpid(), parent)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	os.Exit(0)
}

// processes lists the processes in namespaces but for some.
func processes(namespaces []unix.Stat_t, except ...int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		var st unix.Stat_t
		if err != nil || slices.Contains(except, pid) || unix.Stat(dir+"/ns/net", &st) != nil {
			continue // gone, a zombie, or another user's
		}
		if slices.ContainsFunc(namespaces, func(ns unix.Stat_t) bool { return ns.Dev == st.Dev && ns.Ino == st.Ino }) {
			pids = append(pids, pid)
		}
	}
	return pids
}
