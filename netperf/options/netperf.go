package options

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Version is what -V says, and what scripts look for.
const Version = "Netperf version 2.7.1\n"

// Defaults of netperf.
const (
	DefaultPort   = 12865 // of the control connection
	DefaultLength = 10    // seconds

	defaultAlign         = 8                // bytes
	defaultInterim       = time.Second      // of -D, when only its second value is given
	defaultPacing        = time.Millisecond // of -b without -w
	defaultLevel         = 99               // percent: of -i without -I
	defaultWidth         = 5.0              // percent: of -I and -i without another
	minIterations        = 3                // bounds of -i
	maxIterations        = 30
	defaultMaxIterations = 10 // of -I without -i

	maxFillName = 31 // the field on the wire has 32 bytes with the terminator
	maxUUID     = 37
)

// Which words behind "--" a test understands.
type grammar int

const (
	noGrammar      grammar = iota // none: they aren't looked at
	omniGrammar                   // tests that are forms of OMNI
	socketsGrammar                // tests that kept their own code
)

// A testDefault is what a test starts from.
type testDefault struct {
	grammar    grammar
	direction  Direction
	exchange   int // default request and response size; Unset: none
	connection bool
	style      Style
}

// tests has every test.
var tests = map[Test]testDefault{
	TCPStream:   {grammar: omniGrammar, direction: Transmit, exchange: Unset},
	TCPMaerts:   {grammar: omniGrammar, direction: Receive, exchange: Unset},
	TCPRR:       {grammar: omniGrammar, direction: Both, exchange: 1},
	TCPCRR:      {grammar: omniGrammar, direction: Both, exchange: 1, connection: true},
	UDPStream:   {grammar: omniGrammar, direction: Transmit, exchange: Unset},
	UDPRR:       {grammar: omniGrammar, direction: Both, exchange: 1},
	Omni:        {grammar: omniGrammar, exchange: Unset, style: Human},
	TCPSendfile: {grammar: socketsGrammar, direction: Transmit, exchange: Unset},
	// No payload goes, but its table shows sizes of 1.
	TCPCC:     {grammar: socketsGrammar, exchange: 1, connection: true},
	TCPMSS:    {grammar: socketsGrammar, direction: Transmit, exchange: Unset},
	LocalCPU:  {exchange: Unset},
	RemoteCPU: {exchange: Unset},
	UUID:      {grammar: omniGrammar, exchange: Unset},
}

// Known reports whether the test exists. Another one's name is kept as it was
// given, in capitals: netperf says that it is unknown only when it has a control
// connection.
func (t Test) Known() bool {
	_, ok := tests[t]
	return ok
}

// Known reports whether the test asked for exists.
func (n *Netperf) Known() bool { return n.Test.Known() }

// newNetperf is a command line without options.
func newNetperf(args []string) *Netperf {
	return &Netperf{
		Args:       slices.Clone(args),
		Test:       TCPStream,
		Port:       DefaultPort,
		Length:     DefaultLength,
		Confidence: Confidence{Min: 1, Max: 1, Width: Unset},
		Bind:       Ends[int]{Unset, Unset},
		Align:      Ends[SendRecv]{SendRecv{defaultAlign, defaultAlign}, SendRecv{defaultAlign, defaultAlign}},
		Dirty:      Ends[SendRecv]{SendRecv{Unset, Unset}, SendRecv{Unset, Unset}},
		Priority:   Ends[int]{Unset, Unset},
		TOS:        Ends[int]{Unset, Unset},
		Verbosity:  1,
		Banner:     true,
	}
}

// newData is a test's own options, none given.
func newData(t testDefault) Data {
	return Data{
		Style:      t.style,
		Direction:  t.direction,
		Connection: t.connection,
		Socket:     Ends[SendRecv]{SendRecv{Unset, Unset}, SendRecv{Unset, Unset}},
		SendSize:   Ends[int]{Unset, Unset},
		RecvSize:   Ends[int]{Unset, Unset},
		Request:    t.exchange,
		Response:   t.exchange,
	}
}

