package output

import (
	"math"

	"gperf/netperf/options"
)

// students are the two-sided quantiles of Student's t by confidence level in
// percent, for 1 to 30 degrees of freedom, to the three decimals of netperf's
// table: more would move its intervals.
var students = map[int][30]float64{
	95: {
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	},
	99: {
		63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169,
		3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845,
		2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
	},
}

// Confidence decides how often a test is repeated. It is told of each iteration
// and weighs throughput and both ends' CPU utilisation, or with -r throughput
// alone.
type Confidence struct {
	options *options.Netperf
	n       int
	samples [3][]float64 // throughput, local and remote utilisation
}

// NewConfidence returns a Confidence that has seen no iteration yet.
func NewConfidence(o *options.Netperf) *Confidence { return &Confidence{options: o} }

// Add takes an iteration into account.
func (c *Confidence) Add(it Iteration) {
	c.n++
	for i, figure := range []func(*options.Netperf, *Iteration) float64{throughput, localUtil, remoteUtil} {
		c.samples[i] = append(c.samples[i], figure(c.options, &it))
	}
}

// More reports whether another iteration is to be run.
func (c *Confidence) More() bool {
	asked := c.options.Confidence
	return c.n < max(1, asked.Min) || c.n < asked.Max && !c.Reached()
}

// Reached reports whether the intervals are as narrow as was asked for.
func (c *Confidence) Reached() bool {
	if c.n < 2 {
		return false
	}
	target := c.options.Confidence.Width
	if target < 0 {
		target = 5
	}
	result, local, remote := c.Widths()
	if c.options.Confidence.ResultOnly {
		return result <= target
	}
	return max(result, local, remote) <= target
}

// Widths returns the full widths of the intervals in percent of their means: 0
// for what didn't vary or wasn't measured, -1 before the second iteration.
func (c *Confidence) Widths() (throughput, local, remote float64) {
	return c.width(0), c.width(1), c.width(2)
}

func (c *Confidence) width(i int) float64 {
	if c.n < 2 {
		return -1
	}
	level := students[c.options.Confidence.Level]
	if level[0] == 0 {
		level = students[99]
	}
	n := float64(c.n)
	mean, squares := 0.0, 0.0
	for _, x := range c.samples[i] {
		mean += x / n
	}
	for _, x := range c.samples[i] {
		squares += (x - mean) * (x - mean)
	}
	t := level[min(c.n-1, len(level))-1]
	return 100 * ratio(2*t*math.Sqrt(squares/n/(n-1)), math.Abs(mean))
}

// confidence is that of a finished run.
func (r *Run) confidence() *Confidence {
	c := NewConfidence(r.Options)
	for _, it := range r.Iterations {
		c.Add(it)
	}
	return c
}

// confidenceAsked reports whether -i or -I were given.
func confidenceAsked(o *options.Netperf) bool { return o.Confidence.Level > 0 }

// missed prints a warning when the intervals stayed wider than was asked for.
func (p *page) missed(r *Run) {
	c := r.confidence()
	if !confidenceAsked(r.Options) || c.Reached() {
		return
	}
	result, local, remote := c.Widths()
	p.printf("!!! WARNING\n" +
		"!!! Desired confidence was not achieved within the specified iterations.\n" +
		"!!! This implies that there was variability in the test environment that\n" +
		"!!! must be investigated before going further.\n")
	p.printf("!!! Confidence intervals: Throughput      : %4.3f%%\n", result)
	p.printf("!!!                       Local CPU util  : %4.3f%%\n", local)
	p.printf("!!!                       Remote CPU util : %4.3f%%\n\n", remote)
}
