// Package trials reads and writes finished runs as sweeps, tables and comparisons
// see them: many to a file, one line each. It also reads what other programs have
// written. It runs nothing and prints nothing.
package trials

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"gperf/result"
)

// A Header is the first line of a sweep's file: what the sweep is.
type Header struct {
	Schema string            `json:"schema"` // result.Schema
	Line   string            `json:"line"`   // LineSweep
	ID     string            `json:"id"`     // of the sweep, 32 hex digits
	Spec   json.RawMessage   `json:"spec"`   // as the sweep writes it: enough to resume it
	Labels map[string]string `json:"labels,omitempty"`
}

// Hosts is the line that describes the machines of the trials that refer to it.
type Hosts struct {
	Schema string                    `json:"schema"`
	Line   string                    `json:"line"` // LineHosts
	Hosts  result.Ends[*result.Host] `json:"hosts"`
}

// The kinds of lines beside trials, which are documents of result.Run and have no
// kind.
const (
	LineSweep = "sweep"
	LineHosts = "hosts"
)

// A Writer appends lines to a sweep's file. Each is on the disk when its call
// returns.
type Writer struct {
	f     *os.File
	lines int // in the file
	// hosts has the line of each description of hosts, by its digest: a sweep over a
	// sysctl comes back to the same few with every round.
	hosts map[[sha256.Size]byte]int
}

// Create makes a file that doesn't exist yet, or is empty, and writes the header.
func Create(path string, h Header) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		_ = f.Close()
		if err == nil {
			err = fmt.Errorf("%s: is not empty: --resume continues it", path)
		}
		return nil, err
	}
	w := &Writer{f: f, hosts: map[[sha256.Size]byte]int{}}
	h.Schema, h.Line = result.Schema, LineSweep
	if err := w.write(h); err != nil {
		_ = f.Close()
		return nil, err
	}
	return w, nil
}

// Past is a trial that is in the file already.
type Past struct {
	result.Place
	// Value is the figure that the run is known by, transactions or bits per second;
	// nil when it failed.
	Value *float64
}

// Resume opens a file to go on with, and returns its header and its trials. What a
// crash left of a last line is cut off.
func Resume(path string) (*Writer, Header, []Past, error) {
	var h Header
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, h, nil, err
	}
	w := &Writer{f: f, hosts: map[[sha256.Size]byte]int{}}
	past, whole, err := w.scan(&h)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err != nil {
		_ = f.Close()
		return nil, h, nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, h, past, nil
}

// scan reads the whole lines of the file, and returns how many bytes they have.
func (w *Writer) scan(h *Header) (past []Past, whole int64, err error) {
	b, err := io.ReadAll(w.f)
	if err != nil {
		return nil, 0, err
	}
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if !ended {
			break // torn
		}
		var l struct {
			Line    string        `json:"line"`
			Sweep   *result.Place `json:"sweep"`
			Status  result.Status `json:"status"`
			Summary *struct {
				Throughput *float64 `json:"throughput_bits_per_second"`
				TPS        *float64 `json:"transactions_per_second"`
			} `json:"summary"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			if len(bytes.TrimSpace(rest)) == 0 {
				break // torn, by a file system that had room for its end only
			}
			return nil, 0, fmt.Errorf("line %d: %w", w.lines+1, err)
		}
		w.lines++
		whole += int64(len(line) + 1)
		b = rest
		switch {
		case w.lines == 1:
			if err := json.Unmarshal(line, h); err != nil || h.Line != LineSweep || h.Schema != result.Schema {
				return nil, 0, errors.New("it doesn't begin like the file of a sweep")
			}
		case l.Line == LineHosts:
			var hosts Hosts
			if err := json.Unmarshal(line, &hosts); err != nil {
				return nil, 0, fmt.Errorf("line %d: %w", w.lines, err)
			}
			key, err := digest(hosts.Hosts)
			if err != nil {
				return nil, 0, fmt.Errorf("line %d: %w", w.lines, err)
			}
			w.hosts[key] = w.lines
		case l.Sweep != nil:
			p := Past{Place: *l.Sweep}
			if l.Status == result.Complete && l.Summary != nil {
				p.Value = cmp.Or(l.Summary.TPS, l.Summary.Throughput)
			}
			past = append(past, p)
		}
	}
	if w.lines == 0 {
		return nil, 0, errors.New("it's empty: there is nothing to resume")
	}
	return past, whole, nil
}

// write appends one line and waits until it's on the disk.
func (w *Writer) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := w.f.Write(append(b, '\n')); err != nil {
		return err
	}
	w.lines++
	return w.f.Sync()
}

// digest is what two equal descriptions have in common.
func digest(hosts result.Ends[*result.Host]) ([sha256.Size]byte, error) {
	b, err := json.Marshal(hosts)
	return sha256.Sum256(b), err
}

// Add appends a trial. Its hosts stand in a line of their own, once in the file
// however many trials they have. Without keep it has neither streams nor intervals
// nor histograms.
func (w *Writer) Add(r *result.Run, keep bool) error {
	line := *r
	if r.Hosts.Client != nil && r.Hosts.Server != nil {
		key, err := digest(r.Hosts)
		if err != nil {
			return err
		}
		at, known := w.hosts[key]
		if !known {
			if err := w.write(Hosts{Schema: result.Schema, Line: LineHosts, Hosts: r.Hosts}); err != nil {
				return err
			}
			at = w.lines
			w.hosts[key] = at
		}
		place := *r.Sweep
		place.Hosts = at
		line.Sweep, line.Hosts = &place, result.Ends[*result.Host]{}
	}
	if !keep {
		line.Streams, line.Intervals = nil, nil
		if r.Summary != nil {
			summary := *r.Summary
			if summary.Latency != nil {
				latency := *summary.Latency
				latency.Histogram = ""
				summary.Latency = &latency
			}
			if summary.Connect != nil {
				connect := *summary.Connect
				connect.Histogram = ""
				summary.Connect = &connect
			}
			line.Summary = &summary
		}
	}
	return w.write(&line)
}

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }
