package options

import (
	"fmt"
	"strconv"
	"strings"
)

// tosNames are the classes of service that have a name: DSCPs shifted into the
// TOS byte (RFC 2474, 2597, 3246), and three bits of RFC 1349.
var tosNames = map[string]int{
	"af11": 10 << 2, "af12": 12 << 2, "af13": 14 << 2,
	"af21": 18 << 2, "af22": 20 << 2, "af23": 22 << 2,
	"af31": 26 << 2, "af32": 28 << 2, "af33": 30 << 2,
	"af41": 34 << 2, "af42": 36 << 2, "af43": 38 << 2,
	"cs0": 0 << 5, "cs1": 1 << 5, "cs2": 2 << 5, "cs3": 3 << 5,
	"cs4": 4 << 5, "cs5": 5 << 5, "cs6": 6 << 5, "cs7": 7 << 5,
	"ef":       46 << 2,
	"lowdelay": 0x10, "throughput": 0x08, "reliability": 0x04,
}

// storeTOS parses a type of service, a name or a number with C's prefixes, into
// to, unless s is "".
func storeTOS(s string, to *int) error {
	if s == "" {
		return nil
	}
	if v, ok := tosNames[strings.ToLower(s)]; ok {
		*to = v
		return nil
	}
	// ParseUint's base 0 allows underscores too, which C doesn't.
	v, err := strconv.ParseUint(s, 0, 8)
	if err != nil || strings.Contains(s, "_") {
		return fmt.Errorf("%q is not a type of service (0 to 255, or a name)", s)
	}
	*to = int(v)
	return nil
}

// parseFamily reads an address family in the many ways that callers write it.
// Of a word it can't make out it says so in lines to be shown, and goes on.
func parseFamily(s string) (f Family, complaint []string) {
	word := strings.ToLower(s)
	switch {
	case strings.Contains(word, "6"):
		return IPv6, nil
	case strings.Contains(word, "inet"), strings.Contains(word, "4"):
		return IPv4, nil
	case strings.Contains(word, "unspec"), strings.Contains(word, "0"):
		return Unspecified, nil
	}
	return Unspecified, []string{
		fmt.Sprintf("WARNING! %s not recognized as an address family, using AF_UNPSEC", s),
		"Are you sure netperf was configured for that address family?",
	}
}

// directions are the words for directions.
var directions = map[string]Direction{
	"xmit": Transmit, "send": Transmit, "stream": Transmit, "transmit": Transmit,
	"recv": Receive, "receive": Receive, "maerts": Receive,
	"rr": Both,
}

// parseDirection reads words and numbers joined by "|".
func parseDirection(s string) (Direction, error) {
	var d Direction
	for word := range strings.SplitSeq(s, "|") {
		if bits, ok := directions[strings.ToLower(word)]; ok {
			d |= bits
			continue
		}
		n, err := strconv.ParseUint(word, 0, 8)
		if err != nil || Direction(n)&^Both != 0 || strings.Contains(word, "_") {
			return 0, fmt.Errorf("%q is not a direction", word)
		}
		d |= Direction(n)
	}
	return d, nil
}

// protocols are the names of protocols, each with whether its sockets are of
// datagrams; nil: of neither kind, or it isn't said.
var protocols = map[string]*bool{
	"tcp": ptr(false), "udp": ptr(true), "udplite": ptr(true),
	"sctp": nil, "dccp": nil, "sdp": nil,
}

func ptr[T any](v T) *T { return &v }

// maxCongestionName is the longest name of a congestion control: TCP_CA_NAME_MAX
// of the kernel and the field on the wire have 16 bytes with the terminator.
const maxCongestionName = 15

// storeCongestion stores the name of a congestion control, unless s is "".
func storeCongestion(s string, to *string) error {
	if len(s) > maxCongestionName {
		return fmt.Errorf("%q is not the name of a congestion control (at most %d characters)", s, maxCongestionName)
	}
	if s != "" {
		*to = s
	}
	return nil
}

// storeName stores a word, unless s is "": the half of a pair that wasn't given.
func storeName(s string, to *string) error {
	if s != "" {
		*to = s
	}
	return nil
}

// parseMasked reads the name and the mask of "name/mask".
func parseMasked(s string) (name string, mask int, err error) {
	slash := strings.LastIndexByte(s, '/')
	if slash < 0 {
		return s, 0, nil
	}
	if slash == len(s)-1 {
		return "", 0, fmt.Errorf("%q has no mask", s)
	}
	if err := maskBits.store(s[slash+1:], &mask); err != nil {
		return "", 0, err
	}
	return s[:slash], mask, nil
}
