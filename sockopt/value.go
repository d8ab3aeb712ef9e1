package sockopt

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// End is one end of a connection, by who opened it.
type End int

const (
	Client End = iota // connects
	Server            // listens and accepts
)

// String returns "client" or "server".
func (e End) String() string {
	switch e {
	case Client:
		return "client"
	case Server:
		return "server"
	}
	return "End(" + strconv.Itoa(int(e)) + ")"
}

// kind says which of a Value's fields counts.
type kind uint8

const (
	unset kind = iota
	integer
	text
)

// A Value is what a knob is set to or reads: nothing, an integer in the
// kernel's own unit, or a string. Switches are 0 and 1, as the kernel reports
// them. Values are comparable with ==.
//
// The zero Value is unset. As a request it means "auto": make no call. As a
// reading it means unknown, or the kernel's way of saying "none".
type Value struct {
	kind kind
	n    int64
	s    string
}

// Int returns a Value that holds n.
func Int(n int64) Value { return Value{kind: integer, n: n} }

// Str returns a Value that holds s.
func Str(s string) Value { return Value{kind: text, s: s} }

// IsSet reports whether v holds anything.
func (v Value) IsSet() bool { return v.kind != unset }

// Int returns the integer that v holds; false if it holds none.
func (v Value) Int() (int64, bool) { return v.n, v.kind == integer }

// String returns the integer in decimal, the string itself, or "auto".
func (v Value) String() string {
	switch v.kind {
	case integer:
		return strconv.FormatInt(v.n, 10)
	case text:
		return v.s
	}
	return "auto"
}

// MarshalJSON writes a number, a string, or null when v is unset.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case integer:
		return strconv.AppendInt(nil, v.n, 10), nil
	case text:
		return json.Marshal(v.s)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing else: a boolean, a
// fraction or an exponent is an error rather than a guess.
func (v *Value) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		*v = Value{}
		return nil
	case len(data) > 0 && data[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*v = Str(s)
		return nil
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("knob value %s is neither a 64-bit integer, a string nor null", data)
	}
	*v = Int(n)
	return nil
}
