//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"gperf/internal/golden"
	"gperf/lab"
	"gperf/presets"
)

// The manual and the completion files are written from the tree of commands:
// go test ./cmd/gperf -run TestDocs -update writes them anew.

func TestDocsMan(t *testing.T) {
	golden.Compare(t, "../../docs/gperf.1", manual(newApp(nil, io.Discard, io.Discard)))
}

func TestDocsCompletion(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	golden.Compare(t, "../../docs/completion/gperf.bash", bashCompletion(app))
	golden.Compare(t, "../../docs/completion/_gperf", zshCompletion(app))
	golden.Compare(t, "../../docs/completion/gperf.fish", fishCompletion(app))
}

// examples are the manual's.
var examples = []struct{ what, command string }{
	{"A bulk test and a request/response test over loopback, with a server of its own:", "gperf client; gperf client -t TCP_RR"},
	{"Between two machines:", "gperf server\ngperf client 192.0.2.1"},
	{"The server's receive buffer alone set to 8 KiB, and Nagle's algorithm off at the client's end only:", "gperf client 192.0.2.1 --rcvbuf :8K --nodelay=on:off"},
	{"Four streams for five seconds after one of warm-up, a line each half second, as JSON lines:", "gperf client -P 4 -d 5 --warmup 1 -i 0.5 --format jsonl 192.0.2.1"},
	{"A result saved, and shown again as text:", "gperf client -J -o run.json 192.0.2.1\ngperf show run.json"},
}

// The manual's examples use flags that exist.
func TestExamples(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	for _, e := range examples {
		for _, command := range strings.FieldsFunc(e.command, func(r rune) bool { return r == '\n' || r == ';' }) {
			words := strings.Fields(command)
			if len(words) < 2 || words[0] != "gperf" || app.Command(words[1]) == nil {
				t.Errorf("%q is no command of gperf", command)
				continue
			}
			for _, word := range words[2:] {
				if name, isFlag := flagName(word); isFlag && findFlag(app.Command(words[1]), name) == nil {
					t.Errorf("%q: there is no flag %s", command, word)
				}
			}
		}
	}
}

// manual is gperf(1) in the language of man(7).
func manual(app *cli.App) string {
	var b strings.Builder
	b.WriteString(".\\\" Written by go test ./cmd/gperf -run TestDocs -update. Do not edit.\n")
	b.WriteString(".TH GPERF 1 \"\" gperf \"User Commands\"\n.SH NAME\n")
	b.WriteString("gperf \\- " + roff(app.Usage) + "\n.SH SYNOPSIS\n")
	for i, c := range app.Commands {
		if i > 0 {
			b.WriteString(".br\n")
		}
		b.WriteString(".B gperf " + c.Name + "\n" + roff(strings.TrimPrefix(synopsis(c), "gperf "+c.Name)) + "\n")
	}
	description, _, _ := strings.Cut(app.Description, "\n\n") // the rest is the exit status
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, description)
	b.WriteString(".SH COMMANDS\n")
	for _, c := range app.Commands {
		fmt.Fprintf(&b, ".SS gperf %s\n", c.Name)
		paragraphs(&b, sentence(c.Usage)+"\n\n"+c.Description)
		for _, category := range categories(c) {
			if category.name != "" {
				b.WriteString(".PP\n.I " + roff(title(category.name)) + "\n")
			}
			for _, f := range category.flags {
				b.WriteString(".TP\n" + roffFlag(f) + "\n" + roff(sentence(f.usage)) + "\n")
			}
		}
	}
	b.WriteString(".SH EXIT STATUS\n")
	for status := range strings.SplitSeq(strings.TrimSuffix(exitStatuses, "."), "; ") {
		number, meaning, _ := strings.Cut(status, " ")
		b.WriteString(".TP\n.B " + number + "\n" + roff(sentence(meaning)) + "\n")
	}
	b.WriteString(".SH EXAMPLES\n")
	for _, e := range examples {
		b.WriteString(roff(e.what) + "\n.PP\n.RS 4\n.nf\n" + roff(e.command) + "\n.fi\n.RE\n.PP\n")
	}
	b.WriteString(".SH SEE ALSO\n.BR tcp (7),\n.BR socket (7),\n.BR netperf (1),\n.BR iperf3 (1)\n")
	return b.String()
}

