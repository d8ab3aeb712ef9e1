// Package stats holds gperf's arithmetic: rates, latency summaries, CPU shares
// and service demand. It is mathematics only: it does no I/O, knows no socket,
// and returns "unknown" (a nil pointer or false) where a figure is not defined,
// never NaN, never an invented zero.
package stats

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency histograms hold values from 1 ns to HighestLatency with three
// significant digits, which is 0.1 % of any value.
const (
	HighestLatency = 100 * time.Second
	latencyDigits  = 3
)

// NewHistogram returns an empty latency histogram in nanoseconds. It is about
// 240 KiB and belongs to one thread; histograms are merged at the end.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(HighestLatency), latencyDigits)
}

// Latency summarises a histogram of nanoseconds in microseconds.
type Latency struct {
	Count     int64   `json:"count" doc:"transactions in the histogram"`
	Min       float64 `json:"min" doc:"smallest latency, microseconds"`
	Mean      float64 `json:"mean" doc:"arithmetic mean, microseconds"`
	Stddev    float64 `json:"stddev" doc:"standard deviation, microseconds"`
	P50       float64 `json:"p50" doc:"median, microseconds"`
	P90       float64 `json:"p90" doc:"90th percentile, microseconds"`
	P99       float64 `json:"p99" doc:"99th percentile, microseconds"`
	P999      float64 `json:"p999" doc:"99.9th percentile, microseconds"`
	Max       float64 `json:"max" doc:"largest latency, microseconds"`
	Histogram string  `json:"histogram,omitempty" doc:"the whole histogram in nanoseconds, HdrHistogram's compressed encoding (V2) in base64"`
}

// SummariseLatency returns the summary of h, nil when it is empty. With
// encode, the summary carries the whole histogram.
func SummariseLatency(h *hdrhistogram.Histogram, encode bool) (*Latency, error) {
	if h == nil || h.TotalCount() == 0 {
		return nil, nil
	}
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	l := &Latency{
		Count: h.TotalCount(),
		Min:   us(h.Min()), Mean: h.Mean() / 1e3, Stddev: h.StdDev() / 1e3,
		P50: us(h.ValueAtQuantile(50)), P90: us(h.ValueAtQuantile(90)),
		P99: us(h.ValueAtQuantile(99)), P999: us(h.ValueAtQuantile(99.9)),
		Max: us(h.Max()),
	}
	if encode {
		b, err := EncodeHistogram(h)
		if err != nil {
			return nil, err
		}
		l.Histogram = b
	}
	return l, nil
}

// EncodeHistogram returns h in HdrHistogram's compressed encoding (V2), base64
// as every HdrHistogram tool reads it.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.EncodeV2()
	if err != nil {
		return "", fmt.Errorf("encode histogram: %w", err)
	}
	return string(b), nil
}

// DecodeHistogram reads what EncodeHistogram wrote.
func DecodeHistogram(s string) (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return h, nil
}
