package options

import "slices"

// A netserverParser is what the rows of netserver's table store to.
type netserverParser struct{ *Netserver }

func (p netserverParser) noEffect(what string) { p.NoEffect = append(p.NoEffect, what) }

// ParseNetserver reads a command line of netserver; args[0] is the program's
// name as messages show it, without its folder. The error is always an *Exit.
// Numbers are read as strictly as by ParseNetperf.
func ParseNetserver(args []string) (*Netserver, error) {
	n := &Netserver{Args: slices.Clone(args), Port: DefaultPort, Verbosity: 1}
	if _, err := parse(programName(args, "netserver"), "", netserverOptions, tail(args), netserverParser{n}); err != nil {
		return nil, exit(err, false, netserverUsage)
	}
	return n, nil
}

// netserverOptions are netserver's options.
var netserverOptions = []option[netserverParser]{
	{letter: 'd', help: "say more of what is being done, in a log file; more often, more",
		set: func(p netserverParser, _ argument) error {
			p.Debug++
			return nil
		}},
	{letter: 'D', help: "stay in the foreground",
		set: func(p netserverParser, _ argument) error {
			p.Foreground = true
			return nil
		}},
	{letter: 'f', help: "serve one control connection after another, in one process",
		set: func(p netserverParser, _ argument) error {
			p.Serial = true
			return nil
		}},
	{letter: 'h', help: "this text",
		set: func(netserverParser, argument) error { return errHelp }},
	{letter: 'L', takes: apart, shown: "name,family", help: "the address to listen on, and its family (every address)",
		set: func(p netserverParser, arg argument) error {
			if arg.second != "" {
				f, complaint := parseFamily(arg.second)
				p.Family, p.Listen.Family = f, f
				p.Notes = append(p.Notes, complaint...)
			}
			return storeName(arg.first, &p.Listen.Name)
		}},
	{letter: 'n', takes: value, shown: "n", help: "number of CPUs", idle: "the kernel says how many CPUs there are",
		set: func(_ netserverParser, arg argument) error {
			_, err := serverCPUs.parse(arg.whole)
			return err
		}},
	{letter: 'N', help: "no debug output",
		set: func(p netserverParser, _ argument) error {
			p.NoDebug = true
			return nil
		}},
	{letter: 'p', takes: value, shown: "port", help: "the port to listen on (12865)",
		set: func(p netserverParser, arg argument) error {
			v, err := port.parse(arg.whole)
			p.Port = int(v)
			return err
		}},
	{letter: 'v', takes: value, shown: "n", help: "how much to print (1)", idle: "there is no more to print",
		set: func(p netserverParser, arg argument) error {
			v, err := signed.parse(arg.whole)
			p.Verbosity = int(v)
			return err
		}},
	{letter: 'V', help: "print the version",
		set: func(netserverParser, argument) error { return errVersion }},
	{letter: 'Z', takes: value, shown: "text", help: "passphrase that callers must know",
		set: func(p netserverParser, arg argument) error {
			p.Passphrase, p.HasPassphrase = arg.whole, true
			return nil
		}},
	{letter: '4', help: "IPv4", set: listenFamily(IPv4)},
	{letter: '6', help: "IPv6", set: listenFamily(IPv6)},
}

func listenFamily(f Family) func(netserverParser, argument) error {
	return func(p netserverParser, _ argument) error {
		p.Family, p.Listen.Family = f, f
		return nil
	}
}

func netserverUsage() string {
	return "\nUsage: netserver [options]\n\nOptions:\n" + usage(netserverOptions)
}
