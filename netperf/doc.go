// Package netperf is the other personality: netperf's client and netserver, on
// the wire, on the command line and in what they print, with gperf's loops below.
// Its parts are netperf/wire (the messages), netperf/options (the command lines)
// and netperf/output (the text); this package makes the sockets, holds the
// exchange, and has flow move the bytes.
//
// docs/netperf.md says what is the same and what is different on purpose.
package netperf
