package sample

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// near fails unless got is want within 1e-5 of it; want NaN is null.
func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	nearBy(t, what, got, want, 1e-5*math.Abs(want)+1e-12)
}

func nearBy(t *testing.T, what string, got *float64, want, tolerance float64) {
	t.Helper()
	switch {
	case got == nil && math.IsNaN(want):
	case got == nil:
		t.Errorf("%s: got null, want %v", what, want)
	case math.IsNaN(want):
		t.Errorf("%s: got %v, want null", what, *got)
	case !(math.Abs(*got-want) <= tolerance):
		t.Errorf("%s: got %.7g, want %.7g", what, *got, want)
	}
}

var nan = math.NaN()

// ends is an interval, NaN where it's without bound; nil is none.
type ends []float64

func nearRange(t *testing.T, what string, got *Range, want ends) {
	t.Helper()
	if (got == nil) != (want == nil) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
	if got == nil || want == nil {
		return
	}
	near(t, what+" low", got.Low, want[0])
	near(t, what+" high", got.High, want[1])
}

func judged(a, b Side, o Options) *Comparison {
	c := Measure(a, b, o)
	c.Judge(c.P, 1)
	return c
}

// vectors are sets whose figures were found with other programs.
var vectors = []struct {
	name         string
	a, b         []float64
	typical      float64
	typicalEnds  ends
	mean         float64
	meanEnds     ends
	rankP, meanP float64
	p            float64
	verdict      Verdict
	needed       int // 0 is null
	wordA, wordB Word
	shapeChanged bool
	note         string
	monteCarlo   bool
	theta        float64 // NaN isn't checked
	textA, textB string
	reason       Reason
	mdePercent   float64 // NaN isn't checked
}{
	{
		name:    "all below",
		a:       []float64{8.41, 8.38, 8.45, 8.36, 8.40},
		b:       []float64{5.92, 5.88, 5.95, 5.85, 5.90},
		typical: 0.702381, typicalEnds: ends{0.695858, 0.708333},
		mean: 0.702381, meanEnds: ends{0.696701, 0.708108},
		rankP: 0.00793651, meanP: 0.00793651, p: 0.00793651,
		verdict: Regression, wordA: Stable, wordB: Stable, theta: 0, mdePercent: nan,
		textA: "8.4", textB: "5.9",
	},
	{
		name:    "ties",
		a:       []float64{94.4, 94.4, 93.3, 94.4, 95.4, 93.3},
		b:       []float64{94.4, 93.3, 94.4, 94.4, 95.4, 94.4},
		typical: 1, typicalEnds: ends{0.989518, 1.01179},
		mean: 1.00195, meanEnds: ends{0.991916, 1.01208},
		rankP: 0.863636, meanP: 0.863636, p: 0.863636,
		verdict: NoDifference, wordA: Stable, wordB: Stable, theta: 0.569444, mdePercent: nan,
	},
	{
		name:    "identical",
		a:       []float64{94.4, 94.4, 94.4, 94.4, 94.4},
		b:       []float64{94.4, 94.4, 94.4, 94.4, 94.4},
		typical: 1, typicalEnds: ends{1, 1}, mean: 1, meanEnds: ends{1, 1},
		rankP: 1, meanP: 1, p: 1,
		verdict: NoDifference, wordA: Stable, wordB: Stable, theta: 0.5, mdePercent: 0,
	},
	{
		name: "one trial",
		a:    []float64{843.64}, b: []float64{823.00},
		typical: 0.975535, mean: 0.975535, rankP: 1, meanP: 1, p: 1,
		verdict: Inconclusive, reason: FewTrials, needed: 4, wordA: TooFew, wordB: TooFew, theta: 0, mdePercent: nan,
	},
	{
		name: "two trials",
		a:    []float64{19.6, 19.7}, b: []float64{10.1, 10.2},
		typical: 0.516535, mean: 0.516539, meanEnds: ends{0.499564, 0.534092},
		rankP: 0.333333, meanP: 0.333333, p: 0.333333,
		verdict: Inconclusive, reason: FewTrials, needed: 4, wordA: TooFew, wordB: TooFew, theta: 0, mdePercent: nan,
	},
	{
		name:    "zeros",
		a:       []float64{941, 938, 0, 940, 942, 939},
		b:       []float64{940, 0, 0, 941, 0, 939},
		typical: 0.998406, typicalEnds: ends{0, 1.00213},
		mean: 0.6, meanEnds: ends{0.187896, 1.91595},
		rankP: 0.372294, meanP: 0.354978, p: 0.380952,
		verdict: Inconclusive, reason: NotShown, needed: 48, wordA: Unstable, wordB: Bimodal, shapeChanged: true, theta: 1.0 / 3, mdePercent: nan,
		textA: "0..942 unstable", textB: "0 (3) or 940 (3)",
	},
	{
		name:    "outlier",
		a:       []float64{9.41, 9.39, 9.42, 9.40, 9.38, 9.43, 0.12, 9.41, 9.40, 9.37},
		b:       []float64{9.12, 9.15, 9.10, 9.14, 9.13, 9.11, 9.16, 9.12, 9.15, 9.13},
		typical: 0.971338, typicalEnds: ends{0.969214, 0.974386},
		mean: 1.07766, meanEnds: ends{0.841132, 1.3807},
		rankP: 0.00132066, meanP: 1, p: 0.00136396,
		verdict: Regression, wordA: Unstable, wordB: Stable, note: "signs differ", theta: nan, mdePercent: nan,
	},
	{
		name:    "bimodal",
		a:       []float64{65.2, 65.0, 65.4, 65.1, 65.3, 65.2, 65.1, 65.3, 65.2, 65.0},
		b:       []float64{65.1, 49.5, 65.3, 49.4, 49.6, 65.2, 49.5, 65.0, 49.7, 65.2},
		typical: 0.871745, typicalEnds: ends{0.759939, 1},
		mean: 0.879871, meanEnds: ends{0.793993, 0.975038},
		rankP: 0.0385373, meanP: 0.0154041, p: 0.0223322,
		verdict: Regression, wordA: Stable, wordB: Bimodal, shapeChanged: true, theta: 0.23, mdePercent: nan,
		textA: "65.2", textB: "49.54 (5) or 65.16 (5)",
	},
	{
		name:    "wide",
		a:       []float64{861, 884, 847, 801, 889, 872, 790, 866, 838, 880, 755, 868},
		b:       []float64{858, 779, 881, 846, 704, 869, 812, 861, 728, 875, 843, 790},
		typical: 0.980835, typicalEnds: ends{0.919717, 1.01498},
		mean: 0.969954, meanEnds: ends{0.920156, 1.02245},
		rankP: 0.233, meanP: 0.239, p: 0.294, monteCarlo: true,
		verdict: Inconclusive, reason: NotShown, needed: 68, wordA: Noisy, wordB: Unstable, theta: nan, mdePercent: 6.83,
	},
	{
		name:    "tiny",
		a:       []float64{100, 100.1, 99.9, 100.2, 99.8, 100.05, 99.95, 100.15},
		b:       []float64{99.5, 99.6, 99.4, 99.7, 99.3, 99.55, 99.45, 99.65},
		typical: 0.995001, typicalEnds: ends{0.993506, 0.996498},
		mean: 0.995001, meanEnds: ends{0.993575, 0.996429},
		rankP: 0.0001554, meanP: 0.0001554, p: 0.0001554,
		verdict: NoDifference, wordA: Stable, wordB: Stable, note: "measurable but below", theta: 0, mdePercent: nan,
	},
	{
		name: "three trials",
		a:    []float64{55.8, 55.9, 55.7}, b: []float64{49.9, 50.1, 50.0},
		typical: 0.896057, mean: 0.896057, meanEnds: ends{0.89219, 0.899941},
		rankP: 0.1, meanP: 0.1, p: 0.1,
		verdict: Inconclusive, reason: FewTrials, needed: 4, wordA: TooFew, wordB: TooFew, theta: 0, mdePercent: nan,
	},
	{
		name: "dead side",
		a:    []float64{940, 941, 939, 942}, b: []float64{0, 0, 0, 0},
		typical: 0, typicalEnds: ends{0, 0}, mean: 0, meanEnds: ends{0, nan},
		rankP: 0.0285714, meanP: 0.0285714, p: 0.0285714,
		verdict: Regression, wordA: TooFew, wordB: TooFew, theta: 0, mdePercent: nan,
	},
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := judged(Side{Values: v.a}, Side{Values: v.b}, Options{})
			near(t, "typical", c.Typical.Ratio, v.typical)
			nearRange(t, "typical", c.Typical.Interval, v.typicalEnds)
			near(t, "mean", c.Mean.Ratio, v.mean)
			nearRange(t, "mean", c.Mean.Interval, v.meanEnds)
			for _, p := range []struct {
				what      string
				got, want float64
			}{{"rank p", c.RankP, v.rankP}, {"mean p", c.MeanP, v.meanP}, {"p", c.P, v.p}} {
				if v.monteCarlo {
					nearBy(t, p.what, &p.got, p.want, 0.005)
				} else {
					near(t, p.what, &p.got, p.want)
				}
			}
			if c.Exact == v.monteCarlo {
				t.Errorf("exact: %v", c.Exact)
			}
			if c.Verdict != v.verdict || c.Reason != v.reason {
				t.Errorf("verdict: got %s, %q, want %s, %q", c.Verdict, c.Reason, v.verdict, v.reason)
			}
			if needed := 0; c.TrialsNeeded != nil || v.needed != 0 {
				if c.TrialsNeeded != nil {
					needed = *c.TrialsNeeded
				}
				if needed != v.needed {
					t.Errorf("trials needed: got %d, want %d", needed, v.needed)
				}
			}
			if c.A.Word != v.wordA || c.B.Word != v.wordB {
				t.Errorf("words: got %s and %s, want %s and %s", c.A.Word, c.B.Word, v.wordA, v.wordB)
			}
			if c.ShapeChanged != v.shapeChanged {
				t.Errorf("shape changed: %v, spread ratio %v", c.ShapeChanged, c.SpreadRatio)
			}
			if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, v.note) || v.note == "" && notes != "" {
				t.Errorf("notes: got %q, want %q", notes, v.note)
			}
			if !math.IsNaN(v.theta) {
				near(t, "theta", c.Theta, v.theta)
			}
			if !math.IsNaN(v.mdePercent) {
				nearBy(t, "MDE", c.MDEPercent, v.mdePercent, 0.005)
			}
			for _, text := range []struct {
				cell Cell
				want string
			}{{c.A, v.textA}, {c.B, v.textB}} {
				if got := text.cell.Text(short); text.want != "" && got != text.want {
					t.Errorf("text: got %q, want %q", got, text.want)
				}
			}
		})
	}
}

