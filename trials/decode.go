package trials

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"gperf/result"
)

// The parts of a document that are decoded as they are.
const (
	rawSchema = iota
	rawLine
	rawType
	rawID
	rawStarted
	rawStatus
	rawError
	rawLabels
	rawPlan
	rawHosts
	rawSweep
	rawCell
	rawLabKind
	rawLabSettings
	rawGperf
	rawTrust
	rawStalls
	rawIntervals
	rawRepeat
	rawThroughput
	rawTPS
	// What tells documents of others.
	rawEvent
	rawStart
	rawEnd
	rawMetadata
	rawResults
	raws
)

var rawPaths = [raws]string{
	rawSchema: "schema", rawLine: "line", rawType: "type", rawID: "id", rawStarted: "started", rawStatus: "status",
	rawError: "error", rawLabels: "labels", rawPlan: "plan", rawHosts: "hosts", rawSweep: "sweep", rawCell: "sweep.cell",
	rawLabKind: "lab.kind", rawLabSettings: "lab.settings", rawGperf: "gperf", rawTrust: "trust.ok", rawStalls: "stalls",
	rawIntervals: "intervals", rawRepeat: "repeat", rawThroughput: "summary.throughput_bits_per_second", rawTPS: "summary.transactions_per_second",
	rawEvent: "event", rawStart: "start", rawEnd: "end", rawMetadata: "metadata", rawResults: "results",
}

// documentPaths are the nodes of the parts that every trial needs.
func documentPaths() *node {
	root := &node{}
	for i, path := range rawPaths {
		at := root.at(path)
		at.raw = append(at.raw, i)
	}
	return root
}

// A cache keeps one copy of what many documents say in the same words.
type cache[T any] struct {
	mu sync.Mutex
	m  map[string]T
}

// cacheEntries bounds a cache: of what differs in each document nothing is gained.
const cacheEntries = 20_000

func (c *cache[T]) get(raw []byte, decode func([]byte) T) T {
	c.mu.Lock()
	v, ok := c.m[string(raw)]
	c.mu.Unlock()
	if ok {
		return v
	}
	v = decode(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]T{}
	}
	if len(c.m) < cacheEntries {
		c.m[string(raw)] = v
	}
	return v
}

type caches struct {
	words  cache[string]
	texts  cache[map[string]string]
	plans  cache[map[string]string]
	hosts  cache[*result.Ends[*result.Host]]
	same   cache[*result.Ends[*result.Host]]
	labs   cache[[]result.LabSetting]
	builds cache[string]
}

func decodeText(raw []byte) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

func decodeTexts(raw []byte) map[string]string {
	var m map[string]string
	_ = json.Unmarshal(raw, &m)
	return m
}

// decodeHosts leaves out what differs in each lab although nothing else does, and
// shares what is the same then.
func (c *caches) decodeHosts(raw []byte) *result.Ends[*result.Host] {
	var h result.Ends[*result.Host]
	if json.Unmarshal(raw, &h) != nil || h.Client == nil && h.Server == nil {
		return nil
	}
	for _, end := range []*result.Host{h.Client, h.Server} {
		if end != nil {
			end.NetNS = nil
		}
	}
	text, err := json.Marshal(h)
	if err != nil {
		return &h
	}
	return c.same.get(text, func([]byte) *result.Ends[*result.Host] { return &h })
}

func decodeBuild(raw []byte) string {
	var b result.Build
	_ = json.Unmarshal(raw, &b)
	if b.Commit == "" {
		return b.Version
	}
	return b.Version + " (" + b.Commit + ")"
}

// An item is what one document came to.
type item struct {
	line   int
	id     string // of the run
	trials []*Trial
	refers int // line of the hosts' description; 0: none
	header *Header
	hosts  *result.Ends[*result.Host]
	event  *streamEvent
	err    error
	broken bool // err, of something that is no JSON, as a crash leaves it
}

