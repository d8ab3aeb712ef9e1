//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// The widths of help, in columns.
const (
	helpWidth  = 80
	helpIndent = 2
	nameWidth  = 26 // of a flag with its value; a longer one stands on a line of its own
)

// appHelp is the help of gperf itself.
func appHelp(app *cli.App) string {
	var b strings.Builder
	b.WriteString(wrap("gperf: "+app.Usage, 0) + "\n\nUsage: gperf COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n")
	for _, c := range app.Commands {
		entry(&b, c.Name, c.Usage)
	}
	b.WriteString("\nFlags:\n")
	entry(&b, "-h, --help", "show this help, or after a command that command's")
	entry(&b, "-v, --version", "print the version")
	b.WriteString("\n" + wrap(app.Description, 0) + "\n")
	return b.String()
}

// commandHelp is the help of one command.
func commandHelp(c *cli.Command) string {
	var b strings.Builder
	b.WriteString(wrap("gperf "+c.Name+": "+c.Usage, 0) + "\n\nUsage: " + synopsis(c) + "\n")
	if c.Description != "" {
		b.WriteString("\n" + wrap(c.Description, 0) + "\n")
	}
	for _, category := range categories(c) {
		fmt.Fprintf(&b, "\n%s:\n", title(category.name))
		for _, f := range category.flags {
			entry(&b, f.String(), f.usage)
		}
	}
	return b.String()
}

// synopsis is how a command is called.
func synopsis(c *cli.Command) string {
	s := "gperf " + c.Name
	if len(optionFlags(c)) > 0 {
		s += " [FLAGS]"
	}
	return strings.TrimSpace(s + " " + c.ArgsUsage)
}

// A category is the flags of a command that help puts under one heading.
type category struct {
	name  string
	flags []*optionFlag
}

// categories are a command's flags under their headings, in the order of the
// table.
func categories(c *cli.Command) []category {
	var all []category
	for _, f := range optionFlags(c) {
		if n := len(all); n == 0 || all[n-1].name != f.category {
			all = append(all, category{name: f.category})
		}
		last := &all[len(all)-1]
		last.flags = append(last.flags, f)
	}
	return all
}

// title is a category's heading.
func title(category string) string {
	if category == "" {
		return "Flags"
	}
	return strings.ToUpper(category[:1]) + category[1:]
}

// entry prints a name and, beside it, what it is.
func entry(b *strings.Builder, name, usage string) {
	column := helpIndent + nameWidth
	text := strings.TrimSpace(wrap(usage, column))
	if len(name) > nameWidth-2 {
		fmt.Fprintf(b, "%*s%s\n%*s%s\n", helpIndent, "", name, column, "", text)
		return
	}
	fmt.Fprintf(b, "%*s%-*s%s\n", helpIndent, "", nameWidth, name, text)
}

// wrap breaks each line of text into lines that fit, with an indent.
func wrap(text string, indent int) string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := strings.Repeat(" ", indent)
		blank := true
		for word := range strings.FieldsSeq(paragraph) {
			switch {
			case blank:
			case len(line)+1+len(word) > helpWidth:
				lines = append(lines, line)
				line = strings.Repeat(" ", indent)
			default:
				line += " "
			}
			line += word
			blank = false
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n")
}
