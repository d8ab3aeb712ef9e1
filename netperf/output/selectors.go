package output

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/netperf/options"
)

// A selector is one figure or fact of the omni output.
type selector struct {
	name    string
	heading string // its lines, up to four, between bars
	format  string
	block   int  // in which "all" has it; 0: in none
	latency bool // asking for it makes the test keep latencies
	value   func(*Run) any
}

// lines returns the heading's four lines.
func (s *selector) lines() (lines [4]string) {
	copy(lines[:], strings.Split(s.heading, "|"))
	return lines
}

// line returns the heading as one line.
func (s *selector) line() string { return strings.ReplaceAll(s.heading, "|", " ") }

// text returns the run's value; ok is false when it has none.
func (s *selector) text(r *Run) (text string, ok bool) {
	v := s.value(r)
	if v == nil {
		return "", false
	}
	var p page
	p.printf(s.format, v)
	return p.String(), true
}

// selectors are all that there are, in the order of "all" and of "?". To add
// one, add its row; to show it unasked, its name in defaultNames.
var selectors = []selector{
	{"OUTPUT_NONE", " ", "%s", 0, false, blank},
	{"SOCKET_TYPE", "Socket|Type", "%s", 1, false, socketType},
	{"PROTOCOL", "Protocol", "%s", 1, false, protocol},
	{"DIRECTION", "Direction", "%s", 1, false, func(r *Run) any { return directionText(r.Options) }},
	{"ELAPSED_TIME", "Elapsed|Time|(sec)", "%.2f", 1, false, func(r *Run) any { return single(r.mean(elapsed)) }},
	{"THROUGHPUT", "Throughput", "%.2f", 1, false, func(r *Run) any { return r.mean(throughput) }},
	{"THROUGHPUT_UNITS", "Throughput|Units", "%s/s", 1, false, func(r *Run) any { return unitOf(r.Options).name }},
	{"LSS_SIZE_REQ", "Local|Send Socket|Size|Requested", "%d", 1, false, local(sendBufferAsked)},
	{"LSS_SIZE", "Local|Send Socket|Size|Initial", "%d", 1, false, local(sendBuffer)},
	{"LSS_SIZE_END", "Local|Send Socket|Size|Final", "%d", 1, false, local(sendBufferEnd)},
	{"LSR_SIZE_REQ", "Local|Recv Socket|Size|Requested", "%d", 1, false, local(recvBufferAsked)},
	{"LSR_SIZE", "Local|Recv Socket|Size|Initial", "%d", 1, false, local(recvBuffer)},
	{"LSR_SIZE_END", "Local|Recv Socket|Size|Final", "%d", 1, false, local(recvBufferEnd)},
	{"RSS_SIZE_REQ", "Remote|Send Socket|Size|Requested", "%d", 1, false, remote(sendBufferAsked)},
	{"RSS_SIZE", "Remote|Send Socket|Size|Initial", "%d", 1, false, remote(sendBuffer)},
	{"RSS_SIZE_END", "Remote|Send Socket|Size|Final", "%d", 1, false, remote(sendBufferEnd)},
	{"RSR_SIZE_REQ", "Remote|Recv Socket|Size|Requested", "%d", 1, false, remote(recvBufferAsked)},
	{"RSR_SIZE", "Remote|Recv Socket|Size|Initial", "%d", 1, false, remote(recvBuffer)},
	{"RSR_SIZE_END", "Remote|Recv Socket|Size|Final", "%d", 1, false, remote(recvBufferEnd)},
	{"LOCAL_SEND_SIZE", "Local|Send|Size", "%d", 1, false, local(sendSize)},
	{"LOCAL_RECV_SIZE", "Local|Recv|Size", "%d", 1, false, local(recvSize)},
	{"REMOTE_SEND_SIZE", "Remote|Send|Size", "%d", 1, false, remote(sendSize)},
	{"REMOTE_RECV_SIZE", "Remote|Recv|Size", "%d", 1, false, remote(recvSize)},
	{"REQUEST_SIZE", "Request|Size|Bytes", "%d", 1, false, requestSize},
	{"RESPONSE_SIZE", "Response|Size|Bytes", "%d", 1, false, responseSize},
	{"LOCAL_CPU_UTIL", "Local|CPU|Util|%", "%.2f", 2, false, local(cpuUtil)},
	{"LOCAL_CPU_PERCENT_USER", "Local|CPU|User|%", "%.2f", 2, false, local(cpuUser)},
	{"LOCAL_CPU_PERCENT_SYSTEM", "Local|CPU|System|%", "%.2f", 2, false, local(cpuSystem)},
	{"LOCAL_CPU_PERCENT_IOWAIT", "Local|CPU|I/O|%", "%.2f", 2, false, local(cpuIOWait)},
	{"LOCAL_CPU_PERCENT_IRQ", "Local|CPU|IRQ|%", "%.2f", 2, false, local(cpuIRQ)},
	{"LOCAL_CPU_PERCENT_SWINTR", "Local|CPU|swintr|%", "%.2f", 2, false, local(cpuSoftIRQ)},
	{"LOCAL_CPU_METHOD", "Local|CPU|Util|Method", "%c", 2, false, local(cpuMethod)},
	{"LOCAL_SD", "Local|Service|Demand", "%.3f", 2, false, local(serviceDemand)},
	{"REMOTE_CPU_UTIL", "Remote|CPU|Util|%", "%.2f", 2, false, remote(cpuUtil)},
	{"REMOTE_CPU_PERCENT_USER", "Remote|CPU|User|%", "%.2f", 2, false, remote(cpuUser)},
	{"REMOTE_CPU_PERCENT_SYSTEM", "Remote|CPU|System|%", "%.2f", 2, false, remote(cpuSystem)},
	{"REMOTE_CPU_PERCENT_IOWAIT", "Remote|CPU|I/O|%", "%.2f", 2, false, remote(cpuIOWait)},
	{"REMOTE_CPU_PERCENT_IRQ", "Remote|CPU|IRQ|%", "%.2f", 2, false, remote(cpuIRQ)},
	{"REMOTE_CPU_PERCENT_SWINTR", "Remote|CPU|swintr|%", "%.2f", 2, false, remote(cpuSoftIRQ)},
	{"REMOTE_CPU_METHOD", "Remote|CPU|Util|Method", "%c", 2, false, remote(cpuMethod)},
	{"REMOTE_SD", "Remote|Service|Demand", "%.3f", 2, false, remote(serviceDemand)},
	{"SD_UNITS", "Service|Demand|Units", "%s", 2, false, demandUnits},
	{"CONFIDENCE_LEVEL", "Confidence|Level|Percent", "%d", 2, false, func(r *Run) any { return r.Options.Confidence.Level }},
	{"CONFIDENCE_INTERVAL", "Confidence|Width|Target", "%f", 2, false, confidenceTarget},
	{"CONFIDENCE_ITERATION", "Confidence|Iterations|Run", "%d", 2, false, func(r *Run) any { return len(r.Iterations) }},
	{"THROUGHPUT_CONFID", "Throughput|Confidence|Width (%)", "%.3f", 2, false, throughputConfidence},
	{"LOCAL_CPU_CONFID", "Local|CPU|Confidence|Width (%)", "%.3f", 2, false, local(cpuConfidence)},
	{"REMOTE_CPU_CONFID", "Remote|CPU|Confidence|Width (%)", "%.3f", 2, false, remote(cpuConfidence)},
	{"TRANSACTION_RATE", "Transaction|Rate|Tran/s", "%.3f", 2, false, func(r *Run) any { return r.transactionRate() }},
	{"RT_LATENCY", "Round|Trip|Latency|usec/tran", "%.3f", 2, false, func(r *Run) any { return r.roundTrip() }},
	{"BURST_SIZE", "Initial|Burst|Requests", "%d", 2, false, func(r *Run) any { return r.Options.Burst }},
	{"LOCAL_TRANSPORT_RETRANS", "Local|Transport|Retransmissions", "%d", 2, false, local(retransmits)},
	{"REMOTE_TRANSPORT_RETRANS", "Remote|Transport|Retransmissions", "%d", 2, false, remote(retransmits)},
	{"TRANSPORT_MSS", "Transport|MSS|bytes", "%d", 2, false, func(r *Run) any { return r.first().Local.MSS }},
	{"LOCAL_SEND_THROUGHPUT", "Local|Send|Throughput", "%.2f", 3, false, local(sendThroughput)},
	{"LOCAL_RECV_THROUGHPUT", "Local|Recv|Throughput", "%.2f", 3, false, local(recvThroughput)},
	{"REMOTE_SEND_THROUGHPUT", "Remote|Send|Throughput", "%.2f", 3, false, remote(sendThroughput)},
	{"REMOTE_RECV_THROUGHPUT", "Remote|Recv|Throughput", "%.2f", 3, false, remote(recvThroughput)},
	{"LOCAL_CPU_BIND", "Local|CPU|Bind", "%d", 3, false, local(cpuBind)},
	{"LOCAL_CPU_COUNT", "Local|CPU|Count", "%d", 3, false, local(cpuCount)},
	{"LOCAL_CPU_PEAK_UTIL", "Local|Peak|Per CPU|Util %", "%.2f", 3, false, local(cpuPeakUtil)},
	{"LOCAL_CPU_PEAK_ID", "Local|Peak|Per CPU|ID", "%d", 3, false, local(cpuPeakID)},
	{"LOCAL_CPU_MODEL", "Local|CPU|Model", "%s", 3, false, deprecated},
	{"LOCAL_CPU_FREQUENCY", "Local|CPU|Frequency|MHz", "%d", 3, false, zero},
	{"REMOTE_CPU_BIND", "Remote|CPU|Bind", "%d", 3, false, remote(cpuBind)},
	{"REMOTE_CPU_COUNT", "Remote|CPU|Count", "%d", 3, false, remote(cpuCount)},
	{"REMOTE_CPU_PEAK_UTIL", "Remote|Peak|Per CPU|Util %", "%.2f", 3, false, remote(cpuPeakUtil)},
	{"REMOTE_CPU_PEAK_ID", "Remote|Peak|Per CPU|ID", "%d", 3, false, remote(cpuPeakID)},
	{"REMOTE_CPU_MODEL", "Remote|CPU|Model", "%s", 3, false, deprecated},
	{"REMOTE_CPU_FREQUENCY", "Remote|CPU|Frequency|MHz", "%d", 3, false, zero},
	{"SOURCE_PORT", "Source|Port", "%s", 3, false, func(r *Run) any { return strconv.Itoa(r.Options.DataPort.Local) }},
	{"SOURCE_ADDR", "Source|Address", "%s", 3, false, sourceAddress},
	{"SOURCE_FAMILY", "Source|Family", "%d", 3, false, sourceFamily},
	{"DEST_PORT", "Destination|Port", "%s", 3, false, func(r *Run) any { return strconv.Itoa(r.Options.DataPort.Remote) }},
	{"DEST_ADDR", "Destination|Address", "%s", 3, false, destinationAddress},
	{"DEST_FAMILY", "Destination|Family", "%d", 3, false, func(r *Run) any { return r.Family }},
	{"LOCAL_SEND_CALLS", "Local|Send|Calls", "%d", 3, false, local(sendCalls)},
	{"LOCAL_RECV_CALLS", "Local|Recv|Calls", "%d", 3, false, local(recvCalls)},
	{"LOCAL_BYTES_PER_RECV", "Local|Bytes|Per|Recv", "%.2f", 3, false, local(bytesPerRecv)},
	{"LOCAL_BYTES_PER_SEND", "Local|Bytes|Per|Send", "%.2f", 3, false, local(bytesPerSend)},
	{"LOCAL_BYTES_SENT", "Local|Bytes|Sent", "%d", 3, false, local(bytesSent)},
	{"LOCAL_BYTES_RECVD", "Local|Bytes|Received", "%d", 3, false, local(bytesReceived)},
	{"LOCAL_BYTES_XFERD", "Local|Bytes|Xferred", "%.0f", 3, false, local(bytesTransferred)},
	{"LOCAL_SEND_OFFSET", "Local|Send|Offset", "%d", 3, false, local(sendOffset)},
	{"LOCAL_RECV_OFFSET", "Local|Recv|Offset", "%d", 3, false, local(recvOffset)},
	{"LOCAL_SEND_ALIGN", "Local|Send|Alignment", "%d", 3, false, local(sendAlign)},
	{"LOCAL_RECV_ALIGN", "Local|Recv|Alignment", "%d", 3, false, local(recvAlign)},
	{"LOCAL_SEND_WIDTH", "Local|Send|Width", "%d", 3, false, local(sendWidth)},
	{"LOCAL_RECV_WIDTH", "Local|Recv|Width", "%d", 3, false, local(recvWidth)},
	{"LOCAL_SEND_DIRTY_COUNT", "Local|Send|Dirty|Count", "%d", 3, false, none},
	{"LOCAL_RECV_DIRTY_COUNT", "Local|Recv|Dirty|Count", "%d", 3, false, none},
	{"LOCAL_RECV_CLEAN_COUNT", "Local|Recv|Clean|Count", "%d", 3, false, none},
	{"LOCAL_NODELAY", "Local|NODELAY", "%d", 3, false, local(noDelay)},
	{"LOCAL_CORK", "Local|Cork", "%d", 3, false, local(cork)},
	{"REMOTE_SEND_CALLS", "Remote|Send|Calls", "%d", 3, false, remote(sendCalls)},
	{"REMOTE_RECV_CALLS", "Remote|Recv|Calls", "%d", 3, false, remote(recvCalls)},
	{"REMOTE_BYTES_PER_RECV", "Remote|Bytes|Per|Recv", "%.2f", 3, false, remote(bytesPerRecv)},
	{"REMOTE_BYTES_PER_SEND", "Remote|Bytes|Per|Send", "%.2f", 3, false, remote(bytesPerSend)},
	{"REMOTE_BYTES_SENT", "Remote|Bytes|Sent", "%d", 3, false, remote(bytesSent)},
	{"REMOTE_BYTES_RECVD", "Remote|Bytes|Received", "%d", 3, false, remote(bytesReceived)},
	{"REMOTE_BYTES_XFERD", "Remote|Bytes|Xferred", "%.0f", 3, false, remote(bytesTransferred)},
	{"REMOTE_SEND_OFFSET", "Remote|Send|Offset", "%d", 3, false, remote(sendOffset)},
	{"REMOTE_RECV_OFFSET", "Remote|Recv|Offset", "%d", 3, false, remote(recvOffset)},
	{"REMOTE_SEND_ALIGN", "Remote|Send|Alignment", "%d", 3, false, remote(sendAlign)},
	{"REMOTE_RECV_ALIGN", "Remote|Recv|Alignment", "%d", 3, false, remote(recvAlign)},
	{"REMOTE_SEND_WIDTH", "Remote|Send|Width", "%d", 3, false, remote(sendWidth)},
	{"REMOTE_RECV_WIDTH", "Remote|Recv|Width", "%d", 3, false, remote(recvWidth)},
	{"REMOTE_SEND_DIRTY_COUNT", "Remote|Send|Dirty|Count", "%d", 3, false, none},
	{"REMOTE_RECV_DIRTY_COUNT", "Remote|Recv|Dirty|Count", "%d", 3, false, none},
	{"REMOTE_RECV_CLEAN_COUNT", "Remote|Recv|Clean|Count", "%d", 3, false, none},
	{"REMOTE_NODELAY", "Remote|NODELAY", "%d", 3, false, remote(noDelay)},
	{"REMOTE_CORK", "Remote|Cork", "%d", 3, false, remote(cork)},
	{"LOCAL_SYSNAME", "Local|Sysname", "%s", 4, false, deprecated},
	{"LOCAL_SYSTEM_MODEL", "Local|System|Model", "%s", 4, false, deprecated},
	{"LOCAL_RELEASE", "Local|Release", "%s", 4, false, deprecated},
	{"LOCAL_VERSION", "Local|Version", "%s", 4, false, deprecated},
	{"LOCAL_MACHINE", "Local|Machine", "%s", 4, false, deprecated},
	{"REMOTE_SYSNAME", "Remote|Sysname", "%s", 4, false, deprecated},
	{"REMOTE_SYSTEM_MODEL", "Remote|System|Model", "%s", 4, false, deprecated},
	{"REMOTE_RELEASE", "Remote|Release", "%s", 4, false, deprecated},
	{"REMOTE_VERSION", "Remote|Version", "%s", 4, false, deprecated},
	{"REMOTE_MACHINE", "Remote|Machine", "%s", 4, false, deprecated},
	{"LOCAL_INTERFACE_NAME", "Local|Interface|Name", "%s", 4, false, deprecated},
	{"LOCAL_INTERFACE_VENDOR", "Local|Interface|Vendor", "0x%.4x", 4, false, unknownID},
	{"LOCAL_INTERFACE_DEVICE", "Local|Interface|Device", "0x%.4x", 4, false, unknownID},
	{"LOCAL_INTERFACE_SUBVENDOR", "Local|Interface|Subvendor", "0x%.4x", 4, false, unknownID},
	{"LOCAL_INTERFACE_SUBDEVICE", "Local|Interface|Subdevice", "0x%.4x", 4, false, unknownID},
	{"LOCAL_DRIVER_NAME", "Local|Driver|Name", "%s", 4, false, deprecated},
	{"LOCAL_DRIVER_VERSION", "Local|Driver|Version", "%s", 4, false, deprecated},
	{"LOCAL_DRIVER_FIRMWARE", "Local|Driver|Firmware", "%s", 4, false, deprecated},
	{"LOCAL_DRIVER_BUS", "Local|Driver|Bus", "%s", 4, false, deprecated},
	{"LOCAL_INTERFACE_SLOT", "Local|Interface|Slot", "%s", 4, false, deprecated},
	{"REMOTE_INTERFACE_NAME", "Remote|Interface|Name", "%s", 4, false, deprecated},
	{"REMOTE_INTERFACE_VENDOR", "Remote|Interface|Vendor", "0x%.4x", 4, false, unknownID},
	{"REMOTE_INTERFACE_DEVICE", "Remote|Interface|Device", "0x%.4x", 4, false, unknownID},
	{"REMOTE_INTERFACE_SUBVENDOR", "Remote|Interface|Subvendor", "0x%.4x", 4, false, unknownID},
	{"REMOTE_INTERFACE_SUBDEVICE", "Remote|Interface|Subdevice", "0x%.4x", 4, false, unknownID},
	{"REMOTE_DRIVER_NAME", "Remote|Driver|Name", "%s", 4, false, deprecated},
	{"REMOTE_DRIVER_VERSION", "Remote|Driver|Version", "%s", 4, false, deprecated},
	{"REMOTE_DRIVER_FIRMWARE", "Remote|Driver|Firmware", "%s", 4, false, deprecated},
	{"REMOTE_DRIVER_BUS", "Remote|Driver|Bus", "%s", 4, false, deprecated},
	{"REMOTE_INTERFACE_SLOT", "Remote|Interface|Slot", "%s", 4, false, deprecated},
	{"LOCAL_INTERVAL_USECS", "Local|Interval|Usecs", "%d", 4, false, local(intervalMicros)},
	{"LOCAL_INTERVAL_BURST", "Local|Interval|Burst", "%d", 4, false, local(intervalBurst)},
	{"REMOTE_INTERVAL_USECS", "Remote|Interval|Usecs", "%d", 4, false, remote(intervalMicros)},
	{"REMOTE_INTERVAL_BURST", "Remote|Interval|Burst", "%d", 4, false, remote(intervalBurst)},
	{"LOCAL_SECURITY_TYPE_ID", "Local|OS|Security|Type ID", "%d", 4, false, zero},
	{"LOCAL_SECURITY_TYPE", "Local|OS|Security|Type", "%s", 4, false, deprecated},
	{"LOCAL_SECURITY_ENABLED_NUM", "Local|OS|Security|Enabled Num", "%d", 4, false, zero},
	{"LOCAL_SECURITY_ENABLED", "Local|OS|Security|Enabled", "%s", 4, false, deprecated},
	{"LOCAL_SECURITY_SPECIFIC", "Local|OS|Security|Specific", "%s", 4, false, deprecated},
	{"REMOTE_SECURITY_TYPE_ID", "Remote|OS|Security|Type", "%d", 4, false, zero},
	{"REMOTE_SECURITY_TYPE", "Remote|OS|Security|Type", "%s", 4, false, deprecated},
	{"REMOTE_SECURITY_ENABLED_NUM", "Remote|OS|Security|Enabled", "%d", 4, false, zero},
	{"REMOTE_SECURITY_ENABLED", "Remote|OS|Security|Enabled", "%s", 4, false, deprecated},
	{"REMOTE_SECURITY_SPECIFIC", "Remote|OS|Security|Specific", "%s", 4, false, deprecated},
	{"RESULT_BRAND", "Result|Tag", "\"%s\"", 4, false, resultBrand},
	{"UUID", "Test|UUID", "%s", 4, false, func(r *Run) any { return r.UUID }},
	{"MIN_LATENCY", "Minimum|Latency|Microseconds", "%d", 4, true, latency(func(l *Latency) any { return int(l.Min) })},
	{"MAX_LATENCY", "Maximum|Latency|Microseconds", "%d", 4, true, latency(func(l *Latency) any { return int(l.Max) })},
	{"P50_LATENCY", "50th|Percentile|Latency|Microseconds", "%d", 4, true, latency(func(l *Latency) any { return l.Percentile(0.50) })},
	{"P90_LATENCY", "90th|Percentile|Latency|Microseconds", "%d", 4, true, latency(func(l *Latency) any { return l.Percentile(0.90) })},
	{"P99_LATENCY", "99th|Percentile|Latency|Microseconds", "%d", 4, true, latency(func(l *Latency) any { return l.Percentile(0.99) })},
	{"MEAN_LATENCY", "Mean|Latency|Microseconds", "%.2f", 4, true, latency(func(l *Latency) any { return l.Mean() })},
	{"STDDEV_LATENCY", "Stddev|Latency|Microseconds", "%.2f", 4, true, latency(func(l *Latency) any { return l.Stddev() })},
	{"LOCAL_SOCKET_PRIO", "Local|Socket|Priority", "%d", 4, false, local(priority)},
	{"REMOTE_SOCKET_PRIO", "Remote|Socket|Priority", "%d", 4, false, remote(priority)},
	{"LOCAL_SOCKET_TOS", "Local|Socket|TOS", "0x%.2x", 4, false, local(tos)},
	{"REMOTE_SOCKET_TOS", "Remote|Socket|TOS", "0x%.2x", 4, false, remote(tos)},
	{"LOCAL_CONG_CONTROL", "Local|Congestion|Control|Algorithm", "%s", 4, false, local(congestion)},
	{"REMOTE_CONG_CONTROL", "Remote|Congestion|Control|Algorithm", "%s", 4, false, remote(congestion)},
	{"LOCAL_FILL_FILE", "Local|Fill|File", "%s", 4, false, local(fillFile)},
	{"REMOTE_FILL_FILE", "Remote|Fill|File", "%s", 4, false, remote(fillFile)},
	{"COMMAND_LINE", "Command|Line", "\"%s\"", 4, false, commandLine},
	{"OUTPUT_END", "This|Is|The|End", "%s", 0, false, blank},
}

