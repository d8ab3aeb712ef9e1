//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gperf/control"
)

var loopback = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))

// listeners is the key of the listeners that a script has opened, by address.
type listeners struct{}

// listen VAR opens a listener and puts its address into a variable. Nobody
// accepts from it: a connection would wait in it, seen by untouched.
func cmdListen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen VAR")
	}
	l, err := net.ListenTCP("tcp4", loopback)
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
	ts.Value(listeners{}).(map[string]*net.TCPListener)[l.Addr().String()] = l
}

// untouched ADDR: nothing has connected to the listener.
func cmdUntouched(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] untouched ADDR")
	}
	l := ts.Value(listeners{}).(map[string]*net.TCPListener)[args[0]]
	if l == nil {
		ts.Fatalf("%s is no listener of this script", args[0])
	}
	if touched := connections(ts, l) > 0; touched != neg {
		ts.Fatalf("connections: %v", touched)
	}
}

// connections takes in what waits in a listener. A client that has ended can't
// have a connection still on its way to it on the same machine.
func connections(ts *testscript.TestScript, l *net.TCPListener) (n int) {
	for ; ; n++ {
		ts.Check(l.SetDeadline(time.Now().Add(time.Millisecond)))
		c, err := l.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return n
		}
		ts.Check(err)
		_ = c.Close()
	}
}

// peer KIND VAR starts a peer that is no gperf server, or not one of ours, and
// puts its address into a variable.
func cmdPeer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || peers[args[0]] == nil {
		ts.Fatalf("usage: peer KIND VAR")
	}
	addr, stop, err := startPeer(peers[args[0]])
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv(args[1], addr)
}

// peers are ways to treat a connection, which is closed after.
var peers = map[string]func(c net.Conn){
	"closing": func(net.Conn) {},
	"silent":  await,
	"ssh": func(c net.Conn) {
		fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n")
		await(c)
	},
	"http": func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	},
	"short": func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		fmt.Fprint(c, "hi")
	},
	"hostile": func(c net.Conn) {
		fmt.Fprint(c, "\x1b[2J\x1b]0;owned\a and more of the same kind")
		await(c)
	},
	// A gperf of the future.
	"major": func(c net.Conn) {
		hello(c, control.Version{Major: control.Current.Major + 8})
		await(c)
	},
	// One that says hello and nothing else.
	"mute": func(c net.Conn) {
		hello(c, control.Current)
		await(c)
	},
	// One that answers the first question with an error of its own.
	"refusing": func(c net.Conn) {
		hello(c, control.Current)
		_ = control.NewConn(c).Send(control.TypeError, control.Error{Kind: "plan", Message: "not\x1b[31m today\nnor tomorrow", End: "server"})
		await(c)
	},
}

// await reads until the other end closes.
func await(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func hello(c net.Conn, v control.Version) {
	conn := control.NewConn(c)
	if _, _, err := conn.Receive(); err == nil {
		_ = conn.Send(control.TypeHello, control.Hello{Magic: control.Magic, Version: v, Program: "gperf 9.9"})
	}
}

func startPeer(treat func(net.Conn)) (addr string, stop func(), err error) {
	l, err := net.ListenTCP("tcp4", loopback)
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // stopped
			}
			go func() {
				defer c.Close()
				treat(c)
			}()
		}
	}()
	return l.Addr().String(), func() { _ = l.Close() }, nil
}

// server VAR [ARG...] starts a gperf server on a free port of loopback, which
// ends with the script, and puts its address into a variable once it's ready.
func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server VAR [ARG...]")
	}
	path, err := os.Executable()
	ts.Check(err)
	cmd := &exec.Cmd{Path: path, Args: append([]string{"gperf", "server", "--listen", "127.0.0.1:0"}, args[1:]...), Dir: ts.Getenv("WORK")}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr, err := readyAddr(bufio.NewReader(out))
	ts.Check(err)
	ts.Setenv(args[0], addr.String())
}

// readyAddr is the address in a server's ready line.
func readyAddr(r *bufio.Reader) (netip.AddrPort, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("no ready line: %q, %w", line, err)
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "gperf server listening on ")
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("not a ready line: %q", line)
	}
	return netip.ParseAddrPort(text)
}

// serve starts a server as given, and returns its port once it's ready.
func serve(t testing.TB, cmd *exec.Cmd) (port string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	addr, err := readyAddr(bufio.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(addr.Port()))
}
