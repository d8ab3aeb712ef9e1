package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gperf/plan"
	"gperf/sockopt"
)

// example returns a normalised plan of a type.
func example(typ plan.Type) *plan.Test {
	t := &plan.Test{Type: typ}
	t.Normalise()
	return t
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	got := new(plan.Test)
	got.Normalise()
	end := plan.End{SendSize: 128 << 10, ReceiveSize: 128 << 10, Send: plan.Write, Receive: plan.Read, Knobs: sockopt.Settings{}}
	want := &plan.Test{Type: plan.TCPStream, Duration: plan.Seconds(10 * time.Second), Streams: 1, Client: end, Server: end}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
	rr := &plan.Test{Type: plan.TCPRR, Transactions: 5}
	rr.Normalise()
	if rr.Duration != 0 || rr.RequestSize != 1 || rr.ResponseSize != 1 || rr.Burst != 1 {
		t.Errorf("request/response by count: %+v", rr)
	}
	for rate, size := range map[int64]int{1000: 1, 8e6: 1000, 1e12: 128 << 10} {
		p := &plan.Test{Client: plan.End{Rate: rate}}
		p.Normalise()
		if p.Client.SendSize != size || p.Server.SendSize != 128<<10 {
			t.Errorf("a millisecond of %d bit/s is a message of %d bytes, not %d", rate, p.Client.SendSize, size)
		}
	}
	for _, typ := range plan.Types() {
		once := example(typ)
		if err := once.Validate(); err != nil {
			t.Errorf("%s: the defaults are invalid: %v", typ, err)
		}
		twice := *once
		twice.Normalise()
		if d := cmp.Diff(once, &twice); d != "" {
			t.Errorf("%s: normalising again changes it (-want +got):\n%s", typ, d)
		}
		if typ.Doc() == "" || len(once.Directions()) == 0 {
			t.Errorf("%s has no documentation or no direction", typ)
		}
	}
}

// What the defaults of connection tests and of UDP are.
func TestNormaliseCarriers(t *testing.T) {
	t.Parallel()
	end := plan.End{SendSize: 128 << 10, ReceiveSize: 128 << 10, Send: plan.Write, Receive: plan.Read, Knobs: sockopt.Settings{}}
	sender, receiver := end, end
	sender.SendSize, receiver.ReceiveSize = 1400, plan.MaxDatagram
	const second = plan.Seconds(time.Second)
	for _, want := range []*plan.Test{
		{Type: plan.TCPCRR, Duration: 10 * second, Streams: 1, RequestSize: 1, ResponseSize: 1, Burst: 1, Client: end, Server: end},
		{Type: plan.TCPCC, Duration: 10 * second, Streams: 1, Burst: 1, Client: end, Server: end},
		{Type: plan.UDPStream, Duration: 10 * second, Streams: 1, Client: sender, Server: receiver},
		{Type: plan.UDPRR, Duration: 10 * second, Streams: 1, RequestSize: 1, ResponseSize: 1, Burst: 1, ResponseTimeout: second, Client: end, Server: end},
	} {
		got := &plan.Test{Type: want.Type}
		got.Normalise()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", want.Type, d)
		}
	}
	paced := &plan.Test{Type: plan.UDPStream, Client: plan.End{Rate: 1e9}}
	paced.Normalise()
	if paced.Client.SendSize != 1400 {
		t.Errorf("a paced datagram has %d bytes", paced.Client.SendSize)
	}
}

