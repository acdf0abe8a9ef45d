package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/lockguard"
)

// redisForExample starts a Redis inside this process.
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

// guardForExample returns a guard on such a Redis.
func guardForExample(config ...lockguard.Config) (guard *lockguard.Guard, stop func()) {
	client, stop := redisForExample()
	guard, err := lockguard.New(client, config...)
	if err != nil {
		log.Fatal(err)
	}
	return guard, stop
}

// acquireForExample takes a free lock.
func acquireForExample(guard *lockguard.Guard, name string) *lockguard.Lock {
	lock, err := guard.Acquire(context.Background(), name)
	if err != nil {
		log.Fatal(err)
	}
	return lock
}

func Example() {
	client, stop := redisForExample()
	defer stop()
	guard, err := lockguard.New(client)
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	lock, err := guard.Acquire(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := lock.Release(ctx); err != nil {
			log.Print(err) // lost, or Redis cannot be reached
		}
	}()

	// Send the fencing token with each write.
	work := func(ctx context.Context, fence int64) { fmt.Println(ctx.Err(), fence > 0) }
	work(lock.Context(ctx), lock.Fence())
	// Output: <nil> true
}

func ExampleNew() {
	client, stop := redisForExample()
	defer stop()
	_, err := lockguard.New(client, lockguard.Config{Owner: "worker-1", TTL: time.Millisecond})
	fmt.Println(err)
	// Output: lock guard: TTL 1ms is under 50ms
}

// The lock goes to its waiters in the order of their calls, each time with a higher fencing token.
func ExampleGuard_Acquire() {
	guard, stop := guardForExample()
	defer stop()
	ctx := context.Background()
	first := acquireForExample(guard, "invoices")
	done := make(chan struct{})
	go func() {
		defer close(done)
		second := acquireForExample(guard, "invoices") // waits for the first
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

// A timeout bounds the wait, not the lock.
func ExampleGuard_Acquire_timeout() {
	guard, stop := guardForExample()
	defer stop()
	acquireForExample(guard, "invoices")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := guard.Acquire(ctx, "invoices")
	fmt.Println(err)
	// Output: lock "invoices": context deadline exceeded
}

func ExampleGuard_TryAcquire() {
	guard, stop := guardForExample(lockguard.Config{Owner: "worker-1"})
	defer stop()
	acquireForExample(guard, "invoices")

	_, err := guard.TryAcquire(context.Background(), "invoices")
	text, _, _ := strings.Cut(err.Error(), " since ")
	fmt.Println(errors.Is(err, lockguard.ErrHeld), text)
	_, err = guard.TryAcquire(context.Background(), "{invoices}")
	fmt.Println(errors.Is(err, lockguard.ErrInvalid))
	// Output:
	// true lock "invoices": lock held by worker-1
	// true
}

func ExampleGuard_Holder() {
	guard, stop := guardForExample(lockguard.Config{Owner: "worker-1"})
	defer stop()
	ctx := context.Background()
	holder, err := guard.Holder(ctx, "invoices")
	fmt.Println(holder == lockguard.Holder{}, err)

	lock := acquireForExample(guard, "invoices")
	holder, err = guard.Holder(ctx, "invoices")
	fmt.Println(holder.Owner, holder.Fence == lock.Fence(), holder.Waiting, err)
	// Output:
	// true <nil>
	// worker-1 true 0 <nil>
}

// Work ends with the lock's context. Its cause is the reason.
func ExampleLock_Context() {
	client, stop := redisForExample()
	defer stop()
	guard, err := lockguard.New(client, lockguard.Config{TTL: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	lock := acquireForExample(guard, "invoices")
	_ = client.Close() // it cannot be renewed
	work := lock.Context(context.Background())
	<-work.Done()
	fmt.Println(errors.Is(context.Cause(work), lockguard.ErrLost), context.Cause(work))
	// Output: true lock lost: not renewed in time: redis: client is closed
}

// A store that remembers the highest fencing token rejects a holder that has lost the lock but does
// not know it yet.
func ExampleLock_Fence() {
	guard, stop := guardForExample()
	defer stop()
	var greatest int64
	write := func(fence int64) string {
		if fence < greatest {
			return "refused"
		}
		greatest = fence
		return "written"
	}
	first := acquireForExample(guard, "invoices")
	_ = first.Release(context.Background())
	second := acquireForExample(guard, "invoices")
	fmt.Println(write(second.Fence()), write(first.Fence()))
	// Output: written refused
}

// A released lock is no longer held. It may be released again.
func ExampleLock_Release() {
	guard, stop := guardForExample()
	defer stop()
	lock := acquireForExample(guard, "invoices")
	fmt.Println(lock.Name(), lock.Held())
	for range 2 {
		fmt.Println(lock.Release(context.Background()))
	}
	fmt.Println(errors.Is(lock.Held(), lockguard.ErrLost))
	// Output:
	// invoices <nil>
	// <nil>
	// <nil>
	// true
}
