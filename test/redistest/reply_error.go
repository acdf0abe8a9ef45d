package redistest

// AnswerError is an error reply of Redis itself, for FailBefore.
type AnswerError string

func (a AnswerError) Error() string { return string(a) }

// RedisError implements redis.Error.
func (AnswerError) RedisError() {}
