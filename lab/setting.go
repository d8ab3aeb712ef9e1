package lab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gperf/internal/units"
	"gperf/sockopt"

	"golang.org/x/sys/unix"
)

// A Setting is one thing that is to hold in a lab.
type Setting struct {
	// End is "client" or "server", or "" for both. Of what shapes the link it
	// names the end that sends.
	End   string `json:"end"`
	Name  string `json:"name"` // as in Names, with what it is of: "sysctl.net.ipv4.tcp_rmem"
	Value string `json:"value"`
}

// An Applied is a setting in force at one end.
type Applied struct {
	End       string `json:"end"` // "client" or "server"; "" in a Loopback lab, whose one namespace both share
	Name      string `json:"name"`
	Requested string `json:"requested"` // "" if it wasn't asked for but follows from what was
	Effective string `json:"effective"` // as the kernel, or gperf's own link, has it
}

// A SettingDoc is one row of the table of settings.
type SettingDoc struct {
	Name  string // "mtu", or with the placeholder of a family: "sysctl.NAME"
	Value string // what a value looks like
	Doc   string // one sentence
	Kinds []Kind
}

// A row is what the lab knows of one setting, or of a family of settings whose
// names have a prefix in common.
type row struct {
	doc   SettingDoc
	group group
	// normal checks a value and returns it the way read returns it. arg is
	// what follows the prefix of a family.
	normal func(kind Kind, arg, value string) (string, error)

	// Of the plain settings. They run in the namespace.
	set  func(p *place, arg, value string) error
	read func(p *place, arg string) (string, error)
	// save returns a function that puts back what is in force now. Without
	// it, that is setting what read returns.
	save func(p *place, arg string) (func() error, error)
}

// A group says how a setting is put into force.
type group int

const (
	plain     group = iota // by itself
	egressing              // with the others of what a device sends by: see egress
	linking                // with the others of what the link is made of: see link and shape
)

var (
	both     = []Kind{Loopback, Veth}
	vethOnly = []Kind{Veth}
)

// rows is the table. The order is that of setting: an MTU is in force before a
// queueing discipline whose burst depends on it. It is filled in by init, for
// what the rows refer to refers to the table.
var rows []*row

func init() {
	rows = []*row{
		{
			doc:    SettingDoc{"queues", "1..1024", "transmit and receive queues of the end's device; the link is made anew", vethOnly},
			group:  linking,
			normal: normalInt(1, 1024),
		},
		{
			doc:   SettingDoc{"delay", "0..10s", "time that each packet takes to the other end, each way its own; round trips take both", vethOnly},
			group: linking, normal: normalDelay,
		},
		{
			doc:   SettingDoc{"jitter", "0..10s", "delay is spread evenly between itself less this and itself plus this; packets stay in order", vethOnly},
			group: linking, normal: normalDelay,
		},
		{
			doc:   SettingDoc{"delay-spike", "TIME@AFTER", "once, AFTER the link's first packet, packets are held for TIME: 400ms@1s", vethOnly},
			group: linking, normal: normalSpike,
		},
		{
			doc:   SettingDoc{"loss", "P%, P%xN, 1/N", "packets lost: each by chance, by chance in runs of N, or exactly every Nth; turns TSO on the link off", vethOnly},
			group: linking, normal: normalLoss,
		},
		{
			doc:   SettingDoc{"reorder", "P%", "share of packets that skip the delay, and so overtake others", vethOnly},
			group: linking, normal: normalPercent,
		},
		{
			doc:   SettingDoc{"link-seed", "0..2^63-1", "start of the random numbers of jitter, loss and reorder; 1 unless given", vethOnly},
			group: linking, normal: normalInt(0, 1<<63-1),
		},
		{
			doc: SettingDoc{"mtu", "68..65535 (lo: 65536)", "largest packet in bytes; below 1280 there is no IPv6", both},
			normal: func(kind Kind, arg, value string) (string, error) {
				return normalInt(68, maxMTU[kind])(kind, arg, value)
			},
			set: setMTU, read: readMTU,
		},
		{
			doc:    SettingDoc{"sysctl.NAME", "text", "a sysctl of the network namespace, such as sysctl.net.ipv4.tcp_rmem", both},
			normal: normalSysctl,
			set:    func(_ *place, arg, value string) error { return writeSysctl(arg, value) },
			read:   func(_ *place, arg string) (string, error) { return readSysctl(arg) },
		},
		{
			doc:    SettingDoc{"offload.NAME", "on, off", "an offload of the end's device: tso, gso, gro, sg, tx, rx, lro, or the kernel's own name (ethtool(8))", both},
			normal: normalFeature,
			set:    setFeature, read: readFeature, save: saveFeature,
		},
		{
			doc:    SettingDoc{"gso-max-size", "1024..524280", "largest packet in bytes that TSO and GSO make, of IPv4 and IPv6 (ip-link(8))", both},
			normal: normalInt(1024, 524280),
			set:    setGSOMaxSize, read: readGSOMaxSize,
		},
		{
			doc:    SettingDoc{"gso-max-segs", "1..65535", "most segments in such a packet (ip-link(8))", both},
			normal: normalInt(1, 65535),
			set:    setGSOMaxSegs, read: readGSOMaxSegs,
		},
		{
			doc:   SettingDoc{"link-rate", "8k..1T", "rate at which an end sends, in bits per second of Ethernet frames: a token bucket of a millisecond (tc-tbf(8)), or that of a delayed link", vethOnly},
			group: egressing, normal: normalRate,
		},
		{
			doc:   SettingDoc{"link-queue", "2K..1G", "bytes that wait for the rate before more are dropped; 10 ms at the rate unless given, at least 256K", vethOnly},
			group: egressing, normal: normalQueue,
		},
		{
			doc:   SettingDoc{"qdisc", strings.Join(qdiscs, ", "), "queueing discipline with the kernel's defaults; below the token bucket if there is a link-rate", both},
			group: egressing, normal: normalQdisc,
		},
	}
}

