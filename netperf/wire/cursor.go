package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// A cursor goes through a message and a struct at once and copies one field
// after the other, from the struct when it writes and to the struct otherwise.
// A layout is thus said once, as a method that walks its fields in the order
// of the message, and can't differ between encoder and decoder.
type cursor struct {
	m     *Message
	off   int // of the next field
	write bool
	err   error // the first; only writing can fail
}

// encode returns the message of a header and the fields that walk goes through.
// It returns no message with an error.
func encode(typ, second int32, walk func(*cursor)) (Message, error) {
	m := New(typ, second)
	c := cursor{m: &m, off: headerSize, write: true}
	walk(&c)
	if c.err != nil {
		return Message{}, c.err
	}
	return m, nil
}

// encodePlain is encode for layouts of numbers only, which can't fail.
func encodePlain(typ int32, walk func(*cursor)) Message {
	m, _ := encode(typ, 0, walk)
	return m
}

// decode fills in the fields that walk goes through.
func decode(m *Message, walk func(*cursor)) {
	walk(&cursor{m: m, off: headerSize})
}

// next returns the next n bytes of the message.
func (c *cursor) next(n int) []byte {
	c.off += n
	return c.m[c.off-n : c.off]
}

// word copies one word and returns its bits.
func (c *cursor) word(bits uint32) uint32 {
	b := c.next(4)
	if c.write {
		binary.BigEndian.PutUint32(b, bits)
	}
	return binary.BigEndian.Uint32(b)
}

func (c *cursor) u32(fields ...*uint32) {
	for _, p := range fields {
		*p = c.word(*p)
	}
}

func (c *cursor) i32(fields ...*int32) {
	for _, p := range fields {
		*p = int32(c.word(uint32(*p)))
	}
}

// f32 copies IEEE single precision, the bits in one word.
func (c *cursor) f32(fields ...*float32) {
	for _, p := range fields {
		*p = math.Float32frombits(c.word(math.Float32bits(*p)))
	}
}

// flag copies a word that is 1 for true and 0 for false. Anything else is read
// as true, as C does.
func (c *cursor) flag(fields ...*bool) {
	for _, p := range fields {
		var bits uint32
		if *p {
			bits = 1
		}
		*p = c.word(bits) != 0
	}
}

// u64 copies two words, the upper half first.
func (c *cursor) u64(p *uint64) {
	hi := c.word(uint32(*p >> 32))
	lo := c.word(uint32(*p))
	*p = uint64(hi)<<32 | uint64(lo)
}

// f64 copies IEEE double precision.
func (c *cursor) f64(p *float64) {
	bits := math.Float64bits(*p)
	c.u64(&bits)
	*p = math.Float64frombits(bits)
}

// text copies a string of a field of size bytes. What follows the first NUL is
// no part of the string, and a field without any is read to its end. None is
// written so: real peers look for the NUL.
func (c *cursor) text(name string, p *string, size int) {
	b := c.next(size)
	switch {
	case !c.write:
		before, _, _ := bytes.Cut(b, []byte{0})
		*p = string(before)
	case len(*p) >= size:
		c.fail(fmt.Errorf("%s: %d bytes, at most %d fit", name, len(*p), size-1))
	case strings.Contains(*p, "\x00"):
		c.fail(fmt.Errorf("%s: has a NUL in it", name))
	default:
		copy(b, *p)
	}
}

// addr copies an address of four words. An IPv4 address is in the first, in
// network order. Of an IPv6 address real peers take the bytes as four numbers
// and convert each to network order once more, which between little-endian
// machines, that is nearly all, leaves the bytes of each word reversed; and so
// they are written and read here.
func (c *cursor) addr(name string, p *netip.Addr, family Family) {
	b := c.next(16)
	if !c.write {
		*p = parseAddr([16]byte(b), family)
		return
	}
	switch a := *p; {
	case !a.IsValid():
	case family == FamilyIPv4 && a.Is4():
		copy(b, a.AsSlice())
	case family == FamilyIPv6 && a.Is6():
		wire := reverseGroups(a.As16())
		copy(b, wire[:])
	default:
		c.fail(fmt.Errorf("%s: %v isn't of the message's family %d", name, a, family))
	}
}

func parseAddr(b [16]byte, family Family) netip.Addr {
	var a netip.Addr
	switch family {
	case FamilyIPv4:
		a = netip.AddrFrom4([4]byte(b[:4]))
	case FamilyIPv6:
		a = netip.AddrFrom16(reverseGroups(b))
	}
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// reverseGroups reverses the bytes of each of the four words. It is its own
// inverse.
func reverseGroups(b [16]byte) [16]byte {
	var r [16]byte
	for i := 0; i < 16; i += 4 {
		binary.LittleEndian.PutUint32(r[i:], binary.BigEndian.Uint32(b[i:]))
	}
	return r
}

// fail keeps the first error.
func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// checkType returns an error unless the message's type is one of types.
func (m *Message) checkType(types ...int32) error { return checkType(m.Type(), types) }

func checkType(typ int32, types []int32) error {
	if slices.Contains(types, typ) {
		return nil
	}
	return fmt.Errorf("message type is %d, want one of %d", typ, types)
}
