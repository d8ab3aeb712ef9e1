//go:build linux

package main

import (
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