// ParseNetperf reads a command line of netperf; args[0] is the program's name as
// messages show it, without its folder. The error is always an *Exit.
//
// Sizes, counts, ports and the like must be numbers in range: netperf's own
// reading ("abc" is 0, "4G" wraps to 0) starts tests that nobody asked for. For
// the same reason an option that doesn't exist ends the program also behind the
// "--", where netperf goes on after a message.
func ParseNetperf(args []string) (*Netperf, error) {
	program := programName(args, "netperf")
	n := newNetperf(args)
	p := &netperfParser{Netperf: n}

	rest, err := parse(program, "", globalOptions, tail(args), p)
	if err != nil {
		return nil, exit(err, false, netperfUsage)
	}
	for _, pace := range []*Pace{&n.Pace.Local, &n.Pace.Remote} {
		if pace.Burst > 0 && pace.Interval == 0 {
			pace.Interval = defaultPacing
		}
	}

	test := tests[n.Test]
	n.Data = newData(test)
	if !n.Known() {
		n.Data = newData(testDefault{exchange: Unset})
	}
	switch test.grammar {
	case omniGrammar:
		_, err = parse(program, "-- ", omniOptions, rest, p)
		err = exit(err, true, omniUsage)
	case socketsGrammar:
		_, err = parse(program, "-- ", socketsOptions, rest, p)
		err = exit(err, true, socketsUsage)
	}
	if err != nil {
		return nil, err
	}
	if n.Test == Omni {
		p.finishOmni()
	}
	return n, nil
}

// tail is args without the program's name.
func tail(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	return args[1:]
}

// exit makes an *Exit of what parse returned. Of options that belong to a test,
// help is for standard output, and mistakes are one line.
func exit(err error, ofTest bool, usage func() string) error {
	var m *mistake
	var e *Exit
	switch {
	case err == nil:
		return nil
	case err == errVersion:
		return &Exit{Stdout: Version}
	case err == errHelp && ofTest:
		return &Exit{Status: 1, Stdout: usage()}
	case err == errHelp:
		return &Exit{Status: 1, Stderr: usage()}
	case errors.As(err, &m) && m.syntax && !ofTest:
		return &Exit{Status: 1, Stderr: m.text + usage()}
	case errors.As(err, &e):
		return e
	}
	return &Exit{Status: 1, Stderr: err.Error()}
}

// A netperfParser is what the rows of netperf's tables store to.
type netperfParser struct {
	*Netperf
	implied  Direction // what -m, -M and -r say of OMNI's direction
	directed bool      // -d has said it
}

func (p *netperfParser) noEffect(what string) { p.NoEffect = append(p.NoEffect, what) }

// finishOmni fills in what OMNI leaves to its other options.
func (p *netperfParser) finishOmni() {
	if !p.directed {
		p.Direction = p.implied
	}
	if p.Direction == 0 && !p.Connection {
		p.Direction = Transmit
	}
	if p.Direction == Both {
		for _, size := range []*int{&p.Request, &p.Response} {
			if *size == Unset {
				*size = 1
			}
		}
	}
}

// A setter is the function of a row of netperf's tables.
type setter = func(*netperfParser, argument) error

// flag sets a switch.
func flag(at func(*netperfParser) *bool) setter {
	return func(p *netperfParser, _ argument) error {
		*at(p) = true
		return nil
	}
}

// one stores a number.
func one(n numeral, at func(*netperfParser) *int) setter {
	return func(p *netperfParser, arg argument) error {
		v, err := n.parse(arg.whole)
		if err == nil {
			*at(p) = int(v)
		}
		return err
	}
}

// each stores the halves of a pair, those that were given, by store.
func each[T any](store func(string, *T) error, at func(*netperfParser) (first, second *T)) setter {
	return func(p *netperfParser, arg argument) error {
		first, second := at(p)
		if err := store(arg.first, first); err != nil {
			return err
		}
		return store(arg.second, second)
	}
}

// word stores a word that may not be empty.
func word(what string, at func(*netperfParser) *string) setter {
	return func(p *netperfParser, arg argument) error {
		if arg.whole == "" {
			return fmt.Errorf("%q is not a %s", arg.whole, what)
		}
		*at(p) = arg.whole
		return nil
	}
}

// in stores a family that an option implies for the host it names.
func (p *netperfParser) in(s string, host *Host) {
	f, complaint := parseFamily(s)
	host.Family = f
	p.Notes = append(p.Notes, complaint...)
}

