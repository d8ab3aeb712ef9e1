package result

import "fmt"

// Check reports why a half that a peer sent can't be used: its columns must be
// as wide as its list of streams and its samples in order, or reading them
// would be reading out of bounds.
func (h *Half) Check(streams int) error {
	if len(h.Streams) != streams {
		return fmt.Errorf("half %s: %d streams, not %d", h.Direction, len(h.Streams), streams)
	}
	if len(h.Series) < 2 {
		return fmt.Errorf("half %s: %d samples: the edges of the window are missing", h.Direction, len(h.Series))
	}
	for i := range h.Series {
		if err := h.Series[i].Check(streams); err != nil {
			return fmt.Errorf("half %s: sample %d: %w", h.Direction, i, err)
		}
	}
	return nil
}

// Check reports a sample whose columns aren't all width entries long.
func (s *Sample) Check(width int) error {
	for _, column := range [][]uint64{s.Sent, s.Received, s.SendCalls, s.ReceiveCalls, s.ShortSends, s.Interruptions, s.Transactions} {
		if len(column) != width {
			return fmt.Errorf("a column of %d entries, not %d", len(column), width)
		}
	}
	for name, column := range s.TCP {
		if len(column) != width {
			return fmt.Errorf("column %s of %d entries, not %d", name, len(column), width)
		}
	}
	return nil
}
