package control

import (
	"encoding/binary"
	"fmt"
)

// TokenSize is the size in bytes of the random token that ties a data
// connection to its test.
const TokenSize = 16

// PreambleSize is the size in bytes of a Preamble on the wire.
const PreambleSize = len(preambleMagic) + TokenSize + 4

// preambleMagic can't be the length of a control frame: it would be over the
// limit. So one port serves both.
const preambleMagic = "gperfDT1"

// Preamble is what a data connection begins with: whose it is, and which stream
// of the test it carries (from 1).
type Preamble struct {
	Token  [TokenSize]byte
	Stream uint32
}

// Append appends the preamble's wire form to b.
func (p Preamble) Append(b []byte) []byte {
	b = append(b, preambleMagic...)
	b = append(b, p.Token[:]...)
	return binary.BigEndian.AppendUint32(b, p.Stream)
}

// ParsePreamble reads a preamble of exactly PreambleSize bytes.
func ParsePreamble(b []byte) (Preamble, error) {
	var p Preamble
	if len(b) != PreambleSize {
		return p, fmt.Errorf("preamble of %d bytes, not %d", len(b), PreambleSize)
	}
	if string(b[:len(preambleMagic)]) != preambleMagic {
		return p, fmt.Errorf("not a preamble")
	}
	b = b[len(preambleMagic):]
	copy(p.Token[:], b)
	p.Stream = binary.BigEndian.Uint32(b[TokenSize:])
	return p, nil
}

// Match is what a connection's first bytes say about it.
type Match int

// The answers of a matcher.
const (
	No   Match = iota // not this protocol
	More              // can't tell yet
	Yes
)

// MatchPreamble says whether a connection that begins with b is a data
// connection, and MatchFrame whether it's a control connection.
func MatchPreamble(b []byte) Match {
	n := min(len(b), len(preambleMagic))
	switch {
	case string(b[:n]) != preambleMagic[:n]:
		return No
	case len(b) < PreambleSize:
		return More
	}
	return Yes
}

// MatchFrame recognises a frame by its length and the brace of its JSON.
func MatchFrame(b []byte) Match {
	const head = 5
	switch {
	case len(b) > 0 && b[0] != 0, len(b) > 1 && b[1] > MaxFrame>>16:
		return No
	case len(b) < head:
		return More
	case binary.BigEndian.Uint32(b) > MaxFrame || b[4] != '{':
		return No
	}
	return Yes
}
