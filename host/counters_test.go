package host

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"

	"gperf/internal/netnstest"
	"gperf/result"
)

const (
	netSNMP = `Ip: Forwarding DefaultTTL InReceives OutRequests
Ip: 2 64 3555 2590
IcmpMsg: InType3
IcmpMsg: 1
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab RetransSegs
Tcp: 1 200 120000 -1 90 7 12
`
	netNetstat = `TcpExt: TCPLossProbes TCPNotYetInvented
TcpExt: 4 18446744073709551615
IpExt: InOctets
IpExt: 100
`
	netSNMP6 = "Ip6InReceives                   \t1\nIp6OutRequests                  \t2\n"
	netDev   = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:   25929     445    0    0    0     0          0         0    25929     445    0    0    0     0       0          0
  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
`
	softnetStat = `00000013 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00000dd3 00000000 ffffffff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000
`
)

func TestReadCountersFixture(t *testing.T) {
	files := map[string]string{
		"net/snmp": netSNMP, "net/netstat": netNetstat, "net/snmp6": netSNMP6, "net/dev": netDev, "net/softnet_stat": softnetStat,
	}
	c, err := readCounters(writeFiles(t, files), "eth0")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{
		"IpInReceives": 3555, "IpOutRequests": 2590, "IcmpMsgInType3": 1, "TcpActiveOpens": 90, "TcpRetransSegs": 12,
		"TcpExtTCPLossProbes": 4, "TcpExtTCPNotYetInvented": 1<<64 - 1, "IpExtInOctets": 100,
		"Ip6InReceives": 1, "Ip6OutRequests": 2,
	}
	if diff := cmp.Diff(want, c.protocols); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.device == nil || c.device.RxDropped != 4 || c.device.TxDropped != 12 {
		t.Errorf("device: %+v", c.device)
	}
	if len(c.softnet) != 2 || c.softnet[0].Dropped != 1 || c.softnet[1].TimeSqueezed != 1<<32-1 {
		t.Errorf("softnet: %+v", c.softnet)
	}

	// What only some kernels or namespaces have may be missing.
	for _, name := range []string{"net/snmp6", "net/dev", "net/softnet_stat"} {
		delete(files, name)
	}
	if _, err := readCounters(writeFiles(t, files), "eth0"); err != nil {
		t.Error(err)
	}
	delete(files, "net/netstat")
	if c, err := readCounters(writeFiles(t, files), ""); err == nil {
		t.Errorf("without netstat: got %v, want an error", c)
	}
}

func TestParseSNMPError(t *testing.T) {
	for name, text := range map[string]string{
		"no values":     "Tcp: A B\n",
		"few values":    "Tcp: A B\nTcp: 1\n",
		"other values":  "Tcp: A B\nUdp: 1 2\n",
		"not a number":  "Tcp: A B\nTcp: 1 x\n",
		"negative":      "Tcp: A B\nTcp: 1 -1\n",
		"blank lines":   "\n\n",
		"too large":     "Tcp: A\nTcp: 18446744073709551616\n",
		"cut short":     strings.TrimSuffix(netSNMP, "200 120000 -1 90 7 12\n"),
		"gauge, broken": "Tcp: MaxConn\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := parseSNMP([]byte(text), map[string]uint64{}); err == nil {
				t.Error("want an error")
			}
		})
	}
}

// Neither parser fails on any text, and names have no space in them.
func FuzzParseSNMP(f *testing.F) {
	for _, s := range []string{netSNMP, netNetstat, netSNMP6, "Tcp: A B\nTcp: 1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := make(map[string]uint64)
		if err := parseSNMP(b, c); err != nil {
			if err := parseSNMP6(b, c); err != nil {
				return
			}
		}
		for name := range c {
			if name == "" || strings.ContainsAny(name, " \n") {
				t.Errorf("counter named %q", name)
			}
		}
	})
}

func TestCountersUntil(t *testing.T) {
	a := Counters{
		protocols: map[string]uint64{"TcpInSegs": 10, "TcpOutSegs": 10, "TcpInErrs": 10},
		softnet:   []procfs.SoftnetStat{{Index: 0, Processed: 1<<32 - 2, Dropped: 1}, {Index: 2, Processed: 7}},
		device:    &procfs.NetDevLine{Name: "eth0", RxBytes: 1<<32 - 1, TxBytes: 100},
	}
	b := Counters{
		protocols: map[string]uint64{"TcpInSegs": 15, "TcpOutSegs": 10, "TcpInErrs": 9, "IcmpMsgInType3": 2},
		softnet:   []procfs.SoftnetStat{{Index: 0, Processed: 3, Dropped: 4}, {Index: 2, Processed: 8}},
		device:    &procfs.NetDevLine{Name: "eth0", RxBytes: 5, TxBytes: 1100},
	}
	zero := new(uint64(0))
	want := &result.Counters{
		Protocols: map[string]uint64{"TcpInSegs": 5, "IcmpMsgInType3": 2},
		Softnet:   &result.Softnet{Processed: new(uint64(6)), Dropped: new(uint64(3)), Squeezed: zero},
		Device: &result.DeviceCounters{
			Name: "eth0", RxPackets: zero, RxErrors: zero, RxDropped: zero,
			TxBytes: new(uint64(1000)), TxPackets: zero, TxErrors: zero, TxDropped: zero,
		},
	}
	if diff := cmp.Diff(want, a.Until(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	b.softnet, b.device = b.softnet[:1], nil // a CPU and the device went away
	want.Softnet, want.Device = nil, nil
	if diff := cmp.Diff(want, a.Until(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := a.Until(Counters{}); got != nil {
		t.Errorf("second reading failed: got %v, want nothing", got)
	}
	if got := (Counters{}).Until(b); got != nil {
		t.Errorf("first reading failed: got %v, want nothing", got)
	}
}

// Counters are those of the reading thread's namespace. Nothing happens in a new
// one but what the test does, so that they are known to the last one.
func TestCountersFollowThread(t *testing.T) {
	netnstest.Run(t, func() {
		a, err := ReadCounters("lo")
		if err != nil {
			t.Fatal(err)
		}
		const messages = 10
		exchange(t, messages)
		b, err := ReadCounters("lo")
		if err != nil {
			t.Fatal(err)
		}
		c := a.Until(b)
		const fins = 2 // the kernel counts each as data
		for name, want := range map[string]uint64{"TcpActiveOpens": 1, "TcpPassiveOpens": 1, "TcpExtTCPOrigDataSent": messages + fins} {
			if got := c.Protocols[name]; got != want {
				t.Errorf("%s grew by %d, want %d", name, got, want)
			}
		}
		for name, n := range c.Protocols {
			if n == 0 {
				t.Errorf("%s is listed without having grown", name)
			}
		}
		if d := c.Device; d == nil || d.Name != "lo" || d.RxPackets == nil || *d.RxPackets != *d.TxPackets || *d.RxPackets < messages {
			t.Errorf("lo: %+v", d)
		}
		if s := c.Softnet; s == nil || *s.Processed < messages {
			t.Errorf("softnet: %+v", s)
		}
		if c, err := ReadCounters("eth0"); err != nil || c.device != nil {
			t.Errorf("device of another namespace: %v, %v", c.device, err)
		}
	})
}

// exchange sends messages over a new TCP connection, in the namespace of the
// calling thread, one at a time.
func exchange(t testing.TB, messages int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	buf := make([]byte, 100)
	for range messages {
		if _, err := c.Write(buf); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(buf); {
			k, err := s.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	}
}

func BenchmarkReadCounters(b *testing.B) {
	for _, device := range []string{"", "lo"} {
		b.Run("device="+device, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadCounters(device); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
