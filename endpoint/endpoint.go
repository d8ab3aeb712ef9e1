// Package endpoint runs one end of a test, the client's or the server's: it
// reads the machine at the edges of the windows, keeps the audit of the knobs,
// and makes one report of it all. The exchange with the other end is its
// callers'.
package endpoint

import (
	"context"
	"errors"

	"gperf/flow"
	"gperf/host"
	"gperf/internal/sys"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/splice"
)

// An Endpoint is one end of one test.
type Endpoint struct {
	Plan *plan.Test
	End  sockopt.End
	// Host describes this end's machine; the counters of its route's device
	// are read.
	Host *result.Host
	// Streams are the knobs as read back after setting, in the order of the
	// streams.
	Streams []sockopt.StreamReadings
	// Before is a reading of the counters from before the connections were set
	// up.
	Before host.Counters
	// Files are what this end's movers read from and write to.
	Files flow.Files
	// Connections are where a connection test's come from.
	Connections flow.Connections
	// OtherTests is how many other tests this process has begun to run, now.
	OtherTests func() int

	env        sockopt.Env
	test       *flow.Test
	synCookies bool
	pipes      [3][]int // sizes after setting, at the window's start and at its end
}

// Prepare takes over the connected sockets and makes the test ready to start.
func (e *Endpoint) Prepare(sockets []flow.Socket) error {
	e.env = sockopt.LocalEnv(Options(e.Plan))
	if now, err := host.ReadCounters(""); err == nil {
		if grown := e.Before.Until(now); grown != nil {
			e.synCookies = grown.Protocols["TcpExtSyncookiesRecv"] > 0
		}
	}
	var err error
	if e.test, err = flow.NewTest(e.Plan, e.End, sockets, e.Files, e.Connections); err == nil {
		e.pipes[0] = e.test.Pipes()
	}
	return err
}

// Audit judges the knobs of this end by what has been read so far.
func (e *Endpoint) Audit() []sockopt.Row {
	rows := sockopt.Audit(e.End, e.Plan.End(e.End).Knobs, e.env, e.Streams)
	return append(rows, e.pipeRows()...)
}

// Close ends the test at once and closes its sockets.
func (e *Endpoint) Close() {
	if e.test != nil {
		e.test.Close()
	}
}

// Run runs the test. Once both ends have their last samples it calls settle, in
// which the callers agree that the test is over, and then closes the sockets.
// The report holds what was measured also when the error isn't nil.
func (e *Endpoint) Run(ctx context.Context, link flow.Link, settle func(context.Context) error) (*result.Report, error) {
	edges := make([]edge, 0, 2)
	link.Edge = func() {
		e.pipes[1+len(edges)] = e.test.Pipes()
		edges = append(edges, e.edge())
	}
	var descriptors *int64
	if n, ok := sys.FreeDescriptors(); ok {
		descriptors = &n
	}
	halves, err := e.test.Run(ctx, link)
	if err == nil {
		err = settle(ctx)
	}
	if ferr := e.test.Finish(halves); err == nil {
		err = ferr
	}
	for i := range e.Streams {
		e.Streams[i].AtStart, e.Streams[i].AtEnd = e.test.AtStart[i], e.test.AtEnd[i]
	}
	r := &result.Report{Halves: halves, Audit: e.Audit(), SYNCookies: e.synCookies, Descriptors: descriptors}
	if e.OtherTests != nil {
		r.OtherTests = e.OtherTests()
	}
	if len(edges) == 2 {
		edges[0].until(&edges[1], r)
	}
	return r, err
}

// pipeRows audits the pipes of the movers.
func (e *Endpoint) pipeRows() []sockopt.Row {
	asked := sockopt.Value{}
	if n := e.Plan.End(e.End).PipeSize; n > 0 {
		asked = sockopt.Int(int64(n))
	}
	at := func(moment, stream int) sockopt.Value {
		if sizes := e.pipes[moment]; stream < len(sizes) && sizes[stream] >= 0 {
			return sockopt.Int(int64(sizes[stream]))
		}
		return sockopt.Value{}
	}
	var rows []sockopt.Row
	for i, size := range e.pipes[0] {
		if size < 0 {
			continue
		}
		row := sockopt.Row{
			End: e.End.String(), Stream: &e.Streams[i].Stream, Knob: "pipe_size", Requested: asked,
			Effective: at(0, i), AtStart: at(1, i), AtEnd: at(2, i),
		}
		row.Verdict, row.Detail = sockopt.JudgePipe(row)
		rows = append(rows, row)
	}
	return sockopt.MergeRows(rows, len(e.pipes[0]))
}

