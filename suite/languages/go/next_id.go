// Same: all goroutines take numbers from one counter. They need the same eight bytes, wherever these lie; the counter
// has a line of its own. Shared beside it are a channel and a wait group, used once by each goroutine, and the
// runtime's own words, used when goroutines begin and end.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

const numbers = 200000

type sequence struct {
	next atomic.Int64
	_    [56]byte
}

func (s *sequence) take() int64 { return s.next.Add(1) }

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
	ids := new(sequence)
	together(n, func(me int) {
		last := int64(0)
		for range numbers {
			id := ids.take()
			if id <= last {
				panic("a number was given twice")
			}
			last = id
		}
	})
	if ids.next.Load() != int64(numbers*n) {
		panic(ids.next.Load())
	}
	fmt.Println("stores", ids.next.Load())
}
