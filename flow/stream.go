package flow

import (
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// sendStream is the loop of a bulk sender: one send per message, and where the
// kernel cuts one short, the rest of it before the next begins, so that the
// byte stream is exact. With a limit the last message is shortened to it.
func sendStream(w *worker) {
	var (
		sent, calls uint64
		message     = w.send
		rest        = message // what is still to go of the current message
	)
	for !w.group.stopped.Load() {
		if w.limit > 0 {
			left := w.limit - sent
			if left == 0 {
				return
			}
			rest = rest[:min(uint64(len(rest)), left)]
		}
		n, errno := sys.Send(w.fd, rest, unix.MSG_NOSIGNAL)
		if errno != 0 {
			if !w.interrupted("send", errno) {
				return
			}
			continue
		}
		sent += uint64(n)
		w.sent.Store(sent)
		calls++
		w.sendCalls.Store(calls)
		if n < len(rest) {
			w.shortSends.Add(1)
			rest = rest[n:]
		} else {
			rest = message
		}
	}
}

// receiveStream is the loop of a bulk receiver. With a limit it never asks for
// a byte more than the limit.
func receiveStream(w *worker) {
	var (
		received, calls uint64
		into            = w.receive
	)
	for !w.group.stopped.Load() {
		if w.limit > 0 {
			left := w.limit - received
			if left == 0 {
				return
			}
			into = into[:min(uint64(len(into)), left)]
		}
		n, errno := sys.Recv(w.fd, into, 0)
		if errno != 0 {
			if !w.interrupted("recv", errno) {
				return
			}
			continue
		}
		if n == 0 {
			w.closedEarly()
			return
		}
		received += uint64(n)
		w.received.Store(received)
		calls++
		w.receiveCalls.Store(calls)
	}
}
