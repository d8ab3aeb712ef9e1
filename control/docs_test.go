package control

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The page about the protocol has every message type and the version.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "control.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Type" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if !strings.Contains(string(page), "\n| `"+value+"` |") {
			t.Errorf("docs/protocol.md lacks the message %q", value)
		}
		return true
	})
	if found == 0 {
		t.Error("control.go has no constants of type Type")
	}
	for _, fact := range []string{
		"version " + Current.String(), fmt.Sprintf("Server port: %d", Port),
		fmt.Sprintf("Each begins with %d bytes", PreambleSize), "`" + preambleMagic + "`", "heartbeat each second",
	} {
		if !strings.Contains(string(page), fact) {
			t.Errorf("docs/protocol.md doesn't say %q", fact)
		}
	}
}
