package result

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/sockopt"
)

// The thresholds of what a result can be misread by.
const (
	skewFrom        = 50 * time.Millisecond // beside a share of the window and a round trip
	skewShare       = 0.02
	generatorFrom   = 95.0 // % of one CPU
	stealFrom       = 2.0  // % of all CPUs
	rateFrom        = 0.98 // of the rate asked for
	descriptorsLeft = 16
	foreignShare    = 0.10    // of this test's own bytes on the device
	foreignBytes    = 1 << 20 // and at least so many
	headerBytes     = 66      // Ethernet, IPv4 and TCP with timestamps, per segment
)

// A caution is a warning, and whether it's a reason not to trust the figures.
type caution struct {
	Warning
	distrust bool
}

func warn(code, end, format string, args ...any) caution {
	return caution{Warning{Code: code, End: end, Message: fmt.Sprintf(format, args...)}, false}
}

func distrust(code, end, format string, args ...any) caution {
	c := warn(code, end, format, args...)
	c.distrust = true
	return c
}

// judge adds what a reader must know of the merged run: its diagnosis, its
// warnings and whether it can be trusted.
func (r *Run) judge(client, server *Report) {
	r.Summary.Diagnosis = r.diagnose()
	var all []caution
	all = append(all, r.knobs()...)
	all = append(all, r.idle()...)
	all = append(all, r.stalled()...)
	all = append(all, r.skews()...)
	all = append(all, r.connections()...)
	all = append(all, r.rates()...)
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		report := client
		if end == sockopt.Server {
			report = server
		}
		all = append(all, r.machine(end, report)...)
		all = append(all, r.handshake(end, server.SYNCookies)...)
		all = append(all, r.foreign(end)...)
		all = append(all, r.movers(end)...)
	}
	r.Trust = Trust{OK: true, Reasons: []string{}}
	for _, c := range all {
		r.Warnings = append(r.Warnings, c.Warning)
		if c.distrust {
			r.Trust.OK = false
			r.Trust.Reasons = append(r.Trust.Reasons, c.Message)
		}
	}
}

// knobs are those that weren't honoured to the letter, though the test was
// allowed to run.
func (r *Run) knobs() (all []caution) {
	for _, row := range r.Audit {
		switch row.Verdict {
		case sockopt.Clamped, sockopt.Raised, sockopt.NotHeld, sockopt.NoEffect, sockopt.Ignored, sockopt.Unsupported:
			c := distrust(string(row.Verdict), row.End, "%s at the %s: %s", row.Knob, row.End, row.Why())
			c.Stream = row.Stream
			all = append(all, c)
		case sockopt.Auto, sockopt.Exact, sockopt.Doubled, sockopt.Adjusted, sockopt.Unverified:
		}
	}
	return all
}

// idle are the streams and intervals in which nothing moved.
func (r *Run) idle() (all []caution) {
	for _, s := range r.Streams {
		if s.Throughput != nil && *s.Throughput == 0 || s.Transactions != nil && *s.Transactions == 0 {
			c := distrust("idle_stream", "", "stream %d moved nothing", s.ID)
			c.Stream = &s.ID
			all = append(all, c)
		}
	}
	empty := 0
	for _, iv := range r.Intervals {
		if iv.Bytes == 0 && (iv.Transactions == nil || *iv.Transactions == 0) {
			empty++
		}
	}
	if empty > 0 {
		all = append(all, distrust("idle_interval", "", "nothing moved in %d of %d intervals", empty, len(r.Intervals)))
	}
	return all
}

// stalled are the streams that stalled, once each.
func (r *Run) stalled() (all []caution) {
	type sum struct {
		times  int
		length float64
	}
	streams := map[int]*sum{}
	for _, s := range r.Stalls {
		if streams[s.Stream] == nil {
			streams[s.Stream] = &sum{}
		}
		streams[s.Stream].times++
		streams[s.Stream].length += s.Length
	}
	for _, id := range slices.Sorted(maps.Keys(streams)) {
		s := streams[id]
		c := warn("stall", "", "stream %d stalled %s, %.3g s in all: below a tenth of its median interval", id, plural(uint64(s.times), "time", "times"), s.length)
		c.Stream = &id
		all = append(all, c)
	}
	return mostOf(all)
}

// connections are those that a connection test couldn't make.
func (r *Run) connections() (all []caution) {
	for _, name := range slices.Sorted(maps.Keys(r.Summary.ConnectErrors)) {
		hint := ""
		if strings.Contains(name, "EADDRNOTAVAIL") || strings.Contains(name, "EADDRINUSE") {
			hint = ": the local ports ran out (net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse)"
		}
		all = append(all, distrust("connect_errors", sockopt.Client.String(), "%s failed with %s%s",
			plural(r.Summary.ConnectErrors[name], "connection", "connections"), name, hint))
	}
	return all
}

