package encode

import (
	"bytes"
	"errors"
	"io"

	"gperf/result"
	"gperf/stats"
)

// ErrNoHistogram is why a run can't be printed in a format that NeedsLatency.
var ErrNoHistogram = errors.New("the run has no latency histogram: only request/response tests have one")

// Histogram prints the merged latency histogram in HdrHistogram's compressed
// encoding (V2, base64), nanoseconds, on one line.
func Histogram(w io.Writer, r *result.Run) error {
	encoded, err := histogram(r)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, encoded+"\n")
	return err
}

// percentileTicks is how many lines there are for each halving of the distance
// to 100 %, as HdrHistogram's own tools default to.
const percentileTicks = 5

// Percentiles prints the merged latency histogram as HdrHistogram's percentile
// text (.hgrm), in microseconds, as its plotters read it.
func Percentiles(w io.Writer, r *result.Run) error {
	encoded, err := histogram(r)
	if err != nil {
		return err
	}
	h, err := stats.DecodeHistogram(encoded)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := h.PercentilesPrint(&b, percentileTicks, 1e3); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func histogram(r *result.Run) (string, error) {
	if r.Summary == nil || r.Summary.Latency == nil || r.Summary.Latency.Histogram == "" {
		return "", ErrNoHistogram
	}
	return r.Summary.Latency.Histogram, nil
}
