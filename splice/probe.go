package splice

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// ErrUntried is matched by the error of a probe that could not be made, as in a
// network namespace whose loopback device is down. It says nothing about the mover.
var ErrUntried = errors.New("not tried")

// The senders and receivers that ProbeSender and ProbeReceiver know.
const (
	SendSendfile = "sendfile"
	SendTee      = "tee"
	SendVmsplice = "vmsplice"
	SendZerocopy = "zerocopy"

	ReceiveDiscard = "discard"
	ReceiveSplice  = "splice"
	ReceiveMapped  = "zerocopy"
)

// ProbeSender sends a few bytes by a sender over a scratch connection on loopback
// and returns why the kernel doesn't let this process do that, or nil. protocol is
// that of socket(2): 0 or IPPROTO_TCP for TCP, IPPROTO_MPTCP.
func ProbeSender(name string, protocol int) error {
	return probe(protocol, func(out, in int) error {
		payload, err := NewPayload(Pattern(), 1)
		if err != nil {
			return err
		}
		defer payload.Close()
		sender, done, err := probed(name, payload, out)
		if err != nil {
			return err
		}
		defer done()
		moved, errno := 0, unix.EINTR
		for errno == unix.EINTR {
			moved, _, errno = sender.Send(out, PatternPeriod, 0)
		}
		if errno != 0 {
			return fmt.Errorf("send %s: %w", name, os.NewSyscallError(sender.Op(), errno))
		}
		return arrived(name, in, moved)
	})
}

// probed makes the sender to try.
func probed(name string, payload *Payload, fd int) (Sender, func(), error) {
	var (
		sender Sender
		err    error
		after  = func() {}
	)
	switch name {
	case SendSendfile:
		sender, err = NewSendfile(payload.File())
	case SendVmsplice:
		sender, err = NewVmsplice(os.Getpagesize(), payload, 0)
	case SendZerocopy:
		sender, err = NewZerocopy(payload, fd)
	case SendTee:
		var standing *Standing
		if standing, err = NewStanding(os.Getpagesize(), payload.Bytes()); err == nil {
			after = func() { _ = standing.Close() }
			sender, err = NewTee(standing, 0)
		}
	default:
		err = errors.New("unknown sender")
	}
	if err != nil {
		after()
		return nil, nil, fmt.Errorf("send %s: %w", name, err)
	}
	return sender, func() { _ = sender.Close(); after() }, nil
}

// arrived checks that the peer has got the first n bytes of the pattern.
func arrived(name string, fd, n int) error {
	p := make([]byte, n)
	for got := 0; got < n; {
		more, errno := sys.Recv(fd, p[got:], 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return fmt.Errorf("send %s: %d of %d bytes arrived: %w", name, got, n, os.NewSyscallError("recv", errno))
		}
		if more == 0 {
			return fmt.Errorf("send %s: only %d of %d bytes arrived", name, got, n)
		}
		got += more
	}
	if at := CheckPattern(p, 0); at >= 0 {
		return fmt.Errorf("send %s: byte %d arrived wrong", name, at)
	}
	return nil
}

// ProbeReceiver is ProbeSender for a receiver.
func ProbeReceiver(name string, protocol int) error {
	return probe(protocol, func(out, in int) error {
		var (
			receiver Receiver
			err      error
		)
		switch name {
		case ReceiveDiscard:
			receiver = NewDiscard()
		case ReceiveSplice:
			receiver, err = NewSink(os.Getpagesize(), nil, 0)
		case ReceiveMapped:
			receiver, err = NewMapped(in, 4*os.Getpagesize())
		default:
			err = errors.New("unknown receiver")
		}
		if err != nil {
			return fmt.Errorf("receive %s: %w", name, err)
		}
		defer receiver.Close()
		// More than a page, so that mapping is really asked for.
		const n = 2 * PatternPeriod
		sent, errno := sys.Send(out, pattern()[:n], unix.MSG_NOSIGNAL)
		if errno != 0 || sent != n {
			return fmt.Errorf("%w: send: %d bytes: %w", ErrUntried, sent, errno)
		}
		for got := 0; got < n; {
			moved, _, errno := receiver.Receive(in, n-got, 0)
			if errno == unix.EINTR {
				continue
			}
			if errno != 0 {
				return fmt.Errorf("receive %s: %w", name, os.NewSyscallError(receiver.Op(), errno))
			}
			if moved == 0 {
				return fmt.Errorf("receive %s: only %d of %d bytes came", name, got, n)
			}
			got += moved
		}
		return nil
	})
}

// probe calls f with both ends of a connection.
func probe(protocol int, f func(out, in int) error) error {
	out, in, err := connected(protocol)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUntried, err)
	}
	defer unix.Close(out)
	defer unix.Close(in)
	return f(out, in)
}

// connected makes a connection over loopback, whose calls wait for a second.
func connected(protocol int) (out, in int, err error) {
	listener, err := tcpSocket(protocol)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(listener)
	if err := unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, 0, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(listener, 1); err != nil {
		return 0, 0, os.NewSyscallError("listen", err)
	}
	address, err := unix.Getsockname(listener)
	if err != nil {
		return 0, 0, os.NewSyscallError("getsockname", err)
	}
	if out, err = tcpSocket(protocol); err != nil {
		return 0, 0, err
	}
	if err := connect(out, address); err != nil {
		_ = unix.Close(out)
		return 0, 0, os.NewSyscallError("connect", err)
	}
	// It is in the listener's queue.
	if in, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC); err != nil {
		_ = unix.Close(out)
		return 0, 0, os.NewSyscallError("accept4", err)
	}
	// Only now: with a time-out any signal would have ended the connect.
	limit := unix.NsecToTimeval(int64(time.Second))
	for _, fd := range []int{out, in} {
		for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
				_, _ = unix.Close(out), unix.Close(in)
				return 0, 0, os.NewSyscallError("setsockopt", err)
			}
		}
	}
	return out, in, nil
}

// connect is connect(2) that gives up after a second: a loopback device that is
// down swallows what is sent.
func connect(fd int, address unix.Sockaddr) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := unix.Connect(fd, address); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	for deadline := sys.Monotonic() + int64(time.Second); ; {
		ready, errno := sys.Poll(fd, unix.POLLOUT, max(deadline-sys.Monotonic(), 0))
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return errno
		case ready == 0:
			return unix.ETIMEDOUT
		}
		break
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if code != 0 {
		return unix.Errno(code)
	}
	return unix.SetNonblock(fd, false)
}

func tcpSocket(protocol int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
	return fd, os.NewSyscallError("socket", err)
}
