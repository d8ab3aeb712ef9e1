package wire_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gperf/netperf/wire"
)

// A codec is a pair of decoder and encoder, with the type taken out.
type codec struct {
	types  []int32 // of a request; the decoder refuses others
	parse  func(*wire.Message) (any, error)
	encode func(any) (wire.Message, error)
	// draw makes a value that can be encoded.
	draw func(*rapid.T) any
}

// codecs are all decoders and encoders, by what testdata calls the message.
var codecs = map[string]codec{
	"request OMNI":     newCodec(wire.ParseOmniRequest, func(r wire.OmniRequest) (wire.Message, error) { return r.Encode(wire.NoAffinity) }, fixRequest, wire.TypeOmni),
	"response OMNI":    newCodec(wire.ParseOmniResponse, wire.OmniResponse.Encode, nil),
	"results OMNI":     newCodec(parseResults(wire.Layout27), encodeResults(wire.Layout27), nil),
	"results OMNI 2.6": newCodec(parseResults(wire.Layout26), encodeResults(wire.Layout26), fixResults26),

	"request TCP_STREAM":  newCodec(wire.ParseStreamRequest, encodeStream, fixStream(wire.TypeTCPStream), wire.TypeTCPStream),
	"response TCP_STREAM": newCodec(wire.ParseStreamResponse, answer(wire.StreamResponse.Encode, wire.TypeTCPStream), nil),
	"results TCP_STREAM":  newCodec(wire.ParseStreamResults, answer(wire.StreamResults.Encode, wire.TypeTCPStream), nil),
	"request TCP_MAERTS":  newCodec(wire.ParseStreamRequest, encodeStream, fixStream(wire.TypeTCPMaerts), wire.TypeTCPMaerts),
	"response TCP_MAERTS": newCodec(wire.ParseStreamResponse, answer(wire.StreamResponse.Encode, wire.TypeTCPMaerts), nil),
	"results TCP_MAERTS":  newCodec(wire.ParseStreamResults, answer(wire.StreamResults.Encode, wire.TypeTCPMaerts), nil),

	"request TCP_RR":   transactionRequest(wire.TypeTCPRR),
	"response TCP_RR":  newCodec(wire.ParseTransactionResponse, answer(wire.TransactionResponse.Encode, wire.TypeTCPRR), nil),
	"results TCP_RR":   newCodec(wire.ParseTransactionResults, answer(wire.TransactionResults.Encode, wire.TypeTCPRR), nil),
	"request TCP_CRR":  transactionRequest(wire.TypeTCPCRR),
	"response TCP_CRR": newCodec(wire.ParseTransactionResponse, answer(wire.TransactionResponse.Encode, wire.TypeTCPCRR), nil),
	"results TCP_CRR":  newCodec(wire.ParseTransactionResults, answer(wire.TransactionResults.Encode, wire.TypeTCPCRR), nil),
	"request TCP_CC":   transactionRequest(wire.TypeTCPCC),
	"response TCP_CC":  newCodec(wire.ParseTransactionResponse, answer(wire.TransactionResponse.Encode, wire.TypeTCPCC), nil),
	"results TCP_CC":   newCodec(wire.ParseTransactionResults, answer(wire.TransactionResults.Encode, wire.TypeTCPCC), nil),
	"request UDP_RR":   transactionRequest(wire.TypeUDPRR),
	"response UDP_RR":  newCodec(wire.ParseTransactionResponse, answer(wire.TransactionResponse.Encode, wire.TypeUDPRR), nil),
	"results UDP_RR":   newCodec(wire.ParseTransactionResults, answer(wire.TransactionResults.Encode, wire.TypeUDPRR), nil),

	"request UDP_STREAM": newCodec(wire.ParseUDPStreamRequest, func(r wire.UDPStreamRequest) (wire.Message, error) {
		return r.Encode(wire.NoAffinity), nil
	}, nil, wire.TypeUDPStream),
	"response UDP_STREAM": newCodec(wire.ParseUDPStreamResponse, plain(wire.UDPStreamResponse.Encode), nil),
	"results UDP_STREAM":  newCodec(wire.ParseUDPStreamResults, plain(wire.UDPStreamResults.Encode), nil),

	"request CPU_CALIBRATE":  newCodec(parseBare, bare(wire.TypeCPUCalibrate), nil, wire.TypeCPUCalibrate),
	"response CPU_CALIBRATE": newCodec(wire.ParseCPUCalibration, plain(wire.CPUCalibration.Encode), nil),
	"request PASSPHRASE":     newCodec(parsePassphrase, encodePassphrase, nil, wire.TypePassphrase),
	"request SYSINFO":        newCodec(parseBare, bare(wire.TypeSysInfo), nil, wire.TypeSysInfo),
	"response SYSINFO":       newCodec(wire.ParseSysInfo, wire.SysInfo.Encode, nil),
}