// defaultNames returns the selectors that are shown unless others were asked
// for.
func defaultNames(r *Run) string {
	names := map[options.Direction]string{
		options.Transmit: "LSS_SIZE_END,RSR_SIZE_END,LOCAL_SEND_SIZE,",
		options.Receive:  "RSS_SIZE_END,LSR_SIZE_END,REMOTE_SEND_SIZE,",
		options.Both:     "LSS_SIZE_END,LSR_SIZE_END,RSR_SIZE_END,RSS_SIZE_END,REQUEST_SIZE,RESPONSE_SIZE,",
		0:                "LSS_SIZE_END,LSR_SIZE_END,RSR_SIZE_END,RSS_SIZE_END,REQUEST_SIZE,RESPONSE_SIZE,",
	}[direction(r.Options)] + "ELAPSED_TIME,THROUGHPUT,THROUGHPUT_UNITS"
	if cpu := r.cpuShown(); cpu.Local || cpu.Remote {
		for _, end := range []string{"LOCAL_", "REMOTE_"} {
			for _, figure := range []string{"UTIL", "PERCENT_USER", "PERCENT_SYSTEM", "PERCENT_IOWAIT",
				"PERCENT_IRQ", "PERCENT_SWINTR", "METHOD"} {
				names += "," + end + "CPU_" + figure
			}
		}
		names += ",LOCAL_SD,REMOTE_SD,SD_UNITS"
	}
	return names
}

