package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gperf/result"
	"gperf/trials"
)

// A Difference is something other than the metric in which the sides differ.
type Difference struct {
	What string `json:"what"` // subject, gperf, host, lab, plan or label
	Name string `json:"name"`
	A    string `json:"a"` // several values with commas between; empty: not known
	B    string `json:"b"`
}

// The kinds of differences, in their order.
const (
	whatSubject = "subject"
	whatProgram = "gperf"
	whatHost    = "host"
	whatLab     = "lab"
	whatPlan    = "plan"
	whatLabel   = "label"
)

// facts are the values that a side's trials have of things, by kind and name.
type facts map[[2]string]map[string]bool

func (f facts) add(what, name, value string) {
	k := [2]string{what, name}
	if f[k] == nil {
		f[k] = map[string]bool{}
	}
	f[k][value] = true
}

// differences lists what is known of both sides' trials and isn't the same. The
// axes of the cells are matched, so they are left out; what is compared comes
// first.
func differences(a, b Side, axes, subject []string) []Difference {
	of, than := factsOf(a.Trials), factsOf(b.Trials)
	matched := map[string]bool{}
	for _, axis := range axes {
		matched[axis] = true
	}
	list := []Difference{}
	for _, axis := range subject {
		matched[axis] = true
		list = append(list, Difference{whatSubject, axis, few(valuesOf(a.Trials, axis)), few(valuesOf(b.Trials, axis))})
	}
	names := map[[2]string]bool{}
	for _, side := range []facts{of, than} {
		for k := range side {
			names[k] = true
		}
	}
	order := []string{whatProgram, whatHost, whatLab, whatPlan, whatLabel}
	sorted := slices.SortedFunc(maps.Keys(names), func(x, y [2]string) int {
		if c := slices.Index(order, x[0]) - slices.Index(order, y[0]); c != 0 {
			return c
		}
		return strings.Compare(x[1], y[1])
	})
	for _, k := range sorted {
		if maps.Equal(of[k], than[k]) || (k[0] == whatPlan || k[0] == whatLabel) && matched[k[1]] {
			continue
		}
		list = append(list, Difference{k[0], k[1], few(of[k]), few(than[k])})
	}
	return bothEnds(list)
}

// bothEnds says once what differs in the same way on the hosts of both ends.
func bothEnds(list []Difference) []Difference {
	var short []Difference
	for _, d := range list {
		end, name, _ := strings.Cut(d.Name, " ")
		other := d
		other.Name = map[string]string{"client": "server ", "server": "client "}[end] + name
		if (d.What == whatHost || d.What == whatLab) && slices.Contains(list, other) {
			if end == "client" {
				d.Name = "both " + name
				short = append(short, d)
			}
			continue
		}
		short = append(short, d)
	}
	return short
}

func factsOf(all []*trials.Trial) facts {
	f := facts{}
	hosts := map[*result.Ends[*result.Host]]bool{}
	labs := map[string]bool{}
	texts := map[string]bool{}
	for _, t := range all {
		f.add(whatProgram, "version", t.Gperf)
		if t.Hosts != nil && !hosts[t.Hosts] {
			hosts[t.Hosts] = true
			f.addHost("client", t.Hosts.Client)
			f.addHost("server", t.Hosts.Server)
		}
		kind := "none"
		if t.Lab != nil {
			kind = t.Lab.Kind
			f.addLab(t.Lab, labs)
		}
		f.add(whatLab, "kind", kind)
		for what, values := range map[string]map[string]string{whatPlan: t.Plan, whatLabel: t.Labels} {
			// Trials share their maps, mostly.
			id := fmt.Sprintf("%s %p", what, values)
			if texts[id] {
				continue
			}
			texts[id] = true
			for name, value := range values {
				f.add(what, name, value)
			}
		}
	}
	return f
}

func (f facts) addLab(l *trials.Lab, seen map[string]bool) {
	if len(l.Settings) == 0 {
		return
	}
	id := fmt.Sprintf("%p %d", &l.Settings[0], len(l.Settings))
	if seen[id] {
		return
	}
	seen[id] = true
	for _, s := range l.Settings {
		f.add(whatLab, strings.TrimSpace(s.End+" "+s.Name), s.Effective)
	}
}

// addHost adds all that is known of a machine but what no test depends on.
func (f facts) addHost(end string, h *result.Host) {
	if h == nil {
		return
	}
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return
	}
	delete(fields, "boot_id") // told by the count of boots
	delete(fields, "netns_inode")
	f.addFields(end+" ", fields)
}

func (f facts) addFields(prefix string, fields map[string]any) {
	for name, value := range fields {
		switch v := value.(type) {
		case nil:
		case map[string]any:
			if name == "sysctls" || name == "mitigations" || name == "offloads" {
				name = strings.TrimSuffix(name, "s")
			}
			f.addFields(prefix+name+".", v)
		default:
			f.add(whatHost, prefix+name, fmt.Sprint(v))
		}
	}
}
