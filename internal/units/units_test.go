package units

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want int64
		err  error // errAny: which one doesn't matter
	}{
		{"0", 0, nil},
		{"1", 1, nil},
		{"1448B", 1448, nil},
		{"8K", 8192, nil},
		{"8k", 8192, nil},
		{"8KiB", 8192, nil},
		{"8kiB", 8192, nil},
		{"8kB", 8000, nil},
		{"8KB", 8000, nil},
		{"1M", 1 << 20, nil},
		{"1m", 1 << 20, nil},
		{"1MB", 1e6, nil},
		{"4G", 4 << 30, nil},
		{"4GiB", 4 << 30, nil},
		{"4GB", 4e9, nil},
		{"1T", 1 << 40, nil},
		{"1TB", 1e12, nil},
		{"8.5K", 8704, nil},
		{".5K", 512, nil},
		{"1.", 1, nil},
		{"1.005kB", 1005, nil}, // 1.005*1e3 isn't whole in floating point
		{"4.35MB", 4350000, nil},
		{"007", 7, nil},
		{"9007199254740993", 1<<53 + 1, nil},
		{"9007199254740993.0", 1<<53 + 1, nil},
		{"9223372036854775807", math.MaxInt64, nil},
		{"8388607T", 8388607 << 40, nil},
		{"", 0, errEmpty},
		{"abc", 0, errSyntax},
		{"K", 0, errSyntax},
		{".", 0, errSyntax},
		{"1.2.3", 0, errSyntax},
		{" 8K", 0, errSyntax},
		{"+8", 0, errSyntax},
		{"-8K", 0, errNegative},
		{"8.3", 0, errWhole},
		{"0.3K", 0, errWhole},
		{"9223372036854775808", 0, errRange},
		{"8388608T", 0, errRange},
		{"8388607.9999999999999T", 0, errWhole},
		{"9e9", 0, errAny},
		{strings.Repeat("9", 400), 0, errRange},
		{"10KM", 0, errAny},
		{"1e6", 0, errAny},
		{"0x10", 0, errAny},
		{"8K ", 0, errAny},
		{"8 K", 0, errAny},
		{"8Kb", 0, errAny},
		{"1P", 0, errAny},
		{"NaN", 0, errAny},
		{"Inf", 0, errAny},
		{"٣", 0, errAny}, // an Arabic digit
	}
	for _, tt := range tests {
		got, err := ParseSize(tt.in)
		switch {
		case got != tt.want || !matches(err, tt.err):
			t.Errorf("ParseSize(%.40q) = %d, %v; want %d, %v", tt.in, got, err, tt.want, tt.err)
		case err != nil && !strings.Contains(err.Error(), "size \""):
			t.Errorf("ParseSize(%.40q): error %q doesn't quote the size", tt.in, err)
		}
	}
}

// errAny stands in a table for an error that isn't one of the named ones.
var errAny = errors.New("any error")

func matches(err, want error) bool {
	if want == errAny {
		return err != nil
	}
	return errors.Is(err, want)
}

