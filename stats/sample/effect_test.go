package sample

import (
	"math"
	"math/bits"
	"testing"
)

// The orders are those of printed tables.
func TestOrders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n, k95, k90 int // -1 isn't checked
	}{
		{1, 0, 0}, {2, 0, 0},
		{3, 0, 1}, {4, 1, 2}, {5, 3, 5}, {6, 6, 8}, {7, 9, 12}, {8, 14, 16}, {9, 18, 22}, {10, 24, 28},
		{15, 65, -1}, {20, 128, -1}, {50, 966, -1},
	} {
		k := uOrders(tt.n, tt.n, 0.025, 0.05)
		if k[0] != tt.k95 || tt.k90 >= 0 && k[1] != tt.k90 {
			t.Errorf("n %d: got %v, want %d and %d", tt.n, k, tt.k95, tt.k90)
		}
	}
	// Where the exact distribution ends, the normal one is close to it.
	exact := uOrders(50, 50, 0.025)[0]
	normal := normalOrders(1250, math.Sqrt(2500*101.0/12), []float64{0.025})[0]
	if abs(exact-normal) > 3 {
		t.Errorf("50 per side: exact %d, normal %d", exact, normal)
	}
	if k := uOrders(60, 40, 0.025)[0]; abs(k-(1200-int(1.96*math.Sqrt(2400*101.0/12)))) > 2 {
		t.Errorf("60 and 40: %d", k)
	}
}

// The distributions of the rank statistics, against counting every case.
func TestRankDistributions(t *testing.T) {
	t.Parallel()
	for m := 1; m <= 6; m++ {
		for n := 1; n <= 6; n++ {
			count, total := map[int]float64{}, 0.0
			for set := range 1 << (m + n) {
				if bits.OnesCount(uint(set)) != m {
					continue
				}
				u := 0
				for i := range m + n {
					for j := range i {
						if set>>i&1 == 1 && set>>j&1 == 0 {
							u++
						}
					}
				}
				count[u]++
				total++
			}
			for u, p := range uDistribution(m, n) {
				if math.Abs(p-count[u]/total) > 1e-12 {
					t.Errorf("%d and %d: P(U=%d) %v, want %v", m, n, u, p, count[u]/total)
				}
			}
		}
	}
	for n := 1; n <= 10; n++ {
		count := map[int]float64{}
		for set := range 1 << n {
			w := 0
			for i := range n {
				w += set >> i & 1 * (i + 1)
			}
			count[w]++
		}
		for _, tail := range []float64{0.025, 0.05, 0.2} {
			want, below := 0, 0.0
			for w := 0; ; w++ {
				if below += count[w] / math.Pow(2, float64(n)); below > tail {
					break
				}
				want++
			}
			if got := signedRankOrders(n, tail)[0]; got != want {
				t.Errorf("signed rank, n %d, tail %v: got %d, want %d", n, tail, got, want)
			}
		}
	}
}
