package output

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"gperf/netperf/options"
)

// A unit is what one letter of -f stands for.
type unit struct {
	name    string
	divisor float64 // bytes or transactions per second in one; 0: the inverse, see of
}

// units are the letters of -f. 10^0bits are bytes: netperf has it so, and those
// who read it have learnt to multiply.
var units = map[byte]unit{
	'G': {"GBytes", 1 << 30},
	'M': {"MBytes", 1 << 20},
	'K': {"KBytes", 1 << 10},
	'B': {"Bytes", 1},
	'g': {"10^9bits", 1e9 / 8},
	'm': {"10^6bits", 1e6 / 8},
	'k': {"10^3bits", 1e3 / 8},
	'b': {"10^0bits", 1},
	'x': {"Trans", 1},
	'u': {"Usec", 0},
}

// unitLetter returns the letter of units in which the result is shown.
// Connect/close tests have nothing but transactions.
func unitLetter(o *options.Netperf) byte {
	letter := o.Unit
	switch {
	case o.Test == options.TCPCC:
		return 'x'
	case letter == 0 && transactional(o):
		return 'x'
	case letter == 0, letter == 'x' && !transactional(o):
		return 'm'
	}
	if _, ok := units[letter]; !ok {
		return 'K'
	}
	return letter
}

func unitOf(o *options.Netperf) unit { return units[unitLetter(o)] }

// byteUnit is unitOf for rates that are always of bytes.
func byteUnit(o *options.Netperf) unit {
	if letter := unitLetter(o); letter != 'x' {
		return units[letter]
	}
	return units['m']
}

// of converts bytes or transactions per second. Usec are the time that each one
// took.
func (u unit) of(perSecond float64) float64 {
	if u.divisor == 0 {
		return ratio(1e6, perSecond)
	}
	return perSecond / u.divisor
}

// ByTransaction reports whether the result counts transactions per second, and
// so what Interim.Units are: transactions, otherwise bytes.
func ByTransaction(o *options.Netperf) bool { return unitLetter(o) == 'x' }

// direction is where payload goes: of the named tests what their name says,
// whatever else was asked for; 0 when connections are opened and closed.
func direction(o *options.Netperf) options.Direction {
	switch o.Test {
	case options.TCPStream, options.UDPStream, options.TCPSendfile:
		return options.Transmit
	case options.TCPMaerts:
		return options.Receive
	case options.TCPRR, options.UDPRR, options.TCPCRR:
		return options.Both
	case options.TCPCC:
		return 0
	}
	return o.Direction
}

// directionText is the direction in the words of omni.
func directionText(o *options.Netperf) string {
	connection := o.Connection || o.Test == options.TCPCRR
	switch d := direction(o); {
	case d == options.Transmit:
		return "Send"
	case d == options.Receive:
		return "Receive"
	case d == 0:
		return "Connection"
	case connection:
		return "Connect|Send|Recv"
	}
	return "Send|Recv"
}

// transactional reports whether the test's result is a rate of transactions
// unless -f says otherwise.
func transactional(o *options.Netperf) bool {
	d := direction(o)
	return d == options.Both || d == 0
}

// connects reports whether each transaction has a connection of its own.
func connects(o *options.Netperf) bool {
	return o.Connection || o.Test == options.TCPCRR || o.Test == options.TCPCC
}

// messageSizes returns the sizes of request and response in bytes; -1, -1 when
// there are none.
func messageSizes(o *options.Netperf) (request, response int) {
	request, response = o.Request, o.Response
	if direction(o) == options.Both || o.Test == options.TCPCC {
		if request < 0 {
			request = 1
		}
		if response < 0 {
			response = 1
		}
	}
	return request, response
}

// ratio is a/b, and 0 when b is: a result must stay a number for those who
// compute with it.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// last returns the last iteration, which most figures are of.
func (r *Run) last() *Iteration {
	if len(r.Iterations) == 0 {
		return &Iteration{}
	}
	return &r.Iterations[len(r.Iterations)-1]
}

// first returns the first iteration, for what is read only once.
func (r *Run) first() *Iteration {
	if len(r.Iterations) == 0 {
		return &Iteration{}
	}
	return &r.Iterations[0]
}

// mean is a figure's mean over all iterations.
func (r *Run) mean(figure func(*options.Netperf, *Iteration) float64) float64 {
	sum := 0.0
	for i := range r.Iterations {
		sum += figure(r.Options, &r.Iterations[i])
	}
	return ratio(sum, float64(len(r.Iterations)))
}

