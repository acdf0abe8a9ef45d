package redistest

// ReplyError is an error reply of Redis itself, for FailBefore.
type ReplyError string

func (a ReplyError) Error() string { return string(a) }

// RedisError implements redis.Error.
func (ReplyError) RedisError() {}
