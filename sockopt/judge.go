package sockopt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Verdict says what became of a request, in one word of the result document.
type Verdict string

const (
	// Auto: nothing was asked for; the value is only reported.
	Auto Verdict = "auto"
	// Exact: the kernel reports what was asked for.
	Exact Verdict = "exact"
	// Doubled: the kernel reports twice the request, as documented for buffers.
	Doubled Verdict = "doubled"
	// Adjusted: the kernel made a documented change (an MSS less TCP options).
	Adjusted Verdict = "adjusted"
	// Raised: the request was below the kernel's minimum.
	Raised Verdict = "raised"
	// Clamped: the request was above a limit, which the detail names.
	Clamped Verdict = "clamped"
	// NotHeld: the value was in force and has changed since.
	NotHeld Verdict = "not_held"
	// NoEffect: the value is stored but can't do anything here.
	NoEffect Verdict = "no_effect"
	// Ignored: the call succeeded and changed nothing.
	Ignored Verdict = "ignored"
	// Unsupported: this kernel doesn't have the option.
	Unsupported Verdict = "unsupported"
	// Unverified: the call succeeded and the value can't be read back.
	Unverified Verdict = "unverified"
)

// Refuses reports whether a verdict that is known before traffic forbids the
// test. allowClamp lets clamped and raised values pass.
func (v Verdict) Refuses(allowClamp bool) bool {
	switch v {
	case Clamped, Raised:
		return !allowClamp
	case NoEffect, Ignored, Unsupported:
		return true
	}
	return false
}

// A Readback is what the kernel reported of one knob on one socket. Values
// that are not known (yet) are unset.
type Readback struct {
	End       End
	Effective Value // after setting
	AtStart   Value // at the window's start
	AtEnd     Value // at the window's end
	NAPI      Value // SO_INCOMING_NAPI_ID at the end of the window, for busy-poll
	Err       error // why Effective can't be read; nil if it was
}

// last returns the newest known value.
func (r Readback) last() Value {
	switch {
	case r.AtEnd.IsSet():
		return r.AtEnd
	case r.AtStart.IsSet():
		return r.AtStart
	}
	return r.Effective
}

// Env is what a judgement has to know of the machine.
type Env struct {
	Kernel string            // release, as uname -r prints it
	Limits map[string]string // sysctls by dotted name; absent if unknown
	Force  bool              // buffers were set by SO_*BUFFORCE
}

// sysctls are those that judgements need.
var sysctls = []string{
	"net.core.rmem_max", "net.core.wmem_max", "net.core.somaxconn",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_fastopen",
}

// LocalEnv reads the kernel's release and the sysctls of the calling thread's
// network namespace.
func LocalEnv(o Options) Env {
	env := Env{Kernel: release(), Limits: make(map[string]string), Force: o.Force}
	for _, name := range sysctls {
		if v := sysctl(name); v != "" {
			env.Limits[name] = v
		}
	}
	return env
}

// limit returns field i of a sysctl; false if it isn't known.
func (e Env) limit(name string, i int) (int64, bool) {
	fields := strings.Fields(e.Limits[name])
	if i >= len(fields) {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[i], 10, 64)
	return n, err == nil
}

// Judge says what became of a request, and why in one line, from what the
// kernel reported. It is a pure function: the same arguments give the same
// verdict on any machine.
//
// The verdict first concerns the value right after setting. If that is in
// order and a later reading differs, the verdict is NotHeld, except for values
// that the kernel changes by design.
func Judge(k *Knob, requested Value, r Readback, env Env) (Verdict, string) {
	switch {
	case !requested.IsSet():
		return Auto, ""
	case r.Err != nil:
		// Some options can be set and not be read (SO_BUSY_POLL_BUDGET); of the
		// table's none is like that.
		if errors.Is(r.Err, ErrNotSupported) && !k.isGeneric() {
			return Unsupported, unsupportedDetail(k, env)
		}
		return Unverified, "can't be read back: " + r.Err.Error()
	}
	return k.judge(k.asked(r.End, requested), r, env)
}

