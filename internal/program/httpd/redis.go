package httpd

import "turnstile/internal/redis/redisconn"

// connOpt is a Redis URL in the form that asynqmon takes.
type connOpt string

// MakeRedisClient implements asynq.RedisConnOpt. Each call makes a new client, which the caller must
// close.
func (url connOpt) MakeRedisClient() any {
	rdb, _ := redisconn.Open(string(url)) // New has checked the URL
	return rdb
}
