package sample

import "testing"

func TestCorrections(t *testing.T) {
	t.Parallel()
	p := []float64{.0004, .03, .6, .0079, .012, .04, .9, .2}
	for _, tt := range []struct {
		name    string
		correct Correction
		want    []float64
	}{
		{"Benjamini-Hochberg", BenjaminiHochberg, []float64{.0032, .06, .685714, .0316, .032, .064, .9, .266667}},
		{"Holm", Holm, []float64{.0032, .15, 1, .0553, .072, .16, 1, .6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i, got := range tt.correct(p) {
				near(t, "p", &got, tt.want[i])
			}
			if got := tt.correct(nil); len(got) != 0 {
				t.Errorf("of none: %v", got)
			}
			if got := tt.correct([]float64{0.3}); got[0] != 0.3 {
				t.Errorf("of one: %v", got)
			}
		})
	}
}

func TestFewestPerSide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cells, want int }{
		{0, 4}, {1, 4}, {2, 5}, {6, 5}, {7, 6}, {23, 6}, {24, 7}, {85, 7}, {86, 8}, {321, 8}, {322, 9},
	} {
		if got := FewestPerSide(tt.cells, 0.05); got != tt.want {
			t.Errorf("%d cells: got %d, want %d", tt.cells, got, tt.want)
		}
	}
}
