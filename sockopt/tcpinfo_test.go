package sockopt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// compareWithXSys compares each field with the member of x/sys's structure
// that has its kernel name; x/sys lacks the bit-fields and the last two.
func compareWithXSys(t *testing.T, info TCPInfo, x unix.TCPInfo) {
	t.Helper()
	for _, f := range TCPFields() {
		name := strings.TrimPrefix(f.Kernel, "tcpi_")
		member := reflect.ValueOf(x).FieldByName(strings.ToUpper(name[:1]) + name[1:])
		if !member.IsValid() {
			switch f.Field {
			case SndWscale, RcvWscale, DeliveryRateAppLimited, FastopenClientFail, AccECNFailMode, AccECNOptSeen:
			default:
				t.Errorf("x/sys has no member for %s", f.Kernel)
			}
			continue
		}
		if got, ok := info.Get(f.Field); ok && got != member.Uint() {
			t.Errorf("%s = %d, x/sys has %d", f.Name, got, member.Uint())
		}
	}
}

// The units that a name may end in, and the words of counts.
var suffixes = map[string]string{
	"us": "_us", "ms": "_ms", "bytes": "_bytes", "bytes_per_second": "_bytes_per_second",
}

func TestTCPFields(t *testing.T) {
	seen := make(map[string]bool)
	end := 0
	for i, f := range TCPFields() {
		if int(f.Field) != i || f.Name == "" || f.Doc == "" || f.Since == "" || f.Field.Name() != f.Name {
			t.Errorf("field %d: %+v", i, f)
		}
		if seen[f.Name] || seen[f.Kernel] {
			t.Errorf("%s is there twice", f.Name)
		}
		seen[f.Name], seen[f.Kernel] = true, true
		if suffix := suffixes[f.Unit]; !strings.HasSuffix(f.Name, suffix) {
			t.Errorf("%s is in %s and should end in %s", f.Name, f.Unit, suffix)
		}
		if f.Unit == "segments" && !strings.Contains(f.Name, "segments") {
			t.Errorf("%s counts segments and doesn't say so", f.Name)
		}
		l := fields[i].layout
		if l.offset < end && l.bits == 0 || l.offset%l.size != 0 {
			t.Errorf("%s at %d overlaps or isn't aligned", f.Name, l.offset)
		}
		end = l.offset + l.size
	}
	if end != 280 {
		t.Errorf("the last field ends at %d; Linux 6.18 returns 280 bytes", end)
	}
}

// A field exists if all of it lies within the length that the kernel returned:
// here the lengths of the kernels that added fields.
func TestTCPInfoLength(t *testing.T) {
	for _, tt := range []struct {
		length      int
		last, first TCPField // the last field that is there, the first that isn't
	}{
		{104, TotalRetrans, PacingRate},
		{120, MaxPacingRate, BytesAcked},
		{136, BytesReceived, SegsOut},
		{160, DataSegsOut, DeliveryRate},
		{192, SndbufLimited, Delivered},
		{224, ReordSeen, RcvOoopack},
		{232, SndWnd, RcvWnd},
		{240, Rehash, TotalRTO},
		{243, TotalRTO, TotalRTORecoveries}, // half a field is none
		{248, TotalRTOTime, ReceivedCE},
	} {
		info := make(TCPInfo, tt.length)
		if _, ok := info.Get(tt.last); !ok {
			t.Errorf("%d bytes: %s is missing", tt.length, tt.last)
		}
		if v, ok := info.Get(tt.first); ok || v != 0 {
			t.Errorf("%d bytes: %s is there", tt.length, tt.first)
		}
	}
	for _, f := range []TCPField{-1, numTCPFields} {
		if _, ok := make(TCPInfo, TCPInfoSize).Get(f); ok {
			t.Errorf("field %d is there", f)
		}
	}
}

