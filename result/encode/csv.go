package encode

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"gperf/result"
)

// csvHeader names the columns, with the keys and units of the JSON document.
// Columns are only added, at the end.
var csvHeader = []string{
	"id", "started", "status", "test", "stream", "direction",
	"duration_seconds", "throughput_bits_per_second", "transactions", "transactions_per_second",
	"latency_mean_us", "latency_p50_us", "latency_p90_us", "latency_p99_us", "latency_p999_us", "latency_max_us",
	"sent_bytes", "acked_bytes", "received_bytes",
	"retransmitted_segments", "retransmitted_bytes", "segments_out", "rto_events",
	"rtt_us", "cwnd_segments", "client_cpu_seconds", "server_cpu_seconds", "error",
	"lost_datagrams", "jitter_us", "lost_transactions", "connect_errors",
}

// CSV prints a header line, one row for each stream and a row of totals, whose
// stream is "total". A figure that isn't known, or that has no total, is empty.
func CSV(w io.Writer, r *result.Run) error {
	c := csv.NewWriter(w)
	run := []string{r.ID, r.Started.Format(time.RFC3339Nano), string(r.Status), string(testType(r))}
	rows := [][]string{csvHeader}
	for i := range r.Streams {
		rows = append(rows, csvRow(run, streamRow(&r.Streams[i])))
	}
	rows = append(rows, csvRow(run, totalRow(r)))
	return c.WriteAll(rows)
}

func csvRow(run []string, f row) []string {
	row := append(run[:len(run):len(run)], f.stream, string(f.direction),
		csvCell(f.duration), csvCell(f.throughput), csvCell(f.transactions), csvCell(f.tps))
	if l := f.latency; l.Count > 0 {
		for _, us := range []float64{l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max} {
			row = append(row, csvCell(&us))
		}
	} else {
		row = append(row, make([]string, 6)...)
	}
	var lost *uint64
	var jitter *float64
	if d := f.datagrams; d != nil {
		lost, jitter = d.Lost, d.Jitter
	}
	return append(row,
		csvCell(f.sent), csvCell(f.acked), csvCell(f.received),
		csvCell(f.retransSegs), csvCell(f.retransBytes), csvCell(f.segmentsOut), csvCell(f.rtoEvents),
		csvCell(f.rtt), csvCell(f.cwnd), csvCell(f.clientCPU), csvCell(f.serverCPU), f.err,
		csvCell(lost), csvCell(jitter), csvCell(f.lostTransactions), csvCell(f.failed))
}

func csvCell[T uint64 | float64](p *T) string {
	if p == nil {
		return ""
	}
	if f, ok := any(*p).(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatUint(uint64(*p), 10)
}
