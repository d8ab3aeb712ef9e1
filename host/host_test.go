package host

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gperf/internal/netnstest"
	"gperf/result"
)

func TestDescribe(t *testing.T) {
	h := Describe(netip.MustParseAddr("127.0.0.1"))
	for name, known := range map[string]bool{
		"boot id":        h.BootID != nil && len(*h.BootID) == 36,
		"hostname":       h.Hostname != nil,
		"namespace":      h.NetNS != nil,
		"kernel":         h.Kernel != nil && strings.Contains(*h.Kernel, "."),
		"kernel version": h.KernelVersion != nil,
		"machine":        h.Arch != nil,
		"tick":           h.TickHz != nil && *h.TickHz >= 100 && *h.TickHz <= 1000,
		"CPUs":           h.CPUs != nil && *h.CPUs >= runtime.NumCPU(),
		"clock source":   h.Clocksource != nil,
		"tcp_rmem":       len(strings.Split(h.Sysctls["net.ipv4.tcp_rmem"], " ")) == 3,
		"device":         h.Device != nil && h.Device.Name == "lo" && h.Device.Driver == nil && h.Device.MTU != nil,
		"GSO":            h.Device != nil && h.Device.Offloads.GSO != nil,
	} {
		if !known {
			t.Errorf("%s: not known, or not right", name)
		}
	}
	if runtime.GOARCH == "amd64" && (h.CPUModel == nil || h.Virtualised == nil) {
		t.Errorf("CPU model %v, virtualised %v: want to know both", show(h.CPUModel), show(h.Virtualised))
	}
	if h := Describe(netip.Addr{}); h.Device != nil {
		t.Errorf("device without a peer: %+v", h.Device)
	}
}