func TestTCPInfoGet(t *testing.T) {
	info := make(TCPInfo, 280)
	info[6] = 0x7a         // rcv_wscale 7, snd_wscale 10
	info[7] = 0b1111_1_101 // fastopen_client_fail 2, app_limited 1
	info[5] = 0xff
	binary.NativeEndian.PutUint32(info[68:], 1<<32-1)
	binary.NativeEndian.PutUint64(info[104:], 1<<64-1)
	binary.NativeEndian.PutUint16(info[240:], 1<<16-1)
	for f, want := range map[TCPField]uint64{
		SndWscale: 10, RcvWscale: 7, DeliveryRateAppLimited: 1, FastopenClientFail: 2, TCPOptions: 255,
		RTT: 1<<32 - 1, TotalRTO: 1<<16 - 1, MaxPacingRate: 0,
	} {
		if got, ok := info.Get(f); !ok || got != want {
			t.Errorf("%s = %d, %v; want %d", f, got, ok, want)
		}
	}
	// All ones mean no limit there, and nowhere else.
	if v, ok := info.Get(PacingRate); ok || v != 0 {
		t.Errorf("pacing_rate = %d, %v; want no limit", v, ok)
	}
}

func TestDelta(t *testing.T) {
	at := func(put func(TCPInfo)) TCPInfo {
		info := make(TCPInfo, 280)
		put(info)
		return info
	}
	segments := func(n uint32) TCPInfo { return at(func(i TCPInfo) { binary.NativeEndian.PutUint32(i[136:], n) }) }
	rtos := func(n uint16) TCPInfo { return at(func(i TCPInfo) { binary.NativeEndian.PutUint16(i[240:], n) }) }
	sent := func(n uint64) TCPInfo { return at(func(i TCPInfo) { binary.NativeEndian.PutUint64(i[200:], n) }) }
	for _, tt := range []struct {
		name       string
		start, end TCPInfo
		f          TCPField
		want       uint64
		ok         bool
	}{
		{"plain", segments(10), segments(25), SegsOut, 15, true},
		{"none", segments(10), segments(10), SegsOut, 0, true},
		{"32 bits wrap", segments(1<<32 - 5), segments(7), SegsOut, 12, true},
		{"16 bits wrap", rtos(1<<16 - 1), rtos(1), TotalRTO, 2, true},
		{"64 bits", sent(1 << 40), sent(1<<40 + 1), BytesSent, 1, true},
		{"not a counter", segments(1), segments(2), RTT, 0, false},
		{"too old a kernel", make(TCPInfo, 104), make(TCPInfo, 104), SegsOut, 0, false},
		{"one reading lost", nil, segments(2), SegsOut, 0, false},
		{"no field", segments(1), segments(2), numTCPFields, 0, false},
	} {
		if got, ok := Delta(tt.start, tt.end, tt.f); got != tt.want || ok != tt.ok {
			t.Errorf("%s: Delta = %d, %v; want %d, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestMarshalDoc(t *testing.T) {
	info := make(TCPInfo, 232)
	info[0] = 1
	binary.NativeEndian.PutUint64(info[112:], 1<<64-1)
	doc, err := info.MarshalDoc()
	must(t, err)
	for _, want := range []string{`{"state":1,"ca_state":0,`, `"rto_us":0,`, `"max_pacing_rate_bytes_per_second":null,`, `"snd_wnd_bytes":0,"rcv_wnd_bytes":null,`} {
		if !bytes.Contains(doc, []byte(want)) {
			t.Errorf("%s is not in %s", want, doc)
		}
	}
	var m map[string]*uint64
	must(t, json.Unmarshal(doc, &m))
	if len(m) != len(TCPFields()) {
		t.Errorf("%d keys for %d fields", len(m), len(TCPFields()))
	}
}

func FuzzTCPInfo(f *testing.F) {
	f.Add([]byte(nil), []byte(nil))
	f.Add(make([]byte, 104), bytes.Repeat([]byte{0xff}, 232))
	f.Add(bytes.Repeat([]byte{0xff}, 280), bytes.Repeat([]byte{1}, 512))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		start, end := TCPInfo(a), TCPInfo(b)
		doc, err := end.MarshalDoc()
		if err != nil || !json.Valid(doc) {
			t.Fatalf("%v: %s", err, doc)
		}
		for _, v := range end.Fields() {
			l := fields[v.Field].layout
			if v.Known && l.offset+l.size > len(b) {
				t.Errorf("%s is read beyond %d bytes", v.Field, len(b))
			}
			if l.width() < 64 && v.Value>>l.width() != 0 {
				t.Errorf("%s = %d has more than %d bits", v.Field, v.Value, l.width())
			}
			d, ok := Delta(start, end, v.Field)
			from, _ := start.Get(v.Field)
			if ok && l.width() < 64 && (from+d)&(1<<l.width()-1) != v.Value {
				t.Errorf("%s: %d + %d isn't %d", v.Field, from, d, v.Value)
			}
		}
	})
}