// maxMTU is the largest MTU in bytes of a kind's device. That of lo is the
// kernel's own default; more would be taken, but no packet is longer.
var maxMTU = map[Kind]int64{Loopback: 65536, Veth: 65535}

// Names returns the table of settings, for help and documentation, in the
// order in which they are set.
func Names() []SettingDoc {
	docs := make([]SettingDoc, len(rows))
	for i, r := range rows {
		docs[i] = r.doc
		docs[i].Kinds = slices.Clone(r.doc.Kinds)
	}
	return docs
}

// find returns the row of a setting, and what follows the prefix of a family.
func find(name string) (r *row, arg string, err error) {
	for _, r := range rows {
		if name == r.doc.Name {
			if strings.HasSuffix(name, ".NAME") {
				break // the placeholder itself
			}
			return r, "", nil
		}
		prefix, family := strings.CutSuffix(r.doc.Name, "NAME")
		if arg, ok := strings.CutPrefix(name, prefix); family && ok && arg != "" {
			return r, arg, nil
		}
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.doc.Name)
	}
	return nil, "", fmt.Errorf("unknown lab setting %q (%s)", name, strings.Join(names, ", "))
}

// CheckSetting says why a setting can't hold in a lab of a kind, as far as that
// is known without making one: an unknown name, a value out of its range, and
// what the kernel keeps for the whole machine. It may be called outside a lab,
// where it asks about the machine. What only the kernel of a lab can say (that
// it has a queueing discipline, that it takes a sysctl's value) Apply says.
func CheckSetting(kind Kind, s Setting) error {
	_, err := normalise(kind, s)
	return err
}

// Check does the same for settings that are to hold together.
func Check(kind Kind, settings []Setting) error {
	_, err := resolve(kind, settings)
	return err
}

// normalise checks a setting and returns its value as it reads back.
func normalise(kind Kind, s Setting) (string, error) {
	if err := kind.check(); err != nil {
		return "", err
	}
	r, arg, err := find(s.Name)
	if err != nil {
		return "", err
	}
	fault := func(format string, args ...any) error {
		return fmt.Errorf("lab setting %s: %w", s.Name, fmt.Errorf(format, args...))
	}
	switch {
	case !slices.Contains(r.doc.Kinds, kind):
		return "", fault("not in a %s lab, which has no link between its ends", kind)
	case s.End != "" && s.End != sockopt.Client.String() && s.End != sockopt.Server.String():
		return "", fault("unknown end %q (client, server)", s.End)
	case s.End != "" && kind == Loopback:
		return "", fault("the ends share one namespace in a loopback lab: give it for both")
	}
	value, err := r.normal(kind, arg, s.Value)
	if err != nil {
		return "", fault("%w", err)
	}
	return value, nil
}

// A wish is a setting that is to hold in one place.
type wish struct {
	row       *row
	arg, name string
	requested string
	value     string // normal form
}

// A wanted is all that is to hold in one place.
type wanted struct {
	end    string
	wishes []wish
	egress egress
	shape  shape
	queues int
}

// relayed reports whether the place's sending needs gperf's own link.
func (w *wanted) relayed() bool {
	return slices.ContainsFunc(w.wishes, func(w wish) bool {
		return w.row.group == linking && w.name != "queues" && w.name != "link-seed"
	})
}