func newCodec[T any](parse func(*wire.Message) (T, error), encode func(T) (wire.Message, error), fix func(*rapid.T, *T), types ...int32) codec {
	generator := rapid.MakeCustom[T](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{reflect.TypeFor[netip.Addr](): rapid.Just(netip.Addr{}).AsAny()},
		// Short enough for every field, and without "~" so that there is a
		// delimiter for SysInfo.
		Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: rapid.StringMatching("[ -}é-ÿ]{0,7}").AsAny()},
	})
	return codec{
		types:  types,
		parse:  func(m *wire.Message) (any, error) { return parse(m) },
		encode: func(v any) (wire.Message, error) { return encode(v.(T)) },
		draw: func(t *rapid.T) any {
			v := generator.Draw(t, "value")
			if fix != nil {
				fix(t, &v)
			}
			return v
		},
	}
}

func plain[T any](encode func(T) wire.Message) func(T) (wire.Message, error) {
	return func(v T) (wire.Message, error) { return encode(v), nil }
}

func answer[T any](encode func(T, int32) wire.Message, request int32) func(T) (wire.Message, error) {
	return func(v T) (wire.Message, error) { return encode(v, request), nil }
}

func parseResults(l wire.Layout) func(*wire.Message) (wire.OmniResults, error) {
	return func(m *wire.Message) (wire.OmniResults, error) { return wire.ParseOmniResults(m, l) }
}

func encodeResults(l wire.Layout) func(wire.OmniResults) (wire.Message, error) {
	return func(r wire.OmniResults) (wire.Message, error) { return r.Encode(l) }
}

func encodeStream(r wire.StreamRequest) (wire.Message, error) { return r.Encode(wire.NoAffinity) }

func transactionRequest(typ int32) codec {
	return newCodec(wire.ParseTransactionRequest,
		func(r wire.TransactionRequest) (wire.Message, error) { return r.Encode(wire.NoAffinity) },
		func(_ *rapid.T, r *wire.TransactionRequest) { r.Type = typ }, typ)
}

// A text is a message that is one string.
type text struct{ Passphrase string }

func parsePassphrase(m *wire.Message) (text, error) {
	s, err := wire.ParsePassphrase(m)
	return text{s}, err
}

func encodePassphrase(s text) (wire.Message, error) {
	return wire.EncodePassphrase(s.Passphrase, wire.NoAffinity)
}

// parseBare and bare are for requests with nothing in them.
func parseBare(m *wire.Message) (struct{}, error) { return struct{}{}, nil }

func bare(typ int32) func(struct{}) (wire.Message, error) {
	return func(struct{}) (wire.Message, error) { return wire.New(typ, wire.NoAffinity), nil }
}

func fixRequest(t *rapid.T, r *wire.OmniRequest) {
	r.IPFamily = rapid.SampledFrom([]wire.Family{0, 4, 6, 7}).Draw(t, "family")
	length := map[wire.Family]int{wire.FamilyIPv4: 4, wire.FamilyIPv6: 16}[r.IPFamily]
	for _, p := range []*netip.Addr{&r.NetperfIP, &r.NetserverIP} {
		a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, "addr"))
		if !a.IsUnspecified() {
			*p = a
		}
	}
}

func fixResults26(_ *rapid.T, r *wire.OmniResults) {
	r.CPUPercentUser, r.CPUPercentSystem, r.CPUPercentIowait, r.CPUPercentIRQ, r.CPUPercentSoftIRQ = 0, 0, 0, 0, 0
}

