//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gperf/result/encode"
)

// showOptions is what show's flags say.
type showOptions struct{ format, output string }

func showFlags() []option[showOptions] {
	type o = showOptions
	return []option[o]{
		{name: "format", value: "FORMAT", words: encode.Formats(), usage: "one of " + strings.Join(encode.Formats(), ", ") + " (default text)",
			apply: func(t *o, s string) error { t.format = s; _, err := encode.Lookup(s); return err }},
		{name: "json", alias: "J", isBool: true, usage: "the same as --format json",
			apply: func(t *o, s string) error {
				var on bool
				err := parseBool(&on, s)
				if on {
					t.format = "json"
				}
				return err
			}},
		{name: "output", alias: "o", value: "FILE", usage: "write to FILE instead of stdout",
			apply: func(t *o, s string) error { t.output = s; return nil }},
	}
}

func showCommand() *cli.Command {
	options := showFlags()
	return &cli.Command{
		Name:        "show",
		Usage:       "print a saved result again, in any format",
		ArgsUsage:   "FILE",
		Description: "FILE is what gperf client printed with --format json or jsonl; - is stdin. A file of JSON lines may have any number of intervals, and one result.",
		Flags:       flags(options),
		Action: func(c *cli.Context) error {
			o := &showOptions{format: "text"}
			if err := parse(c, options, o); err != nil {
				return usage("show: %w", err)
			}
			if c.Args().Len() != 1 {
				return usage("show: want one FILE, not %d", c.Args().Len())
			}
			return show(c, o, c.Args().First())
		},
	}
}

func show(c *cli.Context, o *showOptions, path string) error {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return usage("show: %w", err)
		}
		defer f.Close()
		in = f
	}
	r, err := encode.Decode(in)
	if err != nil {
		return usage("show: %s: %w", path, err)
	}
	encoder, err := encode.Lookup(o.format)
	if err != nil {
		return usage("show: %w", err)
	}
	out, closeOutput, err := openOutput(c.App.Writer, o.output)
	if err != nil {
		return usage("show: %w", err)
	}
	if err := cmp.Or(encoder(out, r), closeOutput()); err != nil {
		return fmt.Errorf("show: %w", err)
	}
	return nil
}
