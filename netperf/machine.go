package netperf

import (
	"crypto/rand"

	"golang.org/x/sys/unix"

	"gperf/host"
)

// cpuCount is how many CPUs the machine has online; 0 where it isn't known.
func cpuCount() int {
	r, err := host.ReadCPU()
	if err != nil {
		return 0
	}
	return len(r.CPUs)
}

// allowedCPUs is cpu as a list if this process may run there, else none: netperf
// goes on unbound when it can't be bound.
func allowedCPUs(cpu int) []int {
	var set unix.CPUSet
	if cpu < 0 || unix.SchedGetaffinity(0, &set) != nil || !set.IsSet(cpu) {
		return nil
	}
	return []int{cpu}
}

// defaultPayload is what netperf fills its buffers with.
var defaultPayload = []byte("netperf\x00")

// randomPayload is n random bytes, at most enough that no link compresses them.
func randomPayload(n int) []byte {
	const enough = 1 << 20
	b := make([]byte, min(max(n, 1), enough))
	_, _ = rand.Read(b) // never fails, says its documentation
	return b
}
