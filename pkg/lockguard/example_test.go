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
func guardForExample(options ...lockguard.Option) (guard *lockguard.Guard, stop func()) {
	client, stopRedis := redisForExample()
	guard, err := lockguard.New(client, options...)
	if err != nil {
		log.Fatal(err)
	}
	return guard, func() {
		_ = guard.Close()
		stopRedis()
	}
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
			log.Print(err) // lost meanwhile, or Redis cannot be reached
		}
	}()

	// Work under lock.Context(), and send lock.Fence() along with each write.
	fmt.Println(lock.Context().Err(), lock.Fence() > 0)
	// Output: <nil> true
}

func ExampleNew() {
	client, stop := redisForExample()
	defer stop()
	_, err := lockguard.New(client, lockguard.WithTTL(time.Millisecond))
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

func ExampleGuard_TryAcquire() {
	guard, stop := guardForExample(lockguard.WithOwner("worker-1"))
	defer stop()
	acquireForExample(guard, "invoices")

	_, err := guard.TryAcquire(context.Background(), "invoices")
	var held *lockguard.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Owner)
	}
	fmt.Println(errors.Is(err, lockguard.ErrHeld))
	// Output:
	// held by worker-1
	// true
}

func ExampleGuard_Holder() {
	guard, stop := guardForExample(lockguard.WithOwner("worker-1"))
	defer stop()
	ctx := context.Background()
	_, err := guard.Holder(ctx, "invoices")
	fmt.Println(errors.Is(err, lockguard.ErrFree))

	lock := acquireForExample(guard, "invoices")
	holder, err := guard.Holder(ctx, "invoices")
	fmt.Println(holder.Owner, holder.Fence == lock.Fence(), holder.Waiting, err)
	// Output:
	// true
	// worker-1 true 0 <nil>
}

func ExampleGuard_Close() {
	guard, stop := guardForExample()
	defer stop()
	acquireForExample(guard, "invoices")
	waited := make(chan error)
	go func() {
		_, err := guard.Acquire(context.Background(), "invoices")
		waited <- err
	}()
	_ = guard.Close()
	fmt.Println(errors.Is(<-waited, lockguard.ErrClosed))
	// Output: true
}

// An option bounds the wait. A timeout of the context would end the lock too.
func ExampleWithMaxWait() {
	guard, stop := guardForExample(lockguard.WithMaxWait(10 * time.Millisecond))
	defer stop()
	acquireForExample(guard, "invoices")
	_, err := guard.Acquire(context.Background(), "invoices")
	fmt.Println(errors.Is(err, lockguard.ErrHeld))
	// Output: true
}

// Work ends with the lock's context, whose cause is the reason.
func ExampleLock_Context() {
	guard, stop := guardForExample(lockguard.WithTTL(100*time.Millisecond), lockguard.WithoutRenewal())
	defer stop()
	lock := acquireForExample(guard, "invoices")
	<-lock.Context().Done() // it is not renewed
	cause := context.Cause(lock.Context())
	fmt.Println(errors.Is(cause, lockguard.ErrLost), cause)
	// Output: true lock lost: not renewed in time
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

func ExampleLock_Renew() {
	guard, stop := guardForExample(lockguard.WithTTL(time.Minute), lockguard.WithoutRenewal())
	defer stop()
	lock := acquireForExample(guard, "invoices")
	before := lock.Deadline()
	err := lock.Renew(context.Background())
	fmt.Println(err, lock.Deadline().After(before))
	// Output: <nil> true
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
