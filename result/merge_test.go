package result_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// A fake is a half made by hand, and what really happened in it, which nobody
// could get wrong by subtracting.
type fake struct {
	half     result.Half
	sent     []uint64 // per stream, inside the window; so are the others
	received []uint64
	done     []uint64
	acked    []uint64 // 64 bits wide
	retrans  []uint64 // 32 bits wide
	ticks    map[int]bool
}

const interval = 100 * time.Millisecond

var (
	retransName = sockopt.TotalRetrans.Name()
	ackedName   = sockopt.BytesAcked.Name()
)

// drawFake makes one end's half of direction d with n streams and ticks up to
// last, some of which it missed.
func drawFake(t *rapid.T, end sockopt.End, d plan.Direction, n, last int) *fake {
	label := func(s string) string { return end.String() + " " + s }
	f := &fake{ticks: map[int]bool{}}
	f.half = result.Half{Direction: d, Role: d.Role(end), Streams: make([]result.HalfStream, n)}
	zero := func() []uint64 { return make([]uint64, n) }
	f.sent, f.received, f.done, f.acked, f.retrans = zero(), zero(), zero(), zero(), zero()
	clock := rapid.Int64Range(0, 1<<50).Draw(t, label("clock"))
	for i := range n {
		f.half.Streams[i].ID = i + 1
	}
	// What was before the window: counters don't begin at 0, and those of 32
	// bits may be about to wrap.
	now := result.Sample{
		AtNs: clock, Sent: zero(), Received: zero(), SendCalls: zero(), ReceiveCalls: zero(),
		ShortSends: zero(), Interruptions: zero(), Transactions: zero(),
	}
	acked, retrans := zero(), make([]uint32, n)
	before := rapid.Uint64Range(0, 1<<40)
	for i := range n {
		now.Sent[i], now.Received[i] = before.Draw(t, "sent before"), before.Draw(t, "received before")
		acked[i], retrans[i] = before.Draw(t, "acked before"), rapid.SampledFrom([]uint32{0, 7, math.MaxUint32 - 3}).Draw(t, "retransmitted before")
	}
	hasTCP := rapid.Bool().Draw(t, label("reports TCP_INFO"))
	snap := func(tick int, at int64) {
		s := now
		s.Tick, s.AtNs = tick, at
		for _, column := range []*[]uint64{&s.Sent, &s.Received, &s.SendCalls, &s.ReceiveCalls, &s.ShortSends, &s.Interruptions, &s.Transactions} {
			*column = append([]uint64(nil), *column...)
		}
		if hasTCP {
			s.TCP = map[string][]uint64{ackedName: append([]uint64(nil), acked...), retransName: zero()}
			for i, v := range retrans {
				s.TCP[retransName][i] = uint64(v)
			}
		}
		f.half.Series = append(f.half.Series, s)
	}
	snap(0, clock)
	at := clock
	for tick := 1; tick <= last+1; tick++ {
		for i := range n {
			if rapid.Bool().Draw(t, "idle") {
				continue
			}
			more := rapid.Uint64Range(0, 1<<33).Draw(t, "bytes")
			few := rapid.Uint32Range(0, 1<<28).Draw(t, "segments")
			now.Sent[i], f.sent[i] = now.Sent[i]+more, f.sent[i]+more
			now.Received[i], f.received[i] = now.Received[i]+more/3, f.received[i]+more/3
			now.Transactions[i], f.done[i] = now.Transactions[i]+more/7, f.done[i]+more/7
			acked[i], f.acked[i] = acked[i]+more/2, f.acked[i]+more/2
			retrans[i], f.retrans[i] = retrans[i]+few, f.retrans[i]+uint64(few)
		}
		// Late by some part of an interval; a tick later than that was missed.
		at = clock + int64(tick)*int64(interval) + rapid.Int64Range(0, int64(interval)-1).Draw(t, "late")
		switch {
		case tick > last:
			snap(result.LastTick, at)
		case rapid.IntRange(0, 3).Draw(t, label("missed")) > 0:
			snap(tick, at)
			f.ticks[tick] = true
		}
	}
	f.half.OpenedNs, f.half.ClosedNs = clock, at
	if !hasTCP {
		f.acked, f.retrans = nil, nil
	}
	return f
}

