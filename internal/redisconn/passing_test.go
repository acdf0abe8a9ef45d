package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func TestMayPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err              error
		mayPass, refused bool
	}{
		{nil, false, false},
		{errors.New("of the program"), false, false},
		{context.Canceled, false, false},
		{context.DeadlineExceeded, true, false}, // go-redis returns it for its own timeouts
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true, false},
		{fmt.Errorf("claim a: %w", io.EOF), true, false},
		{redis.ErrPoolTimeout, true, false},
		{redistest.ReplyError("LOADING Redis is loading the dataset in memory"), true, false},
		{fmt.Errorf("claim a: %w", redistest.ReplyError("READONLY You can't write against a read only replica.")), true, false},
		{redistest.ReplyError("BUSY Redis is busy running a script."), true, false},
		{redistest.ReplyError("BUSYGROUP Consumer Group name already exists"), false, true},
		{redistest.ReplyError("ERR max number of clients reached"), true, false},
		{redistest.ReplyError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), true, false},
		{redistest.ReplyError("ERR Script attempted to access a non local key in a cluster node"), true, false},
		{redistest.ReplyError("WRONGTYPE Operation against a key"), false, true},
		{fmt.Errorf("finish a: %w", redistest.ReplyError("OOM command not allowed")), false, true},
		{redistest.ReplyError("NOAUTH Authentication required."), false, true},
	} {
		if got := MayPass(c.err); got != c.mayPass {
			t.Errorf("MayPass(%v) = %v", c.err, got)
		}
		if got := Refused(c.err); got != c.refused {
			t.Errorf("Refused(%v) = %v", c.err, got)
		}
	}
}
