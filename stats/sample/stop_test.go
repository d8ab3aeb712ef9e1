package sample

import (
	"slices"
	"testing"
)

func TestStopper(t *testing.T) {
	t.Parallel()
	a := []float64{943, 921, 955, 938, 902, 947, 930, 951, 912, 940, 936, 949, 925, 944, 931}
	b := []float64{918, 941, 907, 932, 894, 929, 946, 915, 925, 900, 921, 935, 910, 928, 917}
	at := func(n int) Stop {
		return Stopper{}.Compare(Side{Values: a[:n]}, Side{Values: b[:n]}, Options{})
	}
	if stop := at(9); stop.Stop || stop.HalfWidthPercent != nil {
		t.Errorf("after 9: %+v", stop)
	}
	stop := at(10)
	nearBy(t, "half width after 10", stop.HalfWidthPercent, 1.764, 5e-4)
	if stop.Stop {
		t.Errorf("after 10: %+v", stop)
	}
	stop = at(15)
	nearBy(t, "half width after 15", stop.HalfWidthPercent, 1.202, 1e-3)
	if !stop.Stop || stop.Reason != StopPrecise {
		t.Errorf("after 15: %+v", stop)
	}

	c := judged(Side{Values: a}, Side{Values: b}, Options{Alpha: FinalAlpha})
	nearBy(t, "p", &c.P, 0.015, 0.005)
	nearBy(t, "mean ratio", c.Mean.Ratio, 0.98531, 5e-6)
	if c.Verdict != Inconclusive || c.Reason != SizeOpen {
		t.Errorf("got %s, %q", c.Verdict, c.Reason)
	}
	if c := judged(Side{Values: a}, Side{Values: b}, Options{}); *c.TrialsNeeded != 111 {
		t.Errorf("needed %d, want 111", *c.TrialsNeeded)
	}
}

func TestStopperReasons(t *testing.T) {
	t.Parallel()
	wide := vectors[8]
	apart := make([]float64, 12)
	for i, v := range wide.b {
		apart[i] = v / 2
	}
	for _, tt := range []struct {
		name string
		s    Stopper
		a, b Side
		want string
	}{
		{"not due", Stopper{First: 10}, Side{Values: wide.a}, Side{Values: wide.b}, ""},
		{"not yet", Stopper{First: 12}, Side{Values: wide.a}, Side{Values: wide.b}, ""},
		{"a wider interval will do", Stopper{First: 12, Width: 0.06}, Side{Values: wide.a}, Side{Values: wide.b}, StopPrecise},
		{"far apart", Stopper{First: 12}, Side{Values: wide.a}, Side{Values: apart}, StopDifferent},
		{"no more", Stopper{Most: 12}, Side{Values: wide.a}, Side{Values: wide.b}, StopMost},
		{"failed trials count", Stopper{Most: 14}, Side{Values: wide.a, Failed: 2}, Side{Values: wide.b, Failed: 2}, StopMost},
		{"nothing but failures", Stopper{}, Side{Failed: 50}, Side{Failed: 50}, StopMost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stop := tt.s.Compare(tt.a, tt.b, Options{})
			if stop.Reason != tt.want || stop.Stop != (tt.want != "") {
				t.Errorf("got %+v, want %q", stop, tt.want)
			}
		})
	}
}

func TestStopperOne(t *testing.T) {
	t.Parallel()
	s := Stopper{}
	if stop := s.One(ramp(100, 9), 0); stop.Stop {
		t.Errorf("9 trials: %+v", stop)
	}
	// sd of 100..100.9 is 0.30277, t(9) 2.26216: 0.2156 % of the mean.
	stop := s.One(ramp(100, 10), 0)
	nearBy(t, "half width", stop.HalfWidthPercent, 0.2156, 5e-5)
	if stop.Reason != StopPrecise {
		t.Errorf("10 trials: %+v", stop)
	}
	if stop := s.One(vectors[8].b[:10], 0); stop.Stop {
		t.Errorf("wide: %+v", stop)
	}
	if stop := s.One(make([]float64, 50), 0); stop.Reason != StopMost || stop.HalfWidthPercent != nil {
		t.Errorf("zeros: %+v", stop)
	}
}

func TestStopperDue(t *testing.T) {
	t.Parallel()
	var due []int
	for n := range 53 {
		if (Stopper{Most: 48}).Due(n) {
			due = append(due, n)
		}
	}
	if want := []int{10, 15, 20, 25, 30, 35, 40, 45, 48, 49, 50, 51, 52}; !slices.Equal(due, want) {
		t.Errorf("got %v, want %v", due, want)
	}
}
