package sockopt

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Settings are the knobs of one end: canonical key ([Knob.Key], "LEVEL/NAME"
// for generic ones) to value. An unset value is the same as no entry.
type Settings map[string]Value

// Options change how settings are applied.
type Options struct {
	// Force sets buffers with SO_SNDBUFFORCE and SO_RCVBUFFORCE, which pass
	// the limits of net.core.wmem_max and rmem_max. They need CAP_NET_ADMIN.
	Force bool
}

// Validate reports the first key, in alphabetical order, that is no knob or
// whose value the knob can't take. It accepts canonical keys only, so that two
// spellings can't ask for one option twice.
func (s Settings) Validate() error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		k, err := Lookup(key)
		if err != nil {
			return err
		}
		if key != k.Key() {
			return fmt.Errorf("knob %q is called %q here", key, k.Key())
		}
		if err := k.check(s[key]); err != nil {
			return err
		}
	}
	return nil
}

// NeedsListener reports whether a set knob must precede listen(2) or is an
// argument of socket(2), so that a server needs a listener of this test's own.
func (s Settings) NeedsListener() bool {
	for _, k := range s.knobs() {
		if k.When == Handshake || k.When == Socket && s[k.Key()] != Int(0) {
			return true
		}
	}
	return false
}

// Protocol returns the protocol argument for socket(2): IPPROTO_MPTCP if mptcp
// is on, else 0.
func (s Settings) Protocol() int {
	if s["mptcp"] == Int(1) {
		return unix.IPPROTO_MPTCP
	}
	return 0
}

// CheckDatagram reports the first set knob, in alphabetical order, that a UDP
// socket doesn't have: those of TCP, and those of connections.
func (s Settings) CheckDatagram() error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if k, err := Lookup(key); err == nil && s[key].IsSet() && !k.onDatagrams() {
			return fmt.Errorf("%s: a UDP socket has no such option", k.Name)
		}
	}
	return nil
}

// Apply sets on fd what is due for that end at that moment: one setsockopt for
// each set knob, in the order of the table, and nothing else. At BeforeListen
// and BeforeConnect fd must not be bound yet. It stops at the first failure;
// the error is an [*Error], or Validate's.
func (s Settings) Apply(fd int, end End, at Moment, o Options) error {
	if err := s.Validate(); err != nil {
		return err
	}
	for _, k := range s.knobs() {
		if !k.When.due(end, at) {
			continue
		}
		if err := k.set(fd, end, s[k.Key()], o); err != nil {
			return err
		}
	}
	return nil
}

// knobs returns the set knobs in the order in which they are set; keys that
// are no knobs are left out.
func (s Settings) knobs() []*Knob {
	var knobs []*Knob
	for key, v := range s {
		if k, err := Lookup(key); err == nil && v.IsSet() {
			knobs = append(knobs, k)
		}
	}
	slices.SortFunc(knobs, compare)
	return knobs
}

// reported returns the knobs that a result reports: those that are set and
// those that are always read.
func (s Settings) reported() []*Knob {
	knobs := s.knobs()
	for _, k := range table {
		if k.always && !s[k.Key()].IsSet() {
			knobs = append(knobs, k)
		}
	}
	slices.SortFunc(knobs, compare)
	return knobs
}

// A Reading is what getsockopt said of one option.
type Reading struct {
	Value Value // unset if unreadable, or if the kernel says "none"
	Err   error // why it can't be read; nil if it was
}

// Readings are the readings of one socket at one moment, by knob key. Beside
// knobs they may hold facts that judgements need.
type Readings map[string]Reading

// napiID is the key of SO_INCOMING_NAPI_ID, read along with busy-poll.
const napiID = "incoming_napi_id"

var napi = &Knob{opt: option{"SO_INCOMING_NAPI_ID", unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID}, codec: codecUint32}

// Read asks the kernel for every set knob and for those that are always
// reported: sndbuf, rcvbuf, nodelay, mss and congestion. On a server's
// connection it leaves out what only the listener knows; read that from the
// listener with ReadListener.
func (s Settings) Read(fd int, end End) Readings {
	r := make(Readings)
	for _, k := range s.reported() {
		if k.livesOnListener(end) {
			continue
		}
		v, err := k.get(fd, end)
		r[k.Key()] = Reading{Value: v, Err: err}
	}
	if s["busy_poll"].IsSet() {
		v, err := napi.get(fd, end)
		r[napiID] = Reading{Value: v, Err: err}
	}
	return r
}

// ReadListener asks a server's listener for those set knobs which accepted
// sockets don't have, such as the length of the Fast Open queue.
func (s Settings) ReadListener(fd int) Readings {
	r := make(Readings)
	for _, k := range s.knobs() {
		if k.livesOnListener(Server) {
			v, err := k.get(fd, Server)
			r[k.Key()] = Reading{Value: v, Err: err}
		}
	}
	return r
}
