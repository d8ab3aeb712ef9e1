package sweep

import (
	"math/rand/v2"

	"gperf/stats/sample"
)

// A Slot is one trial that is to be run.
type Slot struct {
	Cell, Round int // round from 1, which is also the number of the cell's trial
}

// Schedule is the order of all trials, the same for the same seed.
func (s *Spec) Schedule(cells int) []Slot {
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
		random := rand.New(rand.NewPCG(s.Seed, uint64(cells)))
		random.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		// A cell's trials are numbered in the order in which they run.
		next := make([]int, cells)
		for i := range slots {
			next[slots[i].Cell]++
			slots[i].Round = next[slots[i].Cell]
		}
	default:
		for i, order := range s.rounds(cells) {
			for _, c := range order {
				slots = append(slots, Slot{c, i + 1})
			}
		}
	}
	return slots
}

// rounds are the cells in the order of each round: two of them in blocks that mirror
// themselves, so that a drift hits both alike.
func (s *Spec) rounds(cells int) [][]int {
	if cells != 2 {
		return sample.Rounds(cells, s.Trials, s.Seed)
	}
	var rounds [][]int
	for _, order := range sample.ABBA(s.Trials, s.Seed) {
		rounds = append(rounds, order[:])
	}
	return rounds
}
