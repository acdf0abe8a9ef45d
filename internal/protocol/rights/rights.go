// Package rights checks at a program's start what its Redis user may do.
package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
)

// Role is what a program's Redis user must be allowed.
type Role struct {
	free  string  // a key that nobody uses, for the probes
	calls string  // one call of every command, separated by "|": K is the free key, C a channel
	keys  [][]any // calls with the keys outside of sessions, which fail or change nothing
}

// probe makes the calls, and returns the names of the commands that the user may not call. The calls fail after Redis has
// checked the right, or leave at most the free key behind, which probe deletes. So it tries DEL first.
var probe = redis.NewScript(`
local missing = {}
for call in string.gmatch(ARGV[1], '[^|\n]+') do
  local args = {}
  for word in string.gmatch(call, '%S+') do
    args[#args + 1] = word == 'K' and KEYS[1] or word == 'C' and ARGV[2] or word
  end
  local got = redis.pcall(unpack(args))
  local said = type(got) == 'table' and got.err or ''
  if string.find(said, 'NOPERM') or string.find(said, 'executing the script can') or string.find(said, 'ACL failure') then
    missing[#missing + 1] = string.upper(args[1])
    if args[1] == 'del' then break end
  end
  redis.pcall('del', KEYS[1])
end
return missing`)

// checkTimeout bounds the check: a subscription has no deadline of its own.
const checkTimeout = 10 * time.Second

// Check returns an error that names what the Redis user may not do. Older rules may lack a right that this version
// needs, and without this check the first message would fail. It changes no session. It does not check which sessions the
// user may reach, nor asynq's own keys. Of a Cluster it asks the nodes of these keys.
func Check(ctx context.Context, rdb redis.UniversalClient, role Role) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, check := range []func(Role, context.Context, redis.UniversalClient) ([]string, error){Role.lacksKeys, Role.lacksSignals, Role.lacksCommands} {
		lacks, err := check(role, ctx, rdb)
		if err != nil {
			return err
		}
		if len(lacks) > 0 {
			slices.Sort(lacks)
			return fmt.Errorf("%w: it lacks %s; give it the rights of docs/security.md", redisconn.ErrRights, strings.Join(slices.Compact(lacks), ", "))
		}
	}
	return nil
}

// lacksKeys returns the keys that the user may not use, and the commands that scripts do not call.
func (r Role) lacksKeys(ctx context.Context, rdb redis.UniversalClient) (lacks []string, err error) {
	key := keyOf(r.keys[0]) // a rule may allow scripts with some other keys only
	calls := [][]any{{"eval", "return 1", 1, key}, {"evalsha", "x", 1, key}}
	calls = append(calls, r.keys...)
	got := make([]*redis.Cmd, len(calls))
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, args := range calls {
			got[i] = p.Do(ctx, args...)
		}
		return nil
	})
	for i, args := range calls {
		var reply redis.Error
		switch err := got[i].Err(); {
		case err != nil && !errors.As(err, &reply):
			return nil, err
		case redis.HasErrorPrefix(err, "NOPERM") && strings.Contains(err.Error(), "access"):
			lack := fmt.Sprint("the key ", keyOf(args))
			if args[0] != "expire" { // stands for all commands, see written
				lack += " for " + strings.ToUpper(fmt.Sprint(args[0]))
			}
			lacks = append(lacks, lack)
		case redis.HasErrorPrefix(err, "NOPERM"):
			lacks = append(lacks, strings.ToUpper(fmt.Sprint(args[0])))
		}
	}
	return lacks, nil
}

// keyOf returns the key of a call: EVAL and EVALSHA have it later.
func keyOf(args []any) any {
	if args[0] == "eval" || args[0] == "evalsha" {
		return args[3]
	}
	return args[1]
}

func (Role) lacksSignals(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	sub := rdb.Subscribe(ctx, rediskey.Signal("rights"))
	defer func() { _ = sub.Close() }()
	_, err := sub.ReceiveTimeout(ctx, checkTimeout)
	if redis.HasErrorPrefix(err, "NOPERM") {
		return []string{"SUBSCRIBE to the channels " + rediskey.Signal("*")}, nil
	}
	return nil, err
}

func (r Role) lacksCommands(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	lacks, err := probe.Run(ctx, rdb, []string{r.free}, r.calls, rediskey.Signal("rights")).StringSlice()
	if redis.HasErrorPrefix(err, "NOPERM") { // a gateway for some sessions only
		return nil, nil
	}
	return lacks, err
}
