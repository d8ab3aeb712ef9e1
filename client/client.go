// Package client is the active side of one test: it connects, sends the plan,
// opens the data connections, runs its end, and makes one result of what both
// ends measured.
//
// It knows no command line and prints nothing: cmd/gperf fills in a Config and
// encodes the Run that comes back.
package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"gperf/control"
	"gperf/flow"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
)

// Config is one test to be run.
type Config struct {
	Host           string // name or address
	Port           int
	Family         int        // AF_INET, AF_INET6; 0: either
	Bind           netip.Addr // local address of all connections; invalid: the kernel's choice
	ConnectTimeout time.Duration
	Secret         []byte // nil: none
	Plan           *plan.Test
	Labels         map[string]string
	Build          result.Build
	Files          flow.Files // what this end's movers read from and write to

	// Stop, when closed, ends the test early; what was measured is reported.
	Stop <-chan struct{}
	// OnStart is called when the data connections stand and the test begins.
	OnStart func(r *result.Run)
	// OnInterval receives each interval as it closes, or one a second when the
	// plan has none. It's called from one goroutine at a time.
	OnInterval func(iv *result.Interval)
}

// DefaultConnectTimeout bounds the set-up unless told otherwise: the control
// connection with its exchanges, and then all data connections.
const DefaultConnectTimeout = 5 * time.Second

// ErrInterrupted is why a test ended that was told to.
var ErrInterrupted = errors.New("interrupted")

// NewRun returns the document of a run that begins now, with nothing in it.
func NewRun(build result.Build, labels map[string]string) *result.Run {
	return &result.Run{
		Schema: result.Schema, ID: randomHex(idSize), Started: time.Now(), Gperf: build,
		Labels: labels, Status: result.Failed, Trust: result.Trust{Reasons: []string{"nothing was measured"}},
	}
}

const idSize = 16 // bytes

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails, says its documentation
	return hex.EncodeToString(b)
}

// Run runs one test. The document says how it ended: it's complete, partial
// with what was measured, or failed; and then its Error says why.
func Run(ctx context.Context, cfg Config) *result.Run {
	r := NewRun(cfg.Build, cfg.Labels)
	r.Plan = cfg.Plan
	x := &test{cfg: cfg, run: r, peer: map[plan.Direction][]result.Sample{}, peerStep: map[plan.Direction]int{}, mergers: map[plan.Direction]*result.Merger{}}
	err := x.do(ctx)
	if err == nil {
		select {
		case <-cfg.Stop:
			err = ErrInterrupted
		default:
		}
	}
	if x.own != nil {
		err = errors.Join(err, x.merge())
	}
	x.conclude(err)
	return r
}

// conclude sets the run's status and error.
func (x *test) conclude(err error) {
	r := x.run
	arrived := r.Summary != nil && (positive(r.Summary.ReceivedBytes) || positive(r.Summary.Transactions))
	if err == nil && !arrived {
		err = &control.Error{Kind: "data", Message: "no data arrived inside the window"}
	}
	if err == nil {
		r.Status = result.Complete
		return
	}
	e := x.explain(err)
	r.Error = &e
	// A lost server leaves what this end knows, which may be what it sent only.
	known := arrived || r.Summary != nil && x.theirs.Halves == nil && positive(r.Summary.SentBytes)
	if known || errors.Is(err, ErrInterrupted) && r.Summary != nil {
		r.Status = result.Partial
	}
}

func positive(n *uint64) bool { return n != nil && *n > 0 }

// explain sorts an error into the kinds of result.Error.
func (x *test) explain(err error) result.Error {
	e := result.Error{Kind: "internal", Message: "client: " + err.Error(), End: sockopt.Client.String()}
	var (
		told    *control.Error
		foreign *control.ForeignError
	)
	switch {
	case errors.Is(err, ErrInterrupted):
		e.Kind, e.Message, e.End = "signal", "client: ended by a signal", ""
	case errors.As(err, &told):
		e.Kind, e.End = told.Kind, told.End
		if told.End == sockopt.Server.String() {
			e.Message = "server " + x.target() + ": " + strings.TrimPrefix(told.Message, "server: ")
		} else { // what is said of this end may name it already
			e.Message = "client: " + strings.TrimPrefix(told.Message, "client: ")
		}
	case errors.As(err, &foreign):
		e.Kind, e.End = "protocol", sockopt.Server.String()
		e.Message = fmt.Sprintf("client: %s: %v", x.target(), foreign)
	case errors.Is(err, control.ErrLost):
		e.Kind, e.End = "peer", sockopt.Server.String()
		e.Message = fmt.Sprintf("client: %s: %v", x.target(), err)
	case errors.Is(err, flow.ErrPayload):
		e.Kind = "data"
	case errors.Is(err, flow.ErrBroken): // by whom, nobody knows
		e.Kind, e.End = "peer", ""
		e.Message = fmt.Sprintf("client: %s: %v", x.target(), err)
	case errors.Is(err, flow.ErrSilent), errors.Is(err, errNoAnswer):
		e.Kind, e.End = "timeout", sockopt.Server.String()
		e.Message = fmt.Sprintf("client: %s: %v", x.target(), err)
	}
	return e
}

// refuse is an error of the given kind at this end.
func refuse(kind string, err error) error {
	return &control.Error{Kind: kind, Message: err.Error(), End: sockopt.Client.String()}
}
