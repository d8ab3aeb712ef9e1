package acceptance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gperf/internal/netnstest"
	"gperf/plan"
	"gperf/result"
)

// checkSums checks that streams and intervals add up to the totals, for each
// end and to the byte.
func checkSums(t *testing.T, o *outcome) {
	t.Helper()
	equal := func(what string, got, want uint64) {
		t.Helper()
		if got != want {
			t.Errorf("%v: %s: %d, not %d", o.args, what, got, want)
		}
	}
	value := func(what string, p *uint64) uint64 {
		t.Helper()
		if p == nil {
			t.Fatalf("%v: %s is null", o.args, what)
		}
		return *p
	}
	for d, f := range o.directions() {
		var sent, received, acked, segments, bytes uint64
		for _, s := range o.Streams {
			if s.Direction != d && s.Direction != plan.Both {
				continue
			}
			from, to := s.Client, s.Server
			if d == plan.ServerToClient {
				from, to = to, from
			}
			sent += from.SentBytes
			acked += value("stream's acked_bytes", from.AckedBytes)
			segments += value("stream's retransmitted_segments", from.RetransSegs)
			bytes += value("stream's retransmitted_bytes", from.RetransBytes)
			received += to.ReceivedBytes
		}
		name := string(d)
		equal(name+": streams' sent_bytes", sent, value("sent_bytes", f.SentBytes))
		equal(name+": streams' acked_bytes", acked, value("acked_bytes", f.AckedBytes))
		equal(name+": streams' received_bytes", received, value("received_bytes", f.ReceivedBytes))
		equal(name+": streams' retransmitted_segments", segments, value("retransmitted_segments", f.RetransSegs))
		equal(name+": streams' retransmitted_bytes", bytes, value("retransmitted_bytes", f.RetransBytes))
	}
	if o.Plan.Interval == 0 {
		return
	}
	for _, d := range o.Plan.Directions() {
		checkIntervals(t, o, d)
	}
}

// checkIntervals checks that the intervals of one direction follow on each
// other and add up to each stream's totals.
func checkIntervals(t *testing.T, o *outcome, d plan.Direction) {
	t.Helper()
	type counts struct{ bytes, sent, acked, segments, retransmitted, transactions uint64 }
	got, want := map[int]counts{}, map[int]counts{}
	at, all, retransmits := 0.0, uint64(0), uint64(0)
	for i, iv := range o.Intervals {
		if iv.Direction != d {
			continue
		}
		if iv.Start != at || iv.End < iv.Start {
			t.Errorf("%v: interval %d is from %v to %v s; the one before ended at %v", o.args, i, iv.Start, iv.End, at)
		}
		at = iv.End
		all += iv.Bytes
		retransmits += deref(iv.RetransSegs)
		for _, s := range iv.Streams {
			c := got[s.ID]
			c.bytes += s.Bytes
			c.sent += deref(s.SentBytes)
			c.acked += deref(s.AckedBytes)
			c.segments += deref(s.RetransSegs)
			c.retransmitted += deref(s.RetransBytes)
			c.transactions += deref(s.Transactions)
			got[s.ID] = c
		}
	}
	var total counts
	for _, s := range o.Streams {
		if s.Direction != d {
			continue
		}
		measures, other := s.Client, s.Server
		if !measures.Role.Measures() {
			measures, other = other, measures
		}
		c := counts{bytes: measures.ReceivedBytes, transactions: deref(s.Transactions)}
		if d == plan.Both {
			c.sent, c.acked = measures.SentBytes, deref(measures.AckedBytes)
			c.segments = deref(measures.RetransSegs) + deref(other.RetransSegs)
			c.retransmitted = deref(measures.RetransBytes) + deref(other.RetransBytes)
		} else {
			c.sent, c.acked = other.SentBytes, deref(other.AckedBytes)
			c.segments, c.retransmitted = deref(other.RetransSegs), deref(other.RetransBytes)
		}
		want[s.ID] = c
		total.bytes += c.bytes
		total.segments += c.segments
	}
	if len(want) == 0 {
		t.Fatalf("%v: no streams of direction %s", o.args, d)
	}
	for id, w := range want {
		if got[id] != w {
			t.Errorf("%v: stream %d: its intervals add up to %+v, not %+v", o.args, id, got[id], w)
		}
	}
	if all != total.bytes || retransmits != total.segments {
		t.Errorf("%v: intervals of all streams have %d bytes and %d retransmits, not %d and %d", o.args, all, retransmits, total.bytes, total.segments)
	}
	if o.Summary.Duration == nil || math.Abs(at-*o.Summary.Duration) > 1e-9 {
		t.Errorf("%v: the last interval ends at %v s, the window at %v", o.args, at, o.Summary.Duration)
	}
}