// Values of the run as a whole.

// blank is the value of what only fills a place.
func blank(*Run) any { return " " }

// deprecated is what netperf 2.7 says of the ends' systems, interfaces, drivers
// and security, which it no longer looks up.
func deprecated(*Run) any { return "Deprecated" }

// unknownID and zero are of numbers that it no longer looks up, none of buffers
// that it dirties only when compiled to.
func unknownID(*Run) any { return uint32(0xfffffffe) }
func zero(*Run) any      { return 0 }
func none(*Run) any      { return -1 }

// socketType goes by the test's name alone, and so OMNI is always a stream.
func socketType(r *Run) any {
	if r.Options.Test == options.UDPStream || r.Options.Test == options.UDPRR {
		return "Datagram"
	}
	return "Stream"
}

// protocol is what -T said, or else the test's.
func protocol(r *Run) any {
	switch name := r.Options.Protocol; {
	case name == "udplite":
		return "UDPLite"
	case name != "":
		return strings.ToUpper(name)
	case socketType(r) == "Datagram":
		return "UDP"
	}
	return "TCP"
}

func requestSize(r *Run) any {
	size, _ := messageSizes(r.Options)
	return size
}

func responseSize(r *Run) any {
	_, size := messageSizes(r.Options)
	return size
}

func demandUnits(r *Run) any {
	if ByTransaction(r.Options) {
		return "usec/Tran"
	}
	return "usec/KB"
}

