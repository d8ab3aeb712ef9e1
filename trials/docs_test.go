package trials

import (
	"os"
	"strings"
	"testing"
)

// docs/statistics.md lists every short name, with its unit and where it stands.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/statistics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metrics {
		paths := make([]string, len(m.paths))
		for i, path := range m.paths {
			paths[i] = "`" + path + "`"
		}
		unit, better := m.Unit, string(m.Better)
		if better == "" {
			better = "neither"
		}
		row := "| `" + m.Name + "` | " + unit + " | " + better + " | " + m.Doc() + " | " + strings.Join(paths, " + ") + " |\n"
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/statistics.md lacks the row\n%s", row)
		}
	}
}