// Lower is better: the same figures, the other verdict.
func TestLowerIsBetter(t *testing.T) {
	t.Parallel()
	up, down := vectors[0].a, vectors[0].b
	for _, tt := range []struct {
		name string
		a, b []float64
		o    Options
		want Verdict
	}{
		{"more is better, less", up, down, Options{}, Regression},
		{"more is better, more", down, up, Options{}, Improvement},
		{"less is better, less", up, down, Options{LowerIsBetter: true}, Improvement},
		{"less is better, more", down, up, Options{LowerIsBetter: true}, Regression},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := judged(Side{Values: tt.a}, Side{Values: tt.b}, tt.o).Verdict; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Five cells of a sweep, corrected together.
func TestSweep(t *testing.T) {
	t.Parallel()
	sets := [][2][]float64{
		{{8.4, 8.6, 8.2, 8.5, 8.3}, {5.9, 6.1, 5.8, 6.0, 5.7}},
		{{13.4, 13.1, 13.6, 13.5, 13.3}, {10.6, 10.4, 10.9, 10.5, 10.7}},
		{{19.1, 18.8, 19.3, 19.0, 19.2}, {16.3, 16.0, 16.6, 16.2, 16.4}},
		{{19.6, 19.5, 19.7, 19.6, 19.4}, {19.7, 19.6, 19.8, 19.5, 19.6}},
		{{19.7, 19.6, 19.8, 19.5, 19.9}, {19.6, 19.4, 19.7, 19.8, 19.5}},
	}
	p := []float64{0.00793651, 0.00793651, 0.00793651, 0.444444, 0.444444}
	corrected := []float64{0.0132275, 0.0132275, 0.0132275, 0.444444, 0.444444}
	ratios := []float64{0.702381, 0.793722, 0.854298, 1.00409, 0.994924}
	verdicts := []Verdict{Regression, Regression, Regression, NoDifference, NoDifference}
	var cells []*Comparison
	for _, s := range sets {
		cells = append(cells, Measure(Side{Values: s[0]}, Side{Values: s[1]}, Options{}))
	}
	JudgeAll(cells, BenjaminiHochberg)
	for i, c := range cells {
		near(t, "p", &c.P, p[i])
		near(t, "corrected p", c.CorrectedP, corrected[i])
		near(t, "mean ratio", c.Mean.Ratio, ratios[i])
		if c.Verdict != verdicts[i] {
			t.Errorf("cell %d: got %s, want %s", i, c.Verdict, verdicts[i])
		}
	}
	s := Summarise(cells)
	near(t, "geomean", s.GeomeanRatio, 0.861951)
	const want = "5 cells: 3 regression, 0 improvement, 2 no difference, 0 inconclusive; geomean of mean ratios 0.862"
	if got := s.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A machine that slows down: only by rounds is the change seen.
func TestRoundsVector(t *testing.T) {
	t.Parallel()
	a := []float64{100, 99.1, 98.3, 97, 96.2, 95.1, 94, 93.2}
	b := []float64{98, 97.4, 96, 95.3, 94.1, 93.2, 92.4, 91}
	rounds := []int{0, 1, 2, 3, 4, 5, 6, 7}
	c := judged(Side{Values: a, Rounds: rounds}, Side{Values: b, Rounds: rounds}, Options{})
	if c.Unit != UnitRound || c.Rounds != 8 {
		t.Fatalf("unit %s, %d rounds", c.Unit, c.Rounds)
	}
	near(t, "ICC", c.ICC, 0.723576)
	near(t, "p", &c.P, 0.0078125)
	near(t, "typical", c.Typical.Ratio, 0.979893)
	nearRange(t, "typical", c.Typical.Interval, ends{0.977282, 0.982726})
	near(t, "mean", c.Mean.Ratio, 0.979946)
	nearRange(t, "mean", c.Mean.Interval, ends{0.977704, 0.982192})
	near(t, "theta", c.Theta, 0)
	if c.Verdict != Regression {
		t.Errorf("got %s, %q, want a regression", c.Verdict, c.Reason)
	}
	unpaired := judged(Side{Values: a}, Side{Values: b}, Options{})
	near(t, "p without rounds", &unpaired.P, 0.147941)

	// The order of the rounds in a side means nothing, and rounds that lack a
	// trial are left out.
	shuffled := Side{Values: append([]float64{50}, a...), Rounds: append([]int{9}, rounds...)}
	slices.Reverse(shuffled.Values)
	slices.Reverse(shuffled.Rounds)
	again := judged(shuffled, Side{Values: b, Rounds: rounds}, Options{})
	if again.P != c.P || *again.Typical.Ratio != *c.Typical.Ratio || again.Rounds != 8 {
		t.Errorf("shuffled: p %v, typical %v, rounds %d", again.P, *again.Typical.Ratio, again.Rounds)
	}
}
