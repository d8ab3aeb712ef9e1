package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gperf/plan"
	"gperf/sockopt"
)

// What a diagnosis says of datagrams that didn't come.
func TestDiagnoseDatagrams(t *testing.T) {
	t.Parallel()
	const none = "receive buffer: "
	for _, tt := range []struct {
		name      string
		datagrams Datagrams
		audit     []sockopt.Row
		want      []string
	}{
		{"nothing lost", Datagrams{Received: new(uint64(1000)), Lost: new(uint64(0)), LostPercent: new(0.0), SocketDrops: new(uint64(0))}, nil, nil},
		{"next to nothing", Datagrams{Received: new(uint64(99_999)), Lost: new(uint64(1)), LostPercent: new(0.001), SocketDrops: new(uint64(0))}, nil, nil},
		{"nothing came", Datagrams{Received: new(uint64(0)), Lost: new(uint64(0))}, nil, nil},
		{"at the socket", Datagrams{Lost: new(uint64(100)), LostPercent: new(10.0), SocketDrops: new(uint64(100))}, []sockopt.Row{
			{End: "server", Knob: "rcvbuf", Effective: sockopt.Int(212_992)},
		}, []string{none + "10.00 % of the datagrams (100) were dropped at the server's sockets, whose buffers were full (rcvbuf by default, 208 KiB): raise --rcvbuf, or send more slowly"}},
		{"at the socket, behind the last that came", Datagrams{Lost: new(uint64(100)), LostPercent: new(10.0), SocketDrops: new(uint64(140))}, []sockopt.Row{
			{End: "server", Knob: "rcvbuf", Requested: sockopt.Int(4096), Effective: sockopt.Int(4096)},
		}, []string{none + "10.00 % of the datagrams (100) were dropped at the server's sockets, whose buffers were full (rcvbuf 4096 asked, 4.00 KiB in force): raise --rcvbuf, or send more slowly"}},
		{"on the way", Datagrams{Lost: new(uint64(100)), LostPercent: new(10.0), SocketDrops: new(uint64(0))}, nil, []string{
			"loss: 10.00 % of the datagrams (100) were lost on the way",
		}},
		{"both", Datagrams{Lost: new(uint64(100)), LostPercent: new(1.0), SocketDrops: new(uint64(75))}, nil, []string{
			none + "0.75 % of the datagrams (75) were dropped at the server's sockets, whose buffers were full (rcvbuf not known): raise --rcvbuf, or send more slowly",
			"loss: 0.25 % of the datagrams (25) were lost on the way",
		}},
		{"drops not known", Datagrams{Lost: new(uint64(100)), LostPercent: new(10.0)}, nil, []string{
			"loss: 10.00 % of the datagrams (100) were lost on the way or at the receiver's sockets, whose drops this kernel doesn't tell",
		}},
		{"no numbers", Datagrams{Received: new(uint64(100)), SocketDrops: new(uint64(3))}, nil, nil},
	} {
		r := bulk(plan.UDPStream)
		f := r.way()
		f.Sending, f.RTT, f.RetransSegs = Sending{}, nil, nil
		f.Datagrams, r.Audit = &tt.datagrams, tt.audit
		var got []string
		got = append(got, r.diagnose()...)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestDiagnoseBacklog(t *testing.T) {
	t.Parallel()
	r := bulk(plan.UDPStream)
	f := r.way()
	f.Sending, f.RTT, f.RetransSegs = Sending{}, nil, nil
	f.Datagrams = &Datagrams{Lost: new(uint64(100)), LostPercent: new(10.0), SocketDrops: new(uint64(0))}
	r.Counters.Server = &Counters{Softnet: &Softnet{Dropped: new(uint64(1))}}
	want := []string{"loss: 10.00 % of the datagrams (100) were lost on the way; " +
		"the server's machine dropped 1 packet of all its traffic because the backlog of a CPU was full (net.core.netdev_max_backlog)"}
	if diff := cmp.Diff(want, r.diagnose()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiagnoseLostTransactions(t *testing.T) {
	t.Parallel()
	r := bulk(plan.UDPRR)
	r.Summary.Transactions, r.Summary.LostTransactions = new(uint64(99)), new(uint64(1))
	want := []string{"loss: 1.00 % of the requests (1) had no response within 1s"}
	if diff := cmp.Diff(want, r.diagnose()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Summary.LostTransactions = new(uint64(0))
	if got := r.diagnose(); len(got) != 0 {
		t.Errorf("nothing lost: %q", got)
	}
}

// Connections that failed are a reason for distrust, each error by itself.
func TestTrustConnections(t *testing.T) {
	t.Parallel()
	r := bulk(plan.TCPCRR)
	r.Summary.ConnectErrors = map[string]uint64{"recv: ECONNRESET": 1, "bind: EADDRINUSE": 2}
	var got []string
	for _, c := range r.connections() {
		got = append(got, c.Code+" "+c.End+": "+c.Message)
		if !c.distrust {
			t.Errorf("%s is trusted", c.Message)
		}
	}
	want := []string{
		"connect_errors client: 2 connections failed with bind: EADDRINUSE: the local ports ran out (net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse)",
		"connect_errors client: 1 connection failed with recv: ECONNRESET",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An interval of a test without payload isn't idle while it has transactions.
func TestIdleIntervals(t *testing.T) {
	t.Parallel()
	r := bulk(plan.TCPCC)
	r.Intervals = []Interval{{Direction: plan.Both, Transactions: new(uint64(3))}, {Direction: plan.Both, Transactions: new(uint64(0))}}
	got := r.idle()
	if len(got) != 1 || got[0].Message != "nothing moved in 1 of 2 intervals" {
		t.Errorf("%+v", got)
	}
}

// Samples that are totals make the same intervals as those of the streams: lost
// datagrams add up, with their sign, and jitter is a mean.
func TestDatagramIntervals(t *testing.T) {
	t.Parallel()
	sample := func(tick int, received, missing []uint64, jitter ...uint64) Sample {
		zero := make([]uint64, len(received))
		return Sample{
			Tick: tick, AtNs: int64(tick) * 1e9, Sent: zero, Received: received, SendCalls: zero, ReceiveCalls: received,
			ShortSends: zero, Interruptions: zero, Transactions: zero,
			TCP: map[string][]uint64{LostDatagrams: missing, JitterNs: jitter, SocketDrops: zero},
		}
	}
	series := []Sample{
		sample(0, []uint64{0, 0}, []uint64{0, 0}, 0, 0),
		sample(1, []uint64{10, 20}, []uint64{5, 1}, 1000, 3000),
		sample(2, []uint64{20, 40}, []uint64{2, 2}, 2000, 2000), // three have come late
	}
	for _, totals := range []bool{false, true} {
		ids := []int{1, 2}
		if totals {
			ids = nil
		}
		m := NewMerger(plan.ClientToServer, ids)
		for _, s := range series {
			if totals {
				s = s.Totals()
			}
			m.Add(plan.Receiver, s)
		}
		var lost []int64
		var jitter []float64
		for _, iv := range m.Intervals(true) {
			lost, jitter = append(lost, *iv.Lost), append(jitter, *iv.Jitter)
		}
		if diff := cmp.Diff([]int64{6, -2}, lost); diff != "" {
			t.Errorf("totals %v: lost (-want +got):\n%s", totals, diff)
		}
		if diff := cmp.Diff([]float64{2, 2}, jitter); diff != "" {
			t.Errorf("totals %v: jitter (-want +got):\n%s", totals, diff)
		}
	}
}
