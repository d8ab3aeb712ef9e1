package sys

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ControlTimeout is how long a control connection may go unacknowledged.
const ControlTimeout = 10 * time.Second

// controlPriority is the highest that needs no privilege (socket(7)). Queueing
// disciplines that look at it send control messages ahead of bulk data.
const controlPriority = 6

// ControlConn makes a net.Conn of a connected descriptor, which it takes over:
// the control connection, the only one that may be one, for Go sets options of
// its own on it. It is quick (TCP_NODELAY, which Go sets), ahead of bulk data in
// the queues of this host, and given up when the peer acknowledges nothing.
func ControlConn(fd int) (net.Conn, error) {
	if err := TuneControl(fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "control")
	defer f.Close() // FileConn has a descriptor of its own
	return net.FileConn(f)
}

// TuneControl sets the options of a control connection, never used on data
// sockets: TCP_USER_TIMEOUT and SO_PRIORITY. (Go's net package adds TCP_NODELAY
// and keep-alive to the connection that it makes of the descriptor.)
func TuneControl(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ControlTimeout/time.Millisecond)); err != nil {
		return fmt.Errorf("setsockopt TCP_USER_TIMEOUT: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, controlPriority); err != nil {
		return fmt.Errorf("setsockopt SO_PRIORITY: %w", err)
	}
	return nil
}
