package acceptance

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// flentData is what is looked at of a data file of flent's.
type flentData struct {
	Raw map[string][]struct {
		Duration float64 `json:"dur"`
		Value    float64 `json:"val"`
	} `json:"raw_values"`
	Metadata struct {
		Series map[string]map[string]any `json:"SERIES_META"`
	} `json:"metadata"`
}

// flent reads every series of its tests from gperf under netperf's name, against
// gperf under netserver's.
func TestFlent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("flent"); err != nil {
		t.Skip("needs flent: ", err)
	}
	if _, err := exec.LookPath("ping"); err != nil {
		t.Skip("flent's tests need ping: ", err)
	}
	tests := []struct {
		name     string
		args     []string
		up, down int // TCP flows
		udp      int // flows of requests in datagrams
	}{
		{"tcp_upload", nil, 1, 0, 0},
		{"tcp_download", nil, 0, 1, 0},
		{"tcp_nup", []string{"--test-parameter", "upload_streams=3"}, 3, 0, 0},
		{"rrul_be", nil, 4, 4, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := netperfNS(t)
			netserver(t, ns, "netserver", netperfPort)
			dir := t.TempDir()
			args := append([]string{"flent", tt.name, "-H", "127.0.0.1", "-l", "2", "-d", "0", "-s", "0.1", "-D", dir, "-v"}, tt.args...)
			c := newCommand(t, ns, args...)
			c.length = 10 * time.Second
			c.cmd.Dir = dir
			c.cmd.Env = append(c.cmd.Env, "HOME="+dir)
			ran := c.run()
			ran.ended(t, 0)
			text := ran.stdout + ran.stderr
			if own, _ := personalities(); !strings.Contains(text, filepath.Join(own, "netperf")) {
				t.Errorf("flent ran another netperf:\n%s", text)
			}
			if bad := regexp.MustCompile(`(?im)^.*(warning|error|traceback).*$`).FindString(text); bad != "" {
				t.Errorf("flent complains: %s", bad)
			}
			data := readFlent(t, dir)
			up, down, udp := 0, 0, 0
			for name, meta := range data.Metadata.Series {
				if meta["RUNNER"] != "NetperfDemoRunner" {
					continue
				}
				mean, _ := meta["MEAN_VALUE"].(float64)
				elapsed, _ := meta["ELAPSED_TIME"].(float64)
				if len(data.Raw[name]) == 0 || mean <= 0 || elapsed < 1.9 {
					t.Errorf("%s: %d values, mean %v, %v s", name, len(data.Raw[name]), mean, elapsed)
				}
				for _, v := range data.Raw[name] {
					if v.Duration <= 0 || v.Value < 0 {
						t.Errorf("%s: %+v", name, v)
					}
				}
				needs := []string{"UPSTREAM_TOS", "DOWNSTREAM_TOS"}
				switch {
				case strings.Contains(name, "UDP"):
					udp++
				default:
					needs = append(needs, "TCP_MSS", "SEND_SIZE", "RECV_SIZE", "BYTES_SENT", "BYTES_RECVD", "TCPI_RTO", "TCPI_RTT", "TCPI_PMTU")
					if strings.Contains(name, "upload") {
						up++
					} else {
						down++
					}
					if cc, ok := meta["CONG_CONTROL"].(string); !ok || cc == "" {
						t.Errorf("%s: congestion control %v", name, meta["CONG_CONTROL"])
					}
					sent, _ := meta["BYTES_SENT"].(float64)
					received, _ := meta["BYTES_RECVD"].(float64)
					// A receiver that ends first leaves a rest.
					if sent < received || sent > received && strings.Contains(name, "upload") {
						t.Errorf("%s: %v bytes sent, %v received", name, sent, received)
					}
				}
				for _, key := range needs {
					n, ok := meta[key].(float64)
					if unset := strings.HasSuffix(key, "TOS"); !ok || !unset && n <= 0 {
						t.Errorf("%s: %s is %v", name, key, meta[key])
					}
					if tt.name == "rrul_be" && strings.HasSuffix(key, "TOS") && n != 0 {
						t.Errorf("%s: %s is %v, best effort was asked for", name, key, n)
					}
				}
			}
			if up != tt.up || down != tt.down || udp != tt.udp {
				t.Errorf("%d flows up, %d down, %d of UDP", up, down, udp)
			}
		})
	}
}

// readFlent reads the one data file in dir.
func readFlent(t *testing.T, dir string) *flentData {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.flent.gz"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d data files, %v", len(files), err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var d flentData
	if err := json.NewDecoder(z).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return &d
}