// What connection tests and UDP can't do is refused by name.
func TestValidateCarriers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		types  []plan.Type
		change func(*plan.Test)
		want   string // with %s for the type; empty: valid
	}{
		{"most streams", others, func(p *plan.Test) { p.Streams = 256 }, ""},
		{"too many streams", others, func(p *plan.Test) { p.Streams = 257 }, "streams: 257 are more than the 256 of %s, each of which has its thread"},
		{"threads of the client", others, func(p *plan.Test) { p.Client.Threads = 1 }, "threads: each stream of %s has its own"},
		{"threads of the server", others, func(p *plan.Test) { p.Server.Threads = 1 }, "threads: each stream of %s has its own"},
		{"both ways", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Bidir = true }, "bidir: %s goes one way"},
		{"both ways of transactions", []plan.Type{plan.TCPCRR, plan.TCPCC, plan.UDPRR}, func(p *plan.Test) { p.Bidir = true }, "bidir: %s goes both ways by itself"},
		{"verified", others, func(p *plan.Test) { p.Verify = true }, "verify: it checks TCP's bulk payload, not %s"},
		{"sender", others, func(p *plan.Test) { p.Client.Send = plan.Sendfile }, "client: send, receive: %s always writes and reads"},
		{"receiver", others, func(p *plan.Test) { p.Server.Receive = plan.Discard }, "server: send, receive: %s always writes and reads"},
		{"chunk", others, func(p *plan.Test) { p.Client.Chunk = 100 }, "client: chunk_bytes, more: %s sends each message whole and at once"},
		{"more", others, func(p *plan.Test) { p.Server.More = true }, "server: chunk_bytes, more: %s sends each message whole and at once"},
		{"rate of transactions", []plan.Type{plan.TCPCRR, plan.TCPCC, plan.UDPRR}, func(p *plan.Test) { p.Client.Rate = 1e6 }, "rate: it paces bulk senders, not %s"},
		{"rate", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Client.Rate = 1e6 }, ""},
		{"burst", []plan.Type{plan.TCPCRR, plan.TCPCC}, func(p *plan.Test) { p.Burst = 2 }, "burst: %s has one transaction at a time"},
		{"bytes", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Duration, p.Bytes = 0, 1000 }, "bytes: %s ends by time, since its last bytes may be lost"},
		{"bytes of transactions", []plan.Type{plan.TCPCRR, plan.TCPCC, plan.UDPRR}, func(p *plan.Test) { p.Duration, p.Bytes = 0, 1000 }, "bytes: %s counts transactions, not bytes"},
		{"transactions", []plan.Type{plan.TCPCRR, plan.TCPCC, plan.UDPRR}, func(p *plan.Test) { p.Duration, p.Transactions = 0, 1000 }, ""},
		{"request of none", []plan.Type{plan.TCPCC}, func(p *plan.Test) { p.RequestSize = 1 }, "request_size_bytes: 1 is not between 0 and 0"},
		{"response of none", []plan.Type{plan.TCPCC}, func(p *plan.Test) { p.ResponseSize = 1 }, "response_size_bytes: 1 is not between 0 and 0"},
		{"no request", []plan.Type{plan.TCPCRR, plan.UDPRR}, func(p *plan.Test) { p.RequestSize = 0 }, "request_size_bytes: 0 is not between 1 and "},
		{"largest request", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.RequestSize = plan.MaxDatagram }, ""},
		{"larger response", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.ResponseSize = plan.MaxDatagram + 1 }, "response_size_bytes: 65508 is not between 1 and 65507"},
		{"large response", []plan.Type{plan.TCPCRR}, func(p *plan.Test) { p.ResponseSize = 1 << 30 }, ""},
		{"smallest datagram", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Client.SendSize = 16 }, ""},
		{"smaller datagram", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Client.SendSize = 15 }, "client: send_size_bytes: a datagram of %s has 16 bytes at least, for its number and its time"},
		{"largest datagram", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Client.SendSize = plan.MaxDatagram }, ""},
		{"larger datagram", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Client.SendSize = plan.MaxDatagram + 1 }, "client: send_size_bytes: 65508 is more than a datagram holds, 65507"},
		{"fitting receive", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Server.ReceiveSize = 1400 }, ""},
		{"cutting receive", []plan.Type{plan.UDPStream}, func(p *plan.Test) { p.Server.ReceiveSize = 1399 }, "server: receive_size_bytes: 1399 would cut datagrams of 1400"},
		{"burst of single bytes", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.Burst, p.RequestSize = 64, 100 }, ""},
		{"larger burst of single bytes", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.Burst, p.RequestSize = 65, 100 }, "burst: with responses of so few bytes no more than 64 requests can be told apart"},
		{"burst of two bytes", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.Burst, p.RequestSize, p.ResponseSize = 4096, 2, 2 }, ""},
		{"larger burst of two bytes", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.Burst, p.RequestSize, p.ResponseSize = 4097, 2, 2 }, "burst: with responses of so few bytes no more than 4096 requests can be told apart"},
		{"no time-out", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.ResponseTimeout = 0 }, "response_timeout: %s needs one"},
		{"negative time-out", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.ResponseTimeout = -1 }, "response_timeout: -1ns is not between 0 and 720h0m0s"},
		{"absurd time-out", []plan.Type{plan.UDPRR}, func(p *plan.Test) { p.ResponseTimeout = plan.Seconds(plan.MaxDuration) + 1 }, "response_timeout: 720h0m0.000000001s is not between 0 and 720h0m0s"},
		{"time-out", []plan.Type{plan.TCPStream, plan.TCPRR, plan.TCPCRR, plan.TCPCC, plan.UDPStream}, func(p *plan.Test) { p.ResponseTimeout = 1 }, "response_timeout: %s loses no response"},
		{"TCP's knob", []plan.Type{plan.UDPStream, plan.UDPRR}, func(p *plan.Test) { p.Server.Knobs = sockopt.Settings{"nodelay": sockopt.Int(1)} }, "server: %s: nodelay: a UDP socket has no such option"},
		{"TCP's knob", []plan.Type{plan.TCPCRR, plan.TCPCC}, func(p *plan.Test) { p.Server.Knobs = sockopt.Settings{"nodelay": sockopt.Int(1)} }, ""},
		{"UDP's knob", others, func(p *plan.Test) {
			p.Client.Knobs = sockopt.Settings{"rcvbuf": sockopt.Int(4096), "tos": sockopt.Int(8)}
		}, ""},
	} {
		for _, typ := range tt.types {
			p := example(typ)
			tt.change(p)
			want := strings.ReplaceAll(tt.want, "%s", string(typ))
			switch err := p.Validate(); {
			case want == "" && err != nil:
				t.Errorf("%s of %s: %v", tt.name, typ, err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
				t.Errorf("%s of %s: error %v, want %q", tt.name, typ, err, want)
			}
		}
	}
}

