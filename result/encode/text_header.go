package encode

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"gperf/internal/units"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

func header(b *bytes.Buffer, r *result.Run) {
	t := r.Plan
	if t == nil {
		return
	}
	printLine(b, "%s  %s, %s, %s", t.Type, route(r), plural(t.Streams, "stream"), extent(t))
	printLine(b, "%s, gperf %s%s", r.Started.Format(time.RFC3339), r.Gperf.Version, labels(r.Labels))
	b.WriteByte('\n')

	rows := [][]string{{"", "client", "server"}}
	add := func(name string, of func(end sockopt.End) string) {
		rows = append(rows, []string{name, of(sockopt.Client), of(sockopt.Server)})
	}
	add("role", func(end sockopt.End) string { return roles(t, end) })
	if r.Hosts.Client != nil || r.Hosts.Server != nil {
		add("machine", func(end sockopt.End) string { return machine(*r.Hosts.Of(end)) })
	}
	switch {
	case t.Type == plan.TCPCC: // has no messages
	case t.Type.RequestResponse():
		add("message size", func(end sockopt.End) string {
			if end == sockopt.Client {
				return "request " + exactSize(t.RequestSize)
			}
			return "response " + exactSize(t.ResponseSize)
		})
		if t.Type.Carrier() != plan.Connections {
			add("outstanding", func(end sockopt.End) string { return clients(end, strconv.Itoa(t.Burst)) })
		}
		if t.ResponseTimeout != 0 {
			add("lost after", func(end sockopt.End) string { return clients(end, span(t.ResponseTimeout)) })
		}
	default:
		add("message size", func(end sockopt.End) string { return callSizes(t, end) })
		if !plain(t) {
			add("moved by", func(end sockopt.End) string { return moving(t, end) })
		}
	}
	for _, key := range headerKnobs(t) {
		add(knobName(key), func(end sockopt.End) string { return setting(r, end, key) })
	}
	if t.Client.CPUs != nil || t.Server.CPUs != nil {
		add("CPUs", func(end sockopt.End) string { return pinned(t.End(end).CPUs) })
	}
	table(b, left, rows)
	b.WriteByte('\n')
}

// clients is a cell of the client's column only.
func clients(end sockopt.End, s string) string {
	if end == sockopt.Client {
		return s
	}
	return ""
}

// route shows the server and the way of the payload to it.
func route(r *result.Run) string {
	server := "server"
	if r.Server != nil {
		server = host(*r.Server)
	}
	var arrows []string
	for _, d := range r.Plan.Directions() {
		arrows = append(arrows, arrow(d))
	}
	return "client " + strings.Join(arrows, " ") + " " + server
}

// host returns address without its port.
func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

func labels(labels map[string]string) string {
	var s strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		s.WriteString(", " + key + "=" + labels[key])
	}
	return s.String()
}

// extent says what ends the test.
func extent(t *plan.Test) string {
	switch {
	case t.Bytes > 0:
		return "until " + strconv.FormatInt(t.Bytes, 10) + " bytes"
	case t.Transactions > 0:
		return "until " + strconv.FormatInt(t.Transactions, 10) + " transactions"
	case t.Warmup > 0:
		return span(t.Duration) + " after a warm-up of " + span(t.Warmup)
	}
	return span(t.Duration)
}

func span(s plan.Seconds) string {
	return strconv.FormatFloat(time.Duration(s).Seconds(), 'f', -1, 64) + " s"
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

func roles(t *plan.Test, end sockopt.End) string {
	var roles []string
	for _, d := range t.Directions() {
		roles = append(roles, string(d.Role(end)))
	}
	return strings.Join(roles, ", ")
}

func machine(h *result.Host) string {
	if h == nil {
		return unknown
	}
	s := "Linux " + show(h.Kernel, func(s string) string { return s })
	if h.CPUs != nil {
		s += ", " + plural(*h.CPUs, "CPU")
	}
	return s
}

// callSizes says how much end hands over, or asks for, in one system call.
func callSizes(t *plan.Test, end sockopt.End) string {
	var sizes []string
	for _, d := range t.Directions() {
		if d.Role(end) == plan.Sender {
			sizes = append(sizes, exactSize(t.End(end).SendSize)+per(t))
		} else {
			sizes = append(sizes, exactSize(t.End(end).ReceiveSize)+" per receive")
		}
	}
	return strings.Join(sizes, ", ")
}

// per says what a bulk sender sends of its message size.
func per(t *plan.Test) string {
	if t.Type.Carrier() == plan.Datagrams {
		return " per datagram"
	}
	return " per send"
}

// plain reports whether a bulk test moves its bytes in the plain way.
func plain(t *plan.Test) bool {
	for _, e := range []plan.End{t.Client, t.Server} {
		if e.Send != plan.Write || e.Receive != plan.Read || e.Chunk != 0 || e.More {
			return false
		}
	}
	return !t.Verify
}

// moving says how an end moves its bytes.
func moving(t *plan.Test, end sockopt.End) string {
	e := t.End(end)
	var parts []string
	for _, d := range t.Directions() {
		if d.Role(end) == plan.Sender {
			parts = append(parts, e.Send)
		} else {
			parts = append(parts, e.Receive)
		}
	}
	if e.PipeSize != 0 {
		parts = append(parts, "pipe "+exactSize(e.PipeSize))
	}
	if e.SpliceFlags != "" {
		parts = append(parts, "splice flags "+e.SpliceFlags)
	}
	if e.Chunk != 0 {
		parts = append(parts, "chunk "+exactSize(e.Chunk))
	}
	if e.More {
		parts = append(parts, "MSG_MORE")
	}
	if t.Verify {
		parts = append(parts, "verified")
	}
	return strings.Join(parts, ", ")
}

// exactSize prints a size as its flag would be written: 128K, 100B.
func exactSize(n int) string {
	s := units.ExactSize(int64(n))
	if s[len(s)-1] <= '9' {
		s += "B"
	}
	return s
}

// headerKnobs are the keys of the knobs that matter to every test, and of the
// others that were asked for.
func headerKnobs(t *plan.Test) []string {
	keys := []string{"sndbuf", "rcvbuf"}
	if t.Type.Carrier() != plan.Datagrams {
		keys = append(keys, "nodelay", "congestion")
	}
	for _, key := range askedKnobs(t) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// setting is what a knob was asked to be, or what it is by default where a
// single value stands for that.
func setting(r *result.Run, end sockopt.End, key string) string {
	if v := r.Plan.End(end).Knobs[key]; v.IsSet() {
		s := knobValue(key, v)
		if r.Plan.ForceBuffers && (key == "sndbuf" || key == "rcvbuf") {
			s += " (forced)"
		}
		return s
	}
	if key == "nodelay" || key == "congestion" {
		for _, row := range r.Audit {
			if row.End == end.String() && row.Knob == key && row.Effective.IsSet() {
				return knobValue(key, row.Effective) + " (default)"
			}
		}
	}
	return "auto"
}

func pinned(cpus []int) string {
	if len(cpus) == 0 {
		return "any"
	}
	return strings.Trim(fmt.Sprint(cpus), "[]")
}
