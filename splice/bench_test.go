package splice_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/internal/sys"
)

// BenchmarkMovers moves 1 MiB per iteration. CPU is of both ends: ns per KiB.
func BenchmarkMovers(b *testing.B) {
	sizes := []struct {
		name string
		size int
	}{{"64Ki", 64 << 10}, {"256Ki", 256 << 10}, {"1Mi", 1 << 20}}
	for _, sender := range []string{"write", "sendfile", "tee", "wide tee", "vmsplice", "zerocopy"} {
		for _, receiver := range []string{"read", "discard", "sink", "mapped"} {
			for _, pipe := range sizes {
				piped := sender == "tee" || sender == "wide tee" || sender == "vmsplice" || receiver == "sink"
				if !piped && pipe.size != 64<<10 {
					continue
				}
				name := fmt.Sprintf("send=%s/receive=%s/pipe=%s", sender, receiver, pipe.name)
				b.Run(name, func(b *testing.B) { benchmark(b, sender, receiver, pipe.size) })
			}
		}
	}
}

func benchmark(b *testing.B, sender, receiver string, pipe int) {
	const each = 1 << 20
	out, in := tcpPair(b, setup{})
	for _, fd := range []int{out, in} {
		must(b, unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic"))
	}
	s := newSender(b, sender, pipe, out, 0)
	r, _ := newReceiver(b, receiver, pipe, in, 0)
	chunk := each
	if sender == "write" {
		chunk = 128 << 10
	}
	var cpu [2]int64
	var got atomic.Int64
	done := make(chan struct{})
	// Threads of their own, as the callers of this package have.
	go func() {
		runtime.LockOSThread()
		defer close(done)
		before, _ := sys.ThreadCPU(unix.Gettid())
		for {
			n, _, errno := r.Receive(in, each, 0)
			if errno != 0 && errno != unix.EINTR && errno != unix.EAGAIN {
				b.Error(errno)
			}
			if n == 0 && errno == 0 {
				break
			}
			got.Add(int64(n))
		}
		after, _ := sys.ThreadCPU(unix.Gettid())
		cpu[0] = after - before
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.SetBytes(each)
	before, _ := sys.ThreadCPU(unix.Gettid())
	total := 0
	for b.Loop() {
		for left := each; left > 0; {
			n, _, errno := s.Send(out, min(left, chunk), 0)
			if errno != 0 && errno != unix.EINTR && errno != unix.EAGAIN {
				b.Fatal(errno)
			}
			left -= n
		}
		total += each
	}
	after, _ := sys.ThreadCPU(unix.Gettid())
	cpu[1] = after - before
	must(b, unix.Shutdown(out, unix.SHUT_WR))
	<-done
	must(b, r.Close())
	if got.Load() != int64(total) {
		b.Errorf("%d bytes arrived of %d", got.Load(), total)
	}
	b.ReportMetric(float64(cpu[0]+cpu[1])/(float64(total)/1024), "cpu-ns/KiB")
	b.ReportMetric(float64(total)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
	if calls := r.Stats().Calls; calls > 0 {
		b.ReportMetric(float64(total)/float64(calls), "B/receive")
	}
	if calls := s.Stats().Calls; calls > 0 {
		b.ReportMetric(float64(total)/float64(calls), "B/send")
	}
}
