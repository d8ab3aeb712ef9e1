package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A recorder is a testing.TB that keeps its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any) { r.failures = append(r.failures, fmt.Sprint(args...)) }

// setUpdate sets -update for one test.
func setUpdate(t *testing.T, on bool) {
	old := *update
	*update = on
	t.Cleanup(func() { *update = old })
}

func TestCompare(t *testing.T) {
	setUpdate(t, false)
	path := filepath.Join(t.TempDir(), "want.golden")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, got string
		want            []string // in the one failure; nil for none
	}{
		{"equal", path, "one\ntwo\nthree\n", nil},
		{"a line differs", path, "one\n2\nthree\n", []string{"-want +got", path, `"two"`, `"2"`}},
		{"last newline lacks", path, "one\ntwo\nthree", []string{"-want +got"}},
		{"no file", path + ".none", "", []string{"-update", path + ".none"}},
		{"a folder", filepath.Dir(path), "", []string{"directory"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{TB: t}
			Compare(r, tt.path, tt.got)
			if tt.want == nil && len(r.failures) != 0 {
				t.Errorf("fails: %q", r.failures)
			}
			if tt.want != nil && len(r.failures) == 0 {
				t.Fatal("doesn't fail")
			}
			for _, part := range tt.want {
				if !strings.Contains(r.failures[0], part) {
					t.Errorf("%q isn't in the failure:\n%s", part, r.failures[0])
				}
			}
		})
	}
}

func TestCompareUpdates(t *testing.T) {
	setUpdate(t, true)
	path := filepath.Join(t.TempDir(), "new", "want.golden")
	Compare(t, path, []byte("text\n"))
	*update = false
	Compare(t, path, "text\n")
}
