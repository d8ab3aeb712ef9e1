// Package wire reads and writes the messages that netperf and netserver 2.x
// exchange over their control connection. It opens nothing and sends nothing:
// it turns structs into messages and back.
//
// A message has a fixed size and no length, number or version of its own. What
// is in it follows from its first word and, in answers, from what was asked.
// Real peers leave old memory in whatever they don't set, so decoders take any
// bytes: a size, count, port or family is returned as it came, and whether it
// makes sense is for the caller to judge.
package wire

import (
	"encoding/binary"
	"fmt"
)

// Size is the length of every message in bytes, both ways (netperf 2.6 and
// 2.7; 2.5 and older send 256 and can't talk to newer ones).
const Size = 656

const (
	headerSize = 8
	textSize   = Size - headerSize // of the messages that are one string
)

// A Message is one control message: two words of header, then 648 bytes whose
// layout depends on the type. All numbers in it are big-endian.
type Message [Size]byte

// New returns a message of the given header and zeros: a request that says no
// more than its type, or an answer that says no more than its serv_errno. For
// what second is, see Message.Second.
func New(typ, second int32) Message {
	var m Message
	c := cursor{m: &m, write: true}
	c.i32(&typ, &second)
	return m
}

// Type is the first header word, request_type or response_type. A real
// netserver swaps the bytes of response_type once too often in most results
// (98 arrives as 0x62000000), and no client looks at it.
func (m *Message) Type() int32 { return int32(binary.BigEndian.Uint32(m[0:4])) }

// Second is the second header word. In a request it is the number of the CPU
// that the server is to bind itself to, NoAffinity for none; in an answer
// serv_errno, 0 if all went well, otherwise an errno of the server's system or
// one of ErrnoUnknownRequest, ErrnoRRSend and ErrnoCRRSend.
func (m *Message) Second() int32 { return int32(binary.BigEndian.Uint32(m[4:8])) }

// NoAffinity is the second header word of a request that binds the server to
// no CPU.
const NoAffinity int32 = -1

// Types of messages, the first header word (netperf 2.7). An answer's type is
// its request's plus one, except for the types that are their own answer.
const (
	TypeDebugOn  int32 = 1 // the server logs more; answered by TypeDebugOK
	TypeDebugOff int32 = 2 // the server logs less; answered by TypeDebugOK
	TypeDebugOK  int32 = 3

	TypeNodeIdentify int32 = 4 // in no server: ErrnoUnknownRequest
	TypeCPUCalibrate int32 = 5 // see CPUCalibration; the answer has the same type
	TypePassphrase   int32 = 6 // see EncodePassphrase; never answered

	TypeTCPStream         int32 = 10 // see StreamRequest; TCP_SENDFILE and TCP_MSS too
	TypeTCPStreamResponse int32 = 11
	TypeTCPStreamResults  int32 = 12 // never on the wire

	TypeTCPRR         int32 = 13 // see TransactionRequest
	TypeTCPRRResponse int32 = 14

	TypeUDPStream         int32 = 16 // see UDPStreamRequest
	TypeUDPStreamResponse int32 = 17
	TypeUDPStreamResults  int32 = 18 // the only results type that is really sent

	TypeUDPRR         int32 = 19 // see TransactionRequest
	TypeUDPRRResponse int32 = 20

	TypeTCPCRR         int32 = 34 // see TransactionRequest
	TypeTCPCRRResponse int32 = 35

	TypeTCPMaerts         int32 = 94 // see StreamRequest
	TypeTCPMaertsResponse int32 = 95

	TypeOmni         int32 = 97 // see OmniRequest: nearly all tests of 2.5 and later
	TypeOmniResponse int32 = 98
	TypeOmniResults  int32 = 99 // never on the wire

	TypeTCPCC         int32 = 300 // see TransactionRequest
	TypeTCPCCResponse int32 = 301
	TypeTCPCCResults  int32 = 302 // never on the wire

	TypeSysInfo         int32 = 600 // DO_SYSINFO, which clients before 2.7 send first
	TypeSysInfoResponse int32 = 601
)

// Values of serv_errno that are no errno of any system (netperf 2.7).
const (
	ErrnoUnknownRequest int32 = 998 // the server doesn't know the request's type
	ErrnoRRSend         int32 = 992 // the server of a classic TCP_RR couldn't send
	ErrnoCRRSend        int32 = 99  // the server of a classic TCP_CRR couldn't send
)

// A RemoteError is a serv_errno other than 0: the server refused a request or
// failed in the test. It is an errno of the server's system, or one of
// ErrnoUnknownRequest, ErrnoRRSend and ErrnoCRRSend.
type RemoteError int32

func (e RemoteError) Error() string { return fmt.Sprintf("remote error %d", int32(e)) }

// remoteError returns an answer's serv_errno as an error, nil for 0.
func (m *Message) remoteError() error {
	if n := m.Second(); n != 0 {
		return RemoteError(n)
	}
	return nil
}

// A Family is an address family in netperf's own numbers, which are the same
// on every system.
type Family uint32

// The address families (netperf 2.7, message layout).
const (
	FamilyUnspecified Family = 0
	FamilyIPv4        Family = 4
	FamilyIPv6        Family = 6
	FamilyRDS         Family = 7
)