// others are the types whose streams are no standing connection.
var others = []plan.Type{plan.TCPCRR, plan.TCPCC, plan.UDPStream, plan.UDPRR}

// The sizes that movers are best given, unless sizes are asked for; and what was
// said of pipes holds for the ends that have one.
func TestNormaliseMovers(t *testing.T) {
	t.Parallel()
	const usual, mib = 128 << 10, 1 << 20
	for _, tt := range []struct {
		name          string
		end           plan.End
		send, receive int
		pipe          int
		flags         string
	}{
		{"vmsplice", plan.End{Send: plan.Vmsplice}, usual, usual, 0, ""},
		{"a large pipe", plan.End{Send: plan.Vmsplice, PipeSize: mib}, mib, usual, mib, ""},
		{"a small pipe", plan.End{Receive: plan.Splice, PipeSize: 4096, SpliceFlags: "more"}, usual, usual, 4096, "more"},
		{"a large pipe to receive", plan.End{Receive: plan.Splice, PipeSize: mib}, usual, mib, mib, ""},
		{"sizes asked for", plan.End{Send: plan.Splice, Receive: plan.Splice, PipeSize: mib, SendSize: 7, ReceiveSize: 8}, 7, 8, mib, ""},
		{"discard", plan.End{Receive: plan.Discard}, usual, plan.DefaultDiscardSize, 0, ""},
		{"discard of a size", plan.End{Receive: plan.Discard, ReceiveSize: 9}, usual, 9, 0, ""},
		{"sendfile", plan.End{Send: plan.Sendfile, Receive: plan.Zerocopy}, usual, usual, 0, ""},
	} {
		p := &plan.Test{Client: tt.end, Server: plan.End{PipeSize: tt.end.PipeSize, SpliceFlags: tt.end.SpliceFlags}}
		p.Normalise()
		c := p.Client
		if c.SendSize != tt.send || c.ReceiveSize != tt.receive || c.PipeSize != tt.pipe || c.SpliceFlags != tt.flags {
			t.Errorf("%s: %+v", tt.name, c)
		}
		if s := p.Server; s.PipeSize != 0 || s.SpliceFlags != "" || s.Send != plan.Write || s.Receive != plan.Read {
			t.Errorf("%s: the server has no pipe: %+v", tt.name, s)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	p := &plan.Test{Client: plan.End{PipeSize: 4096}}
	p.Normalise()
	if p.Client.PipeSize == 0 {
		t.Error("a pipe's size without a pipe was forgotten, not refused")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const day = plan.Seconds(24 * time.Hour)
	tests := []struct {
		name   string
		typ    plan.Type
		change func(*plan.Test)
		want   string // in the error; empty: valid
	}{
		{"default", plan.TCPStream, func(*plan.Test) {}, ""},
		{"longest", plan.TCPStream, func(p *plan.Test) { p.Duration, p.Warmup = 30*day, 30*day }, ""},
		{"shortest interval", plan.TCPStream, func(p *plan.Test) { p.Interval = plan.Seconds(10 * time.Millisecond) }, ""},
		{"bytes", plan.TCPMaerts, func(p *plan.Test) { p.Duration, p.Bytes, p.Streams = 0, 3, 3 }, ""},
		{"transactions", plan.TCPRR, func(p *plan.Test) { p.Duration, p.Transactions = 0, 1001 }, ""},
		{"CPUs and knobs", plan.TCPRR, func(p *plan.Test) {
			p.Client.CPUs, p.Server.Knobs = []int{0, 1023}, sockopt.Settings{"rcvbuf": sockopt.Int(8192)}
		}, ""},
		{"threads and rate", plan.TCPMaerts, func(p *plan.Test) { p.Client.Threads, p.Server.Threads, p.Server.Rate = 1024, 1, 1000 }, ""},
		{"both ways", plan.TCPStream, func(p *plan.Test) { p.Bidir = true }, ""},

		{"no type", "", func(*plan.Test) {}, `unknown test ""`},
		{"unknown type", "SCTP_STREAM", func(*plan.Test) {}, `unknown test "SCTP_STREAM"`},
		{"lower case", "tcp_stream", func(*plan.Test) {}, `unknown test "tcp_stream"`},
		{"negative bytes", plan.TCPStream, func(p *plan.Test) { p.Bytes = -1 }, "bytes: -1"},
		{"negative transactions", plan.TCPRR, func(p *plan.Test) { p.Transactions = -1 }, "transactions: -1"},
		{"bytes of RR", plan.TCPRR, func(p *plan.Test) { p.Duration, p.Bytes = 0, 1 }, "bytes: TCP_RR"},
		{"transactions of a stream", plan.TCPStream, func(p *plan.Test) { p.Duration, p.Transactions = 0, 1 }, "transactions: TCP_STREAM"},
		{"time and count", plan.TCPStream, func(p *plan.Test) { p.Bytes = 1 }, "duration: "},
		{"warm-up and count", plan.TCPStream, func(p *plan.Test) { p.Duration, p.Warmup, p.Bytes = 0, 1, 1 }, "warmup: "},
		{"no end", plan.TCPStream, func(p *plan.Test) { p.Duration = 0 }, "duration: 0s"},
		{"negative duration", plan.TCPStream, func(p *plan.Test) { p.Duration = -1 }, "duration: -1ns"},
		{"too long", plan.TCPStream, func(p *plan.Test) { p.Duration = 30*day + 1 }, "duration: longer"},
		{"too long a warm-up", plan.TCPStream, func(p *plan.Test) { p.Warmup = 30*day + 1 }, "warmup: longer"},
		{"negative warm-up", plan.TCPStream, func(p *plan.Test) { p.Warmup = -1 }, "warmup: -1ns"},
		{"short interval", plan.TCPStream, func(p *plan.Test) { p.Interval = plan.Seconds(9 * time.Millisecond) }, "interval: 9ms"},
		{"negative interval", plan.TCPStream, func(p *plan.Test) { p.Interval = -1 }, "interval: -1ns"},
		{"too many samples", plan.TCPStream, func(p *plan.Test) { p.Duration, p.Interval = day, plan.Seconds(10*time.Millisecond) }, "interval: 8640000 samples"},
		{"no streams", plan.TCPStream, func(p *plan.Test) { p.Streams = 0 }, "streams: 0"},
		{"negative streams", plan.TCPStream, func(p *plan.Test) { p.Streams = -1 }, "streams: -1"},
		{"too many streams", plan.TCPStream, func(p *plan.Test) { p.Streams = 10001 }, "streams: 10001"},
		{"fewer bytes than streams", plan.TCPStream, func(p *plan.Test) { p.Duration, p.Bytes, p.Streams = 0, 2, 3 }, "bytes: 2 over 3 streams"},
		{"fewer transactions than streams", plan.TCPRR, func(p *plan.Test) { p.Duration, p.Transactions, p.Streams = 0, 2, 3 }, "transactions: 2 over 3 streams"},
		{"no request", plan.TCPRR, func(p *plan.Test) { p.RequestSize = 0 }, "request_size_bytes: 0"},
		{"huge request", plan.TCPRR, func(p *plan.Test) { p.RequestSize = 1<<30 + 1 }, "request_size_bytes: 1073741825"},
		{"no response", plan.TCPRR, func(p *plan.Test) { p.ResponseSize = -5 }, "response_size_bytes: -5"},
		{"no burst", plan.TCPRR, func(p *plan.Test) { p.Burst = 0 }, "burst: 0"},
		{"huge burst", plan.TCPRR, func(p *plan.Test) { p.Burst = 1<<20 + 1 }, "burst: 1048577"},
		{"request size of a stream", plan.TCPStream, func(p *plan.Test) { p.RequestSize = 1 }, "request size"},
		{"response size of a stream", plan.TCPStream, func(p *plan.Test) { p.ResponseSize = 1 }, "response size"},
		{"burst of a stream", plan.TCPStream, func(p *plan.Test) { p.Burst = 1 }, "burst"},
		{"no message", plan.TCPStream, func(p *plan.Test) { p.Client.SendSize = 0 }, "client: send_size_bytes: 0"},
		{"huge message", plan.TCPStream, func(p *plan.Test) { p.Server.SendSize = 1<<30 + 1 }, "server: send_size_bytes: 1073741825"},
		{"no receive size", plan.TCPStream, func(p *plan.Test) { p.Server.ReceiveSize = 0 }, "server: receive_size_bytes: 0"},
		{"unknown sender", plan.TCPStream, func(p *plan.Test) { p.Client.Send = "teleport" }, `client: send: unknown mover "teleport"`},
		{"a receiver to send", plan.TCPStream, func(p *plan.Test) { p.Client.Send = plan.Discard }, `client: send: unknown mover "discard"`},
		{"unknown receiver", plan.TCPStream, func(p *plan.Test) { p.Server.Receive = plan.Sendfile }, `server: receive: unknown mover "sendfile"`},
		{"no mover", plan.TCPStream, func(p *plan.Test) { p.Server.Send = "" }, `server: send: unknown mover ""`},
		{"sender of RR", plan.TCPRR, func(p *plan.Test) { p.Client.Send = plan.Splice }, "client: send, receive: TCP_RR always"},
		{"receiver of RR", plan.TCPRR, func(p *plan.Test) { p.Server.Receive = plan.Discard }, "server: send, receive: TCP_RR always"},
		{"verified RR", plan.TCPRR, func(p *plan.Test) { p.Verify = true }, "verify: "},
		{"verified discard", plan.TCPStream, func(p *plan.Test) { p.Verify, p.Server.Receive = true, plan.Discard }, "server: verify: receive discard"},
		{"verified splice", plan.TCPMaerts, func(p *plan.Test) { p.Verify, p.Client.Receive = true, plan.Splice }, "client: verify: receive splice"},
		{"verified, with a discard that receives nothing", plan.TCPStream, func(p *plan.Test) { p.Verify, p.Client.Receive = true, plan.Discard }, ""},
		{"verified both ways", plan.TCPStream, func(p *plan.Test) { p.Verify, p.Bidir, p.Client.Receive = true, true, plan.Discard }, "client: verify"},
		{"verified zerocopy", plan.TCPStream, func(p *plan.Test) { p.Verify, p.Server.Receive = true, plan.Zerocopy }, ""},
		{"pipe size without a pipe", plan.TCPStream, func(p *plan.Test) { p.Client.PipeSize = 4096 }, "client: pipe_size_bytes"},
		{"splice flags without a pipe", plan.TCPStream, func(p *plan.Test) { p.Server.SpliceFlags = "more" }, "server: pipe_size_bytes, splice_flags"},
		{"unknown splice flag", plan.TCPStream, func(p *plan.Test) { p.Client.Send, p.Client.SpliceFlags = plan.Splice, "gift" }, "client: splice_flags"},
		{"negative pipe", plan.TCPStream, func(p *plan.Test) { p.Client.Send, p.Client.PipeSize = plan.Splice, -1 }, "client: pipe_size_bytes: -1"},
		{"absurd pipe", plan.TCPStream, func(p *plan.Test) { p.Client.Send, p.Client.PipeSize = plan.Splice, plan.MaxPipeSize+1 }, "client: pipe_size_bytes"},
		{"negative chunk", plan.TCPStream, func(p *plan.Test) { p.Client.Chunk = -1 }, "client: chunk_bytes: -1"},
		{"more by sendfile", plan.TCPStream, func(p *plan.Test) { p.Client.Send, p.Client.More = plan.Sendfile, true }, "client: more"},
		{"negative CPU", plan.TCPStream, func(p *plan.Test) { p.Client.CPUs = []int{0, -1} }, "client: cpus: -1"},
		{"CPU beyond the mask", plan.TCPStream, func(p *plan.Test) { p.Server.CPUs = []int{1024} }, "server: cpus: 1024"},
		{"negative threads", plan.TCPRR, func(p *plan.Test) { p.Client.Threads = -1 }, "client: threads: -1"},
		{"too many threads", plan.TCPRR, func(p *plan.Test) { p.Server.Threads = 1025 }, "server: threads: 1025"},
		{"slow rate", plan.TCPStream, func(p *plan.Test) { p.Client.Rate = 999 }, "client: rate: 999"},
		{"negative rate", plan.TCPStream, func(p *plan.Test) { p.Server.Rate = -1 }, "server: rate: -1"},
		{"absurd rate", plan.TCPStream, func(p *plan.Test) { p.Client.Rate = 1<<50 + 1 }, "client: rate: 1125899906842625"},
		{"rate of RR", plan.TCPRR, func(p *plan.Test) { p.Server.Rate = 1e6 }, "rate: "},
		{"both ways of RR", plan.TCPRR, func(p *plan.Test) { p.Bidir = true }, "bidir: TCP_RR"},
		{"too many samples both ways", plan.TCPStream, func(p *plan.Test) {
			p.Bidir, p.Duration, p.Interval = true, day/3, plan.Seconds(10*time.Millisecond)
		}, "interval: "},
		{"unknown knob", plan.TCPStream, func(p *plan.Test) { p.Server.Knobs = sockopt.Settings{"turbo": sockopt.Int(1)} }, `server: `},
		{"knob by another spelling", plan.TCPStream, func(p *plan.Test) { p.Client.Knobs = sockopt.Settings{"notsent-lowat": sockopt.Int(1)} }, "notsent-lowat"},
		{"knob's value", plan.TCPStream, func(p *plan.Test) { p.Client.Knobs = sockopt.Settings{"rcvbuf": sockopt.Int(-1)} }, "client: rcvbuf"},
	}
	for _, tt := range tests {
		p := example(tt.typ)
		p.Type = tt.typ // Normalise gives an empty one the default
		tt.change(p)
		switch err := p.Validate(); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(example(plan.TCPRR))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Parse(good); err != nil {
		t.Fatalf("the example itself: %v", err)
	}
	tests := []struct{ name, old, new, want string }{
		{"an unknown field", `{"test"`, `{"turbo":true,"test"`, `"turbo"`},
		{"an unknown field of an end", `"send_size_bytes"`, `"nagle":1,"send_size_bytes"`, `"nagle"`},
		{"an unknown knob", `"knobs":{}`, `"knobs":{"warp":9}`, "warp"},
		{"an unknown test", `TCP_RR`, `TCP_WARP`, `"TCP_WARP"`},
		{"a wrong type", `"streams":1`, `"streams":"1"`, "streams"},
		{"a fraction", `"streams":1`, `"streams":1.5`, "streams"},
		{"a number out of range", `"bytes":0`, `"bytes":1e30`, "bytes"},
		{"an endless duration", `"duration_seconds":10`, `"duration_seconds":1e300`, "1e+300 seconds"},
		{"a duration as text", `"duration_seconds":10`, `"duration_seconds":"10s"`, "string"},
		{"an invalid plan", `"streams":1`, `"streams":0`, "streams"},
		{"not JSON", `{"test"`, `["test"`, "plan: "},
		{"something after it", `}}`, `}} {"streams":2}`, "after"},
		{"a bracket after it", `}}`, `}}]`, "after"},
	}
	for _, tt := range tests {
		i := strings.LastIndex(string(good), tt.old)
		if i < 0 {
			t.Fatalf("%s: %s isn't in %s", tt.name, tt.old, good)
		}
		bad := string(good[:i]) + tt.new + string(good[i+len(tt.old):])
		if _, err := plan.Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
	for _, s := range []string{"", "null", "{}", "7", `"TCP_RR"`, string(good[:len(good)-1])} {
		if _, err := plan.Parse([]byte(s)); err == nil {
			t.Errorf("Parse(%q) accepts it", s)
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		d              plan.Direction
		client, server plan.Role
	}{
		{plan.ClientToServer, plan.Sender, plan.Receiver},
		{plan.ServerToClient, plan.Receiver, plan.Sender},
		{plan.Both, plan.Requester, plan.Responder},
	}
	for _, tt := range tests {
		if c, s := tt.d.Role(sockopt.Client), tt.d.Role(sockopt.Server); c != tt.client || s != tt.server {
			t.Errorf("%s: client %s, server %s; want %s, %s", tt.d, c, s, tt.client, tt.server)
		}
		if tt.client.Measures() == tt.server.Measures() {
			t.Errorf("%s: not exactly one end measures", tt.d)
		}
	}
}

func TestDirections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		typ   plan.Type
		bidir bool
		want  []plan.Direction
	}{
		{plan.TCPStream, false, []plan.Direction{plan.ClientToServer}},
		{plan.TCPMaerts, false, []plan.Direction{plan.ServerToClient}},
		{plan.TCPRR, false, []plan.Direction{plan.Both}},
		{plan.TCPStream, true, []plan.Direction{plan.ClientToServer, plan.ServerToClient}},
		{plan.TCPMaerts, true, []plan.Direction{plan.ClientToServer, plan.ServerToClient}},
	} {
		p := &plan.Test{Type: tt.typ, Bidir: tt.bidir}
		if d := cmp.Diff(tt.want, p.Directions()); d != "" {
			t.Errorf("%s, bidir %v (-want +got):\n%s", tt.typ, tt.bidir, d)
		}
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	p := example(plan.TCPStream)
	if p.End(sockopt.Client) != &p.Client || p.End(sockopt.Server) != &p.Server {
		t.Error("End returns the wrong end")
	}
}

func TestSecondsJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		json string
		want time.Duration
	}{{"null", 0}, {"0", 0}, {"10", 10 * time.Second}, {"0.01", 10 * time.Millisecond}, {"1e-9", 1}, {"2592000", plan.MaxDuration}, {"-1", -time.Second}}
	for _, tt := range tests {
		got := plan.Seconds(1)
		if err := json.Unmarshal([]byte(tt.json), &got); err != nil || got != plan.Seconds(tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.json, time.Duration(got), err, tt.want)
		}
	}
	for _, bad := range []string{"2592000.1", "-2592000.1", "1e300", `"1"`, "true", "[]"} {
		var s plan.Seconds
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s is accepted as %v", bad, time.Duration(s))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(plan.MaxDuration)
		want := plan.Seconds(rapid.Int64Range(-limit, limit).Draw(t, "ns"))
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got plan.Seconds
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Fatalf("%d ns is %s in JSON, read as %d ns, %v", want, b, got, err)
		}
	})
}

func TestLimitSplitsExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := plan.Test{Streams: rapid.IntRange(1, plan.MaxStreams).Draw(t, "streams")}
		total := rapid.Int64Range(int64(p.Streams), 1<<62).Draw(t, "total")
		if rapid.Bool().Draw(t, "transactions") {
			p.Transactions = total
		} else {
			p.Bytes = total
		}
		sum, last := int64(0), p.Limit(0)
		for i := range p.Streams {
			n := p.Limit(i)
			if n < 1 || n > last || n < p.Limit(0)-1 {
				t.Fatalf("stream %d of %d gets %d, the first %d, the one before %d", i, p.Streams, n, p.Limit(0), last)
			}
			sum, last = sum+n, n
		}
		if sum != total {
			t.Fatalf("the parts of %d add up to %d", total, sum)
		}
	})
	if p := (plan.Test{Streams: 4}); p.Limit(3) != 0 || p.Limited() {
		t.Error("a test by time has a limit")
	}
}

func TestParsePair(t *testing.T) {
	t.Parallel()
	parse := func(s string) (string, error) {
		if s == "bad" {
			return "", errors.New("bad value")
		}
		return s, nil
	}
	tests := []struct {
		in, client, server string
		ok                 bool
	}{
		{"8K", "8K", "8K", true},
		{"1:2", "1", "2", true},
		{":2", "", "2", true},
		{"1:", "1", "", true},
		{"", "", "", false},
		{":", "", "", false},
		{"1:2:3", "", "", false},
		{"::", "", "", false},
		{"bad", "", "", false},
		{"1:bad", "1", "", false},
		{"bad:2", "", "", false},
	}
	for _, tt := range tests {
		client, server, err := plan.ParsePair(tt.in, parse)
		if (err == nil) != tt.ok || client != tt.client || server != tt.server {
			t.Errorf("ParsePair(%q) = %q, %q, %v; want %q, %q, ok %v", tt.in, client, server, err, tt.client, tt.server, tt.ok)
		}
	}
}

