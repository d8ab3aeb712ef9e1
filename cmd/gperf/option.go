package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// An option is one flag of a command that fills in a T: the row from which the
// flag, its help and its parsing come.
type option[T any] struct {
	name, alias string
	value       string // how help names the value; "" for a boolean
	usage       string
	category    string
	hidden      bool
	isBool      bool
	apply       func(t *T, text string) error
}

// optionValue keeps a flag's text until all flags are known. It's parsed in the
// table's order then, and an error names flag and text the way the user wrote
// them.
type optionValue struct {
	texts  []string
	isBool bool
}

// Set keeps one more text. The library sets a flag that has an alias a second
// time, under its other name, to what String returns: that one is passed over.
func (v *optionValue) Set(text string) error {
	if text != alreadySet {
		v.texts = append(v.texts, text)
	}
	return nil
}

func (v *optionValue) String() string {
	if len(v.texts) > 0 {
		return alreadySet
	}
	return ""
}

func (v *optionValue) IsBoolFlag() bool { return v.isBool }

const alreadySet = "\x00set"

// flags makes the library's flags of the options.
func flags[T any](options []option[T]) []cli.Flag {
	all := make([]cli.Flag, 0, len(options))
	for _, o := range options {
		text := o.usage
		if o.value != "" {
			text = "`" + o.value + "`: " + text
		}
		f := &cli.GenericFlag{
			Name: o.name, Usage: text, Category: o.category, Hidden: o.hidden,
			Value: &optionValue{isBool: o.isBool},
		}
		if o.alias != "" {
			f.Aliases = []string{o.alias}
		}
		all = append(all, f)
	}
	return all
}

// parse applies to t, in the table's order, every option that was given.
func parse[T any](c *cli.Context, options []option[T], t *T) error {
	for _, o := range options {
		v, ok := c.Generic(o.name).(*optionValue)
		if !ok {
			continue
		}
		for _, text := range v.texts {
			if after, bare := strings.CutPrefix(text, bareValue); bare {
				return fmt.Errorf("--%s %s: a value of this flag is joined to it, --%s=%s", o.name, after, o.name, after)
			}
			if err := o.apply(t, text); err != nil {
				return fmt.Errorf("--%s %s: %w", o.name, text, err)
			}
		}
	}
	return nil
}
