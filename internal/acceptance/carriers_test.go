package acceptance

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gperf/control"
	"gperf/internal/netnstest"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// carried are the types whose streams are no standing connection, each with flags
// for a short run.
var carried = map[string][]string{
	"TCP_CRR":    {"-t", "TCP_CRR", "--transactions", "50"},
	"TCP_CC":     {"-t", "TCP_CC", "--transactions", "50"},
	"UDP_STREAM": {"-t", "UDP_STREAM", "-d", "0.2", "--rate", "5M"},
	"UDP_RR":     {"-t", "UDP_RR", "--transactions", "50", "--response-timeout", "10"},
}

// Connections come by the one port, too, or by a test's own, and both ends count
// the same.
func TestConnectionTests(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"one port": nil, "data ports": {"--data-ports", "30100-30200"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := netnstest.NewPair(t, netnstest.Pair{})
			s := serve(t, place{ns: b}, append([]string{"--listen", b.Addr4.String() + ":0"}, flags...)...)
			ports := strconv.Itoa(int(s.addr.Port()))
			if flags != nil {
				ports = "{ " + ports + ", 30100-30200 }"
			}
			b.Nft(fmt.Sprintf(`table ip t { chain c { type filter hook input priority 0; policy drop; tcp dport %s accept; }; }`, ports))
			all := [][]string{
				carried["TCP_CRR"], carried["TCP_CC"],
				append(slices.Clone(carried["TCP_CRR"]), "--request-size", "3000", "--response-size", "300K", "--nodelay", "--sndbuf", "64K"),
			}
			if flags != nil { // a knob that takes a listener
				all = append(all, append(slices.Clone(carried["TCP_CRR"]), "--rcvbuf", "64K"))
			}
			for _, args := range all {
				o := s.complete(place{ns: a}, append(args, "-P", "8", "-i", "0.1")...)
				p, n := o.Plan, uint64(50)
				f := o.Summary
				if *f.Transactions != n || f.Latency.Count != 50 || f.Connect == nil || f.Connect.Count != 50 || f.ConnectErrors == nil || len(f.ConnectErrors) != 0 {
					t.Errorf("%v: %d transactions, connects %+v, errors %v", args, *f.Transactions, f.Connect, f.ConnectErrors)
				}
				if f.Datagrams != nil || f.LostTransactions != nil || f.RetransSegs != nil {
					t.Errorf("%v: figures that it can't have: %+v", args, f.Figures)
				}
				var answers, got uint64
				for _, st := range o.Streams {
					answers += st.Server.ReceivedBytes
					got += st.Client.ReceivedBytes
				}
				if answers != n*uint64(p.RequestSize) || got != n*uint64(p.ResponseSize) {
					t.Errorf("%v: the server received %d bytes, the client %d", args, answers, got)
				}
				done := uint64(0)
				for _, iv := range o.Intervals {
					done += *iv.Transactions
					if iv.Failed == nil || *iv.Failed != 0 {
						t.Errorf("%v: an interval with %v failures", args, iv.Failed)
					}
				}
				if done != n {
					t.Errorf("%v: %d transactions in the intervals", args, done)
				}
				for _, reason := range o.Trust.Reasons {
					if strings.Contains(reason, "moved") {
						t.Errorf("%v: %s", args, reason)
					}
				}
			}
		})
	}
}

// A server that closes first keeps TIME_WAIT, so that few ports go a long way. When
// there are fewer than streams, each connection that isn't made is counted by its
// error, the result isn't trusted, and nobody spins.
func TestPortsRunOut(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	ns.SetSysctl("net.ipv4.ip_local_port_range", "40000 40099")
	ns.SetSysctl("net.ipv4.tcp_tw_reuse", "0")
	s := serve(t, place{ns: ns})
	o := s.complete(place{ns: ns}, "-t", "TCP_CRR", "--transactions", "1000")
	if *o.Summary.Transactions != 1000 || len(o.Summary.ConnectErrors) != 0 {
		t.Errorf("%d transactions over 100 ports, errors %v", *o.Summary.Transactions, o.Summary.ConnectErrors)
	}
	// The standing connections take a port each.
	const streams = 90
	o = s.complete(place{ns: ns}, "-t", "TCP_CRR", "-d", "0.5", "-P", strconv.Itoa(streams), "-i", "0.1")
	failed := o.Summary.ConnectErrors["connect: EADDRNOTAVAIL"]
	if failed == 0 || len(o.Summary.ConnectErrors) != 1 {
		t.Fatalf("%d streams over 100 ports: errors %v", streams, o.Summary.ConnectErrors)
	}
	if *o.Summary.Transactions == 0 || failed > streams*500 {
		t.Errorf("%d transactions, %d failures in half a second: a millisecond is between two of a stream's", *o.Summary.Transactions, failed)
	}
	reason := fmt.Sprintf("%d connections failed with connect: EADDRNOTAVAIL: the local ports ran out (net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse)", failed)
	if o.Trust.OK || !slices.Contains(o.Trust.Reasons, reason) {
		t.Errorf("reasons %q, want %q", o.Trust.Reasons, reason)
	}
	sum := uint64(0)
	for _, iv := range o.Intervals {
		sum += *iv.Failed
	}
	if sum != failed {
		t.Errorf("%d failures in the intervals, %d in all", sum, failed)
	}
}

