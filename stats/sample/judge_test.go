package sample

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// ramp is n values from first on, each a thousandth of it larger than the last.
func ramp(first float64, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = first * (1 + float64(i)/1000)
	}
	return s
}

func TestReasons(t *testing.T) {
	t.Parallel()
	flat := []float64{100, 100.2, 99.8, 100.1, 99.9, 100.3, 99.7, 100, 100.1, 99.9}
	scaled := func(by float64) []float64 {
		s := slices.Clone(flat)
		for i := range s {
			s[i] *= by
		}
		return s
	}
	rng := rand.New(rand.NewPCG(5, 0))
	for _, tt := range []struct {
		name   string
		a, b   Side
		want   Reason
		needed bool
		line   string
	}{
		{"failed", Side{Values: flat, Failed: 2}, Side{Values: scaled(0.5)}, FailedTrials, false, "A 10 ok, 2 failed; B 10 ok, 0 failed"},
		{"just few enough failed", Side{Values: flat[:9], Failed: 1}, Side{Values: scaled(0.5)}, "", false, "regression"},
		{"zeros", Side{Values: make([]float64, 5)}, Side{Values: make([]float64, 5)}, NoTraffic, false, "all trials zero"},
		{"no trials", Side{}, Side{}, FewTrials, true, "need about 4 trials per side"},
		{"one side", Side{Values: flat}, Side{}, FewTrials, true, "too few"},
		{"a change as large as the threshold, and its place unknown",
			Side{Values: normals(rng, 20, 100, 1)}, Side{Values: normals(rng, 20, 98.6, 1)}, SizeOpen, true, "whether it reaches 2 % is open"},
		{"opposite", // most lose 5 %, but a third of A's were stalled
			Side{Values: slices.Concat(ramp(100, 14), ramp(10, 6))}, Side{Values: ramp(95, 20)}, Disagreement, true, "opposite"},
		{"shifted, but not on average",
			Side{Values: ramp(100, 12)}, Side{Values: []float64{93, 93.5, 94, 94.5, 95, 95.5, 96, 96.5, 97, 97.5, 130, 135}}, ShapeChange, true, "spread or the modes"},
		{"noise", Side{Values: vectors[8].a}, Side{Values: vectors[8].b}, NotShown, true, "need about 68 trials per side to confirm a 3.0 % change; 12+12 trials can show changes of 6.8 % or more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := judged(tt.a, tt.b, Options{})
			if c.Reason != tt.want || (c.TrialsNeeded != nil) != tt.needed {
				t.Errorf("got %s, %q, needed %v, want %q\nranks %v means %v", c.Verdict, c.Reason, c.TrialsNeeded, tt.want, c.RankP, c.MeanP)
			}
			if line := c.Line(); !strings.Contains(line, tt.line) {
				t.Errorf("line %q, want %q in it", line, tt.line)
			}
		})
	}
}

