//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gperf/client"
	"gperf/control"
	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
)

func clientCommand(args []string) *cli.Command {
	options := clientFlags()
	return &cli.Command{
		Name:      "client",
		Usage:     "run one test against a server, or over loopback against one of its own",
		ArgsUsage: "[HOST[:PORT]]",
		Description: "Without HOST the client starts a server of its own and tests over loopback. Flags may stand before or after HOST.\n\n" +
			"Every knob takes VALUE for both ends, or CLIENT:SERVER, either of which may be empty. A boolean knob is bare or has its value joined to it: --nodelay, --nodelay=on:off. " +
			"The value auto makes no call. Sizes accept 8K, 8KiB and 8192 (K and KiB are 1024 bytes, kB is 1000); times are seconds, or have a unit, as in 250ms.",
		Flags: flags(options),
		Action: func(c *cli.Context) error {
			if err := runClient(c, options); err != nil {
				return reported(c.App.Writer, args, err)
			}
			return nil
		},
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return reported(c.App.Writer, args, usage("client: %w (see gperf client --help)", libraryError(err, args)))
		},
	}
}

// runClient runs a test. An error that it returns is in no document yet, unless
// it's a failedRun.
func runClient(c *cli.Context, options []option[clientOptions]) error {
	o, host, err := readClient(c, options)
	if err != nil {
		return usage("client: %w", err)
	}
	out, closeOutput, err := openOutput(c.App.Writer, o.output)
	if err != nil {
		return usage("client: %w", err)
	}
	stop, release := onSignal(exitSignal)
	defer release()
	o.Stop = stop

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	watch := newWatcher(o, out, c.App.ErrWriter, cancel)
	o.OnInterval = watch.interval
	if o.repeat == 1 { // of a series one document is shown, at its end
		o.OnStart = watch.start
	}
	r := o.run(ctx, host, c.App.ErrWriter)
	shown := watch.end()
	wrote := o.write(out, r, watch)
	if err := cmp.Or(shown, wrote, closeOutput()); err != nil {
		err = fmt.Errorf("client: write the result: %w", err)
		if shown == nil && r.Error != nil { // what went wrong before matters more
			err = errors.Join(o.verdict(r), err)
		}
		return &failedRun{err}
	}
	if err := o.verdict(r); err != nil {
		return &failedRun{err}
	}
	return nil
}

// run runs the test against host, or against a server of its own.
func (o *clientOptions) run(ctx context.Context, host string, stderr io.Writer) *result.Run {
	if host == "" {
		child, err := startServer(nil)
		if err != nil {
			r := client.NewRun(o.Build, o.Labels)
			r.Plan = o.Plan
			r.Error = &result.Error{Kind: "internal", Message: "client: start a server: " + err.Error(), End: sockopt.Client.String()}
			return r
		}
		defer child.end(stderr)
		o.Host, o.Port = child.addr.Addr().String(), int(child.addr.Port())
	}
	if o.repeat == 1 {
		return client.Run(ctx, o.Config)
	}
	return o.series(ctx)
}

// The bounds of a series that ends when its mean is known; netperf's.
const (
	fewestRuns     = 3
	mostRunsUnsaid = 10
)

// series repeats the test, up to o.repeat times, until the mean is known as well
// as asked, until a run fails or until it's told to stop.
func (o *clientOptions) series(ctx context.Context) *result.Run {
	var runs []*result.Run
	for len(runs) < o.repeat {
		r := client.Run(ctx, o.Config)
		runs = append(runs, r)
		if r.Status != result.Complete {
			break
		}
		if o.confidence != nil && len(runs) >= fewestRuns && result.Series(runs, o.confidence).Repeat.Confidence.Reached {
			break
		}
	}
	return result.Series(runs, o.confidence)
}

// A failedRun is the error of a run whose document has been written, as far as
// that was possible.
type failedRun struct{ error }

