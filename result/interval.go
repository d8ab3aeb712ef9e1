package result

import (
	"math"
	"slices"

	"gperf/plan"
	"gperf/sockopt"
)

// A Merger makes intervals out of the two ends' samples of one direction, as
// they come in. An interval lies between two ticks that both ends have: where
// one end was late for a tick, the interval is longer, and nothing is invented
// or lost. Since the samples' counters are running totals, the intervals of
// each end add up to what its first and last sample differ by.
type Merger struct {
	direction       plan.Direction
	ids             []int // stream numbers by column; nil: samples are totals
	measured, other series
}

// series is one end's samples that are still needed: from the last edge on.
type series struct {
	samples []Sample
	origin  int64 // when the window opened
}

func (s *series) add(sample Sample) {
	if len(s.samples) == 0 {
		s.origin = sample.AtNs
	}
	s.samples = append(s.samples, sample)
}

func (s *series) seconds(i int) float64 { return float64(s.samples[i].AtNs-s.origin) / 1e9 }

// NewMerger returns a Merger for direction d, whose streams have these numbers;
// nil when the samples are totals.
func NewMerger(d plan.Direction, ids []int) *Merger { return &Merger{direction: d, ids: ids} }

// Add adds the next sample of an end that plays role in the direction.
func (m *Merger) Add(role plan.Role, s Sample) {
	if role.Measures() {
		m.measured.add(s)
	} else {
		m.other.add(s)
	}
}

// Intervals returns the intervals that are complete now, each once, in order.
// With alone, the other end's samples are not awaited (they won't come), and
// what only it could know is null.
func (m *Merger) Intervals(alone bool) []Interval {
	var done []Interval
	for {
		i, j := m.edge(alone)
		if i < 0 {
			return done
		}
		done = append(done, m.interval(i, j))
		m.measured.samples = m.measured.samples[i:]
		if j > 0 {
			m.other.samples = m.other.samples[j:]
		}
	}
}

// edge finds the next samples, after the first, that have a tick in common: i
// of the measuring end and j of the other, which is 0 when alone; i is -1 when
// there are none yet.
func (m *Merger) edge(alone bool) (i, j int) {
	own, other := m.measured.samples, m.other.samples
	if alone {
		if len(own) > 1 {
			return 1, 0
		}
		return -1, 0
	}
	for i, j = 1, 1; i < len(own) && j < len(other); {
		switch a, b := own[i].order(), other[j].order(); {
		case a < b:
			i++
		case a > b:
			j++
		default:
			return i, j
		}
	}
	return -1, 0
}

// order is the sample's place among those of its series.
func (s *Sample) order() int {
	if s.Tick == LastTick {
		return math.MaxInt
	}
	return s.Tick
}

// interval is what lies between the first samples and samples i and j.
func (m *Merger) interval(i, j int) Interval {
	from, to := &m.measured.samples[0], &m.measured.samples[i]
	iv := Interval{Direction: m.direction, Start: m.measured.seconds(0), End: m.measured.seconds(i)}
	var sentFrom, sentTo *Sample
	if j > 0 {
		sentFrom, sentTo = &m.other.samples[0], &m.other.samples[j]
	}
	rr := m.direction == plan.Both
	if !rr && j > 0 {
		start, end := m.other.seconds(0), m.other.seconds(j)
		iv.SenderStart, iv.SenderEnd = &start, &end
	}
	streams := make([]IntervalStream, len(to.Received))
	for k := range streams {
		s := &streams[k]
		s.Bytes = to.Received[k] - from.Received[k]
		iv.Bytes += s.Bytes
		if rr {
			n := to.Transactions[k] - from.Transactions[k]
			s.Transactions = &n
			// Both ends send; what describes the path is the requester's.
			s.fill(from, to, k)
			s.RetransSegs = both(s.RetransSegs, sentFrom, sentTo, sockopt.TotalRetrans, k)
			s.RetransBytes = both(s.RetransBytes, sentFrom, sentTo, sockopt.BytesRetrans, k)
			s.RTOEvents = both(s.RTOEvents, sentFrom, sentTo, sockopt.TotalRTO, k)
		} else if sentTo != nil {
			s.fill(sentFrom, sentTo, k)
		}
		s.RcvWnd = now(to, sockopt.RcvWnd, k)
		s.PipeQueued = queued(to, sentTo, k)
		s.Lost = lost(from, to, k, k+1)
		s.Jitter = jitter(to, k, k+1)
		if m.ids != nil {
			s.ID = m.ids[k]
		}
	}
	iv.Failed = grownColumn(from, to, ConnectErrors, 0, len(streams))
	iv.LostTransactions = grownColumn(from, to, LostTransactions, 0, len(streams))
	iv.Lost, iv.Jitter = lost(from, to, 0, len(streams)), jitter(to, 0, len(streams))
	iv.RetransSegs = sum(len(streams), func(k int) *uint64 { return streams[k].RetransSegs })
	if rr {
		iv.Transactions = sum(len(streams), func(k int) *uint64 { return streams[k].Transactions })
		iv.TPS = perSecond(float64(*iv.Transactions), iv.End-iv.Start)
	} else {
		iv.Throughput = rate(iv.Bytes, iv.End-iv.Start)
	}
	if m.ids != nil {
		iv.Streams = streams
	}
	return iv
}

