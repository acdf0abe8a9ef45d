package resume_test

import (
	"maps"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// chat is the session of most tests.
const chat = "agent:main:telegram:dm:42"

var keys = rediskey.For(chat)

// known returns a database in which the chat has had a turn.
func known(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb := redistest.New(t)
	introduce(t, rdb, chat)
	return rdb
}

// introduce makes a session known, as its first claim does.
func introduce(t *testing.T, rdb redis.UniversalClient, session string) {
	t.Helper()
	expect.OK(t, rdb.HSet(t.Context(), rediskey.For(session).Record(), "v", "1", "session_id", "s1", "fence", "7").Err())
}

// record writes the chat's resume record as a script does, or another program.
func record(t *testing.T, rdb redis.UniversalClient, fields ...any) {
	t.Helper()
	expect.OK(t, rdb.Del(t.Context(), keys.Resume()).Err())
	if len(fields) > 0 {
		expect.OK(t, rdb.HSet(t.Context(), keys.Resume(), fields...).Err())
	}
}

func read(t *testing.T, rdb redis.UniversalClient) resume.Record {
	t.Helper()
	r, err := resume.Read(t.Context(), rdb, chat)
	expect.OK(t, err)
	return r
}

// unchanged fails the test if do changes the chat's hashes.
func unchanged(t *testing.T, rdb redis.UniversalClient, do func()) {
	t.Helper()
	both := func() [2]map[string]string {
		t.Helper()
		own, err := rdb.HGetAll(t.Context(), keys.Record()).Result()
		expect.OK(t, err)
		res, err := rdb.HGetAll(t.Context(), keys.Resume()).Result()
		expect.OK(t, err)
		return [2]map[string]string{own, res}
	}
	before := both()
	do()
	after := both()
	for i := range before {
		if !maps.Equal(before[i], after[i]) {
			t.Errorf("changed from %v to %v", before[i], after[i])
		}
	}
}

// answer checks the result of a call of Mark, Clear or Suspend.
func answer(t testing.TB, want bool) func(bool, error) {
	t.Helper()
	return func(got bool, err error) {
		t.Helper()
		expect.OK(t, err)
		expect.Equal(t, "answer", got, want)
	}
}
