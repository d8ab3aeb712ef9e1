//go:build linux

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strconv"

	"github.com/urfave/cli/v2"

	"gperf/control"
	"gperf/internal/units"
	"gperf/netperf"
	"gperf/server"
)

// serverOptions is what the server's flags say.
type serverOptions struct {
	server.Config

	portFile string
	verbose  bool
	netperf  string // where netperf's clients are served, beside the other addresses
}

// netperfOff is --netperf's word for not serving netperf's clients.
const netperfOff = "off"

// readyWords stand in the line that says that the server is ready, before its
// address.
const readyWords = "listening on "

func serverFlags() []option[serverOptions] {
	type o = serverOptions
	d := server.DefaultLimits
	return []option[o]{
		{name: "listen", value: "ADDR", usage: "address to listen on: ADDR:PORT, :PORT or ADDR; port 0 is any free one; may be repeated (default every address, port " + strconv.Itoa(control.Port) + ")",
			apply: func(t *o, s string) error { t.Listen = append(t.Listen, s); return server.CheckListen(s) }},
		{name: "data-ports", value: "A-B", usage: "ports for tests of UDP, and for those whose knobs must be set before listen() (default any); with it connection tests have one of their own, too",
			apply: func(t *o, s string) (err error) { t.DataPorts, err = server.ParsePortRange(s); return err }},
		{name: "secret-file", value: "FILE", usage: "serve only clients that prove to have the same secret",
			apply: func(t *o, s string) (err error) { t.Secret, err = readSecret(s); return err }},
		{name: "allow", value: "CIDR", usage: "serve only clients of this network; may be repeated",
			apply: func(t *o, s string) error {
				p, err := parseNetwork(s)
				t.Allow = append(t.Allow, p)
				return err
			}},
		{name: "max-streams", value: "N", usage: fmt.Sprintf("most streams of a test (default %d)", d.Streams),
			apply: func(t *o, s string) error { return parseInt(&t.Limits.Streams, s) }},
		{name: "max-duration", value: "TIME", usage: fmt.Sprintf("longest test (default %.0fh)", d.Duration.Hours()),
			apply: func(t *o, s string) (err error) { t.Limits.Duration, err = parsePositive(s); return err }},
		{name: "max-tests", value: "N", usage: fmt.Sprintf("most tests at once (default %d)", d.Tests),
			apply: func(t *o, s string) error { return parseInt(&t.Limits.Tests, s) }},
		{name: "max-memory", value: "SIZE", usage: "most buffer memory of a test (default " + units.ExactSize(d.Memory) + ")",
			apply: func(t *o, s string) error { return parseSize(&t.Limits.Memory, s) }},
		{name: "netperf", value: "ADDR|off", usage: fmt.Sprintf("where to serve netperf's clients, as --listen has it, beside the other addresses, which serve them too; off: nowhere (default every address, port %d; off with --secret-file, and no more than the others with --listen)", netperf.Port),
			apply: func(t *o, s string) error {
				t.netperf = s
				if s == netperfOff {
					return nil
				}
				return server.CheckListen(s)
			}},
		{name: "once", isBool: true, usage: "serve one test, then end",
			apply: func(t *o, s string) error { return parseBool(&t.Once, s) }},
		{name: "port-file", value: "FILE", usage: "write the port of the first address to FILE once ready",
			apply: func(t *o, s string) error { t.portFile = s; return nil }},
		{name: "netns", value: "NAME|PID", usage: "serve in this network namespace: a name of ip netns, a process, or a path (CAP_SYS_ADMIN)",
			apply: func(_ *o, s string) error { return enterNetns(s) }},
		{name: "verbose", isBool: true, usage: "log each session on stderr",
			apply: func(t *o, s string) error { return parseBool(&t.verbose, s) }},
	}
}

func serverCommand() *cli.Command {
	options := serverFlags()
	return &cli.Command{
		Name:  "server",
		Usage: "serve tests",
		Description: "Serves any number of clients at once, all over one port, until a signal ends it. When it's ready it prints a line with the address that it really listens on. " +
			"Without --secret-file and --allow it serves everyone, within its limits.",
		Flags:  flags(options),
		Action: func(c *cli.Context) error { return runServer(c, options) },
	}
}

func runServer(c *cli.Context, options []option[serverOptions]) error {
	o := &serverOptions{}
	if err := parse(c, options, o); err != nil {
		return usage("server: %w", err)
	}
	if c.Args().Present() {
		return usage("server: unexpected argument %q", c.Args().First())
	}
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	o.Log = slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: level}))
	o.Program = "gperf " + build().Version
	if o.Secret != nil {
		if o.netperf != "" && o.netperf != netperfOff {
			return usage("server: --netperf %s: netperf's clients can't prove that they have the secret of --secret-file", o.netperf)
		}
		o.netperf = netperfOff
	}
	if o.netperf != netperfOff {
		o.Protocols = append(o.Protocols, &netperf.Server{})
	}
	s, err := server.New(o.Config)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := o.serveNetperf(s); err != nil {
		return err
	}
	ctx, release := untilSignal(nil)
	defer release()
	if o.portFile != "" {
		if err := writePort(o.portFile, s.Addrs()[0].Port()); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	for _, addr := range s.Addrs() {
		if _, err := fmt.Fprintf(c.App.Writer, "gperf server %s%s\n", readyWords, addr); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	if err := s.Serve(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// serveNetperf opens netperf's own port. That somebody has it is no reason not to
// serve the others.
func (o *serverOptions) serveNetperf(s *server.Server) error {
	if o.netperf == netperfOff || o.netperf == "" && o.Listen != nil {
		return nil
	}
	addr, err := server.ParseListen(o.netperf, netperf.Port)
	if err != nil {
		return usage("server: --netperf: %w", err)
	}
	if err := s.Open(addr); err != nil {
		o.Log.Warn("netperf's clients are not served at their own port", "error", err)
	}
	return nil
}

// writePort writes the port in one step, so that a reader never sees half of it.
func writePort(path string, port uint16) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(strconv.Itoa(int(port))+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// parseNetwork reads a network, or an address for itself alone.
func parseNetwork(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, errors.New("want a network such as 192.0.2.0/24")
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}