// sentence makes a text of help one.
func sentence(s string) string {
	return strings.TrimSuffix(strings.ToUpper(s[:1])+s[1:], ".") + "."
}

func paragraphs(b *strings.Builder, text string) {
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		b.WriteString(".PP\n" + roff(p) + "\n")
	}
}

// roff escapes text: the characters that mean something within a line, and at
// the beginning of one.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`).Replace(s)
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// roffFlag is a flag's names in bold and its value in italics.
func roffFlag(f *optionFlag) string {
	var names []string
	for _, name := range slices.Backward(f.all()) {
		names = append(names, `\fB`+roff(dashed(name))+`\fR`)
	}
	s := strings.Join(names, ", ")
	if !f.isBool {
		s += ` \fI` + roff(f.value) + `\fR`
	}
	return s
}

const writtenBy = "# Written by go test ./cmd/gperf -run TestDocs -update. Do not edit.\n"

// names are all the names of a command's flags, as one writes them.
func names(c *cli.Command) []string {
	all := []string{"--help"}
	for _, f := range optionFlags(c) {
		for _, name := range f.all() {
			all = append(all, dashed(name))
		}
	}
	slices.Sort(all)
	return all
}

func commandNames(app *cli.App) (all []string) {
	for _, c := range app.Commands {
		all = append(all, c.Name)
	}
	return all
}

func bashCompletion(app *cli.App) string {
	var b strings.Builder
	b.WriteString("# Completion of gperf for bash: source it, or put it into\n# /usr/share/bash-completion/completions as gperf.\n" + writtenBy + `
_gperf() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "` + strings.Join(commandNames(app), " ") + ` help --help --version" -- "$cur")
		return
	fi
	# bash cuts --flag=value into three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	case $command/$prev in
`)
	for _, c := range app.Commands {
		var free []string
		for _, f := range optionFlags(c) {
			var patterns []string
			for _, name := range f.all() {
				patterns = append(patterns, c.Name+"/"+dashed(name))
			}
			switch {
			case f.isBool:
			case f.words != nil:
				fmt.Fprintf(&b, "\t%s)\n\t\tmapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\")\n\t\treturn\n\t\t;;\n", strings.Join(patterns, " | "), strings.Join(f.words, " "))
			case f.value == "FILE":
				fmt.Fprintf(&b, "\t%s)\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\treturn\n\t\t;;\n", strings.Join(patterns, " | "))
			default:
				free = append(free, patterns...)
			}
		}
		if free != nil {
			fmt.Fprintf(&b, "\t%s)\n\t\treturn\n\t\t;;\n", strings.Join(free, " | "))
		}
	}
	b.WriteString("\tesac\n\tcase $command/$cur in\n")
	for _, c := range app.Commands {
		fmt.Fprintf(&b, "\t%s/-*)\n\t\tmapfile -t COMPREPLY < <(compgen -W \"%s\" -- \"$cur\")\n\t\t;;\n", c.Name, strings.Join(names(c), " "))
		switch c.ArgsUsage {
		case "FILE":
			fmt.Fprintf(&b, "\t%s/*)\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\t;;\n", c.Name)
		case "[HOST[:PORT]]":
			fmt.Fprintf(&b, "\t%s/*)\n\t\tmapfile -t COMPREPLY < <(compgen -A hostname -- \"$cur\")\n\t\t;;\n", c.Name)
		}
	}
	b.WriteString("\tesac\n}\n\ncomplete -F _gperf gperf\n")
	return b.String()
}

