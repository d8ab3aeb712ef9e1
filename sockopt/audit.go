package sockopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Row of the audit says of one knob at one end what was asked for and what
// the kernel reported, as the result document has it.
type Row struct {
	End       string  `json:"end"`
	Stream    *int    `json:"stream"`    // null: the same on every stream
	Knob      string  `json:"knob"`      // key
	Requested Value   `json:"requested"` // null: nothing was asked for
	Effective Value   `json:"effective"` // after setting; null: unknown or none
	AtStart   Value   `json:"at_start"`  // at the window's start
	AtEnd     Value   `json:"at_end"`    // at the window's end
	Verdict   Verdict `json:"verdict"`
	Detail    string  `json:"detail,omitempty"` // why, in words
}

// StreamReadings are the readings of one connection of a test. Those that have
// not been taken are nil.
type StreamReadings struct {
	Stream    int      // number of the stream
	Listener  Readings // of the listener it came from; nil on a client
	Effective Readings // after setting
	AtStart   Readings // at the window's start
	AtEnd     Readings // at the window's end
}

// errNotRead stands for a reading that should have been taken.
var errNotRead = errors.New("not read")

// Audit judges each knob of one end on each stream. The rows come in the order
// of the table. A knob whose rows are equal on all streams gets one row with
// Stream nil; otherwise there is one for each stream.
func Audit(end End, s Settings, env Env, streams []StreamReadings) []Row {
	var rows []Row
	for _, k := range s.reported() {
		perStream := make([]Row, 0, len(streams))
		for _, sr := range streams {
			row, ok := judgeStream(k, end, s[k.Key()], env, sr)
			if ok {
				perStream = append(perStream, row)
			}
		}
		rows = append(rows, MergeRows(perStream, len(streams))...)
	}
	return rows
}

// judgeStream makes the row of one knob on one stream. There is none for a
// knob that nobody asked for and that this socket doesn't have.
func judgeStream(k *Knob, end End, requested Value, env Env, sr StreamReadings) (Row, bool) {
	key := k.Key()
	effective, ok := sr.Effective[key]
	if k.livesOnListener(end) {
		effective, ok = sr.Listener[key]
	}
	if !ok {
		effective.Err = errNotRead
	}
	if !requested.IsSet() && effective.Err != nil {
		return Row{}, false
	}
	r := Readback{
		End:       end,
		Effective: effective.Value,
		AtStart:   sr.AtStart[key].Value,
		AtEnd:     sr.AtEnd[key].Value,
		NAPI:      sr.AtEnd[napiID].Value,
		Err:       effective.Err,
	}
	verdict, detail := Judge(k, requested, r, env)
	stream := sr.Stream
	return Row{
		End: end.String(), Stream: &stream, Knob: key,
		Requested: k.asked(end, requested), Effective: r.Effective, AtStart: r.AtStart, AtEnd: r.AtEnd,
		Verdict: verdict, Detail: detail,
	}, true
}

// MergeRows makes one row of rows of one knob that differ in the stream only, if
// they stand for all streams.
func MergeRows(rows []Row, streams int) []Row {
	if len(rows) == 0 || len(rows) != streams {
		return rows
	}
	merged := rows[0]
	merged.Stream = nil
	same := func(r Row) bool {
		r.Stream = nil
		return r == merged
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return !same(r) }) {
		return []Row{merged}
	}
	return rows
}

// Why is the row's verdict in words, with the detail if there is one.
func (r Row) Why() string {
	word := strings.ReplaceAll(string(r.Verdict), "_", " ")
	switch {
	case r.Detail == "":
		return word
	case strings.HasPrefix(r.Detail, word):
		return r.Detail
	}
	return word + ": " + r.Detail
}

// JudgePipe judges the size of a pipe, which isn't a socket's but is audited like
// one: the kernel rounds it up to a power of two pages (F_SETPIPE_SZ, fcntl(2)).
// (A size above a limit doesn't come so far: it's an error.)
func JudgePipe(r Row) (Verdict, string) {
	asked, ok := r.Requested.Int()
	got, known := r.Effective.Int()
	switch {
	case !ok:
		return Auto, ""
	case !known:
		return Unverified, "the pipe's size could not be read"
	case r.AtStart.IsSet() && r.AtStart != r.Effective, r.AtEnd.IsSet() && r.AtEnd != r.Effective:
		return NotHeld, "the pipe's size changed during the test"
	case got == asked:
		return Exact, ""
	case got > asked:
		return Adjusted, fmt.Sprintf("rounded up to a power of two pages: asked %d, got %d", asked, got)
	}
	return Clamped, fmt.Sprintf("asked %d, got %d", asked, got)
}

// Refused returns an error that names the first row whose verdict forbids the
// test, or nil.
func Refused(rows []Row, allowClamp bool) error {
	for _, r := range rows {
		if !r.Verdict.Refuses(allowClamp) {
			continue
		}
		return fmt.Errorf("%s: %s=%s: %s", r.End, r.Knob, r.Requested, r.Why())
	}
	return nil
}

// Check tries the settings of one end on a scratch socket of that family
// (AF_INET or AF_INET6) in the calling thread's network namespace. It returns
// the rows of the set knobs, as far as an unconnected socket can tell, and an
// error if the settings aren't valid or a call fails. Both ends can so refuse
// a plan before any traffic; see also [Refused].
func Check(end End, family int, s Settings, o Options) ([]Row, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	fd, err := scratch(family, s.Protocol())
	if err != nil {
		return nil, err
	}
	defer discard(fd)
	for _, at := range []Moment{BeforeListen, BeforeConnect, AfterAccept, AfterPreamble} {
		if err := s.Apply(fd, end, at, o); err != nil {
			return nil, err
		}
	}
	rows := Audit(end, s, LocalEnv(o), []StreamReadings{{
		Listener: s.ReadListener(fd), Effective: s.Read(fd, end),
	}})
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Verdict == Auto }), nil
}

// scratch makes a stream socket to try options on.
func scratch(family, protocol int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
	if err == nil {
		return fd, nil
	}
	e := &Error{Op: "socket", Option: "IPPROTO_TCP", Err: err}
	if protocol == unix.IPPROTO_MPTCP {
		e.Option = "IPPROTO_MPTCP"
		switch {
		case errors.Is(err, unix.ENOPROTOOPT): // built in and switched off
			e.Hint = "net.mptcp.enabled=" + sysctl("net.mptcp.enabled")
		case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL): // from 5.6; before
			e.missing = true
			e.Hint = "not supported by kernel " + release() + "; needs Linux 5.6 or newer"
		}
	}
	return -1, e
}

// discard closes a scratch socket, on which there is nothing to lose.
func discard(fd int) { _ = unix.Close(fd) }