func deref(p *uint64) uint64 {
	if p == nil {
		return 0
	}
	return *p
}

// P016 and its kind: a test that ends by a count moves exactly that, by its own
// and by the other end's account, and takes the time that it takes.
func TestExactCounts(t *testing.T) {
	t.Parallel()
	const bytes, transactions = 5000003, 1001
	s := serve(t, place{})
	for _, test := range []string{"TCP_STREAM", "TCP_MAERTS", "TCP_RR"} {
		for _, streams := range []int{1, 3} {
			for _, interval := range []string{"", "0.01"} {
				t.Run(fmt.Sprintf("%s/%d/%s", test, streams, interval), func(t *testing.T) {
					args := []string{"-t", test, "-P", fmt.Sprint(streams)}
					if interval != "" {
						args = append(args, "-i", interval)
					}
					if test == "TCP_RR" {
						o := s.complete(place{}, append(args, "--transactions", fmt.Sprint(transactions), "--request-size", "10", "--response-size", "1000")...)
						checkSums(t, o)
						checkTransactions(t, o, streams, transactions)
						return
					}
					o := s.complete(place{}, append(args, "--bytes", fmt.Sprint(bytes))...)
					checkSums(t, o)
					checkBytes(t, o, streams, bytes)
				})
			}
		}
	}
}

// checkBytes checks that every end of a one-way test counts the same.
func checkBytes(t *testing.T, o *outcome, streams int, bytes uint64) {
	t.Helper()
	for what, got := range map[string]*uint64{
		"sent": o.Summary.SentBytes, "received": o.Summary.ReceivedBytes, "acked": o.Summary.AckedBytes,
	} {
		if got == nil || *got != bytes {
			t.Errorf("%v: %s %d bytes, not %d", o.args, what, deref(got), bytes)
		}
	}
	if len(o.Streams) != streams {
		t.Fatalf("%v: %d streams", o.args, len(o.Streams))
	}
	for _, s := range o.Streams {
		from, to := s.Client, s.Server
		if s.Direction == plan.ServerToClient {
			from, to = to, from
		}
		share := bytes / uint64(streams)
		if from.SentBytes != to.ReceivedBytes || from.SentBytes < share || from.SentBytes > share+1 {
			t.Errorf("%v: stream %d sent %d, received %d; its share is %d", o.args, s.ID, from.SentBytes, to.ReceivedBytes, share)
		}
		if from.ReceivedBytes != 0 || to.SentBytes != 0 {
			t.Errorf("%v: stream %d moved bytes the other way", o.args, s.ID)
		}
	}
	checkDuration(t, o)
}

func checkTransactions(t *testing.T, o *outcome, streams int, transactions uint64) {
	t.Helper()
	total := uint64(0)
	for _, s := range o.Streams {
		n := deref(s.Transactions)
		total += n
		if s.Client.SentBytes != 10*n || s.Server.ReceivedBytes != 10*n || s.Server.SentBytes != 1000*n || s.Client.ReceivedBytes != 1000*n {
			t.Errorf("%v: stream %d moved %d/%d and %d/%d bytes in %d transactions of 10 and 1000", o.args, s.ID,
				s.Client.SentBytes, s.Server.ReceivedBytes, s.Server.SentBytes, s.Client.ReceivedBytes, n)
		}
	}
	if len(o.Streams) != streams || total != transactions || deref(o.Summary.Transactions) != transactions {
		t.Errorf("%v: %d streams, %d transactions in them, %d in all; want %d", o.args, len(o.Streams), total, deref(o.Summary.Transactions), transactions)
	}
	checkDuration(t, o)
}

// checkDuration: what ended by a count took neither no time nor whole seconds.
func checkDuration(t *testing.T, o *outcome) {
	t.Helper()
	if d := o.Summary.Duration; d == nil || *d <= 0 || *d == math.Trunc(*d) {
		t.Errorf("%v: duration %v", o.args, d)
	}
}

// Timed tests add up too, whatever their streams and intervals.
func TestTimedSums(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, args := range [][]string{
		{"-t", "TCP_STREAM", "-P", "3", "-i", "0.01"},
		{"-t", "TCP_MAERTS", "-P", "3", "-i", "0.05"},
		{"-t", "TCP_RR", "-P", "2", "-i", "0.01", "--burst", "4"},
		{"-t", "TCP_STREAM", "--warmup", "0.1", "-i", "0.05"},
		{"-t", "TCP_RR", "--warmup", "0.1", "-i", "0.05"},
	} {
		o := s.complete(place{}, append(args, "-d", "0.2")...)
		checkSums(t, o)
		// A late tick makes one longer interval, but there are some.
		if len(o.Intervals) < 2 {
			t.Errorf("%v: %d intervals", o.args, len(o.Intervals))
		}
	}
}