// globalOptions are the options before the "--".
var globalOptions = []option[*netperfParser]{
	{letter: 'a', takes: copied, shown: "send,recv", help: "alignment of local buffers, bytes (8,8)", idle: alignIdle,
		set: each(alignment.store, func(p *netperfParser) (_, _ *int) { return &p.Align.Local.Send, &p.Align.Local.Recv })},
	{letter: 'A', takes: copied, shown: "send,recv", help: "alignment of remote buffers, bytes (8,8)",
		set: each(alignment.store, func(p *netperfParser) (_, _ *int) { return &p.Align.Remote.Send, &p.Align.Remote.Recv })},
	{letter: 'b', takes: apart, shown: "local,remote", help: "pace: so many operations, then wait for the next interval (-w)",
		set: func(p *netperfParser, arg argument) error {
			if err := localBurst.store(arg.first, &p.Pace.Local.Burst); err != nil {
				return err
			}
			return remoteBurst.store(arg.second, &p.Pace.Remote.Burst)
		}},
	{letter: 'B', takes: value, shown: "text", help: "brand: put this text behind the result when there is no banner",
		set: func(p *netperfParser, arg argument) error {
			p.Brand = &arg.whole
			return nil
		}},
	{letter: 'c', takes: rate, shown: "rate", help: "measure use of the local CPUs",
		set: measure(func(p *netperfParser) (*bool, *float64) { return &p.CPU.Local, &p.CPURate.Local })},
	{letter: 'C', takes: rate, shown: "rate", help: "measure use of the remote CPUs",
		set: measure(func(p *netperfParser) (*bool, *float64) { return &p.CPU.Remote, &p.CPURate.Remote })},
	{letter: 'd', help: "say more of what is being done; more often, more",
		set: func(p *netperfParser, _ argument) error {
			p.Debug++
			return nil
		}},
	{letter: 'D', takes: apart, shown: "secs,units", help: "interim results every so many seconds; negative: look at the clock after every operation",
		set: setInterim},
	{letter: 'f', takes: value, shown: "unit", help: "unit of the result: G M K B (bytes, powers of 1024), g m k (bits), x (transactions), u (microseconds)",
		set: func(p *netperfParser, arg argument) error {
			if arg.whole == "" {
				return fmt.Errorf("%q is not a unit", arg.whole)
			}
			p.Unit = arg.whole[0]
			return nil
		}},
	{letter: 'F', takes: apart, shown: "local,remote", help: "files to fill the buffers from; TCP_SENDFILE sends the local one",
		set: func(p *netperfParser, arg argument) error {
			if len(arg.second) > maxFillName {
				return &Exit{Status: 255, Stderr: "Remote fill file name must be less than 32 characters\n"}
			}
			_ = storeName(arg.first, &p.Fill.Local)
			return storeName(arg.second, &p.Fill.Remote)
		}},
	{letter: 'h', help: "this text", set: func(*netperfParser, argument) error { return errHelp }},
	{letter: 'H', takes: apart, shown: "name,family", help: "the host to test with, and its address family (localhost)",
		set: func(p *netperfParser, arg argument) error {
			if arg.second != "" {
				p.in(arg.second, &p.Target)
				p.Family = p.Target.Family
			}
			return storeName(arg.first, &p.Target.Name)
		}},
	{letter: 'i', takes: copied, shown: "max,min", help: "repeat, at most and at least so many times, 3 to 30, until the result is sure (-I)",
		set: setIterations},
	{letter: 'I', takes: copied, shown: "level,width", help: "how sure: a level of 95 or 99 %, and the width of its interval in % of the result (99,5)",
		set: setConfidence},
	{letter: 'j', help: "keep statistics of latency",
		set: flag(func(p *netperfParser) *bool { return &p.Histogram })},
	{letter: 'J', long: "json", takes: value, shown: "file", help: "write gperf's result document to this file; - for standard output",
		set: word("file name", func(p *netperfParser) *string { return &p.JSON })},
	{letter: 'k', takes: copied, shown: "dirty,clean", help: "local memory to touch between receives", idle: dirtyIdle,
		set: dirty(func(p *netperfParser) (_, _ *int) { return &p.Dirty.Local.Send, &p.Dirty.Local.Recv })},
	{letter: 'K', takes: copied, shown: "dirty,clean", help: "remote memory to touch between receives", idle: dirtyIdle,
		set: dirty(func(p *netperfParser) (_, _ *int) { return &p.Dirty.Remote.Send, &p.Dirty.Remote.Recv })},
	{letter: 'l', takes: value, shown: "n", help: "length in seconds; negative: bytes or transactions; 0: until interrupted (10)",
		set: func(p *netperfParser, arg argument) (err error) {
			p.Length, err = parseLength(arg.whole)
			return err
		}},
	{letter: 'L', takes: apart, shown: "name,family", help: "the local address and its family",
		set: func(p *netperfParser, arg argument) error {
			if arg.second != "" {
				p.in(arg.second, &p.Source)
				if p.Family == Unspecified {
					p.Family = p.Source.Family
				}
			}
			return storeName(arg.first, &p.Source.Name)
		}},
	{letter: 'n', takes: value, shown: "n", help: "number of CPUs", idle: "the kernel says how many CPUs there are",
		set: one(count, func(p *netperfParser) *int { return &p.CPUs })},
	{letter: 'N', help: "no control connection: test against a plain discard, echo or chargen service",
		set: flag(func(p *netperfParser) *bool { return &p.NoControl })},
	{letter: 'o', takes: copied, shown: "send,recv", help: "offset of local buffers from their alignment, bytes (0,0)", idle: alignIdle,
		set: offsets('o', func(p *netperfParser) (_, _ *int) { return &p.Offset.Local.Send, &p.Offset.Local.Recv })},
	{letter: 'O', takes: copied, shown: "send,recv", help: "offset of remote buffers from their alignment, bytes (0,0)",
		set: offsets('O', func(p *netperfParser) (_, _ *int) { return &p.Offset.Remote.Send, &p.Offset.Remote.Recv })},
	{letter: 'p', takes: apart, shown: "port,lport", help: "port of netserver, and local port of the control connection (12865,0)",
		set: func(p *netperfParser, arg argument) error {
			if err := port.store(arg.first, &p.Port); err != nil {
				return err
			}
			return anyPort.store(arg.second, &p.SourcePort)
		}},
	{letter: 'P', takes: value, shown: "0|1", help: "whether to print banner and headings (1)",
		set: func(p *netperfParser, arg argument) error {
			v, err := signed.parse(arg.whole)
			p.Banner = v != 0
			return err
		}},
	{letter: 'r', help: "repeat (-i, -I) for the result only, not for CPU use",
		set: flag(func(p *netperfParser) *bool { return &p.Confidence.ResultOnly })},
	{letter: 's', takes: value, shown: "secs", help: "wait before the payload starts (0)",
		set: func(p *netperfParser, arg argument) (err error) {
			p.Wait, err = parseWait(arg.whole)
			return err
		}},
	{letter: 'S', help: "SO_KEEPALIVE on data connections, both ends",
		set: flag(func(p *netperfParser) *bool { return &p.KeepAlive })},
	{letter: 't', takes: value, shown: "test", help: "the test: " + testNames() + " (TCP_STREAM)",
		set: func(p *netperfParser, arg argument) error {
			p.Test = Test(strings.ToUpper(arg.whole))
			return nil
		}},
	{letter: 'T', takes: copied, shown: "local,remote", help: "CPU to run on",
		set: each(cpuNumber.store, func(p *netperfParser) (_, _ *int) { return &p.Bind.Local, &p.Bind.Remote })},
	{letter: 'v', takes: value, shown: "n", help: "how much to print: 0, 1 or 2 (1)",
		set: one(signed, func(p *netperfParser) *int { return &p.Verbosity })},
	{letter: 'V', help: "print the version", set: func(*netperfParser, argument) error { return errVersion }},
	{letter: 'w', takes: apart, shown: "local,remote", help: "interval of pacing (-b): milliseconds, or with us, ms or s behind it (1 if there is -b)",
		set: func(p *netperfParser, arg argument) error {
			if err := storeInterval(arg.first, &p.Pace.Local.Interval); err != nil {
				return err
			}
			return storeInterval(arg.second, &p.Pace.Remote.Interval)
		}},
	{letter: 'W', takes: copied, shown: "send,recv", help: "number of local buffers, used in turn",
		set: each(count.store, func(p *netperfParser) (_, _ *int) { return &p.Width.Send, &p.Width.Recv })},
	{letter: 'y', takes: copied, shown: "local,remote", help: "SO_PRIORITY of data sockets",
		set: each(priority.store, func(p *netperfParser) (_, _ *int) { return &p.Priority.Local, &p.Priority.Remote })},
	{letter: 'Y', takes: copied, shown: "local,remote", help: "type of service: 0 to 255, 0x for hexadecimal, or a name such as ef, cs1, af11",
		set: each(storeTOS, func(p *netperfParser) (_, _ *int) { return &p.TOS.Local, &p.TOS.Remote })},
	{letter: 'Z', takes: value, shown: "text", help: "passphrase for netserver",
		set: func(p *netperfParser, arg argument) error {
			p.Passphrase, p.HasPassphrase = arg.whole, true
			return nil
		}},
	{letter: '4', help: "IPv4", set: allFamilies(IPv4)},
	{letter: '6', help: "IPv6", set: allFamilies(IPv6)},
}

