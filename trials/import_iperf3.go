package trials

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gperf/internal/units"
	"gperf/result"
)

// iperf3Sum is one of the totals of iperf3's "end", or of a stream there. What a
// kind of test doesn't have stays nil.
type iperf3Sum struct {
	Seconds     float64  `json:"seconds"`
	Bytes       float64  `json:"bytes"`
	Rate        *float64 `json:"bits_per_second"`
	Retransmits *float64 `json:"retransmits"`
	Jitter      *float64 `json:"jitter_ms"`
	Packets     *float64 `json:"packets"`
	Lost        *float64 `json:"lost_packets"`
	LostPercent *float64 `json:"lost_percent"`
	OutOfOrder  *float64 `json:"out_of_order"`
	MeanRTT     float64  `json:"mean_rtt"` // us; 0: the other end sent
	MinRTT      float64  `json:"min_rtt"`
	MaxRTT      float64  `json:"max_rtt"`
}

// iperf3Document is what iperf3 -J prints, as far as it is used here.
type iperf3Document struct {
	Title string  `json:"title"`
	Extra string  `json:"extra_data"`
	Error *string `json:"error"`
	Start struct {
		Version   string          `json:"version"`
		System    string          `json:"system_info"`
		Accepted  json.RawMessage `json:"accepted_connection"` // on a server
		MSS       int64           `json:"tcp_mss"`             // asked for
		Buffer    int64           `json:"sock_bufsize"`        // asked for
		Timestamp struct {
			Seconds float64 `json:"timesecs"`
			Millis  float64 `json:"timemillisecs"`
		} `json:"timestamp"`
		Test *struct {
			Protocol string  `json:"protocol"`
			Streams  int     `json:"num_streams"`
			Block    int64   `json:"blksize"`
			Omit     float64 `json:"omit"`
			Duration float64 `json:"duration"`
			Bytes    int64   `json:"bytes"`
			Reverse  int     `json:"reverse"`
			Bidir    int     `json:"bidir"`
			TOS      int     `json:"tos"`
			Rate     float64 `json:"target_bitrate"`
		} `json:"test_start"`
	} `json:"start"`
	End struct {
		Streams []struct {
			Sender *iperf3Sum `json:"sender"`
			UDP    *iperf3Sum `json:"udp"`
		} `json:"streams"`
		Sum             *iperf3Sum `json:"sum"`
		Sent            *iperf3Sum `json:"sum_sent"`
		Received        *iperf3Sum `json:"sum_received"`
		SentReverse     *iperf3Sum `json:"sum_sent_bidir_reverse"`
		ReceivedReverse *iperf3Sum `json:"sum_received_bidir_reverse"`
		CPU             *struct {
			Host   float64 `json:"host_total"`
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
		Congestion string `json:"sender_tcp_congestion"`
	} `json:"end"`
}

// importIperf3 reads what iperf3 -J prints. Its share of a CPU is that of its own
// process, so it becomes the time of the end's threads, not of the machine.
func importIperf3(doc []byte) (*Trial, error) {
	var d iperf3Document
	if err := json.Unmarshal(doc, &d); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("not as iperf3 writes it: %s: %s", e.Field, e.Value)
		}
		return nil, fmt.Errorf("not as iperf3 writes it: %w", err)
	}
	t := &Trial{
		Format: Iperf3, Gperf: d.Start.Version, Status: result.Complete, Trusted: true,
		Labels: map[string]string{}, Plan: d.settings(), foreign: d.figures(),
	}
	for name, value := range map[string]string{"title": d.Title, "extra_data": d.Extra} {
		if value != "" {
			t.Labels[name] = value
		}
	}
	if s := d.Start.Timestamp.Seconds; s > 0 && s < 1e11 {
		t.Started = time.UnixMilli(int64(max(d.Start.Timestamp.Millis, s*1e3))).UTC()
	}
	own := d.host()
	if len(d.Start.Accepted) > 0 {
		t.Hosts = &result.Ends[*result.Host]{Server: own}
	} else {
		t.Hosts = &result.Ends[*result.Host]{Client: own}
	}
	_, measured := t.foreign["summary.throughput_bits_per_second"]
	switch {
	case d.Error != nil && measured:
		t.Status, t.Why = result.Partial, *d.Error
	case d.Error != nil:
		t.Status, t.Why = result.Failed, *d.Error
	case !measured:
		t.Status, t.Why = result.Failed, "it has no totals"
	}
	return t, nil
}

// host is what iperf3 says of its machine: uname's line.
func (d *iperf3Document) host() *result.Host {
	f := strings.Fields(d.Start.System)
	if len(f) < 4 {
		return nil
	}
	version := strings.Join(f[3:len(f)-1], " ")
	return &result.Host{Hostname: &f[1], Kernel: &f[2], KernelVersion: &version, Arch: &f[len(f)-1]}
}

