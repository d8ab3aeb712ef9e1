//go:build linux

// Command gperf measures TCP between two Linux ends, with exactly the socket
// settings that were asked for, and proves it. See README.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/urfave/cli/v2"

	"gperf/result"
)

// version and commit are stamped in by the Makefile.
var version, commit string

const gcPercent = 400

func main() {
	// A reader of stdout that has gone is an error like any other, with a line
	// and a status: the signal would end gperf without a word.
	signal.Ignore(syscall.SIGPIPE)
	// What a run leaves for the collector is a few megabytes: not worth its
	// time on top of a short test's.
	debug.SetGCPercent(gcPercent)
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// Exit statuses, as README.md lists them.
const (
	exitOK     = 0
	exitFailed = 1 // failed, or ended early by an error
	exitUsage  = 2 // usage, or a plan that can't be honoured
	exitSignal = 3 // ended by a signal, partial result printed

	exitUntrusted = 4 // complete, but --strict found a reason not to trust it
)

const exitStatuses = "0 complete; 1 failed, or ended early by an error; 2 wrong usage, or a plan that can't be honoured; 3 ended by a signal; 4 complete, but --strict found a reason not to trust it."

// A statusError is an error with the exit status it stands for.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// usage is an error in how the command was called.
func usage(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

// run is main without the globals, so that tests can call it.
func run(args []string, stdout, stderr io.Writer) int {
	if personality, args := personality(args); personality != nil {
		return personality(args, stdout, stderr)
	}
	out := &checkedWriter{w: stdout}
	err := dispatch(args, out, stderr)
	if err == nil {
		err = out.err // help, for one, looks at no error
	}
	if err == nil {
		return exitOK
	}
	status := exitFailed
	var s *statusError
	if errors.As(err, &s) {
		status = s.status
	}
	if errors.Is(err, errSilent) {
		return status // whoever failed has said so
	}
	fmt.Fprintf(stderr, "gperf: %s\n", printable(strings.ReplaceAll(err.Error(), "\n", "; ")))
	return status
}

// personalities are the programs that gperf can be, with command lines of their
// own: by the name that it's started under, or by its first argument.
var personalities = map[string]func(args []string, stdout, stderr io.Writer) int{
	"netperf":   runNetperf,
	"netserver": runNetserver,
}

// personalityCommands are the personalities as help shows them. They never run as
// commands: their arguments aren't this library's.
func personalityCommands() []*cli.Command {
	return []*cli.Command{{
		Name:            "netperf",
		Usage:           "be netperf: its options, its output, its exit statuses",
		ArgsUsage:       "[OPTIONS] [-- TEST OPTIONS]",
		Description:     "Also when gperf is started under the name netperf. gperf netperf -h lists the options; -J FILE writes gperf's own result document of the same run. docs/netperf.md says what is different on purpose.",
		SkipFlagParsing: true,
	}, {
		Name:            "netserver",
		Usage:           "be netserver, which serves netperf's clients, and gperf's",
		ArgsUsage:       "[OPTIONS]",
		Description:     "Also when gperf is started under the name netserver. It returns when it listens and leaves a process behind that serves, unless -D says to stay. gperf netserver -h lists the options.",
		SkipFlagParsing: true,
	}}
}

// personality finds the program that args ask for, with the arguments that are
// its, its name first; nil: gperf itself.
func personality(args []string) (func(args []string, stdout, stderr io.Writer) int, []string) {
	for i := range min(len(args), 2) {
		if p := personalities[filepath.Base(args[i])]; p != nil {
			return p, args[i:]
		}
	}
	return nil, nil
}

func dispatch(args []string, stdout, stderr io.Writer) error {
	app := newApp(args, stdout, stderr)
	arranged, command, wantsHelp := arrange(app, args)
	switch {
	case wantsHelp && command != nil:
		_, err := io.WriteString(stdout, commandHelp(command))
		return err
	case wantsHelp, len(args) < 2:
		_, err := io.WriteString(stdout, appHelp(app))
		return err
	case command == nil && (args[1] == "-v" || args[1] == "-version" || args[1] == "--version"):
		_, err := fmt.Fprintln(stdout, buildLine())
		return err
	}
	return app.Run(arranged)
}

// newApp is the tree of commands. Help and the version are dispatch's, so that
// the library has nothing to print; it reports errors and decides on nothing.
func newApp(args []string, stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:  "gperf",
		Usage: "measure TCP with exactly the socket settings that you ask for, and prove it",
		Description: "Results go to stdout, progress and messages to stderr. An error is one line.\n\n" +
			"Exit status: " + exitStatuses,
		HideHelp:                  true,
		HideVersion:               true,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usage("%w (see gperf --help)", libraryError(err, args))
		},
		Action: func(c *cli.Context) error {
			return usage("unknown command %q (see gperf --help)", c.Args().First())
		},
		Commands: append([]*cli.Command{clientCommand(args), serverCommand(), sweepCommand(), labCommand(), tableCommand(), compareCommand(args), showCommand(), probeCommand()}, personalityCommands()...),
	}
	for _, c := range app.Commands {
		c.HideHelp = true
		if c.OnUsageError == nil {
			c.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
				return usage("%s: %w (see gperf %s --help)", c.Name, libraryError(err, args), c.Name)
			}
		}
	}
	return app
}

// libraryError says what the flag package says of the arguments in words that
// show a flag as the user wrote it.
func libraryError(err error, args []string) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		written := shown(asWritten(name, args))
		if len(name) > 1 && strings.Trim(name[1:], "0123456789.") == "" { // -P4, as other programs have it
			return fmt.Errorf("unknown flag %s: a value stands apart, as in -%c %s", written, name[0], name[1:])
		}
		return fmt.Errorf("unknown flag %s", written)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("flag %s needs a value", asWritten(name, args))
	}
	return err
}

func asWritten(name string, args []string) string {
	for _, arg := range args {
		if n, isFlag := flagName(arg); isFlag && n == name {
			flag, _, _ := strings.Cut(arg, "=")
			return flag
		}
	}
	return dashed(name)
}

// printable shows what isn't printable as Go would write it. Parts of a message
// may come from the other end, which must not steer the reader's terminal.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// A checkedWriter remembers the first error of the writer below.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// build says what this binary is: as stamped, else as the go command knows it.
func build() result.Build {
	b := result.Build{Version: version, Commit: commit}
	if info, ok := debug.ReadBuildInfo(); ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

// buildLine is what --version prints.
func buildLine() string {
	b := build()
	if b.Commit == "" {
		return "gperf " + b.Version
	}
	return "gperf " + b.Version + " (" + b.Commit + ")"
}
