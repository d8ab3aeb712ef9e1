package acceptance

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What strace is told to write down: all that can be done to a socket, and for
// the tests of knobs only what concerns them, which is much less.
const (
	allCalls = "%network,read,write,readv,writev,pread64,pwrite64,splice,sendfile,close,dup,dup2,dup3,fcntl,ioctl," +
		"poll,ppoll,select,pselect6,epoll_create1,epoll_ctl,epoll_wait,epoll_pwait,epoll_pwait2"
	knobCalls = "%network,close,epoll_ctl,poll,ppoll,select,pselect6"
)

// A syscallLine is one system call. Calls of other threads may lie between its
// beginning and its end.
type syscallLine struct {
	name, args, result string
	begun, ended       int // lines of the file
}

func (c *syscallLine) String() string { return c.name + "(" + c.args + ") = " + c.result }

// arg is one argument of a call without nested commas before it.
func (c *syscallLine) arg(i int) string {
	parts := strings.SplitN(c.args, ", ", i+2)
	if i >= len(parts) {
		return ""
	}
	return parts[i]
}

// number is the result, -1 for an error.
func (c *syscallLine) number() int {
	first, _, _ := strings.Cut(c.result, " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		return -1
	}
	return n
}

var (
	lineForm    = regexp.MustCompile(`^(\d+) +(.*)$`)
	resumedForm = regexp.MustCompile(`^<\.\.\. \w+ resumed>(.*)$`)
	callForm    = regexp.MustCompile(`^(\w+)\((.*)\) += (.*)$`)
)

const unfinished = " <unfinished ...>"

