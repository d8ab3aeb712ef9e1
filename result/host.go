package result

// Host is what a result must say of one end's machine, and of the network
// namespace in which that end's sockets were made.
type Host struct {
	BootID   *string `json:"boot_id" doc:"the kernel's random identifier of this boot; equal on both ends when they share a machine"`
	Hostname *string `json:"hostname" doc:"node name (uname -n)"`
	NetNS    *uint64 `json:"netns_inode" doc:"inode number of the network namespace; ends on one machine with the same number share sysctls and counters"`

	Kernel        *string `json:"kernel" doc:"kernel release (uname -r)"`
	KernelVersion *string `json:"kernel_version" doc:"kernel version (uname -v): build number, SMP, preemption model"`
	Arch          *string `json:"machine" doc:"machine architecture (uname -m)"`
	Virtualised   *bool   `json:"virtualised" doc:"whether the CPU reports a hypervisor; null: not known on this architecture"`
	Clocksource   *string `json:"clocksource" doc:"the kernel's clock source; others than tsc or arch_sys_counter make each clock reading slow"`
	TickHz        *int    `json:"tick_hz" doc:"timer ticks per second (CONFIG_HZ), by which CPU time is sampled"`

	CPUModel    *string           `json:"cpu_model" doc:"model name of the first CPU"`
	CPUs        *int              `json:"cpus" doc:"CPUs online"`
	SMT         *bool             `json:"smt" doc:"whether several CPUs share a core"`
	Governor    *string           `json:"cpu_governor" doc:"CPU frequency governor; several, if the CPUs differ, sorted and separated by commas; null: the kernel doesn't control the frequency"`
	Boost       *bool             `json:"cpu_boost" doc:"whether the CPUs may exceed their nominal frequency (turbo)"`
	Mitigations map[string]string `json:"mitigations" doc:"CPU vulnerabilities that the kernel says this machine is affected by, each with the kernel's text on its mitigation"`

	Device  *Device           `json:"device" doc:"network device of the route to the other end; null: no route, or not known"`
	Sysctls map[string]string `json:"sysctls" doc:"sysctls that matter to the test, by name; several values separated by one space; one that this namespace doesn't show is absent"`
}

// Device is the network device that a route leads to.
type Device struct {
	Name          string  `json:"name" doc:"interface name"`
	Kind          *string `json:"kind" doc:"kind of a virtual device (veth, bond, vlan ...); null: hardware or loopback"`
	Driver        *string `json:"driver" doc:"driver name"`
	DriverVersion *string `json:"driver_version" doc:"driver version; kernel release for most drivers of recent kernels"`
	Firmware      *string `json:"firmware" doc:"firmware version"`
	Bus           *string `json:"bus" doc:"bus address"`

	MTU       *int   `json:"mtu_bytes" doc:"maximum transmission unit"`
	SpeedMbit *int64 `json:"speed_mbit_per_second" doc:"link speed that the driver reports; virtual devices may report an invented one; null: not known"`

	Qdisc       *string  `json:"qdisc" doc:"root queueing discipline"`
	TxQueueLen  *int     `json:"tx_queue_packets" doc:"transmit queue length of the device, used by qdiscs without a limit of their own"`
	RxQueues    *int     `json:"rx_queues" doc:"receive queues: in use where the driver reports channels, otherwise as allocated"`
	TxQueues    *int     `json:"tx_queues" doc:"transmit queues, likewise"`
	Offloads    Offloads `json:"offloads" doc:"offloads in force"`
	GSOMaxSize  *uint32  `json:"gso_max_size_bytes" doc:"largest packet that the stack hands to the device for segmentation"`
	GSOMaxSegs  *uint32  `json:"gso_max_segments" doc:"most segments in such a packet"`
	GROMaxSize  *uint32  `json:"gro_max_size_bytes" doc:"largest packet that the stack aggregates on receive"`
	GSOMaxSize4 *uint32  `json:"gso_ipv4_max_size_bytes" doc:"gso_max_size_bytes for IPv4; null where the kernel has no separate one"`
}

