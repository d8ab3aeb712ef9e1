package output

import (
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/netperf/options"
)

// titles are the words that a test's banner begins with; that of OMNI follows
// from its direction.
var titles = map[options.Test]string{
	options.TCPStream:   "MIGRATED TCP STREAM TEST",
	options.TCPMaerts:   "MIGRATED TCP MAERTS TEST",
	options.TCPRR:       "MIGRATED TCP REQUEST/RESPONSE TEST",
	options.TCPCRR:      "MIGRATED TCP Connect/Request/Response TEST",
	options.UDPStream:   "MIGRATED UDP STREAM TEST",
	options.UDPRR:       "MIGRATED UDP REQUEST/RESPONSE TEST",
	options.TCPSendfile: "TCP SENDFILE TEST",
	options.TCPCC:       "TCP Connect/Close TEST",
	options.TCPMSS:      "TCP MSS TEST",
}

// families are the names of the address families.
var families = map[int]string{
	unix.AF_UNSPEC: "AF_UNSPEC",
	unix.AF_INET:   "AF_INET",
	unix.AF_INET6:  "AF_INET6",
}

// Banner writes the line that comes before the test: what is run between which
// addresses, and the options that change the figures. family is AF_INET or
// AF_INET6. It writes nothing under -P 0 and for what isn't a test (LOC_CPU,
// REM_CPU, UUID).
//
// The banner is that of a netperf with everything compiled in: histogram,
// intervals and demo mode.
func Banner(w io.Writer, o *options.Netperf, from, to Address, family int) error {
	title := titles[o.Test]
	if o.Test == options.Omni {
		title = "OMNI " + directionText(o) + " TEST"
	}
	if !o.Banner || title == "" {
		return nil
	}
	var p page
	p.printf("%s from %s (%s) port %d %s to %s (%s) port %d %s", title,
		from.Name, from.shown(), from.Port, families[family],
		to.Name, to.shown(), to.Port, families[family])
	if c := o.Confidence; confidenceAsked(o) {
		p.printf(" : +/-%.3f%% @ %2d%% conf. ", c.Width/2, c.Level)
		if c.ResultOnly {
			p.printf(" on result only")
		}
	}
	for _, extra := range []struct {
		text string
		show bool
	}{
		{"nodelay", o.NoDelay},
		{"copy avoidance", o.CopyAvoidance},
		{"no control", o.NoControl},
		{"histogram", true},
		{"interval", true},
		{"demo", true},
	} {
		if extra.show {
			p.printf(" : %s", extra.text)
		}
	}
	if strings.Contains(title, "REQUEST/RESPONSE") {
		p.printf(" : first burst %d", o.Burst)
	}
	if o.Bind != (options.Ends[int]{Local: options.Unset, Remote: options.Unset}) {
		p.printf(" : cpu bind")
	}
	p.printf("\n")
	return p.to(w)
}

// shown is the address as the banner has it: netperf's buffer for it holds 7
// characters, and what doesn't fit is left out altogether.
func (a Address) shown() string {
	if len(a.Text) > 7 {
		return ""
	}
	return a.Text
}

// WriteInterim writes the result of one interval, in the form that suits the
// result's. The end is shown as seconds since 1970.
func WriteInterim(w io.Writer, o *options.Netperf, i *Interim) error {
	u := unitOf(o)
	rate := u.of(ratio(i.Units, i.Length.Seconds()))
	end, ms := i.End.Unix(), i.End.Nanosecond()/1e6
	var p page
	switch o.Style {
	case options.Keyval:
		p.printf("NETPERF_INTERIM_RESULT[%d]=%.2f\n", i.Index, rate)
		p.printf("NETPERF_UNITS[%d]=%s/s\n", i.Index, u.name)
		p.printf("NETPERF_INTERVAL[%d]=%.3f\n", i.Index, i.Length.Seconds())
		p.printf("NETPERF_ENDING[%d]=%d.%.3d\n", i.Index, end, ms)
	case options.CSV:
		p.printf("%7.2f,%s/s,%.3f,%d.%.3d\n", rate, u.name, i.Length.Seconds(), end, ms)
	default:
		p.printf("Interim result: %7.2f %s/s over %.3f seconds ending at %d.%.3d\n",
			rate, u.name, i.Length.Seconds(), end, ms)
	}
	return p.to(w)
}
