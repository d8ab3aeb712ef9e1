//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/client"
	"gperf/control"
	"gperf/lab"
	"gperf/result"
	"gperf/sockopt"
	"gperf/sweep"
)

// A place is where the trials of a sweep run: against a server of its own, in a lab
// or not, or against one at a host.
type place struct {
	target string
	port   int
	child  *child
	stderr io.Writer
	lab    *lab.Lab
	kind   string
}

// A labSetting is one setting of a lab.
type labSetting = lab.Setting

func labKinds() (kinds []string) {
	for _, k := range lab.Kinds() {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// labNames are the names of the lab's settings, as help lists them.
func labNames() (names []string) {
	for _, d := range lab.Names() {
		names = append(names, d.Name)
	}
	return names
}

// labSets reports whether a lab has a setting of that name.
func labSets(name string) bool {
	family, _, _ := strings.Cut(name, ".")
	return slices.ContainsFunc(labNames(), func(n string) bool {
		f, _, many := strings.Cut(n, ".")
		return n == name || many && f == family
	})
}

func checkLab(kind string) error {
	if slices.Contains(labKinds(), kind) {
		return nil
	}
	return fmt.Errorf("unknown lab %q (known: %v)", kind, labKinds())
}

// parseLabSetting reads a setting of the lab: VALUE for both ends or CLIENT:SERVER.
func parseLabSetting(kind, name, value string) ([]labSetting, error) {
	if value == "" {
		return nil, nil // this cell leaves it alone
	}
	if kind == "" {
		if labSets(name) {
			return nil, fmt.Errorf("%s is a setting of a lab: --lab is missing", name)
		}
		return nil, fmt.Errorf("%s is no flag of the client, no knob and no setting of a lab", name)
	}
	all := []labSetting{{Name: name, Value: value}}
	if ends := strings.Split(value, ":"); len(ends) == 2 {
		all = nil
		for _, e := range []labSetting{{End: sockopt.Client.String(), Name: name, Value: ends[0]}, {End: sockopt.Server.String(), Name: name, Value: ends[1]}} {
			if e.Value != "" {
				all = append(all, e)
			}
		}
	}
	for _, s := range all {
		if err := lab.CheckSetting(lab.Kind(kind), s); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// enterLab makes this process one inside a lab, if one was asked for. It returns
// twice: in the process that waits, with the other's exit status, and inside.
func (o *sweepOptions) enterLab() (status int, inside bool, err error) {
	if o.Lab == "" {
		return exitOK, true, nil
	}
	return lab.Enter(lab.Kind(o.Lab))
}

// openPlace starts what the trials need.
func (o *sweepOptions) openPlace(stderr io.Writer) (*place, error) {
	p := &place{stderr: stderr, kind: o.Lab}
	var err error
	switch {
	case o.Host != "":
		p.target, p.port, err = client.Target(o.Host, control.Port)
		return p, err
	case o.Lab == "":
		if p.child, err = startServer(nil); err != nil {
			return nil, fmt.Errorf("start a server: %w", err)
		}
		p.target = p.child.addr.Addr().String()
	default:
		if p.lab, err = lab.Open(lab.Kind(o.Lab)); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
		if p.child, err = startServer(p.lab); err != nil {
			_ = p.lab.Close()
			return nil, fmt.Errorf("start a server in the lab: %w", err)
		}
	}
	p.port = int(p.child.addr.Port())
	return p, nil
}

// host is where the server is reached now.
func (p *place) host() (string, int) {
	if p.lab != nil {
		return p.lab.Address().String(), p.port
	}
	return p.target, p.port
}

// apply makes the lab's settings those of a cell, and returns them as read back.
func (p *place) apply(settings []labSetting) ([]lab.Applied, error) {
	if p.lab == nil {
		return nil, nil
	}
	return p.lab.Apply(settings)
}

// try sets the lab up for each cell once, before anything is measured: some things
// only its kernel can refuse.
func (p *place) try(cells []sweep.Cell, plans []*cellPlan) error {
	tried := map[string]bool{}
	for i := range cells {
		key := fmt.Sprint(plans[i].lab)
		if p.lab == nil || tried[key] {
			continue
		}
		tried[key] = true
		if _, err := p.lab.Apply(plans[i].lab); err != nil {
			return fmt.Errorf("%s: %w", &cells[i], err)
		}
	}
	return nil
}

// describe is the lab as a result shows it, nil: there is none.
func (p *place) describe(held []lab.Applied) *result.Lab {
	if p.lab == nil {
		return nil
	}
	l := &result.Lab{Kind: p.kind}
	for _, a := range held {
		l.Settings = append(l.Settings, result.LabSetting(a))
	}
	if stats, ok := p.lab.LinkStats(); ok {
		l.Link = &result.LabLink{}
		for _, d := range []lab.DirectionStats{stats.Client, stats.Server} {
			l.Link.Packets += uint64(d.Packets)
			l.Link.Lost += uint64(d.Lost)
			l.Link.Overflow += uint64(d.QueueDrops + d.MemoryDrops + d.DeviceDrops + d.Failed)
			l.Link.MostQueued = max(l.Link.MostQueued, uint64(d.QueueHighBytes))
		}
	}
	return l
}

func (p *place) close() {
	if p.child != nil {
		p.child.end(p.stderr)
	}
	if p.lab != nil {
		_ = p.lab.Close()
	}
}