// Offloads are the device features that change the size of the packets which
// the stack handles, or what it computes for each. The feature's name in
// ethtool -k stands in brackets.
type Offloads struct {
	TSO        *bool `json:"tso" doc:"TCP segmentation of IPv4 by the device (tx-tcp-segmentation)"`
	TSO6       *bool `json:"tso6" doc:"TCP segmentation of IPv6 by the device (tx-tcp6-segmentation)"`
	GSO        *bool `json:"gso" doc:"segmentation in software, just before the driver (tx-generic-segmentation)"`
	GRO        *bool `json:"gro" doc:"aggregation on receive in software (rx-gro)"`
	HWGRO      *bool `json:"hw_gro" doc:"aggregation on receive by the device (rx-gro-hw)"`
	LRO        *bool `json:"lro" doc:"large receive offload (rx-lro)"`
	UDPGSO     *bool `json:"udp_gso" doc:"UDP segmentation by the device (tx-udp-segmentation)"`
	SG         *bool `json:"sg" doc:"scatter-gather (tx-scatter-gather); without it sendfile and splice copy"`
	TxChecksum *bool `json:"tx_checksum" doc:"checksum by the device on transmit (any of tx-checksum-ip-generic, tx-checksum-ipv4, tx-checksum-ipv6)"`
	RxChecksum *bool `json:"rx_checksum" doc:"checksum by the device on receive (rx-checksum)"`
}

// CPUShare is the time of one CPU inside a window; 100 is that CPU wholly busy.
type CPUShare struct {
	CPU     int      `json:"cpu" doc:"CPU number"`
	User    *float64 `json:"user_percent" doc:"user time, nice included"`
	System  *float64 `json:"system_percent" doc:"system time"`
	Softirq *float64 `json:"softirq_percent" doc:"softirq time"`
	IRQ     *float64 `json:"irq_percent" doc:"hard interrupt time"`
	Steal   *float64 `json:"steal_percent" doc:"time taken by the hypervisor"`
	Total   *float64 `json:"total_percent" doc:"all time but idle and waiting for I/O"`
}

// Counters is what an end's counters grew by over its window. They belong to
// the namespace or the machine, so other traffic is in them too.
type Counters struct {
	Protocols map[string]uint64 `json:"protocols" doc:"what the namespace's counters of /proc/net/netstat, snmp and snmp6 grew by, by nstat's names (TcpRetransSegs, TcpExtTCPLossProbes); absent: didn't grow"`
	Softnet   *Softnet          `json:"softnet" doc:"/proc/net/softnet_stat, all CPUs of the machine together, all namespaces"`
	Device    *DeviceCounters   `json:"device" doc:"counters of the route's device"`
}

// Softnet is the receive softirq of the whole machine.
type Softnet struct {
	Processed *uint64 `json:"processed_packets" doc:"packets processed"`
	Dropped   *uint64 `json:"dropped_packets" doc:"packets dropped because a CPU's backlog was full (net.core.netdev_max_backlog)"`
	Squeezed  *uint64 `json:"time_squeezes" doc:"times that a CPU stopped with work left (net.core.netdev_budget)"`
}

// DeviceCounters are those of one network device, as /proc/net/dev has them.
type DeviceCounters struct {
	Name      string  `json:"name" doc:"interface name"`
	RxBytes   *uint64 `json:"rx_bytes" doc:"bytes received"`
	RxPackets *uint64 `json:"rx_packets" doc:"packets received; after aggregation by the device, if it does that"`
	RxErrors  *uint64 `json:"rx_errors" doc:"receive errors"`
	RxDropped *uint64 `json:"rx_dropped" doc:"packets dropped on receive, missed ones included"`
	TxBytes   *uint64 `json:"tx_bytes" doc:"bytes sent"`
	TxPackets *uint64 `json:"tx_packets" doc:"packets sent; before segmentation by the device, if it does that"`
	TxErrors  *uint64 `json:"tx_errors" doc:"transmit errors"`
	TxDropped *uint64 `json:"tx_dropped" doc:"packets dropped on transmit"`
}

// ThreadUse is what a thread used inside a window.
type ThreadUse struct {
	CPUSeconds          *float64 `json:"cpu_seconds" doc:"CPU time, user and system together, exact"`
	UserSeconds         *float64 `json:"user_seconds" doc:"user time, sampled; null in windows below 1 s"`
	SystemSeconds       *float64 `json:"system_seconds" doc:"system time, sampled; null in windows below 1 s"`
	RunQueueWaitSeconds *float64 `json:"run_queue_wait_seconds" doc:"time in which the thread was ready to run and waited for a CPU"`
	Slices              *uint64  `json:"slices" doc:"times that the thread got a CPU"`
	Voluntary           *uint64  `json:"voluntary_switches" doc:"context switches because the thread waited for something"`
	Involuntary         *uint64  `json:"involuntary_switches" doc:"context switches because another thread was put in its place"`
	Migrations          *uint64  `json:"migrations" doc:"moves from one CPU to another; null where the kernel is built without the count"`
	FirstCPU            *int     `json:"first_cpu" doc:"CPU on which it ran last before the window opened"`
	LastCPU             *int     `json:"last_cpu" doc:"CPU on which it ran last before the window closed"`
}