// A decoder takes documents apart.
type decoder struct {
	r *Reader
	w walker
}

func (r *Reader) newDecoder() *decoder {
	return &decoder{r, walker{root: r.paths, sums: make([]sum, len(r.slots)), raw: make([][]byte, raws)}}
}

func (d *decoder) batch(b *batch) {
	if b.whole != nil {
		trials, err := b.whole()
		if err != nil {
			b.err = err // which names the file
		}
		b.items = append(b.items, item{trials: trials})
		for _, t := range trials {
			t.values = d.r.foreignValues(t.foreign)
			t.foreign = nil
		}
	}
	for _, s := range b.docs {
		doc := b.buf[s.from:s.to]
		if doc[0] == '{' && valid(doc) {
			it := d.document(b.from.name, s.line, doc)
			it.line = s.line
			b.items = append(b.items, it)
			continue
		}
		pieces, err := split(doc)
		for _, piece := range pieces {
			it := d.document(b.from.name, s.line, piece)
			it.line = s.line
			b.items = append(b.items, it)
		}
		if err != nil {
			b.items = append(b.items, item{line: s.line, err: err, broken: true})
		}
	}
}

// split cuts documents that follow each other in one line.
func split(text []byte) (docs [][]byte, err error) {
	if text[0] != '{' {
		return nil, fmt.Errorf("not a result: it begins with %.20q", text)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	for {
		var doc json.RawMessage
		err := in.Decode(&doc)
		switch {
		case err == nil && doc[0] == '{':
			docs = append(docs, doc)
		case err == nil:
			return nil, fmt.Errorf("not a result: %.20q", doc)
		case in.InputOffset() >= int64(len(text)):
			return docs, nil
		default:
			return nil, fmt.Errorf("not JSON: %w", brief(err))
		}
	}
}

// brief is an error without the words that only a programmer needs.
func brief(err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return e
	}
	return errors.New("the document ends too early")
}

// document makes an item of one document, which is a JSON object.
func (d *decoder) document(file string, line int, doc []byte) item {
	w := &d.w
	w.walk(doc)
	fail := func(format string, args ...any) item { return item{err: fmt.Errorf(format, args...)} }
	schema := decodeText(w.raw[rawSchema])
	switch {
	case w.raw[rawSchema] != nil && schema != result.Schema:
		return fail("schema is %.40q, and this gperf reads %s", schema, result.Schema)
	case schema == result.Schema:
	case w.raw[rawEvent] != nil:
		return streamed(doc)
	case w.raw[rawStart] != nil && w.raw[rawEnd] != nil:
		return d.foreign(file, line, importIperf3, doc)
	case w.raw[rawMetadata] != nil && w.raw[rawResults] != nil:
		return d.foreign(file, line, importFlent, doc)
	case decodeText(w.raw[rawType]) == "interval":
		return item{} // of JSON lines; the result follows
	default:
		return fail("not a result: it names no schema, and isn't iperf3's or flent's")
	}
	switch kind := decodeText(w.raw[rawLine]); kind {
	case "":
		return d.trial(file, line)
	case LineSweep:
		h := new(Header)
		if err := json.Unmarshal(doc, h); err != nil {
			return fail("the header of a sweep: %w", err)
		}
		return item{header: h}
	case LineHosts:
		h := d.r.shared.decodeHosts(w.raw[rawHosts])
		if h == nil {
			return fail("a description of hosts without them")
		}
		return item{hosts: h}
	}
	return item{} // of a later gperf
}

func (d *decoder) foreign(file string, line int, read func([]byte) (*Trial, error), doc []byte) item {
	t, err := read(doc)
	if err != nil {
		return item{err: err}
	}
	t.File, t.Line = file, line
	t.values = d.r.foreignValues(t.foreign)
	t.foreign = nil
	return item{trials: []*Trial{t}}
}

