//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"gperf/internal/units"
	"gperf/result"
	"gperf/result/encode"
)

// A watcher shows a test while it runs: interval lines where the result goes,
// if the format has them, and progress on stderr, if that's a terminal.
type watcher struct {
	format    string
	intervals bool
	out       io.Writer
	progress  io.Writer // nil: none
	total     time.Duration
	fail      func(error) // told of the first write that failed

	mu      sync.Mutex
	shown   bool  // a progress line stands
	lines   bool  // interval lines have been printed
	started bool  // the header has been printed
	ended   bool  // nothing more is to be shown
	err     error // of the first write that failed
}

func newWatcher(o *clientOptions, out, stderr io.Writer, fail func(error)) *watcher {
	w := &watcher{format: o.format, out: out, intervals: o.Plan.Interval > 0 && o.repeat == 1, total: time.Duration(o.Plan.Duration), fail: fail}
	if f, ok := stderr.(*os.File); ok && !o.quiet && term.IsTerminal(int(f.Fd())) {
		w.progress = stderr
	}
	return w
}

// start prints the header of text.
func (w *watcher) start(r *result.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = true
	if w.format == "text" {
		w.note(encode.Header(w.out, r))
	}
}

// interval shows one interval, or the progress of one second.
func (w *watcher) interval(iv *result.Interval) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if w.intervals {
		w.clear()
		switch w.format {
		case "text":
			if !w.lines {
				w.note(encode.IntervalHeader(w.out, iv))
			}
			w.note(encode.IntervalLine(w.out, iv))
		case "jsonl":
			w.note(encode.IntervalJSON(w.out, iv))
		}
		w.lines = true
	}
	if w.progress == nil {
		return
	}
	rate := ""
	switch {
	case iv.Throughput != nil:
		rate = units.BitRate(*iv.Throughput)
	case iv.TPS != nil:
		rate = fmt.Sprintf("%.0f transactions/s", *iv.TPS)
	}
	of := ""
	if w.total > 0 {
		of = fmt.Sprintf(" of %.3g", w.total.Seconds())
	}
	fmt.Fprintf(w.progress, "\r\033[K%.1f%s s, %s", iv.End, of, rate)
	w.shown = true
}

// clear takes the progress line away.
func (w *watcher) clear() {
	if w.shown {
		fmt.Fprint(w.progress, "\r\033[K")
		w.shown = false
	}
}

// end makes room for what follows the intervals, and returns the error of the
// first write that failed.
func (w *watcher) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.clear()
	if w.format == "text" && w.lines {
		_, err := fmt.Fprintln(w.out)
		w.note(err)
	}
	return w.err
}

func (w *watcher) note(err error) {
	if err != nil && w.err == nil {
		w.err = err
		w.fail(err)
	}
}
