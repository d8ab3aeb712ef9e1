package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange puts the flags of a sub-command before its other arguments, because
// the library takes everything after the first plain argument for one. What it
// doesn't know it leaves where the library will complain of it.
//
// A boolean flag never takes the next argument. "--nodelay on" is so likely a
// slip that the pair is made one bad argument, which parse then refuses, rather
// than "on" the name of a host.
func arrange(app *cli.App, args []string) []string {
	if len(args) < 2 {
		return args
	}
	command := app.Command(args[1])
	if command == nil {
		return args
	}
	flags, plain := slices.Clone(args[:2]), []string{}
	for i := 2; i < len(args); i++ {
		arg := args[i]
		name, isFlag := flagName(arg)
		switch {
		case arg == "--":
			plain = append(plain, args[i+1:]...)
			i = len(args)
		case !isFlag:
			plain = append(plain, arg)
		case strings.Contains(arg, "="):
			flags = append(flags, arg)
		default:
			flags = append(flags, arg)
			switch f := findFlag(command, name); {
			case f == nil || i+1 == len(args):
			case !isBool(f):
				i++
				flags = append(flags, args[i])
			case looksBoolean(args[i+1]):
				i++
				flags[len(flags)-1] = arg + "=" + bareValue + args[i]
			}
		}
	}
	if len(plain) > 0 {
		flags = append(append(flags, "--"), plain...)
	}
	return flags
}

// bareValue marks a value that stood apart from its boolean flag.
const bareValue = "\x00"

// flagName is the name in an argument such as --name, -n or --name=value.
func flagName(arg string) (string, bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	if name == arg || name == "" {
		return "", false
	}
	name, _, _ = strings.Cut(name, "=")
	return name, true
}

func findFlag(c *cli.Command, name string) cli.Flag {
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func isBool(f cli.Flag) bool {
	switch f := f.(type) {
	case *cli.BoolFlag:
		return true
	case *cli.GenericFlag:
		v, ok := f.Value.(*optionValue)
		return ok && v.IsBoolFlag()
	}
	return false
}

func looksBoolean(s string) bool {
	for _, half := range strings.Split(s, ":") {
		switch strings.ToLower(half) {
		case "on", "off", "true", "false", "yes", "no", "0", "1", "":
		default:
			return false
		}
	}
	return true
}
