// Package sweep runs one test under many settings, again and again, in an order
// that a machine which changes over time can't mislead, and keeps each finished
// run at once. It knows no flags and no sockets: whoever calls it makes a run of a
// cell.
package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Spec is what a sweep is: enough to run it, and to go on with it.
type Spec struct {
	Flags  []Value `json:"flags"`  // of the client, for every cell, in the order in which they apply
	Axes   []Axis  `json:"axes"`   // their product is the cells, the last axis running fastest
	Trials int     `json:"trials"` // of each cell
	// UntilPrecise ends a cell's trials when the half-width of the 95 % interval of
	// its mean is known to be at most this share of it; 0: Trials decide. MaxTrials
	// bounds them then.
	UntilPrecise float64       `json:"until_precise"`
	MaxTrials    int           `json:"max_trials"`
	Order        Order         `json:"order"`
	Seed         uint64        `json:"seed"`
	Cooldown     time.Duration `json:"cooldown_ns"` // between trials
	Lab          string        `json:"lab"`         // kind; empty: the machine's own network
	Host         string        `json:"host"`        // of the server; empty: its own
	HookBefore   string        `json:"hook_before"` // shell commands around each trial
	HookAfter    string        `json:"hook_after"`
	Keep         bool          `json:"keep"`  // streams and intervals, too
	Table        *Table        `json:"table"` // to be shown at the end; null: none
}

// A Value is a name and what it's set to, as written.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// An Axis is what varies: one name or, zipped, several that change together.
type Axis struct {
	Names  []string   `json:"names"`
	Values [][]string `json:"values"` // of each step, one for each name
}

// Order is the order of the trials.
type Order string

// The orders. Interleaved visits all cells in each round, in a fresh random order;
// two cells in blocks of ABBA or BAAB.
const (
	Interleaved Order = "interleaved"
	Random      Order = "random"
	Sequential  Order = "sequential"
)

// Orders are all of them, the default first.
var Orders = []Order{Interleaved, Random, Sequential}

// A Table is a pivot of the trials.
type Table struct {
	Rows   []string `json:"rows" yaml:"rows"`
	Cols   []string `json:"cols" yaml:"cols"`
	Values []string `json:"values" yaml:"values"`
}

// A Cell is one point of the sweep.
type Cell struct {
	Index  int
	Values []Value // of the axes, in their order
}

// Coordinates are the cell's values by axis.
func (c *Cell) Coordinates() map[string]string {
	m := make(map[string]string, len(c.Values))
	for _, v := range c.Values {
		m[v.Name] = v.Value
	}
	return m
}

// String is the cell as messages name it.
func (c *Cell) String() string {
	var parts []string
	for _, v := range c.Values {
		value := v.Value
		if strings.ContainsAny(value, " ") {
			value = "'" + value + "'"
		}
		parts = append(parts, v.Name+"="+value)
	}
	if len(parts) == 0 {
		return "the one cell"
	}
	return strings.Join(parts, " ")
}

// The bounds and defaults of a sweep.
const (
	MaxCells         = 100_000
	MaxTrials        = 10_000
	DefaultTrials    = 5
	DefaultMaxTrials = 50 // with UntilPrecise
	// FewestPrecise is how many trials there are before precision is looked at, and
	// PreciseStep how many there are between looks: looking all the time finds
	// precision by luck.
	FewestPrecise = 10
	PreciseStep   = 5
)

// Cells are the product of the axes.
func (s *Spec) Cells() ([]Cell, error) {
	cells := []Cell{{}}
	seen := map[string]bool{}
	for _, a := range s.Axes {
		for _, name := range a.Names {
			if seen[name] {
				return nil, fmt.Errorf("axis %s is there twice", name)
			}
			seen[name] = true
		}
		if len(cells)*len(a.Values) > MaxCells {
			return nil, fmt.Errorf("more than %d cells", MaxCells)
		}
		var next []Cell
		for _, c := range cells {
			for _, step := range a.Values {
				cell := Cell{Values: slices.Clone(c.Values)}
				for i, name := range a.Names {
					cell.Values = append(cell.Values, Value{name, step[i]})
				}
				next = append(next, cell)
			}
		}
		cells = next
	}
	for i := range cells {
		cells[i].Index = i
	}
	return cells, nil
}

// Normalise fills in the defaults.
func (s *Spec) Normalise() {
	if s.Order == "" {
		s.Order = Interleaved
	}
	if s.UntilPrecise > 0 {
		if s.MaxTrials == 0 {
			s.MaxTrials = DefaultMaxTrials
		}
		s.Trials = s.MaxTrials
	}
	if s.Trials == 0 {
		s.Trials = DefaultTrials
	}
}

