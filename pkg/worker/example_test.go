package worker_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/demo"
)

var quiet = slog.New(slog.DiscardHandler) // an example's output has no log

// ask sends a message and waits for the reply.
func ask(rdb redis.UniversalClient, text string) string {
	ctx, client := context.Background(), turnstile.NewClient(rdb)
	sent, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: text})
	demo.Check(err)
	outcome, err := client.Session("web:42").Wait(ctx, sent.ID)
	demo.Check(err)
	return outcome.Reply
}

// A program that is both a worker with its agent and a sender.
func Example() {
	rdb, stop := demo.Redis() // a program connects to its own Redis
	defer stop()
	w, err := worker.New(rdb, demo.Shout(), worker.Config{Logger: quiet})
	demo.Check(err)
	ctx := context.Background()
	demo.Check(w.Start(ctx))

	fmt.Println(ask(rdb, "good morning"))
	fmt.Println(ask(rdb, "how are you?"))
	fmt.Println(w.Stop(ctx))
	// Output:
	// GOOD MORNING
	// HOW ARE YOU?
	// <nil>
}

// New refuses an invalid config.
func ExampleNew() {
	rdb, stop := demo.Redis()
	defer stop()
	_, err := worker.New(rdb, demo.Shout(), worker.Config{
		DrainTimeout: session.NoLimit, // Stop waits for the last turn's end
		AgentTimeout: session.NoLimit, // this has a limit
	})
	fmt.Println(err)
	// Output: worker: Config.AgentTimeout is negative
}

// serve runs a worker inside a service.
func serve(ctx context.Context, rdb redis.UniversalClient, myAgent agent.Agent, log *slog.Logger) error {
	w, err := worker.New(rdb, myAgent, worker.Config{Concurrency: 20, Logger: log})
	if err != nil {
		return err
	}
	return w.Run(ctx) // until ctx ends; then running turns have Config.DrainTimeout
}

// A worker with the other parts of a service, which all end with ctx.
func ExampleWorker_Run() {
	rdb, stop := demo.Redis()
	defer stop()
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		fmt.Println(ask(rdb, "good morning"))
	}()
	fmt.Println(serve(ctx, rdb, demo.Shout(), quiet))
	// Output:
	// GOOD MORNING
	// <nil>
}

// A worker is started once.
func ExampleWorker_Start() {
	rdb, stop := demo.Redis()
	defer stop()
	w, err := worker.New(rdb, demo.Shout(), worker.Config{Logger: quiet})
	demo.Check(err)
	ctx := context.Background()
	fmt.Println(w.Start(ctx))
	fmt.Println(w.Start(ctx))
	demo.Check(w.Stop(ctx))
	// Output:
	// <nil>
	// worker: started or stopped before
}

// handOver stops a worker in the middle of a turn, and shows the next worker's reply.
func handOver(stopIt func(*worker.Worker, context.Context) error) {
	rdb, stop := demo.Redis()
	defer stop()
	started := make(chan struct{}, 1)
	one, err := worker.New(rdb, demo.Endless(started), worker.Config{Logger: quiet})
	demo.Check(err)
	demo.Check(one.Start(context.Background()))
	reply := make(chan string)
	go func() { reply <- ask(rdb, "good morning") }()
	<-started

	hurry, cancel := context.WithCancel(context.Background())
	cancel() // an ended context: the turn is interrupted at once
	fmt.Println("stopped:", stopIt(one, hurry))

	two, err := worker.New(rdb, demo.Shout(), worker.Config{Logger: quiet})
	demo.Check(err)
	demo.Check(two.Start(context.Background()))
	fmt.Println((<-reply)[:len("[System note:")])
	demo.Check(two.Stop(context.Background()))
}

// Turns that do not end in time are resumed by another worker. Its agent gets a note.
func ExampleWorker_Stop() {
	handOver((*worker.Worker).Stop)
	// Output:
	// stopped: <nil>
	// [SYSTEM NOTE:
}

// The same, where a supervisor starts the worker again.
func ExampleWorker_StopToRestart() {
	handOver((*worker.Worker).StopToRestart)
	// Output:
	// stopped: <nil>
	// [SYSTEM NOTE:
}

// A liveness probe calls Health: an error means that the process should be restarted.
func ExampleWorker_Health() {
	rdb, stop := demo.Redis()
	defer stop()
	w, err := worker.New(rdb, demo.Shout(), worker.Config{Logger: quiet})
	demo.Check(err)
	fmt.Println(w.Health())
	// Output: <nil>
}

// A readiness probe calls Status: a worker that drains takes no more sessions.
func ExampleWorker_Status() {
	rdb, stop := demo.Redis()
	defer stop()
	w, err := worker.New(rdb, demo.Shout(), worker.Config{Logger: quiet, Concurrency: 20})
	demo.Check(err)
	s := w.Status()
	fmt.Printf("%d of %d slots, draining: %v\n", s.Running, s.Slots, s.Draining)
	demo.Check(w.Stop(context.Background()))
	fmt.Println("draining:", w.Status().Draining)
	// Output:
	// 0 of 20 slots, draining: false
	// draining: true
}

func ExampleWorker_Name() {
	rdb, stop := demo.Redis()
	defer stop()
	w, err := worker.New(rdb, demo.Shout(), worker.Config{Name: "eu-1", Logger: quiet})
	demo.Check(err)
	fmt.Println(w.Name())
	// Output: eu-1
}

// An Observer counts for metrics.
func ExampleObserver() {
	rdb, stop := demo.Redis()
	defer stop()
	w, err := worker.New(rdb, demo.Shout(), worker.Config{Logger: quiet, Observer: worker.Observer{
		TurnEnded: func(e worker.TurnEnd) { fmt.Println(e.Session, e.Status, e.Attempt) },
	}})
	demo.Check(err)
	ctx := context.Background()
	demo.Check(w.Start(ctx))
	ask(rdb, "good morning")
	demo.Check(w.Stop(ctx))
	// Output: web:42 done 1
}