func confidenceTarget(r *Run) any {
	if !confidenceAsked(r.Options) {
		return -1.0
	}
	return r.Options.Confidence.Width
}

func throughputConfidence(r *Run) any {
	if !confidenceAsked(r.Options) {
		return -1.0
	}
	width, _, _ := r.confidence().Widths()
	return width
}

func sourceAddress(r *Run) any {
	for _, h := range []options.Host{r.Options.DataSource, r.Options.Source} {
		if h.Name != "" {
			return h.Name
		}
	}
	if r.Family == unix.AF_INET6 {
		return "::0"
	}
	return "0.0.0.0"
}

// sourceFamily is what the data connection's options said, which is mostly
// nothing.
func sourceFamily(r *Run) any {
	family := r.Options.DataFamily
	if family == options.Unspecified {
		family = r.Options.DataSource.Family
	}
	return map[options.Family]int{options.IPv4: unix.AF_INET, options.IPv6: unix.AF_INET6}[family]
}

func destinationAddress(r *Run) any {
	for _, h := range []options.Host{r.Options.DataTarget, r.Options.Target} {
		if h.Name != "" {
			return h.Name
		}
	}
	if r.Options.Family == options.IPv6 {
		return "::1"
	}
	return "localhost"
}

func resultBrand(r *Run) any {
	if r.Options.Brand == nil {
		return nil
	}
	return *r.Options.Brand
}

