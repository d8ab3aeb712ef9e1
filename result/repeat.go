package result

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gperf/stats"
)

// Repeat is a series of equal runs. The document around it is that of the run
// in the middle, a real one: the run whose metric is the (lower) median.
type Repeat struct {
	Metric     string       `json:"metric" doc:"what is compared: throughput_bits_per_second or transactions_per_second"`
	Trials     []Trial      `json:"trials" doc:"every run, in the order in which they ran"`
	Statistics stats.Sample `json:"statistics" doc:"of the metric, over the complete runs"`
	Confidence *Confidence  `json:"confidence" doc:"how well the mean is known; null when nobody asked"`
}

// Confidence is how well the mean of a series is known.
type Confidence struct {
	Level     float64  `json:"level_percent" doc:"confidence level asked for"`
	Width     float64  `json:"width_percent" doc:"width of the whole interval asked for, in percent of the mean, as netperf's -I: 5 is ±2.5 %"`
	HalfWidth *float64 `json:"half_width_percent" doc:"half the width reached; null with fewer than two runs"`
	Reached   bool     `json:"reached" doc:"whether the interval is as narrow as asked for"`
}

// Trial is one run of a series in short, with its raw values.
type Trial struct {
	ID           string    `json:"id" doc:"identifier of the run"`
	Started      time.Time `json:"started" doc:"when it began"`
	Status       Status    `json:"status" doc:"complete, partial or failed"`
	Error        *Error    `json:"error" doc:"why it isn't complete; null when it is"`
	TrustOK      bool      `json:"trust_ok" doc:"whether its figures can be taken at face value"`
	Throughput   *float64  `json:"throughput_bits_per_second" doc:"as in summary"`
	TPS          *float64  `json:"transactions_per_second" doc:"as in summary"`
	Duration     *float64  `json:"duration_seconds" doc:"as in summary"`
	RetransSegs  *uint64   `json:"retransmitted_segments" doc:"as in summary"`
	RTOEvents    *uint64   `json:"rto_events" doc:"as in summary"`
	LatencyP50   *float64  `json:"latency_p50_us" doc:"median latency, microseconds"`
	LatencyP99   *float64  `json:"latency_p99_us" doc:"99th percentile of latency, microseconds"`
	ClientCPU    *float64  `json:"client_cpu_percent" doc:"total_percent of the client's machine"`
	ServerCPU    *float64  `json:"server_cpu_percent" doc:"total_percent of the server's machine"`
	ClientThread *float64  `json:"client_thread_seconds" doc:"CPU time of the client's workers"`
	ServerThread *float64  `json:"server_thread_seconds" doc:"CPU time of the server's workers"`
}

// InShort is the run as a series lists it.
func (r *Run) InShort() Trial {
	t := Trial{ID: r.ID, Started: r.Started, Status: r.Status, Error: r.Error, TrustOK: r.Trust.OK}
	s := r.Summary
	if s == nil {
		return t
	}
	t.Throughput, t.TPS, t.Duration = s.Throughput, s.TPS, s.Duration
	t.RetransSegs, t.RTOEvents = s.RetransSegs, s.RTOEvents
	if s.Latency != nil {
		t.LatencyP50, t.LatencyP99 = &s.Latency.P50, &s.Latency.P99
	}
	if c := s.CPU.Client; c != nil {
		t.ClientCPU, t.ClientThread = c.Total, c.ThreadSeconds
	}
	if c := s.CPU.Server; c != nil {
		t.ServerCPU, t.ServerThread = c.Total, c.ThreadSeconds
	}
	return t
}

// metric is the value by which runs of one series are compared, nil when the
// run isn't complete: a run that ended early is no sample, and no zero.
func (r *Run) metric() *float64 {
	if r.Status != Complete || r.Summary == nil {
		return nil
	}
	return cmp.Or(r.Summary.TPS, r.Summary.Throughput)
}

// Series makes one document of runs of the same plan, at least one, in the order
// in which they ran. Its status is the worst of theirs, with that one's error.
func Series(runs []*Run, c *Confidence) *Run {
	var values []float64
	repeat := &Repeat{Metric: "throughput_bits_per_second", Confidence: c}
	for _, r := range runs {
		repeat.Trials = append(repeat.Trials, r.InShort())
		if v := r.metric(); v != nil {
			values = append(values, *v)
		}
		if r.Plan != nil && r.Plan.Type.RequestResponse() {
			repeat.Metric = "transactions_per_second"
		}
	}
	repeat.Statistics = stats.Describe(values)
	if c != nil {
		c.HalfWidth = repeat.Statistics.HalfWidthPercent(c.Level / 100)
		c.Reached = c.HalfWidth != nil && *c.HalfWidth <= c.Width/2
	}
	doc := *middle(runs)
	doc.Trust.Reasons = slices.Clone(doc.Trust.Reasons)
	for i, r := range runs {
		if !r.Trust.OK && r.ID != doc.ID {
			doc.Trust.OK = false
			for _, reason := range r.Trust.Reasons {
				doc.Trust.Reasons = append(doc.Trust.Reasons, fmt.Sprintf("run %d: %s", i+1, reason))
			}
		}
		if r.Status != Complete {
			doc.Status, doc.Error = Partial, r.Error
			if len(values) == 0 {
				doc.Status = r.Status
			}
		}
	}
	doc.Repeat = repeat
	return &doc
}

// middle is the complete run with the lower median of the metric, the last run
// if none is complete.
func middle(runs []*Run) *Run {
	complete := slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool { return r.metric() == nil })
	if len(complete) == 0 {
		return runs[len(runs)-1]
	}
	slices.SortStableFunc(complete, func(a, b *Run) int { return cmp.Compare(*a.metric(), *b.metric()) })
	return complete[(len(complete)-1)/2]
}
