//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gperf/client"
	"gperf/flow"
	"gperf/internal/units"
	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
	"gperf/splice"
)

// clientOptions is what the client's flags say.
type clientOptions struct {
	client.Config

	repeat     int                // runs; with confidence, at most
	confidence *result.Confidence // nil: not asked for
	strict     bool
	sink       string // file; "": the null device

	format string
	output string // file; "": stdout
	quiet  bool
}

const (
	catTest   = "test"
	catSizes  = "sizes and counts"
	catMovers = "how bytes move"
	catKnobs  = "socket knobs (VALUE for both ends, or CLIENT:SERVER)"
	catReach  = "reaching the server"
	catOutput = "output"
)

// clientFlags is the table of the client's flags: those of the test, and one
// for each knob of sockopt's table.
func clientFlags() []option[clientOptions] {
	type o = clientOptions
	options := []option[o]{
		{name: "test", alias: "t", value: "TYPE", words: testTypes(), category: catTest, usage: "test type: " + strings.Join(testTypes(), ", ") + " (default TCP_STREAM)",
			apply: func(t *o, s string) error { return parseType(&t.Plan.Type, s) }},
		{name: "duration", alias: "d", value: "TIME", category: catTest, usage: "length of the measuring window; plain numbers are seconds (default 10)",
			apply: func(t *o, s string) error { return parseSpan(&t.Plan.Duration, s) }},
		{name: "warmup", value: "TIME", category: catTest, usage: "time before the window, left out of every figure",
			apply: func(t *o, s string) error { return parseSpan(&t.Plan.Warmup, s) }},
		{name: "interval", alias: "i", value: "TIME", category: catTest, usage: "report each interval of this length (at least 10ms)",
			apply: func(t *o, s string) error { return parseSpan(&t.Plan.Interval, s) }},
		{name: "bytes", value: "SIZE", category: catTest, usage: "end after this many payload bytes, the sum over the streams",
			apply: func(t *o, s string) error { return parseSize(&t.Plan.Bytes, s) }},
		{name: "transactions", value: "N", category: catTest, usage: "end after this many transactions, the sum over the streams",
			apply: func(t *o, s string) (err error) { t.Plan.Transactions, err = parseWhole(s, math.MaxInt64); return err }},
		{name: "bidir", category: catTest, isBool: true, usage: "streams in both directions at once",
			apply: func(t *o, s string) error { return parseBool(&t.Plan.Bidir, s) }},
		{name: "rate", value: "RATE", category: catTest, usage: "pace each stream's sender: 1G, 100Mbit; VALUE or CLIENT:SERVER",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.Rate, t.Plan.Server.Rate, err = plan.ParsePair(s, parseRate)
				return err
			}},
		{name: "threads", value: "N", category: catTest, usage: "use the epoll engine with this many threads, VALUE or CLIENT:SERVER (default: a thread per stream up to " + strconv.Itoa(flow.MaxBlocking) + " streams)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.Threads, t.Plan.Server.Threads, err = plan.ParsePair(s, parsePositiveInt)
				return err
			}},
		{name: "cpu", value: "CPUS", category: catTest, usage: "pin the streams' threads to these CPUs in turn: 0,2 or CLIENT:SERVER as 0,2:1,3",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.CPUs, t.Plan.Server.CPUs, err = plan.ParsePair(s, parseCPUs)
				return err
			}},

		{name: "repeat", value: "N", category: catTest, usage: "run the test N times and show the middle run, with every run's values; with --confidence, at most N times (default 10 then)",
			apply: func(t *o, s string) error { return parseInt(&t.repeat, s) }},
		{name: "confidence", value: "LEVEL,WIDTH", category: catTest, usage: "repeat, at least 3 times, until the mean is known: 95,5 means to ±2.5 % at 95 %, as netperf's -I",
			apply: func(t *o, s string) (err error) { t.confidence, err = parseConfidence(s); return err }},

		{name: "streams", alias: "P", value: "N", category: catSizes, usage: "parallel streams (default 1)",
			apply: func(t *o, s string) error { return parseInt(&t.Plan.Streams, s) }},
		{name: "message-size", alias: "m", value: "SIZE", category: catSizes, usage: "bytes per send, VALUE or CLIENT:SERVER (default 128K; a datagram of UDP_STREAM 1400)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.SendSize, t.Plan.Server.SendSize, err = plan.ParsePair(s, parseMessageSize)
				return err
			}},
		{name: "receive-size", value: "SIZE", category: catSizes, usage: "bytes asked for per receive, VALUE or CLIENT:SERVER (default 128K)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.ReceiveSize, t.Plan.Server.ReceiveSize, err = plan.ParsePair(s, parseMessageSize)
				return err
			}},
		{name: "request-size", value: "SIZE", category: catSizes, usage: "bytes of a request (default 1)",
			apply: func(t *o, s string) (err error) { t.Plan.RequestSize, err = parseMessageSize(s); return err }},
		{name: "response-size", value: "SIZE", category: catSizes, usage: "bytes of a response (default 1)",
			apply: func(t *o, s string) (err error) { t.Plan.ResponseSize, err = parseMessageSize(s); return err }},
		{name: "burst", value: "N", category: catSizes, usage: "transactions outstanding at once per stream (default 1)",
			apply: func(t *o, s string) error { return parseInt(&t.Plan.Burst, s) }},
		{name: "response-timeout", value: "TIME", category: catSizes, usage: "time after which a request of UDP_RR counts as lost (default 1)",
			apply: func(t *o, s string) error { return parseSpan(&t.Plan.ResponseTimeout, s) }},
		{name: "send", value: "HOW", words: plan.SendMovers, category: catMovers, usage: strings.Join(plan.SendMovers, ", ") + "; HOW or CLIENT:SERVER (default write; splice takes from a standing pipe by tee)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.Send, t.Plan.Server.Send, err = plan.ParsePair(s, oneOf(plan.SendMovers))
				return err
			}},
		{name: "receive", value: "HOW", words: plan.ReceiveMovers, category: catMovers, usage: strings.Join(plan.ReceiveMovers, ", ") + "; HOW or CLIENT:SERVER (default read; discard and splice skip the copy that an application pays)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.Receive, t.Plan.Server.Receive, err = plan.ParsePair(s, oneOf(plan.ReceiveMovers))
				return err
			}},
		{name: "pipe-size", value: "SIZE", category: catMovers, usage: "size of the pipes of splice and vmsplice, SIZE or CLIENT:SERVER; the kernel rounds it up (F_SETPIPE_SZ)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.PipeSize, t.Plan.Server.PipeSize, err = plan.ParsePair(s, parsePipeSize)
				return err
			}},
		{name: "splice-flags", value: "FLAGS", category: catMovers, usage: "more, move, nonblock, separated by commas; FLAGS or CLIENT:SERVER (default none)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.SpliceFlags, t.Plan.Server.SpliceFlags, err = plan.ParsePair(s, parseSpliceFlags)
				return err
			}},
		{name: "chunk", value: "SIZE", category: catMovers, usage: "most bytes asked for per call, SIZE or CLIENT:SERVER (default a whole message; the receive size)",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.Chunk, t.Plan.Server.Chunk, err = plan.ParsePair(s, parseMessageSize)
				return err
			}},
		{name: "more", isBool: true, category: catMovers, usage: "say on every send that more follows (MSG_MORE), as VALUE or CLIENT:SERVER",
			apply: func(t *o, s string) (err error) {
				t.Plan.Client.More, t.Plan.Server.More, err = plan.ParsePair(s, parseOn)
				return err
			}},
		{name: "verify", isBool: true, category: catMovers, usage: "send a pattern that shows its position, and check every byte on the receiving end",
			apply: func(t *o, s string) error { return parseBool(&t.Plan.Verify, s) }},
		{name: "file", value: "FILE", category: catMovers, usage: "what the client sends by sendfile, over and over, instead of memory",
			apply: func(t *o, s string) (err error) { t.Files.Source, err = os.Open(s); return err }},
		{name: "sink", value: "FILE", category: catMovers, usage: "where the client's splice puts what it receives, instead of the null device",
			apply: func(t *o, s string) error { t.sink = s; return nil }},
	}
	for _, k := range sockopt.Knobs() {
		options = append(options, knobOption(k))
	}
	return append(options, []option[o]{
		{name: "sockopt", value: "LEVEL/NAME=INT", category: catKnobs, usage: "any other integer option, by name or number; may be repeated",
			apply: func(t *o, s string) error { return parseSockopt(t.Plan, s) }},
		{name: "force-buffers", category: catKnobs, isBool: true, usage: "set buffers past net.core.*mem_max (SO_SNDBUFFORCE, SO_RCVBUFFORCE; CAP_NET_ADMIN)",
			apply: func(t *o, s string) error { return parseBool(&t.Plan.ForceBuffers, s) }},
		{name: "allow-clamp", category: catKnobs, isBool: true, usage: "run, with a warning, when the kernel clamps or raises a knob",
			apply: func(t *o, s string) error { return parseBool(&t.Plan.AllowClamp, s) }},

		{name: "4", category: catReach, isBool: true, usage: "IPv4 only",
			apply: func(t *o, s string) error { return parseFamily(&t.Family, unix.AF_INET, s) }},
		{name: "6", category: catReach, isBool: true, usage: "IPv6 only",
			apply: func(t *o, s string) error { return parseFamily(&t.Family, unix.AF_INET6, s) }},
		{name: "bind", value: "ADDR", category: catReach, usage: "local address of all connections",
			apply: func(t *o, s string) (err error) { t.Bind, err = netip.ParseAddr(s); return err }},
		{name: "connect-timeout", value: "TIME", category: catReach, usage: "bound of each stage of the set-up (default 5)",
			apply: func(t *o, s string) (err error) { t.ConnectTimeout, err = parsePositive(s); return err }},
		{name: "secret-file", value: "FILE", category: catReach, usage: "prove to the server that this end has the same secret",
			apply: func(t *o, s string) (err error) { t.Secret, err = readSecret(s); return err }},

		{name: "netns", value: "NAME|PID", category: catReach, usage: "run in this network namespace: a name of ip netns, a process, or a path (CAP_SYS_ADMIN)",
			apply: func(_ *o, s string) error { return enterNetns(s) }},

		{name: "strict", category: catOutput, isBool: true, usage: "exit with 4 when a reason was found not to trust the result",
			apply: func(t *o, s string) error { return parseBool(&t.strict, s) }},
		{name: "format", value: "FORMAT", words: encode.Formats(), category: catOutput, usage: "one of " + strings.Join(encode.Formats(), ", ") + " (default text)",
			apply: func(t *o, s string) error { t.format = s; _, err := encode.Lookup(s); return err }},
		{name: "json", alias: "J", category: catOutput, isBool: true, usage: "the same as --format json",
			apply: func(t *o, s string) error {
				var on bool
				err := parseBool(&on, s)
				if on {
					t.format = "json"
				}
				return err
			}},
		{name: "output", alias: "o", value: "FILE", category: catOutput, usage: "write the result to FILE instead of stdout",
			apply: func(t *o, s string) error { t.output = s; return nil }},
		{name: "label", value: "K=V", category: catOutput, usage: "put a label into the result; may be repeated",
			apply: func(t *o, s string) error { return parseLabel(t.Labels, s) }},
		{name: "quiet", category: catOutput, isBool: true, usage: "no progress on stderr",
			apply: func(t *o, s string) error { return parseBool(&t.quiet, s) }},
	}...)
}

