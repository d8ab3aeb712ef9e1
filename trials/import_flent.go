package trials

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gperf/result"
)

// flentDocument is a flent data file (.flent, inside of .flent.gz), as far as it is
// used here.
type flentDocument struct {
	Metadata struct {
		Name       string                 `json:"NAME"`
		Title      *string                `json:"TITLE"`
		Note       *string                `json:"NOTE"`
		Time       string                 `json:"TIME"`
		Length     float64                `json:"LENGTH"`
		Failed     int                    `json:"FAILED_RUNNERS"`
		Version    string                 `json:"FLENT_VERSION"`
		Kernel     *string                `json:"KERNEL_RELEASE"`
		Host       string                 `json:"HOST"`
		LocalHost  *string                `json:"LOCAL_HOST"`
		Sysctls    map[string]any         `json:"SYSCTLS"`
		Parameters map[string]any         `json:"TEST_PARAMETERS"`
		Series     map[string]flentSeries `json:"SERIES_META"`
	} `json:"metadata"`
	Results map[string][]*float64 `json:"results"`
}

// flentSeries is what flent knows of one series that it measured. The series that
// it computes of others have none, so that nothing is counted twice.
type flentSeries struct {
	Mean        *float64 `json:"MEAN_VALUE"`
	Units       string   `json:"UNITS"`
	Retransmits any      `json:"TCP_RETRANSMIT"` // a number, or one in a string
	RTT         *float64 `json:"TCPI_RTT"`       // us, at the end
	Congestion  string   `json:"CONG_CONTROL"`
}

// importFlent reads a flent data file: one trial. The throughput is that of all
// flows, both ways; the latency is the mean of what its pings saw.
func importFlent(doc []byte) (*Trial, error) {
	var d flentDocument
	if err := json.Unmarshal(doc, &d); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("not as flent writes it: %s: %s", e.Field, e.Value)
		}
		return nil, fmt.Errorf("not as flent writes it: %w", err)
	}
	m := &d.Metadata
	t := &Trial{
		Format: Flent, Status: result.Complete, Trusted: true, foreign: map[string]float64{}, Labels: map[string]string{},
		Gperf: strings.TrimSpace("flent " + m.Version),
		Plan:  map[string]string{"test": m.Name, "duration": strconv.FormatFloat(m.Length, 'f', -1, 64)},
		Hosts: &result.Ends[*result.Host]{Client: &result.Host{Hostname: m.LocalHost, Kernel: m.Kernel, Sysctls: map[string]string{}}},
	}
	for name, value := range m.Sysctls {
		t.Hosts.Client.Sysctls[name] = strings.Join(strings.Fields(fmt.Sprint(value)), " ")
	}
	for name, value := range m.Parameters {
		t.Plan[name] = fmt.Sprint(value)
	}
	for name, value := range map[string]*string{"title": m.Title, "note": m.Note} {
		if value != nil && *value != "" {
			t.Labels[name] = *value
		}
	}
	t.Started, _ = time.Parse(time.RFC3339, m.Time)
	d.figures(t)
	switch {
	case m.Failed > 0:
		t.Status, t.Why = result.Partial, fmt.Sprintf("%d of flent's runners failed", m.Failed)
	case len(t.foreign) == 0:
		t.Status, t.Why = result.Failed, "it has no figures in Mbits/s or ms"
	}
	return t, nil
}

func (d *flentDocument) figures(t *Trial) {
	var pings, latency, rtts, rtt float64
	for name, s := range d.Metadata.Series {
		mean := s.Mean
		if mean == nil {
			mean = meanOf(d.Results[name])
		}
		if s.Congestion != "" {
			t.Plan["congestion"] = s.Congestion
		}
		if n, err := strconv.ParseFloat(fmt.Sprint(s.Retransmits), 64); err == nil && n >= 0 {
			t.foreign["summary.retransmitted_segments"] += n
		}
		if s.RTT != nil && *s.RTT > 0 {
			rtt += *s.RTT
			rtts++
		}
		if mean == nil {
			continue
		}
		switch s.Units {
		case "Mbits/s":
			t.foreign["summary.throughput_bits_per_second"] += *mean * 1e6
		case "ms":
			latency += *mean * 1e3
			pings++
		}
	}
	if pings > 0 {
		t.foreign["summary.latency_us.mean"] = latency / pings
	}
	if rtts > 0 {
		t.foreign["summary.rtt_us.mean"] = rtt / rtts
	}
}

// meanOf is the mean of a series, whose gaps are null; nil without a value.
func meanOf(series []*float64) *float64 {
	var sum, n float64
	for _, v := range series {
		if v != nil {
			sum += *v
			n++
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / n
	return &mean
}
