package netperf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"gperf/flow"
	"gperf/internal/sys"
	"gperf/netperf/options"
	"gperf/netperf/output"
	"gperf/plan"
	"gperf/result"
	"gperf/sockopt"
	"gperf/stats"
)

// Client is one run of netperf: a command line, and where it prints.
type Client struct {
	Options        *options.Netperf
	Stdout, Stderr io.Writer
	// Stop, when closed, ends the test early; its results are printed.
	Stop <-chan struct{}
	// Warn shows on Stderr what the JSON document warns of.
	Warn bool
	// DumpTCPInfo prints TCP_INFO of the data connection, as of the end of each
	// iteration, on Stderr. A test with a connection for each transaction has none.
	DumpTCPInfo bool
	Build       result.Build

	selection  output.Selection
	dataTarget netip.Addr // of the data connection
	dataSource netip.Addr // invalid: any
	control    *link      // nil: none (-N)
	fill       *os.File   // of -F
	document   *document
	latency    *output.Latency
	interims   int
	answerWait time.Duration // of a test's client; 0: the usual
}

// Run runs the command line and returns netperf's exit status.
func (c *Client) Run(ctx context.Context) int {
	err := c.run(ctx)
	if c.control != nil {
		if err == nil {
			c.control.goodbye()
		} else { // the server may have its own test to end first
			_ = c.control.conn.Close()
		}
	}
	if c.fill != nil {
		_ = c.fill.Close()
	}
	var f *failure
	var exit *options.Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
	case errors.As(err, &exit):
		f = &failure{exit.Status, exit.Stdout, exit.Stderr}
	default:
		f = &failure{status: 1, stderr: "netperf: " + err.Error() + "\n"}
	}
	_, _ = io.WriteString(c.Stdout, f.stdout)
	_, _ = io.WriteString(c.Stderr, f.stderr)
	return f.status
}

func (c *Client) run(ctx context.Context) error {
	o := c.Options
	for _, note := range o.Notes {
		_, _ = fmt.Fprintln(c.Stdout, note)
	}
	for _, note := range o.NoEffect {
		c.debug("netperf: without effect: %s", note)
	}
	if err := c.refuse(); err != nil {
		return err
	}
	targets, err := resolve(ctx, c.targetName(), o.Family)
	if err != nil {
		return err
	}
	for _, a := range targets {
		c.debug("complete_addrinfo: %s is %s", c.targetName(), a)
	}
	if o.Style != options.Classic {
		if c.selection, err = output.ParseSelectors(o.Style, o.Selectors, os.ReadFile); err != nil {
			return err
		}
		for _, u := range c.selection.Unknown {
			c.debug("%s", u)
		}
	}
	if o.JSON != "" {
		if c.document, err = newDocument(c); err != nil {
			return die(1, "netperf: %v", err)
		}
	}
	if name := o.Fill.Local; name != "" {
		if c.fill, err = os.Open(name); err != nil {
			return die(1, "netperf: fill file %v", err)
		}
	}
	if !o.NoControl {
		if c.control, err = c.establish(ctx, targets); err != nil {
			return err
		}
		targets = []netip.Addr{c.control.remote.Addr()}
		if err := c.sayPassphrase(); err != nil {
			return err
		}
	}
	if !o.Known() {
		return &failure{status: 1, stdout: fmt.Sprintf("The test you requested (%s) is unknown to this netperf.\n"+
			"Please verify that you have the correct test name, \nand that test family has been compiled into this netperf.\n", o.Test)}
	}
	if err := c.addresses(ctx, targets); err != nil {
		return err
	}
	switch o.Test {
	case options.LocalCPU:
		return c.print(&output.Run{Options: o, Iterations: []output.Iteration{{Local: output.Side{
			CPU: &output.CPU{Rate: calibration, Count: cpuCount(), Method: 'S'}}}}})
	case options.RemoteCPU:
		return c.remoteCPU(ctx)
	case options.UUID:
		return c.print(&output.Run{Options: o, UUID: c.uuid()})
	}
	return c.test(ctx)
}