// checkDatagrams holds the figures of a UDP_STREAM against each other: streams and
// intervals add up, and each datagram has come, is lost, or was on its way when
// the receiver's window closed. It returns how many those are.
func checkDatagrams(t *testing.T, o *outcome) (way uint64) {
	t.Helper()
	d := o.Summary.Datagrams
	if d == nil || d.Sent == nil || d.Received == nil || d.Lost == nil || *d.Received == 0 {
		t.Fatalf("%v: datagrams %+v", o.args, d)
	}
	size := uint64(o.Plan.Client.SendSize)
	// A worker counts bytes and calls one after the other, and the sampler may look in
	// between.
	near := func(bytes, datagrams uint64) bool {
		return bytes%size == 0 && max(bytes/size, datagrams)-min(bytes/size, datagrams) <= uint64(o.Plan.Streams)
	}
	if !near(*o.Summary.SentBytes, *d.Sent) || !near(*o.Summary.ReceivedBytes, *d.Received) {
		t.Errorf("%v: %d bytes sent, %d received; datagrams %+v of %d bytes", o.args, *o.Summary.SentBytes, *o.Summary.ReceivedBytes, d, size)
	}
	var sent, received, lost, ivReceived uint64
	var ivLost, ivStreamsLost int64
	for _, s := range o.Streams {
		sent, received, lost = sent+*s.Datagrams.Sent, received+*s.Datagrams.Received, lost+*s.Datagrams.Lost
	}
	for _, iv := range o.Intervals {
		ivReceived += iv.Bytes
		ivLost += *iv.Lost
		for _, s := range iv.Streams {
			ivStreamsLost += *s.Lost
		}
	}
	type sums struct {
		Sent, Received, Lost, IntervalsBytes uint64
		IntervalsLost, IntervalsStreamsLost  int64
	}
	want := sums{*d.Sent, *d.Received, *d.Lost, *o.Summary.ReceivedBytes, int64(*d.Lost), int64(*d.Lost)}
	if diff := cmp.Diff(want, sums{sent, received, lost, ivReceived, ivLost, ivStreamsLost}); diff != "" {
		t.Errorf("%v: (-summary +added up):\n%s", o.args, diff)
	}
	// The receiver's window lies inside the sender's, if there is no warm-up; of each
	// stream one datagram may have come by a send that hadn't returned yet.
	most := *d.Sent + *d.Duplicates + uint64(o.Plan.Streams)
	if *d.Received+*d.Lost > most {
		t.Fatalf("%v: %d received and %d lost of %d", o.args, *d.Received, *d.Lost, *d.Sent)
	}
	return most - *d.Received - *d.Lost
}

// dropped is how many packets the counters of a namespace's packet filter count.
func dropped(t *testing.T, n *netnstest.NS) (packets uint64) {
	t.Helper()
	out, err := n.Command("nft", "list", "ruleset").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`counter packets (\d+)`).FindAllStringSubmatch(string(out), -1) {
		v, _ := strconv.ParseUint(m[1], 10, 64)
		packets += v
	}
	return packets
}

// backlogDrops is how many packets the machine dropped during the test because a
// CPU's backlog was full, this test's and all others'.
func backlogDrops(o *outcome) uint64 {
	if s := o.Counters.Server.Softnet; s != nil {
		return deref(s.Dropped)
	}
	return 0
}

// onOneCPU keeps senders from changing their CPU, which on loopback and over veth
// puts datagrams out of order: each CPU has a queue of its own.
var onOneCPU = []string{"--cpu", "0"}

