// Command gperf measures TCP between two Linux ends, with exactly the socket
// settings that were asked for, and proves it. See README.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"gperf/result"
)

// version and commit are stamped in by the Makefile.
var version, commit string

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// Exit statuses, as README.md lists them.
const (
	exitOK     = 0
	exitFailed = 1 // failed, or ended early by an error
	exitUsage  = 2 // usage, or a plan that can't be honoured
	exitSignal = 3 // ended by a signal, partial result printed
)

// A statusError is an error with the exit status it stands for. One without an
// error has been reported already.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// usage is an error in how the command was called.
func usage(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Errorf(format, args...)}
}

// run is main without the globals, so that tests can call it.
func run(args []string, stdout, stderr io.Writer) int {
	app := newApp(stdout, stderr)
	err := app.Run(arrange(app, args))
	if err == nil {
		return exitOK
	}
	status := exitFailed
	var s *statusError
	if errors.As(err, &s) {
		status = s.status
	}
	if err.Error() != "" {
		fmt.Fprintf(stderr, "gperf: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return status
}

func newApp(stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:                      "gperf",
		Usage:                     "measure TCP with exactly the socket settings that you ask for, and prove it",
		Description:               "Results go to stdout, progress and messages to stderr.\nExit status: 0 complete; 1 failed; 2 usage, or a plan that can't be honoured; 3 ended by a signal.",
		Version:                   build().Version,
		HideHelpCommand:           true,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		DisableSliceFlagSeparator: true,
		EnableBashCompletion:      true,
		// The library would print help, or exit, on its own.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usage("%w", err) },
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("unknown command %q (see gperf --help)", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{clientCommand(), serverCommand(), showCommand(), probeCommand()},
	}
	for _, c := range app.Commands {
		name := c.Name
		c.OnUsageError = func(c *cli.Context, err error, _ bool) error {
			return usageDocument(c, usage("%s: %w", name, err))
		}
		c.HideHelpCommand = true
	}
	cli.VersionPrinter = func(c *cli.Context) {
		b := build()
		if b.Commit != "" {
			b.Commit = " (" + b.Commit + ")"
		}
		fmt.Fprintf(c.App.Writer, "gperf %s%s\n", b.Version, b.Commit)
	}
	return app
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

// self is the path of this binary, for children that are to be it.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
