// Package host reads what a result must say of the machine that it was
// measured on: kernel, CPUs, network device and sysctls; and, at the edges of a
// window, CPU time, threads and counters. It decides nothing: what the readings
// mean is for result and stats.
//
// What belongs to a network namespace is read in that of the calling thread. A
// goroutine that has entered a namespace is locked to its thread, so it needs
// no more than to call from there. /proc/thread-self makes this work for files
// (/proc/self, and so /proc/net, is the main thread's namespace), netlink and
// ioctls by the socket that the calling thread opens. /proc/sys/net shows each
// reader its own namespace by itself (seen, and held by a test). Nothing is
// read from /sys/class/net, which shows the namespace in which that sysfs was
// mounted, whoever reads it.
//
// Monotonic time in this package is that of sys.Monotonic.
package host

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"gperf/internal/sys"
	"gperf/result"
)

const (
	procDir   = "/proc"
	threadDir = "/proc/thread-self"
	cpuDir    = "/sys/devices/system/cpu"
)

// Describe returns what is known of this machine and of the calling thread's
// network namespace, with the device of the route to peer; an invalid peer
// means no device. What can't be read is nil and fails nothing. The answer
// shares memory with other answers and must not be changed.
func Describe(peer netip.Addr) *result.Host {
	h := machine()
	h.NetNS = namespace()
	h.Clocksource = readLine("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if r, err := ReadCPU(); err == nil {
		h.CPUs = new(len(r.CPUs))
	}
	h.SMT = readBool(filepath.Join(cpuDir, "smt/active"))
	h.Governor = governor(cpuDir)
	h.Boost = boost(cpuDir)
	h.Device = describeDevice(peer)
	h.Sysctls = readSysctls()
	return &h
}

// SameMachine reports whether a and b were described on one boot of one
// machine: equal boot identifiers. Containers share their machine's. Virtual
// machines woken from one snapshot share it too without being one machine, and
// can't be told apart by anything that a guest sees.
func SameMachine(a, b *result.Host) bool {
	return a != nil && b != nil && a.BootID != nil && b.BootID != nil && *a.BootID == *b.BootID
}

// machine returns what doesn't change while a process runs. It is read once:
// opening /proc/cpuinfo may wait 10 ms for a frequency measurement on x86
// kernels before 5.18.
var machine = sync.OnceValue(func() result.Host {
	h := result.Host{
		BootID:      readLine(procDir + "/sys/kernel/random/boot_id"),
		TickHz:      tickHz(),
		Mitigations: mitigations(cpuDir),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Hostname = new(unix.ByteSliceToString(u.Nodename[:]))
		h.Kernel = new(unix.ByteSliceToString(u.Release[:]))
		h.KernelVersion = new(unix.ByteSliceToString(u.Version[:]))
		h.Arch = new(unix.ByteSliceToString(u.Machine[:]))
	}
	h.CPUModel, h.Virtualised = cpuInfo(procDir)
	return h
})

// namespace returns the inode number of the calling thread's network namespace.
func namespace() *uint64 {
	var st unix.Stat_t
	if unix.Stat(threadDir+"/ns/net", &st) != nil {
		return nil
	}
	return &st.Ino
}

// cpuInfo returns the model of the first CPU, and whether it says that it runs
// under a hypervisor. Only x86 lists its features as "flags", with that one
// among them.
func cpuInfo(proc string) (model *string, virtualised *bool) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, nil
	}
	cpus, err := fs.CPUInfo()
	if err != nil || len(cpus) == 0 {
		return nil, nil
	}
	if m := cpus[0].ModelName; m != "" {
		model = &m
	}
	if flags := cpus[0].Flags; slices.Contains(flags, "fpu") { // x86 and no other
		virtualised = new(slices.Contains(flags, "hypervisor"))
	}
	return model, virtualised
}

// tickHz returns CONFIG_HZ, which no file is sure to tell: the coarse clocks
// advance by one tick at a time, and their resolution is known to the kernel.
func tickHz() *int {
	var ts unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &ts) != nil || ts.Nano() <= 0 {
		return nil
	}
	return new(int((1e9 + ts.Nano()/2) / ts.Nano()))
}

// governor returns the frequency governors of all CPUs below dir.
func governor(dir string) *string {
	files, _ := filepath.Glob(filepath.Join(dir, "cpufreq/policy*/scaling_governor")) // the pattern is valid
	var names []string
	for _, f := range files {
		if g := readLine(f); g != nil {
			names = append(names, *g)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return new(strings.Join(slices.Compact(names), ","))
}

// boost returns whether CPUs may exceed their nominal frequency. intel_pstate
// has a file of its own, which says the opposite.
func boost(dir string) *bool {
	if b := readBool(filepath.Join(dir, "intel_pstate/no_turbo")); b != nil {
		return new(!*b)
	}
	return readBool(filepath.Join(dir, "cpufreq/boost"))
}

// mitigations returns the vulnerabilities that concern this machine and the
// kernel's word on each.
func mitigations(dir string) map[string]string {
	files, _ := filepath.Glob(filepath.Join(dir, "vulnerabilities/*")) // the pattern is valid
	if files == nil {
		return nil
	}
	m := make(map[string]string)
	for _, f := range files {
		if text := readLine(f); text != nil && *text != "Not affected" {
			m[filepath.Base(f)] = *text
		}
	}
	return m
}

// readLine returns a file's text without the space around it, nil when it
// can't be read or is empty.
func readLine(path string) *string {
	b, err := sys.ReadFile(path)
	if err != nil {
		return nil
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return nil
	}
	return &s
}

// readBool returns the truth in a file that holds 0 or 1.
func readBool(path string) *bool {
	switch s := readLine(path); {
	case s == nil:
		return nil
	case *s == "0":
		return new(false)
	case *s == "1":
		return new(true)
	}
	return nil
}
