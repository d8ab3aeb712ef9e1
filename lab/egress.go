package lab

import (
	"errors"
	"fmt"
	"strings"

	"gperf/internal/units"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An egress is the queueing discipline by which a device sends. The zero value
// is the kernel's default.
type egress struct {
	rate  uint64 // bits per second; 0 is no limit
	queue int64  // bytes that wait for the rate
	kind  string // queueing discipline; "" with a rate is the token bucket's own queue
	mtu   int    // of the device, on which the burst depends; filled in when in force
}

// The handles of our disciplines and of htb's only class.
var (
	rootHandle  = netlink.MakeHandle(1, 0)
	onlyClass   = netlink.MakeHandle(1, 1)
	childHandle = netlink.MakeHandle(2, 0)
)

// burst is the bucket in bytes: what is sent in a millisecond at the rate, and at
// least two frames. What a CPU that comes late, or that a hypervisor has taken,
// misses beyond that is lost to the link: with 128 us of 1 Gbit/s a busy virtual
// machine let 0.80 to 0.90 Gbit/s of payload through. Packets of TSO and GSO that are larger are
// split up by tbf, so that a slow link carries packets of one MTU.
func (e egress) burst() uint32 {
	const frame = 14 // Ethernet header
	return uint32(max(float64(2*(e.mtu+frame)), min(float64(e.rate)/8*1e-3, 1<<30)))
}

// apply puts e into force on the device in place of what there is. It runs in
// the namespace.
func (p *place) apply(e egress) error {
	dev, err := p.attrs()
	if err != nil {
		return err
	}
	if e.rate > 0 {
		e.mtu = dev.Attrs().MTU
	}
	if e == p.egress {
		return nil
	}
	index := dev.Attrs().Index
	if err := p.clearEgress(index); err != nil || e == (egress{}) {
		return err
	}
	root := netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: rootHandle}
	switch {
	case e.rate == 0:
		return p.addRoot(e, &netlink.GenericQdisc{QdiscAttrs: root, QdiscType: e.kind})
	case e.kind == "htb":
		htb := netlink.NewHtb(root)
		htb.Defcls = 1
		if err := p.addRoot(e, htb); err != nil {
			return err
		}
		// htb sends a packet whole whatever its size, so that the bucket
		// holds the largest of TSO.
		bucket := max(64<<10, e.burst())
		class := netlink.NewHtbClass(
			netlink.ClassAttrs{LinkIndex: index, Parent: rootHandle, Handle: onlyClass},
			netlink.HtbClassAttrs{Rate: e.rate, Ceil: e.rate, Buffer: bucket, Cbuffer: bucket, Quantum: 64 << 10},
		)
		if err := netlink.ClassReplace(class); err != nil {
			return fmt.Errorf("add a class of htb: %w", err)
		}
		return nil
	}
	bytes := e.rate / 8
	bucket := &netlink.Tbf{QdiscAttrs: root, Rate: bytes, Buffer: netlink.Xmittime(bytes, e.burst()), Limit: uint32(e.queue)}
	if err := p.addRoot(e, bucket); err != nil || e.kind == "" {
		return err
	}
	child := netlink.QdiscAttrs{LinkIndex: index, Parent: onlyClass, Handle: childHandle}
	return addQdisc(&netlink.GenericQdisc{QdiscAttrs: child, QdiscType: e.kind})
}

// clearEgress puts the kernel's default back.
func (p *place) clearEgress(index int) error {
	if p.egress == (egress{}) {
		return nil
	}
	root := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Parent: netlink.HANDLE_ROOT, Handle: rootHandle},
	}
	if err := netlink.QdiscDel(root); err != nil {
		return fmt.Errorf("remove the queueing discipline: %w", err)
	}
	p.egress = egress{}
	return nil
}

// addRoot adds the discipline of the device. From then on there is something
// to remove, even if what belongs below it fails.
func (p *place) addRoot(e egress, q netlink.Qdisc) error {
	if err := addQdisc(q); err != nil {
		return err
	}
	p.egress = e
	return nil
}

func addQdisc(q netlink.Qdisc) error {
	err := netlink.QdiscReplace(q)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("this kernel has no queueing discipline %s: %w", q.Type(), err)
	case err != nil:
		return fmt.Errorf("add queueing discipline %s: %w", q.Type(), err)
	}
	return nil
}

// readEgress reads back what is in force: the settings by name, in their normal
// forms. It runs in the namespace.
func (p *place) readEgress() (map[string]string, error) {
	dev, err := p.attrs()
	if err != nil {
		return nil, err
	}
	list, err := netlink.QdiscList(dev)
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	values := map[string]string{}
	for _, q := range list {
		a := q.Attrs()
		switch {
		case a.Parent != netlink.HANDLE_ROOT && a.Parent != onlyClass:
			continue // a queue's own, below mq
		case a.Parent == netlink.HANDLE_ROOT && q.Type() == "tbf":
			values["link-rate"] = formatRate(q.(*netlink.Tbf).Rate * 8)
			values["link-queue"] = units.ExactSize(int64(q.(*netlink.Tbf).Limit))
		case a.Parent == onlyClass && a.Handle != childHandle:
			continue // the queue that tbf makes itself
		default:
			values["qdisc"] = q.Type()
		}
	}
	if values["qdisc"] == "htb" {
		classes, err := netlink.ClassList(dev, netlink.HANDLE_NONE)
		if err != nil {
			return nil, fmt.Errorf("list the classes of htb: %w", err)
		}
		for _, c := range classes {
			if htb, ok := c.(*netlink.HtbClass); ok {
				values["link-rate"] = formatRate(htb.Rate * 8)
			}
		}
	}
	if p.egress.kind != "" && p.egress.kind != "htb" {
		delete(values, "link-queue") // that of the discipline below counts
	}
	return values, nil
}

// describe names an egress in messages.
func (e egress) describe() string {
	var parts []string
	if e.rate > 0 {
		parts = append(parts, "link-rate "+formatRate(e.rate))
	}
	if e.kind != "" {
		parts = append(parts, "qdisc "+e.kind)
	}
	return strings.Join(parts, ", ")
}