func report(f *fake) *result.Report {
	if f == nil {
		return new(result.Report)
	}
	return &result.Report{Halves: []result.Half{f.half}}
}

// total adds up; nil for an unknown column.
func total(column []uint64) *uint64 {
	if column == nil {
		return nil
	}
	sum := uint64(0)
	for _, v := range column {
		sum += v
	}
	return &sum
}

// same fails the test if two optional figures differ.
func same(t *rapid.T, what string, got, want *uint64) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// Of everything that both ends counted, the streams add up to the totals and
// the intervals add up to the totals, whatever ticks were late or missed and
// whichever end is missing.
func TestMergeAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]plan.Direction{plan.ClientToServer, plan.ServerToClient, plan.Both}).Draw(t, "direction")
		n := rapid.IntRange(1, 3).Draw(t, "streams")
		last := rapid.IntRange(0, 6).Draw(t, "ticks")
		var client, server *fake
		missing := rapid.SampledFrom([]string{"", "", "client", "server", "both"}).Draw(t, "missing")
		if missing == "" || missing == "server" {
			client = drawFake(t, sockopt.Client, d, n, last)
		}
		if missing == "" || missing == "client" {
			server = drawFake(t, sockopt.Server, d, n, last)
		}
		for _, f := range []*fake{client, server} {
			if f == nil {
				continue
			}
			if err := f.half.Check(n); err != nil {
				t.Fatal(err)
			}
		}
		types := map[plan.Direction]plan.Type{plan.ClientToServer: plan.TCPStream, plan.ServerToClient: plan.TCPMaerts, plan.Both: plan.TCPRR}
		r := &result.Run{Plan: &plan.Test{Type: types[d], Streams: n, Interval: plan.Seconds(interval)}}
		if err := r.Merge(report(client), report(server), nil); err != nil {
			t.Fatal(err)
		}
		if client == nil && server == nil {
			if r.Summary != nil || r.Streams != nil || r.Intervals != nil {
				t.Fatal("nothing was measured, and something is told")
			}
			return
		}
		measure, other := server, client
		if d.Role(sockopt.Client).Measures() {
			measure, other = client, server
		}
		checkTotals(t, r, d, measure, other)
		checkStreams(t, r, client, server)
		checkIntervals(t, r, d, measure, other)
	})
}

func checkTotals(t *rapid.T, r *result.Run, d plan.Direction, measure, other *fake) {
	var sent, acked, retrans, received, done *uint64
	if d == plan.Both {
		if measure != nil {
			done = total(measure.done)
		}
		if measure != nil && other != nil {
			both := func(a, b []uint64) *uint64 {
				if a == nil || b == nil {
					return nil
				}
				return total(append(a[:len(a):len(a)], b...))
			}
			sent, received = both(measure.sent, other.sent), both(measure.received, other.received)
			acked, retrans = both(measure.acked, other.acked), both(measure.retrans, other.retrans)
		}
	} else {
		if other != nil {
			sent, acked, retrans = total(other.sent), total(other.acked), total(other.retrans)
		}
		if measure != nil {
			received = total(measure.received)
		}
	}
	s := r.Summary
	same(t, "sent", s.SentBytes, sent)
	same(t, "acked", s.AckedBytes, acked)
	same(t, "retransmitted", s.RetransSegs, retrans)
	same(t, "received", s.ReceivedBytes, received)
	same(t, "transactions", s.Transactions, done)
	if measure == nil {
		if s.Duration != nil || s.Throughput != nil || s.TPS != nil {
			t.Fatalf("without the measuring end: duration %v, throughput %v, transactions %v", s.Duration, s.Throughput, s.TPS)
		}
		return
	}
	seconds := float64(measure.half.ClosedNs-measure.half.OpenedNs) / 1e9
	if s.Duration == nil || *s.Duration != seconds {
		t.Fatalf("duration %v, want %v", s.Duration, seconds)
	}
	rate, count := s.Throughput, 8*float64(*total(measure.received))
	if d == plan.Both {
		rate, count = s.TPS, float64(*done)
	}
	if rate == nil || math.Abs(*rate*seconds-count) > 1e-9*count {
		t.Fatalf("rate %v over %v s, of %v", rate, seconds, count)
	}
}

