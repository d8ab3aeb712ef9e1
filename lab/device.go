package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/sys"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// attrs reads the device. It runs in the namespace, as all below does.
func (p *place) attrs() (netlink.Link, error) {
	dev, err := netlink.LinkByName(p.device)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", p.device, err)
	}
	return dev, nil
}

// readAttr returns a reader of one number of the device.
func readAttr(number func(*netlink.LinkAttrs) uint64) func(*place, string) (string, error) {
	return func(p *place, _ string) (string, error) {
		dev, err := p.attrs()
		if err != nil {
			return "", err
		}
		return strconv.FormatUint(number(dev.Attrs()), 10), nil
	}
}

// setAttr returns a setter of one number of the device.
func setAttr(set func(dev netlink.Link, n int) error) func(*place, string, string) error {
	return func(p *place, _, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		dev, err := p.attrs()
		if err != nil {
			return err
		}
		return whyNot(set(dev, n))
	}
}

var (
	readMTU        = readAttr(func(a *netlink.LinkAttrs) uint64 { return uint64(a.MTU) })
	readGSOMaxSize = readAttr(func(a *netlink.LinkAttrs) uint64 { return uint64(a.GSOMaxSize) })
	readGSOMaxSegs = readAttr(func(a *netlink.LinkAttrs) uint64 { return uint64(a.GSOMaxSegs) })
	setGSOMaxSegs  = setAttr(netlink.LinkSetGSOMaxSegs)
)

func setMTU(p *place, arg, value string) error {
	if err := setAttr(netlink.LinkSetMTU)(p, arg, value); err != nil {
		return err
	}
	return p.address() // back from below 1280, where the kernel takes IPv6 away
}

// setGSOMaxSize sets the limits of both families: up to 65536 that of IPv6
// brings the other along, above it doesn't (Linux 6.3).
var setGSOMaxSize = setAttr(func(dev netlink.Link, n int) error {
	if err := netlink.LinkSetGSOMaxSize(dev, n); err != nil {
		return err
	}
	if n <= 65536 {
		return nil
	}
	return netlink.LinkSetGSOIPv4MaxSize(dev, n)
})

// readQueues reads the number of queues in use: ETHTOOL_GCHANNELS.
func (p *place) readQueues() (string, error) {
	fd, err := ethtoolSocket()
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	// struct ethtool_channels: command; the most of rx, tx, other, combined;
	// the number of each.
	req := make([]byte, 9*4)
	header(req, unix.ETHTOOL_GCHANNELS, 0)
	if err := sys.Ethtool(fd, p.device, req); err != nil {
		return "", fmt.Errorf("read the queues of %s: %w", p.device, err)
	}
	rx, tx := binary.NativeEndian.Uint32(req[20:]), binary.NativeEndian.Uint32(req[24:])
	if rx != tx {
		return fmt.Sprintf("%d rx, %d tx", rx, tx), nil
	}
	return strconv.FormatUint(uint64(rx), 10), nil
}

