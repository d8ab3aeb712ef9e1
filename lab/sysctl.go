package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const sysctlDir = "/proc/sys"

// sysctlPath is the file of a sysctl. Those of net show each thread the values
// of its own namespace.
func sysctlPath(name string) string {
	return filepath.Join(sysctlDir, strings.ReplaceAll(name, ".", "/"))
}

func readSysctl(name string) (string, error) {
	b, err := os.ReadFile(sysctlPath(name))
	return normalSpace(string(b)), err
}

func writeSysctl(name, value string) error {
	err := os.WriteFile(sysctlPath(name), []byte(value), 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("this kernel has no %s in a network namespace: %w", name, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("this kernel lets no network namespace change %s: %w", name, err)
	case err != nil:
		return fmt.Errorf("the kernel doesn't take %q: %w", value, err)
	}
	return nil
}

func normalSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

var sysctlName = regexp.MustCompile(`^[a-z0-9_]+(\.[A-Za-z0-9_-]+)+$`)

// machineWide are sysctls that every namespace shows or lacks, but only the
// machine's first one can change, up to Linux 6.18. ip-sysctl.rst of the kernel
// says it of a few; the rest is what a namespace was seen to have.
var machineWide = []string{
	"net.core.rmem_max", "net.core.wmem_max", "net.core.rmem_default", "net.core.wmem_default",
	"net.core.busy_poll", "net.core.busy_read", "net.core.default_qdisc", "net.core.dev_weight", "net.core.flow_limit_cpu_bitmap",
	"net.core.flow_limit_table_len", "net.core.gro_normal_batch", "net.core.high_order_alloc_disable", "net.core.max_skb_frags",
	"net.core.netdev_budget", "net.core.netdev_budget_usecs", "net.core.netdev_max_backlog", "net.core.netdev_tstamp_prequeue",
	"net.core.rps_sock_flow_entries", "net.core.skb_defer_max",
	"net.ipv4.tcp_available_congestion_control", "net.ipv4.tcp_allowed_congestion_control", "net.ipv4.tcp_ehash_entries",
	"net.ipv4.tcp_low_latency", "net.ipv4.tcp_max_orphans", "net.ipv4.tcp_mem", "net.ipv4.udp_hash_entries", "net.ipv4.udp_mem",
}

// instead says what to do about some of them.
var instead = map[string]string{
	"net.core.rmem_max":      "the machine's own holds in the lab too",
	"net.core.wmem_max":      "the machine's own holds in the lab too",
	"net.core.rmem_default":  "set the receive buffer of the test's sockets",
	"net.core.wmem_default":  "set the send buffer of the test's sockets",
	"net.core.default_qdisc": "set qdisc",
	"net.core.busy_poll":     "set busy polling of the test's sockets",
	"net.core.busy_read":     "set busy polling of the test's sockets",
}

// normalSysctl checks a sysctl by the machine's own, of which a namespace has
// no more.
func normalSysctl(_ Kind, name, value string) (string, error) {
	switch {
	case !sysctlName.MatchString(name):
		return "", fmt.Errorf("%q is no name of a sysctl", name)
	case !strings.HasPrefix(name, "net."):
		return "", errors.New("not of the network: a lab has its own sysctls below net only")
	case slices.Contains(machineWide, name) || strings.HasPrefix(name, "net.ipv4.route."):
		why := "the machine has one for all network namespaces, which can't change it"
		if do := instead[name]; do != "" {
			why += " (" + do + ")"
		}
		return "", errors.New(why)
	}
	value = normalSpace(value)
	if value == "" || len(value) > 256 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("%q is no value of a sysctl", value)
	}
	info, err := os.Stat(sysctlPath(onHost(name)))
	if err != nil || info.IsDir() {
		return "", errors.New("this kernel has no such sysctl")
	}
	if info.Mode().Perm()&0o200 == 0 {
		return "", errors.New("this kernel has it for reading only")
	}
	if name == congestion {
		allowed, err := readSysctl(allowedCongestion)
		if err == nil && !slices.Contains(strings.Fields(allowed), value) {
			return "", fmt.Errorf("a network namespace may only use %s (the machine's %s), not %q; set the congestion control of the test's sockets",
				strings.ReplaceAll(allowed, " ", ", "), allowedCongestion, value)
		}
	}
	return value, nil
}

const (
	congestion        = "net.ipv4.tcp_congestion_control"
	allowedCongestion = "net.ipv4.tcp_allowed_congestion_control"
)

// onHost is the name under which a sysctl of the lab's device is found where
// there is no such device: that of lo.
func onHost(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) == 5 && (parts[2] == "conf" || parts[2] == "neigh") && parts[3] == Device {
		parts[3] = "lo"
	}
	return strings.Join(parts, ".")
}
