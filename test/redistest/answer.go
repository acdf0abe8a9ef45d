package redistest

// AnswerError is an error that Redis itself has answered, for FailBefore.
type AnswerError string

func (a AnswerError) Error() string { return string(a) }

// RedisError implements redis.Error.
func (AnswerError) RedisError() {}