func checkStreams(t *rapid.T, r *result.Run, client, server *fake) {
	for i, s := range r.Streams {
		if s.ID != i+1 {
			t.Fatalf("stream %d is called %d", i+1, s.ID)
		}
		for _, end := range []struct {
			f *fake
			e *result.StreamEnd
		}{{client, s.Client}, {server, s.Server}} {
			if (end.f == nil) != (end.e == nil) {
				t.Fatalf("stream %d: an end is there that isn't, or the other way round", s.ID)
			}
			if end.f == nil {
				continue
			}
			same(t, "stream's sent", &end.e.SentBytes, &end.f.sent[i])
			same(t, "stream's received", &end.e.ReceivedBytes, &end.f.received[i])
			same(t, "stream's acked", end.e.AckedBytes, at(end.f.acked, i))
			same(t, "stream's retransmitted", end.e.RetransSegs, at(end.f.retrans, i))
		}
	}
}

func at(column []uint64, i int) *uint64 {
	if column == nil {
		return nil
	}
	return &column[i]
}

func checkIntervals(t *rapid.T, r *result.Run, d plan.Direction, measure, other *fake) {
	if measure == nil {
		if r.Intervals != nil {
			t.Fatal("intervals without the end that measures")
		}
		return
	}
	common := 1
	for tick := range measure.ticks {
		if other == nil || other.ticks[tick] {
			common++
		}
	}
	if len(r.Intervals) != common {
		t.Fatalf("%d intervals, want %d", len(r.Intervals), common)
	}
	end := 0.0
	n := len(measure.half.Streams)
	received, done, retrans, sent, acked := make([]uint64, n), make([]uint64, n), make([]uint64, n), make([]uint64, n), make([]uint64, n)
	for i, iv := range r.Intervals {
		if iv.Start != end || iv.End < iv.Start || iv.Direction != d {
			t.Fatalf("interval %d of %s runs from %v to %v after %v", i, iv.Direction, iv.Start, iv.End, end)
		}
		end = iv.End
		bytes, segments := uint64(0), uint64(0)
		for k, s := range iv.Streams {
			bytes += s.Bytes
			received[k] += s.Bytes
			if (s.Transactions != nil) != (d == plan.Both) {
				t.Fatalf("transactions: %v", s.Transactions)
			}
			add(&done[k], s.Transactions)
			add(&retrans[k], s.RetransSegs)
			add(&segments, s.RetransSegs)
			add(&sent[k], s.SentBytes)
			add(&acked[k], s.AckedBytes)
		}
		if iv.Bytes != bytes || iv.RetransSegs != nil && *iv.RetransSegs != segments {
			t.Fatalf("interval %d: the streams add up to %d bytes and %d segments, the total is %d and %d", i, bytes, segments, iv.Bytes, *iv.RetransSegs)
		}
	}
	if want := float64(measure.half.ClosedNs-measure.half.OpenedNs) / 1e9; end != want {
		t.Fatalf("the last interval ends at %v, the window at %v", end, want)
	}
	sender := other
	if d == plan.Both {
		sender = measure // what describes the path is the requester's
	}
	for k := range n {
		same(t, "intervals' received", &received[k], &measure.received[k])
		if d == plan.Both {
			same(t, "intervals' transactions", &done[k], &measure.done[k])
		}
		known := func(column func(*fake) []uint64) *uint64 {
			if sender == nil || column(sender) == nil {
				return new(uint64)
			}
			return &column(sender)[k]
		}
		same(t, "intervals' sent", &sent[k], known(func(f *fake) []uint64 { return f.sent }))
		same(t, "intervals' acked", &acked[k], known(func(f *fake) []uint64 { return f.acked }))
		want := known(func(f *fake) []uint64 { return f.retrans })
		if d == plan.Both {
			want = new(uint64)
			if other != nil && other.retrans != nil && measure.retrans != nil {
				*want = measure.retrans[k] + other.retrans[k]
			}
		}
		same(t, "intervals' retransmitted", &retrans[k], want)
	}
}

