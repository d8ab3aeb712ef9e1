package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// ethtool asks about devices in the network namespace in which it was opened;
// see the requests in linux/ethtool.h.
//
// It stands here instead of github.com/safchain/ethtool because that module's
// newest release, v0.7.0, holds the addresses of its requests as integers: when
// the goroutine's stack has to grow on the way to the ioctl, the kernel's
// answer goes to where the request was. Its Features then returned none for 8
// of 100 depths of the stack. (Corrected in its repository by pull request 139,
// not yet in a release.) Its GetLinkSettings also prints to standard output
// when the kernel knows more link modes than it does.
type ethtool struct{ fd int }

func openEthtool() (ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return ethtool{fd}, os.NewSyscallError("socket", err)
}

func (e ethtool) close() { _ = unix.Close(e.fd) } // nothing was written

// driver returns a device's driver, its version, its firmware and its bus.
func (e ethtool) driver(device string) (*unix.EthtoolDrvinfo, error) {
	info, err := unix.IoctlGetEthtoolDrvinfo(e.fd, device)
	if err != nil {
		return nil, fmt.Errorf("ethtool: driver of %s: %w", device, err)
	}
	return info, nil
}

// channels returns the number of queues that a device really uses.
func (e ethtool) channels(device string) (rx, tx int, err error) {
	// struct ethtool_channels: cmd, four maxima, then the counts of rx, tx,
	// other and combined.
	req := request(unix.ETHTOOL_GCHANNELS, 9)
	if err := e.ioctl(device, req); err != nil {
		return 0, 0, fmt.Errorf("ethtool: channels of %s: %w", device, err)
	}
	combined := int(word(req, 8))
	return int(word(req, 5)) + combined, int(word(req, 6)) + combined, nil
}

// speed returns a device's link speed in Mbit/s; false when the driver doesn't
// know it, as without a carrier.
func (e ethtool) speed(device string) (mbit uint32, known bool, err error) {
	// struct ethtool_link_settings: 48 bytes, speed after cmd, the length of
	// each of three bit masks in the signed byte 15, then the masks. The
	// kernel answers a wrong length with nothing but the right one, negated.
	const size, lengthAt = 48 / 4, 15
	req := request(unix.ETHTOOL_GLINKSETTINGS, size)
	if err := e.ioctl(device, req); err != nil {
		return 0, false, fmt.Errorf("ethtool: link settings of %s: %w", device, err)
	}
	length := -int8(req[lengthAt])
	if length <= 0 {
		return 0, false, fmt.Errorf("ethtool: link settings of %s: mask length %d", device, length)
	}
	req = request(unix.ETHTOOL_GLINKSETTINGS, size+3*int(length))
	req[lengthAt] = byte(length)
	if err := e.ioctl(device, req); err != nil {
		return 0, false, fmt.Errorf("ethtool: link settings of %s: %w", device, err)
	}
	mbit = word(req, 1)
	const unknown = 1<<32 - 1 // SPEED_UNKNOWN
	return mbit, mbit != unknown && mbit != 0, nil
}

// features returns which of the kernel's device features are in force, by the
// kernel's names: those of ethtool -k.
func (e ethtool) features(device string) (map[string]bool, error) {
	const (
		featureStrings = 4  // ETH_SS_FEATURES
		nameSize       = 32 // ETH_GSTRING_LEN
		maxNames       = 1 << 12
	)
	// struct ethtool_sset_info: cmd, reserved, 64-bit mask of string sets, then
	// the size of the one set asked for.
	info := request(unix.ETHTOOL_GSSET_INFO, 5)
	binary.NativeEndian.PutUint64(info[8:], 1<<featureStrings)
	if err := e.ioctl(device, info); err != nil {
		return nil, fmt.Errorf("ethtool: number of features of %s: %w", device, err)
	}
	n := int(word(info, 4))
	if n > maxNames {
		return nil, fmt.Errorf("ethtool: %s has %d features", device, n)
	}

	// struct ethtool_gstrings: cmd, set, length, names.
	names := request(unix.ETHTOOL_GSTRINGS, 3+n*nameSize/4)
	putWord(names, 1, featureStrings)
	putWord(names, 2, uint32(n))
	if err := e.ioctl(device, names); err != nil {
		return nil, fmt.Errorf("ethtool: names of the features of %s: %w", device, err)
	}

	// struct ethtool_gfeatures: cmd, number of blocks, then blocks of 32
	// features in four words: available, requested, active, never changed.
	blocks := (n + 31) / 32
	bits := request(unix.ETHTOOL_GFEATURES, 2+4*blocks)
	putWord(bits, 1, uint32(blocks))
	if err := e.ioctl(device, bits); err != nil {
		return nil, fmt.Errorf("ethtool: features of %s: %w", device, err)
	}
	return decodeFeatures(names[3*4:], bits[2*4:], nameSize), nil
}

// decodeFeatures matches names of nameSize bytes each, padded with zeros, with
// the blocks of struct ethtool_gfeatures.
func decodeFeatures(names, blocks []byte, nameSize int) map[string]bool {
	features := make(map[string]bool)
	for i := 0; (i+1)*nameSize <= len(names); i++ {
		name, _, _ := bytes.Cut(names[i*nameSize:(i+1)*nameSize], []byte{0})
		active := i/32*4 + 2
		if len(name) > 0 && (active+1)*4 <= len(blocks) {
			features[string(name)] = word(blocks, active)>>(i%32)&1 == 1
		}
	}
	return features
}

// request returns a request of so many 32-bit words, the first of which is its
// command.
func request(command uint32, words int) []byte {
	req := make([]byte, 4*words)
	putWord(req, 0, command)
	return req
}

func word(b []byte, i int) uint32       { return binary.NativeEndian.Uint32(b[4*i:]) }
func putWord(b []byte, i int, v uint32) { binary.NativeEndian.PutUint32(b[4*i:], v) }

func (e ethtool) ioctl(device string, req []byte) error { return sys.Ethtool(e.fd, device, req) }
