package acceptance

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"gperf/netperf/wire"
)

// Many clients at once are all served.
func TestNetperfTogether(t *testing.T) {
	s := serve(t, place{})
	const clients = 30
	tests := []string{"TCP_STREAM", "TCP_RR", "UDP_RR", "TCP_MAERTS", "UDP_STREAM", "TCP_CRR"}
	together := func() {
		var all sync.WaitGroup
		ends := make([]*ran, clients)
		for i := range ends {
			c := s.netperf("-l", "1", "-t", tests[i%len(tests)], "--", "-k", "THROUGHPUT,REMOTE_BYTES_RECVD,REMOTE_BYTES_SENT")
			c.length += grace // they are many for a small machine
			all.Go(func() { ends[i] = c.run() })
		}
		all.Wait()
		for _, r := range ends {
			r.good(t)
			f := r.figures(t)
			f.positive(t, "THROUGHPUT")
			if f.number(t, "REMOTE_BYTES_RECVD")+f.number(t, "REMOTE_BYTES_SENT") <= 0 {
				t.Errorf("%v: %v", r.args, f)
			}
		}
	}
	together() // what the runtime takes once
	idle := s.idle(t)
	together()
	eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	if now := s.idle(t); now.threads > idle.threads+8 {
		t.Errorf("threads %d, before %d", now.threads, idle.threads)
	}
}

// A server for netperf's clients stands what comes to an open port, and clients
// that die, and has nothing left of them.
func TestNetperfFaults(t *testing.T) {
	s := serve(t, place{})
	normal := func() {
		r := s.netperf("-l", "-1000", "-t", "TCP_RR", "--", "-k", "THROUGHPUT").run()
		r.good(t)
		r.figures(t).positive(t, "THROUGHPUT")
	}
	normal() // what the runtime takes once
	idle := s.idle(t)
	atRest := func(t *testing.T) {
		t.Helper()
		eventually(t, "the server's descriptors back at idle", func() bool { return s.descriptors() == idle.descriptors })
	}
	dial := func(t *testing.T) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		return c
	}
	say := func(t *testing.T, c net.Conn, b []byte) {
		t.Helper()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	// gone checks that the server has closed a connection without a word.
	gone := func(t *testing.T, c net.Conn) {
		t.Helper()
		var timeout net.Error
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	unknown := wire.New(wire.TypeNodeIdentify, wire.NoAffinity)

	for _, test := range []string{"TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR", "UDP_STREAM", "UDP_RR", "TCP_SENDFILE", "TCP_CC"} {
		t.Run("killed in "+test, func(t *testing.T) {
			c := s.netperf("-l", "60", "-t", test, "-D", "-0.05")
			if err := c.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "an interim result", func() bool { return strings.Contains(c.stdout.String(), "Interim") })
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
			atRest(t)
		})
	}
	t.Run("scan", func(t *testing.T) {
		for range 50 {
			_ = dial(t).Close()
		}
	})
	t.Run("garbage", func(t *testing.T) {
		garbage := make([]byte, 2*wire.Size)
		for range 20 {
			_, _ = rand.Read(garbage)
			garbage[0] |= 1 // no message of netperf's
			c := dial(t)
			say(t, c, garbage)
			_, _ = io.Copy(io.Discard, c) // gperf's own protocol answers with an error
		}
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\n\n\n\n\n\n\n\n"} {
			c := dial(t)
			say(t, c, []byte(text))
			_, _ = io.Copy(io.Discard, c)
		}
	})
	t.Run("one byte too few", func(t *testing.T) {
		c := dial(t)
		say(t, c, unknown[:len(unknown)-1])
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		gone(t, c)
		c = dial(t) // and no end of it either, until the client goes
		say(t, c, unknown[:len(unknown)-1])
		eventually(t, "a session", func() bool { return s.descriptors() > idle.descriptors })
		_ = c.Close()
	})
	t.Run("unknown messages", func(t *testing.T) {
		c := dial(t)
		answer := func(m wire.Message) *wire.Message {
			say(t, c, m[:])
			var a wire.Message
			if _, err := io.ReadFull(c, a[:]); err != nil {
				t.Fatal(err)
			}
			return &a
		}
		for _, typ := range []int32{wire.TypeNodeIdentify, 500, 65535} {
			if a := answer(wire.New(typ, wire.NoAffinity)); a.Second() != wire.ErrnoUnknownRequest {
				t.Errorf("type %d is answered with errno %d", typ, a.Second())
			}
			r, err := wire.ParseCPUCalibration(answer(wire.New(wire.TypeCPUCalibrate, wire.NoAffinity)))
			if err != nil || r.NumCPUs <= 0 {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
	t.Run("nonsense", func(t *testing.T) {
		// Requests of known types, with anything in them, each from a client that
		// doesn't wait for what comes of it.
		for _, typ := range []int32{wire.TypeOmni, wire.TypeTCPStream, wire.TypeTCPMaerts, wire.TypeTCPRR, wire.TypeTCPCRR, wire.TypeTCPCC, wire.TypeUDPRR, wire.TypeUDPStream} {
			for range 5 {
				m := wire.New(typ, wire.NoAffinity)
				_, _ = rand.Read(m[8:])
				c := dial(t)
				say(t, c, m[:])
				_ = c.Close()
			}
		}
	})
	t.Run("after that", func(t *testing.T) {
		atRest(t)
		normal()
		atRest(t)
		if now := s.idle(t); now.threads > idle.threads+8 {
			t.Errorf("descriptors and threads at first %+v, at last %+v", idle, now)
		}
		if ports := s.listening(t); len(ports) != 1 || ports[0] != int(s.addr.Port()) {
			t.Errorf("the server listens on %v", ports)
		}
		if text := s.stderr.String(); strings.Contains(text, "panic") {
			t.Error(text)
		}
	})
}

// A server with a passphrase serves those that know it, and no gap in it.
func TestNetperfPassphraseServer(t *testing.T) {
	ns := netperfNS(t)
	netserver(t, ns, "netserver", netperfPort, "-Z", "sesame")
	for _, tt := range []struct {
		args   []string
		status int
	}{
		{[]string{"-Z", "sesame"}, 0},
		{[]string{"-Z", "sesam"}, 1},
		{[]string{"-Z", "sesame2"}, 1},
		{[]string{"-Z", "Sesame"}, 1},
		{nil, 1},
	} {
		t.Run(fmt.Sprint(tt.args), func(t *testing.T) {
			r := newCommand(t, ns, append([]string{"netperf", "-H", "127.0.0.1", "-l", "-1000", "-t", "TCP_RR"}, tt.args...)...).run()
			r.ended(t, tt.status)
			if (tt.status == 0) != (r.stderr == "") {
				t.Errorf("stderr %q", r.stderr)
			}
		})
	}
}
