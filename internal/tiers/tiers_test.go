package tiers

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "gperf"

const (
	unixPkg   = "golang.org/x/sys/unix"
	cliPkg    = "github.com/urfave/cli/v2"
	gonumStat = "gonum.org/v1/gonum/stat"
	yamlPkg   = "go.yaml.in/yaml/v3"
	hdrPkg    = "github.com/HdrHistogram/hdrhistogram-go"
	netlink   = "github.com/vishvananda/netlink"
	netns     = "github.com/vishvananda/netns"
	procfs    = "github.com/prometheus/procfs"
	termPkg   = "golang.org/x/term"
	goCmp     = "github.com/google/go-cmp"
	rapid     = "pgregory.net/rapid"
	txtar     = "github.com/rogpeppe/go-internal"
	validator = "github.com/santhosh-tekuri/jsonschema/v6"
)

// A folder is one row of the table: a folder of the module, or with "/..." at
// its end also everything below it, and what its packages may import from
// outside the module and the standard library (these and what is below them).
type folder struct {
	name     string
	external []string
}

// layout is the table: the tiers, the highest first, each with its folders. A
// package imports only from tiers below its own. A folder needn't exist yet.
var layout = [][]folder{
	{{"bench", []string{unixPkg}}, {"cmd/...", []string{cliPkg, termPkg, unixPkg}}},
	{{"lab", []string{netlink, netns, unixPkg}}, {"sweep", []string{yamlPkg}}, {"presets", nil}, {"compare", nil}, {"report", nil}},
	{{"trials", nil}},
	{{"netperf", []string{hdrPkg, unixPkg}}},
	{{"netperf/output", []string{unixPkg}}},
	{{"netperf/options", nil}, {"netperf/wire", nil}},
	{{"client", []string{unixPkg}}, {"server", []string{unixPkg}}},
	{{"endpoint", nil}},
	{{"flow", []string{hdrPkg, unixPkg}}, {"control", nil}, {"host", []string{netlink, procfs, unixPkg}}},
	{{"result/encode", nil}},
	{{"result", []string{hdrPkg}}},
	{{"plan", nil}},
	{{"sockopt", []string{unixPkg}}},
	{{"splice", []string{unixPkg}}},
	{{"stats/sample", []string{gonumStat}}},
	{{"stats", []string{gonumStat, hdrPkg}}},
	{
		{"internal/acceptance", []string{netlink}},
		{"internal/golden", []string{goCmp}},
		{"internal/grid", nil},
		{"internal/netnstest", []string{netlink, netns, unixPkg}},
		{"internal/sys", []string{unixPkg}},
		{"internal/tiers", nil},
		{"internal/units", nil},
	},
}

// sideways lists, as importer and imported, the imports that are allowed
// although both are in one tier.
var sideways = [][2]string{}

// leaves lists the folders that import nothing of the module but internal,
// whatever the tiers allow: they are to be of use without the rest.
var leaves = []string{"sockopt", "splice", "stats"}

// pure lists the folders that do no I/O, each with exceptions from impure,
// which is what they may not import because of it.
var (
	pure = map[string][]string{
		"control":      {"os"}, // for os.ErrDeadlineExceeded
		"netperf/wire": nil,
		"plan":         nil,
		"result":       nil,
		"stats":        nil,
		"stats/sample": nil,
	}
	impure = []string{"net", "os", "os/exec", "syscall", unixPkg}
)

// testExternal is what the tests of every package may import as well.
var testExternal = []string{goCmp, rapid, txtar, validator, unixPkg}

// A pkg is one package and what it imports.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string // of the tests inside the package
	XTestImports []string // of its _test package
}

// find returns the tier and the row of a folder, or -1 when it has none.
func find(name string) (tier int, row folder) {
	for i, rows := range layout {
		for _, f := range rows {
			if base, ok := strings.CutSuffix(f.name, "/..."); f.name == name ||
				ok && (name == base || strings.HasPrefix(name, base+"/")) {
				return i, f
			}
		}
	}
	return -1, folder{}
}

// check returns what is wrong with an import graph, one line each.
func check(graph []pkg) []string {
	var bad []string
	for _, p := range graph {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		tier, row := find(name)
		if tier < 0 {
			bad = append(bad, fmt.Sprintf("%s is in no tier: add it to layout in internal/tiers/tiers_test.go and to ARCHITECTURE.md", name))
			continue
		}
		for _, imported := range p.Imports {
			if why := forbidden(name, tier, row, imported); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", name, imported, why))
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := forbiddenInTest(name, tier, row, imported); why != "" {
				bad = append(bad, fmt.Sprintf("a test of %s imports %s: %s", name, imported, why))
			}
		}
	}
	return bad
}

