package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/stats"
)

const kib, mib = 1 << 10, 1 << 20

// A moverPair is how gperf's two ends move the bytes.
type moverPair struct {
	send, receive string
	pipe          int  // 0: neither end has one
	twoCPUs       bool // only measured there
}

// The pairs that say something: both ends by pipes, each way to send against the
// cheapest receiver, and splice against read as the only difference.
var moverPairs = []moverPair{
	{plan.Write, plan.Discard, 0, false},
	{plan.Sendfile, plan.Discard, 0, false},
	{plan.Zerocopy, plan.Read, 0, true},
	{plan.Splice, plan.Read, 256 * kib, false},
	{plan.Sendfile, plan.Splice, 256 * kib, false},
	{plan.Vmsplice, plan.Discard, 256 * kib, false},
	{plan.Vmsplice, plan.Splice, 256 * kib, false},
	{plan.Write, plan.Splice, 64 * kib, false},
	{plan.Write, plan.Splice, 256 * kib, false},
	{plan.Write, plan.Splice, mib, false},
	{plan.Splice, plan.Discard, 64 * kib, false},
	{plan.Splice, plan.Discard, 256 * kib, false},
	{plan.Splice, plan.Discard, mib, false},
	{plan.Splice, plan.Splice, 64 * kib, false},
	{plan.Splice, plan.Splice, 256 * kib, false},
	{plan.Splice, plan.Splice, mib, false},
}

// side is the pair as a side on gperf. A message of vmsplice is as large as the
// pipe, others' a MiB; one receive call asks for what fits its mover.
func (p moverPair) side(gperf *tool, cpus *[2]int) side {
	t := test{size: mib, receive: 128 * kib, streams: 1, cpus: cpus, more: []string{"--send", p.send, "--receive", p.receive}}
	label := p.send + " -> " + p.receive
	if p.pipe > 0 {
		if p.send == plan.Vmsplice {
			t.size = p.pipe
		}
		t.more = append(t.more, "--pipe-size", strconv.Itoa(p.pipe))
		label += ", pipe " + size(p.pipe)
	}
	switch p.receive {
	case plan.Discard:
		t.receive = mib
	case plan.Splice:
		t.receive = p.pipe
	}
	return side{gperf, t, label}
}

// baseline is what every row is paired with.
func baseline(gperf *tool, cpus *[2]int) side {
	return side{gperf, test{size: 128 * kib, receive: 128 * kib, streams: 1, cpus: cpus}, "write 128K -> read 128K"}
}

// moverPeers are the others' best ways. file is one to send. It also returns what
// can't be had.
func moverPeers(peers []*tool, file string, cpus *[2]int) (sides []side, leftOut []string) {
	for _, peer := range peers {
		t := test{size: 128 * kib, receive: 128 * kib, streams: 1, cpus: cpus}
		switch peer {
		case netperf:
			sides = append(sides, side{peer, t, "netperf TCP_STREAM"})
			if got, err := defaultCongestion(); err != nil {
				leftOut = append(leftOut, fmt.Sprintf("netperf TCP_SENDFILE: loopback's default congestion control: %v", err))
				continue
			} else if got != congestion {
				leftOut = append(leftOut, fmt.Sprintf("netperf TCP_SENDFILE: it can't choose the congestion control, and loopback's default is %s. In a network namespace, \"ip route change local 127.0.0.1 dev lo table local congctl %s\" changes that", got, congestion))
				continue
			}
			sides = append(sides, side{netperfSendfile(file), t, "netperf TCP_SENDFILE"})
		case iperf3:
			t.more = []string{"-Z"}
			if help, _ := exec.Command("iperf3", "--help").CombinedOutput(); bytes.Contains(help, []byte("--skip-rx-copy")) {
				t.more = append(t.more, "--skip-rx-copy")
			}
			sides = append(sides, side{peer, t, "iperf3 " + strings.Join(t.more, " ")})
		case neper:
			// A receive call that copies nothing had better ask for much.
			t.size, t.receive, t.more = mib, mib, []string{"--skip-rx-copy"}
			sides = append(sides, side{peer, t, "neper --skip-rx-copy -B 1M"})
		}
	}
	return sides, leftOut
}