func add(to *uint64, v *uint64) {
	if v != nil {
		*to += *v
	}
}

// Samples that travel as totals give the same sums, and no streams.
func TestMergeTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]plan.Direction{plan.ClientToServer, plan.Both}).Draw(t, "direction")
		last := rapid.IntRange(0, 4).Draw(t, "ticks")
		client, server := drawFake(t, sockopt.Client, d, 3, last), drawFake(t, sockopt.Server, d, 3, last)
		alike := *server // the server's report never came: what it sent on the way stands in
		alike.half.Streams, alike.half.Series = nil, nil
		for _, s := range server.half.Series {
			sum := s.Totals()
			if err := sum.Check(1); err != nil {
				t.Fatal(err)
			}
			alike.half.Series = append(alike.half.Series, sum)
		}
		r := &result.Run{Plan: &plan.Test{Type: map[plan.Direction]plan.Type{plan.ClientToServer: plan.TCPStream, plan.Both: plan.TCPRR}[d], Streams: 3, Interval: plan.Seconds(interval)}}
		if err := r.Merge(report(client), report(&alike), nil); err != nil {
			t.Fatal(err)
		}
		measure, other := server, client
		if d == plan.Both {
			measure, other = client, server
		}
		checkTotals(t, r, d, measure, other)
		for _, s := range r.Streams {
			if s.Server != nil || s.Client == nil {
				t.Fatal("a stream has an end that isn't known, or lacks the other")
			}
		}
		bytes := uint64(0)
		for _, iv := range r.Intervals {
			bytes += iv.Bytes
			if measure == server && iv.Streams != nil {
				t.Fatal("an interval tells of streams, and totals were all there was")
			}
		}
		same(t, "intervals' bytes", &bytes, total(measure.received))
	})
}

// The same samples give the same intervals when they trickle in.
func TestMergerLive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.IntRange(0, 6).Draw(t, "ticks")
		a, b := drawFake(t, sockopt.Client, plan.ClientToServer, 2, last).half, drawFake(t, sockopt.Server, plan.ClientToServer, 2, last).half
		whole := result.NewMerger(plan.ClientToServer, []int{1, 2})
		for _, h := range []result.Half{a, b} {
			for _, s := range h.Series {
				whole.Add(h.Role, s)
			}
		}
		var got []result.Interval
		live := result.NewMerger(plan.ClientToServer, []int{1, 2})
		for i, j := 0, 0; i < len(a.Series) || j < len(b.Series); {
			if j == len(b.Series) || i < len(a.Series) && rapid.Bool().Draw(t, "client's next") {
				live.Add(a.Role, a.Series[i])
				i++
			} else {
				live.Add(b.Role, b.Series[j])
				j++
			}
			got = append(got, live.Intervals(false)...)
		}
		if d := cmp.Diff(whole.Intervals(false), got); d != "" {
			t.Fatalf("(-at once +live):\n%s", d)
		}
	})
}

// plainHalf is a half with one stream that moved bytes from openedNs to
// closedNs.
func plainHalf(d plan.Direction, end sockopt.End, openedNs, closedNs int64, bytes uint64) result.Half {
	sample := func(tick int, at int64, v uint64) result.Sample {
		c := func() []uint64 { return []uint64{v} }
		return result.Sample{
			Tick: tick, AtNs: at, Sent: c(), Received: c(), SendCalls: c(), ReceiveCalls: c(),
			ShortSends: c(), Interruptions: c(), Transactions: c(),
		}
	}
	return result.Half{
		Direction: d, Role: d.Role(end), OpenedNs: openedNs, ClosedNs: closedNs, Streams: []result.HalfStream{{ID: 1}},
		Series: []result.Sample{sample(0, openedNs, 0), sample(result.LastTick, closedNs, bytes)},
	}
}