func commandLine(r *Run) any { return strings.Join(r.Options.Args, " ") }

// latency makes a value of the statistics; -1 when none were kept.
func latency(value func(*Latency) any) func(*Run) any {
	return func(r *Run) any {
		if r.Latency != nil && r.Latency.Count > 0 {
			return value(r.Latency)
		}
		if _, whole := value(&Latency{}).(int); whole {
			return -1
		}
		return -1.0
	}
}

// An end is one end's view of a run: what was found there in the last
// iteration.
type end struct {
	*Side
	run     *Run
	isLocal bool
}

func local(value func(end) any) func(*Run) any {
	return func(r *Run) any { return value(end{&r.last().Local, r, true}) }
}

func remote(value func(end) any) func(*Run) any {
	return func(r *Run) any { return value(end{&r.last().Remote, r, false}) }
}

// of picks what belongs to the end.
func of[T any](e end, both options.Ends[T]) T {
	if e.isLocal {
		return both.Local
	}
	return both.Remote
}

// mean is a figure of the end over all iterations.
func (e end) mean(local, remote func(*options.Netperf, *Iteration) float64) float64 {
	if e.isLocal {
		return e.run.mean(local)
	}
	return e.run.mean(remote)
}

// Values of one end: buffers, calls and bytes.
func sendBufferAsked(e end) any  { return of(e, e.run.Options.Socket).Send }
func sendBuffer(e end) any       { return e.SendBuffer }
func sendBufferEnd(e end) any    { return e.SendBufferEnd }
func recvBufferAsked(e end) any  { return of(e, e.run.Options.Socket).Recv }
func recvBuffer(e end) any       { return e.RecvBuffer }
func recvBufferEnd(e end) any    { return e.RecvBufferEnd }
func sendSize(e end) any         { return e.SendSize }
func recvSize(e end) any         { return e.RecvSize }
func sendAlign(e end) any        { return of(e, e.run.Options.Align).Send }
func recvAlign(e end) any        { return of(e, e.run.Options.Align).Recv }
func sendOffset(e end) any       { return of(e, e.run.Options.Offset).Send }
func recvOffset(e end) any       { return of(e, e.run.Options.Offset).Recv }
func sendWidth(e end) any        { return e.SendWidth }
func recvWidth(e end) any        { return e.RecvWidth }
func sendCalls(e end) any        { return e.SendCalls }
func recvCalls(e end) any        { return e.RecvCalls }
func bytesSent(e end) any        { return e.BytesSent }
func bytesReceived(e end) any    { return e.BytesReceived }
func bytesTransferred(e end) any { return float64(e.BytesSent + e.BytesReceived) }
func bytesPerSend(e end) any     { return ratio(float64(e.BytesSent), float64(e.SendCalls)) }
func bytesPerRecv(e end) any     { return ratio(float64(e.BytesReceived), float64(e.RecvCalls)) }
func sendThroughput(e end) any   { return e.run.byteRate(e.BytesSent) }
func recvThroughput(e end) any   { return e.run.byteRate(e.BytesReceived) }

