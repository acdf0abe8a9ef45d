package program_test

import (
	"context"
	"fmt"
	"os"

	"turnstile"
	"turnstile/pkg/program"
	"turnstile/test/demo"
)

// A worker with its agent. Its settings are environment variables.
func ExampleRun() {
	rdb, stop := demo.Redis()
	defer stop()
	defer setenv("REDIS_URL", demo.URL(rdb))()
	defer setenv("TURNSTILE_LOG_LEVEL", "error")()

	ctx, end := context.WithCancel(context.Background()) // the end of ctx is a SIGTERM
	go func() {
		defer end()
		client := turnstile.NewClient(rdb)
		sent, err := client.Session("web:42").Send(ctx, turnstile.Message{Text: "good morning"})
		demo.Check(err)
		outcome, err := client.Session("web:42").Wait(ctx, sent.ID)
		demo.Check(err)
		fmt.Println(outcome.Reply)
	}()
	err := program.Run(ctx, demo.Shout())
	fmt.Println(err)
	// Output:
	// GOOD MORNING
	// <nil>
}

// setenv sets an environment variable, as a worker's supervisor would.
func setenv(name, value string) (restore func()) {
	old, found := os.LookupEnv(name)
	demo.Check(os.Setenv(name, value))
	return func() {
		if found {
			demo.Check(os.Setenv(name, old))
		} else {
			demo.Check(os.Unsetenv(name))
		}
	}
}

// The exit code distinguishes a wrong setting from a normal end.
func ExampleExitCode() {
	defer setenv("TURNSTILE_CONCURRENCY", "many")()
	err := program.Run(context.Background(), demo.Shout())
	fmt.Println(program.ExitCode(err), program.ExitCode(nil))
	// Output: 2 0
}

// The whole main function of a worker. The example does not run it, because Init and Exit need a
// separate process.
func ExampleInit() {
	program.Init()
	program.Exit(program.Run(context.Background(), demo.Shout()))
}
