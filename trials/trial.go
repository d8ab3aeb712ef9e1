package trials

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gperf/internal/units"
	"gperf/result"
)

// A Trial is one finished run as tables and comparisons need it.
type Trial struct {
	File   string // it was read from
	Line   int    // at which its document begins, from 1
	Entry  int    // number of the run, from 1, in the series that the document holds; 0: a run of its own
	Format string // Gperf, Iperf3, Netperf or Flent

	// Cell is where it belongs: the axes of its sweep, each with the value as
	// written. A run of its own has its labels, and what of its plan differs between
	// the runs that were read together. It's shared between trials: not to be
	// changed.
	Cell   map[string]string
	Labels map[string]string // shared, too
	Plan   map[string]string // as flags would say it; shared
	Place  *result.Place     // without its cell; nil: not of a sweep

	Started time.Time // zero: not known
	Status  result.Status
	Why     string // it isn't complete
	Gperf   string // version and commit of the program that measured
	Hosts   *result.Ends[*result.Host]
	Lab     *Lab

	// Rates are those of its intervals, in bits or else transactions per second, if
	// the reader was to read them and the file keeps them.
	Rates []float64

	Trusted bool               // nothing was found that speaks against its figures
	values  []float64          // of the reader's metrics, NaN when not known
	still   bool               // it ran its time and moved nothing
	foreign map[string]float64 // figures of another program's trial by path, until they are values
}

// Lab is the private network of a trial: its settings as read back, by end and
// name.
type Lab struct {
	Kind     string
	Settings []result.LabSetting
}

// The formats of what is read.
const (
	Gperf   = "gperf"
	Iperf3  = "iperf3"
	Netperf = "netperf"
	Flent   = "flent"
)

// Source is where the trial was read, as FILE:LINE.
func (t *Trial) Source() string {
	s := fmt.Sprintf("%s:%d", t.File, t.Line)
	if t.Entry > 0 {
		s += fmt.Sprintf("#%d", t.Entry)
	}
	return s
}

// OK reports whether the trial is a sample. One that ended early or failed is
// none, and no zero. One that ran its time and moved nothing is: its zero was
// measured.
func (t *Trial) OK() bool { return t.Status == result.Complete || t.still }

// Value is the trial's figure of the reader's metric number i.
func (t *Trial) Value(i int) (v float64, known bool) {
	if i < 0 || i >= len(t.values) || math.IsNaN(t.values[i]) {
		return 0, false
	}
	return t.values[i], true
}

// Get is the trial's value of an axis or, if it has no such axis, of a label or a
// setting of the plan.
func (t *Trial) Get(name string) (string, bool) {
	for _, m := range []map[string]string{t.Cell, t.Labels, t.Plan} {
		if v, ok := m[name]; ok {
			return v, true
		}
	}
	return "", false
}

// Boot identifies the boots of the machines under the trial; empty: not known.
func (t *Trial) Boot() string {
	if t.Hosts == nil {
		return ""
	}
	client, server := bootOf(t.Hosts.Client), bootOf(t.Hosts.Server)
	if client == server {
		return client
	}
	return client + "+" + server
}

func bootOf(h *result.Host) string {
	if h == nil || h.BootID == nil {
		return ""
	}
	return *h.BootID
}

// A Set is what a Reader has read.
type Set struct {
	Metrics []Metric
	Trials  []*Trial // in the order of the files and their lines
	Headers []Header // of the sweeps among them
	Notes   []string // what a user should know of the files, one sentence each
}

// Index is the number of a metric of the set, -1 if it's none.
func (s *Set) Index(name string) int {
	return slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name })
}

// UntilPrecise reports whether sweeps of these trials ended a cell's once they
// were precise enough.
func (s *Set) UntilPrecise(of []*Trial) bool {
	looked := map[string]bool{}
	for i := range s.Headers {
		if h := &s.Headers[i]; h.untilPrecise() {
			looked[h.ID] = true
		}
	}
	return slices.ContainsFunc(of, func(t *Trial) bool { return t.Place != nil && looked[t.Place.ID] })
}

// Axes are the names in the cells of trials: those of the sweeps first, in their
// order, then the others by name.
func (s *Set) Axes() []string {
	seen := map[string]bool{}
	var axes []string
	have := func(name string) {
		if !seen[name] {
			seen[name] = true
			axes = append(axes, name)
		}
	}
	for _, h := range s.Headers {
		for _, name := range h.axes() {
			have(name)
		}
	}
	var others []string
	var last map[string]string
	for _, t := range s.Trials {
		if maps.Equal(t.Cell, last) {
			continue
		}
		last = t.Cell
		for name := range t.Cell {
			if !seen[name] && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	for _, name := range others {
		have(name)
	}
	return axes
}

// CompareValues orders two values of an axis as a reader expects: sizes, rates,
// times and numbers by what they come to, before words, which stand in the order
// of the alphabet. So 8K is before 16K and auto behind both; off is before on.
func CompareValues(a, b string) int {
	x, y := magnitude(a), magnitude(b)
	switch {
	case math.IsNaN(x) && math.IsNaN(y):
		return compareWords(a, b)
	case math.IsNaN(x):
		return 1
	case math.IsNaN(y):
		return -1
	}
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
}

// magnitude is what a value comes to, NaN for a word. A pair CLIENT:SERVER counts
// as its first part.
func magnitude(s string) float64 {
	head, _, _ := strings.Cut(s, ":")
	if head == "" {
		head = strings.TrimPrefix(s, ":")
	}
	if n, err := units.ParseSize(head); err == nil {
		return float64(n)
	}
	if r, err := units.ParseBitRate(strings.ReplaceAll(head, " ", "")); err == nil {
		return r
	}
	if d, err := units.ParseDuration(head); err == nil {
		return d.Seconds()
	}
	if p, err := units.ParseDuration(strings.TrimSuffix(head, "%")); err == nil {
		return p.Seconds() // a plain number before a percent sign
	}
	return math.NaN()
}

// compareWords compares text, and numbers in it by their size: 6.9 is before
// 6.12, eth2 before eth10.
func compareWords(a, b string) int {
	whole, other := a, b
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(whole, other))
}

// digits is how many digits s begins with.
func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