// refuse says what can't be done on this machine.
func (c *Client) refuse() error {
	o := c.Options
	switch p := o.Protocol; {
	case p != "" && p != "tcp" && p != "udp":
		return die(1, "netperf: protocol %s: gperf measures tcp and udp", p)
	case p == "udp" && o.Datagram != nil && !*o.Datagram, p == "tcp" && o.Datagram != nil && *o.Datagram:
		return die(1, "netperf: socket type (-t) and protocol (-T %s) don't go together", p)
	case c.datagrams() && o.Connection:
		return die(1, "netperf: a connection test (-c) needs tcp")
	}
	if o.Connection && o.Direction != 0 && o.Direction != options.Both {
		return die(1, "netperf: a connection test (-c) sends a request and receives a response, or neither (-d)")
	}
	return nil
}

func (c *Client) sayPassphrase() error {
	o := c.Options
	if !o.HasPassphrase {
		return nil
	}
	const most = 647 // of a message's bytes; netperf cuts it
	m, err := passphrase(o.Passphrase[:min(len(o.Passphrase), most)])
	if err != nil {
		return err
	}
	return c.control.send(m)
}

// addresses finds the two ends of the data connection.
func (c *Client) addresses(ctx context.Context, targets []netip.Addr) error {
	o := c.Options
	c.dataTarget = targets[0]
	if name := o.DataTarget.Name; name != "" || o.DataFamily != options.Unspecified && o.DataFamily != familyOf(c.dataTarget) {
		if name == "" {
			name = c.targetName()
		}
		family := o.DataFamily
		if o.DataTarget.Family != options.Unspecified {
			family = o.DataTarget.Family
		}
		addrs, err := resolve(ctx, name, family)
		if err != nil {
			return err
		}
		c.dataTarget = masked(addrs[0], o.DataTarget.Mask)
	}
	if source := c.source(); source.Name != "" {
		addrs, err := resolve(ctx, source.Name, options.Unspecified)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if familyOf(a) == familyOf(c.dataTarget) && !a.IsUnspecified() {
				c.dataSource = masked(a, source.Mask)
				break
			}
		}
	}
	return nil
}

// source is where the data connection is to come from. The control connection's
// own address is no answer when the data goes to another one.
func (c *Client) source() options.Host {
	o := c.Options
	if o.DataSource.Name == "" && o.DataTarget.Name == "" {
		return o.Source
	}
	return o.DataSource
}

// banner writes the line that comes before the test.
func (c *Client) banner() error {
	o := c.Options
	from := output.Address{Name: "0.0.0.0", Text: "0.0.0.0", Port: o.DataPort.Local}
	if c.dataTarget.Is6() {
		from.Name, from.Text = "::0", "::"
	}
	if source := c.source(); source.Name != "" {
		from.Name = source.Name
		if c.dataSource.IsValid() {
			from.Text = c.dataSource.String()
		}
	}
	to := output.Address{Name: c.targetName(), Text: c.dataTarget.String(), Port: c.destinationPort()}
	if o.DataTarget.Name != "" {
		to.Name = o.DataTarget.Name
	}
	return output.Banner(c.Stdout, o, from, to, sys.Family(c.dataTarget))
}

// Well-known services, which a test without control connection talks to.
const (
	echoPort    = 7
	discardPort = 9
	chargenPort = 19
)

// destinationPort is the data port that is known before the server says one.
func (c *Client) destinationPort() int {
	o := c.Options
	if !o.NoControl || o.DataPort.Remote != 0 {
		return o.DataPort.Remote
	}
	switch o.Direction {
	case options.Transmit:
		return discardPort
	case options.Receive:
		return chargenPort
	}
	return echoPort
}

// test runs the test, as often as the confidence asks for.
func (c *Client) test(ctx context.Context) error {
	o := c.Options
	if err := c.banner(); err != nil {
		return err
	}
	if output.WantsLatency(o, c.selection) {
		c.latency = &output.Latency{}
	}
	run := &output.Run{Options: o, UUID: c.uuid(), Family: sys.Family(c.dataTarget), Selection: c.selection, Latency: c.latency}
	port := o.DataPort.Remote
	confidence := output.NewConfidence(o)
	var last *trial
	for confidence.More() {
		t := &trial{client: c, options: o, port: port, before: last}
		if err := t.run(ctx); err != nil {
			return err
		}
		if last == nil {
			c.clamped(t)
		}
		run.Iterations = append(run.Iterations, t.iteration())
		confidence.Add(run.Iterations[len(run.Iterations)-1])
		port, last = t.port, t
		if c.stopped() {
			break
		}
	}
	if err := c.print(run); err != nil {
		return err
	}
	return c.document.write(c, last)
}