// An edge is what is read of the machine just outside an edge of the window.
type edge struct {
	cpu      host.CPUReading
	cpuErr   error
	counters host.Counters
	netErr   error
	runtime  flow.RuntimeReading
	threads  [][]threadReading // of each direction
}

type threadReading struct {
	host.ThreadReading
	err error
}

func (e *Endpoint) edge() edge {
	var r edge
	for _, tids := range e.test.Threads() {
		readings := make([]threadReading, len(tids))
		for i, tid := range tids {
			readings[i].ThreadReading, readings[i].err = host.Thread(tid)
		}
		r.threads = append(r.threads, readings)
	}
	device := ""
	if e.Host != nil && e.Host.Device != nil {
		device = e.Host.Device.Name
	}
	r.counters, r.netErr = host.ReadCounters(device)
	r.runtime = flow.ReadRuntime()
	r.cpu, r.cpuErr = host.ReadCPU()
	return r
}

// until puts what happened between two edges into the report. What couldn't be
// read stays unknown.
func (a *edge) until(b *edge, r *result.Report) {
	if a.cpuErr == nil && b.cpuErr == nil {
		r.CPU = a.cpu.Until(b.cpu)
	}
	if a.netErr == nil && b.netErr == nil {
		r.Counters = a.counters.Until(b.counters)
	}
	r.Runtime = a.runtime.Until(b.runtime)
	for i := range r.Halves {
		for j := range r.Halves[i].Threads {
			if x, y := a.threads[i][j], b.threads[i][j]; x.err == nil && y.err == nil {
				r.Halves[i].Threads[j].Use = x.Until(y.ThreadReading)
			}
		}
	}
}

// spareDescriptors is what a test needs besides its streams, and moverDescriptors
// what each stream's mover may need.
const (
	spareDescriptors = 8
	moverDescriptors = 6
)

// Check tries on this machine, without a connection, what the plan asks of one
// end: knobs on a socket of that family, movers, a pipe, descriptors. The error
// is why the plan can't be honoured.
func Check(t *plan.Test, end sockopt.End, family int) error {
	own := t.End(end)
	rows, err := sockopt.Check(end, family, own.Knobs, Options(t))
	if err == nil {
		err = sockopt.Refused(rows, t.AllowClamp)
	}
	if err != nil {
		return err
	}
	perStream := 1
	for _, d := range t.Directions() {
		var tried error
		switch role := d.Role(end); {
		case role == plan.Sender && own.Send != plan.Write:
			perStream = moverDescriptors
			tried = splice.ProbeSender(probes[own.Send], own.Knobs.Protocol())
		case role == plan.Receiver && own.Receive != plan.Read:
			perStream = moverDescriptors
			tried = splice.ProbeReceiver(own.Receive, own.Knobs.Protocol())
		}
		if tried != nil && !errors.Is(tried, splice.ErrUntried) {
			return tried
		}
	}
	if own.PipeSize > 0 {
		pipe, err := splice.NewPipe(own.PipeSize)
		if err != nil {
			return err
		}
		_ = pipe.Close()
	}
	return sys.NeedDescriptors(flow.Streams(t)*perStream + spareDescriptors)
}

// probes are splice's names of the plan's senders.
var probes = map[string]string{
	plan.Sendfile: splice.SendSendfile, plan.Splice: splice.SendTee,
	plan.Vmsplice: splice.SendVmsplice, plan.Zerocopy: splice.SendZerocopy,
}

// Options are how the plan wants knobs to be set.
func Options(t *plan.Test) sockopt.Options { return sockopt.Options{Force: t.ForceBuffers} }