// parseStrace reads what strace -f -o has written. A call that never ended has
// the result "?".
func parseStrace(text string) ([]*syscallLine, error) {
	var calls []*syscallLine
	type half struct {
		text  string
		begun int
	}
	pending := map[string]half{}
	add := func(text string, begun, ended int) error {
		if strings.HasPrefix(text, "???(") { // a thread that ended before strace could tell
			return nil
		}
		m := callForm.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("line %d: %q is no system call", ended, text)
		}
		calls = append(calls, &syscallLine{m[1], m[2], m[3], begun, ended})
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		m := lineForm.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d: %q", i, line)
		}
		thread, rest := m[1], m[2]
		switch {
		case strings.HasPrefix(rest, "---"), strings.HasPrefix(rest, "+++"):
			continue
		case strings.HasSuffix(rest, unfinished):
			pending[thread] = half{strings.TrimSuffix(rest, unfinished), i}
			continue
		}
		begun := i
		if m := resumedForm.FindStringSubmatch(rest); m != nil {
			h := pending[thread]
			delete(pending, thread)
			rest, begun = h.text+m[1], h.begun
		}
		if err := add(rest, begun, i); err != nil {
			return nil, err
		}
	}
	for _, h := range pending {
		if err := add(h.text+") = ?", h.begun, len(lines)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(calls, func(a, b *syscallLine) int { return a.begun - b.begun })
	return calls, nil
}

// A descriptor is the history of one descriptor from its making to its close:
// every call that concerns it, in the order in which they began.
type descriptor struct {
	fd    int
	calls []*syscallLine // the first made it, if that is in the trace
}

var (
	pollForm   = regexp.MustCompile(`\{fd=(\d+),`)
	selectForm = regexp.MustCompile(`\[([\d ]+)\]`)
)

// concerned are the descriptors that a call is about.
func (c *syscallLine) concerned() []int {
	var texts []string
	switch c.name {
	case "poll", "ppoll":
		for _, m := range pollForm.FindAllStringSubmatch(c.args, -1) {
			texts = append(texts, m[1])
		}
	case "select", "pselect6":
		for _, m := range selectForm.FindAllStringSubmatch(c.args, -1) {
			texts = append(texts, strings.Fields(m[1])...)
		}
	case "epoll_ctl":
		texts = append(texts, c.arg(2))
	default:
		texts = append(texts, c.arg(0))
	}
	var fds []int
	for _, text := range texts {
		if fd, err := strconv.Atoi(text); err == nil && !slices.Contains(fds, fd) {
			fds = append(fds, fd)
		}
	}
	return fds
}

// makes is the descriptor that a call has returned, or -1.
func (c *syscallLine) makes() int {
	switch c.name {
	case "socket", "accept", "accept4", "dup", "dup3", "epoll_create1":
		return c.number()
	case "fcntl":
		if strings.HasPrefix(c.arg(1), "F_DUPFD") {
			return c.number()
		}
	}
	return -1
}

// histories sorts calls by descriptor. A number that is used again after a
// close is another descriptor.
func histories(calls []*syscallLine) []*descriptor {
	// A call begins to concern its arguments when it begins, and has made a
	// descriptor when it ends.
	type event struct {
		at   int
		made bool
		call *syscallLine
	}
	var events []event
	for _, c := range calls {
		events = append(events, event{c.begun, false, c})
		if c.makes() >= 0 {
			events = append(events, event{c.ended, true, c})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at - b.at })
	var all []*descriptor
	open := map[int]*descriptor{}
	for _, e := range events {
		if e.made {
			d := &descriptor{fd: e.call.makes(), calls: []*syscallLine{e.call}}
			all, open[d.fd] = append(all, d), d
			continue
		}
		if e.call.name == "socket" || e.call.name == "epoll_create1" {
			continue
		}
		for _, fd := range e.call.concerned() {
			d := open[fd]
			if d == nil { // made by a call that isn't traced
				d = &descriptor{fd: fd}
				all, open[fd] = append(all, d), d
			}
			d.calls = append(d.calls, e.call)
			if e.call.name == "close" {
				delete(open, fd)
			}
		}
	}
	return all
}

// A trace is what one process did to its sockets.
type trace struct {
	data      []*descriptor // connections that carried a preamble
	listeners []*descriptor
	others    []*descriptor
}

func readTrace(t testing.TB, file string) *trace {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := parseStrace(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	tr := &trace{}
	for _, d := range histories(calls) {
		switch {
		case slices.ContainsFunc(d.calls, func(c *syscallLine) bool { return strings.Contains(c.args, `"gperfDT1"`) }):
			tr.data = append(tr.data, d)
		case d.index("listen") >= 0:
			tr.listeners = append(tr.listeners, d)
		default:
			tr.others = append(tr.others, d)
		}
	}
	return tr
}

// index is the place of the first call of that name, -1 if there is none.
func (d *descriptor) index(name string) int {
	return slices.IndexFunc(d.calls, func(c *syscallLine) bool { return c.name == name })
}

// options are the setsockopt calls among calls, as "NAME=VALUE" in strace's
// spelling.
func options(calls []*syscallLine) []string {
	all := []string{}
	for _, c := range calls {
		if c.name != "setsockopt" {
			continue
		}
		value := strings.SplitN(c.args, ", ", 4)[3]
		value = value[:strings.LastIndex(value, ", ")] // the length
		value = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
		name := c.arg(2)
		if strings.HasSuffix(name, "TIMEO_OLD") || strings.HasSuffix(name, "TIMEO_NEW") || strings.HasSuffix(name, "TIMEO") {
			all = append(all, name[:strings.Index(name, "TIMEO")+len("TIMEO")])
			continue // the value is a structure
		}
		if n, err := strconv.ParseUint(value, 10, 32); err == nil && name == "TCP_CONGESTION" {
			// strace takes a name of four letters for a number.
			value = strconv.Quote(string(binary.NativeEndian.AppendUint32(nil, uint32(n))))
		}
		all = append(all, name+"="+value)
	}
	return all
}

// payload are the calls by which a data socket moved bytes, the preamble's left
// out.
func (d *descriptor) payload() []*syscallLine {
	var moved []*syscallLine
	for _, c := range d.calls {
		switch c.name {
		case "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "read", "write", "readv", "writev", "splice", "sendfile":
			if !strings.Contains(c.args, `"gperfDT1"`) {
				moved = append(moved, c)
			}
		}
	}
	return moved
}

func TestParseStrace(t *testing.T) {
	t.Parallel()
	const text = `7  socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3
7  setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0
7  ppoll([{fd=3, events=POLLOUT}, {fd=4, events=POLLOUT}], 2, {tv_sec=0}, NULL, 0) = 1 ([{fd=3, revents=POLLOUT}], left {tv_sec=0})
7  sendmsg(3, {msg_name=NULL, msg_iov=[{iov_base="gperfDT1"..., iov_len=28}], msg_iovlen=1}, MSG_NOSIGNAL) = 28
7  setsockopt(3, SOL_SOCKET, SO_RCVTIMEO_OLD, "\0\0"..., 16 <unfinished ...>
8  accept4(5, {sa_family=AF_INET, sin_port=htons(1)}, [112 => 16], SOCK_CLOEXEC <unfinished ...>
7  <... setsockopt resumed>)         = 0
7  --- SIGURG {si_signo=SIGURG} ---
7  sendto(3, "\0\0"..., 256, MSG_NOSIGNAL, NULL, 0) = -1 EAGAIN (Resource temporarily unavailable)
7  close(3 <unfinished ...>
8  <... accept4 resumed>) = 3
7  <... close resumed>) = 0
8  recvfrom(3, "x"..., 64, 0, NULL, NULL <unfinished ...>
8  +++ exited with 0 +++
`
	calls, err := parseStrace(text)
	if err != nil {
		t.Fatal(err)
	}
	type history struct {
		FD      int
		Calls   []string
		Options []string
	}
	var got []history
	for _, d := range histories(calls) {
		h := history{FD: d.fd, Options: options(d.calls)}
		for _, c := range d.calls {
			h.Calls = append(h.Calls, c.name+"="+strconv.Itoa(c.number()))
		}
		got = append(got, h)
	}
	want := []history{
		{3, []string{"socket=3", "setsockopt=0", "ppoll=1", "sendmsg=28", "setsockopt=0", "sendto=-1", "close=0"}, []string{"TCP_NODELAY=1", "SO_RCVTIMEO"}},
		{4, []string{"ppoll=1"}, []string{}},
		{5, []string{"accept4=3"}, []string{}},
		{3, []string{"accept4=3", "recvfrom=-1"}, []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parseStrace("7  what is this\n"); err == nil {
		t.Error("nonsense was taken for a system call")
	}
}
