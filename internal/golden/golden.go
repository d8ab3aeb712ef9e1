// Package golden compares output with files under testdata, and rewrites the
// files when the tests run with -update.
//
// It registers the flag -update, once for a test binary. Other tests that
// rewrite their files (scripts, for one) ask Update instead of registering it
// again.
package golden

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files with what the tests got")

// Update reports whether the tests run with -update. It is valid once the
// flags are parsed, as they are inside every test.
func Update() bool { return *update }

// Compare fails t if got differs from the contents of the file at path, which
// is relative to the folder of the test. With -update it writes got there
// instead, and makes missing folders.
func Compare[T string | []byte](t testing.TB, path string, got T) {
	t.Helper()
	if Update() {
		if err := write(path, string(got)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v; run the test with -update to make it", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Errorf("%s differs (-want +got); if got is right, run the test with -update:\n%s", path, d)
	}
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
