package daemon

import (
	"errors"
	"net"
	"testing"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/redistest"
)

func TestMayPass(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		redistest.ReplyError("LOADING Redis is loading the dataset in memory"): true,
		redistest.ReplyError("WRONGPASS invalid username-password pair"):       false,
		redisconn.ErrTooOld: false,
		net.ErrClosed:       true,
		errors.New("x"):     true,
	} {
		if mayPass(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