// resolve checks settings and sorts them by place, each in the order of
// setting.
func resolve(kind Kind, settings []Setting) ([]*wanted, error) {
	all := []*wanted{{}}
	if kind == Veth {
		all = []*wanted{{end: sockopt.Client.String()}, {end: sockopt.Server.String()}}
	}
	for _, s := range settings {
		value, err := normalise(kind, s)
		if err != nil {
			return nil, err
		}
		r, arg, _ := find(s.Name)
		for _, w := range all {
			if s.End != "" && s.End != w.end {
				continue
			}
			if slices.ContainsFunc(w.wishes, func(w wish) bool { return w.name == s.Name }) {
				return nil, fmt.Errorf("lab setting %s: given twice", s.Name)
			}
			w.wishes = append(w.wishes, wish{r, arg, s.Name, s.Value, value})
		}
	}
	relayed := slices.ContainsFunc(all, (*wanted).relayed)
	for _, w := range all {
		slices.SortStableFunc(w.wishes, func(a, b wish) int { return slices.Index(rows, a.row) - slices.Index(rows, b.row) })
		if err := w.compose(relayed); err != nil {
			return nil, err
		}
	}
	if relayed {
		if err := checkTUN(); err != nil {
			for _, w := range all {
				for _, wish := range w.wishes {
					if wish.row.group == linking && wish.name != "queues" {
						return nil, fmt.Errorf("lab setting %s: %w", wish.name, err)
					}
				}
			}
		}
	}
	return all, nil
}

// value returns the normal form of a setting, or "" if it isn't wanted.
func (w *wanted) value(name string) string {
	for _, wish := range w.wishes {
		if wish.name == name {
			return wish.value
		}
	}
	return ""
}

// compose fills in what has to be set together, from values that have been
// checked one by one.
func (w *wanted) compose(relayed bool) error {
	fault := func(name, why string) error { return fmt.Errorf("lab setting %s: %s", name, why) }
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(w.value(name), 10, 64)
		return n
	}
	span := func(name string) time.Duration {
		d, _ := time.ParseDuration(w.value(name))
		return d
	}
	rate, _ := units.ParseBitRate(cmp.Or(w.value("link-rate"), "0"))
	queue, _ := units.ParseSize(cmp.Or(w.value("link-queue"), "0"))
	kind := w.value("qdisc")
	w.queues = int(number("queues"))
	w.shape = shape{
		rate: rate, queue: queue, delay: span("delay"), jitter: span("jitter"), seed: 1,
		spike: parseSpike(w.value("delay-spike")), loss: parseLoss(w.value("loss")), reorder: parsePercent(w.value("reorder")),
	}
	if w.value("link-seed") != "" {
		w.shape.seed = uint64(number("link-seed"))
	}
	if rate > 0 && queue == 0 {
		w.shape.queue = defaultQueue(rate)
	}
	w.egress = egress{kind: kind}
	if !relayed {
		w.egress.rate, w.egress.queue = uint64(rate), w.shape.queue
	}
	switch {
	case w.shape.jitter > w.shape.delay:
		return fault("jitter", "longer than the delay that it spreads")
	case w.shape.reorder > 0 && w.shape.delay == 0:
		return fault("reorder", "needs a delay: without one there is nothing to overtake")
	case queue > 0 && rate == 0:
		return fault("link-queue", "needs a link-rate: without one nothing waits")
	case w.value("link-seed") != "" && !relayed:
		return fault("link-seed", "needs jitter, loss or reorder: nothing else is random")
	case w.queues > 0 && relayed:
		return fault("queues", "not with delay, jitter, loss or reorder: gperf's own link has one queue")
	case kind == "htb" && (rate == 0 || relayed):
		return fault("qdisc", "htb needs a link-rate, and no delay, jitter, loss or reorder")
	case queue > 0 && kind != "" && !relayed:
		return fault("link-queue", "not with a qdisc, which has a queue of its own")
	case kind == "noqueue" && rate > 0 && !relayed:
		return fault("qdisc", "a link-rate needs a queue")
	}
	if relayed && w.shape.plainPackets() {
		for _, name := range []string{"offload.tso", "offload.tx-tcp-segmentation", "offload.tx-tcp6-segmentation"} {
			if w.value(name) == "on" {
				return fault(name, "a link with loss, a link-queue or a link-rate up to 1 Gbit/s carries packets of one MTU")
			}
		}
	}
	return nil
}

// normalInt returns a check for whole numbers in a range.
func normalInt(lo, hi int64) func(Kind, string, string) (string, error) {
	return func(_ Kind, _, value string) (string, error) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < lo || n > hi {
			return "", fmt.Errorf("%q isn't a whole number from %d to %d", value, lo, hi)
		}
		return strconv.FormatInt(n, 10), nil
	}
}

// maxDelay bounds delays: longer ones than between any two places on earth,
// and short enough for the memory of a link at the usual rates.
const maxDelay = 10 * time.Second

