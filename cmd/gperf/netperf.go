//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gperf/netperf"
	"gperf/netperf/options"
)

// oneWish is how long after a signal another one says no more than the first:
// timeout(1) signals the process and then its group. A later one has no patience.
const oneWish = 500 * time.Millisecond

// runNetperf is netperf: args as it would get them, the program's name first. It
// has netperf's streams and exit statuses.
func runNetperf(args []string, stdout, stderr io.Writer) int {
	o, err := options.ParseNetperf(args)
	if err != nil {
		return exit(err, stdout, stderr)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGALRM)
	defer signal.Stop(signals)
	stop := make(chan struct{})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		<-signals
		close(stop)
		patient := time.Now().Add(oneWish)
		for range signals {
			if time.Now().After(patient) {
				cancel(errors.New("interrupted"))
				return
			}
		}
	}()
	c := &netperf.Client{
		Options: o, Stdout: stdout, Stderr: stderr, Stop: stop, Build: build(),
		Warn: os.Getenv("GPERF_WARN") != "", DumpTCPInfo: os.Getenv("DUMP_TCP_INFO") != "",
	}
	return c.Run(ctx)
}

// exit prints what a command line asks to be printed, and returns its status.
func exit(err error, stdout, stderr io.Writer) int {
	var e *options.Exit
	if !errors.As(err, &e) {
		_, _ = io.WriteString(stderr, err.Error()+"\n")
		return exitFailed
	}
	_, _ = io.WriteString(stdout, e.Stdout)
	_, _ = io.WriteString(stderr, e.Stderr)
	return e.Status
}
