// Package units reads and prints the sizes, rates and durations of gperf's
// command line. Each dialect is a function of its own, named after whose
// dialect it is: what a suffix means differs between testers (netperf's k is
// 1000 and its K 1024; iperf3's are both 1024 for sizes and 1000 for rates),
// and a number read in the wrong dialect is a wrong measurement.
//
// It is not for formatting results as documents: encoders print full precision.
package units

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

var (
	errEmpty    = errors.New("empty")
	errSyntax   = errors.New("not a number")
	errRange    = errors.New("out of range")
	errNegative = errors.New("negative")
	errWhole    = errors.New("not a whole number of bytes")
)

// sizeSuffixes are gperf's own: a bare letter and the -iB form are powers of
// 1024, the -B form is decimal.
var sizeSuffixes = map[string]int64{
	"": 1, "B": 1,
	"K": 1 << 10, "k": 1 << 10, "KiB": 1 << 10, "kiB": 1 << 10, "kB": 1e3, "KB": 1e3,
	"M": 1 << 20, "m": 1 << 20, "MiB": 1 << 20, "MB": 1e6,
	"G": 1 << 30, "g": 1 << 30, "GiB": 1 << 30, "GB": 1e9,
	"T": 1 << 40, "t": 1 << 40, "TiB": 1 << 40, "TB": 1e12,
}

// rateSuffixes are decimal, as rates are everywhere; the unit is bits per
// second with or without its name.
var rateSuffixes = map[string]float64{"": 1, "k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "g": 1e9, "G": 1e9, "t": 1e12, "T": 1e12}

// split cuts s into its leading decimal number and what follows. The number
// has digits and at most one point: no sign, exponent, hex or white space, so
// that "1e6", " 8K" and "0x10" are refused instead of half read.
func split(s string) (number float64, suffix string, err error) {
	if s == "" {
		return 0, "", errEmpty
	}
	if strings.HasPrefix(s, "-") {
		return 0, "", errNegative
	}
	i := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if i < 0 {
		i = len(s)
	}
	number, err = strconv.ParseFloat(s[:i], 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, "", errRange
	} else if err != nil {
		return 0, "", errSyntax
	}
	return number, s[i:], nil
}

// ParseSize reads a size in bytes in gperf's dialect: a decimal number with an
// optional suffix. K, KiB, M, MiB, G, GiB, T, TiB are powers of 1024; kB, MB,
// GB, TB powers of 1000. A fraction is accepted when it comes to whole bytes
// (8.5K is 8704). Anything else is an error, and so is a size above 2^63-1.
func ParseSize(s string) (int64, error) {
	_, suffix, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", s, err)
	}
	factor, ok := sizeSuffixes[suffix]
	if !ok {
		return 0, fmt.Errorf("size %q: unknown suffix %q (K, M, G, T are powers of 1024; kB, MB, GB, TB of 1000)", s, suffix)
	}
	// Exact arithmetic: a float64 makes 1.005*1000 less than 1005, and has 53
	// bits only.
	bytes, ok := new(big.Rat).SetString(strings.TrimSuffix(s, suffix))
	if !ok {
		return 0, fmt.Errorf("size %q: %w", s, errSyntax)
	}
	bytes.Mul(bytes, new(big.Rat).SetInt64(factor))
	switch {
	case !bytes.IsInt():
		return 0, fmt.Errorf("size %q: %w", s, errWhole)
	case !bytes.Num().IsInt64():
		return 0, fmt.Errorf("size %q: %w", s, errRange)
	}
	return bytes.Num().Int64(), nil
}

// ParseBitRate reads a rate in bits per second: a decimal number with an
// optional decimal prefix (k, M, G, T) and an optional unit (bit, bps, bit/s).
func ParseBitRate(s string) (float64, error) {
	number, suffix, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("rate %q: %w", s, err)
	}
	prefix := suffix
	for _, unit := range []string{"bit/s", "bps", "bit"} {
		if cut, ok := strings.CutSuffix(suffix, unit); ok {
			prefix = cut
			break
		}
	}
	factor, ok := rateSuffixes[prefix]
	if !ok {
		return 0, fmt.Errorf("rate %q: unknown suffix %q (k, M, G, T are powers of 1000, of bits per second)", s, suffix)
	}
	rate := number * factor
	if math.IsInf(rate, 0) {
		return 0, fmt.Errorf("rate %q: %w", s, errRange)
	}
	return rate, nil
}

// ParseDuration reads a time span: a plain decimal number is seconds, anything
// else is Go's notation (250ms, 1m30s). Negative spans are refused.
func ParseDuration(s string) (time.Duration, error) {
	if number, suffix, err := split(s); err == nil && suffix == "" {
		ns := number * float64(time.Second)
		if ns >= math.MaxInt64 {
			return 0, fmt.Errorf("duration %q: %w", s, errRange)
		}
		return time.Duration(math.Round(ns)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q: neither seconds nor a span such as 250ms or 1m30s", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q: %w", s, errNegative)
	}
	return d, nil
}

// BitRate prints a rate in bits per second with the decimal prefix that leaves
// one to three digits before the point: "9.41 Gbit/s".
func BitRate(bitsPerSecond float64) string {
	return scaled(bitsPerSecond, 1000, []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"})
}

// Size prints a number of bytes with the binary prefix that leaves one to
// four digits before the point: "1.17 GiB"; whole bytes below 1024.
func Size(bytes float64) string {
	if bytes < 1024 && bytes == math.Trunc(bytes) {
		return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
	}
	return scaled(bytes, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"})
}

// ExactSize prints a number of bytes in the shortest form that ParseSize reads
// back to the same number: 128K, 5000003.
func ExactSize(bytes int64) string {
	for _, suffix := range []string{"T", "G", "M", "K"} {
		factor := sizeSuffixes[suffix]
		if bytes >= factor && bytes%factor == 0 {
			return strconv.FormatInt(bytes/factor, 10) + suffix
		}
	}
	return strconv.FormatInt(bytes, 10)
}

// scaled prints v with three significant digits in the largest unit that
// leaves at least one digit before the point. The limits are those from which
// a number rounds up to the next place, or to the next unit.
func scaled(v, base float64, names []string) string {
	i := 0
	for v >= base-0.5 && i < len(names)-1 {
		v /= base
		i++
	}
	decimals := 2
	switch {
	case v >= 99.95:
		decimals = 0
	case v >= 9.995:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + " " + names[i]
}