func TestParseBitRate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want float64
		err  error
	}{
		{"0", 0, nil},
		{"10G", 10e9, nil},
		{"10g", 10e9, nil},
		{"100Mbit", 100e6, nil},
		{"100Mbit/s", 100e6, nil},
		{"100Mbps", 100e6, nil},
		{"1.5k", 1500, nil},
		{"2T", 2e12, nil},
		{"9600bps", 9600, nil},
		{"", 0, errEmpty},
		{"-1M", 0, errNegative},
		{"fast", 0, errSyntax},
		{" 1M", 0, errSyntax},
		{strings.Repeat("9", 400), 0, errRange},
		{strings.Repeat("9", 308) + "T", 0, errRange},
		{"1e9", 0, errAny},
		{"10Gi", 0, errAny},
		{"10GB", 0, errAny},
		{"10GK", 0, errAny},
	}
	for _, tt := range tests {
		if got, err := ParseBitRate(tt.in); got != tt.want || !matches(err, tt.err) {
			t.Errorf("ParseBitRate(%.40q) = %v, %v; want %v, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want time.Duration
		err  error
	}{
		{"10", 10 * time.Second, nil},
		{"0.01", 10 * time.Millisecond, nil},
		{".1", 100 * time.Millisecond, nil},
		{"250ms", 250 * time.Millisecond, nil},
		{"1m30s", 90 * time.Second, nil},
		{"0", 0, nil},
		{"-1s", 0, errNegative},
		{"-1", 0, errAny},
		{"", 0, errAny},
		{"1e3", 0, errAny},
		{"10 s", 0, errAny},
		{"soon", 0, errAny},
		{"9223372037", 0, errRange},
		{strings.Repeat("9", 400), 0, errAny},
	}
	for _, tt := range tests {
		if got, err := ParseDuration(tt.in); got != tt.want || !matches(err, tt.err) {
			t.Errorf("ParseDuration(%.40q) = %v, %v; want %v, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	tests := []struct{ got, want string }{
		{BitRate(0), "0.00 bit/s"},
		{BitRate(999), "999 bit/s"},
		{BitRate(9.41e9), "9.41 Gbit/s"},
		{BitRate(94.1e6), "94.1 Mbit/s"},
		{BitRate(5e16), "50000 Tbit/s"},
		// What rounds up to the next unit is printed in it.
		{BitRate(999.6e6), "1.00 Gbit/s"},
		{BitRate(9.996e6), "10.0 Mbit/s"},
		{BitRate(99.96e6), "100 Mbit/s"},
		{Size(0), "0 B"},
		{Size(1023), "1023 B"},
		{Size(1024), "1.00 KiB"},
		{Size(1.5 * (1 << 30)), "1.50 GiB"},
		{Size(1000 << 10), "1000 KiB"},
		{Size(1<<20 - 1), "1.00 MiB"},
		{ExactSize(0), "0"},
		{ExactSize(128 << 10), "128K"},
		{ExactSize(1 << 40), "1T"},
		{ExactSize(5000003), "5000003"},
		{ExactSize(1536), "1536"},
		{ExactSize(math.MaxInt64), "9223372036854775807"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestExactSizeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "bytes") >> rapid.IntRange(0, 62).Draw(t, "shift") << rapid.IntRange(0, 40).Draw(t, "unshift")
		if n < 0 {
			t.Skip("overflow")
		}
		if got, err := ParseSize(ExactSize(n)); err != nil || got != n {
			t.Fatalf("ParseSize(%q) = %d, %v; want %d", ExactSize(n), got, err, n)
		}
	})
}

// What is accepted is a number of bytes that the exact notation keeps, and is
// read in no other way by adding what doesn't matter.
func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"8K", "8.5K", "1e6", "", " 8K", "-1", "1.005kB", "9223372036854775807", "0x10", "1..5M", "4GiB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
		if again, err := ParseSize(ExactSize(n)); err != nil || again != n {
			t.Fatalf("%q is %d, printed %q, read again %d, %v", s, n, ExactSize(n), again, err)
		}
		if again, err := ParseSize("0" + s); err != nil || again != n {
			t.Fatalf("%q is %d, with a zero before it %d, %v", s, n, again, err)
		}
	})
}

func FuzzParseRateAndDuration(f *testing.F) {
	for _, seed := range []string{"10G", "100Mbit/s", "1e9", "0.5", "250ms", "-3s", "9999999999999999999", "1m30s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if rate, err := ParseBitRate(s); err == nil && !(rate >= 0 && !math.IsInf(rate, 1)) {
			t.Errorf("ParseBitRate(%q) = %v", s, rate)
		}
		if d, err := ParseDuration(s); err == nil && d < 0 {
			t.Errorf("ParseDuration(%q) = %v", s, d)
		}
	})
}
