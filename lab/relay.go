package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gperf/internal/sys"
	"gperf/internal/units"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// gperf's own link: a TUN device in each namespace, and between them, for each
// direction, a thread that reads packets from one and a thread that writes each
// to the other when its time has come. Unlike netem (tc-netem(8)) it needs no
// module, is the same on each kernel, loses the same packets each time and says
// what it has done; unlike a veth pair it costs CPU time of this process, two
// system calls a packet.

// LinkStats are the counters of gperf's own link since the last Apply, by the
// end that sends. Of the packets that the kernel sends by itself, those to
// multicast addresses take no part in loss and aren't counted.
type LinkStats struct {
	Client DirectionStats `json:"client"`
	Server DirectionStats `json:"server"`
}

// DirectionStats are the counters of one direction. A packet of TSO counts as
// one, with the bytes that its frames would have on a wire.
type DirectionStats struct {
	Packets        int64 `json:"packets"` // that came to the link, the dropped ones with them
	Bytes          int64 `json:"bytes"`   // of those, as Ethernet frames
	Lost           int64 `json:"lost_packets"`
	QueueDrops     int64 `json:"queue_dropped_packets"`  // found the link-queue full
	MemoryDrops    int64 `json:"memory_dropped_packets"` // found no memory: more in flight than the link is made for
	DeviceDrops    int64 `json:"device_dropped_packets"` // the TUN device was full before gperf came to read
	Failed         int64 `json:"failed_packets"`         // the other device didn't take
	Reordered      int64 `json:"reordered_packets"`      // skipped the delay
	QueueHighBytes int64 `json:"queue_high_bytes"`       // most that waited for the rate at one time
}

// tunPath is the device node; see Documentation/networking/tuntap.rst of the
// kernel.
const tunPath = "/dev/net/tun"

// checkTUN says why gperf's own link can't be made here.
func checkTUN() error {
	err := unix.Faccessat(unix.AT_FDCWD, tunPath, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("a link of this kind needs TUN devices, and there is no %s", tunPath)
	case err != nil:
		return fmt.Errorf("a link of this kind needs TUN devices, and this user may not open %s: %w", tunPath, err)
	}
	return nil
}

const (
	// vnetHeader is the size in bytes of struct virtio_net_hdr, which comes
	// before each packet: it says what is left to do for checksums and
	// segmentation.
	vnetHeader = 10
	// frameHeader is what a packet has besides on Ethernet. A rate counts it,
	// as that of a queueing discipline on veth does.
	frameHeader = 14
	// maxPacket is at least the largest packet with its header.
	maxPacket = 66 << 10
	// queueLength is that of the TUN devices in packets: long enough for what
	// comes while gperf's reader waits for a CPU.
	queueLength = 10000
)

// A relay is the link and its two directions.
type relay struct {
	places []*place
	fds    [2]int // the TUN devices of the client and the server
	dirs   [2]*direction
	bases  [2]uint64 // what the devices had dropped when the counters began
}

// newRelay makes the two devices, each for packets of one MTU or of TSO. They
// pass nothing on until start, and go with their descriptors.
func newRelay(places []*place, plainPackets [2]bool) (*relay, error) {
	r := &relay{places: places, fds: [2]int{-1, -1}}
	for i, p := range places {
		err := p.do(func() (err error) {
			r.fds[i], err = openTUN(Device)
			if err != nil {
				return err
			}
			offload := unix.TUN_F_CSUM // what the reader takes as it is
			if !plainPackets[i] {
				offload |= unix.TUN_F_TSO4 | unix.TUN_F_TSO6
			}
			if err := unix.IoctlSetInt(r.fds[i], unix.TUNSETOFFLOAD, offload); err != nil {
				return os.NewSyscallError("ioctl TUNSETOFFLOAD", err)
			}
			dev, err := p.attrs()
			if err != nil {
				return err
			}
			return netlink.LinkSetTxQLen(dev, queueLength)
		})
		if err != nil {
			r.close()
			return nil, fmt.Errorf("make the TUN device of the %v: %w", p.end, err)
		}
	}
	return r, nil
}

