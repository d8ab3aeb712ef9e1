package splice

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags are the flags of splice(2) that a user may choose. The zero value asks
// for none, and leaves the segments as the kernel makes them.
type Flags uint32

const (
	// More (SPLICE_F_MORE) says that more will follow. On a socket it acts like
	// MSG_MORE: an incomplete segment waits, up to 200 ms, for the next call.
	More Flags = unix.SPLICE_F_MORE
	// Move (SPLICE_F_MOVE) asks for pages to be moved rather than copied. Linux
	// has ignored it since 2.6.21.
	Move Flags = unix.SPLICE_F_MOVE
	// Nonblock (SPLICE_F_NONBLOCK) is for the pipe's side of the call. Whether
	// the socket waits is its own O_NONBLOCK.
	Nonblock Flags = unix.SPLICE_F_NONBLOCK
)

// flagNames are the names of the flags, in the order of String.
var flagNames = []struct {
	name string
	flag Flags
}{{"more", More}, {"move", Move}, {"nonblock", Nonblock}}

// ParseFlags reads names separated by commas: more, move, nonblock. The empty
// string is no flag.
func ParseFlags(s string) (Flags, error) {
	var flags Flags
	if s == "" {
		return 0, nil
	}
	for name := range strings.SplitSeq(s, ",") {
		flag, err := parseFlag(name)
		if err != nil {
			return 0, err
		}
		if flags&flag != 0 {
			return 0, fmt.Errorf("splice flag %q is given twice", name)
		}
		flags |= flag
	}
	return flags, nil
}

func parseFlag(name string) (Flags, error) {
	for _, f := range flagNames {
		if f.name == name {
			return f.flag, nil
		}
	}
	return 0, fmt.Errorf("unknown splice flag %q: want more, move or nonblock", name)
}

// String is what ParseFlags reads: the names in the order more, move, nonblock.
func (f Flags) String() string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}
