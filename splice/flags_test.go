package splice_test

import (
	"strings"
	"testing"

	"gperf/splice"
)

func TestParseFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want splice.Flags
		out  string
		err  string
	}{
		{in: "", want: 0},
		{in: "more", want: splice.More, out: "more"},
		{in: "nonblock,move,more", want: splice.More | splice.Move | splice.Nonblock, out: "more,move,nonblock"},
		{in: "more,more", err: `"more" is given twice`},
		{in: "gift", err: `unknown splice flag "gift": want more, move or nonblock`},
		{in: "more,", err: `unknown splice flag ""`},
		{in: "More", err: `unknown splice flag "More"`},
	} {
		got, err := splice.ParseFlags(tt.in)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, %v", tt.in, got, err)
			}
		case err != nil || got != tt.want || got.String() != tt.out:
			t.Errorf("%q: %#x %q, %v", tt.in, uint32(got), got, err)
		}
	}
}

func FuzzParseFlags(f *testing.F) {
	for _, s := range []string{"", "more", "more,move,nonblock", "nonblock,more", ",", "more,,", "gift"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		flags, err := splice.ParseFlags(s)
		if err != nil {
			if flags != 0 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%#x, %v", flags, err)
			}
			return
		}
		if again, err := splice.ParseFlags(flags.String()); err != nil || again != flags || len(flags.String()) != len(s) {
			t.Errorf("%q became %q, which is %#x, %v", s, flags, again, err)
		}
	})
}