func normalDelay(_ Kind, _, value string) (string, error) {
	d, err := units.ParseDuration(value)
	if err != nil {
		return "", err
	}
	if d > maxDelay {
		return "", fmt.Errorf("%v is longer than %v", d, maxDelay)
	}
	return d.String(), nil
}

func normalSpike(_ Kind, _, value string) (string, error) {
	held, after, ok := strings.Cut(value, "@")
	if !ok {
		return "", fmt.Errorf("%q isn't TIME@AFTER, such as 400ms@1s", value)
	}
	d, err := units.ParseDuration(held)
	if err != nil {
		return "", err
	}
	a, err := units.ParseDuration(after)
	if err != nil {
		return "", err
	}
	if d <= 0 || d > maxDelay {
		return "", fmt.Errorf("%v isn't above 0 and at most %v", d, maxDelay)
	}
	return d.String() + "@" + a.String(), nil
}

func parseSpike(value string) (s spike) {
	held, after, _ := strings.Cut(value, "@")
	s.held, _ = time.ParseDuration(held)
	s.after, _ = time.ParseDuration(after)
	return s
}

func normalPercent(_ Kind, _, value string) (string, error) {
	number, ok := strings.CutSuffix(value, "%")
	p, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(p >= 1e-6 && p <= 100) {
		return "", fmt.Errorf("%q isn't a percentage from 0.000001%% to 100%%", value)
	}
	return formatPercent(p / 100), nil
}

// formatPercent prints a share of one as a percentage, to a millionth: the
// factor of 100 has no exact inverse.
func formatPercent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e8)/1e6, 'f', -1, 64) + "%"
}

// parsePercent reads a normal form as a share of one; "" is 0.
func parsePercent(value string) float64 {
	p, _ := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
	return p / 100
}

func normalLoss(kind Kind, arg, value string) (string, error) {
	if text, ok := strings.CutPrefix(value, "1/"); ok {
		n, err := normalInt(1, 1<<31-1)(kind, arg, text)
		return "1/" + n, err
	}
	share, run, inRuns := strings.Cut(value, "x")
	p, err := normalPercent(kind, arg, share)
	if err != nil {
		return "", fmt.Errorf("%q is none of P%%, P%%xN, 1/N with P from 0.000001 to 100", value)
	}
	if !inRuns {
		return p, nil
	}
	n, err := normalInt(1, 1<<20)(kind, arg, run)
	return p + "x" + n, err
}

func parseLoss(value string) (l loss) {
	if value == "" {
		return l
	}
	if text, ok := strings.CutPrefix(value, "1/"); ok {
		l.every, _ = strconv.ParseInt(text, 10, 64)
		return l
	}
	share, run, _ := strings.Cut(value, "x")
	l.share = parsePercent(share)
	l.run, _ = strconv.ParseInt(cmp.Or(run, "1"), 10, 64)
	return l
}

func normalRate(_ Kind, _, value string) (string, error) {
	rate, err := units.ParseBitRate(value)
	if err != nil {
		return "", err
	}
	if rate < 8e3 || rate > 1e12 {
		return "", fmt.Errorf("%s isn't from 8 kbit/s to 1 Tbit/s", units.BitRate(rate))
	}
	return formatRate(uint64(rate)), nil
}

// formatRate prints bits per second in the shortest form that reads back the
// same. The kernel counts whole bytes.
func formatRate(bits uint64) string {
	bits -= bits % 8
	for _, u := range []struct {
		suffix string
		factor uint64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if bits >= u.factor && bits%u.factor == 0 {
			return strconv.FormatUint(bits/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatUint(bits, 10)
}

func normalQueue(_ Kind, _, value string) (string, error) {
	n, err := units.ParseSize(value)
	if err != nil {
		return "", err
	}
	if n < 2<<10 || n > 1<<30 {
		return "", fmt.Errorf("%s isn't from 2K to 1G", value)
	}
	return units.ExactSize(n), nil
}

// defaultQueue is the queue in bytes of a link with a rate and no link-queue.
func defaultQueue(rate float64) int64 { return max(256<<10, int64(rate/8/100)) }

// qdiscs are the queueing disciplines that work without parameters, and htb,
// whose parameters are those of its only class.
var qdiscs = []string{"pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "fq_pie", "codel", "pie", "cake", "sfq", "htb", "noqueue"}

func normalQdisc(_ Kind, _, value string) (string, error) {
	if !slices.Contains(qdiscs, value) {
		return "", fmt.Errorf("unknown queueing discipline %q (%s)", value, strings.Join(qdiscs, ", "))
	}
	return value, nil
}

// whyNot turns an error of the kernel into words where they say more.
func whyNot(err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the device can't: %w", err)
	case errors.Is(err, unix.ERANGE):
		return fmt.Errorf("out of the device's range: %w", err)
	}
	return err
}
