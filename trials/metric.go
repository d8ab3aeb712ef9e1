package trials

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gperf/result"
)

// A Metric is one figure of a trial: what to look up, and how to judge it.
type Metric struct {
	Name string // as asked for
	Unit string // bit/s, 1/s, us, s, %, bytes, us/KiB, us/transaction; empty: a count
	// Better says which way is good.
	Better Better
	// paths are where it stands in the document; several: their sum. A "[]" behind a
	// name stands for each entry of a list, whose mean it is.
	paths []string
	doc   string
}

// Better is which way a metric is better.
type Better string

// The ways. A metric that is neither has no regressions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// metrics are the short names, in the order in which help lists them.
var metrics = []Metric{
	{"throughput", "bit/s", Higher, []string{"summary.throughput_bits_per_second"}, "payload received, of all streams"},
	{"transactions", "1/s", Higher, []string{"summary.transactions_per_second"}, "transactions per second"},
	{"latency", "us", Lower, []string{"summary.latency_us.mean"}, "mean latency"},
	{"p50", "us", Lower, []string{"summary.latency_us.p50"}, "median latency"},
	{"p90", "us", Lower, []string{"summary.latency_us.p90"}, "90th percentile of latency"},
	{"p99", "us", Lower, []string{"summary.latency_us.p99"}, "99th percentile of latency"},
	{"p999", "us", Lower, []string{"summary.latency_us.p999"}, "99.9th percentile of latency"},
	{"latency-max", "us", Lower, []string{"summary.latency_us.max"}, "largest latency"},
	{"connect", "us", Lower, []string{"summary.connect_latency_us.p50"}, "median time to connect"},
	{"lost-transactions", "", Lower, []string{"summary.lost_transactions"}, "requests without a response in time"},
	{"lost", "%", Lower, []string{"summary.datagrams.lost_percent"}, "datagrams lost"},
	{"jitter", "us", Lower, []string{"summary.datagrams.jitter_us"}, "jitter of datagrams"},
	{"retransmits", "", Lower, []string{"summary.retransmitted_segments"}, "segments retransmitted"},
	{"retransmit-share", "%", Lower, []string{"summary.retransmitted_segments_percent"}, "retransmits, of the segments"},
	{"rtos", "", Lower, []string{"summary.rto_events"}, "retransmission time-outs"},
	{"reorderings", "", Lower, []string{"summary.reordering_events"}, "reorderings that the sender saw"},
	{"rtt", "us", Lower, []string{"summary.rtt_us.mean"}, "smoothed RTT at the end, mean of the streams"},
	{"rtt-max", "us", Lower, []string{"summary.rtt_us.max"}, "largest of them"},
	{"client-cpu", "%", Lower, []string{"summary.cpu.client.total_percent"}, "the client machine's CPUs, 100 % all busy"},
	{"server-cpu", "%", Lower, []string{"summary.cpu.server.total_percent"}, "the server machine's"},
	{"client-softirq", "%", Lower, []string{"summary.cpu.client.softirq_percent"}, "softirq time of the client's CPUs"},
	{"server-softirq", "%", Lower, []string{"summary.cpu.server.softirq_percent"}, "of the server's"},
	{"client-thread", "s", Lower, []string{"summary.cpu.client.thread_seconds"}, "CPU time of the client's workers"},
	{"server-thread", "s", Lower, []string{"summary.cpu.server.thread_seconds"}, "of the server's"},
	{"client-steal", "%", Lower, []string{"summary.cpu.client.steal_percent"}, "time that the hypervisor took from the client"},
	{"server-steal", "%", Lower, []string{"summary.cpu.server.steal_percent"}, "from the server"},
	{"demand", "us/KiB", Lower, []string{"summary.cpu.client.service_demand_us_per_kib", "summary.cpu.server.service_demand_us_per_kib"}, "CPU time per KiB, both ends"},
	{"client-demand", "us/KiB", Lower, []string{"summary.cpu.client.service_demand_us_per_kib"}, "the client's"},
	{"server-demand", "us/KiB", Lower, []string{"summary.cpu.server.service_demand_us_per_kib"}, "the server's"},
	{"transaction-demand", "us/transaction", Lower, []string{"summary.cpu.client.service_demand_us_per_transaction", "summary.cpu.server.service_demand_us_per_transaction"}, "CPU time per transaction, both ends"},
	{"bytes-per-segment", "bytes", Higher, []string{"summary.payload_per_segment_bytes"}, "payload per segment sent"},
	{"messages-per-segment", "", Higher, []string{"summary.messages_per_segment"}, "messages per segment sent"},
	{"window", "bytes", "", []string{"summary.receive_window_bytes"}, "window that the receiver offered at the end, mean of the streams"},
	{"busy", "%", "", []string{"summary.limited.busy_percent"}, "share of time with data in flight"},
	{"rwnd-limited", "%", Lower, []string{"summary.limited.rwnd_percent"}, "share of time that the receiver's window held the sender"},
	{"sndbuf-limited", "%", Lower, []string{"summary.limited.sndbuf_percent"}, "share that the send buffer did"},
	{"blocked", "%", "", []string{"summary.limited.blocked_percent"}, "share that the sender was blocked in send"},
	{"client-run-queue-wait", "s", Lower, []string{"summary.cpu.client.run_queue_wait_seconds"}, "longest time that a worker of the client waited for a CPU"},
	{"server-run-queue-wait", "s", Lower, []string{"summary.cpu.server.run_queue_wait_seconds"}, "of the server"},
	{"duration", "s", "", []string{"summary.duration_seconds"}, "length of the window"},
	{"setup", "s", Lower, []string{"setup.data_seconds"}, "time to open the data connections"},
	{"stalls", "", Lower, []string{pathStalls}, "times in which a stream nearly stood still"},
}