// elapsed returns seconds.
func elapsed(_ *options.Netperf, it *Iteration) float64 { return it.Elapsed.Seconds() }

// throughput is the headline result in the run's unit.
func throughput(o *options.Netperf, it *Iteration) float64 {
	work := float64(it.Transactions)
	if !ByTransaction(o) {
		work = float64(moved(o, it))
	}
	return unitOf(o).of(ratio(work, it.Elapsed.Seconds()))
}

// moved returns the bytes that throughput is of. The receiver's word counts:
// what netperf sent may not have arrived.
func moved(o *options.Netperf, it *Iteration) uint64 {
	switch {
	case direction(o) == options.Receive:
		return it.Local.BytesReceived
	case o.NoControl:
		return it.Local.BytesSent
	}
	return it.Remote.BytesReceived + it.Remote.BytesSent
}

// byteRate converts bytes of the last iteration to the run's unit.
func (r *Run) byteRate(bytes uint64) float64 {
	return byteUnit(r.Options).of(ratio(float64(bytes), r.last().Elapsed.Seconds()))
}

// transactionRate returns transactions per second of the last iteration; 1 when
// the test has none.
func (r *Run) transactionRate() float64 {
	if !transactional(r.Options) && !connects(r.Options) {
		return 1
	}
	it := r.last()
	return ratio(float64(it.Transactions), it.Elapsed.Seconds())
}

// roundTrip returns the mean time of a transaction in microseconds, from their
// number and not from the histogram; -1 when the test has none. With a burst
// outstanding each one takes the longer; time spent on pacing is left out.
func (r *Run) roundTrip() float64 {
	if !transactional(r.Options) && !connects(r.Options) {
		return -1
	}
	it := r.last()
	µs := 1e6 * ratio((it.Elapsed-it.Paused).Seconds(), float64(it.Transactions))
	if !connects(r.Options) {
		µs *= float64(1 + r.Options.Burst)
	}
	return µs
}

// util returns the CPU utilisation of an end in percent, -1 when it wasn't
// measured.
func util(cpu *CPU) float64 {
	if cpu == nil {
		return -1
	}
	return cpu.Util
}

func localUtil(_ *options.Netperf, it *Iteration) float64  { return util(it.Local.CPU) }
func remoteUtil(_ *options.Netperf, it *Iteration) float64 { return util(it.Remote.CPU) }

// demand returns the CPU time that a unit of work costs an end: microseconds per
// transaction when those are counted, else per 1024 bytes. -1 when it wasn't
// measured. Both ends' are of what netperf itself counted, and an end that
// measured nothing at all is taken for the local one, as in netperf.
func demand(o *options.Netperf, it *Iteration, cpu *CPU) float64 {
	if cpu == nil {
		return -1
	}
	percent := cpu.Util
	if percent == 0 && it.Local.CPU != nil {
		percent = it.Local.CPU.Util
	}
	work := float64(it.Local.BytesSent+it.Local.BytesReceived) / 1024
	switch {
	case ByTransaction(o):
		work = float64(it.Transactions)
	case o.Test == options.TCPSendfile:
		work = float64(it.Remote.BytesReceived) / 1024
	}
	return ratio(percent*1e4*float64(cpu.Count)*it.Elapsed.Seconds(), work)
}

func localDemand(o *options.Netperf, it *Iteration) float64  { return demand(o, it, it.Local.CPU) }
func remoteDemand(o *options.Netperf, it *Iteration) float64 { return demand(o, it, it.Remote.CPU) }

// method returns the letter of the way in which CPU time was measured.
func method(cpu *CPU) byte {
	switch {
	case cpu == nil:
		return 'U'
	case cpu.Method == 0:
		return 'S'
	}
	return cpu.Method
}

// cpuShown tells for which ends CPU figures are shown: those that were asked
// for, unless the remote one couldn't give any.
func (r *Run) cpuShown() options.Ends[bool] {
	shown := r.Options.CPU
	shown.Remote = shown.Remote && r.last().Remote.CPU != nil
	return shown
}

// single rounds to netperf's float, the type of its times and CPU figures, which
// can show in the last digit.
func single(x float64) float64 {
	if math.Abs(x) > math.MaxFloat32 {
		return x
	}
	return float64(float32(x))
}

// A page collects an output, which is then written at once.
type page struct{ bytes.Buffer }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *page) to(w io.Writer) error {
	if p.Len() == 0 {
		return nil
	}
	_, err := w.Write(p.Bytes())
	return err
}
