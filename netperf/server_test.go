package netperf

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"gperf/control"
	"gperf/netperf/wire"
	"gperf/server"
)

// patience bounds every wait for something that has to happen.
const patience = 20 * time.Second

// serve starts a server of netperf's clients on loopback.
func serve(t testing.TB, p *Server, cfg server.Config) netip.AddrPort {
	t.Helper()
	fd, err := server.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listeners, cfg.Protocols = []int{fd}, []server.Protocol{p}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server doesn't end")
		}
	})
	return s.Addrs()[0]
}

// A caller is the test itself as a client.
type caller struct {
	t testing.TB
	net.Conn
}

// call connects to a server.
func call(t testing.TB, to netip.AddrPort) *caller {
	t.Helper()
	return &caller{t, dialFrom(t, "tcp4", "127.0.0.1", to)}
}

// dialFrom connects from an address of this machine.
func dialFrom(t testing.TB, network, from string, to netip.AddrPort) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	if network == "udp4" {
		d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.Dial(network, to.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *caller) say(m wire.Message) {
	c.t.Helper()
	if _, err := c.Write(m[:]); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) hear() *wire.Message {
	c.t.Helper()
	var m wire.Message
	if _, err := io.ReadFull(c, m[:]); err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return &m
}

// ask says one message and returns the answer, which must have no errno.
func (c *caller) ask(m wire.Message) *wire.Message {
	c.t.Helper()
	c.say(m)
	answer := c.hear()
	if n := answer.Second(); n != 0 {
		c.t.Fatalf("errno %d: %v", n, unix.Errno(n))
	}
	return answer
}

// refused says one message, which must be answered with the errno and no more.
func (c *caller) refused(m wire.Message, want unix.Errno) {
	c.t.Helper()
	c.say(m)
	got := c.hear()
	if unix.Errno(got.Second()) != want {
		c.t.Errorf("errno %d (%v), want %d (%v)", got.Second(), unix.Errno(got.Second()), want, want)
	}
	if rest := bytes.Trim(got[8:], "\x00"); len(rest) > 0 {
		c.t.Errorf("more than zeros behind the errno: %x", rest)
	}
}

// gone waits for the server's end of the connection, without a word.
func (c *caller) gone() {
	c.t.Helper()
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
		c.t.Errorf("instead of the end: %d bytes, %v", len(rest), err)
	}
}

// omni is a request of an omni test, which edit changes: TCP over IPv4, for one
// second.
func omni(t testing.TB, direction wire.Direction, edit func(*wire.OmniRequest)) wire.Message {
	t.Helper()
	r := wire.NewOmniRequest()
	r.IPFamily, r.SocketType, r.Protocol, r.Direction = wire.FamilyIPv4, wire.SocketStream, unix.IPPROTO_TCP, direction
	r.Flags, r.TestLength = wire.FlagRoutingAllowed, 1
	if direction == both {
		r.RequestSize, r.ResponseSize = 1, 1
	}
	if edit != nil {
		edit(&r)
	}
	m, err := r.Encode(wire.NoAffinity)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	toServer   = wire.DirectionReceive
	fromServer = wire.DirectionTransmit
	both       = toServer | fromServer
)

func udp(r *wire.OmniRequest) { r.SocketType, r.Protocol = wire.SocketDatagram, unix.IPPROTO_UDP }

// data connects to the port that an omni response offers.
func (c *caller) data(response *wire.Message, network, from string) net.Conn {
	c.t.Helper()
	r, err := wire.ParseOmniResponse(response)
	if err != nil {
		c.t.Fatal(err)
	}
	return dialFrom(c.t, network, from, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(r.DataPort)))
}

// results awaits the results of an omni test.
func (c *caller) results(l wire.Layout) wire.OmniResults {
	c.t.Helper()
	m := c.hear()
	r, err := wire.ParseOmniResults(m, l)
	if err != nil {
		c.t.Fatal(err)
	}
	const end = 292 // of the last field of 2.7
	if rest := bytes.Trim(m[end:], "\x00"); len(rest) > 0 {
		c.t.Errorf("behind the results: %q", rest)
	}
	return r
}

