package testredis

// Answer is an error that Redis itself has answered, for FailBefore.
type Answer string

func (a Answer) Error() string { return string(a) }

// RedisError implements redis.Error.
func (Answer) RedisError() {}