// Validate reports what makes the spec impossible.
func (s *Spec) Validate() error {
	switch {
	case s.Trials < 1 || s.Trials > MaxTrials:
		return fmt.Errorf("trials: %d is not between 1 and %d", s.Trials, MaxTrials)
	case !slices.Contains(Orders, s.Order):
		return fmt.Errorf("order: unknown order %q", s.Order)
	case s.UntilPrecise < 0 || s.UntilPrecise >= 1:
		return fmt.Errorf("until-precise: %g is not a share between 0 and 1", s.UntilPrecise)
	case s.UntilPrecise > 0 && s.MaxTrials < FewestPrecise:
		return fmt.Errorf("max-trials: %d are fewer than the %d before precision is looked at", s.MaxTrials, FewestPrecise)
	case s.UntilPrecise > 0 && s.Order != Interleaved:
		return fmt.Errorf("until-precise: it goes round by round, not %s", s.Order)
	case s.Cooldown < 0:
		return fmt.Errorf("cooldown: %v is negative", s.Cooldown)
	case s.Lab != "" && s.Host != "":
		return errors.New("lab: the server is in the lab, not at a host")
	}
	for _, a := range s.Axes {
		if len(a.Values) == 0 {
			return fmt.Errorf("axis %s has no values", strings.Join(a.Names, "+"))
		}
		for _, step := range a.Values {
			if len(step) != len(a.Names) {
				return fmt.Errorf("axis %s: %q has %d values, not %d", strings.Join(a.Names, "+"), strings.Join(step, "+"), len(step), len(a.Names))
			}
		}
		steps := map[string]bool{}
		for _, step := range a.Values {
			key := strings.Join(step, "\x00")
			if steps[key] {
				return fmt.Errorf("axis %s has %s twice", strings.Join(a.Names, "+"), strings.Join(step, "+"))
			}
			steps[key] = true
		}
	}
	_, err := s.Cells()
	return err
}

// ParseAxis reads an axis as the command line has it: NAME=V1,V2 or, zipped,
// NAME+NAME=V1+V1,V2+V2. A comma or a plus sign that belongs to a value has a
// backslash before it.
func ParseAxis(text string) (Axis, error) {
	names, values, ok := strings.Cut(text, "=")
	if !ok || names == "" {
		return Axis{}, fmt.Errorf("axis %q: want NAME=VALUE,VALUE", text)
	}
	return newAxis(names, split(values, ','))
}

// newAxis makes an axis of its names, joined by plus signs, and its steps.
func newAxis(names string, steps []string) (Axis, error) {
	a := Axis{Names: strings.Split(names, "+")}
	for _, name := range a.Names {
		if name == "" {
			return Axis{}, fmt.Errorf("axis %q: a name is empty", names)
		}
	}
	for _, step := range steps {
		values := []string{unescape(step)}
		if len(a.Names) > 1 {
			values = split(step, '+')
			for i := range values {
				values[i] = unescape(values[i])
			}
		}
		if len(values) != len(a.Names) {
			return Axis{}, fmt.Errorf("axis %s: %q has %d values, not %d", names, step, len(values), len(a.Names))
		}
		a.Values = append(a.Values, values)
	}
	return a, nil
}

// split splits at a separator that no backslash precedes.
func split(s string, sep byte) []string {
	var parts []string
	from := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == sep:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// unescape takes away the backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// A File is a sweep as a YAML file has it, in the words of the command line.
type File struct {
	About        string            `yaml:"about"` // what it's for
	Flags        map[string]string `yaml:"flags"`
	Axes         yaml.Node         `yaml:"axes"` // a mapping, whose order is that of the cells
	Trials       int               `yaml:"trials"`
	UntilPrecise string            `yaml:"until-precise"`
	MaxTrials    int               `yaml:"max-trials"`
	Order        Order             `yaml:"order"`
	Seed         uint64            `yaml:"seed"`
	Cooldown     string            `yaml:"cooldown"`
	Lab          string            `yaml:"lab"`
	HookBefore   string            `yaml:"hook-before"`
	HookAfter    string            `yaml:"hook-after"`
	Keep         bool              `yaml:"keep"`
	Table        *Table            `yaml:"table"`
}

// ParseFile reads a YAML file. Unknown words are errors. Nothing in it is run by a
// shell but the hooks.
func ParseFile(r io.Reader) (*File, []Axis, error) {
	d := yaml.NewDecoder(r)
	d.KnownFields(true)
	var f File
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil, errors.New("it's empty")
		}
		return nil, nil, errors.New(strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("there is more than one document in it")
	}
	axes, err := parseAxes(&f.Axes)
	return &f, axes, err
}

// parseAxes reads the mapping from names to lists of values.
func parseAxes(n *yaml.Node) (axes []Axis, err error) {
	if n.Kind == 0 {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: axes: want a mapping from names to lists of values", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, list := n.Content[i].Value, n.Content[i+1]
		if list.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("line %d: axis %s: want a list of values", list.Line, name)
		}
		var steps []string
		for _, v := range list.Content {
			if v.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: axis %s: a value is not a word", v.Line, name)
			}
			step := v.Value
			if !strings.Contains(name, "+") { // nothing separates in a single value
				step = strings.ReplaceAll(step, `\`, `\\`)
			}
			steps = append(steps, step)
		}
		a, err := newAxis(name, steps)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", list.Line, err)
		}
		axes = append(axes, a)
	}
	return axes, nil
}

// Same reports whether two specs ask for the same sweep, so that one can go on
// where the other ended.
func (s *Spec) Same(o *Spec) bool {
	a, err1 := json.Marshal(s)
	b, err2 := json.Marshal(o)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}