// Skews are the sender's edges after the receiver's, by one clock.
func TestSkew(t *testing.T) {
	t.Parallel()
	const s = int64(time.Second)
	tests := []struct {
		name           string
		direction      plan.Direction
		client, server [2]int64 // edges of the windows by each end's clock
		offset         float64  // the server's clock minus the client's
		start, stop    float64
	}{
		{"one clock, client sends late", plan.ClientToServer, [2]int64{12 * s, 23 * s}, [2]int64{10 * s, 20 * s}, 0, 2, 3},
		{"one clock, server sends late", plan.ServerToClient, [2]int64{10 * s, 20 * s}, [2]int64{12 * s, 23 * s}, 0, 2, 3},
		{"one clock, client sends early", plan.ClientToServer, [2]int64{9 * s, 19 * s}, [2]int64{10 * s, 20 * s}, 0, -1, -1},
		{"server's clock ahead, client sends late", plan.ClientToServer, [2]int64{12 * s, 23 * s}, [2]int64{110 * s, 120 * s}, 100, 2, 3},
		{"server's clock ahead, server sends late", plan.ServerToClient, [2]int64{10 * s, 20 * s}, [2]int64{112 * s, 123 * s}, 100, 2, 3},
		{"server's clock behind, client sends late", plan.ClientToServer, [2]int64{112 * s, 123 * s}, [2]int64{10 * s, 20 * s}, -100, 2, 3},
	}
	for _, tt := range tests {
		typ := plan.TCPStream
		if tt.direction == plan.ServerToClient {
			typ = plan.TCPMaerts
		}
		r := &result.Run{Plan: &plan.Test{Type: typ, Streams: 1}}
		client := plainHalf(tt.direction, sockopt.Client, tt.client[0], tt.client[1], 1)
		server := plainHalf(tt.direction, sockopt.Server, tt.server[0], tt.server[1], 1)
		clock := &result.Clock{Offset: tt.offset}
		if err := r.Merge(&result.Report{Halves: []result.Half{client}}, &result.Report{Halves: []result.Half{server}}, clock); err != nil {
			t.Fatal(err)
		}
		if r.Summary.StartSkew == nil || *r.Summary.StartSkew != tt.start || r.Summary.StopSkew == nil || *r.Summary.StopSkew != tt.stop {
			t.Errorf("%s: skews %v and %v, want %v and %v", tt.name, show(r.Summary.StartSkew), show(r.Summary.StopSkew), tt.start, tt.stop)
		}
		if r.Intervals != nil {
			t.Errorf("%s: intervals that nobody asked for", tt.name)
		}
	}
	// Without a clock, or without one end, nothing is known of it.
	r := &result.Run{Plan: &plan.Test{Type: plan.TCPStream, Streams: 1}}
	server := plainHalf(plan.ClientToServer, sockopt.Server, 0, s, 1)
	if err := r.Merge(new(result.Report), &result.Report{Halves: []result.Half{server}}, &result.Clock{}); err != nil {
		t.Fatal(err)
	}
	if r.Summary.StartSkew != nil || r.Summary.StopSkew != nil || r.Summary.SentBytes != nil {
		t.Errorf("with the receiver only: %+v", r.Summary.Figures)
	}
}

func show(p *float64) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprint(*p)
}

// An empty window has no rates, and no division by zero.
func TestMergeEmptyWindow(t *testing.T) {
	t.Parallel()
	for _, typ := range plan.Types() {
		p := &plan.Test{Type: typ, Streams: 1, Interval: plan.Seconds(interval)}
		d := p.Directions()[0]
		r := &result.Run{Plan: p}
		client, server := plainHalf(d, sockopt.Client, 7, 7, 0), plainHalf(d, sockopt.Server, 9, 9, 0)
		if err := r.Merge(&result.Report{Halves: []result.Half{client}}, &result.Report{Halves: []result.Half{server}}, nil); err != nil {
			t.Fatal(err)
		}
		s := r.Summary
		if s.Throughput != nil || s.TPS != nil || s.Latency != nil || s.Duration == nil || *s.Duration != 0 {
			t.Errorf("%s: %+v", typ, s.Figures)
		}
		for _, iv := range r.Intervals {
			if iv.Throughput != nil || iv.TPS != nil {
				t.Errorf("%s: an empty interval has a rate", typ)
			}
		}
	}
}

