package plan

import (
	"fmt"
	"strings"
)

// ParsePair reads VALUE or CLIENT:SERVER, either side of which may be empty,
// and parses each side with parse. A side that is empty yields the zero T.
func ParsePair[T any](s string, parse func(string) (T, error)) (client, server T, err error) {
	left, right, two := strings.Cut(s, ":")
	if !two {
		right = left
	}
	if strings.Contains(right, ":") {
		return client, server, fmt.Errorf("%q: want VALUE or CLIENT:SERVER", s)
	}
	if left == "" && right == "" {
		return client, server, fmt.Errorf("%q: no value", s)
	}
	if left != "" {
		if client, err = parse(left); err != nil {
			return client, server, err
		}
	}
	if right != "" {
		server, err = parse(right)
	}
	return client, server, err
}