func unsupportedDetail(k *Knob, env Env) string {
	s := k.Option + " is not supported by kernel " + env.Kernel
	if k.since != "" {
		s += "; needs Linux " + k.since + " or newer"
	}
	return s
}

// judge is a knob's own part of Judge: want is set, and the kernel did answer.
type judge func(want Value, r Readback, env Env) (Verdict, string)

// drifted reports whether the value changed after it was set.
func drifted(r Readback) (string, bool) {
	for _, later := range []struct {
		v    Value
		when string
	}{{r.AtStart, "start"}, {r.AtEnd, "end"}} {
		if later.v.IsSet() && later.v != r.Effective {
			return fmt.Sprintf("set as %s, read %s at the window's %s", r.Effective, later.v, later.when), true
		}
	}
	return "", false
}

// held turns a good verdict into NotHeld if the value changed later.
func held(v Verdict, detail string, r Readback) (Verdict, string) {
	if why, ok := drifted(r); ok {
		return NotHeld, why
	}
	return v, detail
}

func judgeExact(want Value, r Readback, _ Env) (Verdict, string) {
	if r.Effective != want {
		return Ignored, fmt.Sprintf("asked %s, the kernel reports %s", want, none(r.Effective))
	}
	return held(Exact, "", r)
}

// none prints a reading; unset is the kernel's "none".
func none(v Value) string {
	if !v.IsSet() {
		return "none"
	}
	return v.String()
}

// judgeDrifting is for values that the kernel changes by itself, even before
// the first reading.
func judgeDrifting(why string) judge {
	return func(want Value, r Readback, _ Env) (Verdict, string) {
		if r.Effective != want {
			return NotHeld, fmt.Sprintf("asked %s, read %s: %s", want, none(r.Effective), why)
		}
		v, detail := held(Exact, "", r)
		if v == NotHeld {
			detail += ": " + why
		}
		return v, detail
	}
}

// judgeBuffer compares with twice the request: a request that was cut to the
// limit and then doubled may well read more than was asked for.
func judgeBuffer(sysctl string) judge {
	return func(want Value, r Readback, env Env) (Verdict, string) {
		asked, _ := want.Int()
		got, _ := r.Effective.Int()
		detail := fmt.Sprintf("asked %d, twice that is %d, got %d", asked, 2*asked, got)
		switch limit, known := env.limit(sysctl, 0); {
		case got == 2*asked:
			return held(Doubled, "", r)
		case got > 2*asked:
			return Raised, "raised to the kernel's minimum: " + detail
		case env.Force:
			return Clamped, "clamped by the kernel's largest buffer: " + detail
		case known && asked > limit:
			return Clamped, fmt.Sprintf("clamped by %s=%d: %s", sysctl, limit, detail)
		default:
			return Clamped, "clamped: " + detail
		}
	}
}

// judgeMSS allows what the kernel documents: TCP options are taken off, and
// path, peer and window may lower the value or let it grow up to the request.
func judgeMSS(want Value, r Readback, _ Env) (Verdict, string) {
	asked, _ := want.Int()
	got, _ := r.last().Int()
	const maxTCPOptions = 40
	switch {
	case got > asked:
		return NoEffect, fmt.Sprintf("asked %d, the connection uses %d", asked, got)
	case got == asked:
		return Exact, ""
	case asked-got <= maxTCPOptions:
		return Adjusted, fmt.Sprintf("%d bytes less for TCP options", asked-got)
	}
	return Adjusted, fmt.Sprintf("lowered from %d to %d by the path, the peer or its window", asked, got)
}

// minWindowClamp is half of the smallest receive buffer, SOCK_MIN_RCVBUF, on
// 64-bit machines (Linux 6.18); it depends on the size of kernel structures.
const minWindowClamp = 1152

