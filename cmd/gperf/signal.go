//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// onSignal returns a channel that the first SIGINT or SIGTERM closes. The second
// ends the program at once with status. release gives the signals back.
func onSignal(status int) (stop <-chan struct{}, release func()) {
	signals := make(chan os.Signal, 2)
	first, done := make(chan struct{}), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			close(first)
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(status)
		case <-done:
		}
	}()
	return first, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
	})
}

// untilSignal is a context that the first SIGINT or SIGTERM ends, for a cause; nil:
// context.Canceled.
func untilSignal(cause error) (context.Context, func()) {
	stop, release := onSignal(exitSignal)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-stop:
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		release()
	}
}
