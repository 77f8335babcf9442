// Quiet: a pipeline of goroutines. Blocks of one whole line come from a pool and go on from stage to stage by channels;
// each stage changes a block 25,000 times before it hands it on. That is one hand-off for each block and stage.
// Shared beside the blocks are the channels' and the pool's words and those of the runtime's scheduler, some ten stores
// for each block and stage.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

const (
	blocks = 8
	steps  = 25000
)

type block struct {
	words [8]int64
}

//go:noinline
func (b *block) change(step int) {
	b.words[step%8]++
}

var pool = sync.Pool{New: func() any { return new(block) }}

type stage struct {
	in  <-chan *block // nil: the first, which takes blocks from the pool
	out chan<- *block // nil: the last, which gives them back
}

// Returns how many blocks were handed on, and the sum of those given back.
func (s stage) run() (handoffs, sum int64) {
	for range blocks {
		var b *block
		if s.in == nil {
			b = pool.Get().(*block)
			*b = block{}
		} else {
			b = <-s.in
		}
		for step := range steps {
			b.change(step)
		}
		handoffs++
		if s.out != nil {
			s.out <- b
			continue
		}
		for _, w := range b.words {
			sum += w
		}
		pool.Put(b)
	}
	return handoffs, sum
}

func main() {
	n := 4
	if len(os.Args) > 1 {
		n, _ = strconv.Atoi(os.Args[1])
	}
	n = max(2, min(n, 8))
	runtime.GOMAXPROCS(n)
	stages := make([]stage, n)
	for i := range n - 1 {
		c := make(chan *block, 2)
		stages[i].out, stages[i+1].in = c, c
	}
	var mu sync.Mutex // taken once by each, in the end
	var handoffs, sum int64
	var done sync.WaitGroup
	for _, s := range stages {
		done.Go(func() {
			h, w := s.run()
			mu.Lock()
			defer mu.Unlock()
			handoffs += h
			sum += w
		})
	}
	done.Wait()
	if sum != int64(blocks*steps*n) {
		panic(sum)
	}
	fmt.Println("handoffs", handoffs)
}