const (
	dirtyIdle = "memory is not touched between receives"
	alignIdle = "buffers are where the runtime puts them"
)

// offsets stores offsets. Scripts mistake these two options for the ones of the
// same letters behind the "--" and list selectors. netperf makes an offset of 0
// of such a list and goes on, and scripts count on a result.
func offsets(letter byte, at func(*netperfParser) (first, second *int)) setter {
	store := each(offset.store, at)
	return func(p *netperfParser, arg argument) error {
		if selectorList().MatchString(arg.whole) {
			p.noEffect(fmt.Sprintf("-%c: a list of selectors belongs behind the --", letter))
			return nil
		}
		return store(p, arg)
	}
}

// selectorList matches lists that begin with the name of a selector: nearly all
// of them have an underscore.
var selectorList = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z]+[0-9]*_[A-Za-z_]+( *[,;]|$)`)
})

// measure stores a switch with an optional rate.
func measure(at func(*netperfParser) (*bool, *float64)) setter {
	return func(p *netperfParser, arg argument) (err error) {
		on, rate := at(p)
		*on = true
		if arg.whole != "" {
			*rate, err = parseRate(arg.whole)
		}
		return err
	}
}

// dirty stores counts of -k and -K, with what netperf says of them.
func dirty(at func(*netperfParser) (first, second *int)) setter {
	store := each(dirtyCount.store, at)
	return func(p *netperfParser, arg argument) error {
		p.Notes = append(p.Notes, "I don't know how to get dirty.")
		return store(p, arg)
	}
}

func allFamilies(f Family) setter {
	return func(p *netperfParser, _ argument) error {
		p.Family, p.Target.Family, p.Source.Family = f, f, f
		return nil
	}
}

func setInterim(p *netperfParser, arg argument) (err error) {
	every := defaultInterim
	if arg.first != "" {
		if every, err = parseSeconds(arg.first); err != nil {
			return err
		}
	}
	p.Interval.EachOperation = every < 0
	p.Interval.Every = every.Abs()
	return count.store(arg.second, &p.Interval.Units)
}

func setIterations(p *netperfParser, arg argument) error {
	c := &p.Confidence
	if err := count.store(arg.first, &c.Max); err != nil {
		return err
	}
	if err := count.store(arg.second, &c.Min); err != nil {
		return err
	}
	c.Min = min(max(c.Min, minIterations), maxIterations)
	c.Max = min(max(c.Max, c.Min), maxIterations)
	if c.Level == 0 {
		c.Level = defaultLevel
	}
	if c.Width < 0 {
		c.Width = defaultWidth
	}
	return nil
}

func setConfidence(p *netperfParser, arg argument) (err error) {
	c := &p.Confidence
	if arg.first != "" {
		// The integer that it starts with: callers write 95%.
		if c.Level, err = parseLength(arg.first); err != nil {
			c.Level = 0
		}
	}
	if c.Level != 95 && c.Level != 99 {
		return &Exit{Status: 255, Stdout: "Only 95% and 99% confidence level is supported\n"}
	}
	if arg.second != "" {
		if c.Width, err = parsePercent(arg.second); err != nil {
			return err
		}
	} else if c.Width < 0 {
		c.Width = defaultWidth
	}
	if c.Max == 1 {
		c.Min, c.Max = minIterations, defaultMaxIterations
	}
	return nil
}

// storeInterval parses a pacing interval into to, unless s is "".
func storeInterval(s string, to *time.Duration) (err error) {
	if s != "" {
		*to, err = parseInterval(s)
	}
	return err
}

// testNames lists the tests for the help.
func testNames() string {
	var names []string
	for t := range tests {
		names = append(names, string(t))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const usageHead = "\nUsage: netperf [global options] -- [test options]\n"

func netperfUsage() string {
	return usageHead + "\nGlobal options:\n" + usage(globalOptions) + usagePairs +
		"\nOptions of a test: netperf -t test -- -h\n"
}
