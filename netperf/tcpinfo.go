package netperf

import (
	"fmt"
	"io"
	"math"

	"gperf/sockopt"
)

// tcpInfoLines are the fields of TCP_INFO that netperf shows, by the kernel's
// names, line by line. flent puts them into its data files. (netperf misspells
// the congestion window.)
var tcpInfoLines = [][]struct {
	name  string
	field sockopt.TCPField
}{
	{{"tcpi_rto", sockopt.RTO}, {"tcpi_ato", sockopt.ATO}, {"tcpi_pmtu", sockopt.PMTU}, {"tcpi_rcv_ssthresh", sockopt.RcvSsthresh}},
	{{"tcpi_rtt", sockopt.RTT}, {"tcpi_rttvar", sockopt.RTTVar}, {"tcpi_snd_ssthresh", sockopt.SndSsthresh}, {"tcpi_snd_cwnd", sockopt.SndCwnd}},
	{{"tcpi_reordering", sockopt.Reordering}, {"tcpi_total_retrans", sockopt.TotalRetrans}},
}

// writeTCPInfo writes pairs of a name and a value. No limit is the number by which
// the kernel says so, as netperf prints it.
func writeTCPInfo(w io.Writer, info sockopt.TCPInfo) {
	for _, line := range tcpInfoLines {
		for i, f := range line {
			value, ok := info.Get(f.field)
			if !ok && f.field == sockopt.SndSsthresh {
				value = math.MaxInt32
			}
			if i > 0 {
				_, _ = fmt.Fprint(w, " ")
			}
			_, _ = fmt.Fprintf(w, "%s %d", f.name, value)
		}
		_, _ = fmt.Fprintln(w)
	}
}