// skews are windows that the two ends opened or closed too far apart.
func (r *Run) skews() (all []caution) {
	for _, d := range []*Figures{r.Summary.Directions.ClientToServer, r.Summary.Directions.ServerToClient} {
		if d == nil || d.Duration == nil || d.StartSkew == nil || d.StopSkew == nil {
			continue
		}
		allowed := max(skewFrom.Seconds(), skewShare**d.Duration)
		if d.RTT != nil {
			allowed += d.RTT.Max / 1e6
		}
		for _, skew := range []struct {
			name    string
			seconds float64
		}{{"opened", *d.StartSkew}, {"closed", *d.StopSkew}} {
			if math.Abs(skew.seconds) > allowed {
				all = append(all, distrust("skew", "", "the sender's window %s %+.3f s from the receiver's", skew.name, skew.seconds))
			}
		}
	}
	return all
}

// rates are those that a paced sender was to keep and didn't reach, which may be
// the path's doing or that of late wake-ups.
func (r *Run) rates() (all []caution) {
	for _, s := range r.Streams {
		if s.Direction == plan.Both || s.Throughput == nil {
			continue
		}
		end := sockopt.Client
		if s.Direction == plan.ServerToClient {
			end = sockopt.Server
		}
		if rate := r.Plan.End(end).Rate; rate > 0 && *s.Throughput < rateFrom*float64(rate) {
			all = append(all, warn("rate_missed", end.String(), "stream %d reached %s of the %s that --rate allows",
				s.ID, units.BitRate(*s.Throughput), units.BitRate(float64(rate))))
		}
	}
	return mostOf(all)
}

// machine is what may have stood in the way at one end.
func (r *Run) machine(end sockopt.End, report *Report) (all []caution) {
	name := end.String()
	late := 0
	for i := range report.Halves {
		h := &report.Halves[i]
		late += h.Late
		for _, t := range h.Threads {
			if t.CPUNs != nil && h.seconds() > 0 && float64(*t.CPUNs)/1e7/h.seconds() >= generatorFrom {
				all = append(all, distrust("generator_saturated", name, "a worker thread of the %s used its CPU to %.0f %%: it may be what was measured",
					end, float64(*t.CPUNs)/1e7/h.seconds()))
			}
			if t.Use != nil && t.Use.RunQueueWaitSeconds != nil && h.seconds() > 0 && 100**t.Use.RunQueueWaitSeconds/h.seconds() >= waitFrom {
				all = append(all, distrust("waited_for_cpu", name, "a worker thread of the %s waited for a CPU %.0f %% of the time",
					end, 100**t.Use.RunQueueWaitSeconds/h.seconds()))
			}
		}
	}
	all = mostOf(all)
	if late > 0 {
		all = append(all, distrust("late_sample", name, "%d intervals of the %s were sampled late and joined to their neighbours", late, end))
	}
	if report.Runtime != nil && report.Runtime.Collections > 0 {
		all = append(all, distrust("garbage_collection", name, "%d garbage collections of the %s fell into the window", report.Runtime.Collections, end))
	}
	if report.OtherTests > 0 {
		all = append(all, distrust("other_tests", name, "the %s ran %d other tests at the same time", end, report.OtherTests))
	}
	if report.Descriptors != nil && *report.Descriptors < descriptorsLeft {
		all = append(all, distrust("descriptors", name, "the %s had only %d descriptors left", end, *report.Descriptors))
	}
	if end == sockopt.Server && r.scope() == "shared" {
		return all // one machine: said once
	}
	if cpu := report.CPU; cpu != nil && cpu.Steal != nil && *cpu.Steal >= stealFrom {
		all = append(all, distrust("steal", name, "the hypervisor took %.1f %% of the %s's CPU time", *cpu.Steal, end))
	}
	if h := *r.Hosts.Of(end); h != nil && h.Governor != nil && *h.Governor != "performance" {
		all = append(all, warn("cpu_governor", name, "CPU frequency governor of the %s: %s; the clock may vary from run to run", end, *h.Governor))
	}
	return all
}

// movers are what didn't move as it was asked to.
func (r *Run) movers(end sockopt.End) (all []caution) {
	var completions, copied uint64
	for i := range r.Streams {
		e := r.Streams[i].of(end)
		if e == nil || e.Mover == nil {
			continue
		}
		m := e.Mover
		if m.FellBack {
			all = append(all, distrust("fallback", end.String(), "stream %d: the kernel doesn't %s with this socket: the %s copied instead", r.Streams[i].ID, m.Name, end))
		} else if m.Fallbacks != nil && *m.Fallbacks > 0 {
			all = append(all, distrust("fallback", end.String(), "stream %d: %d calls of the %s copied instead of %s", r.Streams[i].ID, *m.Fallbacks, end, m.Name))
		}
		if m.Completions != nil {
			completions += *m.Completions
			copied += *m.CopiedCompletions
		}
	}
	all = mostOf(all)
	if copied > 0 {
		all = append(all, warn("zerocopy_copied", end.String(),
			"the kernel copied the data of %d of %d sends with MSG_ZEROCOPY after all, as it always does on loopback and veth: they cost more than plain sends", copied, completions))
	}
	return all
}