func TestDatagramSums(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	o := s.complete(place{}, append([]string{"-t", "UDP_STREAM", "-d", "0.4", "-i", "0.1", "-P", "3", "--rate", "20M"}, onOneCPU...)...)
	checkDatagrams(t, o)
	d := o.Summary.Datagrams
	if *d.OutOfOrder != 0 || *d.Duplicates != 0 || d.Jitter == nil || deref(d.SendErrors) != 0 {
		t.Errorf("%+v", d)
	}
	if *d.Lost != 0 && deref(d.SocketDrops)+backlogDrops(o) == 0 {
		t.Errorf("%d datagrams lost, and nobody dropped any", *d.Lost)
	}
}

// What the network drops is lost, and what the receiver's socket drops, too, which
// is said apart.
func TestLostDatagrams(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	b.Nft(`table ip t { chain c { type filter hook input priority 0; meta l4proto udp numgen random mod 10 == 0 counter drop; }; }`)
	o := s.complete(place{ns: a}, append([]string{"-t", "UDP_STREAM", "-d", "0.5", "-i", "0.1", "-P", "2", "--rate", "20M"}, onOneCPU...)...)
	d := o.Summary.Datagrams
	way, gone, backlog := checkDatagrams(t, o), dropped(t, b), backlogDrops(o)
	// Some of what was dropped introduced a socket, or came after the window.
	if *d.Lost == 0 || *d.Lost > gone+*d.SocketDrops+backlog || gone > *d.Lost+way+20 {
		t.Errorf("%d datagrams lost (%d on their way), %d dropped by the filter, %d at the sockets, at most %d by the backlogs", *d.Lost, way, gone, *d.SocketDrops, backlog)
	}
	if d.LostPercent == nil || *d.LostPercent < 3 || backlog == 0 && *d.LostPercent > 30 {
		t.Errorf("a tenth lost: %+v", d)
	}
	if !slices.ContainsFunc(o.Summary.Diagnosis, func(s string) bool { return strings.HasPrefix(s, "loss: ") }) {
		t.Errorf("diagnosis %q", o.Summary.Diagnosis)
	}
}

func TestSocketDrops(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	o := s.complete(place{}, "-t", "UDP_STREAM", "-d", "0.3", "-i", "0.1", "--rcvbuf", ":4K", "-m", "1000", "--rate", "400M")
	d := o.Summary.Datagrams
	way := checkDatagrams(t, o)
	if d.SocketDrops == nil {
		t.Skip("this kernel doesn't count a socket's drops")
	}
	// The kernel counts a drop at once, the receiver when it sees the gap: those of the
	// gap in which the window opens are no drops of the window, but lost in it.
	backlog := backlogDrops(o)
	if *d.Lost == 0 || *d.SocketDrops+backlog < *d.Lost/2 || *d.SocketDrops > *d.Lost+way {
		t.Errorf("%d lost (%d on their way), %d dropped at the socket, at most %d by the backlogs", *d.Lost, way, *d.SocketDrops, backlog)
	}
	if *d.SocketDrops >= *d.Lost/2 && !slices.ContainsFunc(o.Summary.Diagnosis, func(s string) bool { return strings.Contains(s, "--rcvbuf") }) {
		t.Errorf("diagnosis %q", o.Summary.Diagnosis)
	}
}

// Lost requests and responses are counted, and the test goes on; so does its
// set-up when its datagrams are lost, either way.
func TestLostTransactions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		client, server string // which of the packets that come there are dropped
		least          uint64 // lost transactions
	}{
		{"each tenth request", "", "numgen inc mod 10 == 0", 5},
		{"each tenth response", "numgen inc mod 10 == 0", "", 5},
		{"half of both", "numgen random mod 2 == 0", "numgen random mod 2 == 0", 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := netnstest.NewPair(t, netnstest.Pair{})
			s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
			for n, which := range map[*netnstest.NS]string{a: tt.client, b: tt.server} {
				if which != "" {
					n.Nft(`table ip t { chain c { type filter hook input priority 0; meta l4proto udp ` + which + ` counter drop; }; }`)
				}
			}
			o := s.complete(place{ns: a}, "-t", "UDP_RR", "--transactions", "60", "--burst", "3", "--response-timeout", "0.02", "-i", "0.1")
			lost := deref(o.Summary.LostTransactions)
			if *o.Summary.Transactions != 60 || o.Summary.Latency.Count != 60 || lost < tt.least {
				t.Errorf("%d transactions, %d latencies, %d lost", *o.Summary.Transactions, o.Summary.Latency.Count, lost)
			}
			sum := uint64(0)
			for _, iv := range o.Intervals {
				sum += deref(iv.LostTransactions)
			}
			if sum != lost {
				t.Errorf("%d lost in the intervals, %d in all", sum, lost)
			}
		})
	}
}

