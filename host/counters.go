package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/prometheus/procfs"

	"gperf/internal/sys"
	"gperf/result"
)

// Counters are the network counters of a namespace, of the machine and of one
// device, at one moment.
type Counters struct {
	At int64 // when they were taken: sys.Monotonic

	protocols map[string]uint64 // by nstat's names
	softnet   []procfs.SoftnetStat
	device    *procfs.NetDevLine
}

// ReadCounters reads the counters of the calling thread's network namespace
// and, if device isn't empty, of that device in it. It fails when the counters
// of TCP can't be read; others may be unknown. It takes 0.3 ms, half of it the
// kernel's, which adds up its CPUs' counters: read them just outside a window.
func ReadCounters(device string) (Counters, error) { return readCounters(threadDir, device) }

func readCounters(dir, device string) (Counters, error) {
	c := Counters{At: sys.Monotonic(), protocols: make(map[string]uint64, 512)}
	for _, file := range []struct {
		name  string
		parse func([]byte, map[string]uint64) error
	}{
		{"net/snmp", parseSNMP},
		{"net/netstat", parseSNMP},
		{"net/snmp6", parseSNMP6},
	} {
		path := dir + "/" + file.name
		b, err := sys.ReadFile(path)
		if file.name == "net/snmp6" && errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return Counters{}, err
		}
		if err := file.parse(b, c.protocols); err != nil {
			return Counters{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	// A file system of procfs' that starts at the thread's directory has net/
	// where it looks for it, but of the right namespace.
	proc, err := procfs.NewFS(dir)
	if err != nil {
		return Counters{}, err
	}
	if s, err := proc.NetSoftnetStat(); err == nil {
		c.softnet = s
	}
	if device == "" {
		return c, nil
	}
	if devices, err := proc.NetDev(); err == nil {
		if d, ok := devices[device]; ok {
			c.device = &d
		}
	}
	return c, nil
}

// gauges are the entries of snmp and netstat that don't count: settings, and
// how many connections there are at the moment.
var gauges = map[string]bool{
	"IpForwarding":        true,
	"IpDefaultTTL":        true,
	"TcpRtoAlgorithm":     true,
	"TcpRtoMin":           true,
	"TcpRtoMax":           true,
	"TcpMaxConn":          true,
	"TcpCurrEstab":        true,
	"MPTcpExtMPCurrEstab": true,
}

// parseSNMP adds the counters of /proc/net/snmp or netstat to c: pairs of
// lines, "Tcp: name name ..." and "Tcp: value value ...". procfs would know only
// the names that were known when it was written, and a kernel adds some with
// almost every release.
func parseSNMP(b []byte, c map[string]uint64) error {
	for len(b) > 0 {
		var head, tail []byte
		head, b, _ = bytes.Cut(b, []byte("\n"))
		tail, b, _ = bytes.Cut(b, []byte("\n"))
		names, values := bytes.Fields(head), bytes.Fields(tail)
		if len(names) == 0 || len(names) != len(values) || !bytes.Equal(names[0], values[0]) {
			return fmt.Errorf("%d names and %d values after %.20q", len(names), len(values), head)
		}
		prefix := string(bytes.TrimSuffix(names[0], []byte(":")))
		for i, name := range names[1:] {
			if err := addCounter(c, prefix+string(name), values[i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseSNMP6 adds the counters of /proc/net/snmp6 to c: lines of name and
// value.
func parseSNMP6(b []byte, c map[string]uint64) error {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) != 2 {
			return fmt.Errorf("line %q: want a name and a value", line)
		}
		if err := addCounter(c, string(f[0]), f[1]); err != nil {
			return err
		}
	}
	return nil
}

func addCounter(c map[string]uint64, name string, value []byte) error {
	if gauges[name] {
		return nil
	}
	v, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		return fmt.Errorf("counter %s: %w", name, err)
	}
	c[name] = v
	return nil
}

// Until returns how much the counters grew from a to b, nil when one of the
// readings failed. A counter that decreased, because it was reset or wrapped at
// 32 bits, is left out.
func (a Counters) Until(b Counters) *result.Counters {
	if a.protocols == nil || b.protocols == nil {
		return nil
	}
	c := &result.Counters{
		Protocols: make(map[string]uint64),
		Softnet:   softnetGrowth(a.softnet, b.softnet),
		Device:    deviceGrowth(a.device, b.device),
	}
	for name, now := range b.protocols {
		// The kernel lists a type of ICMP message once there was one: one that
		// wasn't there before was at 0.
		if before := a.protocols[name]; now > before {
			c.Protocols[name] = now - before
		}
	}
	return c
}

// softnetGrowth adds up the growth on each CPU. These counters have 32 bits,
// so that a difference of 32 bits is right across a wrap. When a CPU came or
// went, the sum isn't known.
func softnetGrowth(a, b []procfs.SoftnetStat) *result.Softnet {
	if len(a) == 0 || len(a) != len(b) {
		return nil
	}
	var processed, dropped, squeezed uint64
	for i := range b {
		if a[i].Index != b[i].Index {
			return nil
		}
		processed += uint64(b[i].Processed - a[i].Processed)
		dropped += uint64(b[i].Dropped - a[i].Dropped)
		squeezed += uint64(b[i].TimeSqueezed - a[i].TimeSqueezed)
	}
	return &result.Softnet{Processed: &processed, Dropped: &dropped, Squeezed: &squeezed}
}

func deviceGrowth(a, b *procfs.NetDevLine) *result.DeviceCounters {
	if a == nil || b == nil {
		return nil
	}
	return &result.DeviceCounters{
		Name:      b.Name,
		RxBytes:   grown(&a.RxBytes, &b.RxBytes),
		RxPackets: grown(&a.RxPackets, &b.RxPackets),
		RxErrors:  grown(&a.RxErrors, &b.RxErrors),
		RxDropped: grown(&a.RxDropped, &b.RxDropped),
		TxBytes:   grown(&a.TxBytes, &b.TxBytes),
		TxPackets: grown(&a.TxPackets, &b.TxPackets),
		TxErrors:  grown(&a.TxErrors, &b.TxErrors),
		TxDropped: grown(&a.TxDropped, &b.TxDropped),
	}
}
