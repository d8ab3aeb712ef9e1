package trials

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

var jsonTexts = []string{
	``, ` `, `{}`, `[]`, ` { "a" : [ 1 , -0.5e+3 , true , false , null ] } `, `{"a":1,}`, `[1,]`, `{"a"}`, `{a:1}`, `01`, `-`, `1.`, `.5`, `1e`, `1E-2`, `+1`,
	`"a`, `"\u12fF"`, `"\u12g0"`, `"\u12`, `"\x"`, "\"a\tb\"", "\"\xff\"", `"\\"`, `"\"`, `tru`, `nulll`, `{} {}`, "\x00", "{}\x00", `[`, `]`, `{"a":}`, `[1 2]`, `{"a":1 "b":2}`, `-0`, `00`, `1.5.2`,
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
}

func TestValid(t *testing.T) {
	t.Parallel()
	for _, text := range jsonTexts {
		if got, want := valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q: %v, want %v", text, got, want)
		}
	}
}

// valid is json.Valid, and a walk of what is valid stays inside of it.
func FuzzValid(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add([]byte(text))
	}
	line, err := os.ReadFile("testdata/line.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	r := NewReader(Covariates()...)
	f.Fuzz(func(t *testing.T, text []byte) {
		got := valid(text)
		if want := json.Valid(text); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
		if got {
			d := r.newDecoder()
			d.w.walk(text)
		}
	})
}
