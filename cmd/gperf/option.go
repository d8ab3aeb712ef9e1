//go:build linux

package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// An option is one flag of a command that fills in a T: the row from which the
// flag, its help, its place in the manual and in the shells' completion, and
// its parsing come.
type option[T any] struct {
	name, alias string
	value       string // how help names the value; "" for a boolean
	usage       string
	category    string
	isBool      bool     // bare, or with a value joined to it: --name=VALUE
	words       []string // the values that completion offers; nil: any
	apply       func(t *T, text string) error
}

// An optionFlag is an option as the library sees it. It keeps the flag's texts
// until all flags are known; parse applies them then, and an error names flag
// and text the way the user wrote them.
type optionFlag struct {
	name, alias, value, usage, category string

	isBool bool
	words  []string
	texts  []string
}

// flags makes the library's flags of the options.
func flags[T any](options []option[T]) []cli.Flag {
	all := make([]cli.Flag, 0, len(options))
	for _, o := range options {
		all = append(all, &optionFlag{
			name: o.name, alias: o.alias, value: o.value, usage: o.usage, category: o.category,
			isBool: o.isBool, words: o.words,
		})
	}
	return all
}

// Apply registers the flag under its name and its alias.
func (f *optionFlag) Apply(set *flag.FlagSet) error {
	for _, name := range f.all() {
		set.Var(f, name, f.usage)
	}
	return nil
}

// Names is the flag's name without its alias: of a flag with several names the
// library refuses to see two, and sets those that weren't given.
func (f *optionFlag) Names() []string { return []string{f.name} }

// all is the flag's name and its alias.
func (f *optionFlag) all() []string {
	if f.alias == "" {
		return []string{f.name}
	}
	return []string{f.name, f.alias}
}

// IsSet reports whether the flag was given.
func (f *optionFlag) IsSet() bool { return len(f.texts) > 0 }

// IsBoolFlag tells the flag package that the flag may stand without a value.
func (f *optionFlag) IsBoolFlag() bool { return f.isBool }

// Set keeps one more text.
func (f *optionFlag) Set(text string) error {
	f.texts = append(f.texts, text)
	return nil
}

// String is the flag with its alias and its value, as help shows it.
func (f *optionFlag) String() string {
	names := dashed(f.name)
	if f.alias != "" {
		names = dashed(f.alias) + ", " + names
	}
	if f.value != "" && !f.isBool {
		names += " " + f.value
	}
	return names
}

// dashed is a flag's name as one writes it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// optionFlags are a command's flags.
func optionFlags(c *cli.Command) []*optionFlag {
	var all []*optionFlag
	for _, f := range c.Flags {
		if f, ok := f.(*optionFlag); ok {
			all = append(all, f)
		}
	}
	return all
}

// findFlag returns a command's flag by any of its names, nil if it has none.
func findFlag(c *cli.Command, name string) *optionFlag {
	for _, f := range optionFlags(c) {
		if slices.Contains(f.all(), name) {
			return f
		}
	}
	return nil
}

// parse applies to t, in the table's order, every option that was given.
func parse[T any](c *cli.Context, options []option[T], t *T) error {
	for _, o := range options {
		for _, text := range findFlag(c.Command, o.name).texts {
			name := dashed(o.name)
			if after, apart := strings.CutPrefix(text, standsApart); apart {
				return fmt.Errorf("%s %s: the value of this flag is joined to it, as in %s=%s", name, after, name, after)
			}
			if err := o.apply(t, text); err != nil {
				if o.isBool && text == "true" { // as the bare flag reads
					return fmt.Errorf("%s: %w", name, err)
				}
				return flagError(name, text, err)
			}
		}
	}
	return nil
}

// flagError names the flag and its text, unless the error has the text already.
func flagError(name, text string, err error) error {
	if strings.Contains(err.Error(), strconv.Quote(text)) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s %s: %w", name, shown(text), err)
}

// shown is a text as a message shows it: quoted if it would not be seen for what
// it is.
func shown(text string) string {
	if text == "" || strings.ContainsAny(text, " '\"\\") || printable(text) != text {
		return strconv.Quote(text)
	}
	return text
}