func TestMergeBidir(t *testing.T) {
	t.Parallel()
	const s = int64(time.Second)
	p := &plan.Test{Type: plan.TCPStream, Bidir: true, Streams: 1, Interval: plan.Seconds(interval)}
	halves := func(end sockopt.End) *result.Report {
		return &result.Report{Halves: []result.Half{plainHalf(plan.ClientToServer, end, 0, s, 1000), plainHalf(plan.ServerToClient, end, 0, 2*s, 3000)}}
	}
	r := &result.Run{Plan: p}
	if err := r.Merge(halves(sockopt.Client), halves(sockopt.Server), nil); err != nil {
		t.Fatal(err)
	}
	sum := r.Summary
	if *sum.ReceivedBytes != 4000 || *sum.Throughput != 8000+12000 || *sum.Duration != 2 || len(r.Streams) != 2 || len(r.Intervals) != 2 {
		t.Errorf("both ways: %+v, %d streams, %d intervals", sum.Figures, len(r.Streams), len(r.Intervals))
	}
	// When one way is half known, the sum isn't known.
	client := halves(sockopt.Client)
	client.Halves = client.Halves[:1]
	r = &result.Run{Plan: p}
	if err := r.Merge(client, halves(sockopt.Server), nil); err != nil {
		t.Fatal(err)
	}
	if sum := r.Summary; sum.ReceivedBytes != nil || sum.Throughput != nil || *sum.SentBytes != 4000 || *sum.Directions.ClientToServer.ReceivedBytes != 1000 {
		t.Errorf("half known: %+v", sum.Figures)
	}
}

