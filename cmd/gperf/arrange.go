//go:build linux

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
//
// wantsHelp is true if one of the arguments asks for help, however wrong the
// others are.
func arrange(app *cli.App, args []string) (arranged []string, command *cli.Command, wantsHelp bool) {
	if len(args) < 2 {
		return args, nil, false
	}
	if args[1] == "help" { // gperf help COMMAND is gperf COMMAND --help
		if len(args) == 2 {
			return args, nil, true
		}
		args = append([]string{args[0], args[2], "--help"}, args[3:]...)
	}
	command = app.Command(args[1])
	if command == nil {
		return args, nil, isHelp(args[1])
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
		case isHelp(arg):
			wantsHelp = true
		case strings.Contains(arg, "="):
			flags = append(flags, arg)
		default:
			flags = append(flags, arg)
			switch f := findFlag(command, name); {
			case f == nil:
			case i+1 == len(args):
				if !f.isBool { // whatever came next would pass for its value
					return flags, command, wantsHelp
				}
			case !f.isBool:
				i++
				flags = append(flags, args[i])
			case looksBoolean(args[i+1]):
				i++
				flags[len(flags)-1] = arg + "=" + standsApart + args[i]
			}
		}
	}
	if len(plain) > 0 {
		flags = append(append(flags, "--"), plain...)
	}
	return flags, command, wantsHelp
}

// standsApart marks a value that stood apart from its boolean flag. No argument
// of a process can hold it.
const standsApart = "\x00"

// flagName is the name in an argument such as --name, -n or --name=value.
func flagName(arg string) (string, bool) {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	if name == arg || name == "" {
		return "", false
	}
	name, _, _ = strings.Cut(name, "=")
	return name, true
}

func isHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// looksBoolean reports whether s is what might follow a boolean flag for its
// value.
func looksBoolean(s string) bool {
	client, server, _ := strings.Cut(s, ":")
	return (client != "" || server != "") && (client == "" || isBoolWord(client)) && (server == "" || isBoolWord(server))
}

func isBoolWord(s string) bool {
	switch strings.ToLower(s) {
	case "on", "off", "true", "false", "yes", "no", "0", "1", "auto":
		return true
	}
	return false
}