// foreignValues are the metrics of figures by path.
func (r *Reader) foreignValues(figures map[string]float64) []float64 {
	parts := make([]float64, len(r.slots))
	for i, s := range r.slots {
		v, ok := figures[s.path]
		if !ok {
			v = math.NaN()
		}
		parts[i] = v
	}
	return r.combine(parts)
}

// combine makes the metrics of their parts. A metric with an unknown part is
// unknown.
func (r *Reader) combine(parts []float64) []float64 {
	values := make([]float64, len(r.set.Metrics))
	for i, s := range r.slots {
		values[s.metric] += parts[i]
	}
	return values
}

// trial makes a trial, or those of a series, of the document just walked.
func (d *decoder) trial(file string, line int) item {
	w, shared := &d.w, &d.r.shared
	t := &Trial{
		File: file, Line: line, Format: Gperf,
		Labels:  shared.texts.get(w.raw[rawLabels], decodeTexts),
		Plan:    shared.plans.get(w.raw[rawPlan], settings),
		Status:  result.Status(shared.words.get(w.raw[rawStatus], decodeText)),
		Gperf:   shared.builds.get(w.raw[rawGperf], decodeBuild),
		Hosts:   shared.hosts.get(w.raw[rawHosts], shared.decodeHosts),
		Trusted: string(w.raw[rawTrust]) == "true",
	}
	t.Started, _ = time.Parse(time.RFC3339, decodeText(w.raw[rawStarted]))
	if t.Status == "" {
		return item{err: errors.New("a result without a status")}
	}
	var e *result.Error
	if json.Unmarshal(w.raw[rawError], &e) == nil && e != nil {
		t.Why = e.Message
		t.still = e.Kind == "data" && (isZero(w.raw[rawThroughput]) || isZero(w.raw[rawTPS]))
	}
	if kind := decodeText(w.raw[rawLabKind]); kind != "" {
		t.Lab = &Lab{Kind: kind, Settings: shared.labs.get(w.raw[rawLabSettings], func(raw []byte) []result.LabSetting {
			var s []result.LabSetting
			_ = json.Unmarshal(raw, &s)
			return s
		})}
	}
	refers := 0
	if raw := w.raw[rawSweep]; raw != nil && string(raw) != "null" {
		place, err := decodePlace(raw)
		if err != nil {
			return item{err: fmt.Errorf("the place in the sweep: %w", err)}
		}
		t.Place, refers = place, place.Hosts
		t.Cell = shared.texts.get(w.raw[rawCell], decodeTexts)
	}
	t.values = d.values(t)
	if d.r.inside {
		t.Rates = decodeRates(w.raw[rawIntervals])
	}
	id := decodeText(w.raw[rawID])
	if raw := w.raw[rawRepeat]; raw != nil && string(raw) != "null" {
		return d.series(t, id, raw)
	}
	return item{id: id, trials: []*Trial{t}, refers: refers}
}

func isZero(raw []byte) bool {
	var v *float64
	return json.Unmarshal(raw, &v) == nil && v != nil && *v == 0
}

// decodeRates are the rates of a run's intervals, both directions together: bits or
// else transactions per second. Nil: one isn't known.
func decodeRates(raw []byte) []float64 {
	var all []struct {
		Direction  string   `json:"direction"`
		Throughput *float64 `json:"throughput_bits_per_second"`
		TPS        *float64 `json:"transactions_per_second"`
	}
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var rates []float64
	number := map[string]int{} // of intervals of a direction so far
	for _, interval := range all {
		rate := cmp.Or(interval.Throughput, interval.TPS)
		if rate == nil {
			return nil
		}
		i := number[interval.Direction]
		number[interval.Direction]++
		if i == len(rates) {
			rates = append(rates, 0)
		}
		rates[i] += *rate
	}
	return rates
}