func TestMergeLatency(t *testing.T) {
	t.Parallel()
	encoded := func(ns ...int64) string {
		h := stats.NewHistogram()
		for _, v := range ns {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		s, err := stats.EncodeHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sample := func(tick int, at int64, done ...uint64) result.Sample {
		zero := func() []uint64 { return make([]uint64, len(done)) }
		return result.Sample{Tick: tick, AtNs: at, Sent: zero(), Received: zero(), SendCalls: zero(), ReceiveCalls: zero(), ShortSends: zero(), Interruptions: zero(), Transactions: done}
	}
	half := result.Half{
		Direction: plan.Both, Role: plan.Requester, ClosedNs: 1e9,
		Streams: []result.HalfStream{{ID: 1}, {ID: 2}, {ID: 3}},
		Series:  []result.Sample{sample(0, 0, 0, 0, 0), sample(result.LastTick, 1e9, 2, 1, 1)},
		Threads: []result.HalfThread{{Streams: []int{1}, Latency: encoded(1000, 3000)}, {Streams: []int{2, 3}, Latency: encoded(9000, 9000)}},
	}
	r := &result.Run{Plan: &plan.Test{Type: plan.TCPRR, Streams: 3}}
	if err := r.Merge(&result.Report{Halves: []result.Half{half}}, new(result.Report), nil); err != nil {
		t.Fatal(err)
	}
	l := r.Summary.Latency
	if l == nil || l.Count != 4 || l.Min != 1 || l.Max < 8.99 || l.Max > 9.01 || l.Histogram == "" {
		t.Fatalf("merged: %+v", l)
	}
	// Streams that share a thread have no latency of their own.
	if a := r.Streams[0].Latency; a == nil || a.Count != 2 || a.Min != 1 || r.Streams[1].Latency != nil || r.Streams[2].Latency != nil {
		t.Errorf("streams: %+v, %+v, %+v", r.Streams[0].Latency, r.Streams[1].Latency, r.Streams[2].Latency)
	}
	half.Threads[0].Latency = "no histogram"
	r = &result.Run{Plan: r.Plan}
	if err := r.Merge(&result.Report{Halves: []result.Half{half}}, new(result.Report), nil); err == nil {
		t.Error("an unreadable histogram is accepted")
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	half := func() *result.Half {
		h := plainHalf(plan.ClientToServer, sockopt.Server, 1, 9, 5)
		mid := plainHalf(plan.ClientToServer, sockopt.Server, 1, 5, 3).Series[1]
		mid.Tick = 4
		h.Series = []result.Sample{h.Series[0], mid, h.Series[1]}
		h.Series[1].TCP = map[string][]uint64{"rtt_us": {1}}
		return &h
	}
	if err := half().Check(1); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(h *result.Half){
		"no direction":         func(h *result.Half) { h.Direction = "" },
		"unknown direction":    func(h *result.Half) { h.Direction = "up" },
		"no role":              func(h *result.Half) { h.Role = "" },
		"impossible role":      func(h *result.Half) { h.Role = plan.Requester },
		"no streams":           func(h *result.Half) { h.Streams = nil },
		"too many streams":     func(h *result.Half) { h.Streams = make([]result.HalfStream, 2) },
		"no samples":           func(h *result.Half) { h.Series = nil },
		"one sample":           func(h *result.Half) { h.Series = h.Series[:1] },
		"no opening":           func(h *result.Half) { h.Series = h.Series[1:] },
		"no closing":           func(h *result.Half) { h.Series = h.Series[:2] },
		"two closings":         func(h *result.Half) { h.Series[1].Tick = result.LastTick },
		"a tick twice":         func(h *result.Half) { h.Series[1].Tick = 0 },
		"back in time":         func(h *result.Half) { h.Series[1].AtNs = 10 },
		"other opening":        func(h *result.Half) { h.OpenedNs-- },
		"other closing":        func(h *result.Half) { h.ClosedNs++ },
		"counter back":         func(h *result.Half) { h.Series[1].Received[0] = 6 },
		"short column":         func(h *result.Half) { h.Series[1].Sent = nil },
		"long column":          func(h *result.Half) { h.Series[2].Transactions = make([]uint64, 2) },
		"short TCP column":     func(h *result.Half) { h.Series[1].TCP["rtt_us"] = nil },
		"long TCP column":      func(h *result.Half) { h.Series[1].TCP["more"] = make([]uint64, 2) },
		"interruptions absent": func(h *result.Half) { h.Series[0].Interruptions = nil },
	}
	for name, spoil := range tests {
		h := half()
		spoil(h)
		if err := h.Check(1); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// peerReport is how a peer's report comes in: the series apart from the halves.
type peerReport struct {
	Report result.Report
	Series map[plan.Direction][]result.Sample
}

// Whatever a peer sends is refused by Check, or merged without a panic.
func FuzzMerge(f *testing.F) {
	for _, d := range []plan.Direction{plan.ClientToServer, plan.ServerToClient, plan.Both} {
		h := plainHalf(d, sockopt.Server, 5, 1e9, 7)
		h.Streams[0].InfoEnd = make([]byte, 100)
		h.Threads = []result.HalfThread{{Streams: []int{1}, CPUNs: new(int64), Latency: "HISTFAAA"}}
		h.Series[1].TCP = map[string][]uint64{retransName: {3}}
		b, err := json.Marshal(peerReport{result.Report{Halves: []result.Half{h}, CPU: &result.EndCPU{CPUs: 1}}, map[plan.Direction][]result.Sample{d: h.Series}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var peer peerReport
		if json.Unmarshal(b, &peer) != nil {
			return
		}
		for i := range peer.Report.Halves {
			h := &peer.Report.Halves[i]
			h.Series = peer.Series[h.Direction]
			if h.Check(1) != nil {
				return
			}
		}
		for _, p := range []*plan.Test{{Type: plan.TCPStream}, {Type: plan.TCPMaerts}, {Type: plan.TCPRR}, {Type: plan.TCPStream, Bidir: true}} {
			p.Streams, p.Interval = 1, plan.Seconds(interval)
			client := new(result.Report)
			for _, d := range p.Directions() {
				client.Halves = append(client.Halves, plainHalf(d, sockopt.Client, 3, 2e9, 7))
			}
			for _, own := range []*result.Report{client, new(result.Report)} {
				r := &result.Run{Plan: p}
				if r.Merge(own, &peer.Report, &result.Clock{Offset: 1}) != nil {
					continue
				}
				if _, err := json.Marshal(r); err != nil {
					t.Fatalf("the result can't be written: %v", err)
				}
			}
		}
	})
}