// send writes n bytes on a data connection and ends it.
func (c *caller) send(data net.Conn, n int) {
	c.t.Helper()
	if _, err := data.Write(make([]byte, n)); err != nil {
		c.t.Fatal(err)
	}
	if err := data.(*net.TCPConn).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// transact makes transactions of one byte each way.
func transact(t testing.TB, data net.Conn, n int) {
	t.Helper()
	var b [1]byte
	for range n {
		if _, err := data.Write(b[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(data, b[:]); err != nil {
			t.Fatal(err)
		}
	}
}

// A captured message is one that a real netperf or netserver has sent.
type captured struct {
	file, kind string // "request OMNI"
	m          wire.Message
}

// captures reads the captures of package wire.
func captures(t testing.TB) (all []captured) {
	t.Helper()
	files, err := filepath.Glob("wire/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures: ", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			kind, _, _ := strings.Cut(line, " ")
			if kind != "request" && kind != "response" && kind != "results" {
				continue
			}
			c := captured{file: filepath.Base(file), kind: line}
			if _, err := hex.Decode(c.m[:], []byte(lines[i+1])); err != nil {
				t.Fatal(file, err)
			}
			all = append(all, c)
		}
	}
	return all
}

// here replaces buffer sizes that were the default where the captures were made by
// those of this machine.
func here(t testing.TB, datagrams bool, receive, send *int32) {
	t.Helper()
	p := socketPlan{family: unix.AF_INET, datagrams: datagrams}
	fd, err := unix.Socket(p.family, p.kind()|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s, r := buffers(fd)
	if *receive == 131072 || *receive == 212992 {
		*receive = int32(r)
	}
	if *send == 16384 || *send == 212992 {
		*send = int32(s)
	}
}

// Each request that a real client has sent to a real server is answered as that
// one answered it, but for what it left unset.
func TestAnswersAsNetserver(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	served := 0
	all := captures(t)
	for i, c := range all {
		if i+1 == len(all) || !strings.HasPrefix(c.kind, "request ") || all[i+1].kind != "response "+c.kind[8:] || strings.Contains(c.file, "v260_server") {
			continue
		}
		if c.m[0] != 0 || bytes.Contains(c.m[:], []byte("/etc/")) && c.file != "omni_opts.txt" {
			continue
		}
		t.Run(c.file, func(t *testing.T) {
			conn := call(t, addr)
			got, want := conn.ask(c.m), all[i+1].m
			if got.Type() != want.Type() {
				t.Errorf("type %d, want %d", got.Type(), want.Type())
			}
			switch c.kind {
			case "request OMNI":
				g, err := wire.ParseOmniResponse(got)
				w, _ := wire.ParseOmniResponse(&want)
				w.Flags &= wire.FlagNoDelay | wire.FlagMeasureCPU
				here(t, w.RecvBufSize > 200_000, &w.RecvBufSize, &w.SendBufSize)
				if n := int32(w.ReceiveSize); n > 4000 && w.RecvWidth == 2 { // of the server's choice
					w.ReceiveSize = uint32(w.RecvBufSize)
				}
				if n := int32(w.SendSize); n > 4000 && n < 1<<20 && w.SendWidth == 2 {
					w.SendSize = uint32(w.SendBufSize)
				}
				if diff := cmp.Diff(w, g, cmpopts.IgnoreFields(wire.OmniResponse{}, "DataPort", "TestLength"), cmpopts.EquateNaNs()); diff != "" || err != nil {
					t.Errorf("%v, (-want +got):\n%s", err, diff)
				}
				if g.DataPort == 0 || len(bytes.Trim(got[80:], "\x00")) > 0 {
					t.Errorf("port %d, and behind the words %x", g.DataPort, bytes.TrimRight(got[80:], "\x00"))
				}
			case "request TCP_STREAM", "request TCP_MAERTS":
				g, err := wire.ParseStreamResponse(got)
				w, _ := wire.ParseStreamResponse(&want)
				here(t, false, &w.RecvBufSize, &w.SendBufSize)
				w.MessageSize = w.RecvBufSize
				if c.kind == "request TCP_MAERTS" {
					w.MessageSize = w.SendBufSize
				}
				if diff := cmp.Diff(w, g, cmpopts.IgnoreFields(w, "DataPort", "TestLength")); diff != "" || err != nil || g.DataPort == 0 {
					t.Errorf("port %d, %v, (-want +got):\n%s", g.DataPort, err, diff)
				}
			case "request UDP_STREAM":
				g, err := wire.ParseUDPStreamResponse(got)
				w, _ := wire.ParseUDPStreamResponse(&want)
				here(t, true, &w.RecvBufSize, &w.SendBufSize)
				if diff := cmp.Diff(w, g, cmpopts.IgnoreFields(w, "DataPort", "TestLength")); diff != "" || err != nil || g.DataPort == 0 {
					t.Errorf("port %d, %v, (-want +got):\n%s", g.DataPort, err, diff)
				}
			case "request CPU_CALIBRATE":
				g, err := wire.ParseCPUCalibration(got)
				if err != nil || g.Rate != 100 || int(g.NumCPUs) != cpuCount() {
					t.Errorf("%+v, %v", g, err)
				}
			case "request SYSINFO":
				if *got != want {
					t.Errorf("%q, want %q", got[8:100], want[8:100])
				}
			default:
				g, err := wire.ParseTransactionResponse(got)
				w, _ := wire.ParseTransactionResponse(&want)
				here(t, c.kind == "request UDP_RR", &w.RecvBufSize, &w.SendBufSize)
				if diff := cmp.Diff(w, g, cmpopts.IgnoreFields(w, "DataPort", "TestLength")); diff != "" || err != nil || g.DataPort == 0 {
					t.Errorf("port %d, %v, (-want +got):\n%s", g.DataPort, err, diff)
				}
			}
			served++
		})
	}
	if served < 40 {
		t.Errorf("only %d requests", served)
	}
}

// A client's whole exchanges, one after the other on one control connection.
func TestOmniTests(t *testing.T) {
	t.Parallel()
	c := call(t, serve(t, &Server{}, server.Config{}))
	const bytes = 300_000
	counts := cmpopts.IgnoreFields(wire.OmniResults{}, "RecvBufSize", "SendBufSize", "ElapsedSeconds", "CongControl", "RecvCalls", "SendCalls", "TransportRetrans")

	// What the client sends.
	data := c.data(c.ask(omni(t, toServer, nil)), "tcp4", "127.0.0.1")
	c.send(data, bytes)
	got := c.results(wire.Layout27)
	if diff := cmp.Diff(wire.OmniResults{BytesReceived: bytes}, got, counts); diff != "" {
		t.Errorf("receiver (-want +got):\n%s", diff)
	}
	if got.RecvCalls == 0 || got.SendCalls != 0 || got.ElapsedSeconds <= 0 || got.CongControl == "" || got.TransportRetrans != 0 {
		t.Errorf("%+v", got)
	}

	// What the server sends: exactly what was asked for.
	data = c.data(c.ask(omni(t, fromServer, func(r *wire.OmniRequest) { r.TestLength, r.SendSize = -bytes, 1000 })), "tcp4", "127.0.0.1")
	n, err := io.Copy(io.Discard, data)
	if err != nil || n != bytes {
		t.Errorf("received %d bytes, %v", n, err)
	}
	got = c.results(wire.Layout27)
	if diff := cmp.Diff(wire.OmniResults{BytesSent: bytes, SendCalls: bytes / 1000}, got, cmpopts.IgnoreFields(wire.OmniResults{}, "RecvBufSize", "SendBufSize", "ElapsedSeconds", "CongControl", "TransportRetrans")); diff != "" {
		t.Errorf("sender (-want +got):\n%s", diff)
	}

	// Requests and responses, with the CPUs measured.
	data = c.data(c.ask(omni(t, both, func(r *wire.OmniRequest) { r.Flags |= wire.FlagMeasureCPU })), "tcp4", "127.0.0.1")
	transact(t, data, 7)
	_ = data.Close()
	got = c.results(wire.Layout27)
	if got.BytesReceived != 7 || got.BytesSent != 7 || got.TransReceived != 7 || got.RecvCalls != 7 || got.SendCalls != 7 {
		t.Errorf("responder: %+v", got)
	}
	if got.CPUMethod != wire.CPUProcStat || int(got.NumCPUs) != cpuCount() {
		t.Errorf("CPUs: %+v", got)
	}

	// The same for a client of 2.6, which says what it is.
	if m := c.ask(wire.New(wire.TypeSysInfo, wire.NoAffinity)); m.Type() != wire.TypeSysInfoResponse {
		t.Errorf("type %d", m.Type())
	}
	data = c.data(c.ask(omni(t, both, nil)), "tcp4", "127.0.0.1")
	transact(t, data, 3)
	_ = data.Close()
	got = c.results(wire.Layout26)
	if diff := cmp.Diff(wire.OmniResults{BytesReceived: 3, BytesSent: 3, TransReceived: 3, RecvCalls: 3, SendCalls: 3}, got,
		cmpopts.IgnoreFields(wire.OmniResults{}, "RecvBufSize", "SendBufSize", "ElapsedSeconds", "CongControl", "TransportRetrans")); diff != "" {
		t.Errorf("layout of 2.6 (-want +got):\n%s", diff)
	}

	// Datagrams, which an empty one ends.
	data = c.data(c.ask(omni(t, toServer, udp)), "udp4", "127.0.0.1")
	for range 3 {
		_, _ = data.Write(make([]byte, 100))
	}
	_, _ = data.Write(nil)
	got = c.results(wire.Layout26)
	if got.BytesReceived != 300 || got.RecvCalls != 3 || got.TransportRetrans != -1 || got.CongControl != "" {
		t.Errorf("datagrams: %+v", got)
	}
	data = c.data(c.ask(omni(t, both, udp)), "udp4", "127.0.0.1")
	transact(t, data, 3)
	_, _ = data.Write(nil)
	if got = c.results(wire.Layout26); got.TransReceived != 3 || got.BytesSent != 3 || got.TransportRetrans != -1 {
		t.Errorf("requests in datagrams: %+v", got)
	}

	// A connection for each transaction, so many; the server closes first.
	response := c.ask(omni(t, both, func(r *wire.OmniRequest) { r.Flags |= wire.FlagConnectTest; r.TestLength = -3 }))
	for range 3 {
		data = c.data(response, "tcp4", "127.0.0.1")
		transact(t, data, 1)
		if n, err := io.Copy(io.Discard, data); n != 0 || err != nil {
			t.Errorf("instead of a close: %d bytes, %v", n, err)
		}
	}
	if got = c.results(wire.Layout26); got.TransReceived != 3 || got.TransportRetrans != -1 {
		t.Errorf("connections: %+v", got)
	}
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.gone()
}

// A client that goes with data unread resets its connection: an end like another.
func TestResetIsAnEnd(t *testing.T) {
	t.Parallel()
	c := call(t, serve(t, &Server{}, server.Config{}))
	for _, direction := range []wire.Direction{both, toServer, fromServer} {
		data := c.data(c.ask(omni(t, direction, nil)), "tcp4", "127.0.0.1")
		if direction == fromServer {
			_, _ = io.ReadFull(data, make([]byte, 1))
		} else if _, err := data.Write(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if direction == both {
			_, _ = io.ReadFull(data, make([]byte, 1))
		}
		_ = data.(*net.TCPConn).SetLinger(0)
		_ = data.Close()
		if got := c.results(wire.Layout27); direction == both && got.TransReceived != 1 || direction == fromServer && got.BytesSent == 0 {
			t.Errorf("%+v", got)
		}
	}
}

// Messages that are no tests, and those that nobody knows, leave the connection as
// it is.
func TestOtherMessages(t *testing.T) {
	t.Parallel()
	c := call(t, serve(t, &Server{}, server.Config{}))
	for _, typ := range []int32{wire.TypeNodeIdentify, 11, 99, 500, 540, -7, 1 << 30} {
		c.refused(wire.New(typ, wire.NoAffinity), unix.Errno(wire.ErrnoUnknownRequest))
	}
	for _, typ := range []int32{wire.TypeDebugOn, wire.TypeDebugOff} {
		if m := c.ask(wire.New(typ, wire.NoAffinity)); *m != wire.New(wire.TypeDebugOK, 0) {
			t.Errorf("debugging: % x", m[:16])
		}
	}
	pass, err := wire.EncodePassphrase("nobody asked", wire.NoAffinity)
	if err != nil {
		t.Fatal(err)
	}
	c.say(pass) // which has no answer
	calibration, err := wire.ParseCPUCalibration(c.ask(wire.New(wire.TypeCPUCalibrate, wire.NoAffinity)))
	if err != nil || calibration.Rate != 100 || int(calibration.NumCPUs) != cpuCount() {
		t.Errorf("%+v, %v", calibration, err)
	}
	data := c.data(c.ask(omni(t, both, nil)), "tcp4", "127.0.0.1")
	transact(t, data, 1)
	_ = data.Close()
	if got := c.results(wire.Layout27); got.TransReceived != 1 {
		t.Errorf("%+v", got)
	}
}

// The tests of clients that know no omni.
func TestClassicTests(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	must := func(m wire.Message, err error) wire.Message {
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	stream := func(r wire.StreamRequest) wire.Message {
		r.SendBufSize, r.RecvBufSize, r.Alignment, r.IPFamily = -1, -1, 8, wire.FamilyIPv4
		return must(r.Encode(wire.NoAffinity))
	}
	transaction := func(r wire.TransactionRequest) wire.Message {
		r.SendBufSize, r.RecvBufSize, r.RequestSize, r.ResponseSize, r.IPFamily = -1, -1, 1, 1, wire.FamilyIPv4
		return must(r.Encode(wire.NoAffinity))
	}
	// The port is in another word of each layout.
	open := func(c *caller, network string, port int32) net.Conn {
		return dialFrom(c.t, network, "127.0.0.1", netip.AddrPortFrom(addr.Addr(), uint16(port)))
	}
	streamPort := func(m *wire.Message) int32 {
		r, _ := wire.ParseStreamResponse(m)
		return r.DataPort
	}
	transactionPort := func(m *wire.Message) int32 {
		r, _ := wire.ParseTransactionResponse(m)
		return r.DataPort
	}
	results := func(c *caller) wire.TransactionResults {
		r, err := wire.ParseTransactionResults(c.hear())
		if err != nil {
			c.t.Error(err)
		}
		return r
	}
	for _, tt := range []struct {
		name string
		run  func(*testing.T, *caller)
	}{
		{"TCP_STREAM", func(t *testing.T, c *caller) {
			for range 2 { // a length in bytes looks like one in seconds
				answer := c.ask(stream(wire.StreamRequest{Type: wire.TypeTCPStream, TestLength: 50_000}))
				c.send(open(c, "tcp4", streamPort(answer)), 50_000)
				r, err := wire.ParseStreamResults(c.hear())
				if err != nil || r.Bytes != 50_000 || r.Calls == 0 || r.ElapsedSeconds <= 0 {
					t.Errorf("%+v, %v", r, err)
				}
			}
		}},
		{"TCP_MAERTS", func(t *testing.T, c *caller) {
			answer := c.ask(stream(wire.StreamRequest{Type: wire.TypeTCPMaerts, TestLength: 1, MessageSize: 500}))
			n, err := io.Copy(io.Discard, open(c, "tcp4", streamPort(answer)))
			r, rerr := wire.ParseStreamResults(c.hear())
			if err != nil || rerr != nil || n == 0 || r.Bytes != float64(n) || r.Calls == 0 {
				t.Errorf("received %d, %v; %+v, %v", n, err, r, rerr)
			}
		}},
		{"TCP_RR", func(t *testing.T, c *caller) {
			// The client keeps its connection until it has the results.
			answer := c.ask(transaction(wire.TransactionRequest{Type: wire.TypeTCPRR, TestLength: 1}))
			data := open(c, "tcp4", transactionPort(answer))
			transact(t, data, 5)
			if r := results(c); r.TransReceived != 5 || r.BytesReceived != 10 {
				t.Errorf("%+v", r)
			}
			answer = c.ask(transaction(wire.TransactionRequest{Type: wire.TypeTCPRR, TestLength: -4, MeasureCPU: true}))
			data = open(c, "tcp4", transactionPort(answer))
			transact(t, data, 4)
			if r := results(c); r.TransReceived != 4 || r.CPUMethod != wire.CPUProcStat || int(r.NumCPUs) != cpuCount() {
				t.Errorf("counted: %+v", r)
			}
		}},
		{"TCP_CRR", func(t *testing.T, c *caller) {
			answer := c.ask(transaction(wire.TransactionRequest{Type: wire.TypeTCPCRR, TestLength: -3}))
			for range 3 {
				data := open(c, "tcp4", transactionPort(answer))
				transact(t, data, 1)
				_, _ = io.Copy(io.Discard, data)
			}
			if r := results(c); r.TransReceived != 3 {
				t.Errorf("%+v", r)
			}
		}},
		{"TCP_CC", func(t *testing.T, c *caller) {
			answer := c.ask(transaction(wire.TransactionRequest{Type: wire.TypeTCPCC, TestLength: 1}))
			for range 3 {
				data := open(c, "tcp4", transactionPort(answer))
				if n, err := io.Copy(io.Discard, data); n != 0 || err != nil {
					t.Errorf("instead of a close: %d bytes, %v", n, err)
				}
			}
			if r := results(c); r.TransReceived != 3 || r.BytesReceived != 0 {
				t.Errorf("%+v", r)
			}
		}},
		{"UDP_RR", func(t *testing.T, c *caller) {
			answer := c.ask(transaction(wire.TransactionRequest{Type: wire.TypeUDPRR, TestLength: 1}))
			data := open(c, "udp4", transactionPort(answer))
			transact(t, data, 5)
			if r := results(c); r.TransReceived != 5 {
				t.Errorf("%+v", r)
			}
		}},
		{"UDP_STREAM", func(t *testing.T, c *caller) {
			answer := c.ask(wire.UDPStreamRequest{RecvBufSize: -1, MessageSize: 100, TestLength: 1, IPFamily: wire.FamilyIPv4}.Encode(wire.NoAffinity))
			r, err := wire.ParseUDPStreamResponse(answer)
			if err != nil {
				t.Fatal(err)
			}
			data := open(c, "udp4", r.DataPort)
			for range 4 {
				_, _ = data.Write(make([]byte, 100))
			}
			m := c.hear()
			got, err := wire.ParseUDPStreamResults(m)
			if err != nil || m.Type() != wire.TypeUDPStreamResults || got.MessagesReceived != 4 || got.BytesReceived != 400 || got.CPUPercent != -1 {
				t.Errorf("%+v, %v", got, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, call(t, addr))
		})
	}
}

// What a client may not ask for is refused with an errno, and the connection goes
// on. Nothing is allocated for it: a refusal is one small message.
func TestRefusals(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{Limits: server.Limits{Duration: time.Minute, Memory: 1 << 20}})
	for _, tt := range []struct {
		name      string
		direction wire.Direction
		edit      func(*wire.OmniRequest)
		want      unix.Errno
	}{
		{"a send beyond any size", fromServer, func(r *wire.OmniRequest) { r.SendSize = 1<<32 - 2 }, unix.EINVAL},
		{"a receive beyond any size", toServer, func(r *wire.OmniRequest) { r.ReceiveSize = 1 << 31 }, unix.EINVAL},
		{"a request beyond any size", both, func(r *wire.OmniRequest) { r.RequestSize = 1<<31 - 1 }, unix.EINVAL},
		{"more memory than there may be", fromServer, func(r *wire.OmniRequest) { r.SendSize = 1<<20 + 1 }, unix.ENOMEM},
		{"both buffers together", both, func(r *wire.OmniRequest) { r.RequestSize, r.ResponseSize = 600_000, 600_000 }, unix.ENOMEM},
		{"a length beyond the limit", toServer, func(r *wire.OmniRequest) { r.TestLength = 61 }, unix.EINVAL},
		{"a length beyond any limit", toServer, func(r *wire.OmniRequest) { r.TestLength = 1<<31 - 1 }, unix.EINVAL},
		{"a file to send", fromServer, func(r *wire.OmniRequest) { r.FillFile = "/etc/passwd" }, unix.EACCES},
		{"a file in disguise", fromServer, func(r *wire.OmniRequest) { r.FillFile = "/dev/../etc/passwd" }, unix.EACCES},
		{"a device", both, func(r *wire.OmniRequest) { r.FillFile = "/dev/mem" }, unix.EACCES},
		{"SCTP", toServer, func(r *wire.OmniRequest) { r.Protocol = unix.IPPROTO_SCTP }, unix.EOPNOTSUPP},
		{"DCCP", toServer, func(r *wire.OmniRequest) { r.Protocol, r.SocketType = unix.IPPROTO_DCCP, wire.SocketDCCP }, unix.EOPNOTSUPP},
		{"UDP-Lite", toServer, func(r *wire.OmniRequest) { r.Protocol, r.SocketType = unix.IPPROTO_UDPLITE, wire.SocketDatagram }, unix.EOPNOTSUPP},
		{"datagrams of TCP", toServer, func(r *wire.OmniRequest) { r.SocketType = wire.SocketDatagram }, unix.EPROTONOSUPPORT},
		{"RDS", toServer, func(r *wire.OmniRequest) { r.IPFamily = wire.FamilyRDS }, unix.EAFNOSUPPORT},
		{"a family that isn't", toServer, func(r *wire.OmniRequest) { r.IPFamily = 77 }, unix.EAFNOSUPPORT},
		{"connections that only send", toServer, func(r *wire.OmniRequest) { r.Flags |= wire.FlagConnectTest }, unix.EOPNOTSUPP},
		{"connections of UDP", both, func(r *wire.OmniRequest) { udp(r); r.Flags |= wire.FlagConnectTest }, unix.EOPNOTSUPP},
		{"a congestion control that isn't", toServer, func(r *wire.OmniRequest) { r.CongControl = "gperf-none" }, unix.ENOENT},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := call(t, addr)
			c.refused(omni(t, tt.direction, tt.edit), tt.want)
			c.ask(wire.New(wire.TypeCPUCalibrate, wire.NoAffinity))
			c.ask(omni(t, toServer, nil)) // the same connection's next test is served
		})
	}
}

// Files of random bytes and of zeros are what a client may fill a server's buffers
// with.
func TestFillFiles(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	const size = 4096
	for file, random := range map[string]bool{"": false, "/dev/zero": false, "/dev/urandom": true, "/dev/random": true} {
		c := call(t, addr)
		data := c.data(c.ask(omni(t, fromServer, func(r *wire.OmniRequest) { r.FillFile, r.SendSize, r.TestLength = file, size, -2*size })), "tcp4", "127.0.0.1")
		got, err := io.ReadAll(data)
		if err != nil || len(got) != 2*size {
			t.Fatalf("%q: %d bytes, %v", file, len(got), err)
		}
		seen := map[byte]bool{}
		for _, b := range got {
			seen[b] = true
		}
		if isRandom := len(seen) > 200; isRandom != random {
			t.Errorf("%q: %d different bytes", file, len(seen))
		}
	}
	// What the server only receives has no filling.
	c := call(t, addr)
	data := c.data(c.ask(omni(t, toServer, func(r *wire.OmniRequest) { r.FillFile = "/etc/services" })), "tcp4", "127.0.0.1")
	c.send(data, 10)
	c.results(wire.Layout27)
}

// The right passphrase lets in; another, another message and none at all don't.
func TestPassphrase(t *testing.T) {
	t.Parallel()
	text := "sesame"
	pass := func(text string) wire.Message {
		m, err := wire.EncodePassphrase(text, wire.NoAffinity)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	calibrate := wire.New(wire.TypeCPUCalibrate, wire.NoAffinity)
	addr := serve(t, &Server{Passphrase: &text}, server.Config{Limits: server.Limits{Patience: 50 * time.Millisecond}})
	right := call(t, addr)
	right.say(pass("sesame"))
	right.ask(calibrate)
	for name, m := range map[string]wire.Message{
		"another": pass("Sesame"), "longer": pass("sesames"), "empty": pass(""), "no passphrase": calibrate,
	} {
		c := call(t, addr)
		c.say(m)
		if rest, _ := io.ReadAll(c); len(rest) > 0 {
			t.Errorf("%s: answered %x", name, rest)
		}
	}
	call(t, addr).gone() // silence
	part := call(t, addr)
	m := pass("sesame")
	_, _ = part.Write(m[:100])
	part.gone()

	// Without a word nobody waits either, and not for the rest of a request.
	open := serve(t, &Server{}, server.Config{Limits: server.Limits{Patience: 50 * time.Millisecond}})
	call(t, open).gone()
	part = call(t, open)
	_, _ = part.Write(calibrate[:100])
	part.gone()
	idle := call(t, open)
	idle.ask(calibrate)
	idle.gone()
}

// A port that somebody has is replaced by another, and an address that nobody here
// has by all.
func TestDataPort(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	taken, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := uint32(taken.Addr().(*net.TCPAddr).Port)
	other := netip.MustParseAddr("192.0.2.1")
	for name, edit := range map[string]func(*wire.OmniRequest){
		"port":          func(r *wire.OmniRequest) { r.DataPort = port },
		"address":       func(r *wire.OmniRequest) { r.NetserverIP = other },
		"both":          func(r *wire.OmniRequest) { r.DataPort, r.NetserverIP = port, other },
		"UDP's address": func(r *wire.OmniRequest) { udp(r); r.NetserverIP = other },
	} {
		c := call(t, addr)
		answer := c.ask(omni(t, toServer, edit))
		r, _ := wire.ParseOmniResponse(answer)
		if r.DataPort == 0 || r.DataPort == port {
			t.Errorf("%s: port %d", name, r.DataPort)
		}
		if strings.HasPrefix(name, "UDP") {
			continue
		}
		c.send(c.data(answer, "tcp4", "127.0.0.1"), 10)
		if got := c.results(wire.Layout27); got.BytesReceived != 10 {
			t.Errorf("%s: %+v", name, got)
		}
	}

	// An address without the scope that it needs.
	c := call(t, addr)
	c.say(omni(t, toServer, func(r *wire.OmniRequest) {
		r.IPFamily, r.NetserverIP = wire.FamilyIPv6, netip.MustParseAddr("fe80::1")
	}))
	if m := c.hear(); unix.Errno(m.Second()) != unix.EAFNOSUPPORT { // of a kernel without IPv6
		r, err := wire.ParseOmniResponse(m)
		if err != nil {
			t.Fatal(err)
		}
		data, err := net.Dial("tcp6", netip.AddrPortFrom(netip.IPv6Loopback(), uint16(r.DataPort)).String())
		if err != nil {
			t.Fatal(err)
		}
		defer data.Close()
		c.send(data, 10)
		if got := c.results(wire.Layout27); got.BytesReceived != 10 {
			t.Errorf("%+v", got)
		}
	}

	// A range of ports for data is kept to.
	_ = taken.Close()
	first, last := uint16(port), uint16(port)
	ranged := serve(t, &Server{}, server.Config{DataPorts: server.PortRange{First: first, Last: last}})
	r, _ := wire.ParseOmniResponse(call(t, ranged).ask(omni(t, toServer, nil)))
	if r.DataPort != port {
		t.Errorf("port %d instead of %d", r.DataPort, port)
	}
	call(t, ranged).refused(omni(t, toServer, nil), unix.EADDRINUSE)
}

// Datagrams go nowhere but to the control connection's address, and only those from
// there count; connections come from there too, unless the client said otherwise.
func TestForeignAddresses(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{}, server.Config{})
	elsewhere := netip.MustParseAddr("127.0.0.2")
	t.Run("datagrams to another", func(t *testing.T) {
		t.Parallel()
		victim, err := net.ListenUDP("udp4", &net.UDPAddr{IP: elsewhere.AsSlice()})
		if err != nil {
			t.Fatal(err)
		}
		defer victim.Close()
		c := call(t, addr)
		c.ask(omni(t, fromServer, func(r *wire.OmniRequest) {
			udp(r)
			r.NetperfIP, r.NetperfPort = elsewhere, uint32(victim.LocalAddr().(*net.UDPAddr).Port)
		}))
		m := c.hear() // in the place of results
		if unix.Errno(m.Second()) != unix.EACCES {
			t.Errorf("errno %d", m.Second())
		}
		_ = victim.SetReadDeadline(time.Now())
		if n, err := victim.Read(make([]byte, 10)); err == nil {
			t.Errorf("%d bytes for somebody else", n)
		}
	})
	t.Run("datagrams to the client", func(t *testing.T) {
		t.Parallel()
		own, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		c := call(t, addr)
		c.ask(omni(t, fromServer, func(r *wire.OmniRequest) {
			udp(r)
			r.SendSize, r.TestLength = 100, -100
			r.NetperfPort = uint32(own.LocalAddr().(*net.UDPAddr).Port) // at 0.0.0.0
		}))
		_ = own.SetReadDeadline(time.Now().Add(patience))
		if n, err := own.Read(make([]byte, 200)); n != 100 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if got := c.results(wire.Layout27); got.BytesSent != 100 || got.SendCalls != 1 {
			t.Errorf("%+v", got)
		}
	})
	for name, direction := range map[string]wire.Direction{"datagrams from another": toServer, "requests from another": both} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := call(t, addr)
			answer := c.ask(omni(t, direction, udp))
			forged := c.data(answer, "udp4", "127.0.0.2")
			_, _ = forged.Write(make([]byte, 1000))
			_, _ = forged.Write(nil) // which is no end of this test
			own := c.data(answer, "udp4", "127.0.0.1")
			if direction == both {
				transact(t, own, 1) // from then on nobody else is heard
				_, _ = forged.Write(make([]byte, 1000))
				_, _ = forged.Write(nil)
			} else {
				_, _ = own.Write(make([]byte, 1))
			}
			_, _ = own.Write(make([]byte, 1))
			_, _ = own.Write(nil)
			if got := c.results(wire.Layout27); got.BytesReceived != 2 || got.RecvCalls != 2 {
				t.Errorf("%+v", got)
			}
			_ = forged.SetReadDeadline(time.Now())
			if n, err := forged.Read(make([]byte, 10)); err == nil {
				t.Errorf("%d bytes for somebody else", n)
			}
		})
	}
	t.Run("a connection from another", func(t *testing.T) {
		t.Parallel()
		c := call(t, addr)
		answer := c.ask(omni(t, toServer, nil))
		if n, _ := io.Copy(io.Discard, c.data(answer, "tcp4", "127.0.0.2")); n != 0 {
			t.Errorf("%d bytes", n)
		}
		c.send(c.data(answer, "tcp4", "127.0.0.1"), 10)
		if got := c.results(wire.Layout27); got.BytesReceived != 10 {
			t.Errorf("%+v", got)
		}
	})
	// Data on another network than the control connection.
	for name, tt := range map[string]struct {
		direction wire.Direction
		network   string
		edit      func(*wire.OmniRequest)
	}{
		"said":            {toServer, "tcp4", func(r *wire.OmniRequest) { r.NetperfIP = elsewhere }},
		"another network": {toServer, "tcp4", func(r *wire.OmniRequest) { r.NetserverIP = elsewhere }},
		"datagrams there": {toServer, "udp4", func(r *wire.OmniRequest) { udp(r); r.NetserverIP = elsewhere }},
		"connections there": {both, "tcp4", func(r *wire.OmniRequest) {
			r.NetserverIP, r.TestLength = elsewhere, -1
			r.Flags |= wire.FlagConnectTest
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := call(t, addr)
			r, _ := wire.ParseOmniResponse(c.ask(omni(t, tt.direction, tt.edit)))
			to := netip.AddrPortFrom(elsewhere, uint16(r.DataPort))
			data := dialFrom(t, tt.network, "127.0.0.3", to)
			if name == "said" {
				if n, _ := io.Copy(io.Discard, data); n != 0 {
					t.Errorf("%d bytes", n)
				}
				data = dialFrom(t, tt.network, "127.0.0.2", to)
			}
			if tt.direction == both {
				transact(t, data, 1)
			} else {
				_, _ = data.Write(make([]byte, 1))
				_, _ = data.Write(nil)
				_ = data.Close()
			}
			if got := c.results(wire.Layout27); got.BytesReceived != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("answers from the address asked", func(t *testing.T) {
		t.Parallel()
		c := call(t, addr)
		r, _ := wire.ParseOmniResponse(c.ask(omni(t, both, func(r *wire.OmniRequest) { udp(r); r.Flags |= wire.FlagUsePktinfo })))
		data := dialFrom(t, "udp4", "127.0.0.1", netip.AddrPortFrom(elsewhere, uint16(r.DataPort)))
		_, _ = data.Write(make([]byte, 1))
		_ = data.SetReadDeadline(time.Now().Add(patience))
		if n, err := data.Read(make([]byte, 10)); !errors.Is(err, unix.ECONNREFUSED) { // only the control connection's is bound
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	t.Run("requests there", func(t *testing.T) {
		t.Parallel()
		c := call(t, addr)
		r, _ := wire.ParseOmniResponse(c.ask(omni(t, both, func(r *wire.OmniRequest) { udp(r); r.NetserverIP = elsewhere })))
		forged := dialFrom(t, "udp4", "127.0.0.3", netip.AddrPortFrom(elsewhere, uint16(r.DataPort)))
		_, _ = forged.Write(make([]byte, 1))
		if m := c.hear(); unix.Errno(m.Second()) != unix.EACCES {
			t.Errorf("errno %d", m.Second())
		}
	})
}

// A test ends with its client, and its place is free again.
func TestClientGoes(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*wire.OmniRequest){
		"before its connection": func(*wire.OmniRequest) {},
		"before its datagrams":  udp,
		"connections":           func(r *wire.OmniRequest) { r.Flags |= wire.FlagConnectTest },
		"data":                  func(*wire.OmniRequest) {},
		"impatient":             func(*wire.OmniRequest) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, &Server{}, server.Config{Limits: server.Limits{Tests: 1}})
			endless := omni(t, both, func(r *wire.OmniRequest) {
				r.TestLength = 0
				edit(r)
			})
			c := call(t, addr)
			answer := c.ask(endless)
			call(t, addr).refused(endless, unix.EBUSY)
			switch name {
			case "data":
				data := c.data(answer, "tcp4", "127.0.0.1")
				transact(t, data, 1)
				defer func() {
					if n, _ := io.Copy(io.Discard, data); n != 0 {
						t.Errorf("%d bytes", n)
					}
				}()
			case "impatient": // requests before their turn don't hide the end
				for range ahead + 3 {
					_, _ = c.Write(endless[:])
				}
			}
			_ = c.Close()
			for deadline := time.Now().Add(patience); ; {
				next := call(t, addr)
				next.say(endless)
				errno := unix.Errno(next.hear().Second())
				_ = next.Close()
				if errno == 0 {
					return
				}
				if errno != unix.EBUSY || time.Now().After(deadline) {
					t.Fatalf("the next test: %v", errno)
				}
			}
		})
	}
}

// A serial server has one client at a time.
func TestSerial(t *testing.T) {
	t.Parallel()
	addr := serve(t, &Server{Serial: make(chan struct{}, 1)}, server.Config{})
	calibrate := wire.New(wire.TypeCPUCalibrate, wire.NoAffinity)
	first := call(t, addr)
	first.ask(calibrate)
	second := call(t, addr)
	second.say(calibrate)
	for range 20 {
		first.ask(calibrate)
	}
	_ = second.SetReadDeadline(time.Now())
	if n, err := second.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("both are served at once: %d bytes, %v", n, err)
	}
	_ = second.SetReadDeadline(time.Now().Add(patience))
	_ = first.Close()
	second.hear()
}

func TestMatch(t *testing.T) {
	t.Parallel()
	word := func(typ, cpu int32) []byte {
		m := wire.New(typ, cpu)
		return m[:]
	}
	for _, tt := range []struct {
		name  string
		first []byte
		want  control.Match
	}{
		{"an omni test", word(wire.TypeOmni, wire.NoAffinity), control.Yes},
		{"on a CPU", word(wire.TypeOmni, 1), control.Yes},
		{"on the highest", word(wire.TypeOmni, 1<<16-1), control.Yes},
		{"on one beyond", word(wire.TypeOmni, 1<<16), control.No},
		{"on CPU -2", word(wire.TypeOmni, -2), control.No},
		{"an unknown type", word(1<<16-1, wire.NoAffinity), control.Yes},
		{"a large type", word(1<<16, wire.NoAffinity), control.No},
		{"a negative type", word(-1, wire.NoAffinity), control.No},
		{"the header alone", word(wire.TypeSysInfo, wire.NoAffinity)[:8], control.Yes},
		{"nothing yet", nil, control.More},
		{"one byte", []byte{0}, control.More},
		{"the type", word(wire.TypeOmni, wire.NoAffinity)[:4], control.More},
		{"half a CPU", word(wire.TypeOmni, wire.NoAffinity)[:6], control.More},
		{"a frame's length", []byte{0, 0, 1, 7}, control.More},
		{"gperf's frame", []byte("\x00\x00\x00\x40{\"type\": \"hello\""), control.No},
		{"its first bytes", []byte("\x00\x00\x00\x40{"), control.No},
		{"a long frame", []byte("\x00\x0f\xff\xff{\"type\""), control.No},
		{"a data connection", control.Preamble{}.Append(nil), control.No},
		{"iperf3's cookie", []byte("abcdefghijklmnopqrstuvwxyz234567abcde\x00"), control.No},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), control.No},
	} {
		if got := (&Server{}).Match(tt.first); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
