package sample

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestABBA(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rounds, seed := rapid.IntRange(0, 40).Draw(t, "rounds"), rapid.Uint64().Draw(t, "seed")
		order := ABBA(rounds, seed)
		if len(order) != rounds || !slices.Equal(order, ABBA(rounds, seed)) {
			t.Fatalf("%d rounds: %v", rounds, order)
		}
		for i, r := range order {
			if r[0]+r[1] != A+B || r[0] == r[1] {
				t.Errorf("round %d: %v", i, r)
			}
			if i%2 == 1 && r == order[i-1] {
				t.Errorf("block from round %d isn't ABBA or BAAB: %v", i-1, order)
			}
		}
	})
	seen := map[[2]int]bool{}
	for seed := range uint64(20) {
		seen[ABBA(1, seed)[0]] = true
	}
	if len(seen) != 2 {
		t.Errorf("all of 20 coins fell alike")
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	order := Rounds(24, 7, 1)
	if len(order) != 7 {
		t.Fatalf("%d rounds", len(order))
	}
	for i, r := range order {
		if sorted := slices.Sorted(slices.Values(r)); !slices.Equal(sorted, seq(24)) {
			t.Errorf("round %d: %v", i, r)
		}
		if i > 0 && slices.Equal(r, order[i-1]) {
			t.Errorf("rounds %d and %d are alike", i-1, i)
		}
	}
	if again := Rounds(24, 7, 1); !slices.EqualFunc(order, again, slices.Equal[[]int]) {
		t.Error("the same seed gave another order")
	}
}