// mostOf keeps, of cautions of one code, the first, with their number: a test of
// many threads would say the same of each.
func mostOf(all []caution) (kept []caution) {
	count := map[string]int{}
	for _, c := range all {
		if count[c.Code]++; count[c.Code] == 1 {
			kept = append(kept, c)
		}
	}
	for i := range kept {
		if n := count[kept[i].Code]; n > 1 {
			kept[i].Message += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return kept
}

// handshake says which options are missing and, where it can be known, why.
func (r *Run) handshake(end sockopt.End, cookies bool) (all []caution) {
	if end == sockopt.Server {
		if cookies {
			all = append(all, warn("syn_cookies", end.String(), "the server answered with SYN cookies: without timestamps they cost SACK and window scaling"))
		}
		return all // both ends see the same handshake
	}
	missing := map[string]int{}
	for _, s := range r.Streams {
		e := cmp.Or(s.Client, s.Server)
		if e == nil || e.Options == nil {
			continue
		}
		for _, o := range []struct {
			name string
			on   bool
		}{{"sack", e.Options.SACK}, {"timestamps", e.Options.Timestamps}, {"window_scaling", e.Options.WindowScaling}} {
			if !o.on {
				missing[o.name]++
			}
		}
	}
	for _, name := range []string{"sack", "timestamps", "window_scaling"} {
		if n := missing[name]; n > 0 {
			all = append(all, warn("no_"+name, "", "%d of %d connections are without %s: %s", n, len(r.Streams), name, r.culprit(name, cookies)))
		}
	}
	return all
}

// culprit is who turned an option of the handshake off, as far as it's known.
func (r *Run) culprit(option string, cookies bool) string {
	sysctl := "net.ipv4.tcp_" + option
	for _, end := range []sockopt.End{sockopt.Client, sockopt.Server} {
		if h := *r.Hosts.Of(end); h != nil && h.Sysctls[sysctl] == "0" {
			return fmt.Sprintf("%s=0 at the %s", sysctl, end)
		}
	}
	if cookies && option != "timestamps" { // in which cookies keep the others
		return "SYN cookies at the server"
	}
	return "neither end's sysctl says why: SYN cookies, or something on the path"
}

// foreign compares what the end's device sent with what this test sent: a good
// deal more is somebody else's.
func (r *Run) foreign(end sockopt.End) []caution {
	counters := *r.Counters.Of(end)
	if counters == nil || counters.Device == nil || counters.Device.TxBytes == nil {
		return nil
	}
	ends := []sockopt.End{end}
	if r.sharedNamespace() {
		if end == sockopt.Server {
			return nil // the same device: said once
		}
		ends = []sockopt.End{sockopt.Client, sockopt.Server}
	}
	own := 0.0
	for _, s := range r.Streams {
		for _, e := range ends {
			bytes, ok := s.of(e).wireBytes()
			if !ok {
				return nil
			}
			own += bytes
		}
	}
	other := float64(*counters.Device.TxBytes) - own
	if other < foreignBytes || other < foreignShare*own {
		return nil
	}
	return []caution{distrust("other_traffic", end.String(), "%s of the %s sent %s that are not this test's",
		counters.Device.Name, end, units.Size(other))}
}

// wireBytes estimates what the end's segments came to on the device, headers
// included: too much for a device that segments by itself, never too little.
func (e *StreamEnd) wireBytes() (float64, bool) {
	if e == nil {
		return 0, false
	}
	payload, segments := e.grown(sockopt.BytesSent), e.grown(sockopt.SegsOut)
	if payload == nil || segments == nil {
		return 0, false
	}
	return *payload + headerBytes**segments, true
}

// grown is how much a counter of TCP_INFO grew inside the window.
func (e *StreamEnd) grown(f sockopt.TCPField) *float64 {
	from, to := e.TCPInfo.Start[f.Name()], e.TCPInfo.End[f.Name()]
	if from == nil || to == nil {
		return nil
	}
	n := *to - *from
	if *to < *from { // segment counters have 32 bits
		n = uint64(uint32(n))
	}
	v := float64(n)
	return &v
}

// sharedNamespace reports whether both ends used one network namespace, whose
// devices' counters are then the same.
func (r *Run) sharedNamespace() bool {
	c, s := r.Hosts.Client, r.Hosts.Server
	return r.scope() == "shared" && c.NetNS != nil && s.NetNS != nil && *c.NetNS == *s.NetNS
}