// Whatever Parse accepts is valid, and survives the way to the other end.
func FuzzPlan(f *testing.F) {
	for _, typ := range plan.Types() {
		for _, p := range []*plan.Test{example(typ), {
			Type: typ, Duration: plan.Seconds(time.Second), Warmup: 1, Interval: plan.Seconds(50 * time.Millisecond), Streams: 3, LiveStreams: true,
			Client: plan.End{CPUs: []int{0, 2}, Knobs: sockopt.Settings{"sndbuf": sockopt.Int(8192), "congestion": sockopt.Str("reno")}},
			Server: plan.End{SendSize: 256, Knobs: sockopt.Settings{"6/1": sockopt.Int(1)}},
		}} {
			p.Normalise()
			b, err := json.Marshal(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte(`{"test":"TCP_RR","bytes":-9223372036854775808}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := plan.Parse(b)
		if err != nil {
			return
		}
		if err := first.Validate(); err != nil {
			t.Fatalf("Parse accepts what Validate refuses: %v", err)
		}
		for i := range min(first.Streams, 8) {
			if first.Limited() != (first.Limit(i) > 0) {
				t.Fatalf("stream %d: limit %d", i, first.Limit(i))
			}
		}
		again, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := plan.Parse(again)
		if err != nil {
			t.Fatalf("%s\nis refused when sent on: %v", again, err)
		}
		if d := cmp.Diff(first, second); d != "" {
			t.Fatalf("changed on the way (-sent +read):\n%s", d)
		}
	})
}
