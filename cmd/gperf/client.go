package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gperf/client"
	"gperf/control"
	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
)

func clientCommand() *cli.Command {
	options := clientFlags()
	return &cli.Command{
		Name:      "client",
		Usage:     "run one test against a server, or over loopback against one of its own",
		ArgsUsage: "[HOST[:PORT]]",
		Description: "Without HOST the client starts a server of its own and tests over loopback.\n" +
			"Every knob takes VALUE for both ends, or CLIENT:SERVER, either of which may be empty.",
		Flags:  flags(options),
		Action: func(c *cli.Context) error { return runClient(c, options) },
	}
}

func runClient(c *cli.Context, options []option[clientOptions]) error {
	o, host, err := readClient(c, options)
	if err != nil {
		return usageDocument(c, usage("client: %w", err))
	}
	out, closeOutput, err := openOutput(c.App.Writer, o.output)
	if err != nil {
		return usageDocument(c, usage("client: %w", err))
	}
	stop, release := onSignal(exitSignal)
	defer release()
	o.Stop = stop

	if host == "" {
		child, err := startServer(c.App.ErrWriter)
		if err != nil {
			return fmt.Errorf("client: start a server: %w", err)
		}
		defer child.wait()
		o.Host, o.Port = child.addr.Addr().String(), int(child.addr.Port())
	}
	watch := newWatcher(o, out, c.App.ErrWriter)
	o.OnStart, o.OnInterval = watch.start, watch.interval
	r := client.Run(context.Background(), o.Config)
	watch.end()
	err = errors.Join(watch.err, o.write(out, r, watch))
	if err = errors.Join(err, closeOutput()); err != nil {
		return fmt.Errorf("client: write the result: %w", err)
	}
	return verdict(r)
}

// readClient makes the client's configuration of flags and arguments.
func readClient(c *cli.Context, options []option[clientOptions]) (*clientOptions, string, error) {
	o := &clientOptions{format: "text", Config: client.Config{
		Plan:           &plan.Test{Client: plan.End{Knobs: sockopt.Settings{}}, Server: plan.End{Knobs: sockopt.Settings{}}},
		ConnectTimeout: client.DefaultConnectTimeout, Labels: map[string]string{}, Build: build(),
	}}
	if err := parse(c, options, o); err != nil {
		return nil, "", err
	}
	o.Plan.Normalise()
	// Text shows the RTT and window of few streams as it goes, not of many.
	o.Plan.LiveStreams = o.Plan.Interval > 0 && (o.format == "jsonl" || o.format == "text" && o.Plan.Streams <= liveTextStreams)
	if err := o.Plan.Validate(); err != nil {
		return nil, "", err
	}
	host := c.Args().First()
	if c.Args().Len() > 1 {
		return nil, "", fmt.Errorf("unexpected argument %q: one HOST at most", c.Args().Get(1))
	}
	if host == "" {
		if c.Args().Len() == 1 {
			return nil, "", errors.New("empty host")
		}
		return o, "", nil
	}
	var err error
	o.Host, o.Port, err = client.Target(host, control.Port)
	return o, host, err
}

// write encodes the result: in text, what the watcher hasn't shown yet.
func (o *clientOptions) write(w io.Writer, r *result.Run, watch *watcher) error {
	switch {
	case o.format == "text" && watch.started:
		return encode.Figures(w, r)
	case o.format == "jsonl" && watch.started:
		return encode.ResultJSON(w, r)
	case o.format == "text" && r.Status == result.Failed:
		return nil // nothing was measured: the error's line says it all
	}
	encoder, err := encode.Lookup(o.format)
	if err != nil {
		return err
	}
	return encoder(w, r)
}

// verdict is the exit status of a run, and the line on stderr.
func verdict(r *result.Run) error {
	if r.Error == nil {
		return nil
	}
	status := exitFailed
	switch r.Error.Kind {
	case "usage", "plan":
		status = exitUsage
	case "signal":
		status = exitSignal
	}
	return &statusError{status, errors.New(r.Error.Message)}
}

// usageDocument also gives an error of usage the form of a result, on stdout,
// if the command line asks for JSON, however wrong the rest of it is.
func usageDocument(c *cli.Context, err error) error {
	if c.Command.Name != "client" || !asksForJSON(os.Args) {
		return err
	}
	r := client.NewRun(build(), nil)
	r.Error = &result.Error{Kind: "usage", Message: err.Error(), End: sockopt.Client.String()}
	return errors.Join(err, encode.JSON(c.App.Writer, r))
}

// asksForJSON looks for the flag that does in arguments that may be unparsable.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		name, isFlag := flagName(arg)
		value, _ := strings.CutPrefix(arg[min(len(arg), strings.Index(arg+"=", "=")):], "=")
		switch {
		case !isFlag:
		case (name == "J" || name == "json") && value != "false":
			return true
		case name == "format" && slices.Contains([]string{"json", "jsonl"}, value):
			return true
		case name == "format" && value == "" && i+1 < len(args) && slices.Contains([]string{"json", "jsonl"}, args[i+1]):
			return true
		}
	}
	return false
}

// openOutput opens the file for the result; "" is stdout. A file is created
// before the test, so that a bad path costs no test.
func openOutput(stdout io.Writer, path string) (io.Writer, func() error, error) {
	if path == "" {
		return stdout, func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// liveTextStreams is up to how many streams interval lines show what only
// single streams have.
const liveTextStreams = 8