func fixStream(typ int32) func(*rapid.T, *wire.StreamRequest) {
	return func(_ *rapid.T, r *wire.StreamRequest) {
		r.Type = typ
		if typ == wire.TypeTCPMaerts {
			r.RecvAIO = 0
		}
	}
}

// same compares values as they are on the wire, where any NaN may be.
var same = cmp.Options{cmpopts.EquateNaNs(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}

// A captured message is one that netperf or netserver has sent, and the fields
// that are in it and aren't zero, read by other means than this package.
type captured struct {
	file string // and line
	kind string // a key of codecs
	m    wire.Message
	want map[string]string // by the names of netperf's fields
}

// captures reads testdata: per test run a file with the command line of the
// client (2.7.1, unless it says otherwise), and for each message that the ends
// exchanged a line with what it is, its bytes without the zeros at the end, and
// its fields, each after a tab.
func captures(t testing.TB) []captured {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures: ", err)
	}
	var all []captured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var kind string
		for i, line := range strings.Split(string(content), "\n") {
			name, value, _ := strings.Cut(strings.TrimPrefix(line, "\t"), " ")
			switch {
			case line == "" || line[0] == '#':
			case line[0] == '\t':
				all[len(all)-1].want[name] = value
			case kind == "":
				kind = line
			default:
				c := captured{fmt.Sprintf("%s:%d", file, i), kind, wire.Message{}, map[string]string{}}
				if n, err := hex.Decode(c.m[:], []byte(line)); err != nil || n > wire.Size {
					t.Fatal(c.file, err)
				}
				all = append(all, c)
				kind = ""
			}
		}
	}
	return all
}

// goNames are the fields that have another name here than in netperf.
var goNames = map[string][]string{
	"so_rcvavoid":        {"RecvAvoid"},
	"so_sndavoid":        {"SendAvoid"},
	"send_dirty_count":   {"SendDirty"},
	"recv_dirty_count":   {"RecvDirty"},
	"recv_clean_count":   {"RecvClean"},
	"interval_usecs":     {"IntervalMicros"},
	"cpu_frequency":      {"CPUMHz"},
	"elapsed_time":       {"ElapsedSeconds"},
	"cpu_util":           {"CPUPercent"},
	"cpu_percent_swintr": {"CPUPercentSoftIRQ"},
	"peak_cpu_util":      {"PeakCPUPercent"},
	"serv_dem":           {"ServiceDemand"},
	"data_port_number":   {"DataPort"},
	"messages_recvd":     {"MessagesReceived"},
	"bytes_received":     {"Bytes"},
	"bytes_sent":         {"Bytes"},
	"recv_calls":         {"Calls"},
	"send_calls":         {"Calls"},
	"receive_size":       {"MessageSize"},
	"send_size":          {"MessageSize"},
	"recv_alignment":     {"Alignment"},
	"send_alignment":     {"Alignment"},
	"recv_offset":        {"Offset"},
	"send_offset":        {"Offset"},
}

// goName returns the field of a struct that has netperf's name.
func goName(typ reflect.Type, name string) string {
	plain := strings.ReplaceAll(name, "_", "")
	for f := range typ.Fields() {
		if strings.EqualFold(f.Name, plain) {
			return f.Name
		}
	}
	for _, other := range goNames[name] {
		if _, ok := typ.FieldByName(other); ok {
			return other
		}
	}
	return "none for " + name
}

// show formats a field as testdata does.
func show(v any) string {
	switch v := v.(type) {
	case bool:
		return map[bool]string{true: "1", false: "0"}[v]
	case string:
		return fmt.Sprintf("%q", v)
	case float32:
		return strings.ToLower(fmt.Sprintf("%.7g", v))
	case float64:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprint(v)
	}
}

// fields returns the fields of a decoded message that aren't zero.
func fields(v any) map[string]string {
	got := map[string]string{}
	value := reflect.ValueOf(v)
	for f, field := range value.Fields() {
		if f.Name != "Type" && !field.IsZero() { // the type is of the header
			got[f.Name] = show(field.Interface())
		}
	}
	return got
}

