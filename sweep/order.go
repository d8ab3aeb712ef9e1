package sweep

import (
	"math/rand/v2"
	"slices"
)

// A Slot is one trial that is to be run.
type Slot struct {
	Cell, Round int // round from 1, which is also the number of the cell's trial
}

// Schedule is the order of all trials, the same for the same seed.
func (s *Spec) Schedule(cells int) []Slot {
	random := rand.New(rand.NewPCG(s.Seed, uint64(cells)))
	var slots []Slot
	switch s.Order {
	case Sequential:
		for c := range cells {
			for round := 1; round <= s.Trials; round++ {
				slots = append(slots, Slot{c, round})
			}
		}
	case Random:
		for round := 1; round <= s.Trials; round++ {
			for c := range cells {
				slots = append(slots, Slot{c, round})
			}
		}
		random.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		// A cell's trials are numbered in the order in which they run.
		next := make([]int, cells)
		for i := range slots {
			next[slots[i].Cell]++
			slots[i].Round = next[slots[i].Cell]
		}
	default:
		order := make([]int, cells)
		for c := range order {
			order[c] = c
		}
		for round := 1; round <= s.Trials; round++ {
			switch {
			case cells != 2:
				random.Shuffle(cells, func(i, j int) { order[i], order[j] = order[j], order[i] })
			case round%2 == 1:
				if random.IntN(2) == 1 {
					slices.Reverse(order)
				}
			default: // the second half of a block mirrors the first: ABBA or BAAB
				slices.Reverse(order)
			}
			for _, c := range order {
				slots = append(slots, Slot{c, round})
			}
		}
	}
	return slots
}
