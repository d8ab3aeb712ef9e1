package netperf

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"gperf/client"
	"gperf/host"
	"gperf/netperf/options"
	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
)

// A document is gperf's own result of a netperf run: of its last iteration, since
// netperf's means of several are no run that was.
type document struct {
	out io.WriteCloser
	run *result.Run
}

// newDocument opens the file before the test: what can't be written must not be
// measured first.
func newDocument(c *Client) (*document, error) {
	d := &document{run: client.NewRun(c.Build, map[string]string{"netperf": strings.Join(c.Options.Args, " ")})}
	if c.Options.JSON == "-" {
		d.out = nopCloser{c.Stdout}
		return d, nil
	}
	var err error
	d.out, err = os.Create(c.Options.JSON)
	return d, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// planned is the test as a plan of gperf's.
func (c *Client) planned(t *trial) *plan.Test {
	o := c.Options
	p := &plan.Test{
		Type: c.planType(), Streams: 1, Interval: plan.Seconds(o.Interval.Every), AllowClamp: true,
		RequestSize: max(o.Request, 0), ResponseSize: max(o.Response, 0),
	}
	switch n := int64(-o.Length); {
	case o.Length > 0:
		p.Duration = plan.Seconds(time.Duration(o.Length) * time.Second)
	case o.Length == 0:
		p.Duration = plan.Seconds(endless)
	case p.Type.RequestResponse():
		p.Transactions = n
	default:
		p.Bytes = n
	}
	if p.Type.RequestResponse() {
		p.Burst = o.Burst + 1
	} else {
		p.RequestSize, p.ResponseSize = 0, 0
	}
	if p.Type == plan.TCPCC {
		p.RequestSize, p.ResponseSize = 0, 0
	}
	if p.Type == plan.UDPRR {
		p.ResponseTimeout = plan.Seconds(o.Timeout)
	}
	p.Client.SendSize, p.Client.ReceiveSize = t.sendSize, t.recvSize
	p.Server.SendSize, p.Server.ReceiveSize = max(t.remote.SendSize, 0), max(t.remote.RecvSize, 0)
	p.Client.Knobs, p.Server.Knobs = t.knobs, c.knobs(sockopt.Server)
	p.Client.CPUs, p.Server.CPUs = cpuList(o.Bind.Local), cpuList(o.Bind.Remote)
	if o.Test == options.TCPSendfile {
		p.Client.Send = plan.Sendfile
	}
	if o.CopyAvoidance && p.Type.Carrier() == plan.Connection {
		p.Client.Receive, p.Server.Receive = plan.Splice, plan.Splice
	}
	p.Normalise()
	return p
}

func cpuList(cpu int) []int {
	if cpu < 0 {
		return nil
	}
	return []int{cpu}
}

// planType is the test type that has the same loops.
func (c *Client) planType() plan.Type {
	switch role, carrier := c.role(), c.carrier(); {
	case carrier == plan.Datagrams && role == plan.Requester:
		return plan.UDPRR
	case carrier == plan.Datagrams:
		return plan.UDPStream
	case carrier == plan.Connections && c.Options.Direction == 0:
		return plan.TCPCC
	case carrier == plan.Connections:
		return plan.TCPCRR
	case role == plan.Requester:
		return plan.TCPRR
	case role == plan.Receiver:
		return plan.TCPMaerts
	}
	return plan.TCPStream
}

// audit judges the knobs of both ends: this one's as read from the socket, the
// server's as far as the protocol tells them.
func (c *Client) audit(t *trial) (own, theirs []sockopt.Row) {
	env := sockopt.LocalEnv(sockopt.Options{})
	if t.readings != nil {
		s := sockopt.StreamReadings{Stream: 1, Effective: t.readings, AtStart: t.readings}
		if t.m != nil {
			s.AtEnd = t.m.atEnd
		}
		own = sockopt.Audit(sockopt.Client, t.knobs, env, []sockopt.StreamReadings{s})
	}
	if t.remote.SendBuffer < 0 {
		return own, nil
	}
	r := sockopt.Readings{}
	tell := func(key string, v sockopt.Value) { r[key] = sockopt.Reading{Value: v} }
	tell("sndbuf", sockopt.Int(int64(t.remote.SendBuffer)))
	tell("rcvbuf", sockopt.Int(int64(t.remote.RecvBuffer)))
	if !t.datagrams {
		tell("nodelay", sockopt.Int(boolInt(t.remote.NoDelay)))
	}
	if t.remote.Congestion != "" {
		tell("congestion", sockopt.Str(t.remote.Congestion))
	}
	if t.remote.Priority >= 0 {
		tell("priority", sockopt.Int(int64(t.remote.Priority)))
	}
	if t.remote.TOS >= 0 {
		tell("tos", sockopt.Int(int64(t.remote.TOS)))
	}
	wanted := c.knobs(sockopt.Server)
	maps.DeleteFunc(wanted, func(key string, _ sockopt.Value) bool {
		_, told := r[key]
		return !told // nothing tells what became of it
	})
	theirs = sockopt.Audit(sockopt.Server, wanted, env, []sockopt.StreamReadings{{Stream: 1, Effective: r}})
	return own, slices.DeleteFunc(theirs, func(row sockopt.Row) bool {
		_, told := r[row.Knob]
		return !told
	})
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// clamped says on standard error which buffers the kernel made smaller than was
// asked for: the one thing that a good run says there.
func (c *Client) clamped(t *trial) {
	unset := options.SendRecv{Send: options.Unset, Recv: options.Unset}
	if s := c.Options.Socket; s.Local == unset && s.Remote == unset {
		return
	}
	own, theirs := c.audit(t)
	for _, row := range slices.Concat(own, theirs) {
		if row.Verdict == sockopt.Clamped && (row.Knob == "sndbuf" || row.Knob == "rcvbuf") {
			end := map[string]string{"client": "local", "server": "remote"}[row.End]
			_, _ = fmt.Fprintf(c.Stderr, "netperf: warning: %s %s: %s\n", end, row.Knob, row.Why())
		}
	}
}

// warns reports whether warnings are to be shown.
func (c *Client) warns() bool { return c.Warn || c.Options.Debug > 0 }

// write writes the document, if one was asked for, and its warnings where they are
// wanted.
func (d *document) write(c *Client, t *trial) error {
	warn := c.warns()
	if d == nil && !warn || t == nil || t.m == nil {
		return nil
	}
	r := client.NewRun(c.Build, nil)
	if d != nil {
		r = d.run
	}
	r.Plan = c.planned(t)
	r.Hosts.Client = host.Describe(c.dataTarget)
	if c.control != nil {
		server := c.control.remote.String()
		r.Server = &server
		if c.control.remote.Addr().IsLoopback() {
			r.Hosts.Server = r.Hosts.Client
		}
	}
	own, theirs := c.reports(t)
	r.Audit = slices.Concat(own.Audit, theirs.Audit)
	if err := r.Merge(own, theirs, nil); err != nil {
		return err
	}
	r.Status = result.Complete
	if c.stopped() {
		r.Status = result.Partial
		r.Error = &result.Error{Kind: "signal", Message: "netperf: ended by a signal"}
	}
	if warn {
		for _, w := range r.Warnings {
			_, _ = fmt.Fprintf(c.Stderr, "netperf: warning: %s (%s)\n", w.Message, w.Code)
		}
	}
	if d == nil {
		return nil
	}
	err := encode.JSON(d.out, r)
	if cerr := d.out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return die(1, "netperf: %s: %v", c.Options.JSON, err)
	}
	return nil
}

// reports are what the two ends measured. The server's is made of its results:
// what it counted between its first byte and the end of the stream, which is the
// time in which this end ran and drained.
func (c *Client) reports(t *trial) (own, theirs *result.Report) {
	m := t.m
	own = &result.Report{Halves: []result.Half{m.half}, CPU: m.endCPU, Counters: m.counters, Runtime: m.runtime}
	theirs = &result.Report{}
	own.Audit, theirs.Audit = c.audit(t)
	if c.Options.NoControl {
		return own, theirs
	}
	peer := map[plan.Role]plan.Role{plan.Sender: plan.Receiver, plan.Receiver: plan.Sender, plan.Requester: plan.Responder}
	column := func(n uint64) []uint64 { return []uint64{n} }
	opening := result.Sample{
		AtNs: m.half.OpenedNs, Sent: column(0), Received: column(0), SendCalls: column(0), ReceiveCalls: column(0),
		ShortSends: column(0), Interruptions: column(0), Transactions: column(0),
	}
	closing := opening
	closing.Tick, closing.AtNs = result.LastTick, m.half.ClosedNs
	closing.Sent, closing.Received = column(t.remote.BytesSent), column(t.remote.BytesReceived)
	closing.SendCalls, closing.ReceiveCalls = column(t.remote.SendCalls), column(t.remote.RecvCalls)
	closing.Transactions = column(t.remoteTransactions)
	if n := t.remote.Retransmits; n >= 0 {
		name := sockopt.TotalRetrans.Name()
		opening.TCP, closing.TCP = map[string][]uint64{name: {0}}, map[string][]uint64{name: {uint64(n)}}
	}
	theirs.Halves = []result.Half{{
		Direction: m.half.Direction, Role: peer[m.half.Role], OpenedNs: opening.AtNs, ClosedNs: closing.AtNs,
		Series: []result.Sample{opening, closing},
	}}
	return own, theirs
}
