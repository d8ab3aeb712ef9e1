//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"gperf/lab"
)

// labOptions is what the flags of the lab command say.
type labOptions struct {
	kind     string
	settings [][2]string
}

func labFlags() []option[labOptions] {
	type o = labOptions
	return []option[o]{
		{name: "lab", value: "KIND", words: labKinds(), usage: "loopback (a namespace with its own lo) or veth (two namespaces and a link; default)",
			apply: func(t *o, s string) error { t.kind = s; return checkLab(s) }},
		{name: "set", value: "NAME=VALUE", usage: "setting of the lab, VALUE for both ends or CLIENT:SERVER; may be repeated: " + strings.Join(labNames(), ", "),
			apply: func(t *o, s string) error {
				name, value, ok := strings.Cut(s, "=")
				if !ok {
					return errors.New("want NAME=VALUE")
				}
				t.settings = append(t.settings, [2]string{name, value})
				return nil
			}},
	}
}

func labCommand() *cli.Command {
	options := labFlags()
	return &cli.Command{
		Name:      "lab",
		Usage:     "run a command in a private network",
		ArgsUsage: "-- COMMAND [ARGUMENTS]",
		Description: "Runs the command in the client's namespace of a lab that lives as long as it does, with a gperf server at the other end, which serves netperf's clients, too. " +
			"GPERF_SERVER in its environment is the server's address. The exit status is the command's.",
		Flags:  flags(options),
		Action: func(c *cli.Context) error { return runLab(c, options) },
	}
}

// runLab runs the command.
func runLab(c *cli.Context, options []option[labOptions]) error {
	o := &labOptions{kind: string(lab.Veth)}
	if err := parse(c, options, o); err != nil {
		return usage("lab: %w", err)
	}
	argv := c.Args().Slice()
	if len(argv) == 0 {
		return usage("lab: no command: gperf lab -- COMMAND")
	}
	var settings []labSetting
	for _, s := range o.settings {
		more, err := parseLabSetting(o.kind, s[0], s[1])
		if err != nil {
			return usage("lab: --set: %w", err)
		}
		settings = append(settings, more...)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return usage("lab: %w", err)
	}
	status, inside, err := lab.Enter(lab.Kind(o.kind))
	switch {
	case err != nil:
		return fmt.Errorf("lab: %w", err)
	case !inside && status == exitOK:
		return nil
	case !inside:
		return &statusError{status, errSilent}
	}
	l, err := lab.Open(lab.Kind(o.kind))
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer l.Close()
	if _, err := l.Apply(settings); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	server, err := startServer(l)
	if err != nil {
		return fmt.Errorf("lab: start a server: %w", err)
	}
	defer server.end(c.App.ErrWriter)
	// The command ends with this process; the signal follows the thread.
	runtime.LockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.App.Writer, c.App.ErrWriter
	if out, ok := c.App.Writer.(*checkedWriter); ok {
		cmd.Stdout = out.w
	}
	cmd.Env = append(os.Environ(), "GPERF_SERVER="+l.Address().String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return &statusError{exit.ExitCode(), errSilent}
	case errors.As(err, &exit):
		return &statusError{128 + int(exit.Sys().(syscall.WaitStatus).Signal()), errSilent}
	case err != nil:
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}
