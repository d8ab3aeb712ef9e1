package trials

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/units"
	"gperf/sockopt"
)

// settings says a plan as flags would: by the flag's name, what differs between
// the ends as CLIENT:SERVER. It goes by the document's keys, so that a plan of a
// later gperf is read as well.
func settings(plan []byte) map[string]string {
	var p map[string]json.RawMessage
	if json.Unmarshal(plan, &p) != nil || p == nil {
		return nil
	}
	all := map[string]string{}
	client, server := endSettings(p["client"]), endSettings(p["server"])
	delete(p, "client")
	delete(p, "server")
	for key, raw := range p {
		name, value := setting(key, raw)
		all[name] = value
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(client)), slices.Collect(maps.Keys(server))) {
		c, s := client[name], server[name]
		if c == s {
			all[name] = c
		} else {
			all[name] = c + ":" + s
		}
	}
	return all
}

func endSettings(raw json.RawMessage) map[string]string {
	var e map[string]json.RawMessage
	if json.Unmarshal(raw, &e) != nil {
		return nil
	}
	var knobs map[string]json.RawMessage
	_ = json.Unmarshal(e["knobs"], &knobs)
	delete(e, "knobs")
	all := make(map[string]string, len(e)+len(knobs))
	for key, raw := range e {
		name, value := setting(key, raw)
		all[name] = value
	}
	for key, raw := range knobs {
		name, value := knobSetting(key, raw)
		all[name] = value
	}
	return all
}

// flagNames are the flags that aren't called like their keys.
var flagNames = map[string]string{"send_size": "message-size", "cpus": "cpu"}

// setting is the flag and the value of one key of a plan.
func setting(key string, raw json.RawMessage) (name, value string) {
	value = scalarText(raw)
	base := key
	for _, suffix := range []string{"_bytes", "_seconds", "_bits_per_second"} {
		cut, ok := strings.CutSuffix(key, suffix)
		if !ok {
			continue
		}
		base = cut
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && suffix == "_bytes" {
			value = units.ExactSize(n)
		} else if err == nil && suffix == "_bits_per_second" && n != 0 {
			value = strings.ReplaceAll(units.BitRate(float64(n)), " ", "")
		}
	}
	if name, ok := flagNames[base]; ok {
		return name, value
	}
	return strings.ReplaceAll(base, "_", "-"), value
}

func knobSetting(key string, raw json.RawMessage) (name, value string) {
	value = scalarText(raw)
	k, err := sockopt.Lookup(key)
	if err != nil {
		return key, value
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
	case k.IsBool && n == 0:
		value = "off"
	case k.IsBool && n == 1:
		value = "on"
	case k.Unit == "bytes":
		value = units.ExactSize(n)
	}
	return k.Name, value
}

// scalarText is a JSON value as one would write it on a command line; null is
// nothing.
func scalarText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil { // also of null
		return s
	}
	return strings.Trim(string(raw), "[]")
}

// axes are the names of the sweep's axes in their order, as far as its
// specification lists them.
func (h *Header) axes() []string {
	var s struct {
		Axes []struct {
			Names []string `json:"names"`
		} `json:"axes"`
	}
	if json.Unmarshal(h.Spec, &s) != nil {
		return nil
	}
	var names []string
	for _, a := range s.Axes {
		names = append(names, a.Names...)
	}
	return names
}

// untilPrecise reports whether the sweep decided on the way how many trials it
// runs.
func (h *Header) untilPrecise() bool {
	var s struct {
		UntilPrecise float64 `json:"until_precise"`
	}
	return json.Unmarshal(h.Spec, &s) == nil && s.UntilPrecise > 0
}
