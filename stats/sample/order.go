package sample

import "math/rand/v2"

// Sides of a comparison, as ABBA orders them.
const (
	A = 0
	B = 1
)

// ABBA returns for each round which side runs first and which second. Rounds
// come in blocks of two, A B B A or B A A B by a coin, so that a machine that
// changes steadily treats both sides alike, and so does whatever makes the first
// of two trials slower; an odd round at the end is A B or B A by a coin. The
// same seed gives the same order.
func ABBA(rounds int, seed uint64) [][2]int {
	coins := rand.New(rand.NewPCG(seed, 0))
	order := make([][2]int, rounds)
	for i := range order {
		switch {
		case i%2 == 1:
			order[i] = [2]int{order[i-1][1], order[i-1][0]}
		case coins.IntN(2) == 0:
			order[i] = [2]int{A, B}
		default:
			order[i] = [2]int{B, A}
		}
	}
	return order
}

// Rounds returns the order in which the cells of a sweep, counted from 0, are
// visited: each once per round, in a random order of its own, for as many rounds
// as each cell is to have trials. The same seed gives the same order.
func Rounds(cells, trials int, seed uint64) [][]int {
	shuffle := rand.New(rand.NewPCG(seed, 0))
	order := make([][]int, trials)
	for i := range order {
		order[i] = shuffle.Perm(cells)
	}
	return order
}
