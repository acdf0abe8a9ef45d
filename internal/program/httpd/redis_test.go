package httpd

import (
	"errors"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/redistest"
)

func TestConnOptMakesFreshClients(t *testing.T) {
	t.Parallel()
	opt := connOpt(redistest.URL(t))
	a, b := opt.MakeRedisClient().(redis.UniversalClient), opt.MakeRedisClient().(redis.UniversalClient)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspector(opt)
	if _, err := inspector.Queues(); err != nil {
		t.Error(err)
	}
	if err := inspector.Close(); err != nil {
		t.Error(err)
	}
}

func TestMalformedRedisURL(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Addr: "127.0.0.1:0", RedisURL: "redis://:secret"}); !errors.Is(err, redisconn.ErrURL) {
		t.Error(err)
	}
}
