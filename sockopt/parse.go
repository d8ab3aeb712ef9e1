package sockopt

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/units"
)

// A parser reads flag text, which is neither empty nor "auto". Its errors
// don't name the knob.
type parser func(s string) (Value, error)

// Parse reads the flag text for one end into a Value in the kernel's unit. ""
// and "auto" give an unset Value. An error is one line that names the knob.
func (k *Knob) Parse(s string) (Value, error) {
	if s == "" || s == "auto" {
		return Value{}, nil
	}
	v, err := k.parse(s)
	if err != nil {
		return Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	if err := k.check(v); err != nil {
		return Value{}, err
	}
	return v, nil
}

func parseBool(s string) (Value, error) {
	switch strings.ToLower(s) {
	case "on", "true", "yes", "1":
		return Int(1), nil
	case "off", "false", "no", "0":
		return Int(0), nil
	}
	return Value{}, fmt.Errorf("%q is neither on nor off", s)
}

func parseSize(s string) (Value, error) {
	n, err := units.ParseSize(s)
	if err != nil {
		return Value{}, err
	}
	return Int(n), nil
}

// parseNumber reads a decimal number, or a hexadecimal one behind 0x.
func parseNumber(s string) (Value, error) {
	digits, base := s, 10
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil || strings.HasPrefix(s, "+") || base == 16 && n < 0 {
		return Value{}, fmt.Errorf("%q is not a number", s)
	}
	return Int(n), nil
}

// parseRate reads bits per second and gives bytes per second, the kernel's
// unit, rounded to the nearest.
func parseRate(s string) (Value, error) {
	rate, err := units.ParseBitRate(s)
	if err != nil {
		return Value{}, err
	}
	// The nearest float64 to MaxInt64 is 2^63, which doesn't fit any more.
	bytes := math.Round(rate / 8)
	if bytes >= math.MaxInt64 {
		return Value{}, fmt.Errorf("rate %q is out of range", s)
	}
	return Int(int64(bytes)), nil
}

// parseMilliseconds reads a plain number as milliseconds, the kernel's unit,
// or a span in Go's notation that comes to whole ones.
func parseMilliseconds(s string) (Value, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int(n), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return Value{}, fmt.Errorf("%q is neither milliseconds nor a span such as 30s", s)
	}
	if d%time.Millisecond != 0 {
		return Value{}, fmt.Errorf("%q is not a whole number of milliseconds", s)
	}
	return Int(d.Milliseconds()), nil
}

func parseName(s string) (Value, error) { return Str(s), nil }

// parseTOS reads the whole byte as a number, or a DSCP by the name that its
// RFC gives it; the code point is the upper six bits (RFC 2474).
func parseTOS(s string) (Value, error) {
	name := strings.ToLower(s)
	switch {
	case name == "ef": // RFC 3246
		return Int(46 << 2), nil
	case name == "le": // RFC 8622
		return Int(1 << 2), nil
	case len(name) == 3 && strings.HasPrefix(name, "cs") && digit(name[2], 0, 7): // RFC 2474
		return Int(int64(name[2]-'0') << 3 << 2), nil
	case len(name) == 4 && strings.HasPrefix(name, "af") && digit(name[2], 1, 4) && digit(name[3], 1, 3): // RFC 2597
		return Int((int64(name[2]-'0')<<3 + int64(name[3]-'0')<<1) << 2), nil
	}
	v, err := parseNumber(s)
	if err != nil {
		return v, fmt.Errorf("%q is neither a number nor a DSCP name (cs0-cs7, af11-af43, ef, le)", s)
	}
	return v, nil
}

func digit(c byte, low, high int) bool { return int(c)-'0' >= low && int(c)-'0' <= high }

// mtuDiscover has the same numbers for IPv4 and IPv6.
var mtuDiscover = map[string]int64{
	"dont":      unix.IP_PMTUDISC_DONT,
	"want":      unix.IP_PMTUDISC_WANT,
	"do":        unix.IP_PMTUDISC_DO,
	"probe":     unix.IP_PMTUDISC_PROBE,
	"interface": unix.IP_PMTUDISC_INTERFACE,
	"omit":      unix.IP_PMTUDISC_OMIT,
}

func parseMTUDiscover(s string) (Value, error) {
	if n, ok := mtuDiscover[strings.ToLower(s)]; ok {
		return Int(n), nil
	}
	v, err := parseNumber(s)
	if err != nil {
		return v, fmt.Errorf("%q is none of dont, want, do, probe, interface, omit", s)
	}
	return v, nil
}

// fastOpenQueue is what "on" means to a server: enough for every connection of
// a test with many streams to wait at once.
const fastOpenQueue = 256

func parseFastOpen(s string) (Value, error) {
	if n, err := parseNumber(s); err == nil {
		return n, nil
	}
	v, err := parseBool(s)
	if err != nil {
		return v, fmt.Errorf("%q is neither on, off nor a queue length", s)
	}
	if v == Int(1) {
		return Int(fastOpenQueue), nil
	}
	return v, nil
}

func parseLinger(s string) (Value, error) {
	if strings.EqualFold(s, "off") {
		return lingerOff, nil
	}
	v, err := parseNumber(s)
	if err != nil {
		return v, fmt.Errorf("%q is neither seconds nor off", s)
	}
	return v, nil
}
