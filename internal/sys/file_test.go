package sys

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 4095, 4096, 4097, 100_000} {
		path := filepath.Join(t.TempDir(), "file")
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	if _, err := ReadFile("/proc/no such file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want one that matches fs.ErrNotExist", err)
	}
	if _, err := ReadFile("/proc"); err == nil {
		t.Error("reading a folder succeeded")
	}
}
