package trials

// deepest is how far values may be nested, as in encoding/json.
const deepest = 10_000

// valid reports whether text is one JSON value, as json.Valid does, in less than
// half the time: of a hundred thousand documents that are walked along a few
// paths, this is most of the work.
func valid(text []byte) bool {
	c := checker{text: text}
	return c.value(0) && c.next() == 0 && c.pos == len(c.text)
}

// A checker passes over JSON, and reports whether it is any.
type checker struct {
	text []byte
	pos  int
}

// next passes over blanks, and returns the byte behind them; 0: none.
func (c *checker) next() byte {
	for c.pos < len(c.text) {
		switch b := c.text[c.pos]; b {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return b
		}
	}
	return 0
}

func (c *checker) value(depth int) bool {
	b := c.next()
	if depth == deepest && (b == '{' || b == '[') {
		return false
	}
	switch b {
	case '{':
		c.pos++
		if c.next() == '}' {
			c.pos++
			return true
		}
		for {
			if c.next() != '"' || !c.string() || c.next() != ':' {
				return false
			}
			c.pos++
			if !c.value(depth + 1) {
				return false
			}
			switch c.next() {
			case ',':
				c.pos++
			case '}':
				c.pos++
				return true
			default:
				return false
			}
		}
	case '[':
		c.pos++
		if c.next() == ']' {
			c.pos++
			return true
		}
		for {
			if !c.value(depth + 1) {
				return false
			}
			switch c.next() {
			case ',':
				c.pos++
			case ']':
				c.pos++
				return true
			default:
				return false
			}
		}
	case '"':
		return c.string()
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	case 0: // the end, or a byte that is 0
		return false
	}
	return c.number()
}

func (c *checker) word(w string) bool {
	if len(c.text)-c.pos < len(w) || string(c.text[c.pos:c.pos+len(w)]) != w {
		return false
	}
	c.pos += len(w)
	return true
}

func (c *checker) string() bool {
	for i := c.pos + 1; i < len(c.text); i++ {
		switch b := c.text[i]; {
		case b == '"':
			c.pos = i + 1
			return true
		case b < ' ':
			return false
		case b == '\\':
			i++
			if i == len(c.text) {
				return false
			}
			switch c.text[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if len(c.text)-i <= 4 {
					return false
				}
				for _, h := range c.text[i+1 : i+5] {
					if (h < '0' || h > '9') && (h < 'a' || h > 'f') && (h < 'A' || h > 'F') {
						return false
					}
				}
				i += 4
			default:
				return false
			}
		}
	}
	return false
}

func (c *checker) number() bool {
	if c.at('-') {
		c.pos++
	}
	if c.at('0') {
		c.pos++
	} else if !c.digits() {
		return false
	}
	if c.at('.') {
		c.pos++
		if !c.digits() {
			return false
		}
	}
	if c.at('e') || c.at('E') {
		c.pos++
		if c.at('+') || c.at('-') {
			c.pos++
		}
		return c.digits()
	}
	return true
}

func (c *checker) at(b byte) bool { return c.pos < len(c.text) && c.text[c.pos] == b }

// digits passes over digits, of which there must be one.
func (c *checker) digits() bool {
	start := c.pos
	for c.pos < len(c.text) && c.text[c.pos] >= '0' && c.text[c.pos] <= '9' {
		c.pos++
	}
	return c.pos > start
}
