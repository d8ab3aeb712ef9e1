package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gperf/stats"
)

// CPU time is taken between two moments of a run, in percent of its window after
// the clients' start, so that it's the data's alone: setting up and reporting
// cost the same however long a run is. What they cost gperf is a row of its own.
const cpuFrom, cpuTo = 10, 95

// A session is one side of a comparison with its servers, which serve all runs
// of the row.
type session struct {
	side
	ports   []ports
	servers []*child // none if each run has its own
}

// processes is how many clients, and servers, the side has.
func (s *side) processes() int {
	if s.perStream {
		return s.streams
	}
	return 1
}

// open chooses ports and starts the servers that last.
func open(ctx context.Context, s side) (*session, error) {
	x := &session{side: s, ports: make([]ports, s.processes())}
	for i := range x.ports {
		var err error
		if x.ports[i], err = freePorts(); err != nil {
			return nil, err
		}
	}
	if x.oneShot {
		return x, nil
	}
	return x, x.serve(ctx)
}

// serve starts the servers and waits until they listen.
func (x *session) serve(ctx context.Context) error {
	for _, p := range x.ports {
		c, err := start(ctx, x.server(x.test, p), nil)
		if err == nil {
			x.servers = append(x.servers, c)
			err = c.ready(ctx, p[0])
		}
		if err != nil {
			x.close()
			return err
		}
	}
	return nil
}

func (x *session) close() {
	for _, c := range x.servers {
		c.kill()
	}
	x.servers = nil
}

// A sample is one run, as a line of the raw values.
type sample struct {
	Row       string    `json:"row"`
	CPUs      string    `json:"cpus"` // of client and server; any: not pinned
	Side      string    `json:"side"` // a or b, or of movers a, b or c: b is the common one
	Label     string    `json:"label"`
	Pair      int       `json:"pair"`
	Second    bool      `json:"second"` // it wasn't the pair's first run
	Started   time.Time `json:"started"`
	Command   []string  `json:"command"`    // the client's, of the first process
	Processes int       `json:"processes"`  // clients, and servers
	PerSecond float64   `json:"per_second"` // bits or transactions
	ClientCPU float64   `json:"client_cpu"` // seconds of CPU time per second, inside the window
	ServerCPU float64   `json:"server_cpu"`
	Wall      float64   `json:"wall_seconds"` // from the clients' start to their end
	// Mean bytes of a call that moved some, where the tool tells.
	PerSend    float64 `json:"bytes_per_send,omitempty"`
	PerReceive float64 `json:"bytes_per_receive,omitempty"`
	Error      string  `json:"error,omitempty"`
}

// run runs the side's test once.
func (x *session) run(ctx context.Context) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.window+patience)
	defer cancel()
	s = sample{Started: time.Now(), Command: x.client(x.test, x.ports[0]), Processes: len(x.ports)}
	if x.oneShot {
		if err := x.serve(ctx); err != nil {
			return s, err
		}
		defer x.close()
	}
	clients, began, err := x.clients(ctx)
	if err != nil {
		return s, err
	}
	unread := x.readCPU(ctx, began, clients, &s) // also of a client that failed, which is told first
	for _, c := range clients {
		<-c.ended
	}
	s.Wall = time.Since(began).Seconds()
	for _, c := range clients {
		if err := c.failure(); err != nil {
			return s, err
		}
		rate, err := x.parse(x.test, c.stdout.Bytes())
		if err != nil {
			return s, err
		}
		s.PerSecond += rate
		if x.perCall != nil {
			if s.PerSend, s.PerReceive, err = x.perCall(x.test, c.stdout.Bytes()); err != nil {
				return s, err
			}
		}
	}
	return s, unread
}

// clients starts the clients. Several wait in shells until all are there, then
// begin together: those that ran already would hold up the others' start.
func (x *session) clients(ctx context.Context) (all []*child, began time.Time, err error) {
	if len(x.ports) == 1 {
		began = time.Now()
		c, err := start(ctx, x.client(x.test, x.ports[0]), nil)
		return []*child{c}, began, err
	}
	gate, opener, err := os.Pipe()
	if err != nil {
		return nil, began, err
	}
	defer gate.Close()
	defer opener.Close()
	for _, p := range x.ports {
		waits := append([]string{"sh", "-c", `read -r _; exec "$@"`, "sh"}, x.client(x.test, p)...)
		c, err := start(ctx, waits, gate)
		if err != nil {
			for _, c := range all {
				c.kill()
			}
			return nil, began, err
		}
		all = append(all, c)
	}
	return all, time.Now(), nil // and the pipe is closed
}