func TestLineNoDifference(t *testing.T) {
	t.Parallel()
	c := judged(Side{Values: vectors[2].a}, Side{Values: vectors[2].b}, Options{Threshold: 0.03})
	if got, want := c.Line(), "no difference beyond ±3 % shown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A verdict in a sweep: p is corrected, plans are for a lone changed cell.
func TestJudgeInSweep(t *testing.T) {
	t.Parallel()
	v := vectors[0]
	c := Measure(Side{Values: v.a}, Side{Values: v.b}, Options{})
	c.Judge(24*c.P, 24)
	if c.Verdict != Inconclusive || c.Reason != NotShown || *c.TrialsNeeded != 7 {
		t.Errorf("got %s, %q, needed %d, want 7", c.Verdict, c.Reason, *c.TrialsNeeded)
	}
	if c.MDEPercent != nil {
		t.Errorf("5 trials show nothing among 24 cells, got %v", *c.MDEPercent)
	}
	c.Judge(c.P, 1)
	if c.Verdict != Regression || c.MDEPercent == nil || c.TrialsNeeded != nil {
		t.Errorf("judged again: got %s", c.Verdict)
	}
}

func TestNeededIsBounded(t *testing.T) {
	t.Parallel()
	wide := normals(rand.New(rand.NewPCG(1, 0)), 10, 100, 30)
	c := judged(Side{Values: wide}, Side{Values: wide}, Options{})
	if *c.TrialsNeeded != MostNeeded+1 || !strings.Contains(c.Line(), "need more than 1000 trials per side") {
		t.Errorf("needed %d: %s", *c.TrialsNeeded, c.Line())
	}
}

func TestBoots(t *testing.T) {
	t.Parallel()
	boots := func(name string, boots, each int) []string {
		var s []string
		for i := range boots {
			for range each {
				s = append(s, fmt.Sprint(name, i))
			}
		}
		return s
	}
	rng := rand.New(rand.NewPCG(3, 0))
	values := func() []float64 { return normals(rng, 20, 100, 1) }
	for _, tt := range []struct {
		name         string
		a, b         []string
		unit         string
		samples      int
		note         string
		endsTheLine  string
		withoutNotes bool
	}{
		{"unknown", nil, boots("b", 1, 20), UnitTrial, 20, "", "", true},
		{"partly unknown", append(boots("a", 19, 1), ""), boots("b", 1, 20), UnitTrial, 20, "", "", true},
		{"one boot", boots("a", 1, 20), boots("a", 1, 20), UnitTrial, 20, "", "", true},
		{"a boot each", boots("a", 1, 20), boots("b", 1, 20), UnitTrial, 20, "", "(1 boot per side: boot-to-boot difference not separated)", false},
		{"two each", boots("a", 2, 10), boots("b", 2, 10), UnitTrial, 20, "", "(2 boots per side: boot-to-boot difference not separated)", false},
		{"two and five", boots("a", 2, 10), boots("b", 5, 4), UnitTrial, 20, "", "(2 and 5 boots: boot-to-boot difference not separated)", false},
		{"five each", boots("a", 5, 4), boots("b", 5, 4), UnitBoot, 5, "the samples are the means of 5 and 5 boots", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := judged(Side{Values: values(), Boots: tt.a}, Side{Values: values(), Boots: tt.b}, Options{})
			if c.Unit != tt.unit || c.SamplesA != tt.samples || c.A.N != 20 {
				t.Errorf("unit %s, %d samples of %d trials, want %s, %d of 20", c.Unit, c.SamplesA, c.A.N, tt.unit, tt.samples)
			}
			if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, tt.note) || tt.withoutNotes && notes != "" {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
			if !strings.HasSuffix(c.Line(), tt.endsTheLine) {
				t.Errorf("line %q, want %q at its end", c.Line(), tt.endsTheLine)
			}
		})
	}
}

func TestInterleaved(t *testing.T) {
	t.Parallel()
	starts := func(from, step float64) []float64 {
		s := make([]float64, 10)
		for i := range s {
			s[i] = from + step*float64(i)
		}
		return s
	}
	rng := rand.New(rand.NewPCG(4, 0))
	a, b := normals(rng, 10, 100, 1), normals(rng, 10, 100, 1)
	for _, tt := range []struct {
		name           string
		startsA, starB []float64
		want           bool
	}{
		{"unknown", starts(0, 1), nil, false},
		{"in turn", starts(0, 2), starts(1, 2), false},
		{"one after the other", starts(0, 1), starts(10, 1), true},
		{"the other first", starts(20, 1), starts(10, 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Measure(Side{Values: a, Starts: tt.startsA}, Side{Values: b, Starts: tt.starB}, Options{})
			if got := strings.Contains(strings.Join(c.Notes, "\n"), "not interleaved"); got != tt.want {
				t.Errorf("notes %q, want one: %v", c.Notes, tt.want)
			}
		})
	}
}

// Rounds are compared only if they mean something, and all have values.
func TestUseOfRounds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 0))
	pairs := func(n int, common float64) (a, b []float64) {
		for range n {
			m := 100 + common*rng.NormFloat64()
			a, b = append(a, m+rng.NormFloat64()), append(b, m+rng.NormFloat64())
		}
		return a, b
	}
	for _, tt := range []struct {
		name   string
		n      int
		common float64
		zero   bool
		unit   string
		icc    bool
	}{
		{"few", 5, 10, false, UnitTrial, false},
		{"together", 12, 10, false, UnitRound, true},
		{"many", 30, 10, false, UnitRound, true},
		{"unrelated", 12, 0, false, UnitTrial, true},
		{"a zero", 12, 10, true, UnitTrial, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := pairs(tt.n, tt.common)
			if tt.zero {
				a[0], b[0] = 0, 0
			}
			c := judged(Side{Values: a, Rounds: seq(tt.n)}, Side{Values: b, Rounds: seq(tt.n)}, Options{})
			if c.Unit != tt.unit || (c.ICC != nil) != tt.icc {
				t.Errorf("unit %s, ICC %v, want %s", c.Unit, c.ICC, tt.unit)
			}
			if c.Unit == UnitRound && (c.MDEPercent == nil || *c.MDEPercent > 3) {
				t.Errorf("MDE %v: what rounds have in common is noise to it", *c.MDEPercent)
			}
		})
	}
}
