//go:build !linux

// Command gperf measures TCP between two Linux ends. On other systems it builds
// only far enough to say so.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "gperf: needs Linux 5.4 or newer, this is %s\n", runtime.GOOS)
	os.Exit(2)
}
