package output

import (
	"io"

	"gperf/netperf/options"
)

// layouts are the tables of the tests that have one of their own. Trailing
// blanks and slips in the headings are part of them: scripts count columns and
// lines.
var layouts = map[options.Test]func(*page, *Run){
	options.TCPStream:   (*page).stream,
	options.TCPMaerts:   (*page).stream,
	options.TCPSendfile: (*page).stream,
	options.TCPRR:       (*page).requestResponse,
	options.UDPRR:       (*page).requestResponse,
	options.TCPCRR:      (*page).requestResponse,
	options.TCPCC:       (*page).requestResponse,
	options.UDPStream:   (*page).udpStream,
	options.TCPMSS:      (*page).segment,
	options.LocalCPU:    (*page).calibration,
	options.RemoteCPU:   (*page).calibration,
	options.UUID:        (*page).uuid,
}

// Classic writes the result in the test's own table: at verbosity 0 one number,
// at 1 a row under headings, at 2 more of it. At any other verbosity the row is
// left out, and above 2 the rest stays. Before it comes a warning when
// the confidence that was asked for was missed. A test without a table (OMNI)
// is written by Omni.
func Classic(w io.Writer, r *Run) error {
	layout, ok := layouts[r.Options.Test]
	if !ok {
		return Omni(w, r)
	}
	var p page
	layout(&p, r)
	return p.to(w)
}

// Result writes the result in the style that was asked for.
func Result(w io.Writer, r *Run) error {
	if r.Options.Style == options.Classic {
		return Classic(w, r)
	}
	return Omni(w, r)
}

// brand is the text of -B at the end of a row, where there is no banner.
func (r *Run) brand() string {
	if r.Options.Banner || r.Options.Brand == nil {
		return ""
	}
	return *r.Options.Brand
}

// headings prints the four or so lines over a table, and a blank one.
func (p *page) headings(r *Run, format string, args ...any) {
	if r.Options.Banner {
		p.printf(format+"\n\n", args...)
	}
}

// rowVerbosity reports whether the run's row is to be printed.
func rowVerbosity(o *options.Netperf) bool { return o.Verbosity == 1 || o.Verbosity == 2 }

// demandAlone returns what verbosity 0 shows when CPU time was measured: the
// demand of the local end, or of the remote one if only that was asked for.
func (r *Run) demandAlone() (µs float64, letter byte) {
	if r.cpuShown().Local {
		return r.mean(localDemand), method(r.last().Local.CPU)
	}
	return r.mean(remoteDemand), method(r.last().Remote.CPU)
}

// latencies prints the histogram under a title.
func (p *page) latencies(r *Run, title string) {
	if r.Latency != nil {
		p.printf("%s\n", title)
		p.histogram(r.Latency)
	}
}

