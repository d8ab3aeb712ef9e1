package sample

import (
	"cmp"
	"math"
)

// FinalAlpha is the alpha for the verdict of a comparison that a Stopper ended.
// Looking several times makes chance differences likelier; this makes up for it.
const FinalAlpha = 0.04

// A Stopper says when enough trials were run, by how precise the result is. It
// never stops because a difference was found: who looks at p after every trial
// and stops at 0.05 finds one in a quarter of comparisons of equal sides. The
// zero value of a field is its default.
type Stopper struct {
	First int     // trials per side before the first look: 10, as fewer may all be in one of two modes
	Every int     // trials per side between looks: 5
	Most  int     // trials per side after which to stop anyway: 50
	Width float64 // half width of the interval to reach, as a share: 0.7 times the default threshold, 0.014
}

func (s Stopper) filled() Stopper {
	s.First = cmp.Or(s.First, 10)
	s.Every = cmp.Or(s.Every, 5)
	s.Most = cmp.Or(s.Most, 50)
	s.Width = cmp.Or(s.Width, 0.7*Options{}.Filled().Threshold)
	return s
}

// A Stop is what a look found.
type Stop struct {
	Stop             bool     `json:"stop" doc:"whether to run no more trials"`
	Reason           string   `json:"reason" doc:"precise, different or most; empty to go on"`
	HalfWidthPercent *float64 `json:"half_width_percent" doc:"half width of the 95 % interval; null before the first look, or if without bound"`
}

// The reasons to stop.
const (
	StopPrecise   = "precise"   // the interval is narrow enough
	StopDifferent = "different" // p is at most 0.001, beyond what looking often could do
	StopMost      = "most"      // no more trials are allowed
)

// Due reports whether to look after so many trials per side.
func (s Stopper) Due(trials int) bool {
	s = s.filled()
	return trials >= s.Most || trials >= s.First && (trials-s.First)%s.Every == 0
}

// Compare looks at two sides. They had as many trials, with the failed ones, as
// the side with fewer. The interval is that of the mean ratio at 95 %, whatever
// alpha the options have.
func (s Stopper) Compare(a, b Side, o Options) Stop {
	trials := min(len(a.Values)+a.Failed, len(b.Values)+b.Failed)
	if !s.Due(trials) {
		return Stop{}
	}
	o.Alpha = 0.05
	c := Measure(a, b, o)
	half := math.Inf(1)
	if c.mean.wide.ok {
		half = math.Expm1((c.mean.wide.high - c.mean.wide.low) / 2)
	}
	return s.stop(trials, half, c.P)
}

// One looks at the trials of one configuration, by the 95 % interval of their
// mean (Student's t), as a share of it.
func (s Stopper) One(values []float64, failed int) Stop {
	trials := len(values) + failed
	if !s.Due(trials) {
		return Stop{}
	}
	half := math.Inf(1)
	if c := Describe(values, failed); c.CVPercent != nil {
		n := float64(c.N)
		half = tQuantile(0.975, n-1) * *c.CVPercent / 100 / math.Sqrt(n)
	}
	return s.stop(trials, half, 1)
}

func (s Stopper) stop(trials int, half, p float64) Stop {
	s = s.filled()
	stop := Stop{HalfWidthPercent: percent(half)}
	switch {
	case half <= s.Width:
		stop.Reason = StopPrecise
	case p <= 0.001:
		stop.Reason = StopDifferent
	case trials >= s.Most:
		stop.Reason = StopMost
	}
	stop.Stop = stop.Reason != ""
	return stop
}
