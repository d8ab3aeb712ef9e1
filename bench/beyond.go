package main

import (
	"bytes"
	"context"
	"time"

	"gperf/result"
	"gperf/result/encode"
	"gperf/stats"
)

// The row that measures no pairs.
const beyondName = "what a run takes beyond its window"

// An extra is what a run takes beyond its window: medians of n runs, in
// milliseconds.
type extra struct {
	n          int
	wall       float64
	wallWithin *stats.Interval
	cpu        float64
	cpuWithin  *stats.Interval
}

// beyondWindow is the window of the runs that are timed.
const beyondWindow = 100 * time.Millisecond

// beyond measures what short runs take beyond their window, from the start of
// the process to its end, against a server that runs already: the time of one
// with a window, and the client's CPU time of one that sends next to nothing.
func beyond(ctx context.Context, gperf *tool, n int) (*extra, error) {
	x, err := open(ctx, side{tool: gperf, label: gperf.name})
	if err != nil {
		return nil, err
	}
	defer x.close()
	host := "127.0.0.1:" + x.ports[0][0]
	var wall, cpu []float64
	for range n {
		began := time.Now()
		if _, err := finish(ctx, gperf, "-d", beyondWindow.String(), host); err != nil {
			return nil, err
		}
		wall = append(wall, milliseconds(time.Since(began)-beyondWindow))
		c, err := finish(ctx, gperf, "-t", "TCP_RR", "--transactions", "1", host)
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, milliseconds(c.usedCPU()))
	}
	return &extra{
		n: n, wall: *stats.Describe(wall).Median, wallWithin: stats.MedianInterval(wall),
		cpu: *stats.Describe(cpu).Median, cpuWithin: stats.MedianInterval(cpu),
	}, nil
}

// describe asks gperf what machine this is, by a short run.
func describe(ctx context.Context, gperf *tool) (*result.Run, error) {
	c, err := finish(ctx, gperf, "-J", "-d", "10ms")
	if err != nil {
		return nil, err
	}
	return encode.Decode(bytes.NewReader(c.stdout.Bytes()))
}

// finish runs "gperf client" to its end.
func finish(ctx context.Context, gperf *tool, args ...string) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := start(ctx, append([]string{gperf.programs[0], "client"}, args...), nil)
	if err != nil {
		return nil, err
	}
	return c, c.failure()
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