// defaultCongestion is what a connection over loopback gets that doesn't choose:
// the sysctl's, or the route's (ip route ... congctl), which a namespace can have
// to itself.
func defaultCongestion() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return "", err
	}
	var name string
	var errno error
	err = raw.Control(func(fd uintptr) {
		name, errno = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	return strings.TrimRight(name, "\x00"), errors.Join(err, errno)
}

// netperfSendfile is netperf's TCP_SENDFILE of file, of its older kind of tests:
// they have fewer options, print a table, and the server ends with one.
func netperfSendfile(file string) *tool {
	n := *netperf
	n.oneShot = true
	n.client = func(t test, p ports) []string {
		args := []string{"netperf", "-4", "-H", "127.0.0.1", "-p", p[0], "-P", "0", "-l", seconds(t.window), "-t", "TCP_SENDFILE", "-F", file}
		if t.cpus != nil {
			args = append(args, "-T", fmt.Sprintf("%d,%d", t.cpus[0], t.cpus[1]))
		}
		return append(args, "--", "-m", strconv.Itoa(t.size), "-M", strconv.Itoa(t.receive))
	}
	n.parse = parseNetperfTable
	return &n
}

// parseNetperfTable reads the row that netperf prints without its heading
// (-P 0): sizes of receive buffer, send buffer and message, seconds, and the
// 10^6 bits per second that the client sent.
func parseNetperfTable(_ test, stdout []byte) (float64, error) {
	cells := strings.Fields(string(stdout))
	if len(cells) != 5 {
		return 0, fmt.Errorf("%d columns instead of 5 in %q", len(cells), stdout)
	}
	rate, err := number(map[string]string{"throughput": cells[4]}, "throughput")
	return rate * 1e6, err
}

// gperfPerCall reads the mean bytes of the calls of both ends. A stream whose
// mover gave up has measured something else.
func gperfPerCall(t test, stdout []byte) (sent, received float64, err error) {
	if t.rr {
		return 0, 0, nil
	}
	run, err := encode.Decode(bytes.NewReader(stdout))
	if err != nil {
		return 0, 0, err
	}
	var moved, calls [2]uint64
	for _, s := range run.Streams {
		for i, e := range []*result.StreamEnd{s.Client, s.Server} {
			if e == nil {
				return 0, 0, fmt.Errorf("stream %d lacks an end", s.ID)
			}
			if e.Mover != nil && e.Mover.FellBack {
				return 0, 0, fmt.Errorf("stream %d: the kernel refused %s", s.ID, e.Mover.Name)
			}
			if i == 0 {
				moved[i], calls[i] = moved[i]+e.SentBytes, calls[i]+e.SendCalls
			} else {
				moved[i], calls[i] = moved[i]+e.ReceivedBytes, calls[i]+e.ReceiveCalls
			}
		}
	}
	if calls[0] == 0 || calls[1] == 0 {
		return 0, 0, errors.New("an end made no calls")
	}
	return float64(moved[0]) / float64(calls[0]), float64(moved[1]) / float64(calls[1]), nil
}

// A moverRow is a row of the movers' table: a side against the baseline.
type moverRow struct {
	side
	base          side
	rate, cpu     figure
	send, receive float64 // median bytes per call; 0: not told
	err           error
}

// A moverReport is the movers' part of the report.
type moverReport struct {
	rows    []*moverRow
	bases   map[string][]sample // the baseline's runs, by placement
	finals  []outcome
	leftOut []string
	errs    []error
}

// measureMovers measures gperf's movers and the peers' against the baseline, then
// the best of gperf's against the best of the others'. Two rows share a baseline,
// which runs between them.
func measureMovers(ctx context.Context, c config, gperf *tool, peers []*tool, cpus []int, record func(*sample) error, progress io.Writer) (*moverReport, error) {
	dir, err := os.MkdirTemp("", "gperf-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "payload")
	if err := os.WriteFile(file, make([]byte, mib), 0o600); err != nil {
		return nil, err
	}
	counted := *gperf
	counted.perCall = gperfPerCall
	r := &moverReport{bases: make(map[string][]sample)}
	places, leftOut := placements(cpus)
	r.leftOut = leftOut
	for _, place := range places {
		var sides []side
		for _, p := range moverPairs {
			if !p.twoCPUs || place[0] != place[1] {
				sides = append(sides, p.side(&counted, place))
			}
		}
		others, leftOut := moverPeers(peers, file, place)
		if sides = append(sides, others...); place == places[0] {
			r.leftOut = append(r.leftOut, leftOut...)
		}
		sides = slices.DeleteFunc(sides, func(s side) bool { return !c.only.MatchString(moverName(s)) })
		from := len(r.rows)
		for some := range slices.Chunk(sides, 2) {
			for _, s := range some {
				fmt.Fprintln(progress, "bench:", moverName(s))
			}
			r.measure(ctx, c, some, baseline(&counted, place), record)
			if ctx.Err() != nil {
				return r, nil
			}
		}
		if a, b := best(r.rows[from:], true), best(r.rows[from:], false); a != nil && b != nil {
			final := &comparison{"best movers", a.side, b.side}
			fmt.Fprintln(progress, "bench:", final.name())
			out, err := final.measure(ctx, c, record)
			if ctx.Err() != nil {
				return r, nil
			}
			if out.err = err; err != nil {
				r.errs = append(r.errs, err)
			}
			r.finals = append(r.finals, out)
		}
	}
	return r, nil
}

// moverName is a row's, for -only and the progress.
func moverName(s side) string { return fmt.Sprintf("movers, CPUs %s, %s", s.placement(), s.label) }

// measure measures one side or two against the baseline between them.
func (r *moverReport) measure(ctx context.Context, c config, some []side, base side, record func(*sample) error) {
	sides := slices.Insert(slices.Clone(some), 1, base)
	all, err := rounds(ctx, c, "movers", sides, record)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	for i, s := range sides {
		s.window, base.window = c.duration, c.duration // for the commands
		if i == 1 {
			continue
		}
		row := &moverRow{side: s, base: base, err: err}
		if r.rows = append(r.rows, row); err != nil {
			continue
		}
		row.rate, row.cpu = figures(all[i], all[1])
		row.send = median(all[i], func(s *sample) float64 { return s.PerSend })
		row.receive = median(all[i], func(s *sample) float64 { return s.PerReceive })
	}
	if err == nil {
		r.bases[base.placement()] = append(r.bases[base.placement()], all[1]...)
	}
}

// best is the fastest row of gperf's, or of the others', against the baseline
// measured beside it; nil if there is none.
func best(rows []*moverRow, ours bool) (most *moverRow) {
	for _, row := range rows {
		if row.err == nil && (row.name == "gperf") == ours && (most == nil || row.rate.ratio > most.rate.ratio) {
			most = row
		}
	}
	return most
}

func median(samples []sample, of func(*sample) float64) float64 {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = of(&samples[i])
	}
	return *stats.Describe(values).Median
}

// write prints the table and what follows from it.
func (r *moverReport) write(b *strings.Builder) {
	b.WriteString("Movers, one stream. Ratios are the medians of the runs' against those of write 128K -> read 128K beside them")
	for _, row := range r.rows {
		if i := row.rate.interval; i != nil {
			fmt.Fprintf(b, ", in brackets their %.1f %% intervals", 100*i.Level)
			break
		}
	}
	b.WriteString("; the other figures are medians. Bytes per call are of the calls that moved some.\n\n")
	b.WriteString("| sender -> receiver | CPUs | rate | ratio | CPU, both ends | ratio | bytes per send | per receive |\n")
	b.WriteString("| --- | --- | ---: | --- | ---: | --- | ---: | ---: |\n")
	place := ""
	for _, row := range r.rows {
		if at := row.placement(); at != place {
			place = at
			if base := r.bases[at]; len(base) > 0 {
				fmt.Fprintf(b, "| write 128K -> read 128K | %s | %s | 1 | %s | 1 | %s | %s |\n", at,
					gigabits(median(base, func(s *sample) float64 { return s.PerSecond })),
					perKiB(median(base, (*sample).cpuPerUnit)),
					perCall(median(base, func(s *sample) float64 { return s.PerSend })),
					perCall(median(base, func(s *sample) float64 { return s.PerReceive })))
			}
		}
		if row.err != nil {
			fmt.Fprintf(b, "| %s | %s | %s | | | | | |\n", row.label, place, oneCell(row.err.Error()))
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %v | %s | %v | %s | %s |\n", row.label, place,
			gigabits(row.rate.a), row.rate, perKiB(row.cpu.a), row.cpu, perCall(row.send), perCall(row.receive))
	}
	b.WriteString("\n")
	for _, o := range r.finals {
		if o.err != nil {
			continue // told by errs
		}
		fmt.Fprintf(b, "Best on CPUs %s, in pairs of their own: %s moves %.2f times what %s does (medians %s and %s), pairs %v; CPU per byte %v.\n\n",
			o.a.placement(), o.a.label, o.rate.a/o.rate.b, o.b.label, gigabits(o.rate.a), gigabits(o.rate.b), o.rate, o.cpu)
	}
	for _, row := range r.rows {
		if row.err == nil && strings.HasPrefix(row.label, plan.Write+" -> "+plan.Splice) {
			fmt.Fprintf(b, "Receiving by splice instead of read, CPUs %s, %s: CPU per byte %v.\n\n", row.placement(), row.label, row.cpu)
		}
	}
}

// outcomes are the rows on the first CPUs, as comparisons.
func (r *moverReport) outcomes() (all []outcome) {
	for _, row := range r.rows {
		if row.placement() == r.rows[0].placement() {
			all = append(all, outcome{comparison: &comparison{"movers", row.side, side{row.base.tool, row.base.test, row.label}}})
		}
	}
	return all
}

// size prints bytes as the flags take them.
func size(n int) string {
	switch {
	case n%mib == 0:
		return strconv.Itoa(n/mib) + "M"
	case n%kib == 0:
		return strconv.Itoa(n/kib) + "K"
	}
	return strconv.Itoa(n)
}

// perCall prints the bytes of a call, nothing if they aren't known.
func perCall(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f KiB", v/kib)
}