// Under real losses retransmits add up as well, those of the tail included, and
// the byte counts stay exact.
func TestSumsUnderLoss(t *testing.T) {
	t.Parallel()
	a, b := netnstest.NewPair(t, netnstest.Pair{})
	a.SetTSO(false) // a lost packet is one segment
	b.SetTSO(false)
	for _, n := range []*netnstest.NS{a, b} {
		// Full segments only, so that the control connection is left in peace.
		n.Nft(`table inet t { chain c { type filter hook input priority 0; meta length > 1000 numgen random mod 100 < 1 drop; }; }`)
	}
	s := serve(t, place{ns: b}, "--listen", b.Addr4.String()+":0")
	for _, test := range []string{"TCP_STREAM", "TCP_MAERTS"} {
		for _, streams := range []int{1, 3} {
			o := s.complete(place{ns: a}, "-t", test, "-P", fmt.Sprint(streams), "--bytes", "5000003", "-i", "0.01", "--congestion", "reno")
			checkSums(t, o)
			checkBytes(t, o, streams, 5000003)
			// 3453 segments at 1 in 100: that none is lost has a chance of 1e-15.
			if deref(o.Summary.RetransSegs) == 0 || deref(o.Summary.RetransBytes) == 0 {
				t.Errorf("%v: no retransmits in spite of losses", o.args)
			}
		}
	}
	// Transactions of many segments, which are lost both ways.
	o := s.complete(place{ns: a}, "-t", "TCP_RR", "--transactions", "40", "--request-size", "100K", "--response-size", "100K", "-i", "0.01", "--congestion", "reno")
	checkSums(t, o)
	if got := deref(o.Summary.Transactions); got != 40 {
		t.Errorf("%d transactions", got)
	}
	for d, f := range o.directions() {
		if deref(f.RetransSegs) == 0 {
			t.Errorf("TCP_RR: no retransmits %s", d)
		}
	}
}

// Sends that the kernel cuts short, here since one takes longer than a send may
// block, keep the byte stream exact.
func TestShortSends(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, tt := range []struct{ test, sndbuf, rate string }{
		{"TCP_STREAM", "64K:", "20Mbit:"},
		{"TCP_MAERTS", ":64K", ":20Mbit"},
	} {
		o := s.complete(place{}, "-t", tt.test, "--bytes", "1500007", "-m", "1M", "--sndbuf", tt.sndbuf, "--pacing-rate", tt.rate)
		checkBytes(t, o, 1, 1500007)
		sender := o.Streams[0].Client
		if sender.Role != plan.Sender {
			sender = o.Streams[0].Server
		}
		if sender.ShortSends == 0 {
			t.Errorf("%s: no send was cut short", tt.test)
		}
	}
}

// Many large transactions at once over small buffers: who sends only, and who
// reads only, would wait for the other for ever.
func TestNoDeadlock(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	for _, sizes := range [][2]string{{"16K", "16K"}, {"256K", "1"}, {"1", "256K"}} {
		o := s.complete(place{}, "-t", "TCP_RR", "--burst", "16", "--transactions", "64",
			"--request-size", sizes[0], "--response-size", sizes[1], "--sndbuf", "8K", "--rcvbuf", "8K")
		if got := deref(o.Summary.Transactions); got != 64 {
			t.Errorf("%v: %d transactions", sizes, got)
		}
	}
}

// Interval lines and the document of JSON lines tell the same.
func TestJSONLines(t *testing.T) {
	t.Parallel()
	s := serve(t, place{})
	p := start(t, place{}, "client", s.addr.String(), "-d", "0.3", "-i", "0.05", "-P", "2", "--format", "jsonl", "--label", "a=b")
	o := p.outcome()
	o.mustComplete(t)
	checkSums(t, o)
	if o.Labels["a"] != "b" {
		t.Errorf("labels %v", o.Labels)
	}
	lines := 0
	for line := range slices.Values(splitLines(o.stdout)) {
		if err := strict(line); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		lines++
	}
	if lines != len(o.Intervals)+1 || o.Status != result.Complete {
		t.Errorf("%d lines for %d intervals", lines, len(o.Intervals))
	}
}
