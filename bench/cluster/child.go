package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/index"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// job is one of the workers that run a number of messages together.
type job struct {
	URL             string
	Slots, Messages int
}

// state is a worker's report of itself.
type state struct {
	Processor time.Duration
	Commands  map[string]int // sent to Redis, by the node's address
	Failed    string
}

// The files that startFleet gives to a process.
const (
	memoryFile   = 3
	lastFile     = 4
	counterBytes = 8
)

func (j job) run(ctx context.Context) error {
	memory, err := syscall.Mmap(memoryFile, 0, counterBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	ended, last := (*atomic.Int64)(unsafe.Pointer(&memory[0])), os.NewFile(lastFile, "last")
	rdb, err := redisconn.Open(j.URL, redisconn.WithPoolSize(j.Slots+8)) // as the program does
	if err != nil {
		return err
	}
	var mu sync.Mutex
	sent := map[string]*lab.Counter{}
	err = index.EachMaster(ctx, rdb, func(ctx context.Context, _ string, of redis.Cmdable) error {
		mu.Lock()
		defer mu.Unlock()
		node := of.(*redis.Client)
		sent[node.Options().Addr] = lab.Count(node)
		return node.Ping(ctx).Err()
	})
	if err != nil {
		return err
	}
	var failed atomic.Value
	failed.Store("")
	opts := lab.Production(j.Slots)
	opts.Observer.TurnEnded = func(e worker.TurnEnd) {
		if e.Status != session.StatusDone {
			failed.Store(fmt.Sprintf("a turn ended %s: %v", e.Status, e.Err))
		}
		if ended.Add(1) == int64(j.Messages) {
			_, _ = last.Write([]byte{1})
		}
	}
	w, err := worker.New(rdb, echo.New(), opts)
	if err != nil {
		return err
	}
	if err := lab.Say("ready"); err != nil {
		return err
	}
	var began time.Duration
	return lab.Obey(func(word string) any {
		now, err := lab.ProcessorTime()
		if word == "start" && err == nil {
			began = now
			err = w.Start(ctx)
		}
		s := state{now - began, map[string]int{}, failed.Load().(string)}
		if err != nil {
			s.Failed = err.Error()
		}
		for addr, c := range sent {
			s.Commands[addr] = c.Total()
		}
		return s
	})
}
