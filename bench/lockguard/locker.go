package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/lockguard"
)

const ttl = 15 * time.Second

// locker is one library under test, with its own client.
type locker interface {
	// try takes a free lock and returns its release.
	try(ctx context.Context, name string) (release func() error, err error)
	// wait takes a contended lock.
	wait(ctx context.Context, name string) (release func() error, err error)
	close()
}

// maker makes a locker with a client.
type maker func(*redis.Client) (locker, error)

type ours struct{ guard *lockguard.Guard }

func newOurs(client *redis.Client) (locker, error) {
	guard, err := lockguard.New(client, lockguard.Config{TTL: ttl})
	return ours{guard}, err
}

func (o ours) try(ctx context.Context, name string) (func() error, error) {
	lock, err := o.guard.TryAcquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(ctx) }, nil
}

func (o ours) wait(ctx context.Context, name string) (func() error, error) {
	lock, err := o.guard.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(ctx) }, nil
}

func (o ours) close() {}

type theirs struct {
	client  *redislock.Client
	backoff time.Duration
}

func newTheirs(client *redis.Client) (locker, error) {
	// It waits by retrying as often as the lock changes hands.
	return theirs{redislock.New(client), time.Millisecond}, nil
}

func (t theirs) try(ctx context.Context, name string) (func() error, error) {
	return t.obtain(ctx, name, nil)
}

func (t theirs) wait(ctx context.Context, name string) (func() error, error) {
	return t.obtain(ctx, name, &redislock.Options{RetryStrategy: redislock.LinearBackoff(t.backoff)})
}

func (t theirs) obtain(ctx context.Context, name string, options *redislock.Options) (func() error, error) {
	lock, err := t.client.Obtain(ctx, name, ttl, options)
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(ctx) }, nil
}

func (t theirs) close() {}