// parseLabel reads KEY=VALUE into labels.
func parseLabel(labels map[string]string, s string) error {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return errors.New("want KEY=VALUE")
	}
	labels[key] = value
	return nil
}

// knobOption is the flag of one knob.
func knobOption(k *sockopt.Knob) option[clientOptions] {
	return option[clientOptions]{
		name: k.Name, value: knobValue(k), category: catKnobs, usage: k.Usage + " (" + k.Option + ")", isBool: k.IsBool,
		apply: func(t *clientOptions, s string) error { return setKnob(t.Plan, k, s) },
	}
}

// knobValue is how help names the value of a knob.
func knobValue(k *sockopt.Knob) string {
	switch {
	case k.IsBool:
		return ""
	case k.Unit == "bytes":
		return "SIZE"
	case k.Unit == "bytes_per_second":
		return "RATE"
	case strings.HasSuffix(k.Unit, "seconds"):
		return "TIME"
	}
	return "VALUE"
}

// setKnob puts VALUE or CLIENT:SERVER of one knob into the plan.
func setKnob(t *plan.Test, k *sockopt.Knob, s string) error {
	c, v, err := plan.ParsePair(s, k.Parse)
	if err != nil {
		if named, ok := strings.CutPrefix(err.Error(), k.Name+": "); ok {
			return errors.New(named) // the flag has that name already
		}
		return err
	}
	for end, value := range map[sockopt.End]sockopt.Value{sockopt.Client: c, sockopt.Server: v} {
		if knobs := t.End(end).Knobs; value.IsSet() {
			knobs[k.Key()] = value
		} else {
			delete(knobs, k.Key())
		}
	}
	return nil
}