// settings is the plan, in gperf's words.
func (d *iperf3Document) settings() map[string]string {
	t := d.Start.Test
	if t == nil {
		return nil
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	s := map[string]string{
		"test": "TCP_STREAM", "streams": strconv.Itoa(t.Streams), "message-size": units.ExactSize(t.Block),
		"warmup": number(t.Omit), "duration": number(t.Duration), "bytes": units.ExactSize(t.Bytes),
		"bidir": strconv.FormatBool(t.Bidir != 0), "tos": strconv.Itoa(t.TOS), "rate": number(t.Rate),
	}
	switch {
	case t.Protocol == "UDP":
		s["test"] = "UDP_STREAM"
	case t.Protocol != "TCP":
		s["test"] = t.Protocol
	case t.Reverse != 0:
		s["test"] = "TCP_MAERTS"
	}
	if t.Protocol == "UDP" && t.Reverse != 0 {
		s["reverse"] = "true"
	}
	if d.Start.Buffer > 0 {
		s["sndbuf"] = units.ExactSize(d.Start.Buffer)
		s["rcvbuf"] = s["sndbuf"]
	}
	if d.Start.MSS > 0 {
		s["mss"] = strconv.FormatInt(d.Start.MSS, 10)
	}
	if d.End.Congestion != "" {
		s["congestion"] = d.End.Congestion
	}
	return s
}

// figures are iperf3's figures at the places of gperf's document.
func (d *iperf3Document) figures() map[string]float64 {
	f := map[string]float64{}
	set := func(path string, v *float64) {
		if v != nil {
			f[path] += *v // of both directions
		}
	}
	received := d.End.Received
	if received == nil && d.End.Sum != nil { // of UDP before 3.11, which has what was sent
		all := *d.End.Sum
		if all.Rate != nil && all.LostPercent != nil {
			rate := *all.Rate * (1 - *all.LostPercent/100)
			all.Rate = &rate
		}
		received = &all
	}
	if received == nil {
		return f
	}
	for _, r := range []*iperf3Sum{received, d.End.ReceivedReverse} {
		if r == nil {
			continue
		}
		set("summary.throughput_bits_per_second", r.Rate)
		set("summary.received_bytes", &r.Bytes)
	}
	if received.Seconds > 0 {
		f["summary.duration_seconds"] = received.Seconds
	}
	for _, s := range []*iperf3Sum{d.End.Sent, d.End.SentReverse} {
		if s != nil {
			set("summary.sent_bytes", &s.Bytes)
			set("summary.retransmitted_segments", s.Retransmits)
		}
	}
	d.datagrams(f)
	var rtts, mean float64
	for _, s := range d.End.Streams {
		if s.Sender == nil || s.Sender.MeanRTT <= 0 {
			continue
		}
		low, high := "summary.rtt_us.min", "summary.rtt_us.max"
		if rtts == 0 || s.Sender.MinRTT < f[low] {
			f[low] = s.Sender.MinRTT
		}
		f[high] = max(f[high], s.Sender.MaxRTT)
		mean += s.Sender.MeanRTT
		rtts++
	}
	if rtts > 0 {
		f["summary.rtt_us.mean"] = mean / rtts
	}
	if cpu := d.End.CPU; cpu != nil && received.Seconds > 0 {
		own, other := "client", "server"
		if len(d.Start.Accepted) > 0 {
			own, other = other, own
		}
		f["summary.cpu."+own+".thread_seconds"] = cpu.Host / 100 * received.Seconds
		if cpu.Remote > 0 { // a server doesn't know the client's
			f["summary.cpu."+other+".thread_seconds"] = cpu.Remote / 100 * received.Seconds
		}
	}
	return f
}

func (d *iperf3Document) datagrams(f map[string]float64) {
	sum := d.End.Sum
	if sum == nil || d.Start.Test == nil || d.Start.Test.Protocol != "UDP" {
		return
	}
	figures := map[string]*float64{"lost": sum.Lost, "lost_percent": sum.LostPercent}
	if sum.Jitter != nil {
		us := *sum.Jitter * 1e3
		figures["jitter_us"] = &us
	}
	if sum.Packets != nil && sum.Lost != nil {
		came := *sum.Packets - *sum.Lost
		figures["received"] = &came
	}
	var late float64
	for _, s := range d.End.Streams {
		if s.UDP != nil && s.UDP.OutOfOrder != nil {
			late += *s.UDP.OutOfOrder
			figures["out_of_order"] = &late
		}
	}
	for name, v := range figures {
		if v != nil {
			f["summary.datagrams."+name] = *v
		}
	}
}

// A streamEvent is one line of iperf3 --json-stream.
type streamEvent struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

func streamed(doc []byte) item {
	e := new(streamEvent)
	if err := json.Unmarshal(doc, e); err != nil {
		return item{err: errors.New("an event without a name")}
	}
	if e.Name == "interval" {
		e.Data = nil
	}
	return item{event: e}
}

// A stream gathers the events of one run.
type stream struct {
	line  int
	parts map[string]json.RawMessage
}

func (s *stream) add(j *joiner, it *item) error {
	if s.parts == nil {
		s.line, s.parts = it.line, map[string]json.RawMessage{}
	}
	if it.event.Data != nil {
		s.parts[it.event.Name] = it.event.Data
	}
	if it.event.Name != "end" {
		return nil
	}
	return s.flush(j)
}

// flush makes a trial of the events.
func (s *stream) flush(j *joiner) error {
	parts := s.parts
	s.parts = nil
	doc, err := json.Marshal(parts)
	if err != nil {
		return j.fault(&item{line: s.line, err: err})
	}
	t, err := importIperf3(doc)
	if err != nil {
		return j.fault(&item{line: s.line, err: err})
	}
	t.File, t.Line = j.from.name, s.line
	t.values = j.r.foreignValues(t.foreign)
	t.foreign = nil
	j.r.set.Trials = append(j.r.set.Trials, t)
	return nil
}

// end is the end of the file: a run without one did not end.
func (s *stream) end(j *joiner) error {
	if s.parts == nil {
		return nil
	}
	return s.flush(j)
}