// forbidden says why the package name, whose place is tier and row, may not
// import another, or "".
func forbidden(name string, tier int, row folder, imported string) string {
	if except, ok := pure[name]; ok && slices.Contains(impure, imported) && !slices.Contains(except, imported) {
		return name + " does no I/O"
	}
	target, inside := strings.CutPrefix(imported, module+"/")
	if !inside {
		if isStandard(imported) || within(imported, row.external) {
			return ""
		}
		if within(imported, []string{cliPkg}) {
			return "only cmd knows flags"
		}
		return "not in its row of layout in internal/tiers/tiers_test.go"
	}
	below, _ := find(target)
	switch {
	case below < 0:
		return "which is in no tier"
	case slices.Contains(leaves, name) && !strings.HasPrefix(target, "internal/"):
		return name + " imports only internal"
	case below < tier:
		return "imports go only downwards, and that tier is above"
	case below == tier && !slices.Contains(sideways, [2]string{name, target}) && !strings.HasPrefix(target, "cmd/"):
		return "both are in one tier, and the pair isn't in sideways"
	}
	return ""
}

// forbiddenInTest is forbidden for a test. Tests may put any packages of the
// module together (a client with a server, for one), except those of cmd.
func forbiddenInTest(name string, tier int, row folder, imported string) string {
	if target, inside := strings.CutPrefix(imported, module+"/"); inside {
		if below, _ := find(target); below == 0 && tier != 0 {
			return "nothing below cmd imports cmd"
		}
		return ""
	}
	if isStandard(imported) || within(imported, testExternal) {
		return ""
	}
	return forbidden(name, tier, row, imported)
}

// isStandard reports whether path is of the standard library: its first
// element has no dot, and it isn't of this module.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != module
}

// within reports whether path is one of roots or below one.
func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

