package acceptance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gperf/internal/netnstest"
)

// A packet is on its way over a delayed link.
type packet struct {
	due  time.Time
	data []byte
}

// farApart makes two namespaces joined by a link on which a packet takes delay:
// a pair of TUN devices whose packets this process carries from one to the other. a has 10.78.0.1 and
// b 10.78.0.2. The link is good for some 100 Mbit/s.
func farApart(t *testing.T, delay time.Duration) (a, b *netnstest.NS) {
	t.Helper()
	a, b = netnstest.New(t), netnstest.New(t)
	a.Addr4, b.Addr4 = netip.MustParseAddr("10.78.0.1"), netip.MustParseAddr("10.78.0.2")
	x, y := tun(t, a, b.Addr4), tun(t, b, a.Addr4)
	t.Cleanup(func() {
		_ = x.Close()
		_ = y.Close()
	})
	go carry(x, y, delay)
	go carry(y, x, delay)
	return a, b
}

// tun makes n's device to its peer and returns the descriptor behind it.
func tun(t *testing.T, n *netnstest.NS, peer netip.Addr) *os.File {
	t.Helper()
	n.Device = "tun0"
	var file *os.File
	err := n.Do(func() error {
		const path = "/dev/net/tun"
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		ifr, err := unix.NewIfreq(n.Device)
		if err == nil {
			ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = os.NewSyscallError("ioctl TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr))
		}
		if err != nil {
			_ = unix.Close(fd)
			return err
		}
		file = os.NewFile(uintptr(fd), path)
		link, err := netlink.LinkByName(n.Device)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetTxQLen(link, 10000); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		host := func(a netip.Addr) *net.IPNet { return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)} }
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: host(n.Addr4), Peer: host(peer)})
	})
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		t.Skip("needs TUN devices: ", err)
	}
	if err != nil {
		t.Fatalf("make a TUN device: %v", err)
	}
	return file
}

// carry takes packets from one device to the other until either is closed.
func carry(from, to *os.File, delay time.Duration) {
	way := make(chan packet, 1<<14)
	go func() {
		for p := range way {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data) // one that the device refuses is lost, as on any link
		}
	}()
	defer close(way)
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		way <- packet{time.Now().Add(delay), append([]byte(nil), buf[:n]...)}
	}
}

func TestFarApart(t *testing.T) {
	t.Parallel()
	a, b := farApart(t, 5*time.Millisecond)
	s := serve(t, place{ns: b}, "--listen", fmt.Sprintf("%v:0", b.Addr4))
	o := s.complete(place{ns: a}, "-t", "TCP_RR", "-d", "0.2")
	if rtt := o.Summary.RTT; rtt == nil || rtt.Min < 10e3 { // longer on a busy machine
		t.Errorf("the link of 5 ms each way has a least RTT of %+v", rtt)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
