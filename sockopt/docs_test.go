package sockopt

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"gperf/internal/golden"
)

const (
	docsFile   = "../docs/knobs.md"
	tableStart = "<!-- knobs: written by go test ./sockopt -update -->\n"
	tableEnd   = "<!-- end of knobs -->\n"
)

// The page's table of knobs is that of the code.
func TestDocsTable(t *testing.T) {
	page, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableStart)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its markers", docsFile)
	}
	golden.Compare(t, docsFile, before+tableStart+docsTable()+tableEnd+after)
}

// Every knob has a section of its own on the page.
func TestDocsSections(t *testing.T) {
	page, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Knobs() {
		if !strings.Contains(string(page), "\n### "+k.Name+"\n") {
			t.Errorf("%s has no section %q", docsFile, k.Name)
		}
	}
}

// docsTable prints the table of knobs as Markdown.
func docsTable() string {
	var b strings.Builder
	b.WriteString("\n| flag | option | unit in JSON | client sets it | server sets it | Linux |\n|---|---|---|---|---|---|\n")
	for _, k := range Knobs() {
		since := ""
		if k.since != "" {
			since = k.since + " on"
		}
		fmt.Fprintf(&b, "| [`--%s`](#%s) | %s | %s | %s | %s | %s |\n",
			k.Name, k.Name, k.Option, cmp.Or(k.Unit, "-"), moment(k, Client), moment(k, Server), cmp.Or(since, "any"))
	}
	b.WriteByte('\n')
	return b.String()
}

// moment says when that end sets the knob.
func moment(k *Knob, end End) string {
	if k.When == Socket {
		return k.When.String()
	}
	for _, m := range []Moment{BeforeListen, BeforeConnect, AfterAccept, AfterPreamble} {
		if k.When.due(end, m) {
			return m.String()
		}
	}
	return "never"
}
