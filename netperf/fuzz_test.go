package netperf

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"gperf/netperf/wire"
	"gperf/server"
)

// Whatever a client says: the server neither panics nor hangs, and what it answers
// is whole messages. Tests that it begins end with their client.
func FuzzServe(f *testing.F) {
	for _, c := range captures(f) {
		if strings.HasPrefix(c.kind, "request ") {
			f.Add(c.m[:], byte(0))
			f.Add(c.m[:], byte(1))
		}
	}
	first, second := wire.New(wire.TypeSysInfo, 0), wire.New(wire.TypeCPUCalibrate, 0)
	f.Add(append(first[:], second[:]...), byte(0))
	f.Add([]byte{0, 0, 0, 97}, byte(0))
	addr := serve(f, &Server{}, server.Config{Limits: server.Limits{
		Patience: 100 * time.Millisecond, Duration: time.Second, Memory: 1 << 24, Tests: 1000,
	}})
	f.Fuzz(func(t *testing.T, said []byte, how byte) {
		c := call(t, addr)
		_, _ = c.Write(said)
		if how&1 != 0 {
			// With a data connection, if one is offered.
			var m wire.Message
			if _, err := io.ReadFull(c, m[:]); err != nil {
				return
			}
			r, err := wire.ParseOmniResponse(&m)
			if err == nil && r.DataPort > 0 && r.DataPort <= 1<<16-1 {
				knock(netip.AddrPortFrom(addr.Addr(), uint16(r.DataPort)))
			}
		}
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			return // it has closed it
		}
		answers, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("it hangs")
		}
		if err == nil && len(answers)%wire.Size != 0 {
			t.Errorf("%d bytes of answers", len(answers))
		}
	})
}

// knock says a little at a port, by TCP or UDP.
func knock(to netip.AddrPort) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.Dial("tcp4", to.String())
	if err != nil {
		if c, err = d.Dial("udp4", to.String()); err != nil {
			return
		}
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte{1, 2, 3})
	_, _ = c.Write(nil)
}
