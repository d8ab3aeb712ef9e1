package trials

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Filter picks trials by axes, labels or settings: a trial passes that has one of
// the values of each name.
type Filter map[string][]string

// ParseFilter reads NAME=VALUE, or several with commas between, which must all
// hold; VALUE|VALUE is any of them.
func ParseFilter(s string) (Filter, error) {
	f := Filter{}
	name := ""
	for part := range strings.SplitSeq(s, ",") {
		n, value, ok := strings.Cut(part, "=")
		switch {
		case ok && n != "":
			if _, twice := f[n]; twice {
				return nil, fmt.Errorf("%q: %s stands there twice (NAME=VALUE|VALUE is either)", s, n)
			}
			name = n
			f[name] = strings.Split(value, "|")
		case name == "" || ok:
			return nil, fmt.Errorf("%q: want NAME=VALUE, or several with commas between", s)
		default: // a value with a comma in it
			values := f[name]
			values[len(values)-1] += "," + part
		}
	}
	return f, nil
}

// String is the filter as it's written.
func (f Filter) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, name+"="+strings.Join(f[name], "|"))
	}
	return strings.Join(parts, ",")
}

// Of returns the trials that pass. It's an error if none has a name of the filter.
func (f Filter) Of(set *Set) ([]*Trial, error) {
	var passed []*Trial
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !slices.ContainsFunc(set.Trials, func(t *Trial) bool { _, ok := t.Get(name); return ok }) {
			axes := set.Axes()
			if len(axes) == 0 {
				axes = []string{"none"}
			}
			return nil, fmt.Errorf("no trial has an axis or label %q (axes: %s)", name, strings.Join(axes, ", "))
		}
	}
	for _, t := range set.Trials {
		if f.passes(t) {
			passed = append(passed, t)
		}
	}
	if len(passed) == 0 {
		return nil, fmt.Errorf("no trial has %s (%s)", f, f.values(set))
	}
	return passed, nil
}

func (f Filter) passes(t *Trial) bool {
	for name, values := range f {
		if v, ok := t.Get(name); !ok || !slices.Contains(values, v) {
			return false
		}
	}
	return true
}

// values says which values the filter's names have.
func (f Filter) values(set *Set) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		seen := map[string]bool{}
		for _, t := range set.Trials {
			if v, ok := t.Get(name); ok {
				seen[v] = true
			}
		}
		all := slices.SortedFunc(maps.Keys(seen), CompareValues)
		if len(all) > 8 {
			all = append(all[:8], "...")
		}
		parts = append(parts, name+" is "+strings.Join(all, ", "))
	}
	return strings.Join(parts, "; ")
}
