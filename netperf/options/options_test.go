package options

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// split splits a line as a shell does: at blanks, except inside quotes.
func split(t *testing.T, line string) (words []string) {
	t.Helper()
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inWord = c, true
		case quote == 0 && c == ' ':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		t.Fatalf("unbalanced quotes: %s", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// parsed is ParseNetperf of words that must parse.
func parsed(t *testing.T, words ...string) *Netperf {
	t.Helper()
	n, err := ParseNetperf(append([]string{"netperf"}, words...))
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	checkNetperf(t, n)
	return n
}

// refused is the Exit of words that mustn't parse.
func refused(t *testing.T, words ...string) *Exit {
	t.Helper()
	n, err := ParseNetperf(append([]string{"netperf"}, words...))
	var exit *Exit
	if !errors.As(err, &exit) || n != nil {
		t.Fatalf("%q: got %v, %v, want an *Exit alone", words, n, err)
	}
	return exit
}

// TestCommands parses what other programs and people have netperf and netserver
// do.
func TestCommands(t *testing.T) {
	data, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		count++
		args := split(t, line)
		if strings.HasSuffix(args[0], "netserver") {
			n, err := ParseNetserver(args)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			checkNetserver(t, n)
			continue
		}
		n, err := ParseNetperf(args)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		checkNetperf(t, n)
		if diff := cmp.Diff(args, n.Args); diff != "" {
			t.Errorf("%s: args (-want +got):\n%s", line, diff)
		}
	}
	if count < 200 {
		t.Errorf("%d command lines", count)
	}
}

// TestDefaults has every field of command lines without options.
func TestDefaults(t *testing.T) {
	both := func(v int) Ends[SendRecv] { return Ends[SendRecv]{SendRecv{v, v}, SendRecv{v, v}} }
	unset := Ends[int]{-1, -1}
	want := &Netperf{
		Args: []string{"netperf"},
		Test: "TCP_STREAM",
		Data: Data{
			Direction: Transmit,
			Socket:    both(-1), SendSize: unset, RecvSize: unset,
			Request: -1, Response: -1,
		},
		Port: 12865, Length: 10,
		Confidence: Confidence{Min: 1, Max: 1, Width: -1},
		Bind:       unset, Align: both(8), Dirty: both(-1), Priority: unset, TOS: unset,
		Verbosity: 1, Banner: true,
	}
	if diff := cmp.Diff(want, parsed(t)); diff != "" {
		t.Errorf("netperf (-want +got):\n%s", diff)
	}
	n, err := ParseNetserver([]string{"netserver"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Netserver{Args: []string{"netserver"}, Port: 12865, Verbosity: 1}, n); diff != "" {
		t.Errorf("netserver (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{nil, {}, {""}} {
		if _, err := ParseNetperf(args); err != nil {
			t.Errorf("netperf %q: %v", args, err)
		}
		if _, err := ParseNetserver(args); err != nil {
			t.Errorf("netserver %q: %v", args, err)
		}
	}
}

func TestTestDefaults(t *testing.T) {
	for _, tt := range []struct {
		test       string
		want       Test
		known      bool
		direction  Direction
		exchange   int
		connection bool
		style      Style
	}{
		{"TCP_STREAM", TCPStream, true, Transmit, -1, false, Classic},
		{"tcp_maerts", TCPMaerts, true, Receive, -1, false, Classic},
		{"Tcp_RR", TCPRR, true, Both, 1, false, Classic},
		{"TCP_CRR", TCPCRR, true, Both, 1, true, Classic},
		{"UDP_STREAM", UDPStream, true, Transmit, -1, false, Classic},
		{"UDP_RR", UDPRR, true, Both, 1, false, Classic},
		{"omni", Omni, true, Transmit, -1, false, Human},
		{"TCP_SENDFILE", TCPSendfile, true, Transmit, -1, false, Classic},
		{"TCP_CC", TCPCC, true, 0, 1, true, Classic},
		{"TCP_MSS", TCPMSS, true, Transmit, -1, false, Classic},
		{"LOC_CPU", LocalCPU, true, 0, -1, false, Classic},
		{"REM_CPU", RemoteCPU, true, 0, -1, false, Classic},
		{"uuid", UUID, true, 0, -1, false, Classic},
		{"sctp_stream", "SCTP_STREAM", false, 0, -1, false, Classic},
		{"", "", false, 0, -1, false, Classic},
	} {
		n := parsed(t, "-t", tt.test)
		if n.Test != tt.want || n.Known() != tt.known || n.Direction != tt.direction ||
			n.Request != tt.exchange || n.Response != tt.exchange || n.Connection != tt.connection || n.Style != tt.style {
			t.Errorf("%s: got %+v", tt.test, n)
		}
	}
}

// TestGrammar has each rule of the grammar as what it changes of the defaults.
func TestGrammar(t *testing.T) {
	yes, no := true, false
	brand, empty := "two words", ""
	for _, tt := range []struct {
		name string
		args string
		want func(*Netperf)
	}{
		// getopt
		{"separate argument", "-l 1", func(n *Netperf) { n.Length = 1 }},
		{"glued argument", "-l1", func(n *Netperf) { n.Length = 1 }},
		{"glued negative argument", "-l-1", func(n *Netperf) { n.Length = -1 }},
		{"letters in one word", "-jrl1", func(n *Netperf) { n.Histogram, n.Confidence.ResultOnly, n.Length = true, true, 1 }},
		{"an argument that looks like an option", "-B -j", func(n *Netperf) { n.Brand = ptr("-j") }},
		{"an argument that looks like the end", "-B -- -j", func(n *Netperf) { n.Brand, n.Histogram = ptr("--"), true }},
		{"words that are no options", "extra1 -j - extra2 -r", func(n *Netperf) { n.Histogram, n.Confidence.ResultOnly = true, true }},
		{"words that are no options, behind the dashes", "-j -- 42424 -D extra -C", func(n *Netperf) { n.Histogram, n.NoDelay, n.Cork = true, true, true }},
		{"words before the dashes", "extra -- -D", func(n *Netperf) { n.NoDelay = true }},
		{"nothing behind the dashes", "-j --", func(n *Netperf) { n.Histogram = true }},
		{"dashes again", "-- -D -- -Q", func(n *Netperf) { n.NoDelay = true }},
		{"the last counts", "-l 1 -l 2", func(n *Netperf) { n.Length = 2 }},
		{"same letter on both sides", "-s 2 -D 3 -- -s 2K -D", func(n *Netperf) {
			n.Wait, n.Interval.Every = 2*time.Second, 3*time.Second
			n.Socket.Local, n.NoDelay = SendRecv{2048, 2048}, true
		}},
		{"argument -D of a test doesn't take", "-- -D L -C", func(n *Netperf) { n.NoDelay, n.Cork = true, true }},

		// JSON
		{"-J", "-J out.json", func(n *Netperf) { n.JSON = "out.json" }},
		{"-J glued", "-jJ-", func(n *Netperf) { n.Histogram, n.JSON = true, "-" }},
		{"--json", "--json out.json -j", func(n *Netperf) { n.JSON, n.Histogram = "out.json", true }},
		{"--json=", "--json=- -j", func(n *Netperf) { n.JSON, n.Histogram = "-", true }},

		// Optional words
		{"-c alone", "-c -C", func(n *Netperf) { n.CPU = Ends[bool]{true, true} }},
		{"-c with a rate", "-c 100 -C 0.5", func(n *Netperf) { n.CPU, n.CPURate = Ends[bool]{true, true}, Ends[float64]{100, 0.5} }},
		{"-c before a word", "-c word -C", func(n *Netperf) { n.CPU = Ends[bool]{true, true} }},
		{"-c amid letters", "-cC 100", func(n *Netperf) { n.CPU, n.CPURate.Remote = Ends[bool]{true, true}, 100 }},
		{"-c before the dashes", "-c --", func(n *Netperf) { n.CPU.Local = true }},
		{"-k alone", "-- -k", func(n *Netperf) { n.Style = Keyval }},
		{"-k with selectors", "-- -k THROUGHPUT,UUID -D", func(n *Netperf) { n.Style, n.Selectors, n.NoDelay = Keyval, "THROUGHPUT,UUID", true }},
		{"-k before an option", "-- -k -D", func(n *Netperf) { n.Style, n.NoDelay = Keyval, true }},
		{"-k with nothing", "-- -k '' -D", func(n *Netperf) { n.Style, n.NoDelay = Keyval, true }},
		{"-k with ?", "-- -k ?", func(n *Netperf) { n.Style, n.Selectors = Keyval, "?" }},
		{"-o", "-- -o all", func(n *Netperf) { n.Style, n.Selectors = CSV, "all" }},
		{"-O", "-- -O 'A, B'", func(n *Netperf) { n.Style, n.Selectors = Human, "A, B" }},
		{"the last layout", "-- -k A -o B", func(n *Netperf) { n.Style, n.Selectors = CSV, "B" }},
		{"the last layout, without selectors", "-- -k A -o", func(n *Netperf) { n.Style = CSV }},

		// Copying pairs
		{"copied X", "-T 1", func(n *Netperf) { n.Bind = Ends[int]{1, 1} }},
		{"copied X,Y", "-T 1,2", func(n *Netperf) { n.Bind = Ends[int]{1, 2} }},
		{"copied X,", "-T 1,", func(n *Netperf) { n.Bind.Local = 1 }},
		{"copied ,Y", "-T ,2", func(n *Netperf) { n.Bind.Remote = 2 }},
		{"copied, not bound", "-T -1,2", func(n *Netperf) { n.Bind.Remote = 2 }},
		{"copied, twice", "-T 1 -T ,2", func(n *Netperf) { n.Bind = Ends[int]{1, 2} }},
		{"-a", "-a 16,32 -A 64", func(n *Netperf) {
			n.Align = Ends[SendRecv]{SendRecv{16, 32}, SendRecv{64, 64}}
			n.NoEffect = []string{"-a: buffers are where the runtime puts them"}
		}},
		{"-o and -O", "-o 16,32 -O 64", func(n *Netperf) {
			n.Offset = Ends[SendRecv]{SendRecv{16, 32}, SendRecv{64, 64}}
			n.NoEffect = []string{"-o: buffers are where the runtime puts them"}
		}},
		{"-O with selectors", "-O MIN_LATENCY,THROUGHPUT", func(n *Netperf) {
			n.NoEffect = []string{"-O: a list of selectors belongs behind the --"}
		}},
		{"-W", "-W 4,5", func(n *Netperf) { n.Width = SendRecv{4, 5} }},
		{"-y", "-y 1,6", func(n *Netperf) { n.Priority = Ends[int]{1, 6} }},
		{"-Y numbers", "-Y 0x28,010", func(n *Netperf) { n.TOS = Ends[int]{0x28, 8} }},
		{"-Y names", "-Y EF,cs1", func(n *Netperf) { n.TOS = Ends[int]{0xb8, 0x20} }},
		{"-Y more names", "-Y af41,lowdelay", func(n *Netperf) { n.TOS = Ends[int]{0x88, 0x10} }},
		{"-r", "-t TCP_RR -- -r 10K,1", func(n *Netperf) { rr(n); n.Request, n.Response = 10240, 1 }},
		{"-r copied", "-t TCP_RR -- -r64", func(n *Netperf) { rr(n); n.Request, n.Response = 64, 64 }},
		{"-r first", "-t TCP_RR -- -r 64,", func(n *Netperf) { rr(n); n.Request = 64 }},
		{"-r of a stream", "-- -r 64,", func(n *Netperf) { n.Request = 64 }},
		{"-s", "-- -s 8K", func(n *Netperf) { n.Socket.Local = SendRecv{8192, 8192} }},
		{"-s first", "-- -s 8K,", func(n *Netperf) { n.Socket.Local.Send = 8192 }},
		{"-s second", "-- -s ,8K", func(n *Netperf) { n.Socket.Local.Recv = 8192 }},
		{"-S", "-- -S 8k,1M", func(n *Netperf) { n.Socket.Remote = SendRecv{8000, 1 << 20} }},
		{"-S leave", "-- -S -1", func(*Netperf) {}},
		{"-K", "-- -K cubic", func(n *Netperf) { n.Congestion = Ends[string]{"cubic", "cubic"} }},
		{"-K pair", "-- -K ,bbr", func(n *Netperf) { n.Congestion.Remote = "bbr" }},
		{"-P", "-- -P 42424", func(n *Netperf) { n.DataPort = Ends[int]{42424, 42424} }},
		{"-P second", "-- -P ,42424", func(n *Netperf) { n.DataPort.Remote = 42424 }},
		{"-p", "-- -p 6000,6100", func(n *Netperf) { n.Ports = [2]int{6000, 6100} }},
		{"-p first", "-- -p 6000,", func(n *Netperf) { n.Ports = [2]int{6000, 65535} }},
		{"-p second", "-- -p ,6100", func(n *Netperf) { n.Ports = [2]int{5000, 6100} }},
		{"-p kernel", "-- -p 0,0", func(*Netperf) {}},

		// Explicit pairs
		{"apart X", "-p 5", func(n *Netperf) { n.Port = 5 }},
		{"apart X,Y", "-p 5,6", func(n *Netperf) { n.Port, n.SourcePort = 5, 6 }},
		{"apart X,", "-p 5,", func(n *Netperf) { n.Port = 5 }},
		{"apart ,Y", "-p ,6", func(n *Netperf) { n.SourcePort = 6 }},
		{"-b", "-b 10G", func(n *Netperf) { n.Pace.Local = Pace{10 << 30, time.Millisecond} }},
		{"-b remote", "-b ,3", func(n *Netperf) { n.Pace.Remote = Pace{3, time.Millisecond} }},
		{"-b and -w", "-w 10us,2 -b 3,4", func(n *Netperf) {
			n.Pace = Ends[Pace]{Pace{3, 10 * time.Microsecond}, Pace{4, 2 * time.Millisecond}}
		}},
		{"-w alone", "-w 100", func(n *Netperf) { n.Pace.Local.Interval = 100 * time.Millisecond }},
		{"-w ms", "-w 5ms,6m", func(n *Netperf) {
			n.Pace.Local.Interval, n.Pace.Remote.Interval = 5*time.Millisecond, 6*time.Millisecond
		}},
		{"-w u and s", "-w 5u,6s", func(n *Netperf) { n.Pace.Local.Interval, n.Pace.Remote.Interval = 5*time.Microsecond, 6*time.Second }},
		{"-w fraction", "-w 0.25", func(n *Netperf) { n.Pace.Local.Interval = 250 * time.Microsecond }},
		{"-F", "-F /dev/urandom", func(n *Netperf) { n.Fill.Local = "/dev/urandom" }},
		{"-F remote", "-F ,0123456789012345678901234567890", func(n *Netperf) { n.Fill.Remote = "0123456789012345678901234567890" }},
		{"-m", "-- -m 64K", func(n *Netperf) { n.SendSize.Local = 65536 }},
		{"-m remote", "-- -m ,64K", func(n *Netperf) { n.SendSize.Remote = 65536 }},
		{"-m default", "-- -m 0", func(*Netperf) {}},
		{"-M", "-- -M 64K", func(n *Netperf) { n.RecvSize.Remote = 65536 }},
		{"-M local", "-- -M ,64K", func(n *Netperf) { n.RecvSize.Local = 65536 }},

		// Hosts and families
		{"-H", "-H 192.0.2.1", func(n *Netperf) { n.Target.Name = "192.0.2.1" }},
		{"-H family", "-H 192.0.2.1,4", func(n *Netperf) { n.Target, n.Family = Host{Name: "192.0.2.1", Family: IPv4}, IPv4 }},
		{"-H family only", "-H ,inet6", func(n *Netperf) { n.Target.Family, n.Family = IPv6, IPv6 }},
		{"-L", "-L 192.0.2.1,AF_INET", func(n *Netperf) { n.Source, n.Family = Host{Name: "192.0.2.1", Family: IPv4}, IPv4 }},
		{"-L and -H", "-L ,4 -H ,6", func(n *Netperf) { n.Source.Family, n.Target.Family, n.Family = IPv4, IPv6, IPv6 }},
		{"-L and a word", "-L 0.0.0.0 AF_INET", func(n *Netperf) { n.Source.Name = "0.0.0.0" }},
		{"unspecified", "-4 -H ,AF_UNSPEC", func(n *Netperf) { n.Source.Family = IPv4 }},
		{"0", "-H ,0", func(*Netperf) {}},
		{"unknown family", "-H 127.0.0.1,foo", func(n *Netperf) {
			n.Target.Name = "127.0.0.1"
			n.Notes = []string{
				"WARNING! foo not recognized as an address family, using AF_UNPSEC",
				"Are you sure netperf was configured for that address family?",
			}
		}},
		{"-4", "-4", func(n *Netperf) { n.Family, n.Source.Family, n.Target.Family = IPv4, IPv4, IPv4 }},
		{"-6", "-6", func(n *Netperf) { n.Family, n.Source.Family, n.Target.Family = IPv6, IPv6, IPv6 }},
		{"data -H", "-- -H 10.1.0.0/16,4", func(n *Netperf) {
			n.DataTarget, n.DataFamily = Host{Name: "10.1.0.0", Mask: 16, Family: IPv4}, IPv4
		}},
		{"data -L", "-- -L 2001:db8::1/64,6", func(n *Netperf) {
			n.DataSource, n.DataFamily = Host{Name: "2001:db8::1", Mask: 64, Family: IPv6}, IPv6
		}},
		{"data -4", "-- -4", func(n *Netperf) { n.DataFamily, n.DataSource.Family, n.DataTarget.Family = IPv4, IPv4, IPv4 }},
		{"data -6", "-t TCP_SENDFILE -- -6", func(n *Netperf) {
			n.Test = TCPSendfile
			n.DataFamily, n.DataSource.Family, n.DataTarget.Family = IPv6, IPv6, IPv6
		}},

		// Lengths
		{"-l with an s", "-l 10s", func(*Netperf) {}},
		{"-l with a point", "-l 90.0", func(n *Netperf) { n.Length = 90 }},
		{"-l fraction", "-l 1.5", func(n *Netperf) { n.Length = 1 }},
		{"-l of Go", "-l 1m0s", func(n *Netperf) { n.Length = 1000000 }},
		{"-l with K", "-l -10K", func(n *Netperf) { n.Length = -10240 }},
		{"-l 0", "-l 0", func(n *Netperf) { n.Length = 0 }},
		{"-l same suffix twice", "-l 1mm", func(n *Netperf) { n.Length = 1000000 }},

		// Interim results
		{"-D", "-D 1", func(n *Netperf) { n.Interval = Interim{Every: time.Second} }},
		{"-D negative", "-D -0.20", func(n *Netperf) { n.Interval = Interim{Every: 200 * time.Millisecond, EachOperation: true} }},
		{"-D units", "-D 0.5,100", func(n *Netperf) { n.Interval = Interim{Every: 500 * time.Millisecond, Units: 100} }},
		{"-D units only", "-D ,100", func(n *Netperf) { n.Interval = Interim{Every: time.Second, Units: 100} }},
		{"-D 0", "-D 0", func(*Netperf) {}},

		// Confidence
		{"-i", "-i 10,5", confidence(5, 10, 99, 5)},
		{"-i copied", "-i 7", confidence(7, 7, 99, 5)},
		{"-i clamped up", "-i 2,1", confidence(3, 3, 99, 5)},
		{"-i clamped down", "-i 100,50", confidence(30, 30, 99, 5)},
		{"-i wrong order", "-i 5,10", confidence(10, 10, 99, 5)},
		{"-i max only", "-i 5,", confidence(3, 5, 99, 5)},
		{"-i min only", "-i ,5", confidence(5, 5, 99, 5)},
		{"-I", "-I 95,10", confidence(3, 10, 95, 10)},
		{"-I copied", "-I 99", confidence(3, 10, 99, 99)},
		{"-I level only", "-I 99,", confidence(3, 10, 99, 5)},
		{"-I with percent", "-I 95%", confidence(3, 10, 95, 95)},
		{"-I fraction", "-I 99,0.001", confidence(3, 10, 99, 0.001)},
		{"-I after -i", "-i 4,3 -I ,20", confidence(3, 4, 99, 20)},
		{"-I before -i", "-I 95,20 -i 4,3", confidence(3, 4, 95, 20)},

		// Others
		{"-B", "-B 'two words'", func(n *Netperf) { n.Brand = &brand }},
		{"-B empty", "-B ''", func(n *Netperf) { n.Brand = &empty }},
		{"-d", "-d -d", func(n *Netperf) { n.Debug = 2 }},
		{"-f", "-f MB", func(n *Netperf) { n.Unit = 'M' }},
		{"-j -N -r -S", "-j -N -r -S", func(n *Netperf) {
			n.Histogram, n.NoControl, n.Confidence.ResultOnly, n.KeepAlive = true, true, true, true
		}},
		{"-k", "-k 10", func(n *Netperf) {
			n.Dirty.Local = SendRecv{10, 10}
			n.Notes = []string{"I don't know how to get dirty."}
			n.NoEffect = []string{"-k: memory is not touched between receives"}
		}},
		{"-K", "-K ,10 -k 1,2", func(n *Netperf) {
			n.Dirty = Ends[SendRecv]{SendRecv{1, 2}, SendRecv{-1, 10}}
			n.Notes = []string{"I don't know how to get dirty.", "I don't know how to get dirty."}
			n.NoEffect = []string{"-K: memory is not touched between receives", "-k: memory is not touched between receives"}
		}},
		{"-n", "-n 8", func(n *Netperf) {
			n.CPUs = 8
			n.NoEffect = []string{"-n: the kernel says how many CPUs there are"}
		}},
		{"-P", "-P 0", func(n *Netperf) { n.Banner = false }},
		{"-s", "-s 2", func(n *Netperf) { n.Wait = 2 * time.Second }},
		{"-s fraction", "-s 0.5", func(n *Netperf) { n.Wait = 500 * time.Millisecond }},
		{"-v", "-v -1", func(n *Netperf) { n.Verbosity = -1 }},
		{"-Z", "-Z sesame", func(n *Netperf) { n.Passphrase, n.HasPassphrase = "sesame", true }},
		{"-Z empty", "-Z ''", func(n *Netperf) { n.HasPassphrase = true }},

		// Options of omni tests
		{"switches", "-- -a -B -c -C -D -f -F -I -n -N -U -V", func(n *Netperf) {
			n.DeferAccept, n.PacketInfo, n.Connection, n.Cork, n.NoDelay = true, true, true, true, true
			n.MTUDiscover, n.FastOpen, n.UseWrite, n.Retry, n.CopyAvoidance = true, true, true, true, true
			n.Connected = Ends[bool]{true, true}
			n.NoEffect = []string{
				"-- -I: what goes through the kernel is the same", "-- -n: a socket of datagrams always is", "-- -U: they always are, and counted",
			}
		}},
		{"numbers", "-- -b 16 -e 2 -G 1400 -l 120 -q 1M -W 4", func(n *Netperf) {
			n.Data.Burst, n.Timeout, n.MSS, n.TTL, n.PacingRate, n.Width.Send = 16, 2*time.Second, 1400, 120, 1<<20, 4
		}},
		{"-R 1", "-- -R 1", func(n *Netperf) { n.Routing = &yes }},
		{"-R 0", "-- -R 0", func(n *Netperf) { n.Routing = &no }},
		{"-t", "-- -t DGRAM", func(n *Netperf) { n.Datagram = &yes }},
		{"-T", "-- -T UDP", func(n *Netperf) { n.Protocol, n.Datagram = "udp", &yes }},
		{"-T tcp", "-- -T tcp", func(n *Netperf) { n.Protocol, n.Datagram = "tcp", &no }},
		{"-T sctp", "-- -t stream -T sctp", func(n *Netperf) { n.Protocol, n.Datagram = "sctp", &no }},
		{"-u", "-- -u 0123456789012345678901234567890123456789", func(n *Netperf) { n.Data.UUID = "0123456789012345678901234567890123456" }},
		{"without effect", "-- -g -i 5,1 -j 3 -w x -d rr", func(n *Netperf) {
			n.NoEffect = []string{
				"-- -g: Linux records nothing for it", "-- -i: netperf has removed it",
				"-- -j: netperf doesn't use it either", "-- -w: netperf ignores it too",
				"-- -d: only OMNI has a direction to choose",
			}
		}},

		// Options of sockets tests
		{"sockets", "-t TCP_CC -- -b 2 -C -D -H 192.0.2.1,4 -L ,4 -m 8K -M 9K -n -N -p 6000,6100 -P 1,2 -r 3,4 -R 1 -s 5 -S 6 -V -W 7", func(n *Netperf) {
			n.Test, n.Direction, n.Connection = TCPCC, 0, true
			n.Data.Burst, n.Cork, n.NoDelay = 2, true, true
			n.DataTarget, n.DataSource, n.DataFamily = Host{Name: "192.0.2.1", Family: IPv4}, Host{Family: IPv4}, IPv4
			n.SendSize.Local, n.RecvSize.Remote = 8192, 9216
			n.Connected, n.Ports, n.DataPort = Ends[bool]{true, true}, [2]int{6000, 6100}, Ends[int]{1, 2}
			n.Request, n.Response, n.Routing = 3, 4, &yes
			n.Socket = Ends[SendRecv]{SendRecv{5, 5}, SendRecv{6, 6}}
			n.CopyAvoidance, n.Width.Send = true, 7
			n.NoEffect = []string{"-- -n: a socket of datagrams always is"}
		}},
		{"sockets without effect", "-t TCP_MSS -- -a -A -T x -w y -z", func(n *Netperf) {
			n.Test = TCPMSS
			n.NoEffect = []string{
				"-- -a: these tests do one operation at a time", "-- -A: these tests do one operation at a time",
				"-- -T: these tests are TCP", "-- -w: netperf ignores it too", "-- -z: netperf doesn't use it either",
			}
		}},
		{"a test without options", "-t LOC_CPU -- -Q", func(n *Netperf) { n.Test, n.Direction = LocalCPU, 0 }},
		{"an unknown test", "-t no_such -- -Q", func(n *Netperf) { n.Test, n.Direction = "NO_SUCH", 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := split(t, tt.args)
			want := parsed(t)
			tt.want(want)
			if diff := cmp.Diff(want, parsed(t, args...), cmpopts.IgnoreFields(Netperf{}, "Args")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.args, diff)
			}
		})
	}
}

func rr(n *Netperf) { n.Test, n.Direction, n.Request, n.Response = TCPRR, Both, 1, 1 }

func confidence(least, most, level int, width float64) func(*Netperf) {
	return func(n *Netperf) { n.Confidence = Confidence{Min: least, Max: most, Level: level, Width: width} }
}

func TestOmniDirection(t *testing.T) {
	for _, tt := range []struct {
		args       string
		want       Direction
		connection bool
		req, rsp   int
	}{
		{"", Transmit, false, -1, -1},
		{"-d send", Transmit, false, -1, -1},
		{"-d recv", Receive, false, -1, -1},
		{"-d MAERTS", Receive, false, -1, -1},
		{"-d rr", Both, false, 1, 1},
		{"-d xmit|recv", Both, false, 1, 1},
		{"-d 0x6", Both, false, 1, 1},
		{"-d 4", Receive, false, -1, -1},
		{"-d 0", Transmit, false, -1, -1},
		{"-c", 0, true, -1, -1},
		{"-c -d rr", Both, true, 1, 1},
		{"-c -m 1", Transmit, true, -1, -1},
		{"-m 64K", Transmit, false, -1, -1},
		{"-m ,64K", Receive, false, -1, -1},
		{"-m 1,2", Both, false, 1, 1},
		{"-M 64K", Transmit, false, -1, -1},
		{"-M ,64K", Receive, false, -1, -1},
		{"-r 64K", Both, false, 65536, 65536},
		{"-r ,2", Both, false, 1, 2},
		{"-r 2 -d send", Transmit, false, 2, 2},
		{"-d send -r 2", Transmit, false, 2, 2},
		{"-d recv -m 1", Receive, false, -1, -1},
	} {
		n := parsed(t, append([]string{"-t", "omni", "--"}, split(t, tt.args)...)...)
		if n.Direction != tt.want || n.Connection != tt.connection || n.Request != tt.req || n.Response != tt.rsp {
			t.Errorf("%s: direction %d, connection %t, sizes %d, %d", tt.args, n.Direction, n.Connection, n.Request, n.Response)
		}
	}
	if n := parsed(t, "-t", "TCP_STREAM", "--", "-m", ",64K", "-r", "1"); n.Direction != Transmit {
		t.Errorf("a size turns TCP_STREAM into direction %d", n.Direction)
	}
}

// TestSizes is the matrix of sizes that testers are known to read wrongly.
func TestSizes(t *testing.T) {
	const bad = -2
	for _, tt := range []struct {
		size string
		want int
		why  string
	}{
		{"8K", 8192, ""},
		{"8k", 8000, ""},
		{"1M", 1 << 20, ""},
		{"1m", 1000000, ""},
		{"1G", 1 << 30, ""},
		{"2g", 2000000000, ""},
		{"8.5K", 8704, ""},
		{"1.005k", 1005, ""},
		{"0", 0, ""},
		{"2147483647", math.MaxInt32, ""},
		{"4G", bad, "out of range: a size is from -1 to 2147483647"},
		{"2G", bad, "out of range: a size is from -1 to 2147483647"},
		{"-2", bad, "out of range: a size is from -1 to 2147483647"},
		{"99999999999999999999", bad, "out of range: a size is from -1 to 2147483647"},
		{"8.3K", bad, "not a whole number"},
		{"abc", bad, "not a size"},
		{"K", bad, "not a size"},
		{"10KM", bad, "not a size"},
		{"1e6", bad, "not a size"},
		{"0x10", bad, "not a size"},
		{"1_0", bad, "not a size"},
		{"+8", bad, "not a size"},
		{".5K", bad, "not a size"},
		{"8.K", bad, "not a size"},
		{"1.2.3", bad, "not a size"},
		{"8T", bad, "not a size"},
		{" 8K", bad, "not a size"},
		{"8K ", bad, "not a size"},
		{"٨", bad, "not a size"},
	} {
		for _, pair := range []struct {
			format string
			want   SendRecv
		}{
			{"%s", SendRecv{tt.want, tt.want}},
			{"%s,", SendRecv{tt.want, Unset}},
			{",%s", SendRecv{Unset, tt.want}},
			{"%[1]s,%[1]s", SendRecv{tt.want, tt.want}},
		} {
			arg := fmt.Sprintf(pair.format, tt.size)
			for _, option := range []string{"-s", "-S"} {
				if tt.want == bad {
					want := &Exit{Status: 1, Stderr: fmt.Sprintf("netperf: option %s: %q is %s\n", option, tt.size, tt.why)}
					if diff := cmp.Diff(want, refused(t, "--", option, arg)); diff != "" {
						t.Errorf("%s %q (-want +got):\n%s", option, arg, diff)
					}
					continue
				}
				n := parsed(t, "--", option, arg)
				got := n.Socket.Local
				if option == "-S" {
					got = n.Socket.Remote
				}
				if got != pair.want {
					t.Errorf("%s %q: got %v, want %v", option, arg, got, pair.want)
				}
			}
		}
	}
	for _, arg := range []string{"", ","} {
		want := &Exit{Status: 1, Stderr: fmt.Sprintf("netperf: option -s: %q has no value\n", arg)}
		if diff := cmp.Diff(want, refused(t, "--", "-s", arg)); diff != "" {
			t.Errorf("-s %q (-want +got):\n%s", arg, diff)
		}
	}
}

// TestNumbersAreChecked has every option that takes numbers: letters, nothing
// and a number out of range are refused by each, in one line.
func TestNumbersAreChecked(t *testing.T) {
	for _, option := range []string{
		"-a", "-A", "-b", "-D", "-i", "-k", "-K", "-l", "-n", "-o", "-O", "-p", "-P",
		"-s", "-T", "-v", "-w", "-W", "-y", "-Y",
		"-- -b", "-- -e", "-- -G", "-- -l", "-- -m", "-- -M", "-- -p", "-- -P", "-- -q", "-- -r",
		"-- -R", "-- -s", "-- -S", "-- -W",
		"-t TCP_CC -- -b", "-t TCP_CC -- -m", "-t TCP_CC -- -M", "-t TCP_CC -- -p", "-t TCP_CC -- -P",
		"-t TCP_CC -- -r", "-t TCP_CC -- -R", "-t TCP_CC -- -s", "-t TCP_CC -- -S", "-t TCP_CC -- -W",
	} {
		words := split(t, option)
		letter := words[len(words)-1]
		for _, arg := range []string{"abc", "", "K", "99999999999999999999", "-99999999999999999999"} {
			exit := refused(t, append(words, arg)...)
			if exit.Status != 1 || exit.Stdout != "" || strings.Count(exit.Stderr, "\n") != 1 ||
				!strings.HasPrefix(exit.Stderr, fmt.Sprintf("netperf: option %s: %q ", letter, arg)) {
				t.Errorf("%s %q: %+v", option, arg, exit)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	line := func(format string, args ...any) Exit {
		return Exit{Status: 1, Stderr: fmt.Sprintf(format, args...) + "\n"}
	}
	for _, tt := range []struct {
		args string
		want Exit
	}{
		{"-V", Exit{Stdout: "Netperf version 2.7.1\n"}},
		{"-jVh", Exit{Stdout: "Netperf version 2.7.1\n"}},
		{"-h", Exit{Status: 1, Stderr: netperfUsage()}},
		{"-H 127.0.0.1 -l 1 -q", Exit{Status: 1, Stderr: "netperf: invalid option -- 'q'\n" + netperfUsage()}},
		{"-H 127.0.0.1 -l", Exit{Status: 1, Stderr: "netperf: option requires an argument -- 'l'\n" + netperfUsage()}},
		{"-jl", Exit{Status: 1, Stderr: "netperf: option requires an argument -- 'l'\n" + netperfUsage()}},
		{"-c100", Exit{Status: 1, Stderr: "netperf: invalid option -- '1'\n" + netperfUsage()}},
		{"--help", Exit{Status: 1, Stderr: "netperf: invalid option -- '-'\n" + netperfUsage()}},
		{"--json", Exit{Status: 1, Stderr: "netperf: option '--json' requires an argument\n" + netperfUsage()}},
		{"-Q -V", Exit{Status: 1, Stderr: "netperf: invalid option -- 'Q'\n" + netperfUsage()}},
		{"-t TCP_RR -- -Q", line("netperf: invalid option -- 'Q'")},
		{"-t TCP_CC -- -Q", line("netperf: invalid option -- 'Q'")},
		{"-t TCP_CC -- -k THROUGHPUT", line("netperf: invalid option -- 'k'")},
		{"-- --json x", line("netperf: invalid option -- '-'")},
		{"-- -m", line("netperf: option requires an argument -- 'm'")},
		{"-- -h", Exit{Status: 1, Stdout: omniUsage()}},
		{"-t UUID -- -h", Exit{Status: 1, Stdout: omniUsage()}},
		{"-t tcp_cc -- -h", Exit{Status: 1, Stdout: socketsUsage()}},

		{"-I 90", Exit{Status: 255, Stdout: "Only 95% and 99% confidence level is supported\n"}},
		{"-I ,20", Exit{Status: 255, Stdout: "Only 95% and 99% confidence level is supported\n"}},
		{"-I abc", Exit{Status: 255, Stdout: "Only 95% and 99% confidence level is supported\n"}},
		{"-F ,01234567890123456789012345678901", Exit{Status: 255, Stderr: "Remote fill file name must be less than 32 characters\n"}},

		{"-I 99,abc", line(`netperf: option -I: "abc" is not a percentage`)},
		{"-I 99,-5", line(`netperf: option -I: "-5" is out of range: a percentage is from 0 to 1000000`)},
		{"-l abc", line(`netperf: option -l: "abc" is not a length`)},
		{"-l ' 10'", line(`netperf: option -l: " 10" is not a length`)},
		{"-l 10G", line(`netperf: option -l: "10G" is out of range: a length is from -2147483647 to 2147483647`)},
		{"-D 500ms", line(`netperf: option -D: "500ms" is not a time in seconds`)},
		{"-s -1", line(`netperf: option -s: "-1" is negative`)},
		{"-s 1e9", line(`netperf: option -s: "1e9" is not a time in seconds`)},
		{"-s 3000000000", line(`netperf: option -s: "3000000000" is out of range: a time is at most 2147483647 seconds`)},
		{"-w 10h", line(`netperf: option -w: "10h" is not an interval`)},
		{"-w ms", line(`netperf: option -w: "ms" is not an interval`)},
		{"-w 0.5us", line(`netperf: option -w: "0.5us" is not a whole number of microseconds`)},
		{"-w 5000s", line(`netperf: option -w: "5000s" is out of range: an interval is from 0 to 4294967295 us`)},
		{"-b ,10G", line(`netperf: option -b: "10G" is out of range: a number is from 0 to 4294967295`)},
		{"-c 1.2.3", line(`netperf: option -c: "1.2.3" is not a rate`)},
		{"-c 9999999999999", line(`netperf: option -c: "9999999999999" is out of range: a rate is from 0 to 1e+12`)},
		{"-p 0", line(`netperf: option -p: "0" is out of range: a port is from 1 to 65535`)},
		{"-p 65536", line(`netperf: option -p: "65536" is out of range: a port is from 1 to 65535`)},
		{"-p http", line(`netperf: option -p: "http" is not a port`)},
		{"-p 1,2,3", line(`netperf: option -p: "2,3" is not a port`)},
		{"-O abc", line(`netperf: option -O: "abc" is not a size`)},
		{"-a 0", line(`netperf: option -a: "0" is out of range: a size is from 1 to 2147483647`)},
		{"-T all", line(`netperf: option -T: "all" is not a CPU number`)},
		{"-Y 256", line(`netperf: option -Y: "256" is not a type of service (0 to 255, or a name)`)},
		{"-Y best", line(`netperf: option -Y: "best" is not a type of service (0 to 255, or a name)`)},
		{"-Y 1_0", line(`netperf: option -Y: "1_0" is not a type of service (0 to 255, or a name)`)},
		{"-f ''", line(`netperf: option -f: "" is not a unit`)},
		{"-J ''", line(`netperf: option -J: "" is not a file name`)},
		{"--json=", line(`netperf: option -J: "" is not a file name`)},
		{"-H ''", line(`netperf: option -H: "" has no value`)},
		{"-F ,", line(`netperf: option -F: "," has no value`)},
		{"-t omni -- -d up", line(`netperf: option -d: "up" is not a direction`)},
		{"-t omni -- -d 8", line(`netperf: option -d: "8" is not a direction`)},
		{"-- -t raw", line(`netperf: option -t: "raw" is not a type of socket`)},
		{"-- -T icmp", line(`netperf: option -T: "icmp" is not a protocol`)},
		{"-- -K 0123456789abcdef", line(`netperf: option -K: "0123456789abcdef" is not the name of a congestion control (at most 15 characters)`)},
		{"-- -l 256", line(`netperf: option -l: "256" is out of range: a number of hops is from 0 to 255`)},
		{"-- -r 1,0", line(`netperf: option -r: "0" is out of range: a size is from 1 to 2147483647`)},
		{"-- -p 6100,6000", line(`netperf: option -p: "6100,6000" is not a range of ports`)},
		{"-- -p 0,6000", line(`netperf: option -p: "0,6000" is not a range of ports`)},
		{"-- -H 10.0.0.0/", line(`netperf: option -H: "10.0.0.0/" has no mask`)},
		{"-- -H 10.0.0.0/129", line(`netperf: option -H: "129" is out of range: a number of mask bits is from 1 to 128`)},
	} {
		if diff := cmp.Diff(&tt.want, refused(t, split(t, tt.args)...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
	_, err := ParseNetperf([]string{"/usr/bin/np", "-D", "x"})
	if want := "np: option -D: \"x\" is not a time in seconds\n"; err == nil || err.Error() != want {
		t.Errorf("under another name: %v, want %s", err, want)
	}
}

func TestNetserver(t *testing.T) {
	for _, tt := range []struct {
		args string
		want Netserver
		exit *Exit
	}{
		{args: "-p 24300 -L 127.0.0.1 -Z sesame", want: Netserver{Listen: Host{Name: "127.0.0.1"}, Port: 24300, Passphrase: "sesame", HasPassphrase: true}},
		{args: "-L ,AF_INET6", want: Netserver{Listen: Host{Family: IPv6}, Family: IPv6}},
		{args: "-L 127.0.0.1,inet", want: Netserver{Listen: Host{Name: "127.0.0.1", Family: IPv4}, Family: IPv4}},
		{args: "-4", want: Netserver{Listen: Host{Family: IPv4}, Family: IPv4}},
		{args: "-D6 word", want: Netserver{Foreground: true, Listen: Host{Family: IPv6}, Family: IPv6}},
		{args: "-f -N -v 2 -d -d", want: Netserver{Serial: true, NoDebug: true, Verbosity: 2, Debug: 2, NoEffect: []string{"-v: there is no more to print"}}},
		{args: "-n 4", want: Netserver{NoEffect: []string{"-n: the kernel says how many CPUs there are"}}},
		{args: "-L ,foo", want: Netserver{Notes: []string{
			"WARNING! foo not recognized as an address family, using AF_UNPSEC",
			"Are you sure netperf was configured for that address family?",
		}}},
		{args: "-- -Q", want: Netserver{}},
		{args: "-V", exit: &Exit{Stdout: "Netperf version 2.7.1\n"}},
		{args: "-h", exit: &Exit{Status: 1, Stderr: netserverUsage()}},
		{args: "-Q", exit: &Exit{Status: 1, Stderr: "netserver: invalid option -- 'Q'\n" + netserverUsage()}},
		{args: "-p", exit: &Exit{Status: 1, Stderr: "netserver: option requires an argument -- 'p'\n" + netserverUsage()}},
		{args: "-p 0", exit: &Exit{Status: 1, Stderr: "netserver: option -p: \"0\" is out of range: a port is from 1 to 65535\n"}},
		{args: "-p abc", exit: &Exit{Status: 1, Stderr: "netserver: option -p: \"abc\" is not a port\n"}},
		{args: "-v x", exit: &Exit{Status: 1, Stderr: "netserver: option -v: \"x\" is not a number\n"}},
		{args: "-n 513", exit: &Exit{Status: 1, Stderr: "netserver: option -n: \"513\" is out of range: a number is from 0 to 512\n"}},
		{args: "-L ''", exit: &Exit{Status: 1, Stderr: "netserver: option -L: \"\" has no value\n"}},
	} {
		args := append([]string{"/usr/local/bin/netserver"}, split(t, tt.args)...)
		got, err := ParseNetserver(args)
		if tt.exit != nil {
			var exit *Exit
			if !errors.As(err, &exit) {
				t.Errorf("%s: %v, want an *Exit", tt.args, err)
			} else if diff := cmp.Diff(tt.exit, exit); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.args, diff)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		tt.want.Args = args
		if tt.want.Port == 0 {
			tt.want.Port = 12865
		}
		if tt.want.Verbosity == 0 {
			tt.want.Verbosity = 1
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
}

// TestUsage checks that each option has its line, once, and that texts look like
// netperf's to programs that search them.
func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		letters    string
	}{
		{"global", netperfUsage(), "aAbBcCdDfFhHiIjJkKlLnNoOpPrsStTvVwWyYZ46"},
		{"omni", omniUsage(), "abBcCdDefFgGhHiIjkKlLmMnNoOpPqrRsStTuUVwW46"},
		{"sockets", socketsUsage(), "aAbCDhHLmMnNpPrRsSTVwWz46"},
		{"netserver", netserverUsage(), "dDfhLnNpvVZ46"},
	} {
		var got []byte
		for line := range strings.Lines(tt.text) {
			if rest, ok := strings.CutPrefix(line, usageIndent+"-"); ok {
				got = append(got, rest[0])
			}
		}
		if diff := cmp.Diff(tt.letters, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if tt.name != "netserver" && !strings.Contains(tt.text, "\nUsage: netperf [global options] -- [test options]\n") {
			t.Errorf("%s: no line of usage", tt.name)
		}
	}
}

func within[T int | int64](t *testing.T, what string, v, least, most T) {
	t.Helper()
	if v < least || v > most {
		t.Errorf("%s is %d, not from %d to %d", what, v, least, most)
	}
}

func withinPair(t *testing.T, what string, p SendRecv, least int) {
	t.Helper()
	within(t, what+" send", p.Send, least, math.MaxInt32)
	within(t, what+" recv", p.Recv, least, math.MaxInt32)
}

// checkNetperf checks that a command line's numbers are in range.
func checkNetperf(t *testing.T, n *Netperf) {
	t.Helper()
	within(t, "length", n.Length, -math.MaxInt32, math.MaxInt32)
	within(t, "port", n.Port, 1, 65535)
	within(t, "source port", n.SourcePort, 0, 65535)
	within(t, "wait", int64(n.Wait), 0, int64(math.MaxInt32*time.Second))
	within(t, "interim", int64(n.Interval.Every), 0, int64(math.MaxInt32*time.Second))
	within(t, "interim units", n.Interval.Units, 0, math.MaxInt32)
	within(t, "local burst", n.Pace.Local.Burst, 0, math.MaxInt64)
	within(t, "remote burst", n.Pace.Remote.Burst, 0, math.MaxUint32)
	for _, p := range []Pace{n.Pace.Local, n.Pace.Remote} {
		within(t, "pacing", p.Interval.Microseconds(), 0, math.MaxUint32)
		if p.Burst > 0 && p.Interval == 0 || p.Interval%time.Microsecond != 0 {
			t.Errorf("pacing is %+v", p)
		}
	}
	for _, rate := range []float64{n.CPURate.Local, n.CPURate.Remote} {
		if !(rate >= 0 && rate <= maxRate) {
			t.Errorf("CPU rate is %g", rate)
		}
	}
	c := n.Confidence
	if c.Level == 0 {
		if (c != Confidence{Min: 1, Max: 1, Width: -1, ResultOnly: c.ResultOnly}) {
			t.Errorf("confidence is %+v", c)
		}
	} else if c.Level != 95 && c.Level != 99 || !(c.Width >= 0 && c.Width <= maxPercent) || c.Min < 3 || c.Min > c.Max || c.Max > 30 {
		t.Errorf("confidence is %+v", c)
	}
	for _, side := range []struct {
		name                         string
		bind, priority, tos          int
		align, offset, dirty, socket SendRecv
		send, recv, port             int
		congestion                   string
		fill                         string
	}{
		{"local", n.Bind.Local, n.Priority.Local, n.TOS.Local, n.Align.Local, n.Offset.Local, n.Dirty.Local, n.Socket.Local,
			n.SendSize.Local, n.RecvSize.Local, n.DataPort.Local, n.Congestion.Local, ""},
		{"remote", n.Bind.Remote, n.Priority.Remote, n.TOS.Remote, n.Align.Remote, n.Offset.Remote, n.Dirty.Remote, n.Socket.Remote,
			n.SendSize.Remote, n.RecvSize.Remote, n.DataPort.Remote, n.Congestion.Remote, n.Fill.Remote},
	} {
		within(t, side.name+" CPU", side.bind, Unset, math.MaxInt32)
		within(t, side.name+" priority", side.priority, Unset, math.MaxInt32)
		within(t, side.name+" TOS", side.tos, Unset, 255)
		within(t, side.name+" send size", side.send, Unset, math.MaxInt32)
		within(t, side.name+" recv size", side.recv, Unset, math.MaxInt32)
		within(t, side.name+" data port", side.port, 0, 65535)
		withinPair(t, side.name+" alignment", side.align, 1)
		withinPair(t, side.name+" offset", side.offset, 0)
		withinPair(t, side.name+" dirty", side.dirty, Unset)
		withinPair(t, side.name+" socket", side.socket, Unset)
		if side.send == 0 || side.recv == 0 || len(side.congestion) > 15 || len(side.fill) > 31 {
			t.Errorf("%s: %+v", side.name, side)
		}
	}
	withinPair(t, "width", n.Width, 0)
	within(t, "CPUs", n.CPUs, 0, math.MaxInt32)
	within(t, "verbosity", n.Verbosity, math.MinInt32, math.MaxInt32)
	within(t, "request", n.Request, Unset, math.MaxInt32)
	within(t, "response", n.Response, Unset, math.MaxInt32)
	within(t, "burst", n.Data.Burst, 0, math.MaxInt32)
	within(t, "MSS", n.MSS, 0, math.MaxInt32)
	within(t, "pacing rate", n.PacingRate, 0, math.MaxInt64)
	within(t, "timeout", int64(n.Timeout), 0, int64(math.MaxInt32*time.Second))
	within(t, "TTL", n.TTL, 0, 255)
	if p := n.Ports; p != [2]int{} {
		within(t, "first port", p[0], 1, p[1])
		within(t, "last port", p[1], p[0], 65535)
	}
	within(t, "mask", n.DataTarget.Mask, 0, 128)
	within(t, "mask", n.DataSource.Mask, 0, 128)
	if n.Request == 0 || n.Response == 0 || n.Direction&^Both != 0 || len(n.Data.UUID) > 37 {
		t.Errorf("data: %+v", n.Data)
	}
	if n.Direction == Both && n.Known() && (n.Request == Unset || n.Response == Unset) {
		t.Errorf("both directions without sizes: %+v", n.Data)
	}
}

func checkNetserver(t *testing.T, n *Netserver) {
	t.Helper()
	within(t, "port", n.Port, 1, 65535)
	within(t, "verbosity", n.Verbosity, math.MinInt32, math.MaxInt32)
}

// FuzzParse parses any words, which are separated by NUL: nothing panics, and
// what comes back is numbers in range or an Exit that says something.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			f.Add(strings.Join(words, "\x00"))
		}
	}
	for _, s := range []string{"", "netperf\x00--\x00-p\x00,0", "netperf\x00--json=", "netperf\x00-w\x000.1us", "n\x00-D\x00-0.0000000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\x00")
		n, err := ParseNetperf(args)
		if checkExit(t, err) {
			checkNetperf(t, n)
		}
		server, err := ParseNetserver(args)
		if checkExit(t, err) {
			checkNetserver(t, server)
		}
	})
}

// checkExit reports whether there is no error, which otherwise must be an Exit.
func checkExit(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	exit, ok := err.(*Exit)
	if !ok || exit.Stdout+exit.Stderr == "" || exit.Status == 0 && exit.Stdout != Version {
		t.Errorf("%#v", err)
	}
	return false
}
