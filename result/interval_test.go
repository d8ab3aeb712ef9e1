package result

import (
	"slices"
	"testing"
)

func TestThin(t *testing.T) {
	t.Parallel()
	series := []Sample{{Tick: 0}, {Tick: 1}, {Tick: 2}, {Tick: 4}, {Tick: 5}, {Tick: LastTick}}
	var ticks []int
	for _, s := range Thin(series, 2) {
		ticks = append(ticks, s.Tick)
	}
	if want := []int{0, 2, 4, LastTick}; !slices.Equal(ticks, want) {
		t.Errorf("kept ticks %v, want %v", ticks, want)
	}
}
