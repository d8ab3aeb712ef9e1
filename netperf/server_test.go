package netperf

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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
	r, err := wire.ParseOmniResults(c.hear(), l)
	if err != nil {
		c.t.Fatal(err)
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

var _ = fmt.Sprint
var _ = control.No