func (c *Client) print(r *output.Run) error { return output.Result(c.Stdout, r) }

func (c *Client) stopped() bool {
	select {
	case <-c.Stop:
		return true
	default:
		return false
	}
}

// A trial is one iteration under way.
type trial struct {
	client  *Client
	options *options.Netperf
	before  *trial // nil: this is the first
	port    int    // of the server's data socket, once it has said it; wanted until then

	socketPlan
	bound              netip.AddrPort // the data socket's own, as far as it has one
	readings           sockopt.Readings
	local, remote      output.Side
	remoteCPU          bool // the server measures it
	remoteTransactions uint64
	sendSize, recvSize int // per call
	m                  *measured
}

func (t *trial) noDelayWanted() bool {
	if t.before != nil {
		return t.before.remote.NoDelay
	}
	return t.options.NoDelay
}

func (t *trial) cpuWanted() bool {
	if t.before != nil {
		return t.before.remoteCPU
	}
	return t.options.CPU.Remote
}

// run makes the data socket, agrees with the server, moves the data and gets the
// results.
func (t *trial) run(ctx context.Context) error {
	c, o := t.client, t.options
	fd, err := t.makeSocket()
	if err != nil {
		return err
	}
	defer func() {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}()
	ex := omniExchange
	if e, ok := exchanges[o.Test]; ok {
		ex = e
	}
	t.remote = output.Side{
		SendBuffer: -1, RecvBuffer: -1, SendBufferEnd: -1, RecvBufferEnd: -1, SendSize: -1, RecvSize: -1,
		SendWidth: -1, RecvWidth: -1, Retransmits: -1, Priority: -1, TOS: -1, MSS: -1,
	}
	if o.NoControl {
		t.port = c.destinationPort()
	} else {
		m, err := ex.request(t)
		if err != nil {
			return die(1, "netperf: %v", err)
		}
		if err := c.control.send(m); err != nil {
			return err
		}
		answer, err := c.control.receive(ctx)
		if err != nil {
			return err
		}
		if err := ex.response(t, answer); err != nil {
			return remoteError(err, ex.refused)
		}
		t.remote.SendBufferEnd, t.remote.RecvBufferEnd = t.remote.SendBuffer, t.remote.RecvBuffer
	}
	if o.Wait > 0 {
		select {
		case <-time.After(o.Wait):
		case <-c.Stop:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if c.carrier() == plan.Connections {
		_ = unix.Close(fd)
		fd = -1
	} else {
		if err := t.connect(ctx, fd); err != nil {
			return err
		}
	}
	if o.Test == options.TCPMSS {
		t.local.MSS = getInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
		_ = unix.Shutdown(fd, unix.SHUT_WR)
		drain(ctx, fd)
		return nil
	}
	used := fd
	fd = -1 // the group's
	if err := t.move(ctx, used); err != nil {
		return err
	}
	if o.NoControl {
		return nil
	}
	if c.carrier() == plan.Connections && c.stopped() {
		c.control.end()
	}
	answer, err := c.control.receive(ctx)
	if err != nil {
		return err
	}
	if err := ex.results(t, answer); err != nil {
		return remoteError(err, ex.refused)
	}
	return nil
}

// makeSocket makes the data socket, before the server is asked: its buffers say
// how much goes into a call.
func (t *trial) makeSocket() (int, error) {
	c, o := t.client, t.options
	t.socketPlan = socketPlan{
		family: sys.Family(c.dataTarget), datagrams: c.datagrams(), knobs: c.knobs(sockopt.Client),
		dontRoute: !c.routing(), ttl: o.TTL,
	}
	fd, err := t.open(sockopt.Client)
	if err != nil {
		return -1, die(1, "netperf: create_data_socket: %v", err)
	}
	if t.datagrams || o.DataPort.Local != 0 || c.dataSource.IsValid() && c.carrier() == plan.Connection {
		local := c.dataSource
		if !local.IsValid() {
			local = sys.Unspecified(t.family)
		}
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if err == nil && o.DataPort.Local == 0 && !t.datagrams {
			// The kernel then knows where the connection goes when it chooses a port.
			if e := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); e != nil && !errors.Is(e, unix.ENOPROTOOPT) {
				err = e
			}
		}
		if err == nil {
			err = bind(fd, netip.AddrPortFrom(local, uint16(o.DataPort.Local)))
		}
		if err != nil {
			_ = unix.Close(fd)
			return -1, die(1, "netperf: create_data_socket: data socket bind failed %s", strerror(err))
		}
	}
	if t.bound, _ = sys.Names(fd); t.bound.Addr().IsUnspecified() {
		t.bound = netip.AddrPortFrom(netip.Addr{}, t.bound.Port())
	}
	s := &t.local
	*s = output.Side{Retransmits: -1, MSS: -1, Priority: -1, TOS: -1, Cork: o.Cork, NoDelay: o.NoDelay}
	s.SendBuffer, s.RecvBuffer = buffers(fd)
	s.SendBufferEnd, s.RecvBufferEnd = s.SendBuffer, s.RecvBuffer
	s.Priority, s.TOS = readBack(fd, &t.socketPlan)
	t.chooseSizes()
	return fd, nil
}

// chooseSizes decides how much goes into a call, and how many buffers netperf would
// have: it sends from rings of them, gperf from one.
func (t *trial) chooseSizes() {
	o, s := t.options, &t.local
	ring := func(asked, buffer, size int) int {
		if asked > 0 {
			return asked
		}
		return int(width(buffer, size))
	}
	s.SendWidth, s.RecvWidth = o.Width.Send, o.Width.Recv // also of those that aren't there
	switch t.client.role() {
	case plan.Sender:
		t.sendSize = o.SendSize.Local
		if o.Request > 0 {
			t.sendSize = o.Request
		}
		if t.sendSize <= 0 {
			t.sendSize = chosen(s.SendBuffer, t.datagrams)
		}
		if o.Request <= 0 {
			s.SendSize = t.sendSize
		}
		s.SendWidth = ring(o.Width.Send, s.SendBuffer, t.sendSize)
	case plan.Receiver:
		t.recvSize = o.RecvSize.Local
		if t.recvSize <= 0 {
			t.recvSize = chosen(s.RecvBuffer, false)
		}
		s.RecvSize = t.recvSize
		s.RecvWidth = ring(o.Width.Recv, s.RecvBuffer, t.recvSize)
	default:
		if o.Direction != 0 {
			s.SendWidth, s.RecvWidth = ring(o.Width.Send, 0, 0), ring(o.Width.Recv, 0, 0)
		}
	}
}

// knobs are what the command line asks of one end's data socket.
func (c *Client) knobs(end sockopt.End) sockopt.Settings {
	o := c.Options
	pick := func(e options.Ends[int]) int {
		if end == sockopt.Client {
			return e.Local
		}
		return e.Remote
	}
	socket, congestion := o.Socket.Local, o.Congestion.Local
	if end == sockopt.Server {
		socket, congestion = o.Socket.Remote, o.Congestion.Remote
	}
	tcp, local := !c.datagrams(), end == sockopt.Client
	s := sockopt.Settings{}
	for _, k := range []struct {
		on    bool
		name  string
		value sockopt.Value
	}{
		{socket.Send >= 0, "sndbuf", sockopt.Int(int64(socket.Send))},
		{socket.Recv >= 0, "rcvbuf", sockopt.Int(int64(socket.Recv))},
		{o.NoDelay && tcp, "nodelay", sockopt.Int(1)},
		{o.Cork && tcp && local, "cork", sockopt.Int(1)},
		{o.MSS > 0 && tcp && local, "mss", sockopt.Int(int64(o.MSS))},
		{o.PacingRate > 0 && local, "pacing_rate", sockopt.Int(o.PacingRate)},
		{congestion != "" && tcp, "congestion", sockopt.Str(congestion)},
		{pick(o.Priority) >= 0, "priority", sockopt.Int(int64(pick(o.Priority)))},
		{pick(o.TOS) >= 0, "tos", sockopt.Int(int64(pick(o.TOS)))},
		{o.KeepAlive && tcp, "keepalive", sockopt.Int(1)},
		{o.MTUDiscover, "mtu_discover", sockopt.Int(unix.IP_PMTUDISC_DO)},
		{o.FastOpen && tcp && local, "fastopen", sockopt.Int(1)},
		{o.FastOpen && tcp && !local, "fastopen", sockopt.Int(fastOpenQueue)},
	} {
		if k.on {
			s[k.name] = k.value
		}
	}
	return s
}

// connect connects the data socket to the server's.
func (t *trial) connect(ctx context.Context, fd int) error {
	failed := func(err error) error {
		return die(1, "netperf: send_omni: connect_data_socket failed: %s", strerror(err))
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return failed(err)
	}
	if err := connect(ctx, fd, netip.AddrPortFrom(t.client.dataTarget, uint16(t.port))); err != nil {
		return failed(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return failed(err)
	}
	if err := t.knobs.Apply(fd, sockopt.Client, sockopt.AfterPreamble, t.socketPlan.options); err != nil {
		return die(1, "netperf: %v", err)
	}
	if err := flow.SetTimeouts(fd); err != nil {
		return failed(err)
	}
	t.readings = t.knobs.Read(fd, sockopt.Client)
	return nil
}

// endless is the length of a test that a signal ends.
const endless = plan.MaxDuration

// move moves the data.
func (t *trial) move(ctx context.Context, fd int) error {
	c, o := t.client, t.options
	cfg := flow.Config{
		Direction: plan.ClientToServer, Role: c.role(), Carrier: c.carrier(), SendSize: t.sendSize, ReceiveSize: t.recvSize,
		Burst: o.Burst + 1, Pause: flow.Pause{Burst: o.Pace.Local.Burst, Every: o.Pace.Local.Interval}, ResponseTimeout: o.Timeout, CPUs: allowedCPUs(o.Bind.Local),
		UntilEOF: true, Plain: true,
	}
	switch cfg.Role {
	case plan.Requester:
		cfg.Direction = plan.Both
		if o.Direction != 0 {
			cfg.RequestSize, cfg.ResponseSize = o.Request, o.Response
		}
	case plan.Receiver:
		cfg.Direction = plan.ServerToClient
	}
	if cfg.Carrier == plan.Connections {
		cfg.Burst = 1
		cfg.Dialer = &flow.Dialer{
			To: netip.AddrPortFrom(c.dataTarget, uint16(t.port)), Bind: c.dataSource, Ports: o.Ports,
		}
		if len(t.knobs) > 0 {
			cfg.Dialer.Prepare = func(fd int) error {
				return t.knobs.Apply(fd, sockopt.Client, sockopt.BeforeConnect, t.socketPlan.options)
			}
		}
		cfg.Dialer.Connected = func(fd int) error {
			if t.local.MSS < 0 { // the first connection's stands for all
				t.local.MSS = getInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
			}
			if len(t.knobs) == 0 {
				return nil
			}
			return t.knobs.Apply(fd, sockopt.Client, sockopt.AfterPreamble, t.socketPlan.options)
		}
	}
	if cfg.Carrier == plan.Datagrams && cfg.Role == plan.Receiver {
		cfg.ReceiveSize = max(cfg.ReceiveSize, maxUDP)
	}
	if err := t.content(&cfg); err != nil {
		return err
	}
	cfg.TimeCalls = c.latency != nil && cfg.Role != plan.Requester
	win := flow.Window{Cut: c.Stop, Interval: o.Interval.Every, Live: c.interimPrinter(&cfg)}
	switch {
	case o.Length > 0:
		win.Duration = time.Duration(o.Length) * time.Second
	case o.Length == 0:
		win.Duration = endless
	case cfg.Role != plan.Receiver: // which the server's count ends
		cfg.Limits = []uint64{uint64(-o.Length)}
	}
	var err error
	t.m, err = measure(ctx, cfg, fd, win, t.knobs, sockopt.Client, true, c.document != nil || c.warns())
	if err != nil && (t.m == nil || !resets(err) || t.m.sent+t.m.received+t.m.transactions == 0) {
		return die(1, "netperf: send_omni: %s", strerror(err))
	}
	if cfg.Role == plan.Requester && cfg.Carrier == plan.Connection && o.Burst > 0 && t.m.mostOutstanding < o.Burst+1 && !c.stopped() {
		return die(255, "send_omni: initial burst data send error: Interrupted system call")
	}
	if errs := t.m.half.Streams[0].ConnectErrors; len(errs) > 0 && t.m.transactions == 0 {
		return die(1, "netperf: send_omni: connect_data_socket failed: %s", strings.Join(slices.Sorted(maps.Keys(errs)), ", "))
	}
	if c.DumpTCPInfo && cfg.Carrier == plan.Connection {
		writeTCPInfo(c.Stderr, t.m.half.Streams[0].InfoEnd)
	}
	return t.keepLatency(&cfg)
}

// content says what is sent: what the fill file has, or netperf's own name.
func (t *trial) content(cfg *flow.Config) error {
	c, o := t.client, t.options
	if o.CopyAvoidance && cfg.Role == plan.Receiver && cfg.Carrier == plan.Connection {
		cfg.Moving.Receive = plan.Splice
	}
	if o.Test == options.TCPSendfile {
		cfg.Moving.Send, cfg.Moving.File = plan.Sendfile, c.fill
		return nil
	}
	cfg.Moving.Payload = defaultPayload
	if c.fill == nil {
		return nil
	}
	size := max(cfg.SendSize, cfg.RequestSize, 1)
	b := make([]byte, size)
	n, err := io.ReadFull(c.fill, b)
	switch {
	case n == 0 && err != nil:
		return die(1, "netperf: fill file %s: %v", o.Fill.Local, err)
	case err != nil: // it's shorter: again from its beginning
		b = b[:n]
	}
	cfg.Moving.Payload = b
	return nil
}

// interimPrinter prints interim results as their samples come.
func (c *Client) interimPrinter(cfg *flow.Config) func(result.Sample) {
	o := c.Options
	if o.Interval.Every == 0 {
		return nil
	}
	units := func(s *result.Sample) float64 {
		switch {
		case cfg.Role != plan.Requester:
			return float64(s.Sent[0] + s.Received[0])
		case output.ByTransaction(o):
			return float64(s.Transactions[0])
		}
		return float64(s.Transactions[0]) * float64(cfg.RequestSize+cfg.ResponseSize)
	}
	var last *result.Sample
	return func(s result.Sample) {
		before := last
		if before == nil {
			last = &s
			return
		}
		n, length := units(&s)-units(before), time.Duration(s.AtNs-before.AtNs)
		if n <= 0 || length <= 0 {
			// netperf looks at its clock after an operation: there is no interval
			// without any, and flent would divide by its rate.
			return
		}
		last = &s
		end := time.Now().Add(-time.Duration(sys.Monotonic() - s.AtNs))
		_ = output.WriteInterim(c.Stdout, o, &output.Interim{Index: c.interims, Units: n, Length: length, End: end})
		c.interims++
	}
}

// keepLatency adds the iteration's durations to the run's.
func (t *trial) keepLatency(cfg *flow.Config) error {
	c := t.client
	if c.latency == nil {
		return nil
	}
	for _, th := range t.m.half.Threads {
		if th.Latency == "" {
			continue
		}
		h, err := stats.DecodeHistogram(th.Latency)
		if err != nil {
			return err
		}
		record(c.latency, h)
	}
	return nil
}

// record adds a histogram of ns, whose values are exact to 0.1 %.
func record(to *output.Latency, h *hdrhistogram.Histogram) {
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			to.RecordN(time.Duration((bar.From+bar.To)/2), uint64(bar.Count))
		}
	}
}

