package httpd

import (
	"github.com/hibiken/asynq"

	"turnstile/internal/redisconn"
)

// ConnOpt returns a connection to the Redis at url in the form that asynqmon takes. Each call of its
// MakeRedisClient makes a new client, which the caller must close.
func ConnOpt(url string) (asynq.RedisConnOpt, error) {
	rdb, err := redisconn.Open(url) // only to check the URL: it does not connect
	if err != nil {
		return nil, err
	}
	return connOpt(url), rdb.Close()
}

type connOpt string

// MakeRedisClient implements asynq.RedisConnOpt.
func (url connOpt) MakeRedisClient() any {
	rdb, _ := redisconn.Open(string(url)) // ConnOpt has checked the URL
	return rdb
}