// load reads the import graph of the module at root, for every architecture
// that gperf is built for. It reads the files by itself rather than ask "go
// list", so that the go command knows them and doesn't take the result of this
// test from its cache after one of them has changed.
func load(t *testing.T, root string) []pkg {
	t.Helper()
	var graph []pkg
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := d.Name(); dir != root && (base[0] == '.' || base[0] == '_' || base == "testdata") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && dir != root {
			return filepath.SkipDir // a module of its own
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		for _, arch := range []string{"amd64", "arm64"} {
			context := build.Default
			context.GOOS, context.GOARCH = "linux", arch
			p, err := context.ImportDir(dir, 0)
			if _, empty := errors.AsType[*build.NoGoError](err); empty {
				continue
			}
			if err != nil {
				return err
			}
			graph = append(graph, pkg{path.Join(module, filepath.ToSlash(rel)), p.Imports, p.TestImports, p.XTestImports})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

func TestImports(t *testing.T) {
	graph := load(t, "../..")
	if !slices.ContainsFunc(graph, func(p pkg) bool { return p.ImportPath == module+"/internal/tiers" }) {
		t.Fatalf("the graph of %d packages lacks even this one", len(graph))
	}
	faults := check(graph)
	slices.Sort(faults)
	for _, line := range slices.Compact(faults) { // one for two architectures
		t.Error(line)
	}
}

// The checker itself: graphs that it must find fault with.
func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		graph []pkg
		want  []string // a part of each line
	}{
		{
			name: "a good graph",
			graph: []pkg{
				{ImportPath: "gperf/cmd/gperf", Imports: []string{"os", "gperf/client", "gperf/server", "gperf/cmd/gperf/flags", cliPkg}},
				{ImportPath: "gperf/client", Imports: []string{"gperf/flow", "gperf/control", "gperf/plan", "gperf/internal/units", unixPkg}},
				{ImportPath: "gperf/result/encode", Imports: []string{"encoding/json", "gperf/result"}},
				{ImportPath: "gperf/sockopt", Imports: []string{"gperf/internal/sys"}, TestImports: []string{rapid}},
				{ImportPath: "gperf/internal/netnstest", Imports: []string{netlink + "/nl"}},
			},
		},
		{
			name:  "upwards",
			graph: []pkg{{ImportPath: "gperf/plan", Imports: []string{"gperf/flow"}}},
			want:  []string{"plan imports gperf/flow: imports go only downwards"},
		},
		{
			name:  "upwards from internal",
			graph: []pkg{{ImportPath: "gperf/internal/sys", Imports: []string{"gperf/stats"}}},
			want:  []string{"internal/sys imports gperf/stats: imports go only downwards"},
		},
		{
			name:  "a leaf that imports a lower tier",
			graph: []pkg{{ImportPath: "gperf/sockopt", Imports: []string{"gperf/stats", "gperf/internal/units"}}},
			want:  []string{"sockopt imports gperf/stats: sockopt imports only internal"},
		},
		{
			name:  "result is below its encoders",
			graph: []pkg{{ImportPath: "gperf/result", Imports: []string{"gperf/result/encode"}}},
			want:  []string{"imports go only downwards"},
		},
		{
			name: "client and server",
			graph: []pkg{
				{ImportPath: "gperf/client", Imports: []string{"gperf/server"}},
				{ImportPath: "gperf/server", Imports: []string{"gperf/client"}},
			},
			want: []string{"client imports gperf/server: both are in one tier", "server imports gperf/client: both are in one tier"},
		},
		{
			name:  "sideways",
			graph: []pkg{{ImportPath: "gperf/flow", Imports: []string{"gperf/host"}}},
			want:  []string{"flow imports gperf/host: both are in one tier"},
		},
		{
			name:  "cmd from below",
			graph: []pkg{{ImportPath: "gperf/report", Imports: []string{"gperf/cmd/gperf"}}},
			want:  []string{"report imports gperf/cmd/gperf: imports go only downwards"},
		},
		{
			name:  "cmd from a test below",
			graph: []pkg{{ImportPath: "gperf/client", XTestImports: []string{"gperf/server", "gperf/cmd/gperf"}}},
			want:  []string{"a test of client imports gperf/cmd/gperf: nothing below cmd imports cmd"},
		},
		{
			name:  "cli below cmd",
			graph: []pkg{{ImportPath: "gperf/server", Imports: []string{cliPkg}}},
			want:  []string{"server imports " + cliPkg + ": only cmd knows flags"},
		},
		{
			name:  "cli in a test below cmd",
			graph: []pkg{{ImportPath: "gperf/server", TestImports: []string{cliPkg + "/altsrc"}}},
			want:  []string{"only cmd knows flags"},
		},
		{
			name:  "a library that isn't in the row",
			graph: []pkg{{ImportPath: "gperf/stats", Imports: []string{hdrPkg, "gonum.org/v1/gonum/mat"}}},
			want:  []string{"stats imports gonum.org/v1/gonum/mat: not in its row"},
		},
		{
			name:  "a test library outside tests",
			graph: []pkg{{ImportPath: "gperf/sockopt", Imports: []string{goCmp + "/cmp"}}},
			want:  []string{"sockopt imports " + goCmp + "/cmp: not in its row"},
		},
		{
			name:  "a name that only starts like one in the row",
			graph: []pkg{{ImportPath: "gperf/sockopt", Imports: []string{unixPkg + "extra"}}},
			want:  []string{"not in its row"},
		},
		{
			name:  "an exception for one package",
			graph: []pkg{{ImportPath: "gperf/control", Imports: []string{"net", "os"}}},
			want:  []string{"control imports net: control does no I/O"},
		},
		{
			name:  "I/O in a package of plain data",
			graph: []pkg{{ImportPath: "gperf/plan", Imports: []string{"net", "net/netip", "os", "strings"}}},
			want:  []string{"plan imports net: plan does no I/O", "plan imports os: plan does no I/O"},
		},
		{
			name: "an unlisted folder",
			graph: []pkg{
				{ImportPath: "gperf/util", Imports: []string{"gperf/cmd/gperf"}},
				{ImportPath: "gperf/plan/extra"},
				{ImportPath: "gperf"},
				{ImportPath: "gperf/client", Imports: []string{"gperf/util"}},
			},
			want: []string{
				"util is in no tier: add it to layout in internal/tiers/tiers_test.go",
				"plan/extra is in no tier",
				"gperf is in no tier",
				"client imports gperf/util: which is in no tier",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check(tt.graph)
			if len(got) != len(tt.want) {
				t.Fatalf("faults (-want +got):\n%s", cmp.Diff(tt.want, got))
			}
			for i, part := range tt.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("fault %d is %q, want %q in it", i, got[i], part)
				}
			}
		})
	}
}