// stream prints tests that send or receive all the time over TCP.
func (p *page) stream(r *Run) {
	p.missed(r)
	o, it, u := r.Options, r.last(), unitOf(r.Options)
	maerts := o.Test == options.TCPMaerts
	seconds, result := single(r.mean(elapsed)), r.mean(throughput)
	shown := r.cpuShown()
	cpu := shown.Local || shown.Remote

	// Buffers as they were at first: autotuning has moved them since.
	recvBuffer, sendBuffer, size := it.Remote.RecvBuffer, it.Local.SendBuffer, it.Local.SendSize
	if maerts {
		size = it.Remote.SendSize
		if !cpu { // with CPU figures netperf shows the two of the other direction
			recvBuffer, sendBuffer = it.Local.RecvBuffer, it.Remote.SendBuffer
		}
	}

	switch {
	case o.Verbosity == 0 && cpu:
		µs, letter := r.demandAlone()
		p.printf("%6.3f %c %s\n", µs, letter, r.brand())
	case o.Verbosity == 0:
		p.printf("%7.2f %s\n", result, r.brand())
	case rowVerbosity(o) && cpu:
		ends := "Send     Recv     Send    Recv"
		if maerts {
			ends = "Recv     Send     Recv    Send"
		}
		p.headings(r, "Recv   Send    Send                          Utilization       Service Demand\n"+
			"Socket Socket  Message  Elapsed              %s\n"+
			"Size   Size    Size     Time     Throughput  local    remote   local   remote\n"+
			"bytes  bytes   bytes    secs.    %-8.8s/s  %% %c      %% %c      us/KB   us/KB",
			ends, u.name, method(it.Local.CPU), method(it.Remote.CPU))
		p.printf("%6d %6d %6d    %-6.2f     %7.2f   %-6.2f   %-6.2f   %-6.3f  %-6.3f %s\n",
			recvBuffer, sendBuffer, size, seconds, result, single(r.mean(localUtil)), single(r.mean(remoteUtil)),
			r.mean(localDemand), r.mean(remoteDemand), r.brand())
	case rowVerbosity(o):
		p.headings(r, "Recv   Send    Send                          \n"+
			"Socket Socket  Message  Elapsed              \n"+
			"Size   Size    Size     Time     Throughput  \n"+
			"bytes  bytes   bytes    secs.    %s/sec  ", u.name)
		p.printf("%6d %6d %6d    %-6.2f   %7.2f   %s\n",
			recvBuffer, sendBuffer, size, seconds, result, r.brand())
	}
	if o.Verbosity <= 1 {
		return
	}

	calls, local, remote := "send", "Send", "Recv"
	align, offset := o.Align, o.Offset
	localAlign, localOffset := align.Local.Send, offset.Local.Send
	bytes, remoteBytes := it.Local.BytesSent, it.Remote.BytesReceived
	localCalls, remoteCalls := it.Local.SendCalls, it.Remote.RecvCalls
	format := "%5d   %5d  %5d   %5d %6d  %6.2f    %6d   %6.2f %6d\n"
	var total any = bytes
	switch o.Test {
	case options.TCPMaerts:
		calls, local, remote = "recv", "Recv", "Send"
		localAlign, localOffset = align.Local.Recv, offset.Local.Recv
		bytes, remoteBytes = it.Local.BytesReceived, it.Remote.BytesSent
		localCalls, remoteCalls = it.Local.RecvCalls, it.Remote.SendCalls
		total = bytes
	case options.TCPSendfile: // what the kernel took from the file is known at the other end
		bytes = it.Remote.BytesReceived
		format = "%5d   %5d  %5d   %5d %6.4g  %6.2f    %6d   %6.2f %6d\n"
		total = float64(bytes)
	}
	p.printf("\nAlignment      Offset         Bytes    Bytes       %[1]ss   Bytes    %[2]ss\n"+
		"Local  Remote  Local  Remote  Xfered   Per                 Per\n"+
		"%[1]s   %[2]s    %[1]s   %[2]s             %[1]s (avg)          %[2]s (avg)\n", local, remote)
	p.printf(format, localAlign, align.Remote.Recv, localOffset, offset.Remote.Recv, total,
		ratio(float64(bytes), float64(localCalls)), localCalls,
		ratio(float64(remoteBytes), float64(remoteCalls)), remoteCalls)
	p.printf("\nMaximum\nSegment\nSize (bytes)\n%6d\n", r.first().Local.MSS)
	p.latencies(r, "\n\nHistogram of time spent in "+calls+"() call.")
}

