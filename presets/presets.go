// Package presets holds the sweeps that gperf brings along, one YAML file each, in
// the words of gperf sweep -f.
package presets

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Trials is how many trials of each cell a preset runs unless it says otherwise.
const Trials = 10

//go:embed *.yaml
var files embed.FS

// Names returns the presets' names in alphabetical order.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // they are part of the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Open returns a preset's text.
func Open(name string) (string, error) {
	b, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("unknown preset %q (known: %s)", name, strings.Join(Names(), ", "))
	}
	return string(b), nil
}
