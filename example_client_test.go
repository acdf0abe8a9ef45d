package turnstile_test

import (
	"context"
	"errors"
	"fmt"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/demo"
)

// Any number of goroutines share one client.
func ExampleNewClient() {
	rdb, stop := demo.Redis()
	defer stop()
	client := turnstile.NewClient(rdb)
	receipt, err := client.Session("web:42").Send(context.Background(), turnstile.Message{ID: "update-1001", Text: "hello"})
	fmt.Println(receipt.State, err)
	// Output: pending <nil>
}

// A public chat may want smaller limits than the defaults.
func ExampleNewClient_config() {
	rdb, stop := demo.Redis()
	defer stop()
	client := turnstile.NewClient(rdb, turnstile.ClientConfig{Limits: session.Limits{MessageBytes: 30}})
	_, err := client.Session("web:42").Send(context.Background(), turnstile.Message{Text: "hello, how are you?"})
	fmt.Println(errors.Is(err, session.ErrTooLarge))
	// Output: true
}
