package trials

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Bounds of what is read.
const (
	maxDocument = 256 << 20 // bytes of one document
	batchBytes  = 1 << 20   // of documents that a worker gets at once
	workers     = 2
)

// A Reader reads trials from files, and of each only the figures that it was made
// for.
type Reader struct {
	set    Set
	slots  []slot
	paths  *node
	shared caches
	ids    map[string]bool // of the runs read so far
	inside bool            // read the intervals, too
}

// A slot is one path of one metric.
type slot struct {
	metric int
	path   string
}

// NewReader returns a reader of these metrics; what is asked for twice is read
// once.
func NewReader(wanted ...Metric) *Reader {
	r := &Reader{ids: map[string]bool{}}
	for _, m := range wanted {
		if r.set.Index(m.Name) < 0 {
			r.set.Metrics = append(r.set.Metrics, m)
		}
	}
	r.paths = documentPaths()
	for i, m := range r.set.Metrics {
		for _, path := range m.paths {
			n := len(r.slots)
			r.slots = append(r.slots, slot{i, path})
			if path == pathStalls {
				continue // counted, not read
			}
			at := r.paths.at(path)
			at.slots = append(at.slots, n)
			if above, _, is := strings.Cut(path, ".protocols."); is {
				// Counters that didn't grow aren't in the document.
				above := r.paths.at(above + ".protocols")
				above.counters = append(above.counters, n)
			}
		}
	}
	return r
}

// Inside makes the reader read the rates of intervals, where files keep them.
func (r *Reader) Inside() { r.inside = true }

// Set is all that was read. It settles what the cells of runs of their own are,
// for which all have to be known.
func (r *Reader) Set() *Set {
	r.settle()
	return &r.set
}

// Read reads files, and all files of folders, and returns how many trials they
// had. "-" is stdin. Its first error ends it, and names file and line.
func (r *Reader) Read(paths ...string) (n int, err error) {
	before := len(r.set.Trials)
	var files []source
	for _, path := range paths {
		found, err := expand(path)
		if err != nil {
			return 0, err
		}
		files = append(files, found...)
	}
	if err := r.read(files); err != nil {
		return 0, err
	}
	return len(r.set.Trials) - before, nil
}

// ReadFrom reads one stream; name is what messages call it.
func (r *Reader) ReadFrom(name string, in io.Reader) (n int, err error) {
	before := len(r.set.Trials)
	err = r.read([]source{{name: name, in: in}})
	return len(r.set.Trials) - before, err
}

// A source is one file to be read.
type source struct {
	name   string
	in     io.Reader // nil: the file of that name
	found  bool      // in a folder, where other files may be, too
	notAny error     // why it isn't one of results
}

// expand lists the files of a folder, which are those not hidden; any other path
// stands for itself.
func expand(path string) ([]source, error) {
	if path == "-" {
		return []source{{name: "stdin", in: os.Stdin}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []source{{name: path}}, nil
	}
	var files []source
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != path && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			files = append(files, source{name: name, found: true})
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: a folder without files", path)
	}
	return files, err
}

// A batch is some documents of one file, or its end.
type batch struct {
	from  *source
	buf   []byte
	docs  []span
	whole func() ([]*Trial, error) // instead of docs: what a whole file says
	err   error                    // reading the file
	end   bool                     // of the file

	items []item
	done  chan struct{}
}

// A span is where in a batch a document stands.
type span struct {
	line, from, to int
}

// read reads files: one goroutine cuts them into documents, two take these apart,
// and this one puts the pieces together in the order of the files.
func (r *Reader) read(files []source) error {
	var (
		work    = make(chan *batch, workers)
		ordered = make(chan *batch, 2*workers)
		quit    = make(chan struct{})
		all     sync.WaitGroup
		spare   = sync.Pool{New: func() any { return new(batch) }}
	)
	send := func(b *batch) bool {
		b.done = make(chan struct{})
		select {
		case ordered <- b:
		case <-quit:
			return false
		}
		select {
		case work <- b:
			return true
		case <-quit:
			return false
		}
	}
	all.Go(func() {
		defer close(ordered)
		defer close(work)
		for i := range files {
			c := cutter{from: &files[i], spare: &spare, send: send}
			if !c.file() {
				return
			}
		}
	})
	for range workers {
		all.Go(func() {
			d := r.newDecoder()
			for b := range work {
				d.batch(b)
				close(b.done)
			}
		})
	}
	j := joiner{r: r}
	var err error
	for b := range ordered {
		<-b.done
		if err = j.batch(b); err != nil {
			break
		}
		b.buf, b.docs, b.items, b.whole, b.err, b.end = b.buf[:0], b.docs[:0], b.items[:0], nil, nil, false
		spare.Put(b)
	}
	close(quit)
	all.Wait()
	return err
}

// A cutter cuts one file into batches of documents.
type cutter struct {
	from  *source
	spare *sync.Pool
	send  func(*batch) bool
	b     *batch
}

