package result

// grownColumn is how much a column of the half's samples grew over the window, the
// entries from up to, not including, to; nil when there is no such column.
func (h *Half) grownColumn(name string, from, to int) *uint64 {
	if h == nil {
		return nil
	}
	opening, closing := h.edges()
	return grownColumn(opening, closing, name, from, to)
}

func grownColumn(opening, closing *Sample, name string, from, to int) *uint64 {
	before, ok1 := opening.TCP[name]
	after, ok2 := closing.TCP[name]
	if !ok1 || !ok2 || len(before) < to || len(after) < to {
		return nil
	}
	total := uint64(0)
	for i := from; i < to; i++ {
		total += after[i] - before[i]
	}
	return &total
}

// datagrams is what became of the datagrams of the direction's streams, from up to,
// not including, to; nil when they are none.
func (p *pair) datagrams(from, to int) *Datagrams {
	m, o := p.measure(), p.other()
	opening, closing := m.edges()
	d := &Datagrams{
		OutOfOrder:  m.grownColumn(OutOfOrder, from, to),
		Duplicates:  m.grownColumn(Duplicates, from, to),
		SocketDrops: m.grownColumn(SocketDrops, from, to),
	}
	jitter, numbered := closing.TCP[JitterNs]
	if !numbered && d.SocketDrops == nil {
		return nil
	}
	received := uint64(0)
	for i := from; i < to; i++ {
		received += closing.ReceiveCalls[i] - opening.ReceiveCalls[i]
	}
	d.Received = &received
	if d.Lost = lost(opening, closing, from, to); d.Lost != nil {
		if should := *d.Lost + received - *d.Duplicates; should > 0 {
			percent := 100 * float64(*d.Lost) / float64(should)
			d.LostPercent = &percent
		}
	}
	if numbered && received > 0 && len(jitter) >= to {
		us := 0.0
		for i := from; i < to; i++ {
			us += float64(jitter[i]) / 1e3 / float64(to-from)
		}
		d.Jitter = &us
	}
	if o != nil && o.width() >= to {
		first, last := o.edges()
		sent := uint64(0)
		for i := from; i < to; i++ {
			sent += last.SendCalls[i] - first.SendCalls[i]
		}
		d.Sent = &sent
		d.SendErrors = o.grownColumn(SendErrors, from, to)
	}
	return d
}

// lost is how many datagrams didn't come between two samples; nil when they have
// no numbers.
func lost(opening, closing *Sample, from, to int) *uint64 {
	total := uint64(0)
	for i := from; i < to; i++ {
		expected, duplicates := grownColumn(opening, closing, ExpectedDatagrams, i, i+1), grownColumn(opening, closing, Duplicates, i, i+1)
		if expected == nil || duplicates == nil {
			return nil
		}
		came := closing.ReceiveCalls[i] - opening.ReceiveCalls[i] - *duplicates
		// Late ones of before the opening can make it more than was expected.
		total += *expected - min(*expected, came)
	}
	return &total
}

// connectErrors adds up the failed connects of the half's streams; nil but in
// connection tests.
func (h *Half) connectErrors() map[string]uint64 {
	if _, ok := h.Series[0].TCP[ConnectErrors]; !ok {
		return nil
	}
	all := map[string]uint64{}
	for i := range h.Streams {
		for name, n := range h.Streams[i].ConnectErrors {
			all[name] += n
		}
	}
	return all
}