func parseSockopt(t *plan.Test, s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || !strings.Contains(name, "/") {
		return errors.New("want LEVEL/NAME=INT")
	}
	k, err := sockopt.Lookup(name)
	if err != nil {
		return err
	}
	return setKnob(t, k, value)
}

func testTypes() (names []string) {
	for _, t := range plan.Types() {
		names = append(names, string(t))
	}
	return names
}

// parseType reads a test type in any case.
func parseType(t *plan.Type, s string) error {
	*t = plan.Type(strings.ToUpper(s))
	if !slices.Contains(plan.Types(), *t) {
		return fmt.Errorf("unknown test type (known: %s)", strings.Join(testTypes(), ", "))
	}
	return nil
}

// parseSpan reads a span of the plan. Zero is refused where a zero in the plan
// would mean "not given".
func parseSpan(d *plan.Seconds, s string) error {
	span, err := parsePositive(s)
	*d = plan.Seconds(span)
	return err
}

func parsePositive(s string) (time.Duration, error) {
	d, err := units.ParseDuration(s)
	if err == nil && d == 0 {
		err = errors.New("must be more than zero")
	}
	return d, err
}

func parseSize(n *int64, s string) error {
	v, err := units.ParseSize(s)
	if err == nil && v == 0 {
		err = errors.New("must be more than zero")
	}
	*n = v
	return err
}

