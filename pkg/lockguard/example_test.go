package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/lockguard"
)

// redisForExample is any Redis; here one inside this process.
func redisForExample() (client *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}

func Example() {
	client, stop := redisForExample()
	defer stop()
	guard, err := lockguard.New(client, lockguard.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close()

	ctx := context.Background()
	lock, err := guard.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := lock.Release(ctx); err != nil {
			log.Print(err) // lost meanwhile, or Redis is away
		}
	}()

	// Work under lock.Context(), and send lock.Fence() along with what is
	// written elsewhere.
	fmt.Println(lock.Context().Err(), lock.Fence() > 0)
	// Output: <nil> true
}

func ExampleGuard_TryAcquire() {
	client, stop := redisForExample()
	defer stop()
	guard, err := lockguard.New(client, lockguard.WithOwner("worker-1"))
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close()

	ctx := context.Background()
	lock, err := guard.TryAcquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	_, err = guard.TryAcquire(ctx, "invoices")
	var held *lockguard.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Owner, held.Holder.Phase)
	}
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = guard.Holder(ctx, "invoices")
	fmt.Println(errors.Is(err, lockguard.ErrFree))
	// Output:
	// held by worker-1 starting
	// true
}

// The holders come in the order in which they asked, each with a greater fence.
func ExampleGuard_Acquire() {
	client, stop := redisForExample()
	defer stop()
	guard, err := lockguard.New(client)
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close()

	ctx := context.Background()
	first, err := guard.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		second, err := guard.Acquire(ctx, "invoices") // waits for the first
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("second", second.Fence() > first.Fence())
		_ = second.Release(ctx)
	}()
	fmt.Println("first")
	_ = first.Release(ctx)
	<-done
	// Output:
	// first
	// second true
}

// Work ends with the lock's context, and its cause tells why.
func ExampleLock_Context() {
	client, stop := redisForExample()
	defer stop()
	guard, err := lockguard.New(client, lockguard.WithTTL(100*time.Millisecond), lockguard.WithoutRenewal())
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close()

	lock, err := guard.Acquire(context.Background(), "invoices")
	if err != nil {
		log.Fatal(err)
	}
	<-lock.Context().Done() // nobody renews it
	cause := context.Cause(lock.Context())
	fmt.Println(errors.Is(cause, lockguard.ErrLost), cause)
	// Output: true lock lost: not renewed in time
}
