// Layout: two goroutines for each connection, one receives and one sends. Each counts in a field of its own, but both
// fields lie in one line.
// Fixed: quiet, the fields are 64 bytes apart and a connection fills two lines. Shared are then a channel and a wait
// group, used once by each goroutine, and the runtime's own words, used when goroutines begin and end.
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

const messages = 300000

type counted interface {
	receive()
	send()
	total() int64
}

type connection struct {
	received atomic.Int64
	sent     atomic.Int64
}

type paddedConnection struct {
	received atomic.Int64
	_        [56]byte
	sent     atomic.Int64
	_        [56]byte
}

func (c *connection) receive()     { c.received.Add(1) }
func (c *connection) send()        { c.sent.Add(1) }
func (c *connection) total() int64 { return c.received.Load() + c.sent.Load() }

func (c *paddedConnection) receive()     { c.received.Add(1) }
func (c *paddedConnection) send()        { c.sent.Add(1) }
func (c *paddedConnection) total() int64 { return c.received.Load() + c.sent.Load() }

func open() counted {
	if fixed != "" {
		return new(paddedConnection)
	}
	return new(connection)
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
	// An odd number is rounded up: there are always two to a connection.
	all := make([]counted, (max(2, min(n, 64))+1)/2)
	for i := range all {
		all[i] = open()
	}
	together(2*len(all), func(me int) {
		mine := all[me/2]
		for range messages {
			if me%2 == 0 {
				mine.receive()
			} else {
				mine.send()
			}
		}
	})
	var stores int64
	for _, one := range all {
		stores += one.total()
	}
	if stores != int64(messages*2*len(all)) {
		panic(stores)
	}
	fmt.Println("stores", stores)
}