func judgeClamp(want Value, r Readback, env Env) (Verdict, string) {
	asked, _ := want.Int()
	got, _ := r.Effective.Int()
	if got > asked && got <= minWindowClamp {
		return Raised, fmt.Sprintf("raised to half the smallest receive buffer: asked %d, got %d", asked, got)
	}
	return judgeDrifting("the kernel moves the clamp with the receive buffer")(want, r, env)
}

func judgeTOS(want Value, r Readback, _ Env) (Verdict, string) {
	const ecn = 3 // the lower two bits, RFC 3168
	asked, _ := want.Int()
	if got, ok := r.Effective.Int(); ok && got != asked && got&^ecn == asked&^ecn {
		return held(Adjusted, fmt.Sprintf("asked %d, got %d: TCP keeps the two ECN bits for itself", asked, got), r)
	}
	return judgeExact(want, r, Env{})
}

func judgeBusyPoll(want Value, r Readback, env Env) (Verdict, string) {
	v, detail := judgeExact(want, r, env)
	// The id is only there once packets have come in.
	if v == Exact && want != Int(0) && r.AtEnd.IsSet() && r.NAPI == Int(0) {
		return NoEffect, "packets came without a NAPI id (loopback, veth): there is no queue to poll"
	}
	return v, detail
}

// judgeFastOpen knows that the option is accepted while the sysctl's bit for
// that end (tcp(7)) is off, and that somaxconn bounds the queue.
func judgeFastOpen(want Value, r Readback, env Env) (Verdict, string) {
	const sysctl = "net.ipv4.tcp_fastopen"
	bit := int64(1)
	if r.End == Server {
		bit = 2
	}
	asked, _ := want.Int()
	if mask, ok := env.limit(sysctl, 0); ok && asked > 0 && mask&bit == 0 {
		return NoEffect, fmt.Sprintf("%s=%d lacks bit %d, the %s's", sysctl, mask, bit, r.End)
	}
	if got, ok := r.Effective.Int(); ok && r.End == Server && got < asked {
		detail := fmt.Sprintf("asked %d, got %d", asked, got)
		if limit, ok := env.limit("net.core.somaxconn", 0); ok && limit == got {
			return Clamped, fmt.Sprintf("clamped by net.core.somaxconn=%d: %s", limit, detail)
		}
		return Clamped, "clamped: " + detail
	}
	return judgeExact(want, r, env)
}

func judgeMPTCP(want Value, r Readback, _ Env) (Verdict, string) {
	if r.last() == want {
		return Exact, ""
	}
	if want == Int(0) {
		return Ignored, "asked for TCP, the connection speaks MPTCP"
	}
	return NoEffect, "the connection fell back to TCP: the peer or the path doesn't speak MPTCP"
}

func judgeLowat(want Value, r Readback, env Env) (Verdict, string) {
	asked, _ := want.Int()
	got, _ := r.Effective.Int()
	if got >= asked {
		return judgeExact(want, r, env)
	}
	detail := fmt.Sprintf("asked %d, got %d", asked, got)
	if limit, ok := env.limit("net.ipv4.tcp_rmem", 2); ok && got == limit/2 {
		return Clamped, fmt.Sprintf("clamped by half of net.ipv4.tcp_rmem[2]=%d: %s", limit, detail)
	}
	return Clamped, "clamped by half of the receive buffer: " + detail
}

// judgeGeneric knows nothing of the option, but that a value which reads 0 was
// not taken and that another one was converted (TCP_DEFER_ACCEPT rounds up to
// retransmission times).
func judgeGeneric(want Value, r Readback, env Env) (Verdict, string) {
	if got, ok := r.Effective.Int(); ok && got != 0 && got != want.n {
		return held(Adjusted, fmt.Sprintf("asked %s, the kernel reports %d", want, got), r)
	}
	return judgeExact(want, r, env)
}