func zshCompletion(app *cli.App) string {
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`'`, `'\''`).Replace(s) + "'"
	}
	plain := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `:`, `\:`).Replace
	var b strings.Builder
	b.WriteString("#compdef gperf\n# Completion of gperf for zsh: put it into a folder of $fpath.\n" + writtenBy + `
local line state
local -a commands
commands=(
`)
	for _, c := range app.Commands {
		b.WriteString("\t" + quote(c.Name+":"+c.Usage) + "\n")
	}
	b.WriteString(`	'help:show the help of a command'
)
_arguments -C '(- *)'{-h,--help}'[show help]' '(- *)'{-v,--version}'[print the version]' \
	'1:command:->command' '*::argument:->arguments' && return
case $state in
command)
	_describe command commands
	;;
arguments)
	case $line[1] in
`)
	for _, c := range app.Commands {
		b.WriteString("\t" + c.Name + ")\n\t\t_arguments")
		for _, f := range append(optionFlags(c), &optionFlag{name: "help", alias: "h", usage: "show help", isBool: true}) {
			text := "[" + plain(f.usage) + "]"
			if !f.isBool {
				text += ":" + plain(f.value) + ":"
				switch {
				case f.words != nil:
					text += "(" + strings.Join(f.words, " ") + ")"
				case f.value == "FILE":
					text += "_files"
				}
			}
			b.WriteString(" \\\n\t\t\t")
			if f.alias == "" {
				b.WriteString(quote("*" + dashed(f.name) + text))
			} else {
				fmt.Fprintf(&b, "\\*{%s,%s}%s", dashed(f.alias), dashed(f.name), quote(text))
			}
		}
		switch c.ArgsUsage {
		case "FILE":
			b.WriteString(" \\\n\t\t\t'1:result:_files'")
		case "[HOST[:PORT]]":
			b.WriteString(" \\\n\t\t\t'1:host:_hosts'")
		}
		b.WriteString("\n\t\t;;\n")
	}
	b.WriteString("\thelp)\n\t\t_describe command commands\n\t\t;;\n\tesac\n\t;;\nesac\n")
	return b.String()
}

func fishCompletion(app *cli.App) string {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }
	var b strings.Builder
	b.WriteString("# Completion of gperf for fish: put it into ~/.config/fish/completions.\n" + writtenBy + "\ncomplete -c gperf -f\n")
	for _, c := range app.Commands {
		fmt.Fprintf(&b, "complete -c gperf -n __fish_use_subcommand -a %s -d %s\n", c.Name, quote(c.Usage))
	}
	b.WriteString("complete -c gperf -n __fish_use_subcommand -s v -l version -d 'print the version'\n")
	b.WriteString("complete -c gperf -s h -l help -d 'show help'\n")
	for _, c := range app.Commands {
		when := "complete -c gperf -n '__fish_seen_subcommand_from " + c.Name + "'"
		if c.ArgsUsage == "FILE" {
			b.WriteString(when + " -F\n")
		}
		for _, f := range optionFlags(c) {
			b.WriteString(when)
			for _, name := range f.all() {
				if len(name) == 1 {
					b.WriteString(" -s " + name)
				} else {
					b.WriteString(" -l " + name)
				}
			}
			switch {
			case f.isBool:
			case f.words != nil:
				b.WriteString(" -x -a " + quote(strings.Join(f.words, " ")))
			case f.value == "FILE":
				b.WriteString(" -r -F")
			default:
				b.WriteString(" -x")
			}
			b.WriteString(" -d " + quote(f.usage) + "\n")
		}
	}
	return b.String()
}