// Each connection of a connection test is made as asked, with no option that
// wasn't; its request is one send, and the response and the end are a receive
// each.
func TestConnectionCalls(t *testing.T) {
	t.Parallel()
	const n = 5
	_, client, srv := traced(t, allCalls, "-t", "TCP_CRR", "--transactions", strconv.Itoa(n), "--bind", "127.0.0.1", "--request-size", "3", "--response-size", "5")
	if len(client.data) != n+1 || len(srv.data) != n+1 {
		t.Fatalf("%d data sockets at the client, %d at the server", len(client.data), len(srv.data))
	}
	shape := func(d *descriptor) (calls []string) {
		for _, c := range d.calls {
			switch {
			case c.number() < 0: // a signal, or a time-out
			case c.name == "setsockopt":
				calls = append(calls, options([]*syscallLine{c})...)
			case c.name == "sendto", c.name == "recvfrom":
				calls = append(calls, fmt.Sprintf("%s=%d", c.name, c.number()))
			default:
				calls = append(calls, c.name)
			}
		}
		return calls
	}
	want := []string{"socket", "SO_RCVTIMEO", "SO_SNDTIMEO", "IP_BIND_ADDRESS_NO_PORT=1", "bind", "connect", "sendto=31", "recvfrom=5", "recvfrom=0", "close"}
	for _, d := range client.data[1:] {
		if diff := cmp.Diff(want, shape(d)); diff != "" {
			t.Errorf("the client's calls (-want +got):\n%s", diff)
		}
	}
	for _, d := range srv.data[1:] {
		got := options(d.calls)
		if diff := cmp.Diff(timeouts, got); diff != "" {
			t.Errorf("options of the server's connections (-want +got):\n%s", diff)
		}
		var moved []string
		for _, c := range d.payload() {
			if c.number() >= 0 {
				moved = append(moved, fmt.Sprintf("%s=%d", c.name, c.number()))
			}
		}
		if diff := cmp.Diff([]string{"recvfrom=3", "sendto=5"}, moved); diff != "" {
			t.Errorf("the server's calls (-want +got):\n%s", diff)
		}
	}
}

// UDP sockets have what was asked for and nothing else, and a message is a call.
func TestDatagramOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		flags          []string
		client, server []string // options besides the time-outs
	}{
		{"none", nil, nil, nil},
		{"several", []string{"--rcvbuf", "64K", "--sndbuf", "32K:", "--tos", "8"}, []string{"SO_SNDBUF=32768", "SO_RCVBUF=65536", "IP_TOS=8"}, []string{"SO_RCVBUF=65536", "IP_TOS=8"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, client, srv := traced(t, allCalls, append([]string{"-t", "UDP_RR", "--transactions", "5", "--response-timeout", "10"}, tt.flags...)...)
			for _, end := range []struct {
				trace *trace
				want  []string
			}{{client, slices.Concat(tt.client, timeouts)}, {srv, slices.Concat(tt.server, timeouts)}} {
				found := false
				// The server's answers to introductions go by copies of the descriptors.
				for _, d := range slices.Concat(end.trace.data, end.trace.others) {
					if d.calls[0].name != "socket" || !strings.Contains(d.calls[0].args, "SOCK_DGRAM") || d.index("connect") < 0 || len(d.payload()) == 0 {
						continue
					}
					found = true
					got := slices.DeleteFunc(options(d.calls), func(o string) bool { return o == "SO_REUSEADDR=1" }) // one port for several sockets
					slices.Sort(got)
					want := slices.Sorted(slices.Values(end.want))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("options (-want +got):\n%s", diff)
					}
					sends := 0
					for _, c := range d.payload() {
						if c.name == "sendto" && c.number() > 0 {
							sends++
						}
					}
					if sends != 5 {
						t.Errorf("%d sends for 5 transactions", sends)
					}
				}
				if !found {
					t.Error("no data socket in the trace")
				}
			}
			for _, knob := range []string{"nodelay", "mss", "congestion"} {
				for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
					if rows := o.rows(end, knob); len(rows) != 0 {
						t.Errorf("the audit of UDP has %s: %+v", knob, rows)
					}
				}
			}
		})
	}
}

