//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gperf/sockopt"
)

// probeOptions is what probe's flags say.
type probeOptions struct{ json, six bool }

func probeFlags() []option[probeOptions] {
	type o = probeOptions
	return []option[o]{
		{name: "json", alias: "J", isBool: true, usage: "print JSON",
			apply: func(t *o, s string) error { return parseBool(&t.json, s) }},
		{name: "6", isBool: true, usage: "probe IPv6 sockets",
			apply: func(t *o, s string) error { return parseBool(&t.six, s) }},
	}
}

func probeCommand() *cli.Command {
	options := probeFlags()
	return &cli.Command{
		Name:        "probe",
		Usage:       "what this machine's kernel supports, knob by knob",
		Description: "For each knob of gperf client: the socket option, its unit, when it is set, whether this kernel has it, and the value of a fresh socket.",
		Flags:       flags(options),
		Action: func(c *cli.Context) error {
			o := &probeOptions{}
			if err := parse(c, options, o); err != nil {
				return usage("probe: %w", err)
			}
			if c.Args().Present() {
				return usage("probe: unexpected argument %q", c.Args().First())
			}
			family := unix.AF_INET
			if o.six {
				family = unix.AF_INET6
			}
			rows := sockopt.Probe(family)
			if o.json {
				e := json.NewEncoder(c.App.Writer)
				e.SetIndent("", "  ")
				return e.Encode(rows)
			}
			return printProbe(c, rows)
		},
	}
}

func printProbe(c *cli.Context, rows []sockopt.ProbeRow) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "knob\toption\tunit\twhen\tsupported\tdefault")
	for _, r := range rows {
		supported := "yes"
		if !r.Supported {
			supported = "no: " + r.Reason
		}
		unit, value := r.Unit, "-"
		if unit == "" {
			unit = "-"
		}
		if r.Default.IsSet() {
			value = r.Default.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Knob, r.Option, unit, r.When, supported, value)
	}
	return w.Flush()
}