// requestResponse prints tests that count transactions.
func (p *page) requestResponse(r *Run) {
	p.missed(r)
	o, it := r.Options, r.last()
	seconds, result := single(r.mean(elapsed)), r.mean(throughput)
	request, response := messageSizes(o)
	shown := r.cpuShown()
	cpu := shown.Local || shown.Remote
	connects := o.Test == options.TCPCRR || o.Test == options.TCPCC
	// The tests that connect have one heading, whatever the unit, and no brand.
	byTransaction := connects || ByTransaction(o)

	switch {
	case o.Verbosity == 0 && cpu:
		µs, letter := r.demandAlone()
		if connects {
			p.printf("%6.3f\n", µs)
		} else {
			p.printf("%6.3f %c %s\n", µs, letter, r.brand())
		}
	case o.Verbosity == 0 && connects:
		p.printf("%7.2f\n", result)
	case o.Verbosity == 0:
		p.printf("%7.2f %s\n", result, r.brand())
	case rowVerbosity(o) && cpu:
		p.headings(r, "%s", rateHeadings(r, byTransaction, connects))
		p.printf("%-6d %-6d %-6d  %-6d %-6.2f  %-6.2f ",
			it.Local.SendBuffer, it.Local.RecvBuffer, request, response, seconds, result)
		if connects || o.Test == options.UDPRR {
			p.printf("  ")
		} else {
			p.printf(" ")
		}
		p.printf("%-6.2f %-6.2f %-6.3f  %-6.3f", single(r.mean(localUtil)), single(r.mean(remoteUtil)),
			r.mean(localDemand), r.mean(remoteDemand))
		if !connects {
			p.printf(" %s", r.brand())
		}
		p.printf("\n%-6d %-6d\n", it.Remote.SendBuffer, it.Remote.RecvBuffer)
	case rowVerbosity(o):
		third, fourth, fifth := "Trans.", "Rate         ", "per sec   "
		if !byTransaction {
			third, fourth, fifth = "", "Throughput ", unitOf(o).name+"/sec   "
		}
		p.headings(r, "Local /Remote\n"+
			"Socket Size   Request  Resp.   Elapsed  %s\n"+
			"Send   Recv   Size     Size    Time     %s\n"+
			"bytes  Bytes  bytes    bytes   secs.    %s", third, fourth, fifth)
		p.printf("%-6d %-6d %-6d   %-6d  %-6.2f   %7.2f   ",
			it.Local.SendBuffer, it.Local.RecvBuffer, request, response, seconds, result)
		if !connects {
			p.printf("%s", r.brand())
		}
		p.printf("\n%-6d %-6d\n", it.Remote.SendBuffer, it.Remote.RecvBuffer)
	}
	if o.Verbosity <= 1 {
		return
	}

	// Of the remote end netperf shows the offset where the heading says
	// alignment, except in TCP_CRR.
	align, offset := o.Align, o.Offset
	second := offset.Remote.Recv
	if o.Test == options.TCPCRR {
		second = align.Remote.Recv
	}
	title := "\nHistogram of request/response times"
	switch o.Test {
	case options.TCPRR:
		rate, u := r.transactionRate(), byteUnit(o)
		p.printf("Alignment      Offset         RoundTrip  Trans    Throughput\n"+
			"Local  Remote  Local  Remote  Latency    Rate     %-8.8s/s\n"+
			"Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n", u.name)
		p.printf("%5d  %5d   %5d  %5d   %-6.3f   %-6.3f %-6.3f    %-6.3f\n",
			align.Local.Send, second, offset.Local.Send, offset.Remote.Recv,
			ratio(1e6*float64(1+o.Burst), rate), rate,
			u.of(rate*float64(request)), u.of(rate*float64(response)))
	case options.UDPRR:
		title = "\nHistogram of request/reponse times." // netperf's spelling
	default:
		p.printf("\nAlignment      Offset\n" +
			"Local  Remote  Local  Remote\n" +
			"Send   Recv    Send   Recv\n")
		p.printf("%5d  %5d   %5d  %5d\n", align.Local.Send, second, offset.Local.Send, offset.Remote.Recv)
	}
	p.latencies(r, title)
}