// file sends the batches of the file and then its end, and reports whether there
// is anybody to send to.
func (c *cutter) file() bool {
	c.fresh()
	err := c.open()
	if c.b == nil {
		return false
	}
	c.b.err, c.b.end = err, true
	return c.send(c.b)
}

func (c *cutter) fresh() {
	c.b, _ = c.spare.Get().(*batch)
	c.b.from = c.from
}

// flush sends what there is, and begins anew.
func (c *cutter) flush() bool {
	if !c.send(c.b) {
		c.b = nil
		return false
	}
	c.fresh()
	return true
}

// errNoReader ends a cutter whose batches nobody wants any longer.
var errNoReader = errors.New("nobody reads")

func (c *cutter) open() error {
	in := c.from.in
	if in == nil {
		f, err := os.Open(c.from.name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	buffered := bufio.NewReaderSize(in, 256<<10)
	head, _ := buffered.Peek(2)
	if bytes.Equal(head, []byte("\x1f\x8b")) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("%s: %w", c.from.name, err)
		}
		buffered = bufio.NewReaderSize(unzipped, 256<<10)
	}
	head, err := buffered.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%s: %w", c.from.name, err)
	}
	head = bytes.TrimLeft(head, "\ufeff \t\r\n")
	switch {
	case len(head) == 0:
		return c.foreign("empty")
	case head[0] == '{':
		return c.documents(buffered)
	case head[0] == '[':
		return c.foreign("a list, not documents one after the other (jq -c '.[]' makes them so)")
	}
	return c.netperf(buffered)
}

// foreign is what is said of a file that holds no results. In a folder it may.
func (c *cutter) foreign(why string) error {
	err := fmt.Errorf("%s: %s: no results", c.from.name, why)
	if c.from.found {
		c.from.notAny = err
		return nil
	}
	return err
}

// netperf takes what isn't JSON as netperf's output, if it looks like it.
func (c *cutter) netperf(in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxDocument))
	if err != nil {
		return fmt.Errorf("%s: %w", c.from.name, err)
	}
	if !isNetperf(text) {
		return c.foreign(notNetperf(text))
	}
	name := c.from.name
	c.b.whole = func() ([]*Trial, error) { return importNetperf(name, text) }
	return nil
}

// documents cuts a stream of JSON objects. One line each is the rule. It isn't
// looked into then; what spans lines ends where its braces do.
func (c *cutter) documents(in *bufio.Reader) error {
	var open struct { // a document that began and did not end yet
		line  int
		depth int
		text  bool // inside a string
	}
	line := 0
	from := 0 // of the document in the batch
	for {
		start := len(c.b.buf)
		err := c.line(in, from)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if ended && len(c.b.buf) == start {
			break
		}
		line++
		for rest := start; rest < len(c.b.buf); {
			text := c.b.buf[rest:]
			if open.line == 0 {
				trimmed := bytes.TrimRight(bytes.TrimLeft(text, "\ufeff \t\r\n"), " \t\r\n")
				if len(trimmed) == 0 {
					break
				}
				from = len(c.b.buf) - len(bytes.TrimLeft(text, "\ufeff \t\r\n"))
				if trimmed[0] != '{' || len(trimmed) > 1 && trimmed[len(trimmed)-1] == '}' {
					c.b.docs = append(c.b.docs, span{line, from, from + len(trimmed)})
					break
				}
				open.line, open.depth, open.text = line, 0, false
				rest = from
				text = c.b.buf[rest:]
			}
			end := balance(text, &open.depth, &open.text)
			if end < 0 {
				break
			}
			rest += end
			c.b.docs = append(c.b.docs, span{open.line, from, rest})
			open.line = 0
		}
		if open.line == 0 && len(c.b.buf) >= batchBytes {
			if !c.flush() {
				return errNoReader
			}
		}
		if open.line == 0 {
			from = len(c.b.buf)
		}
		if ended {
			break
		}
	}
	if open.line == 0 {
		return nil
	}
	if line > open.line {
		return fmt.Errorf("%s:%d: the document that begins here doesn't end", c.from.name, open.line)
	}
	c.b.docs = append(c.b.docs, span{open.line, from, len(c.b.buf)})
	return nil
}

// line appends the next line to the batch.
func (c *cutter) line(in *bufio.Reader, from int) error {
	for {
		part, err := in.ReadSlice('\n')
		c.b.buf = append(c.b.buf, part...)
		if len(c.b.buf)-from > maxDocument {
			return fmt.Errorf("%s: a document of more than %d MiB", c.from.name, maxDocument>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s: %w", c.from.name, err)
			}
			return err
		}
	}
}

// balance returns where in text the braces are balanced, -1 if they aren't.
func balance(text []byte, depth *int, inText *bool) int {
	for i := 0; i < len(text); i++ {
		switch ch := text[i]; {
		case *inText && ch == '\\':
			i++
		case ch == '"':
			*inText = !*inText
		case *inText:
		case ch == '{':
			*depth++
		case ch == '}':
			if *depth--; *depth <= 0 {
				return i + 1
			}
		}
	}
	return -1
}
