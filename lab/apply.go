package lab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A held is a plain setting in force in a place.
type held struct {
	place *place
	wish  wish
	undo  func() error // what was before; runs in the namespace
}

// Apply makes exactly these settings hold: what an earlier call has set and
// this one doesn't goes back to what it was. Each setting is read back, and one
// that doesn't hold as asked is an error. After an error some of the settings
// may hold and others not; the next call puts that right.
//
// The settings are returned by end, in the order of Names, each with what is
// in force; and with them what follows from them.
//
// Apply begins gperf's own link anew: its counters, its random numbers and its
// delay spike. If the link has to be made of something else, or of another
// number of queues, connections over it live on, for the addresses stay.
func (l *Lab) Apply(settings []Setting) ([]Applied, error) {
	all, err := resolve(l.kind, settings)
	if err != nil {
		return nil, err
	}
	if err := l.apply(all); err != nil {
		return nil, fmt.Errorf("apply lab settings: %w", err)
	}
	applied := []Applied{}
	for i, w := range all {
		rows, err := l.readBack(l.places[i], w)
		if err != nil {
			return nil, fmt.Errorf("apply lab settings: %w", err)
		}
		applied = append(applied, rows...)
	}
	return applied, nil
}

func (l *Lab) apply(all []*wanted) error {
	to := link{relay: slices.ContainsFunc(all, (*wanted).relayed)}
	for i, w := range all {
		to.queues[i] = w.queues
		to.plain[i] = to.relay && w.shape.plainPackets()
	}
	anew := l.kind == Veth && to != l.link
	if err := l.undo(func(h *held) bool {
		// What was set on the old link's devices, and maybe by a sysctl of
		// theirs, is undone while they are there.
		return !anew && slices.ContainsFunc(all[l.index(h.place)].wishes, h.wish.same)
	}); err != nil {
		return err
	}
	if anew {
		if err := l.build(to); err != nil {
			return err
		}
	}
	if l.relay != nil {
		if err := l.relay.start([2]shape{all[0].shape, all[1].shape}); err != nil {
			return err
		}
	}
	for i, w := range all {
		p := l.places[i]
		err := p.do(func() error {
			for _, wish := range w.wishes {
				if err := l.set(p, wish); err != nil {
					return err
				}
			}
			if err := p.apply(w.egress); err != nil {
				return fmt.Errorf("%s%s: %w", p.of(), w.egress.describe(), err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, p := range l.places { // what went down or lost its addresses on the way
		if err := p.do(p.awaitReady); err != nil {
			return err
		}
	}
	return nil
}

// index is the place's in places.
func (l *Lab) index(p *place) int { return slices.Index(l.places, p) }

// of names the end in messages, if there are two.
func (p *place) of() string {
	if p.both {
		return ""
	}
	return p.end.String() + ": "
}

func (w wish) same(other wish) bool { return w.name == other.name && w.value == other.value }

// set puts one plain setting into force unless it is. It runs in the
// namespace.
func (l *Lab) set(p *place, w wish) error {
	if w.row.group != plain {
		return nil
	}
	if slices.ContainsFunc(l.force, func(h *held) bool { return h.place == p && h.wish.same(w) }) {
		return nil
	}
	undo, err := w.row.saved(p, w.arg)
	if err == nil {
		// Listed before it is set: what fails may have changed something.
		l.force = append(l.force, &held{p, w, undo})
		err = w.row.set(p, w.arg, w.value)
	}
	if err != nil {
		return fmt.Errorf("%s%s=%s: %w", p.of(), w.name, w.value, err)
	}
	return nil
}

// saved returns a function that puts back what is in force now.
func (r *row) saved(p *place, arg string) (func() error, error) {
	if r.save != nil {
		return r.save(p, arg)
	}
	was, err := r.read(p, arg)
	if err != nil {
		return nil, err
	}
	return func() error { return r.set(p, arg, was) }, nil
}

// undo puts back what was before the plain settings in force, the last first,
// but for those to keep. All go if keep is nil.
func (l *Lab) undo(keep func(*held) bool) error {
	var kept []*held
	for len(l.force) > 0 {
		last := len(l.force) - 1
		h := l.force[last]
		l.force = l.force[:last]
		if keep != nil && keep(h) {
			kept = append(kept, h)
			continue
		}
		if err := h.place.do(h.undo); err != nil {
			l.force = slices.Concat(l.force, []*held{h}, kept)
			return fmt.Errorf("%sput %s back: %w", h.place.of(), h.wish.name, err)
		}
	}
	slices.Reverse(kept)
	l.force = kept
	return nil
}

// readBack reads what is in force in a place and compares it with what was
// wanted.
func (l *Lab) readBack(p *place, w *wanted) ([]Applied, error) {
	end := ""
	if l.kind == Veth {
		end = p.end.String()
	}
	var applied []Applied
	extra := map[string]string{} // what follows from the settings
	err := p.do(func() error {
		sending, err := p.readEgress()
		if err != nil {
			return err
		}
		if l.relay != nil {
			for name, value := range l.relay.effective(l.index(p)) {
				sending[name] = value
			}
			if w.shape.plainPackets() {
				tso, err := readFeature(p, "tso")
				if err == nil && tso != "off" {
					err = errors.New("TSO of the link stays on")
				}
				if err != nil {
					return err
				}
				extra["offload.tso"] = tso
			}
		}
		for _, wish := range w.wishes {
			var value string
			switch {
			case wish.name == "queues":
				value, err = p.readQueues()
			case wish.row.group == plain:
				value, err = wish.row.read(p, wish.arg)
			default:
				value = sending[wish.name]
			}
			if err != nil {
				return fmt.Errorf("read %s%s back: %w", p.of(), wish.name, err)
			}
			if !sameValue(value, wish.value) {
				return fmt.Errorf("%s%s: %q doesn't hold, it is %q", p.of(), wish.name, wish.value, value)
			}
			delete(extra, wish.name)
			applied = append(applied, Applied{end, wish.name, wish.requested, value})
		}
		if queue := sending["link-queue"]; queue != "" && w.value("link-queue") == "" {
			extra["link-queue"] = queue
		}
		return nil
	})
	for name, value := range extra {
		applied = append(applied, Applied{end, name, "", value})
	}
	slices.SortStableFunc(applied, func(a, b Applied) int { return position(a.Name) - position(b.Name) })
	return applied, err
}

// position is the place of a setting in the table.
func position(name string) int {
	r, _, _ := find(name)
	return slices.Index(rows, r)
}

// sameValue compares what was read with what was set, both in normal form. Only
// a sysctl may still be written in more than one way.
func sameValue(read, set string) bool {
	return slices.EqualFunc(strings.Fields(read), strings.Fields(set), func(a, b string) bool {
		x, err := strconv.ParseInt(a, 0, 64)
		y, err2 := strconv.ParseInt(b, 0, 64)
		return a == b || err == nil && err2 == nil && x == y
	})
}
