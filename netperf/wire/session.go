package wire

import (
	"errors"
	"strings"
)

// A CPUCalibration answers a request of TypeCPUCalibrate, which is New with
// that type and nothing else (netperf 2.7, message layout).
type CPUCalibration struct {
	Rate    float32 // in the unit of the server's CPUMethod: on Linux clock ticks per second, 100
	NumCPUs int32   // of the server
}

func (r *CPUCalibration) walk(c *cursor) {
	c.f32(&r.Rate)
	c.i32(&r.NumCPUs)
}

// Encode returns the answer as a message with a serv_errno of 0.
func (r CPUCalibration) Encode() Message { return encodePlain(TypeCPUCalibrate, r.walk) }

// ParseCPUCalibration reads an answer, whatever its type says. A serv_errno is
// returned as a RemoteError, with what else is in the message. A real server
// that was sent a request of an unknown type before answers with that one's.
func ParseCPUCalibration(m *Message) (CPUCalibration, error) {
	var r CPUCalibration
	decode(m, r.walk)
	return r, m.remoteError()
}

// EncodePassphrase returns a request of TypePassphrase, which is never
// answered (netperf 2.7, message layout). text is at most 647 bytes, more is
// an error. affinity is as in Message.Second.
func EncodePassphrase(text string, affinity int32) (Message, error) {
	return encode(TypePassphrase, affinity, func(c *cursor) { c.text("passphrase", &text, textSize) })
}

// ParsePassphrase reads the text of a TypePassphrase request. A message of
// another type is an error.
func ParsePassphrase(m *Message) (string, error) {
	if err := m.checkType(TypePassphrase); err != nil {
		return "", err
	}
	var text string
	decode(m, func(c *cursor) { c.text("passphrase", &text, textSize) })
	return text, nil
}

// A SysInfo answers a request of TypeSysInfo, which is New with that type and
// nothing else (netperf 2.6, message layout). Its fields are uname(2)'s, and
// together at most 643 bytes.
type SysInfo struct{ Sysname, Release, Machine, Version string }

// DeprecatedSysInfo is what servers of 2.7 answer.
var DeprecatedSysInfo = SysInfo{"Deprecated", "Deprecated", "Deprecated", "Deprecated"}

var errDelimiter = errors.New("sysinfo: no delimiter is left: , | ; and ~ are all in it")

// Encode returns the answer as a message with a serv_errno of 0. Text that
// doesn't fit is an error, and so is text that has all of ",|;~" in it.
func (s SysInfo) Encode() (Message, error) {
	fields := []string{s.Sysname, s.Release, s.Machine, s.Version}
	all := strings.Join(fields, "")
	for _, delimiter := range []string{",", "|", ";", "~"} {
		if strings.Contains(all, delimiter) {
			continue
		}
		text := delimiter + strings.Join(fields, delimiter)
		return encode(TypeSysInfoResponse, 0, func(c *cursor) { c.text("sysinfo", &text, textSize) })
	}
	return Message{}, errDelimiter
}

// ParseSysInfo reads an answer, whatever its type says: a delimiter, then four
// fields with that between them. Fields that aren't there are empty. A
// serv_errno is returned as a RemoteError, with what else is in the message;
// clients of 2.6 do without the answer then.
func ParseSysInfo(m *Message) (SysInfo, error) {
	var text string
	decode(m, func(c *cursor) { c.text("sysinfo", &text, textSize) })
	var fields [4]string
	if text != "" {
		copy(fields[:], strings.SplitN(text[1:], text[:1], len(fields)))
	}
	return SysInfo{fields[0], fields[1], fields[2], fields[3]}, m.remoteError()
}
