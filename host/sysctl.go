package host

import (
	"strings"

	"gperf/internal/sys"
)

// sysctls are the settings that explain or change a result. In a namespace
// other than the first, the kernel hides those of net.core that belong to the
// whole machine, except for the buffer sizes.
var sysctls = []string{
	// Buffers, and what may grow them.
	"net.core.rmem_default",
	"net.core.rmem_max",
	"net.core.wmem_default",
	"net.core.wmem_max",
	"net.core.optmem_max",
	"net.ipv4.tcp_adv_win_scale",
	"net.ipv4.tcp_mem",
	"net.ipv4.tcp_moderate_rcvbuf",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_shrink_window",
	"net.ipv4.tcp_wmem",
	"net.ipv4.udp_mem",

	// What is negotiated.
	"net.ipv4.tcp_ecn",
	"net.ipv4.tcp_fastopen",
	"net.ipv4.tcp_sack",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_timestamps",
	"net.ipv4.tcp_window_scaling",
	"net.mptcp.enabled",

	// Congestion, recovery and segment sizes.
	"net.ipv4.tcp_base_mss",
	"net.ipv4.tcp_congestion_control",
	"net.ipv4.tcp_dsack",
	"net.ipv4.tcp_early_retrans",
	"net.ipv4.tcp_frto",
	"net.ipv4.tcp_min_tso_segs",
	"net.ipv4.tcp_mtu_probing",
	"net.ipv4.tcp_no_metrics_save",
	"net.ipv4.tcp_pacing_ca_ratio",
	"net.ipv4.tcp_pacing_ss_ratio",
	"net.ipv4.tcp_recovery",
	"net.ipv4.tcp_reordering",
	"net.ipv4.tcp_rto_min_us",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_tso_rtt_log",
	"net.ipv4.tcp_tso_win_divisor",

	// When data and ACKs leave.
	"net.ipv4.tcp_autocorking",
	"net.ipv4.tcp_comp_sack_delay_ns",
	"net.ipv4.tcp_comp_sack_nr",
	"net.ipv4.tcp_limit_output_bytes",
	"net.ipv4.tcp_notsent_lowat",

	// Connections.
	"net.core.somaxconn",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_abort_on_overflow",
	"net.ipv4.tcp_max_syn_backlog",
	"net.ipv4.tcp_tw_reuse",

	// Devices and softirq.
	"net.core.busy_poll",
	"net.core.busy_read",
	"net.core.default_qdisc",
	"net.core.dev_weight",
	"net.core.gro_normal_batch",
	"net.core.netdev_budget",
	"net.core.netdev_budget_usecs",
	"net.core.netdev_max_backlog",
	"net.core.rps_sock_flow_entries",
}

// readSysctls returns the sysctls that can be read in the calling thread's
// network namespace.
func readSysctls() map[string]string {
	m := make(map[string]string, len(sysctls))
	for _, name := range sysctls {
		b, err := sys.ReadFile(procDir + "/sys/" + strings.ReplaceAll(name, ".", "/"))
		if err == nil {
			m[name] = strings.Join(strings.Fields(string(b)), " ")
		}
	}
	return m
}