// Every field of every captured message is what was read from it by other
// means, and requests are encoded to the very same bytes.
func TestCaptures(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range captures(t) {
		codec, ok := codecs[c.kind]
		if !ok {
			t.Errorf("%s: no codec for %q", c.file, c.kind)
			continue
		}
		seen[c.kind] = true
		got, err := codec.parse(&c.m)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		want := map[string]string{}
		for name, value := range c.want {
			want[goName(reflect.TypeOf(got), name)] = value
		}
		if s, ok := got.(wire.SysInfo); ok { // testdata has it in one piece
			delimiter := c.want["text"][1:2]
			want = map[string]string{"text": c.want["text"]}
			if diff := cmp.Diff(want, map[string]string{"text": show(delimiter + strings.Join([]string{s.Sysname, s.Release, s.Machine, s.Version}, delimiter))}); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.file, c.kind, diff)
			}
		} else if diff := cmp.Diff(want, fields(got)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", c.file, c.kind, diff)
		}

		again, err := codec.encode(got)
		if err != nil {
			// netserver 2.6 fills some fields to their last byte.
			if c.kind != "results OMNI 2.6" || err.Error() != "ifname: 16 bytes, at most 15 fit" {
				t.Errorf("%s: encode: %v", c.file, err)
			}
			continue
		}
		if request := codec.types != nil; request {
			copy(again[4:8], c.m[4:8]) // the affinity
			if diff := cmp.Diff(hex.Dump(c.m[:]), hex.Dump(again[:])); diff != "" {
				t.Errorf("%s: %s encoded (-want +got):\n%s", c.file, c.kind, diff)
			}
		} else if swapped := binary.LittleEndian.Uint32(c.m[:4]); again.Type() != c.m.Type() && uint32(again.Type()) != swapped {
			t.Errorf("%s: %s: encoded type is %d, captured %d", c.file, c.kind, again.Type(), c.m.Type())
		}
	}
	for kind := range codecs {
		if !seen[kind] {
			t.Errorf("no capture of a %s", kind)
		}
	}
}

// What is encoded is decoded to the same.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for kind, c := range codecs {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				want := c.draw(t)
				m, err := c.encode(want)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.parse(&m)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, same); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// FuzzDecoders gives any bytes to every decoder. None panics, and what one
