package netperf

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/host"
	"gperf/internal/sys"
	"gperf/netperf/output"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// measured is what one end knows of one iteration.
type measured struct {
	half            result.Half
	elapsed         time.Duration // from the start of the workers to the peer's end
	sent            uint64        // bytes
	received        uint64
	sendCalls       uint64
	receiveCalls    uint64
	failedSends     uint64
	transactions    uint64
	mostOutstanding int // requests at once
	paused          time.Duration
	cpu             *output.CPU // nil: not known
	endCPU          *result.EndCPU
	counters        *result.Counters
	runtime         *result.Runtime

	// Of the data socket at the end; -1 or empty where there is none.
	sendBuffer, receiveBuffer int
	retransmits, mss          int
	congestion                string
	atEnd                     sockopt.Readings
}

// finishWait bounds how long the peer may take to end a stream that this end has
// ended, and how long this end's data may take to drain.
const finishWait = 120 * time.Second

// farewells is how many empty datagrams tell netserver that a UDP test is over.
const farewells = 3

// measure has a group of one stream run in its own window, ends the stream as
// netperf does, and reads what is left to read before the socket is closed. fd is
// -1 for connection tests. drained is set when this end is to wait for the peer's
// end of the stream, which then counts as elapsed; whole, when everything is to be
// known that a document tells, beside what netperf prints.
func measure(ctx context.Context, cfg flow.Config, fd int, win flow.Window, knobs sockopt.Settings, end sockopt.End, drained, whole bool) (*measured, error) {
	group, err := flow.NewGroup(cfg, []flow.Socket{{Stream: 1, FD: fd}})
	if err != nil {
		return nil, err
	}
	defer group.Close()
	m := &measured{sendBuffer: -1, receiveBuffer: -1, retransmits: -1, mss: -1}
	var before, after host.CPUReading
	var countersBefore host.Counters
	var cpuErr, countersErr error
	var runtimeBefore flow.RuntimeReading
	win.Own = true
	win.Opening = func() {
		if whole {
			countersBefore, countersErr = host.ReadCounters("")
			runtimeBefore = flow.ReadRuntime()
		}
		before, cpuErr = host.ReadCPU()
	}
	win.Begin = func() error { return nil }
	half, err := group.Measure(ctx, win)
	if cfg.Carrier == plan.Connection {
		m.mss = getInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG) // of a closed one the kernel says what was asked for
		// What is queued still goes, and a send that blocks returns.
		_ = unix.Shutdown(fd, unix.SHUT_WR)
	}
	stop := context.AfterFunc(ctx, group.Close)
	if cfg.Carrier == plan.Connections && cfg.Acceptor != nil {
		cfg.Acceptor.Stop()
	}
	if err == nil {
		<-group.Ended() // by Timeout at the latest
		switch {
		case cfg.Carrier == plan.Connection && drained:
			drain(ctx, fd)
		case cfg.Carrier == plan.Datagrams && end == sockopt.Client:
			for range farewells { // of which one may be enough
				_ = unix.Send(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			}
		}
	}
	stop()
	opened, last := half.Series[0].AtNs, &half.Series[len(half.Series)-1]
	if cfg.Role != plan.Receiver {
		// What was sent after the window closed arrives, too: it counts at both ends
		// or at neither. If this end has waited for it, so does its time.
		*last = group.Sample()
		if cfg.Role == plan.Sender && cfg.Carrier == plan.Connection && drained {
			half.ClosedNs = last.AtNs
		}
		last.AtNs = half.ClosedNs
	}
	m.elapsed = time.Duration(last.AtNs - opened)
	if cpuErr == nil {
		if after, cpuErr = host.ReadCPU(); cpuErr == nil {
			m.endCPU = before.Until(after)
			m.cpu = cpuUse(before, after)
		}
	}
	if whole {
		m.runtime = runtimeBefore.Until(flow.ReadRuntime())
	}
	if whole && countersErr == nil {
		if now, err := host.ReadCounters(""); err == nil {
			m.counters = countersBefore.Until(now)
		}
	}
	if fd >= 0 {
		m.sendBuffer, m.receiveBuffer = buffers(fd)
		m.atEnd = knobs.Read(fd, end)
		if cfg.Carrier == plan.Connection {
			m.retransmits, m.congestion = retransmits(fd), congestion(fd)
		}
	}
	if ferr := group.Finish(half); err == nil {
		err = ferr
	}
	m.half, m.mostOutstanding, m.paused = *half, group.MostOutstanding(), group.Paused()
	total := &m.half.Series[len(m.half.Series)-1]
	m.sent, m.received = total.Sent[0], total.Received[0]
	// netperf counts a send that the kernel cut short and its rest as one.
	m.sendCalls, m.receiveCalls = total.SendCalls[0]-total.ShortSends[0], total.ReceiveCalls[0]
	m.transactions = total.Transactions[0]
	if column, ok := total.TCP[result.SendErrors]; ok {
		m.failedSends = column[0]
	}
	return m, err
}

// drain reads until the peer's end of the stream.
func drain(ctx context.Context, fd int) {
	deadline := sys.Monotonic() + int64(finishWait)
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil && sys.Monotonic() < deadline {
		// The socket has a time-out.
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
	}
}

// cpuUse is how the machine's CPUs spent the time between two readings, as netperf
// counts: what isn't idle is used, waiting for I/O included, and the machine's
// share is the mean of the CPUs'.
func cpuUse(a, b host.CPUReading) *output.CPU {
	use := &output.CPU{Method: 'S', PeakID: -1}
	for _, now := range b.CPUs {
		for _, then := range a.CPUs {
			if then.CPU != now.CPU {
				continue
			}
			d := func(a, b uint64) float64 { return float64(b) - float64(a) }
			user, system := d(then.User+then.Nice, now.User+now.Nice), d(then.System, now.System)
			iowait, irq, softirq := d(then.IOWait, now.IOWait), d(then.IRQ, now.IRQ), d(then.SoftIRQ, now.SoftIRQ)
			idle := d(then.Idle, now.Idle)
			whole := user + system + iowait + irq + softirq + idle + d(then.Steal, now.Steal)
			use.Count++
			if whole <= 0 {
				continue
			}
			util := 100 - 100*idle/whole
			use.Util += util
			use.User += 100 * user / whole
			use.System += 100 * system / whole
			use.IOWait += 100 * iowait / whole
			use.IRQ += 100 * irq / whole
			use.SoftIRQ += 100 * softirq / whole
			if use.PeakID < 0 || util > use.PeakUtil {
				use.PeakUtil, use.PeakID = util, now.CPU
			}
		}
	}
	if use.Count == 0 {
		return nil
	}
	for _, p := range []*float64{&use.Util, &use.User, &use.System, &use.IOWait, &use.IRQ, &use.SoftIRQ} {
		*p = max(*p, 0) / float64(use.Count)
	}
	return use
}
