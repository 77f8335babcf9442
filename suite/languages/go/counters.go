// Layout: every goroutine counts in its own element of a slice, 16 bytes each, so that four of them share a line.
// Fixed: quiet, each element has 64 bytes, and Go begins a slice of such elements on a line. Shared are then a channel
// and a wait group, used once by each goroutine, and the runtime's own words, used when goroutines begin and end.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// Set by -ldflags "-X main.fixed=1".
var fixed string

const lookups = 200000

type stats struct {
	hits   int64
	misses int64
}

type paddedStats struct {
	stats
	_ [48]byte
}

//go:noinline
func (s *stats) lookup(key int) {
	if key%4 == 0 {
		s.misses++
	} else {
		s.hits++
	}
}

func elements(n int) []*stats {
	all := make([]*stats, n)
	if fixed != "" {
		padded := make([]paddedStats, n)
		for i := range padded {
			all[i] = &padded[i].stats
		}
		return all
	}
	plain := make([]stats, n)
	for i := range plain {
		all[i] = &plain[i]
	}
	return all
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
	all := elements(n)
	together(n, func(me int) {
		mine := all[me]
		for key := range lookups {
			mine.lookup(key)
		}
	})
	var stores int64
	for _, one := range all {
		stores += one.hits + one.misses
	}
	if stores != int64(lookups*n) {
		panic(stores)
	}
	fmt.Println("stores", stores)
}
