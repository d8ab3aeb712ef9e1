package sweep

import (
	"context"
	"fmt"
	"time"

	"gperf/result"
	"gperf/stats/sample"
	"gperf/trials"
)

// A Sweep is one that runs.
type Sweep struct {
	ID    string
	Spec  *Spec
	Cells []Cell
	// Trial makes one run of a cell. A run that fails is a result, too.
	Trial func(ctx context.Context, c *Cell) *result.Run
	// Window is how long a cell's trial measures, warm-up included; 0: not known.
	Window func(c *Cell) time.Duration
	Writer *trials.Writer
	// Done are the trials that an earlier process has run.
	Done []trials.Past
	// Step is called before each trial and, with a nil cell, at the end.
	Step func(p Progress)
}

// Progress is how far a sweep has come.
type Progress struct {
	Cell   *Cell // the next one's
	Trial  int   // of the cell
	Done   int   // trials that have ended
	Total  int   // that there are to be, as far as it's known
	Failed int
	Left   time.Duration // 0: not known yet
}

// An Outcome is what a sweep came to.
type Outcome struct {
	Trials, Failed int // of this process
	// Overhead is the mean time of a trial beyond its window.
	Overhead time.Duration
	// FirstFailure is the error of the first failed trial.
	FirstFailure string
	// Spared are the trials that precision made needless.
	Spared int
}

// Run runs the trials that are still to be run. It returns early, with the context's
// cause, when the context ends; the trial that was running then isn't kept.
func (s *Sweep) Run(ctx context.Context) (Outcome, error) {
	var (
		o       Outcome
		slots   = s.Spec.Schedule(len(s.Cells))
		done    = map[Slot]bool{}
		values  = make([][]float64, len(s.Cells))
		precise = make([]bool, len(s.Cells))
		beyond  time.Duration
		began   = time.Now()
		known   int
	)
	for _, p := range s.Done {
		if p.Index < 0 || p.Index >= len(s.Cells) {
			return o, fmt.Errorf("the file has a trial of cell %d, of which there are %d", p.Index, len(s.Cells))
		}
		done[Slot{p.Index, p.Trial}] = true
		if p.Value != nil {
			values[p.Index] = append(values[p.Index], *p.Value)
			precise[p.Index] = precise[p.Index] || s.Spec.isPrecise(values[p.Index])
		}
	}
	for i, slot := range slots {
		c := &s.Cells[slot.Cell]
		if done[slot] {
			continue
		}
		if precise[slot.Cell] {
			o.Spared++
			continue
		}
		p := Progress{Cell: c, Trial: slot.Round, Done: len(s.Done) + o.Trials, Total: len(slots) - o.Spared, Failed: o.Failed}
		if o.Trials > 0 {
			p.Left = time.Since(began) / time.Duration(o.Trials) * time.Duration(p.Total-p.Done)
		} else if s.Window != nil {
			p.Left = (s.Window(c) + s.Spec.Cooldown) * time.Duration(p.Total-p.Done)
		}
		s.step(p)
		if o.Trials > 0 && s.Spec.Cooldown > 0 {
			select {
			case <-time.After(s.Spec.Cooldown):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return o, context.Cause(ctx)
		}
		start := time.Now()
		r := s.Trial(ctx, c)
		if ctx.Err() != nil {
			return o, context.Cause(ctx)
		}
		if window := s.window(c); window > 0 && r.Status == result.Complete {
			beyond += time.Since(start) - window
			known++
		}
		r.Sweep = &result.Place{ID: s.ID, Cell: c.Coordinates(), Index: c.Index, Trial: slot.Round, Round: slot.Round, Slot: i + 1, Seed: s.Spec.Seed}
		if err := s.Writer.Add(r, s.Spec.Keep); err != nil {
			return o, fmt.Errorf("write the trial: %w", err)
		}
		o.Trials++
		if r.Status != result.Complete {
			o.Failed++
			if o.FirstFailure == "" && r.Error != nil {
				o.FirstFailure = r.Error.Message
			}
			continue
		}
		values[slot.Cell] = append(values[slot.Cell], headline(r))
		precise[slot.Cell] = s.Spec.isPrecise(values[slot.Cell])
	}
	if known > 0 {
		o.Overhead = beyond / time.Duration(known)
	}
	s.step(Progress{Done: len(s.Done) + o.Trials, Total: len(slots) - o.Spared, Failed: o.Failed})
	return o, nil
}

func (s *Sweep) step(p Progress) {
	if s.Step != nil {
		s.Step(p)
	}
}

func (s *Sweep) window(c *Cell) time.Duration {
	if s.Window == nil {
		return 0
	}
	return s.Window(c)
}

// headline is the figure that a run is known by.
func headline(r *result.Run) float64 {
	switch sum := r.Summary; {
	case sum == nil:
	case sum.TPS != nil:
		return *sum.TPS
	case sum.Throughput != nil:
		return *sum.Throughput
	}
	return 0
}

// isPrecise reports whether this is a look at which the mean is known well enough.
func (s *Spec) isPrecise(values []float64) bool {
	if s.UntilPrecise == 0 {
		return false
	}
	stop := sample.Stopper{First: FewestPrecise, Every: PreciseStep, Most: s.MaxTrials, Width: s.UntilPrecise}
	return stop.Due(len(values)) && stop.One(values, 0).Stop
}
