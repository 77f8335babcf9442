// Layout: a mutex and what it guards lie in one line with `limit`, which all others read without the mutex. Only the
// first goroutine takes it; each of its four stores a section (lock, two sums, unlock) takes the readers' copy.
// Fixed: quiet. The mutex and its data are used by the first goroutine alone, and nobody stores to the line of `limit`.
// Shared are then a channel and a wait group, used once by each, and the runtime's own words at begin and end.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// Set by -ldflags "-X main.fixed=1".
var fixed string

const (
	sections = 40000
	checks   = 120000
)

type journal struct {
	mu    sync.Mutex
	lines int64
	bytes int64
}

type server struct {
	limit atomic.Int64
	journal
}

// One line for the limit, one for the journal.
type paddedServer struct {
	limit atomic.Int64
	_     [56]byte
	journal
	_ [40]byte
}

func (j *journal) record(size int64) {
	j.mu.Lock()
	j.lines++
	j.bytes += size
	j.mu.Unlock()
}

// Counts what is admitted in a table of its own.
func check(limit *atomic.Int64) int64 {
	var sizes [256]int64
	for i := range checks {
		if int64(i%1000) < limit.Load() {
			sizes[i*7%256]++
		}
	}
	var sum int64
	for _, n := range sizes {
		sum += n
	}
	return sum
}

// Each goroutine has a thread of the system to itself, and none begins before all are there.
func together(n int, work func(me int)) {
	runtime.GOMAXPROCS(n)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for me := range n {
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-start
			work(me)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func main() {
	n := 4
	if len(os.Args) > 1 {
		n, _ = strconv.Atoi(os.Args[1])
	}
	n = max(2, min(n, 64))
	var limit *atomic.Int64
	var log *journal
	if fixed != "" {
		s := new(paddedServer)
		limit, log = &s.limit, &s.journal
	} else {
		s := new(server)
		limit, log = &s.limit, &s.journal
	}
	limit.Store(1000)
	var admitted atomic.Int64 // added to once by each
	together(n, func(me int) {
		if me > 0 {
			admitted.Add(check(limit))
			return
		}
		for i := range sections {
			log.record(int64(i % 80))
		}
	})
	if admitted.Load() != int64(checks*(n-1)) || log.bytes != sections/80*3160 {
		panic("a count is wrong")
	}
	fmt.Println("stores", 4*log.lines)
}
