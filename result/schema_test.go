package result

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gperf/internal/golden"
)

const (
	schemaFile = "../docs/result.schema.json"
	docsFile   = "../docs/result.md"
	tableStart = "<!-- keys: written by go test ./result -update -->\n"
	tableEnd   = "<!-- end of keys -->\n"
)

// StrictSchemaJSON is the schema that allows no key but those described, for
// the tests that know encoders.
func StrictSchemaJSON() []byte { return newGenerator(true).json() }

func TestSchemaFile(t *testing.T) {
	golden.Compare(t, schemaFile, SchemaJSON())
}

func TestDocsTables(t *testing.T) {
	page, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableStart)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its markers", docsFile)
	}
	golden.Compare(t, docsFile, []byte(before+tableStart+tables()+tableEnd+after))
}

// tables prints the schema as Markdown, a table for each kind of object.
func tables() string {
	g := newGenerator(false)
	var b bytes.Buffer
	object(&b, "The document", g.root)
	for _, name := range g.names {
		object(&b, name, g.defs[name])
	}
	b.WriteByte('\n')
	return b.String()
}

func object(b *bytes.Buffer, title string, s *schema) {
	fmt.Fprintf(b, "\n### %s\n\n| key | type | meaning |\n|---|---|---|\n", title)
	keys(b, "", s)
}

func keys(b *bytes.Buffer, prefix string, s *schema) {
	for _, key := range s.keys {
		p := s.Properties[key]
		values := kind(p)
		if !slices.Contains(s.Required, key) {
			values += "; may be missing"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", prefix+key, values, strings.ReplaceAll(p.Description, "|", `\|`))
		keys(b, prefix+key+".", p)
	}
}

// kind says in words what values s allows.
func kind(s *schema) string {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case s.AnyOf != nil:
		return kind(s.AnyOf[0]) + " or null"
	case s.Const != "":
		return "`" + s.Const + "`"
	case s.Enum != nil:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Format != "":
		return s.Format
	}
	words := strings.Join(s.Type, " or ")
	if s.Items != nil {
		words = strings.Replace(words, "array", "list of "+kind(s.Items), 1)
	}
	if values, ok := s.Additional.(*schema); ok {
		words = strings.Replace(words, "object", "object of "+kind(values)+" by name", 1)
	}
	return words
}