// What bash offers for a line that ends where the cursor stands.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash: ", err)
	}
	tests := []struct {
		words string // as bash cuts them, with one blank between
		want  string
	}{
		{"gperf s", "server sweep show"},
		{"gperf --v", "--version"},
		{"gperf client --nod", "--nodelay"},
		{"gperf client --test ", "TCP_STREAM TCP_MAERTS TCP_RR"},
		{"gperf client -t TCP_R", "TCP_RR"},
		{"gperf client --format = js", "json jsonl"},
		{"gperf client --format =", "text json jsonl csv keyval gobench hgrm hdr"},
		{"gperf client --label --", ""},
		{"gperf client --nodelay --quie", "--quiet"},
		{"gperf client -o docs_t", "docs_test.go"},
		{"gperf show docs_t", "docs_test.go"},
		{"gperf server --max-", "--max-duration --max-memory --max-streams --max-tests"},
		{"gperf probe -6 --j", "--json"},
		{"gperf iperf --", ""},
	}
	for _, tt := range tests {
		t.Run(tt.words, func(t *testing.T) {
			words := strings.Split(tt.words, " ")
			script := fmt.Sprintf("source ../../docs/completion/gperf.bash\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=%d\n_gperf\necho \"${COMPREPLY[*]}\"\n", len(words)-1)
			out, err := exec.Command(bash, append([]string{"-c", script, "bash"}, words...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, want := strings.Fields(string(out)), strings.Fields(tt.want)
			if strings.Contains(tt.words, "--test ") { // types are added as time goes
				got = got[:min(len(got), len(want))]
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// The files are right for those who read them, as far as they are installed.
// The page about sweeps has every setting of a lab, every preset and every flag of
// the sweep's own.
func TestDocsSweeps(t *testing.T) {
	b, err := os.ReadFile("../../docs/sweeps.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, d := range lab.Names() {
		in := "both"
		if len(d.Kinds) == 1 {
			in = string(d.Kinds[0])
		}
		if row := fmt.Sprintf("| `%s` | `%s` | %s | %s |", d.Name, d.Value, in, d.Doc); !strings.Contains(page, row) {
			t.Errorf("no row %s", row)
		}
	}
	for _, name := range presets.Names() {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("nothing of preset %s", name)
		}
	}
	for _, f := range sweepFlags() {
		if f.category == catSweep && !strings.Contains(page, f.name) {
			t.Errorf("nothing of --%s", f.name)
		}
	}
}

func TestDocsSyntax(t *testing.T) {
	for _, check := range [][]string{
		{"bash", "-n", "../../docs/completion/gperf.bash"},
		{"zsh", "-n", "../../docs/completion/_gperf"},
		{"fish", "--no-execute", "../../docs/completion/gperf.fish"},
		{"groff", "-man", "-ww", "-z", "-Tutf8", "../../docs/gperf.1"},
	} {
		t.Run(check[0], func(t *testing.T) {
			path, err := exec.LookPath(check[0])
			if err != nil {
				t.Skipf("needs %s: %v", check[0], err)
			}
			if out, err := exec.Command(path, check[1:]...).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Help fits a terminal of 80 columns, and each flag of a command is in it once.
func TestHelpLayout(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	for _, c := range app.Commands {
		help := commandHelp(c)
		for line := range strings.Lines(help) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > helpWidth || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: %d columns: %q", c.Name, len(line), line)
			}
		}
		var headings []string
		for _, category := range categories(c) {
			headings = append(headings, category.name)
		}
		slices.Sort(headings)
		if len(slices.Compact(slices.Clone(headings))) != len(headings) {
			t.Errorf("%s: a heading is there twice: %q", c.Name, headings)
		}
		seen := map[string]bool{}
		for _, f := range optionFlags(c) {
			re := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(f.String()) + `(  |$)`)
			if n := len(re.FindAllString(help, -1)); n != 1 {
				t.Errorf("%s: %s is in its help %d times", c.Name, f, n)
			}
			for _, name := range f.all() {
				if seen[name] {
					t.Errorf("%s: two flags are named %s", c.Name, name)
				}
				seen[name] = true
			}
			if f.usage == "" || f.isBool != (f.value == "") {
				t.Errorf("%s: %s lacks its usage or the name of its value", c.Name, f)
			}
		}
	}
}
