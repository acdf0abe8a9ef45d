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
	receipt, err := client.Submit(context.Background(), "web:42", session.Message{ID: "update-1001", Text: "hello"})
	fmt.Println(receipt.Status, err)
	// Output: accepted <nil>
}

// A public chat may want smaller limits than the defaults.
func ExampleNewClientWith() {
	rdb, stop := demo.Redis()
	defer stop()
	client := turnstile.NewClientWith(rdb, turnstile.ClientConfig{Limits: session.Limits{Text: 10}})
	_, err := client.Submit(context.Background(), "web:42", session.Message{Text: "hello, how are you?"})
	fmt.Println(errors.Is(err, session.ErrTooLarge))
	// Output: true
}
