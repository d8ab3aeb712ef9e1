package endpoint

import (
	"testing"

	"gperf/plan"
	"gperf/sockopt"
)

// The pipes of all streams make one row if they are alike, and none if there are
// none; what differs, or changes, is told stream by stream.
func TestPipeRows(t *testing.T) {
	t.Parallel()
	const got = 131072
	alike := [3][]int{{got, got}, {got, got}, {got, got}}
	for _, tt := range []struct {
		name    string
		asked   int
		pipes   [3][]int
		rows    int
		verdict sockopt.Verdict // of the last row
	}{
		{"alike", 100_000, alike, 1, sockopt.Adjusted},
		{"exact", got, alike, 1, sockopt.Exact},
		{"the default", 0, alike, 1, sockopt.Auto},
		{"no window yet", got, [3][]int{{got, got}}, 1, sockopt.Exact},
		{"no pipes", 0, [3][]int{{-1, -1}, {-1, -1}, {-1, -1}}, 0, ""},
		{"in one direction", got, [3][]int{{-1, got}, {-1, got}, {-1, got}}, 1, sockopt.Exact},
		{"a mix", got, [3][]int{{got, 4096}, {got, 4096}, {got, 4096}}, 2, sockopt.Clamped},
		{"changed", got, [3][]int{{got, got}, {got, got}, {got, 4096}}, 2, sockopt.NotHeld},
	} {
		e := &Endpoint{
			Plan: &plan.Test{Client: plan.End{PipeSize: tt.asked}}, End: sockopt.Client,
			Streams: []sockopt.StreamReadings{{Stream: 1}, {Stream: 2}}, pipes: tt.pipes,
		}
		rows := e.pipeRows()
		if len(rows) != tt.rows {
			t.Errorf("%s: %+v", tt.name, rows)
			continue
		}
		if tt.rows == 0 {
			continue
		}
		last := rows[len(rows)-1]
		if last.Verdict != tt.verdict || last.Knob != "pipe_size" || last.End != "client" {
			t.Errorf("%s: %+v", tt.name, last)
		}
		if alone := tt.pipes[0][0] < 0 || tt.rows > 1; alone != (last.Stream != nil && *last.Stream == 2) {
			t.Errorf("%s: the row is of stream %v", tt.name, last.Stream)
		}
	}
}
