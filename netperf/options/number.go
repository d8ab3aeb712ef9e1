package options

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"
)

// A numeral is a kind of number: what it is called, and its range.
type numeral struct {
	what     string
	min, max int64
}

// The kinds of numbers. Where -1 is in range it stands for Unset, as in netperf.
// What crosses the wire has 32 bits there, and netperf reads most of it as
// signed.
var (
	bufferSize   = numeral{"size", Unset, math.MaxInt32} // SO_SNDBUF, SO_RCVBUF: C ints
	messageSize  = numeral{"size", 0, math.MaxInt32}
	exchangeSize = numeral{"size", 1, math.MaxInt32} // of requests and responses: an empty one would never arrive
	alignment    = numeral{"size", 1, math.MaxInt32}
	offset       = numeral{"size", 0, math.MaxInt32}
	count        = numeral{"number", 0, math.MaxInt32}
	signed       = numeral{"number", math.MinInt32, math.MaxInt32}
	dirtyCount   = numeral{"number", Unset, math.MaxInt32}
	localBurst   = numeral{"number", 0, math.MaxInt64}
	remoteBurst  = numeral{"number", 0, math.MaxUint32}
	cpuNumber    = numeral{"CPU number", Unset, math.MaxInt32}
	priority     = numeral{"priority", Unset, math.MaxInt32}
	port         = numeral{"port", 1, math.MaxUint16}
	anyPort      = numeral{"port", 0, math.MaxUint16}
	hops         = numeral{"number of hops", 0, math.MaxUint8}
	maskBits     = numeral{"number of mask bits", 1, 128}
	pacingRate   = numeral{"rate", 0, math.MaxInt64}
	serverCPUs   = numeral{"number", 0, 512} // netserver refuses more
)

// suffixes are netperf's.
var suffixes = map[byte]int64{
	'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30,
	'k': 1e3, 'm': 1e6, 'g': 1e9,
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// decimal is the length of the decimal number that s starts with: an optional
// minus, digits, and perhaps a point and more digits. 0: there is none.
func decimal(s string) int {
	i := 0
	if strings.HasPrefix(s, "-") {
		i++
	}
	start := i
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == start {
		return 0
	}
	if i+1 < len(s) && s[i] == '.' && isDigit(s[i+1]) {
		for i++; i < len(s) && isDigit(s[i]); i++ {
		}
	}
	return i
}

// exact is the value of a decimal number. A float64 would make 1.005k less than
// 1005, and has 53 bits only.
func exact(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return new(big.Rat) // decimal has vouched for s
	}
	return r
}

// parse reads a number with at most one suffix, all of it: what netperf makes of
// other words (0 of "abc", 1 of "1e6", 0 of "4G") is a test that nobody asked for.
func (n numeral) parse(s string) (int64, error) {
	digits, factor := s, int64(1)
	if s != "" {
		if f, ok := suffixes[s[len(s)-1]]; ok {
			digits, factor = s[:len(s)-1], f
		}
	}
	if digits == "" || decimal(digits) != len(digits) {
		return 0, fmt.Errorf("%q is not a %s", s, n.what)
	}
	r := exact(digits)
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	v := r.Num()
	if v.Cmp(big.NewInt(n.min)) < 0 || v.Cmp(big.NewInt(n.max)) > 0 {
		return 0, fmt.Errorf("%q is out of range: a %s is from %d to %d", s, n.what, n.min, n.max)
	}
	return v.Int64(), nil
}

// store parses s into to, unless s is "": the half of a pair that wasn't given.
func (n numeral) store(s string, to *int) error {
	if s == "" {
		return nil
	}
	v, err := n.parse(s)
	if err == nil {
		*to = int(v)
	}
	return err
}