func (e *failedRun) Unwrap() error { return e.error }

// readClient makes the client's configuration of flags and arguments.
func readClient(c *cli.Context, options []option[clientOptions]) (*clientOptions, string, error) {
	o := &clientOptions{format: "text", repeat: 1, Config: client.Config{
		Plan:           &plan.Test{Client: plan.End{Knobs: sockopt.Settings{}}, Server: plan.End{Knobs: sockopt.Settings{}}},
		ConnectTimeout: client.DefaultConnectTimeout, Labels: map[string]string{}, Build: build(),
	}}
	if err := parse(c, options, o); err != nil {
		return nil, "", err
	}
	switch {
	case o.confidence != nil && o.repeat == 1:
		o.repeat = mostRunsUnsaid
	case o.confidence != nil && o.repeat < fewestRuns:
		return nil, "", fmt.Errorf("--confidence: needs at least %d runs, --repeat allows %d", fewestRuns, o.repeat)
	}
	o.Plan.Normalise()
	// Text shows the RTT and window of few streams as it goes, not of many.
	o.Plan.LiveStreams = o.Plan.Interval > 0 && (o.format == "jsonl" || o.format == "text" && o.Plan.Streams <= liveTextStreams)
	if err := o.Plan.Validate(); err != nil {
		return nil, "", err
	}
	if err := o.openSink(); err != nil {
		return nil, "", err
	}
	if o.Files.Source != nil && (o.Plan.Client.Send != plan.Sendfile || o.Plan.Verify) {
		return nil, "", errors.New("--file: it's for --send sendfile without --verify")
	}
	if encode.NeedsLatency(o.format) && !o.Plan.Type.RequestResponse() {
		return nil, "", fmt.Errorf("--format %s: %s has no latencies, only request/response tests have", o.format, o.Plan.Type)
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

// openSink opens the file into which the client's splice goes.
func (o *clientOptions) openSink() error {
	if o.sink == "" {
		return nil
	}
	if o.Plan.Client.Receive != plan.Splice || o.Plan.Streams != 1 {
		return errors.New("--sink: it's for --receive splice with one stream")
	}
	var err error
	o.Files.Sink, err = os.Create(o.sink)
	if err != nil {
		return fmt.Errorf("--sink: %w", err)
	}
	return nil
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
	if err := encoder(w, r); err != nil && !(r.Error != nil && errors.Is(err, encode.ErrNoHistogram)) {
		return err
	}
	return nil
}

// verdict is the exit status of a run, and the line on stderr.
func (o *clientOptions) verdict(r *result.Run) error {
	if r.Error == nil && o.strict && !r.Trust.OK {
		return &statusError{exitUntrusted, errors.New("client: the result is not to be trusted: " + strings.Join(r.Trust.Reasons, "; "))}
	}
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

// reported also gives an error the form of a result, on stdout, if the
// arguments ask for JSON, however wrong the rest of them is.
func reported(stdout io.Writer, args []string, err error) error {
	var done *failedRun
	if errors.As(err, &done) {
		return err
	}
	encoder := map[string]encode.Encoder{"json": encode.JSON, "jsonl": encode.ResultJSON}[askedFormat(args)]
	if encoder == nil {
		return err
	}
	r := client.NewRun(build(), nil)
	r.Error = &result.Error{Kind: "usage", Message: err.Error(), End: sockopt.Client.String()}
	return errors.Join(err, encoder(stdout, r))
}

// askedFormat is the format that arguments ask for which may be unparsable.
func askedFormat(args []string) (format string) {
	for i, arg := range args {
		name, isFlag := flagName(arg)
		_, value, joined := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return format
		case !isFlag:
		case name == "format" && joined:
			format = value
		case name == "format" && i+1 < len(args):
			format = args[i+1]
		case name == "J", name == "json":
			if on := true; !joined || parseBool(&on, value) != nil || on {
				format = "json"
			}
		}
	}
	return format
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