// fill notes what the sending end says of stream k.
func (s *IntervalStream) fill(from, to *Sample, k int) {
	sent := to.Sent[k] - from.Sent[k]
	s.SentBytes = &sent
	s.AckedBytes = tcp(from, to, sockopt.BytesAcked, k)
	s.RetransSegs = tcp(from, to, sockopt.TotalRetrans, k)
	s.RetransBytes = tcp(from, to, sockopt.BytesRetrans, k)
	s.RTOEvents = tcp(from, to, sockopt.TotalRTO, k)
	s.RTT = now(to, sockopt.RTT, k)
	s.RTTVar = now(to, sockopt.RTTVar, k)
	s.Cwnd = now(to, sockopt.SndCwnd, k)
	s.MSS = now(to, sockopt.SndMSS, k)
	s.SndWnd = now(to, sockopt.SndWnd, k)
	s.DeliveryRate = now(to, sockopt.DeliveryRate, k)
}

// queued is what lay in the stream's pipe: the receiver's, else the sender's.
func queued(to, sentTo *Sample, k int) *uint64 {
	for _, s := range []*Sample{to, sentTo} {
		if s == nil {
			continue
		}
		if column, ok := s.TCP[PipeQueued]; ok {
			return &column[k]
		}
	}
	return nil
}

// both adds the other end's growth of a counter to this end's, null when either
// is not known.
func both(own *uint64, from, to *Sample, f sockopt.TCPField, k int) *uint64 {
	if own == nil || to == nil {
		return nil
	}
	other := tcp(from, to, f, k)
	if other == nil {
		return nil
	}
	n := *own + *other
	return &n
}

// Totals is the sample with each column of counters added up to one entry, the
// form in which samples travel during a test when nobody asked for streams.
func (s Sample) Totals() Sample {
	t := Sample{
		Tick: s.Tick, AtNs: s.AtNs,
		Sent: added(s.Sent), Received: added(s.Received),
		SendCalls: added(s.SendCalls), ReceiveCalls: added(s.ReceiveCalls),
		ShortSends: added(s.ShortSends), Interruptions: added(s.Interruptions),
		Transactions: added(s.Transactions),
	}
	if s.TCP != nil {
		t.TCP = make(map[string][]uint64)
		for _, f := range SampleFields {
			if column, ok := s.TCP[f.Name()]; ok && sockopt.TCPFields()[f].Counter {
				t.TCP[f.Name()] = added(column)
			}
		}
		for _, name := range []string{ConnectErrors, SendErrors, LostTransactions, LostDatagrams, OutOfOrder, Duplicates, SocketDrops} {
			if column, ok := s.TCP[name]; ok {
				t.TCP[name] = added(column)
			}
		}
		if column, ok := s.TCP[JitterNs]; ok { // the one that is no count
			t.TCP[JitterNs] = []uint64{added(column)[0] / uint64(len(column))}
		}
	}
	return t
}

func added(column []uint64) []uint64 {
	total := uint64(0)
	for _, v := range column {
		total += v
	}
	return []uint64{total}
}

// Thin keeps of a series the samples whose tick is a multiple of step, and the
// closing one. Fewer samples make longer intervals; what they add up to stays.
func Thin(series []Sample, step int) []Sample {
	return slices.DeleteFunc(series, func(s Sample) bool { return s.Tick != LastTick && s.Tick%step != 0 })
}