// openTUN makes a TUN device in this thread's namespace.
func openTUN(name string) (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: tunPath, Err: err}
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = os.NewSyscallError("ioctl TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// start begins passing packets on, or begins anew with other shapes: what is
// under way is dropped.
func (r *relay) start(shapes [2]shape) error {
	r.stop()
	for i := range shapes {
		if err := discard(r.fds[i]); err != nil {
			return err
		}
		drops, err := r.places[i].deviceDrops()
		if err != nil {
			return err
		}
		r.bases[i] = drops
	}
	for i, s := range shapes {
		d, err := newDirection(r.fds[i], r.fds[1-i], s, uint64(i))
		if err != nil {
			r.stop()
			return err
		}
		r.dirs[i] = d
		d.run()
	}
	return nil
}

// discard empties a device of the packets of an earlier link.
func discard(fd int) error {
	p := make([]byte, maxPacket)
	for range queueLength {
		_, err := unix.Read(fd, p)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("read", err)
		}
	}
	return nil
}

// stop ends the threads and frees their memory.
func (r *relay) stop() {
	for i, d := range r.dirs {
		if d != nil {
			d.close()
			r.dirs[i] = nil
		}
	}
}

// close takes the link away.
func (r *relay) close() {
	r.stop()
	for _, fd := range r.fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// effective are the settings in force of what an end sends, in their normal
// forms.
func (r *relay) effective(i int) map[string]string {
	s := r.dirs[i].shape
	values := map[string]string{
		"delay": s.delay.String(), "jitter": s.jitter.String(), "link-seed": strconv.FormatUint(s.seed, 10),
		"delay-spike": s.spike.held.String() + "@" + s.spike.after.String(),
		"reorder":     formatPercent(s.reorder), "loss": s.loss.String(),
	}
	if s.rate > 0 {
		values["link-rate"], values["link-queue"] = formatRate(uint64(s.rate)), units.ExactSize(s.queue)
	}
	return values
}

// deviceDrops is how many packets the device has dropped because its queue was
// full.
func (p *place) deviceDrops() (drops uint64, err error) {
	err = p.do(func() error {
		dev, err := p.attrs()
		if err == nil && dev.Attrs().Statistics != nil {
			drops = dev.Attrs().Statistics.TxDropped
		}
		return err
	})
	return drops, err
}

// LinkStats returns the counters of gperf's own link. ok is false if no setting
// in force needs it, or if its devices can't be read.
func (l *Lab) LinkStats() (s LinkStats, ok bool) {
	if l.relay == nil {
		return s, false
	}
	for i, to := range []*DirectionStats{&s.Client, &s.Server} {
		d := l.relay.dirs[i]
		drops, err := l.relay.places[i].deviceDrops()
		if d == nil || err != nil {
			return LinkStats{}, false
		}
		*to = d.stats()
		to.DeviceDrops = int64(drops - l.relay.bases[i])
	}
	return s, true
}

// A direction is one way of the link. Its reader thread decides what becomes of
// each packet and when, as it comes; its writer thread carries that out.
type direction struct {
	shape   shape
	in, out int
	wakeup  int // an eventfd by which the reader wakes the writer
	threads sync.WaitGroup

	stopping atomic.Bool // the threads are to end, and
	stopped  int         // an eventfd that becomes readable then

	// Packets that wait for their time: in the order of the link, and those
	// that skip the delay. In each the times only grow.
	main, express lane

	// until is the time at which the writer will look again by itself: 0 while
	// it is at work, math.MaxInt64 while it has nothing.
	until atomic.Int64

	fate fate // the reader's

	packets, bytes, lost, queueDrops, memoryDrops, failed, reordered, queueHigh atomic.Int64
}

func newDirection(in, out int, s shape, stream uint64) (*direction, error) {
	d := &direction{shape: s, in: in, out: out, stopped: -1, wakeup: -1, fate: newFate(s, stream)}
	var err error
	if d.stopped, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		d.wakeup, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err != nil {
		d.free()
		return nil, os.NewSyscallError("eventfd", err)
	}
	size := s.memory()
	if err := d.main.make(size); err != nil {
		d.free()
		return nil, err
	}
	if s.reorder > 0 {
		if err := d.express.make(size); err != nil {
			d.free()
			return nil, err
		}
	}
	return d, nil
}

// memory is the size in bytes for the packets under way: twice what the link
// holds at its rate, and without one at 10 Gbit/s, for small packets take more
// room than they have bytes. The kernel gives pages only as they are used.
func (s shape) memory() int {
	rate := s.rate
	if rate == 0 {
		rate = 10e9
	}
	longest := s.delay + s.jitter + s.spike.held
	bytes := 2 * (rate/8*longest.Seconds() + float64(s.queue))
	return int(min(max(bytes, 16<<20), 256<<20))
}

func (d *direction) run() {
	d.threads.Go(func() { d.onOwnThread(d.read) })
	d.threads.Go(func() { d.onOwnThread(d.write) })
}

// onOwnThread gives a loop a thread to itself, which wakes up on time: the
// kernel lets timers be 50 us late by default (PR_SET_TIMERSLACK).
func (d *direction) onOwnThread(loop func()) {
	runtime.LockOSThread() // never unlocked: the thread ends with its slack
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	loop()
}

func (d *direction) close() {
	d.stopping.Store(true)
	notify(d.stopped)
	d.threads.Wait()
	d.free()
}

func (d *direction) free() {
	d.main.free()
	d.express.free()
	for _, fd := range []int{d.stopped, d.wakeup} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

var one = []byte{1, 0, 0, 0, 0, 0, 0, 1} // not 0 in either byte order

// notify makes an eventfd readable. It can't fail: a full counter is readable.
func notify(fd int) { _, _ = unix.Write(fd, one) }

func (d *direction) stats() DirectionStats {
	return DirectionStats{
		Packets: d.packets.Load(), Bytes: d.bytes.Load(), Lost: d.lost.Load(), QueueDrops: d.queueDrops.Load(),
		MemoryDrops: d.memoryDrops.Load(), Failed: d.failed.Load(), Reordered: d.reordered.Load(), QueueHighBytes: d.queueHigh.Load(),
	}
}

// read is the reader's loop.
func (d *direction) read() {
	events := []unix.PollFd{{Fd: int32(d.in), Events: unix.POLLIN}, {Fd: int32(d.stopped), Events: unix.POLLIN}}
	spare := make([]byte, maxPacket) // for packets that find no memory
	for !d.stopping.Load() {
		p, room := d.main.space()
		if !room {
			p = spare
		}
		n, err := unix.Read(d.in, p)
		if err != nil {
			if err == unix.EAGAIN {
				_, _ = unix.Ppoll(events, nil, nil)
			} else if err != unix.EINTR {
				// The device is down or has no addresses for a moment.
				_, _ = unix.Ppoll(events[1:], &unix.Timespec{Nsec: int64(time.Millisecond)}, nil)
			}
			continue
		}
		if n <= vnetHeader {
			continue
		}
		p = p[:n]
		now := sys.Monotonic()
		if multicast(p[vnetHeader:]) {
			if room {
				d.pass(&d.main, n, d.fate.inOrder(now+int64(d.shape.delay)))
			}
			continue
		}
		wire := wireBytes(p)
		d.packets.Add(1)
		d.bytes.Add(wire)
		f := d.fate.of(now, wire)
		d.queueHigh.Store(d.fate.queueHigh)
		switch {
		case f.verdict == losing:
			d.lost.Add(1)
		case f.verdict == overflowing:
			d.queueDrops.Add(1)
		case !room:
			d.memoryDrops.Add(1)
		case f.verdict == overtaking:
			d.reordered.Add(1)
			q, room := d.express.space()
			if !room {
				d.memoryDrops.Add(1)
				continue
			}
			copy(q, p)
			d.pass(&d.express, n, f.due)
		default:
			d.pass(&d.main, n, f.due)
		}
	}
}

// pass hands the packet in a lane's space to the writer.
func (d *direction) pass(l *lane, n int, due int64) {
	l.put(n, due)
	if d.until.Load() > due {
		d.until.Store(0) // one signal is enough
		notify(d.wakeup)
	}
}

// write is the writer's loop.
func (d *direction) write() {
	events := []unix.PollFd{{Fd: int32(d.wakeup), Events: unix.POLLIN}, {Fd: int32(d.stopped), Events: unix.POLLIN}}
	var counter [8]byte
	var timeout unix.Timespec
	for !d.stopping.Load() {
		l, due := d.next()
		if now := sys.Monotonic(); l == nil || due > now {
			// Say until when, then look again: a packet that came in between
			// has seen it or is seen now.
			d.until.Store(due)
			if _, again := d.next(); again < due {
				d.until.Store(0)
				continue
			}
			var wait *unix.Timespec
			if l != nil {
				timeout = unix.NsecToTimespec(due - now)
				wait = &timeout
			}
			_, _ = unix.Ppoll(events, wait, nil)
			d.until.Store(0)
			if events[0].Revents != 0 {
				_, _ = unix.Read(d.wakeup, counter[:])
			}
			continue
		}
		for {
			_, err := unix.Write(d.out, l.first())
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				d.failed.Add(1)
			}
			break
		}
		l.drop()
	}
}

// next returns the lane whose first packet is due first, and when. Without one
// that is never.
func (d *direction) next() (*lane, int64) {
	a, b := d.main.due(), d.express.due()
	switch {
	case a == never && b == never:
		return nil, never
	case b < a:
		return &d.express, b
	}
	return &d.main, a
}
