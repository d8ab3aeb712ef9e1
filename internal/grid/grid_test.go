package grid

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sample = Grid{
	Head:  [][]string{{"", "on", "off"}, {"size", "Gbit/s", "Gbit/s"}},
	Body:  [][]string{{"8K", "5.9", "8.4 ~3.1 %"}, {"auto|x", "—", "a\x1b[2Jb"}},
	Keys:  1,
	Right: map[int]bool{1: true},
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		width int
		want  string
	}{
		{"wide", 80, `            on  off
size    Gbit/s  Gbit/s
8K         5.9  8.4 ~3.1 %
auto|x       —  "a\x1b[2Jb"
`},
		{"narrow", 16, `            on
size    Gbit/s
8K         5.9
auto|x       —

        off
size    Gbit/s
8K      8.4 ~3.1 %
auto|x  "a\x1b[2Jb"
`},
	} {
		if diff := cmp.Diff(tt.want, sample.Text(tt.width)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if got := (&Grid{}).Text(80); got != "" {
		t.Errorf("an empty grid: %q", got)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	want := `| size | on Gbit/s | off Gbit/s |
|---|--:|---|
| 8K | 5.9 | 8.4 ~3.1 % |
| auto\|x | — | "a\\x1b[2Jb" |
`
	if diff := cmp.Diff(want, sample.Markdown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSeparated(t *testing.T) {
	t.Parallel()
	g := Grid{Head: [][]string{{"a", "b"}}, Body: [][]string{{"1,2", "x\ty"}}}
	for separator, want := range map[rune]string{',': "a,b\n\"1,2\",x\ty\n", '\t': "a\tb\n1,2\tx y\n"} {
		var b strings.Builder
		if err := g.Separated(&b, separator); err != nil || b.String() != want {
			t.Errorf("%q, %v: want %q", b.String(), err, want)
		}
	}
}
