package result

import (
	"fmt"

	"gperf/plan"
	"gperf/sockopt"
)

// Check reports why a half that a peer sent can't be used: its columns must be
// as wide as its list of streams, or reading them would be reading out of
// bounds, and its samples in order, or their differences would be nonsense.
func (h *Half) Check(streams int) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("half %s: %w", h.Direction, fmt.Errorf(format, args...))
	}
	switch h.Direction {
	case plan.ClientToServer, plan.ServerToClient, plan.Both:
	default:
		return fmt.Errorf("half of an unknown direction %q", h.Direction)
	}
	if h.Role != h.Direction.Role(sockopt.Client) && h.Role != h.Direction.Role(sockopt.Server) {
		return fail("no end of it is a %q", h.Role)
	}
	if len(h.Streams) != streams {
		return fail("%d streams, not %d", len(h.Streams), streams)
	}
	if len(h.Series) < 2 {
		return fail("%d samples: the edges of the window are missing", len(h.Series))
	}
	last := len(h.Series) - 1
	if h.Series[0].Tick != 0 || h.Series[last].Tick != LastTick {
		return fail("it begins with tick %d and ends with %d", h.Series[0].Tick, h.Series[last].Tick)
	}
	if h.OpenedNs != h.Series[0].AtNs || h.ClosedNs != h.Series[last].AtNs {
		return fail("the edges of the window are not those of its samples")
	}
	for i := range h.Series {
		s := &h.Series[i]
		if err := s.Check(streams); err != nil {
			return fail("sample %d: %w", i, err)
		}
		if i == 0 {
			continue
		}
		if err := s.follows(&h.Series[i-1]); err != nil {
			return fail("sample %d: %w", i, err)
		}
	}
	return nil
}

// Check reports a sample whose columns aren't all width entries long.
func (s *Sample) Check(width int) error {
	for _, column := range s.columns() {
		if len(*column) != width {
			return fmt.Errorf("a column of %d entries, not %d", len(*column), width)
		}
	}
	for name, column := range s.TCP {
		if len(column) != width {
			return fmt.Errorf("column %s of %d entries, not %d", name, len(column), width)
		}
	}
	return nil
}

// follows reports why the sample can't be the next after before, which has
// columns of the same width. (Counters of TCP_INFO may wrap.)
func (s *Sample) follows(before *Sample) error {
	if before.Tick == LastTick || s.Tick != LastTick && s.Tick <= before.Tick {
		return fmt.Errorf("tick %d after %d", s.Tick, before.Tick)
	}
	if s.AtNs < before.AtNs {
		return fmt.Errorf("it was taken before the one before it")
	}
	was := before.columns()
	for c, column := range s.columns() {
		for i, now := range *column {
			if then := (*was[c])[i]; now < then {
				return fmt.Errorf("a counter went back from %d to %d", then, now)
			}
		}
	}
	return nil
}
