package httpd

import (
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func TestConnOptMakesFreshClients(t *testing.T) {
	t.Parallel()
	if _, err := ConnOpt("redis://:secret"); err == nil {
		t.Error("a malformed URL was taken")
	}
	opt, err := ConnOpt(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
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