// What is of a namespace is of the one that the calling thread is in.
func TestDescribeFollowsThread(t *testing.T) {
	a, b := netnstest.NewPair(t, netnstest.Pair{MTU: 4000})
	a.SetSysctl("net.ipv4.tcp_rmem", "4096 8192 16384")
	a.SetTSO(false)
	outside := Describe(netip.Addr{})
	err := a.Do(func() error {
		h := Describe(b.Addr4)
		if *h.NetNS == *outside.NetNS {
			t.Errorf("namespace %d inside and outside", *h.NetNS)
		}
		if !SameMachine(h, outside) {
			t.Errorf("boot %s inside, %s outside", *h.BootID, *outside.BootID)
		}
		const rmem = "net.ipv4.tcp_rmem"
		if got, want := h.Sysctls[rmem], "4096 8192 16384"; got != want || outside.Sysctls[rmem] == want {
			t.Errorf("%s: %q inside, %q outside; set inside to %q", rmem, got, outside.Sysctls[rmem], want)
		}
		// The kernel hides it; 0 or the outside's value would be invented.
		if v, ok := h.Sysctls["net.core.netdev_max_backlog"]; ok {
			t.Errorf("net.core.netdev_max_backlog is %q inside", v)
		}
		want := &result.Device{
			Name: "veth0", Kind: new("veth"), Driver: new("veth"), MTU: new(4000), SpeedMbit: new(int64(10000)),
			Qdisc: new("noqueue"),
		}
		got := *h.Device
		if got.Offloads.TSO == nil || *got.Offloads.TSO || got.Offloads.GSO == nil || !*got.Offloads.GSO {
			t.Errorf("TSO %v, GSO %v; want off and on", show(got.Offloads.TSO), show(got.Offloads.GSO))
		}
		if got.RxQueues == nil || *got.RxQueues < 1 || got.GSOMaxSize == nil || got.TxQueueLen == nil {
			t.Errorf("queues or sizes are not known: %+v", got)
		}
		got.Offloads, got.DriverVersion = result.Offloads{}, nil
		got.RxQueues, got.TxQueues, got.TxQueueLen = nil, nil, nil
		got.GSOMaxSize, got.GSOMaxSegs, got.GROMaxSize, got.GSOMaxSize4 = nil, nil, nil, nil
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Errorf("device (-want +got):\n%s", diff)
		}

		peers := map[string]string{
			"127.0.0.1":        "lo",
			"10.77.0.1":        "lo", // this end's own address
			"::ffff:10.77.0.2": "veth0",
			"198.51.100.1":     "", // no route
		}
		if a.Addr6.IsValid() {
			peers[b.Addr6.String()] = "veth0"
			peers["fe80::1%veth0"] = "veth0"
			peers["fe80::1%nosuch"] = ""
		}
		for peer, want := range peers {
			got := ""
			if d := Describe(netip.MustParseAddr(peer)).Device; d != nil {
				got = d.Name
			}
			if got != want {
				t.Errorf("device to %s: got %q, want %q", peer, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSameMachine(t *testing.T) {
	a, b := &result.Host{BootID: new("a")}, &result.Host{BootID: new("b")}
	tests := []struct {
		name string
		a, b *result.Host
		want bool
	}{
		{"same", a, &result.Host{BootID: new("a")}, true},
		{"other", a, b, false},
		{"one unknown", a, &result.Host{}, false},
		{"both unknown", &result.Host{}, &result.Host{}, false},
		{"no host", a, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := SameMachine(tt.a, tt.b); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCPUFiles(t *testing.T) {
	tests := []struct {
		name        string
		files       map[string]string
		governor    *string
		boost       *bool
		mitigations map[string]string
	}{
		{name: "nothing, as in many virtual machines"},
		{
			name: "acpi-cpufreq",
			files: map[string]string{
				"cpufreq/policy0/scaling_governor": "performance\n", "cpufreq/policy1/scaling_governor": "performance\n",
				"cpufreq/boost": "1\n",
			},
			governor: new("performance"),
			boost:    new(true),
		},
		{
			name: "intel_pstate, CPUs differ",
			files: map[string]string{
				"cpufreq/policy0/scaling_governor": "powersave\n", "cpufreq/policy1/scaling_governor": "performance\n",
				"cpufreq/policy10/scaling_governor": "powersave\n", "intel_pstate/no_turbo": "1\n",
			},
			governor: new("performance,powersave"),
			boost:    new(false),
		},
		{
			name: "vulnerabilities",
			files: map[string]string{
				"vulnerabilities/meltdown": "Not affected\n", "vulnerabilities/mds": "Vulnerable\n",
				"vulnerabilities/spectre_v2": "Mitigation: Retpolines\n", "cpufreq/boost": "maybe\n",
			},
			mitigations: map[string]string{"mds": "Vulnerable", "spectre_v2": "Mitigation: Retpolines"},
		},
		{
			name:        "affected by nothing",
			files:       map[string]string{"vulnerabilities/meltdown": "Not affected\n"},
			mitigations: map[string]string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeFiles(t, tt.files)
			if diff := cmp.Diff(tt.governor, governor(dir)); diff != "" {
				t.Errorf("governor (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.boost, boost(dir)); diff != "" {
				t.Errorf("boost (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.mitigations, mitigations(dir)); diff != "" {
				t.Errorf("mitigations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCPUInfo(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("procfs reads the files of its own architecture only")
	}
	const head = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\n"
	tests := []struct {
		name, text  string
		model       *string
		virtualised *bool
	}{
		{"machine", head + "flags\t\t: fpu vme\n", new("Intel(R) Xeon(R)"), new(false)},
		{"virtual machine", head + "flags\t\t: fpu vme hypervisor\n", new("Intel(R) Xeon(R)"), new(true)},
		{"no flags", head, new("Intel(R) Xeon(R)"), nil},
		{"nothing", "", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model, virtualised := cpuInfo(writeFiles(t, map[string]string{"cpuinfo": tt.text}))
			if diff := cmp.Diff(tt.model, model); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.virtualised, virtualised); diff != "" {
				t.Errorf("virtualised (-want +got):\n%s", diff)
			}
		})
	}
	if _, v := cpuInfo("/nonexistent"); v != nil {
		t.Error("a file that isn't there says something")
	}
}

// A sysctl that no kernel has is a misspelt one: each is known to this kernel,
// or to some other one.
func TestSysctlNames(t *testing.T) {
	// Later or earlier than some of the kernels that gperf runs on, or optional.
	optional := map[string]bool{
		"net.ipv4.tcp_rto_min_us": true, "net.ipv4.tcp_shrink_window": true, "net.ipv4.tcp_tso_rtt_log": true,
		"net.ipv4.tcp_comp_sack_nr": true, "net.mptcp.enabled": true, "net.core.busy_poll": true, "net.core.busy_read": true,
		"net.core.rps_sock_flow_entries": true,
	}
	known := readSysctls()
	if _, ok := known["net.core.default_qdisc"]; !ok {
		t.Skip("this namespace doesn't show everything")
	}
	for _, name := range sysctls {
		if _, ok := known[name]; !ok && !optional[name] {
			t.Errorf("%s: this kernel has none", name)
		}
	}
	for name := range optional {
		if !slices.Contains(sysctls, name) {
			t.Errorf("%s: not read", name)
		}
	}
}

func BenchmarkDescribe(b *testing.B) {
	peer := netip.MustParseAddr("127.0.0.1")
	Describe(peer) // what is read once
	b.ReportAllocs()
	for b.Loop() {
		Describe(peer)
	}
}