// Values of one end: its socket and its pace.
func noDelay(e end) any        { return oneIf(e.NoDelay) }
func cork(e end) any           { return oneIf(e.Cork) }
func retransmits(e end) any    { return e.Retransmits }
func priority(e end) any       { return e.Priority }
func tos(e end) any            { return uint32(e.TOS) }
func fillFile(e end) any       { return of(e, e.run.Options.Fill) }
func intervalMicros(e end) any { return int(of(e, e.run.Options.Pace).Interval.Microseconds()) }
func intervalBurst(e end) any  { return of(e, e.run.Options.Pace).Burst }

// congestion is the remote end's at the end of the test, the local end's as it
// was read after the first iteration.
func congestion(e end) any {
	if e.isLocal {
		return e.run.first().Local.Congestion
	}
	return e.Congestion
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Values of one end: its CPUs.
func cpuUtil(e end) any       { return float32(e.mean(localUtil, remoteUtil)) }
func serviceDemand(e end) any { return e.mean(localDemand, remoteDemand) }
func cpuMethod(e end) any     { return rune(method(e.CPU)) }
func cpuBind(e end) any       { return of(e, e.run.Options.Bind) }
func cpuUser(e end) any       { return cpu(e, 0, func(c *CPU) float32 { return float32(c.User) }) }
func cpuSystem(e end) any     { return cpu(e, 0, func(c *CPU) float32 { return float32(c.System) }) }
func cpuIOWait(e end) any     { return cpu(e, 0, func(c *CPU) float32 { return float32(c.IOWait) }) }
func cpuIRQ(e end) any        { return cpu(e, 0, func(c *CPU) float32 { return float32(c.IRQ) }) }
func cpuSoftIRQ(e end) any    { return cpu(e, 0, func(c *CPU) float32 { return float32(c.SoftIRQ) }) }
func cpuCount(e end) any      { return cpu(e, 0, func(c *CPU) int { return c.Count }) }

// The busiest CPU of an end that measured none is -1 here and 0 there.
func cpuPeakUtil(e end) any {
	return cpu(e, of(e, options.Ends[float32]{Local: -1}), func(c *CPU) float32 { return float32(c.PeakUtil) })
}
func cpuPeakID(e end) any {
	return cpu(e, of(e, options.Ends[int]{Local: -1}), func(c *CPU) int { return c.PeakID })
}

func cpuConfidence(e end) any {
	if !confidenceAsked(e.run.Options) {
		return -1.0
	}
	_, local, remote := e.run.confidence().Widths()
	return of(e, options.Ends[float64]{Local: local, Remote: remote})
}

// cpu is a value of what was measured of an end's CPUs, unknown when nothing
// was.
func cpu[T any](e end, unknown T, value func(*CPU) T) T {
	if e.CPU == nil {
		return unknown
	}
	return value(e.CPU)
}
