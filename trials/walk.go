package trials

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// A node is a place in documents that somebody wants to know, or that is on the
// way to one. A document is walked once, along the nodes, and what no node is for
// is skipped without being decoded: of a hundred thousand documents most is.
type node struct {
	children map[string]*node
	each     *node // of each entry of a list
	slots    []int // figures that stand here
	raw      []int // texts that stand here
	within   bool  // below a list, where figures have several values
	counters []int // slots of counters below: 0 if they aren't in the object
}

// child returns the node below for a part of a path, which it makes.
func (n *node) child(key string) *node {
	key, isList := strings.CutSuffix(key, "[]")
	if n.children == nil {
		n.children = map[string]*node{}
	}
	c := n.children[key]
	if c == nil {
		c = &node{within: n.within}
		n.children[key] = c
	}
	if !isList {
		return c
	}
	if c.each == nil {
		c.each = &node{within: true}
	}
	return c.each
}

func (n *node) at(path string) *node {
	for key := range strings.SplitSeq(path, ".") {
		n = n.child(key)
	}
	return n
}

// A sum gathers the values of one figure.
type sum struct {
	n   int
	sum float64
}

func (s *sum) add(v float64) {
	s.n++
	s.sum += v
}

// mean is the figure, NaN when it's not known.
func (s *sum) mean() float64 {
	if s.n == 0 {
		return math.NaN()
	}
	return s.sum / float64(s.n)
}

// A walker walks one document after the other.
type walker struct {
	root  *node
	sums  []sum
	raw   [][]byte // parts of the document
	bytes []byte
	pos   int
}

// walk reads a document, which must be valid JSON.
func (w *walker) walk(doc []byte) {
	clear(w.sums)
	clear(w.raw)
	w.bytes, w.pos = doc, 0
	w.value(w.root)
}

func (w *walker) blanks() {
	for w.pos < len(w.bytes) {
		switch w.bytes[w.pos] {
		case ' ', '\t', '\n', '\r':
			w.pos++
		default:
			return
		}
	}
}

// value reads the next value, for n.
func (w *walker) value(n *node) {
	w.blanks()
	start := w.pos
	switch w.bytes[w.pos] {
	case '{':
		if len(n.children) == 0 {
			w.skip()
			break
		}
		w.object(n)
	case '[':
		if n.each == nil {
			w.skip()
			break
		}
		w.list(n.each)
	default:
		w.skip()
		if len(n.slots) > 0 {
			w.figure(n, w.bytes[start:w.pos])
		}
	}
	for _, i := range n.raw {
		w.raw[i] = w.bytes[start:w.pos]
	}
}

func (w *walker) figure(n *node, text []byte) {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(v, 0) { // null, for one
		return
	}
	for _, i := range n.slots {
		if !n.within {
			w.sums[i] = sum{}
		}
		w.sums[i].add(v)
	}
}

func (w *walker) object(n *node) {
	for _, i := range n.counters {
		w.sums[i] = sum{n: 1}
	}
	w.pos++
	for {
		w.blanks()
		if w.bytes[w.pos] == '}' {
			w.pos++
			return
		}
		start := w.pos
		w.text()
		c := n.children[string(key(w.bytes[start:w.pos]))]
		w.blanks()
		w.pos++ // :
		if c != nil {
			w.value(c)
		} else {
			w.blanks()
			w.skip()
		}
		w.blanks()
		if w.bytes[w.pos] == ',' {
			w.pos++
		}
	}
}

func (w *walker) list(each *node) {
	w.pos++
	for {
		w.blanks()
		switch w.bytes[w.pos] {
		case ']':
			w.pos++
			return
		case ',':
			w.pos++
		default:
			w.value(each)
		}
	}
}

// key is what stands between the quotes.
func key(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var s string
		if json.Unmarshal(quoted, &s) == nil {
			return []byte(s)
		}
	}
	return quoted[1 : len(quoted)-1]
}

// text passes over a string.
func (w *walker) text() {
	w.pos++
	for {
		i := bytes.IndexByte(w.bytes[w.pos:], '"')
		end := w.pos + i
		escapes := 0
		for end-1-escapes >= w.pos && w.bytes[end-1-escapes] == '\\' {
			escapes++
		}
		w.pos = end + 1
		if escapes%2 == 0 {
			return
		}
	}
}

// skip passes over the value that begins here.
func (w *walker) skip() {
	switch w.bytes[w.pos] {
	case '"':
		w.text()
	case '{', '[':
		for depth := 0; ; {
			switch w.bytes[w.pos] {
			case '"':
				w.text()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			w.pos++
			if depth == 0 {
				return
			}
		}
	default:
		for w.pos < len(w.bytes) {
			switch w.bytes[w.pos] {
			case ',', '}', ']', ' ', '\t', '\n', '\r':
				return
			}
			w.pos++
		}
	}
}

// countOf is how many entries the list has that is text.
func countOf(text []byte) (n int, isList bool) {
	var list []json.RawMessage
	if len(text) == 0 || text[0] != '[' || json.Unmarshal(text, &list) != nil {
		return 0, false
	}
	return len(list), true
}
