// Package encode prints a finished run, each form in a file of its own, and
// reads back the one that is meant for it (JSON).
//
// An encoder shows what the run holds and measures nothing: figures that
// aren't known stay unknown, as null, as an empty field or as "-". It writes to
// the writer it is given and to nothing else.
package encode

import (
	"fmt"
	"io"
	"strings"

	"gperf/result"
)

// An Encoder prints r to w. When it returns an error because of r, not of w,
// it has written nothing.
type Encoder func(w io.Writer, r *result.Run) error

// encoders is the table of formats, in the order in which help lists them. To
// add a format, write its file and add its row.
var encoders = []struct {
	name    string
	encode  Encoder
	latency bool // it prints nothing but latencies
}{
	{"text", Text, false},
	{"json", JSON, false},
	{"jsonl", JSONLines, false},
	{"csv", CSV, false},
	{"keyval", KeyVal, false},
	{"gobench", GoBench, false},
	{"hgrm", Percentiles, true},
	{"hdr", Histogram, true},
}

// Formats returns the names of the formats.
func Formats() []string {
	names := make([]string, len(encoders))
	for i, e := range encoders {
		names[i] = e.name
	}
	return names
}

// Lookup returns the encoder of a format. The error for an unknown one names
// those that exist.
func Lookup(format string) (Encoder, error) {
	for _, e := range encoders {
		if e.name == format {
			return e.encode, nil
		}
	}
	return nil, fmt.Errorf("unknown format %q (known: %s)", format, strings.Join(Formats(), ", "))
}

// NeedsLatency reports whether a format has nothing to say of a run without a
// latency histogram: its encoder then returns ErrNoHistogram.
func NeedsLatency(format string) bool {
	for _, e := range encoders {
		if e.name == format {
			return e.latency
		}
	}
	return false
}
