package lab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"gperf/sockopt"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const ms = int64(time.Millisecond)

// decide lets a link decide over packets of size bytes that come at times, in
// ms, and returns in ms when each reaches the other end: -1 if it is lost, -2
// if it finds the queue full.
func decide(s shape, size int64, times ...int64) []int64 {
	f := newFate(s, 0)
	var due []int64
	for _, at := range times {
		switch d := f.of(at*ms, size); d.verdict {
		case losing:
			due = append(due, -1)
		case overflowing:
			due = append(due, -2)
		default:
			due = append(due, d.due/ms)
		}
	}
	return due
}

func TestFate(t *testing.T) {
	second := time.Second
	tests := []struct {
		name  string
		shape shape
		times []int64
		want  []int64
	}{
		{"nothing", shape{}, []int64{1, 2, 2}, []int64{1, 2, 2}},
		{"a delay", shape{delay: second}, []int64{1, 2, 2}, []int64{1001, 1002, 1002}},
		{"every third lost", shape{loss: loss{every: 3}}, []int64{1, 2, 3, 4, 5, 6, 7}, []int64{1, 2, -1, 4, 5, -1, 7}},
		{"each lost", shape{loss: loss{every: 1}}, []int64{1, 2}, []int64{-1, -1}},
		{"all lost by chance", shape{loss: loss{share: 1, run: 1}}, []int64{1, 2, 3}, []int64{-1, -1, -1}},
		// 1000 bytes take 10 ms, and 2000 may wait.
		{"a rate", shape{rate: 8e5, queue: 2000}, []int64{0, 0, 0, 15, 60}, []int64{10, 20, -2, 30, 70}},
		{"a rate and a delay", shape{rate: 8e5, queue: 2000, delay: second}, []int64{0, 0, 100}, []int64{1010, 1020, 1110}},
		{"a queue shorter than a packet", shape{rate: 8e5, queue: 500}, []int64{0, 0, 20}, []int64{10, -2, 30}},
		{"a spike", shape{delay: second, spike: spike{held: 500 * time.Millisecond, after: second}}, []int64{1, 1000, 1001, 1400, 1501, 1600}, []int64{1001, 2000, 2501, 2501, 2501, 2600}},
		{"all reordered", shape{delay: second, reorder: 1}, []int64{1, 2}, []int64{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, decide(tt.shape, 1000, tt.times...)); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
		})
	}
}

// What is by chance is so often as asked, in order, and the same each time.
func TestFateByChance(t *testing.T) {
	const n = 200000
	times := make([]int64, n)
	for i := range times {
		times[i] = int64(i)
	}
	for _, l := range []loss{{share: 0.01, run: 1}, {share: 0.01, run: 5}, {share: 0.3, run: 3}} {
		got := decide(shape{loss: l, seed: 1}, 1000, times...)
		lost, runs := 0, 0
		for i, d := range got {
			if d == -1 {
				lost++
				if i > 0 && got[i-1] != -1 {
					runs++
				}
			}
		}
		// A share of n packets in runs varies by sqrt(n share (1-share) run).
		slack := 5 * math.Sqrt(n*l.share*float64(l.run))
		if math.Abs(float64(lost)-n*l.share) > slack {
			t.Errorf("%v: %d of %d lost", l, lost, n)
		}
		if mean := float64(lost) / float64(runs); mean < float64(l.run) {
			t.Errorf("%v: runs of %.2f on average", l, mean)
		}
		if !slices.Equal(got, decide(shape{loss: l, seed: 1}, 1000, times...)) {
			t.Errorf("%v: two links of a seed lose different packets", l)
		}
		if slices.Equal(got, decide(shape{loss: l, seed: 2}, 1000, times...)) {
			t.Errorf("%v: two seeds lose the same packets", l)
		}
	}
	s := shape{delay: 100 * time.Millisecond, jitter: 50 * time.Millisecond, seed: 3}
	got := decide(s, 1000, times[:1000]...)
	if !slices.IsSorted(got) {
		t.Error("jitter has put packets out of order")
	}
	for i, d := range got {
		if took := d - times[i]; took < 50 || took > 150 {
			t.Fatalf("packet %d took %d ms", i, took)
		}
	}
	s = shape{delay: 100 * time.Millisecond, reorder: 0.1, seed: 3}
	early := 0
	for i, d := range decide(s, 1000, times[:10000]...) {
		if d-times[i] < 100 {
			early++
		}
	}
	if early < 850 || early > 1150 {
		t.Errorf("%d of 10000 packets skipped the delay, want about 1000", early)
	}
}