// families are ethtool(8)'s names for more than one feature.
var families = map[string][]string{
	"tso": {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"},
	"gso": {"tx-generic-segmentation"},
	"gro": {"rx-gro"},
	"lro": {"rx-lro"},
	"sg":  {"tx-scatter-gather", "tx-scatter-gather-fraglist"},
	"rx":  {"rx-checksum"},
	"tx":  {"tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "tx-checksum-fcoe-crc", "tx-checksum-sctp"},
}

// features are the names for which a family's name stands.
func features(name string) []string {
	if names, ok := families[name]; ok {
		return names
	}
	return []string{name}
}

// normalFeature checks an offload by the list of names that the kernel has, and
// in a Loopback lab by the machine's lo, which is as the lab's.
func normalFeature(kind Kind, name, value string) (string, error) {
	if value != "on" && value != "off" {
		return "", fmt.Errorf("%q is neither on nor off", value)
	}
	state, err := readStates("lo")
	if err != nil {
		return "", err
	}
	known := false
	for _, f := range features(name) {
		s, ok := state[f]
		known = known || ok
		if kind == Loopback && ok && (s.changeable || s.active == (value == "on")) {
			return value, nil
		}
	}
	switch {
	case !known:
		return "", fmt.Errorf("this kernel knows no such offload (%s, or a name that ethtool -k shows)", strings.Join(familyNames(), ", "))
	case kind == Loopback:
		return "", errors.New("the kernel keeps this offload of lo as it is")
	}
	return value, nil
}

func familyNames() []string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// setFeature turns all features on or off for which name stands, as far as the
// device lets them change. Of those it has to let at least one, or all have to
// be as they are to be.
func setFeature(p *place, name, value string) error {
	on := value == "on"
	state, err := readStates(p.device)
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for _, f := range features(name) {
		if s, ok := state[f]; ok && s.changeable {
			want[f] = on
		}
	}
	if len(want) == 0 {
		if now, _ := isOn(state, name); now == on {
			return nil
		}
		return fmt.Errorf("%s of this link lets nobody turn it %s", p.device, value)
	}
	return changeFeatures(p.device, want)
}

// readFeature is as ethtool(8) shows it: on if one of the features is.
func readFeature(p *place, name string) (string, error) {
	state, err := readStates(p.device)
	if err != nil {
		return "", err
	}
	on, known := isOn(state, name)
	switch {
	case !known:
		return "", fmt.Errorf("%s has no such offload", p.device)
	case on:
		return "on", nil
	}
	return "off", nil
}

func isOn(state map[string]feature, name string) (on, known bool) {
	for _, f := range features(name) {
		s, ok := state[f]
		known = known || ok
		on = on || s.active
	}
	return on, known
}

// saveFeature keeps each feature as it is wanted now: not all for which name
// stands need be the same, and one that is off only because another is comes
// back with it.
func saveFeature(p *place, name string) (func() error, error) {
	state, err := readStates(p.device)
	if err != nil {
		return nil, err
	}
	was := map[string]bool{}
	for _, f := range features(name) {
		if s, ok := state[f]; ok && s.changeable {
			was[f] = s.requested
		}
	}
	return func() error {
		if len(was) == 0 {
			return nil
		}
		return changeFeatures(p.device, was)
	}, nil
}

// A feature is the state of one offload of a device (linux/ethtool.h).
type feature struct {
	bit        int
	changeable bool // by the user
	requested  bool // by the user or as a default; may be off for lack of another
	active     bool
}

const (
	featureNameLen = 32 // ETH_GSTRING_LEN
	featureWords   = 4  // of 32 features each; the kernel has fewer than 128

	stringsFeatures = 4 // ETH_SS_FEATURES
)

// readStates reads the features of a device of this thread's namespace, by
// the kernel's names: ETHTOOL_GSTRINGS and ETHTOOL_GFEATURES.
func readStates(device string) (map[string]feature, error) {
	fd, err := ethtoolSocket()
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	// struct ethtool_gstrings: command, set, number, strings.
	names := make([]byte, 12+featureWords*32*featureNameLen)
	header(names, unix.ETHTOOL_GSTRINGS, stringsFeatures)
	if err := sys.Ethtool(fd, device, names); err != nil {
		return nil, fmt.Errorf("read the names of offloads: %w", err)
	}
	count := int(binary.NativeEndian.Uint32(names[8:]))
	// struct ethtool_gfeatures: command, size, and for each word available,
	// requested, active, never_changed.
	state := make([]byte, 8+featureWords*16)
	header(state, unix.ETHTOOL_GFEATURES, featureWords)
	if err := sys.Ethtool(fd, device, state); err != nil {
		return nil, fmt.Errorf("read the offloads of %s: %w", device, err)
	}
	all := make(map[string]feature, count)
	for bit := range min(count, featureWords*32) {
		name, _, _ := bytes.Cut(names[12+bit*featureNameLen:][:featureNameLen], []byte{0})
		word := func(field int) bool {
			return binary.NativeEndian.Uint32(state[8+bit/32*16+field*4:])&(1<<(bit%32)) != 0
		}
		if len(name) > 0 {
			all[string(name)] = feature{bit: bit, changeable: word(0) && !word(3), requested: word(1), active: word(2)}
		}
	}
	return all, nil
}

// changeFeatures turns features on or off: ETHTOOL_SFEATURES.
func changeFeatures(device string, want map[string]bool) error {
	state, err := readStates(device)
	if err != nil {
		return err
	}
	// struct ethtool_sfeatures: command, size, and for each word valid,
	// requested.
	req := make([]byte, 8+featureWords*8)
	header(req, unix.ETHTOOL_SFEATURES, featureWords)
	words := 0
	for name, on := range want {
		bit := state[name].bit
		words = max(words, bit/32+1)
		at := req[8+bit/32*8:]
		binary.NativeEndian.PutUint32(at, binary.NativeEndian.Uint32(at)|1<<(bit%32))
		if on {
			binary.NativeEndian.PutUint32(at[4:], binary.NativeEndian.Uint32(at[4:])|1<<(bit%32))
		}
	}
	count := 0
	for _, f := range state {
		count = max(count, f.bit+1)
	}
	// The kernel takes only as many words as it has itself.
	binary.NativeEndian.PutUint32(req[4:], uint32((count+31)/32))
	fd, err := ethtoolSocket()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := sys.Ethtool(fd, device, req); err != nil {
		return fmt.Errorf("change the offloads of %s: %w", device, err)
	}
	return nil
}

func header(req []byte, command, n uint32) {
	binary.NativeEndian.PutUint32(req, command)
	binary.NativeEndian.PutUint32(req[4:], n)
}

func ethtoolSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}