// rateHeadings are those over a row with CPU figures.
func rateHeadings(r *Run, byTransaction, connects bool) string {
	third, fourth, per := "Trans.", "Rate", "Tr"
	if !byTransaction {
		third, fourth, per = "Tput", unitOf(r.Options).name, "KB"
	}
	local, remote := "% "+string(method(r.last().Local.CPU)), "% "+string(method(r.last().Remote.CPU))
	if connects {
		local, remote = "%", "%"
	}
	var p page
	p.printf("Local /Remote\n"+
		"Socket Size   Request Resp.  Elapsed %-8s CPU    CPU    S.dem   S.dem\n"+
		"Send   Recv   Size    Size   Time    %-8.8s local  remote local   remote\n"+
		"bytes  bytes  bytes   bytes  secs.   per sec  %-6s %-6s us/%s   us/%s",
		third, fourth, local, remote, per, per)
	return p.String()
}

// udpStream prints what was sent and, under it, what of it arrived.
func (p *page) udpStream(r *Run) {
	p.missed(r)
	o, it, u := r.Options, r.last(), unitOf(r.Options)
	seconds := single(r.mean(elapsed))
	sent, received := r.byteRate(it.Local.BytesSent), r.byteRate(it.Remote.BytesReceived)
	shown := r.cpuShown()
	cpu := shown.Local || shown.Remote

	switch {
	case o.Verbosity == 0 && cpu:
		µs, letter := r.demandAlone()
		p.printf("%6.2f %c\n", µs, letter)
	case o.Verbosity == 0:
		p.printf("%7.2f\n", sent)
	case rowVerbosity(o) && cpu:
		p.headings(r, "Socket  Message  Elapsed      Messages                   CPU      Service\n"+
			"Size    Size     Time         Okay Errors   Throughput   Util     Demand\n"+
			"bytes   bytes    secs            #      #   %s/sec %% %c%c     us/KB",
			u.name, method(it.Local.CPU), method(it.Remote.CPU))
		p.printf("%6d  %6d   %-7.2f   %7d %6d    %7.1f     %-6.2f   %-6.3f\n",
			it.Local.SendBuffer, it.Local.SendSize, seconds, it.Local.SendCalls, it.Local.FailedSends,
			sent, single(r.mean(localUtil)), r.mean(localDemand))
		p.printf("%6d           %-7.2f   %7d           %7.1f     %-6.2f   %-6.3f\n\n",
			it.Remote.RecvBuffer, seconds, it.Remote.RecvCalls,
			received, single(r.mean(remoteUtil)), r.mean(remoteDemand))
	case rowVerbosity(o):
		p.headings(r, "Socket  Message  Elapsed      Messages                \n"+
			"Size    Size     Time         Okay Errors   Throughput\n"+
			"bytes   bytes    secs            #      #   %s/sec", u.name)
		p.printf("%6d  %6d   %-7.2f   %7d %6d    %7.2f\n",
			it.Local.SendBuffer, it.Local.SendSize, seconds, it.Local.SendCalls, it.Local.FailedSends, sent)
		p.printf("%6d           %-7.2f   %7d           %7.2f\n\n",
			it.Remote.RecvBuffer, seconds, it.Remote.RecvCalls, received)
	}
	if o.Verbosity > 1 {
		p.latencies(r, "\nHistogram of time spent in send() call")
	}
}

// segment prints TCP_MSS.
func (p *page) segment(r *Run) {
	if rowVerbosity(r.Options) {
		p.headings(r, "Maximum\nSegment\nSize (bytes)")
	}
	if rowVerbosity(r.Options) || r.Options.Verbosity == 0 {
		p.printf("%d %s\n", r.first().Local.MSS, r.brand())
	}
}

// calibration prints LOC_CPU and REM_CPU, without a newline at the end unless
// more is said.
func (p *page) calibration(r *Run) {
	name, side := "local", r.last().Local
	if r.Options.Test == options.RemoteCPU {
		name, side = "remote", r.last().Remote
	}
	var cpu CPU
	if side.CPU != nil {
		cpu = *side.CPU
	}
	p.printf("%g", cpu.Rate)
	if r.Options.Verbosity > 1 {
		p.printf("\nThere are %d %s cpus\n", cpu.Count, name)
	}
}

// uuid prints UUID, without a newline.
func (p *page) uuid(r *Run) { p.printf("%s", r.UUID) }
