package turnstile_test

import (
	"context"
	"fmt"
	"os"

	"turnstile"
	"turnstile/test/demo"
)

// A worker with an agent of its own. Its settings are environment variables.
func ExampleRunWorker() {
	rdb, stop := demo.Redis()
	defer stop()
	defer setenv("REDIS_URL", demo.URL(rdb))()
	defer setenv("TURNSTILE_LOG_LEVEL", "error")()

	ctx, end := context.WithCancel(context.Background()) // the end of ctx is a SIGTERM
	go func() {
		defer end()
		fmt.Println(say(ctx, turnstile.NewClient(rdb), "good morning").Reply)
	}()
	err := turnstile.RunWorker(ctx, demo.Shout())
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

// The exit code tells a wrong setting, a restart and a normal end apart.
func ExampleExitCode() {
	defer setenv("TURNSTILE_CONCURRENCY", "many")()
	err := turnstile.RunWorker(context.Background(), demo.Shout())
	fmt.Println(turnstile.ExitCode(err), turnstile.ExitCode(turnstile.ErrRestart), turnstile.ExitCode(nil))
	// Output: 2 75 0
}

// The whole main function of a worker. The example does not run it, because Init and os.Exit need a
// process of their own.
func ExampleInit() {
	turnstile.Init()
	err := turnstile.RunWorker(context.Background(), demo.Shout())
	if err != nil {
		fmt.Fprintln(os.Stderr, "my-worker:", err)
	}
	os.Exit(turnstile.ExitCode(err))
}
