package sockopt

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A ProbeRow says what this kernel makes of one knob.
type ProbeRow struct {
	Knob      string `json:"knob"`   // name, as the flag has it
	Option    string `json:"option"` // man page name
	Unit      string `json:"unit"`
	When      string `json:"when"` // in words
	Supported bool   `json:"supported"`
	Reason    string `json:"reason,omitempty"` // why not, or what it needs here
	Default   Value  `json:"default"`          // read from a fresh socket; null: none or unknown
}

// Probe tries each knob of the table on a fresh socket of that family (AF_INET
// or AF_INET6) in the calling thread's network namespace: it reads the default
// and sets it again, which also shows a missing privilege.
func Probe(family int) []ProbeRow {
	env := LocalEnv(Options{})
	rows := make([]ProbeRow, 0, len(table))
	for _, k := range table {
		row := ProbeRow{Knob: k.Name, Option: k.Option, Unit: k.Unit, When: k.When.String()}
		var err error
		row.Default, err = k.probe(family)
		row.Supported = !errors.Is(err, ErrNotSupported)
		switch {
		case !row.Supported:
			row.Reason = unsupportedDetail(k, env)
		case err != nil:
			row.Reason = err.Error()
		case k.server.name != "":
			// Accepted, but is it enabled?
			for _, end := range []End{Client, Server} {
				if v, why := Judge(k, Int(1), Readback{End: end, Effective: Int(1)}, env); v == NoEffect {
					row.Reason = why
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (k *Knob) probe(family int) (Value, error) {
	if k.When == Socket {
		fd, err := scratch(family, unix.IPPROTO_MPTCP)
		if err != nil {
			return Value{}, err
		}
		discard(fd)
	}
	fd, err := scratch(family, 0)
	if err != nil {
		return Value{}, err
	}
	defer discard(fd)
	v, err := k.get(fd, Client)
	if err == nil && v.IsSet() && k.When != Socket {
		err = k.set(fd, Client, v, Options{})
	}
	return v, err
}