// pathStalls stands for a figure that the document has as the length of a list.
const pathStalls = "stalls"

// Covariates are the metrics that may say why a trial came out as it did.
func Covariates() []Metric {
	names := []string{
		"retransmits", "rtos", "reorderings", "rtt", "rtt-max", "bytes-per-segment", "rwnd-limited", "sndbuf-limited",
		"client-cpu", "server-cpu", "client-softirq", "server-softirq", "client-thread", "server-thread", "client-steal", "server-steal",
		"client-run-queue-wait", "server-run-queue-wait", "lost", "stalls",
	}
	all := make([]Metric, len(names))
	for i, name := range names {
		all[i], _ = LookupMetric(name)
	}
	return all
}

// MetricNames are the short names.
func MetricNames() []string {
	names := make([]string, len(metrics))
	for i := range metrics {
		names[i] = metrics[i].Name
	}
	return names
}

// Doc says in a few words what a metric is, empty for a path.
func (m Metric) Doc() string { return m.doc }

// Same reports whether two metrics are one figure under whatever names.
func (m Metric) Same(o Metric) bool { return slices.Equal(m.paths, o.paths) }

// LookupMetric returns the metric of that short name, or of that path in the
// document (summary.cpu.server.total_percent). A name may be followed by :higher
// or :lower, which says which way is better; of a path it's higher unless its
// unit says otherwise.
func LookupMetric(name string) (Metric, error) {
	base, better, said := strings.Cut(name, ":")
	if said && better != string(Higher) && better != string(Lower) {
		return Metric{}, fmt.Errorf("%q: a metric is better %s or %s, not %q", name, Higher, Lower, better)
	}
	m, err := lookup(base)
	if said {
		m.Better = Better(better)
	}
	return m, err
}

func lookup(name string) (Metric, error) {
	if i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return metrics[i], nil
	}
	for _, m := range metrics {
		if len(m.paths) == 1 && m.paths[0] == name {
			m.Name = name
			return m, nil
		}
	}
	if !strings.ContainsAny(name, ".[") {
		return Metric{}, fmt.Errorf("unknown metric %q (known: %s; or a path in the document such as summary.rtt_us.min)", name, strings.Join(MetricNames(), ", "))
	}
	if err := checkPath(name); err != nil {
		return Metric{}, err
	}
	m := Metric{Name: name, paths: []string{name}, Better: Higher, Unit: unitOf(name)}
	if m.Unit == "us" || m.Unit == "s" || m.Unit == "%" {
		m.Better = Lower
	}
	return m, nil
}

// unitOf tells the unit of a path by its key's suffix.
func unitOf(path string) string {
	for key := range strings.SplitSeq(path, ".") {
		if strings.HasSuffix(key, "_us") { // also of the figures below latency_us
			return "us"
		}
	}
	for _, u := range [][2]string{
		{"_bits_per_second", "bit/s"}, {"_bytes_per_second", "bytes/s"}, {"_per_second", "1/s"}, {"_percent", "%"},
		{"_seconds", "s"}, {"_us_per_kib", "us/KiB"}, {"_us_per_transaction", "us/transaction"}, {"_bytes", "bytes"},
	} {
		if strings.HasSuffix(path, u[0]) {
			return u[1]
		}
	}
	return ""
}

// checkPath reports why no document can have a number at path.
func checkPath(path string) error {
	t := reflect.TypeFor[result.Run]()
	at := "the document"
	for key := range strings.SplitSeq(path, ".") {
		name, isList := strings.CutSuffix(key, "[]")
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			f, ok := fieldOf(t, name)
			if !ok {
				return fmt.Errorf("no %q in %s (it has: %s)", name, at, strings.Join(keysOf(t), ", "))
			}
			t = f
		case reflect.Map:
			t = t.Elem()
		default:
			return fmt.Errorf("%s has nothing below it: %q", at, path)
		}
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if isList != (t.Kind() == reflect.Slice) {
			if isList {
				return fmt.Errorf("%s is no list: %q", name, path)
			}
			return fmt.Errorf("%s is a list: write %s[] for the mean of its entries", name, name)
		}
		if isList {
			t = t.Elem()
		}
		at = name
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return nil
	case reflect.Struct:
		return fmt.Errorf("%s is no number (below it: %s)", at, strings.Join(keysOf(t), ", "))
	}
	return fmt.Errorf("%s is no number: %q", at, path)
}

// fieldOf returns the type of the field with that JSON key.
func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if jsonKey(f) == key {
			return f.Type, true
		}
	}
	return nil, false
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		if key := jsonKey(f); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func jsonKey(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}