// decodePlace leaves the cell out, which trials share.
func decodePlace(raw []byte) (*result.Place, error) {
	var p struct {
		ID    string `json:"id"`
		Index int    `json:"index"`
		Trial int    `json:"trial"`
		Round int    `json:"round"`
		Slot  int    `json:"slot"`
		Seed  uint64 `json:"seed"`
		Hosts int    `json:"hosts"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%s: %s instead of %s", e.Field, e.Value, e.Type)
		}
		return nil, err
	}
	return &result.Place{ID: p.ID, Index: p.Index, Trial: p.Trial, Round: p.Round, Slot: p.Slot, Seed: p.Seed, Hosts: p.Hosts}, nil
}

// values are the metrics of the document just walked.
func (d *decoder) values(t *Trial) []float64 {
	parts := make([]float64, len(d.r.slots))
	for i, s := range d.r.slots {
		if s.path == pathStalls {
			parts[i] = math.NaN()
			if n, ok := countOf(d.w.raw[rawStalls]); ok && t.Plan["interval"] != "" {
				parts[i] = float64(n) // without intervals nobody looked
			}
			continue
		}
		parts[i] = d.w.sums[i].mean()
	}
	return d.r.combine(parts)
}

// series makes a trial of each run of a repeated test. Only that of the document,
// whole, has all figures.
func (d *decoder) series(whole *Trial, id string, raw []byte) item {
	var series result.Repeat
	if err := json.Unmarshal(raw, &series); err != nil {
		return item{err: errors.New("the runs of the series can't be read")}
	}
	var all []*Trial
	for i := range series.Trials {
		short := &series.Trials[i]
		t := *whole
		t.Entry, t.Started, t.Status, t.Why, t.Trusted, t.still = i+1, short.Started, short.Status, "", short.TrustOK, false
		if short.Error != nil {
			t.Why = short.Error.Message
			t.still = short.Error.Kind == "data" && (short.Throughput != nil && *short.Throughput == 0 || short.TPS != nil && *short.TPS == 0)
		}
		if short.ID != id {
			t.Rates = nil
			t.values = d.r.foreignValues(shortFigures(short))
		}
		all = append(all, &t)
	}
	if len(all) == 0 {
		return item{err: errors.New("a series without runs")}
	}
	return item{id: id, trials: all}
}

// shortFigures are what a series keeps of a run, by their paths in its own
// document.
func shortFigures(t *result.Trial) map[string]float64 {
	f := map[string]float64{}
	for path, v := range map[string]*float64{
		"summary.throughput_bits_per_second": t.Throughput,
		"summary.transactions_per_second":    t.TPS,
		"summary.duration_seconds":           t.Duration,
		"summary.latency_us.p50":             t.LatencyP50,
		"summary.latency_us.p99":             t.LatencyP99,
		"summary.cpu.client.total_percent":   t.ClientCPU,
		"summary.cpu.server.total_percent":   t.ServerCPU,
		"summary.cpu.client.thread_seconds":  t.ClientThread,
		"summary.cpu.server.thread_seconds":  t.ServerThread,
	} {
		if v != nil {
			f[path] = *v
		}
	}
	for path, v := range map[string]*uint64{
		"summary.retransmitted_segments": t.RetransSegs,
		"summary.rto_events":             t.RTOEvents,
	} {
		if v != nil {
			f[path] = float64(*v)
		}
	}
	return f
}

// A joiner puts what the decoders made together, in the order of the files.
type joiner struct {
	r     *Reader
	from  *source
	base  int // line before the header of the latest sweep
	hosts map[int]*result.Ends[*result.Host]
	head  *Header
	docs  int
	again int  // runs that were read before
	torn  item // waits for the file to go on, which makes it an error
	event stream
}

func (j *joiner) batch(b *batch) error {
	if b.from != j.from {
		*j = joiner{r: j.r, from: b.from, hosts: map[int]*result.Ends[*result.Host]{}}
	}
	for i := range b.items {
		it := &b.items[i]
		if j.torn.err != nil {
			return j.fault(&j.torn)
		}
		if err := j.item(it); err != nil {
			return err
		}
	}
	if b.err != nil {
		return b.err
	}
	if !b.end {
		return nil
	}
	set := &j.r.set
	switch {
	case b.from.notAny != nil:
		set.Notes = append(set.Notes, b.from.notAny.Error())
	case j.torn.err != nil && j.docs == 0:
		return j.fault(&j.torn)
	case j.torn.err != nil:
		set.Notes = append(set.Notes, fmt.Sprintf("%s:%d: the last line is torn, and left out", b.from.name, j.torn.line))
	}
	if j.again > 0 {
		set.Notes = append(set.Notes, fmt.Sprintf("%s: runs that were read before, counted once: %d", b.from.name, j.again))
	}
	return j.event.end(j)
}

func (j *joiner) fault(it *item) error {
	if it.line == 0 {
		return fmt.Errorf("%s: %w", j.from.name, it.err)
	}
	return fmt.Errorf("%s:%d: %w", j.from.name, it.line, it.err)
}

func (j *joiner) item(it *item) error {
	switch {
	case it.broken:
		j.torn = *it
		return nil
	case it.err != nil:
		return j.fault(it)
	}
	j.docs++
	switch {
	case it.event != nil:
		return j.event.add(j, it)
	case it.header != nil:
		j.base, j.head = it.line-1, it.header
		j.r.set.Headers = append(j.r.set.Headers, *it.header)
	case it.hosts != nil:
		j.hosts[it.line] = it.hosts
	}
	if it.id != "" {
		// A copy is no second measurement.
		if j.r.ids[it.id] {
			j.again++
			return nil
		}
		j.r.ids[it.id] = true
	}
	if it.refers > 0 {
		h := j.hosts[j.base+it.refers]
		if h == nil {
			return j.fault(&item{line: it.line, err: fmt.Errorf("its hosts should be in line %d, and aren't", it.refers)})
		}
		for _, t := range it.trials {
			t.Hosts = h
		}
	}
	if j.head != nil && len(j.head.Labels) > 0 {
		for _, t := range it.trials {
			t.Labels = withLabels(t.Labels, j.head.Labels)
		}
	}
	j.r.set.Trials = append(j.r.set.Trials, it.trials...)
	return nil
}

// withLabels are a trial's labels and those of its sweep that it doesn't have.
func withLabels(own, sweep map[string]string) map[string]string {
	for name := range sweep {
		if _, ok := own[name]; ok {
			continue
		}
		all := maps.Clone(sweep)
		maps.Copy(all, own)
		return all
	}
	return own
}

// settle gives the runs that are of no sweep their cells: their labels, and what of
// their plans isn't the same in all of them.
func (r *Reader) settle() {
	differs := map[string]bool{}
	var first map[string]string
	seen := map[string]bool{} // of plans, which many share
	for _, t := range r.set.Trials {
		if t.Place != nil || t.Plan == nil {
			continue
		}
		if first == nil {
			first = t.Plan
		}
		id := fmt.Sprintf("%p", t.Plan)
		if seen[id] {
			continue
		}
		seen[id] = true
		for _, names := range []map[string]string{first, t.Plan} {
			for name := range names {
				if first[name] != t.Plan[name] {
					differs[name] = true
				}
			}
		}
	}
	names := slices.Sorted(maps.Keys(differs))
	cells := cache[map[string]string]{}
	for _, t := range r.set.Trials {
		if t.Place != nil {
			continue
		}
		cell := map[string]string{}
		var text strings.Builder
		for _, name := range names {
			if v, ok := t.Plan[name]; ok {
				cell[name] = v
			}
		}
		maps.Copy(cell, t.Labels)
		for _, name := range slices.Sorted(maps.Keys(cell)) {
			fmt.Fprintf(&text, "%q=%q ", name, cell[name])
		}
		t.Cell = cells.get([]byte(text.String()), func([]byte) map[string]string { return cell })
	}
}