// returns is decoded to the same after it was encoded, if it can be.
func FuzzDecoders(f *testing.F) {
	for _, c := range captures(f) {
		f.Add(c.m[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m wire.Message
		copy(m[:], b)
		for kind, c := range codecs {
			if c.types != nil {
				binary.BigEndian.PutUint32(m[:], uint32(c.types[0]))
			}
			want, err := c.parse(&m)
			remote, failed := errors.AsType[wire.RemoteError](err)
			if c.types != nil && err != nil || c.types == nil && failed != (m.Second() != 0) || int32(remote) != m.Second() && failed {
				t.Errorf("%s: serv_errno %d: %v", kind, m.Second(), err)
			}
			encoded, err := c.encode(want)
			if err != nil {
				if !strings.Contains(err.Error(), "fit") && !strings.Contains(err.Error(), "delimiter") {
					t.Errorf("%s: encode: %v", kind, err)
				}
				continue
			}
			got, err := c.parse(&encoded)
			if err != nil {
				t.Errorf("%s: again: %v", kind, err)
			}
			if want == got {
				continue // much faster, but NaNs differ
			}
			if diff := cmp.Diff(want, got, same); diff != "" {
				t.Errorf("%s (-first +second):\n%s", kind, diff)
			}
		}
	})
}

func TestHeader(t *testing.T) {
	t.Parallel()
	m := wire.New(wire.TypeSysInfo, -2)
	want := wire.Message{0, 0, 2, 0x58, 0xff, 0xff, 0xff, 0xfe}
	if m != want || m.Type() != 600 || m.Second() != -2 {
		t.Errorf("header % x, type %d, second %d", m[:8], m.Type(), m.Second())
	}
	r := wire.NewOmniRequest()
	m, err := r.Encode(3)
	if err != nil || m.Type() != wire.TypeOmni || m.Second() != 3 {
		t.Errorf("request: type %d, affinity %d, error %v", m.Type(), m.Second(), err)
	}
}

// NewOmniRequest has what a netperf client sends unasked.
func TestNewOmniRequest(t *testing.T) {
	t.Parallel()
	r := wire.NewOmniRequest()
	r.TestLength, r.Flags, r.SendWidth = 1, wire.FlagRoutingAllowed, 2
	r.IPFamily, r.SocketType, r.Protocol, r.Direction = wire.FamilyIPv4, wire.SocketStream, 6, wire.DirectionReceive
	got, err := r.Encode(wire.NoAffinity)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range captures(t) {
		if strings.HasPrefix(c.file, "testdata/tcp_stream.txt") && c.kind == "request OMNI" {
			if diff := cmp.Diff(hex.Dump(c.m[:]), hex.Dump(got[:])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("no capture to compare with")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		family wire.Family
		wire   string // bytes 120 to 136, without the zeros at the end
		want   string // "": none
		again  string // encoded
	}{
		{"IPv4", wire.FamilyIPv4, "c0000201", "192.0.2.1", "c0000201"},
		{"IPv4 and junk", wire.FamilyIPv4, "c0000201deadbeefdeadbeefdeadbeef", "192.0.2.1", "c0000201"},
		{"IPv4 wildcard", wire.FamilyIPv4, "", "", ""},
		{"IPv6", wire.FamilyIPv6, "b80d0120671245238ba0ef0401fecdab", "2001:db8:2345:1267:4ef:a08b:abcd:fe01", "b80d0120671245238ba0ef0401fecdab"},
		{"IPv6 loopback", wire.FamilyIPv6, "00000000000000000000000001000000", "::1", "00000000000000000000000001000000"},
		{"IPv6 wildcard", wire.FamilyIPv6, "", "", ""},
		{"IPv4 mapped", wire.FamilyIPv6, "0000000000000000ffff0000010200c0", "::ffff:192.0.2.1", "0000000000000000ffff0000010200c0"},
		{"no family", wire.FamilyUnspecified, "c0000201", "", ""},
		{"another family", wire.FamilyRDS, "c0000201", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := wire.New(wire.TypeOmni, wire.NoAffinity)
			binary.BigEndian.PutUint32(m[92:], uint32(tt.family))
			if _, err := hex.Decode(m[120:136], []byte(tt.wire)); err != nil {
				t.Fatal(err)
			}
			var want netip.Addr
			if tt.want != "" {
				want = netip.MustParseAddr(tt.want)
			}
			got, err := wire.ParseOmniRequest(&m)
			if err != nil || got.NetperfIP != want || got.NetserverIP.IsValid() {
				t.Errorf("netperf_ip %v, want %v; netserver_ip %v; error %v", got.NetperfIP, want, got.NetserverIP, err)
			}
			again, err := got.Encode(wire.NoAffinity)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(again[120:136]); got != tt.again+strings.Repeat("0", 32-len(tt.again)) {
				t.Errorf("encoded to %s, want %s", got, tt.again)
			}
		})
	}
}

// Junk behind a string and a string to the end of its field are read as in C.
func TestStrings(t *testing.T) {
	t.Parallel()
	m := wire.New(wire.TypeOmni, wire.NoAffinity)
	copy(m[160:], "cubic\x00junk")
	copy(m[176:], strings.Repeat("f", 32)+"not of the field")
	got, err := wire.ParseOmniRequest(&m)
	if err != nil {
		t.Fatal(err)
	}
	if got.CongControl != "cubic" || got.FillFile != strings.Repeat("f", 32) {
		t.Errorf("cong_control %q, fill_file %q", got.CongControl, got.FillFile)
	}
}

func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 648)
	loopback := netip.MustParseAddr("127.0.0.1")
	request := func(r wire.OmniRequest) error {
		_, err := r.Encode(wire.NoAffinity)
		return err
	}
	tests := []struct {
		name string
		err  error
		want string // "": none
	}{
		{"15 bytes of congestion control", request(wire.OmniRequest{CongControl: long[:15]}), ""},
		{"16 bytes of congestion control", request(wire.OmniRequest{CongControl: long[:16]}), "cong_control: 16 bytes, at most 15 fit"},
		{"32 bytes of fill file", request(wire.OmniRequest{FillFile: long[:32]}), "fill_file: 32 bytes, at most 31 fit"},
		{"the first of two errors", request(wire.OmniRequest{CongControl: long, FillFile: long}), "cong_control: 648 bytes, at most 15 fit"},
		{"a NUL", request(wire.OmniRequest{FillFile: "a\x00b"}), "fill_file: has a NUL in it"},
		{"IPv4 in IPv6", request(wire.OmniRequest{IPFamily: wire.FamilyIPv6, NetperfIP: loopback}), "netperf_ip: 127.0.0.1 isn't of the message's family 6"},
		{"IPv6 in IPv4", request(wire.OmniRequest{IPFamily: wire.FamilyIPv4, NetserverIP: netip.IPv6Loopback()}), "netserver_ip: ::1 isn't of the message's family 4"},
		{"an address without family", request(wire.OmniRequest{NetperfIP: loopback}), "netperf_ip: 127.0.0.1 isn't of the message's family 0"},
		{"647 bytes of passphrase", second(wire.EncodePassphrase(long[:647], 0)), ""},
		{"648 bytes of passphrase", second(wire.EncodePassphrase(long, 0)), "passphrase: 648 bytes, at most 647 fit"},
		{"a long sysinfo", second(wire.SysInfo{Version: long[:644]}.Encode()), "sysinfo: 648 bytes, at most 647 fit"},
		{"a delimiter in sysinfo", second(wire.SysInfo{Sysname: "a,b", Version: "c|d"}.Encode()), ""},
		{"all delimiters in sysinfo", second(wire.SysInfo{Sysname: ",|", Version: ";~"}.Encode()), "sysinfo: no delimiter is left: , | ; and ~ are all in it"},
		{"a stream of another type", second(wire.StreamRequest{Type: wire.TypeTCPRR}.Encode(0)), "message type is 13, want one of [10 94]"},
		{"transactions of no type", second(wire.TransactionRequest{}.Encode(0)), "message type is 0, want one of [13 34 19 300]"},
	}
	for _, tt := range tests {
		got := ""
		if tt.err != nil {
			got = tt.err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: error %q, want %q", tt.name, got, tt.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A request's decoder refuses other types, an answer's reports serv_errno.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for kind, c := range codecs {
		m := wire.New(-1, wire.ErrnoUnknownRequest)
		_, err := c.parse(&m)
		switch remote, ok := errors.AsType[wire.RemoteError](err); {
		case strings.HasSuffix(kind, "CPU_CALIBRATE") || kind == "request SYSINFO":
		case c.types != nil && (ok || err == nil):
			t.Errorf("%s: error %v of a request of type -1", kind, err)
		case c.types == nil && (int32(remote) != 998 || err.Error() != "remote error 998"):
			t.Errorf("%s: error %v of serv_errno 998", kind, err)
		}
	}
}

func TestSysInfo(t *testing.T) {
	t.Parallel()
	m, err := wire.DeprecatedSysInfo.Encode()
	if got := strings.TrimRight(string(m[8:]), "\x00"); err != nil || got != ",Deprecated,Deprecated,Deprecated,Deprecated" || m.Type() != 601 {
		t.Errorf("encoded to %q, type %d, error %v", got, m.Type(), err)
	}
	tests := []struct {
		text string
		want wire.SysInfo
	}{
		{"", wire.SysInfo{}},
		{"|", wire.SysInfo{}},
		{"|Linux", wire.SysInfo{Sysname: "Linux"}},
		{"|Linux|6.1|x86_64|#1 a|b", wire.SysInfo{Sysname: "Linux", Release: "6.1", Machine: "x86_64", Version: "#1 a|b"}},
		{"\xffa\xffb", wire.SysInfo{Sysname: "a", Release: "b"}},
	}
	for _, tt := range tests {
		m := wire.New(wire.TypeSysInfoResponse, 0)
		copy(m[8:], tt.text)
		got, err := wire.ParseSysInfo(&m)
		if err != nil || got != tt.want {
			t.Errorf("%q: got %+v, want %+v, error %v", tt.text, got, tt.want, err)
		}
	}
}