// Packets come out of a lane as they went in, whatever their sizes, and none is
// written over before it is out.
func TestLane(t *testing.T) {
	var l lane
	if _, ok := l.space(); ok || l.due() != never {
		t.Error("the zero lane isn't empty for ever")
	}
	if err := l.make(1 << 19); err != nil {
		t.Fatal(err)
	}
	defer l.free()
	const n = 20000
	done := make(chan error, 1)
	go func() {
		for i := range n {
			for l.due() == never {
				runtime.Gosched()
			}
			p := l.first()
			if want := size(i); l.due() != int64(i) || len(p) != want || p[0] != byte(i) || p[want-1] != byte(i) {
				done <- fmt.Errorf("packet %d: %d bytes due %d", i, len(p), l.due())
				return
			}
			l.drop()
		}
		done <- nil
	}()
	for i := range n {
		p, ok := l.space()
		for ; !ok; p, ok = l.space() {
			if len(done) > 0 {
				t.Fatal(<-done)
			}
			runtime.Gosched()
		}
		p = p[:size(i)]
		p[0], p[len(p)-1] = byte(i), byte(i)
		l.put(len(p), int64(i))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// size is that of the packet i: small ones, and large ones now and then.
func size(i int) int {
	if i%7 == 0 {
		return maxPacket - i%100
	}
	return 1 + i*37%1500
}

func TestFateAndLaneAllocateNothing(t *testing.T) {
	s := shape{
		rate: 1e9, queue: 1 << 20, delay: time.Millisecond, jitter: time.Microsecond, reorder: 0.1,
		loss: loss{share: 0.1, run: 2}, spike: spike{time.Second, time.Second},
	}
	f := newFate(s, 0)
	var l lane
	if err := l.make(s.memory()); err != nil {
		t.Fatal(err)
	}
	defer l.free()
	now := int64(0)
	allocs := testing.AllocsPerRun(1000, func() {
		now += 1000
		d := f.of(now, 1500)
		if _, ok := l.space(); !ok {
			t.Fatal("the lane is full")
		}
		l.put(1500, d.due)
		l.first()
		l.drop()
	})
	if allocs != 0 {
		t.Errorf("%v allocations per packet", allocs)
	}
}

func TestWireBytes(t *testing.T) {
	packet := func(version, header, length int, gso byte, segment uint16) []byte {
		p := make([]byte, vnetHeader+length)
		p[1] = gso
		binary.NativeEndian.PutUint16(p[4:], segment)
		p[vnetHeader] = byte(version<<4 | header/4)
		if version == 6 {
			header = 40
		}
		if length > header+12 {
			p[vnetHeader+header+12] = 32 / 4 << 4 // TCP with timestamps
		}
		return p
	}
	tests := []struct {
		name string
		p    []byte
		want int64
	}{
		{"one packet", packet(4, 20, 1500, 0, 0), 1514},
		{"ten segments", packet(4, 20, 52+10*1448, 1, 1448), 10 * 1514},
		{"ten segments and a byte", packet(4, 20, 52+10*1448+1, 1, 1448), 10*1514 + 14 + 52 + 1},
		{"with ECN", packet(4, 20, 52+2*1448, 1|0x80, 1448), 2 * 1514},
		{"IPv6", packet(6, 0, 72+3*1428, 4, 1428), 3 * 1514},
		{"a stub", packet(4, 20, 20, 1, 1448), 34},
	}
	for _, tt := range tests {
		if got := wireBytes(tt.p); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

// minRTT is the least round-trip time that the kernel has seen.
func minRTT(t *testing.T, c *net.TCPConn) time.Duration {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if err2 := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err2 != nil || err != nil {
		t.Fatal(err2, err)
	}
	return time.Duration(info.Min_rtt) * time.Microsecond
}

// apply puts settings into force that are given as name and value in turn.
func apply(t *testing.T, l *Lab, pairs ...string) []Applied {
	t.Helper()
	var settings []Setting
	for i := 0; i < len(pairs); i += 2 {
		settings = append(settings, Setting{"", pairs[i], pairs[i+1]})
	}
	applied, err := l.Apply(settings)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func stats(t *testing.T, l *Lab) LinkStats {
	t.Helper()
	s, ok := l.LinkStats()
	if !ok {
		t.Fatal("no link of gperf's own")
	}
	return s
}

func TestDelay(t *testing.T) {
	needTUN(t)
	inLab(t, Veth, func(t *testing.T, l *Lab) {
		begin := state(t, l, sockopt.Client)
		want := []Applied{{"client", "delay", "0.01", "10ms"}, {"server", "delay", "0.01", "10ms"}}
		if diff := cmp.Diff(want, apply(t, l, "delay", "0.01")); diff != "" {
			t.Errorf("applied (-want +got):\n%s", diff)
		}
		for _, addr := range []netip.Addr{l.Address(), l.Address6()} {
			if !addr.IsValid() {
				continue
			}
			c, s := connect(t, l, addr)
			echo(t, c, s, 100)
			if rtt := minRTT(t, c); rtt < 20*time.Millisecond {
				t.Errorf("over %v the least round trip took %v, want 20ms", addr, rtt)
			}
		}
		// A connection lives on when the link is made anew.
		c, s := connect(t, l, l.Address())
		apply(t, l)
		echo(t, c, s, 1)
		if diff := cmp.Diff(begin, state(t, l, sockopt.Client)); diff != "" {
			t.Errorf("the delay isn't undone (-before +after):\n%s", diff)
		}
		if _, ok := l.LinkStats(); ok {
			t.Error("a veth pair has the counters of a link of gperf's own")
		}
	})
}

// echo sends n bytes there and back.
func echo(t *testing.T, c, s net.Conn, n int) {
	t.Helper()
	if _, err := c.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(s, s, int64(n)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// A spike on the way of the acknowledgements holds them once.
func TestDelaySpike(t *testing.T) {
	needTUN(t)
	inLab(t, Veth, func(t *testing.T, l *Lab) {
		if _, err := l.Apply([]Setting{{"server", "delay-spike", "300ms@0"}}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		connect(t, l, l.Address())
		if took := time.Since(begin); took < 300*time.Millisecond {
			t.Errorf("the first connection took %v, want the spike's 300ms", took)
		}
	})
}

// Large packets cross the link whole: with TSO, and without where there is
// loss; what is lost is lost exactly, and is not the same as what arrives.
func TestLoss(t *testing.T) {
	needTUN(t)
	inLab(t, Veth, func(t *testing.T, l *Lab) {
		applied, err := l.Apply([]Setting{{"client", "loss", "1/10"}})
		if err != nil {
			t.Fatal(err)
		}
		want := []Applied{{"client", "loss", "1/10", "1/10"}, {"client", "offload.tso", "", "off"}}
		if diff := cmp.Diff(want, applied); diff != "" {
			t.Errorf("applied (-want +got):\n%s", diff)
		}
		const n, bytesEach = 1000, 100
		to, from := udp(t, l)
		for range n {
			if _, err := from.Write(make([]byte, bytesEach)); err != nil {
				t.Fatal(err)
			}
		}
		await(t, func() string {
			if s := stats(t, l).Client; s.Packets < n {
				return fmt.Sprintf("%d packets have come to the link", s.Packets)
			}
			return ""
		})
		got := stats(t, l)
		wantStats := LinkStats{Client: DirectionStats{Packets: n, Bytes: n * (bytesEach + 28 + 14), Lost: n / 10}}
		if diff := cmp.Diff(wantStats, got); diff != "" {
			t.Errorf("counters (-want +got):\n%s", diff)
		}
		for i := range n - n/10 {
			if _, err := to.Read(make([]byte, bytesEach)); err != nil {
				t.Fatalf("datagram %d: %v", i, err)
			}
		}
		// By TCP, whose packets have to be of one MTU.
		apply(t, l, "loss", "1/10")
		const total = 300000
		transfer(t, l, total)
		s := stats(t, l).Client
		if s.Packets < total/1448 || s.Bytes/s.Packets > 1514 {
			t.Errorf("%d packets of %d bytes, want none larger than 1514", s.Packets, s.Bytes/s.Packets)
		}
		if s.Lost != s.Packets/10 {
			t.Errorf("%d of %d packets lost, want every tenth", s.Lost, s.Packets)
		}
	})
}

// udp makes a UDP socket at each end, the client's connected to the server's.
func udp(t *testing.T, l *Lab) (server, client *net.UDPConn) {
	t.Helper()
	err := l.Do(sockopt.Server, func() (err error) {
		server, err = net.ListenUDP("udp4", &net.UDPAddr{IP: l.Address().AsSlice()})
		return err
	})
	if err == nil {
		err = l.Do(sockopt.Client, func() (err error) {
			client, err = net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	if err := server.SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	if err := server.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return server, client
}

// transfer sends bytes from the client to the server, which checks them.
func transfer(t *testing.T, l *Lab, total int) {
	t.Helper()
	c, s := connect(t, l, l.Address())
	data := make([]byte, total)
	for i := range data {
		data[i] = byte(i * 7 / 3)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		sent <- err
	}()
	got := make([]byte, total)
	if _, err := io.ReadFull(s, got); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, got) {
		t.Error("the bytes that came aren't those that were sent")
	}
}

// The relay passes packets of TSO on whole, and allocates nothing for them.
func TestRelayOfLargePackets(t *testing.T) {
	needTUN(t)
	inLab(t, Veth, func(t *testing.T, l *Lab) {
		apply(t, l, "delay", "0", "link-rate", "10G")
		const total = 8 << 20
		transfer(t, l, total)
		s := stats(t, l).Client
		if s.Packets > total/1448/2 {
			t.Errorf("%d packets for %d bytes: TSO is off", s.Packets, total)
		}
		if s.Lost+s.QueueDrops+s.MemoryDrops+s.Failed > 0 {
			t.Errorf("dropped: %+v", s)
		}

		// Allocations, by many small packets.
		apply(t, l, "delay", "0")
		_, from := udp(t, l)
		one := make([]byte, 1)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const n = 5000
		for range n {
			if _, err := from.Write(one); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(patience); l.relay.dirs[0].packets.Load() < n && time.Now().Before(deadline); {
			runtime.Gosched()
		}
		runtime.ReadMemStats(&after)
		if allocs := after.Mallocs - before.Mallocs; allocs > n/10 {
			t.Errorf("%d allocations for %d packets", allocs, n)
		}
	})
}

// A link carries no more than its rate, whether it is a token bucket's or
// gperf's own, and says what it had to drop.
func TestLinkRate(t *testing.T) {
	for _, relayed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relayed=%t", relayed), func(t *testing.T) {
			if relayed {
				needTUN(t)
			}
			inLab(t, Veth, func(t *testing.T, l *Lab) {
				settings := []string{"link-rate", "100M", "link-queue", "64K"}
				if relayed {
					settings = append(settings, "delay", "1ms")
				}
				apply(t, l, settings...)
				begin := time.Now() // nothing has been sent: what comes later can't have waited
				c, s := connect(t, l, l.Address())
				go func() {
					p := make([]byte, 128<<10)
					for {
						if _, err := c.Write(p); err != nil {
							return // closed
						}
					}
				}()
				p := make([]byte, 128<<10)
				n := 0
				for time.Since(begin) < 500*time.Millisecond {
					m, err := s.Read(p)
					if err != nil {
						t.Fatal(err)
					}
					n += m
				}
				took := time.Since(begin)
				if most := 100e6 / 8 * (took + time.Millisecond).Seconds(); float64(n) > most { // and the bucket
					t.Errorf("%d bytes in %v, want at most %.0f", n, took, most)
				}
				if n < 100<<10 {
					t.Errorf("%d bytes in %v", n, took)
				}
				if !relayed {
					return
				}
				got := stats(t, l).Client
				if got.QueueHighBytes > 64<<10 || got.QueueHighBytes < 32<<10 {
					t.Errorf("at most %d bytes waited in a queue of 64K", got.QueueHighBytes)
				}
				if got.Lost > 0 || got.MemoryDrops > 0 {
					t.Errorf("dropped: %+v", got)
				}
			})
		})
	}
}
