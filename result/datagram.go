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
	_, numbered := closing.TCP[JitterNs]
	if !numbered && d.SocketDrops == nil {
		return nil
	}
	received := uint64(0)
	for i := from; i < to; i++ {
		received += closing.ReceiveCalls[i] - opening.ReceiveCalls[i]
	}
	d.Received = &received
	if n := lost(opening, closing, from, to); n != nil {
		// Late ones of the warm-up can be more than all that was lost.
		lost := uint64(max(*n, 0))
		d.Lost = &lost
		if should := *d.Lost + received - *d.Duplicates; should > 0 {
			percent := 100 * float64(*d.Lost) / float64(should)
			d.LostPercent = &percent
		}
	}
	if received > 0 {
		d.Jitter = jitter(closing, from, to)
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

// lost is how many datagrams of the streams from up to, not including, to were
// missed between two samples, less those missed before that came late; nil when
// they have no numbers.
func lost(opening, closing *Sample, from, to int) *int64 {
	before, ok1 := opening.TCP[LostDatagrams]
	after, ok2 := closing.TCP[LostDatagrams]
	if !ok1 || !ok2 || len(before) < to || len(after) < to {
		return nil
	}
	total := int64(0)
	for i := from; i < to; i++ {
		total += int64(after[i] - before[i])
	}
	return &total
}

// jitter is the mean jitter of the streams from up to, not including, to, in
// microseconds; nil when their datagrams have no times.
func jitter(s *Sample, from, to int) *float64 {
	column, ok := s.TCP[JitterNs]
	if !ok || len(column) < to || from == to {
		return nil
	}
	us := 0.0
	for _, ns := range column[from:to] {
		us += float64(ns) / 1e3 / float64(to-from)
	}
	return &us
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