// iteration is the trial in netperf's terms.
func (t *trial) iteration() output.Iteration {
	it := output.Iteration{Local: t.local, Remote: t.remote}
	if t.m == nil {
		return it
	}
	m, s := t.m, &it.Local
	it.Elapsed, it.Transactions, it.Paused = m.elapsed, m.transactions, m.paused
	s.BytesSent, s.BytesReceived, s.SendCalls, s.RecvCalls, s.FailedSends = m.sent, m.received, m.sendCalls, m.receiveCalls, m.failedSends
	if m.sendBuffer >= 0 {
		s.SendBufferEnd, s.RecvBufferEnd = m.sendBuffer, m.receiveBuffer
	}
	s.Retransmits, s.Congestion = m.retransmits, m.congestion
	if m.mss >= 0 {
		s.MSS = m.mss
	}
	if t.options.CPU.Local {
		s.CPU = m.cpu
	}
	if it.Remote.CPU != nil && it.Remote.CPU.Count == 0 && m.cpu != nil {
		it.Remote.CPU.Count = m.cpu.Count
	}
	return it
}

// remoteCPU is the test of that name: it asks the server about its CPUs.
func (c *Client) remoteCPU(ctx context.Context) error {
	rate, count, err := c.calibrate(ctx)
	if err != nil {
		return err
	}
	return c.print(&output.Run{Options: c.Options, Iterations: []output.Iteration{{Remote: output.Side{
		CPU: &output.CPU{Rate: rate, Count: count, Method: 'S'}}}}})
}