func parseInt(n *int, s string) error {
	v, err := parseWhole(s, math.MaxInt32)
	*n = int(v)
	return err
}

func parsePositiveInt(s string) (n int, err error) {
	err = parseInt(&n, s)
	return n, err
}

func parseRate(s string) (int64, error) {
	rate, err := units.ParseBitRate(s)
	if err == nil && (rate < plan.MinRate || rate > plan.MaxRate) {
		err = fmt.Errorf("not between %s and %s", units.BitRate(plan.MinRate), units.BitRate(plan.MaxRate))
	}
	return int64(rate), err
}

// parseWhole reads a number of things.
func parseWhole(s string, most uint64) (int64, error) {
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil || v < 1 || v > most {
		return 0, fmt.Errorf("want a whole number from 1 to %d", most)
	}
	return int64(v), nil
}

// oneOf reads one of some words.
func oneOf(words []string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", errors.New("want one of " + strings.Join(words, ", "))
		}
		return s, nil
	}
}

func parsePipeSize(s string) (int, error) {
	n, err := units.ParseSize(s)
	if err == nil && (n < 1 || n > plan.MaxPipeSize) {
		err = fmt.Errorf("not between 1 and %d bytes", plan.MaxPipeSize)
	}
	return int(n), err
}

func parseSpliceFlags(s string) (string, error) {
	flags, err := splice.ParseFlags(s)
	return flags.String(), err
}

func parseOn(s string) (on bool, err error) {
	err = parseBool(&on, s)
	return on, err
}

// parseConfidence reads LEVEL,WIDTH, both in percent.
func parseConfidence(s string) (*result.Confidence, error) {
	level, width, two := strings.Cut(s, ",")
	c := &result.Confidence{}
	var err1, err2 error
	c.Level, err1 = strconv.ParseFloat(level, 64)
	c.Width, err2 = strconv.ParseFloat(width, 64)
	if err := errors.Join(err1, err2); err != nil || !two || c.Level < 50 || c.Level > 99.9 || c.Width <= 0 || c.Width > 100 {
		return nil, errors.New("want LEVEL,WIDTH in percent, as 95,5; the level between 50 and 99.9")
	}
	return c, nil
}

func parseMessageSize(s string) (int, error) {
	n, err := units.ParseSize(s)
	if err == nil && (n < 1 || n > plan.MaxMessageSize) {
		err = fmt.Errorf("not between 1 and %d bytes", plan.MaxMessageSize)
	}
	return int(n), err
}

func parseCPUs(s string) ([]int, error) {
	var cpus []int
	for _, field := range strings.Split(s, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a CPU number", field)
		}
		cpus = append(cpus, n)
	}
	return cpus, nil
}

// parseBool reads what boolean knobs accept, too.
func parseBool(b *bool, s string) error {
	switch strings.ToLower(s) {
	case "on", "true", "yes", "1":
		*b = true
	case "off", "false", "no", "0":
		*b = false
	default:
		return errors.New("want on or off")
	}
	return nil
}

func parseFamily(family *int, which int, s string) error {
	var on bool
	if err := parseBool(&on, s); err != nil || !on {
		return err
	}
	if *family != 0 && *family != which {
		return errors.New("-4 and -6 exclude each other")
	}
	*family = which
	return nil
}

// readSecret reads a secret, a last line break left out. A file that others may
// read keeps no secret.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o): chmod 600", info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if secret == "" {
		return nil, errors.New("the file is empty")
	}
	return []byte(secret), nil
}