// meeting begins a UDP_STREAM with a server that awaits the introductions of its
// streams, here that of the first. udp makes a socket at an address for it.
func meeting(t *testing.T, streams int) (p *peer, introduction []byte, udp func(from string) *net.UDPConn) {
	t.Helper()
	s := serve(t, place{})
	test := &plan.Test{Type: plan.UDPStream, Duration: plan.Seconds(100 * time.Millisecond), Streams: streams}
	test.Normalise()
	raw, err := json.Marshal(test)
	if err != nil {
		t.Fatal(err)
	}
	p = s.dial(t, control.Current) // from 127.0.0.1
	p.hear(control.TypeHello)
	p.say(control.TypePlan, control.Plan{Plan: raw})
	var ready control.Ready
	if err := json.Unmarshal(p.hear(control.TypeReady), &ready); err != nil {
		t.Fatal(err)
	}
	token, err := hex.DecodeString(ready.Token)
	if err != nil {
		t.Fatal(err)
	}
	introduction = control.Preamble{Token: [control.TokenSize]byte(token), Stream: 1}.Append(nil)
	return p, introduction, func(from string) *net.UDPConn {
		c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.addr.Addr(), uint16(ready.Port))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// A client sends its first datagrams before the server knows that the test has
// begun: they are the test's all the same.
func TestEarlyDatagrams(t *testing.T) {
	t.Parallel()
	p, introduction, udp := meeting(t, 1)
	c := udp("127.0.0.1")
	b := make([]byte, 2000)
	if _, err := c.Write(introduction); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(b); err != nil || !slices.Equal(b[:n], introduction) {
		t.Fatalf("the introduction is answered by %x, %v", b[:max(n, 0)], err)
	}
	p.hear(control.TypeAudit)
	const early, size = 5, 1000
	for number := range uint64(early) {
		d := binary.BigEndian.AppendUint64(nil, number)
		if _, err := c.Write(append(d, make([]byte, size-len(d))...)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(20 * time.Millisecond) // for nothing to happen to them in
	p.say(control.TypeStart, nil)
	var report *result.Report
	var collector control.Collector
	for closed := false; report == nil; {
		m, body, err := p.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m {
		case control.TypeHeartbeat, control.TypeStarted, control.TypeSample:
		case control.TypeClosed:
			p.say(control.TypeClosed, control.Closed{Direction: plan.ClientToServer})
			p.say(control.TypeFinish, nil)
			closed = true
		default:
			if report, err = collector.Add(control.Message{Type: m, Body: body}, 1000); err != nil || !closed {
				t.Fatalf("%s %s: %v", m, body, err)
			}
		}
	}
	last := report.Halves[0].Series[len(report.Halves[0].Series)-1]
	if got, lost := last.Received[0], last.TCP[result.LostDatagrams][0]; got != early*size || lost != 0 {
		t.Errorf("%d bytes received, %d datagrams lost, of %d with %d bytes each", got, lost, early, size)
	}
}

// A server sends datagrams only to the address that the control connection comes
// from, whoever knows the token.
func TestForgedIntroduction(t *testing.T) {
	t.Parallel()
	_, introduction, udp := meeting(t, 2)
	wrong := slices.Clone(introduction)
	wrong[10]++
	forged, honest := udp("127.0.0.2"), udp("127.0.0.1")
	for _, say := range []struct {
		c *net.UDPConn
		b []byte
	}{{forged, introduction}, {honest, wrong}, {honest, introduction[:20]}, {honest, nil}, {honest, introduction}} {
		if _, err := say.c.Write(say.b); err != nil {
			t.Fatal(err)
		}
	}
	// They are heard in their order: when the honest one's has its answer, the
	// others would have had theirs.
	b := make([]byte, 100)
	_ = honest.SetReadDeadline(time.Now().Add(patience))
	if n, err := honest.Read(b); err != nil || !slices.Equal(b[:n], introduction) {
		t.Errorf("the introduction is answered by %x, %v", b[:max(n, 0)], err)
	}
	_ = forged.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := forged.Read(b); err == nil {
		t.Errorf("a forged one is answered by %x", b[:n])
	}
	// The answer may have been lost: it comes again, on the stream's own socket.
	if _, err := honest.Write(introduction); err != nil {
		t.Fatal(err)
	}
	if n, err := honest.Read(b); err != nil || !slices.Equal(b[:n], introduction) {
		t.Errorf("a second introduction is answered by %x, %v", b[:max(n, 0)], err)
	}
}

// Addresses of either family, a local address, another namespace.
func TestCarriersAddresses(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	if !b.Addr6.IsValid() {
		t.Skip("needs a kernel with IPv6")
	}
	s := serve(t, place{ns: b}, "--listen", ":0")
	port := strconv.Itoa(int(s.addr.Port()))
	for _, tt := range []struct {
		name string
		args []string
		want netip.Addr
	}{
		{"IPv4", []string{b.Addr4.String() + ":" + port}, b.Addr4},
		{"IPv6", []string{"-6", "[" + b.Addr6.String() + "]:" + port}, b.Addr6},
		{"scope", []string{"[" + b.LinkLocal.WithZone(a.Device).String() + "]:" + port}, b.LinkLocal},
		{"bind", []string{"--bind", a.Addr4.String(), b.Addr4.String() + ":" + port}, b.Addr4},
		{"bind IPv6", []string{"--bind", a.Addr6.String(), "[" + b.Addr6.String() + "]:" + port}, b.Addr6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range slices.Sorted(maps.Keys(carried)) {
				o := run(t, place{ns: a}, append(slices.Concat(tt.args, carried[test]), "-P", "2", "-J")...)
				o.mustComplete(t)
				for _, st := range o.Streams {
					c, s := st.Client, st.Server
					if got := netip.MustParseAddrPort(c.Remote).Addr().WithZone(""); got != tt.want.WithZone("") {
						t.Errorf("%s: stream %d goes to %s", test, st.ID, c.Remote)
					}
					if without(c.Local) != without(s.Remote) || without(c.Remote) != without(s.Local) {
						t.Errorf("%s: stream %d is %s-%s at one end, %s-%s at the other", test, st.ID, c.Local, c.Remote, s.Remote, s.Local)
					}
				}
			}
		})
	}
	t.Run("netns", func(t *testing.T) {
		t.Parallel()
		asRoot(t)
		for _, test := range slices.Sorted(maps.Keys(carried)) {
			o := run(t, place{}, append(slices.Clone(carried[test]), "--netns", a.Path(), "-J", b.Addr4.String()+":"+port)...)
			o.mustComplete(t)
			if got := netip.MustParseAddrPort(o.Streams[0].Client.Local).Addr(); got != a.Addr4 {
				t.Errorf("%s: from %v", test, got)
			}
		}
	})
}

// Each format has the figures of the type.
func TestCarriersFormats(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	dir := t.TempDir()
	for test, want := range map[string]map[string][]string{
		"TCP_CRR": {
			"gobench": {"BenchmarkTCPCRR/request=1/response=1/burst=1/streams=2 1 ", " trans/sec ", " connect-mean-ns ", " connect-errors"},
			"csv":     {"trans"},
			"keyval":  {"summary.connect_latency_us.p99=", "summary.transactions=50\n"},
			"text":    {"connect [us]", "trans/s"},
		},
		"TCP_CC": {
			"gobench": {"BenchmarkTCPCC/", " trans/sec "},
			"keyval":  {"summary.connect_latency_us.p99="},
			"text":    {"connect [us]"},
		},
		"UDP_STREAM": {
			"gobench": {"BenchmarkUDPStream/msg=1400/streams=2 1 ", " bits/sec ", " lost-datagrams ", " jitter-ns"},
			"keyval":  {"summary.datagrams.received=", "summary.datagrams.lost="},
			"text":    {"datagrams", "lost", "jitter"},
		},
		"UDP_RR": {
			"gobench": {"BenchmarkUDPRR/request=1/response=1/burst=1/streams=2 1 ", " trans/sec ", " lost-transactions"},
			"keyval":  {"summary.lost_transactions=0\n"},
			"text":    {"trans/s"},
		},
	} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, test)
			o := run(t, place{}, append(slices.Clone(carried[test]), "-P", "2", "-i", "0.1", "--format", "jsonl", s.addr.String())...)
			o.mustComplete(t)
			lines := strings.SplitAfter(strings.TrimSuffix(o.stdout, "\n"), "\n")
			if err := os.WriteFile(file, []byte(lines[len(lines)-1]), 0o644); err != nil {
				t.Fatal(err)
			}
			for format, words := range want {
				show := start(t, place{}, "show", "--format", format, file)
				if status := show.status(); status != 0 {
					t.Fatalf("%s: exit status %d, %s", format, status, &show.stderr)
				}
				for _, w := range words {
					if !strings.Contains(show.stdout.String(), w) {
						t.Errorf("%s lacks %q:\n%s", format, w, &show.stdout)
					}
				}
				if strings.Contains(show.stdout.String(), "NaN") {
					t.Errorf("%s: %s", format, &show.stdout)
				}
			}
		})
	}
}