// readCPU measures the CPU time of the clients and the servers while they run.
func (x *session) readCPU(ctx context.Context, began time.Time, clients []*child, s *sample) error {
	var at [2]time.Time
	var used [2][2]time.Duration
	for i, percent := range []time.Duration{cpuFrom, cpuTo} {
		select {
		case <-time.After(time.Until(began.Add(x.window * percent / 100))):
		case <-ctx.Done():
			return ctx.Err()
		}
		at[i] = time.Now()
		for end, processes := range [2][]*child{clients, x.servers} {
			for _, c := range processes {
				v, err := c.runningCPU()
				if err != nil {
					return err
				}
				used[i][end] += v
			}
		}
	}
	span := at[1].Sub(at[0]).Seconds()
	s.ClientCPU = (used[1][0] - used[0][0]).Seconds() / span
	s.ServerCPU = (used[1][1] - used[0][1]).Seconds() / span
	return nil
}

// cpuPerUnit is the CPU seconds of both ends for a bit or a transaction.
func (s *sample) cpuPerUnit() float64 { return (s.ClientCPU + s.ServerCPU) / s.PerSecond }

// A figure is one quantity of a row: the medians of both sides, and the pairs'
// ratios a/b.
type figure struct {
	a, b     float64
	ratio    float64 // median of the pairs'
	interval *stats.Interval
}

func newFigure(a, b []float64) figure {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return figure{
		a: *stats.Describe(a).Median, b: *stats.Describe(b).Median,
		ratio: *stats.Describe(ratios).Median, interval: stats.MedianInterval(ratios),
	}
}

// An outcome is a row with its figures, or why it has none.
type outcome struct {
	*comparison
	rate, cpu figure
	err       error
}

// measure runs the row's pairs.
func (c *comparison) measure(ctx context.Context, cfg config, record func(*sample) error) (outcome, error) {
	c.a.window, c.b.window = cfg.duration, cfg.duration
	out := outcome{comparison: c}
	samples, err := rounds(ctx, cfg, c.title, []side{c.a, c.b}, record)
	if err != nil {
		return out, err
	}
	out.rate, out.cpu = figures(samples[0], samples[1])
	return out, nil
}

// figures are the rate and the CPU per unit of a's runs against b's.
func figures(a, b []sample) (rate, cpu figure) {
	var rates, cpus [2][]float64
	for i, samples := range [2][]sample{a, b} {
		for _, s := range samples {
			rates[i] = append(rates[i], s.PerSecond)
			cpus[i] = append(cpus[i], s.cpuPerUnit())
		}
	}
	return newFigure(rates[0], rates[1]), newFigure(cpus[0], cpus[1])
}

// rounds runs each side once a round, as many rounds as there are to be pairs.
// The order turns around from round to round (ABBA), so that a drift of the
// machine favours no side. It returns each side's runs.
func rounds(ctx context.Context, cfg config, title string, sides []side, record func(*sample) error) ([][]sample, error) {
	sessions := make([]*session, len(sides))
	for i, s := range sides {
		s.window = cfg.duration
		x, err := open(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.label, err)
		}
		defer x.close()
		sessions[i] = x
	}
	all := make([][]sample, len(sides))
	for round := range cfg.pairs {
		for turn := range sides {
			i := turn
			if round%2 == 1 {
				i = len(sides) - 1 - turn
			}
			x := sessions[i]
			s, err := x.run(ctx)
			s.Row, s.CPUs, s.Side, s.Label = title, x.placement(), "abc"[i:i+1], x.label
			s.Pair, s.Second = round+1, turn > 0
			if err != nil {
				err = fmt.Errorf("%s: %w", x.label, err)
				s.Error = err.Error()
			}
			if err := errors.Join(err, record(&s)); err != nil {
				return nil, err
			}
			all[i] = append(all[i], s)
		}
	}
	return all, nil
}