// parseLength reads the length of a test as netperf does, whose callers write
// "10s", "90.0" and durations of Go: the integer that s starts with, times a
// factor for each kind of suffix that stands anywhere behind it. Only a word
// without a number is refused (netperf takes it for 0: an endless test), and
// what doesn't fit the wire's 32 bits.
func parseLength(s string) (int, error) {
	end := decimal(s)
	if end == 0 {
		return 0, fmt.Errorf("%q is not a length", s)
	}
	integer, _, _ := strings.Cut(s[:end], ".")
	v := new(big.Int).Set(exact(integer).Num())
	for letter, factor := range suffixes {
		if strings.IndexByte(s[end:], letter) >= 0 {
			v.Mul(v, big.NewInt(factor))
		}
	}
	if !v.IsInt64() || v.Int64() < -math.MaxInt32 || v.Int64() > math.MaxInt32 {
		return 0, fmt.Errorf("%q is out of range: a length is from %d to %d", s, -math.MaxInt32, math.MaxInt32)
	}
	return int(v.Int64()), nil
}

// parseSeconds reads a time in seconds, with or without a point and an s.
func parseSeconds(s string) (time.Duration, error) {
	digits := strings.TrimSuffix(s, "s")
	if digits == "" || decimal(digits) != len(digits) {
		return 0, fmt.Errorf("%q is not a time in seconds", s)
	}
	seconds, _ := exact(digits).Float64()
	if math.Abs(seconds) > math.MaxInt32 {
		return 0, fmt.Errorf("%q is out of range: a time is at most %d seconds", s, math.MaxInt32)
	}
	return time.Duration(math.Round(seconds * float64(time.Second))), nil
}

// parseWait is parseSeconds for times that can't be negative.
func parseWait(s string) (time.Duration, error) {
	d, err := parseSeconds(s)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, err
}

// intervalUnits are the suffixes of pacing intervals. None means milliseconds.
var intervalUnits = []struct {
	suffix string
	unit   time.Duration
}{
	{"ms", time.Millisecond}, {"m", time.Millisecond},
	{"us", time.Microsecond}, {"u", time.Microsecond},
	{"s", time.Second},
	{"", time.Millisecond},
}

// parseInterval reads a pacing interval: whole microseconds, of which the wire
// carries 32 bits.
func parseInterval(s string) (time.Duration, error) {
	for _, u := range intervalUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		if digits == "" || decimal(digits) != len(digits) {
			break
		}
		r := exact(digits)
		r.Mul(r, new(big.Rat).SetInt64(u.unit.Microseconds()))
		switch {
		case !r.IsInt():
			return 0, fmt.Errorf("%q is not a whole number of microseconds", s)
		case r.Sign() < 0 || r.Num().Cmp(big.NewInt(math.MaxUint32)) > 0:
			return 0, fmt.Errorf("%q is out of range: an interval is from 0 to %d us", s, uint32(math.MaxUint32))
		}
		return time.Duration(r.Num().Int64()) * time.Microsecond, nil
	}
	return 0, fmt.Errorf("%q is not an interval", s)
}

// maxPercent bounds what is taken for a percentage.
const maxPercent = 1e6

// parsePercent reads the number that s starts with: "5", "0.001", "95%".
func parsePercent(s string) (float64, error) {
	end := decimal(s)
	if end == 0 {
		return 0, fmt.Errorf("%q is not a percentage", s)
	}
	f, _ := exact(s[:end]).Float64()
	if f < 0 || f > maxPercent {
		return 0, fmt.Errorf("%q is out of range: a percentage is from 0 to %d", s, int(maxPercent))
	}
	return f, nil
}

// maxRate bounds the CPU rates given with -c and -C: the wire has them in single
// precision.
const maxRate = 1e12

// parseRate reads a CPU rate.
func parseRate(s string) (float64, error) {
	if s == "" || decimal(s) != len(s) {
		return 0, fmt.Errorf("%q is not a rate", s)
	}
	f, _ := exact(s).Float64()
	if f < 0 || f > maxRate {
		return 0, fmt.Errorf("%q is out of range: a rate is from 0 to %g", s, float64(maxRate))
	}
	return f, nil
}
