package explore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errDiffers is wrapped if a real server's reply differs from the embedded one's.
var errDiffers = errors.New("the two servers differ")

// ReplayOn makes the steps of a schedule on the embedded server and on an empty database of a real
// one. The processes run twice: each run receives its own server's replies. An error says where the
// two differ in more than times. The real server's clock cannot be set, so the schedule must not
// advance the clock.
func (s *Search) ReplayOn(ctx context.Context, schedule string, rdb *redis.Client) error {
	n, err := s.beginning()
	if err != nil {
		return err
	}
	if len(s.Config.Before) > 0 {
		return errors.New("explore: the real server has nothing of what comes before the search")
	}
	there := append([]*local{}, n.at...)
	for i, word := range strings.Fields(schedule) {
		a, err := s.parse(word)
		if err != nil {
			return err
		}
		switch a.kind() {
		case tick, jump:
			return fmt.Errorf("%w: %q on a real server", errSchedule, word)
		case expiry:
			if err := rdb.Del(ctx, sentinelOf(s.Config.Sessions[a.proc()])).Err(); err != nil {
				return err
			}
			n, _ = s.take(n, a)
			continue
		}
		differ := error(nil)
		proc := a.proc()
		replyThere := func(here any, cmd []string) any {
			l := there[proc]
			var reply any
			if a.executes() {
				if l.next == nil || CommandName(l.next.cmds[l.sent]) != CommandName(cmd) {
					differ = fmt.Errorf("%w in step %d: there %s is elsewhere", errDiffers, i+1, s.Config.Processes[proc].Name)
					return nil
				}
				reply = s.remote(ctx, rdb, l.next.cmds[l.sent])
				if x, y := timeless(here), timeless(reply); x != y {
					differ = fmt.Errorf("%w in step %d, %s: here %s, there %s", errDiffers, i+1, s.brief(cmd), x, y)
				}
			}
			return reply
		}
		before := n
		s.saw = func(cmd []string, reply any, _ int64) {
			if differ == nil {
				r := replyThere(reply, cmd)
				if differ == nil {
					there[proc] = s.moved(a, there[proc], r)
				}
			}
		}
		to, _ := s.take(n, a)
		s.saw = nil
		if differ != nil {
			return differ
		}
		if !a.executes() && a.kind() != crash {
			there[proc] = s.moved(a, there[proc], nil)
		}
		// Lives begin and end together, with the same number, also one that ends with its first
		// command.
		over := there[proc] == nil || there[proc].next == nil
		if over || to.at[proc] == nil || to.at[proc].atStart() && before.at[proc] != to.at[proc] {
			there[proc] = to.at[proc]
		}
		n = to
	}
	return s.sameKeys(ctx, n.db, rdb)
}

// moved is the local of a process after a step.
func (s *Search) moved(a action, l *local, reply any) *local {
	switch a.kind() {
	case step:
		return s.player.part(l, reply)
	case resend:
		return l.whole()
	}
	return s.player.give(l.whole(), response{err: errFault})
}

// remote carries out a command on a real server.
func (s *Search) remote(ctx context.Context, rdb *redis.Client, cmd []string) any {
	args := make([]any, len(cmd))
	for i, word := range cmd {
		args[i] = word
	}
	reply, err := rdb.Do(ctx, args...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		source, _ := s.db.scripts.source(cmd[1])
		args[0], args[1] = "eval", source
		reply, err = rdb.Do(ctx, args...).Result()
	}
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	return local64(reply)
}

// local64 is a reply of go-redis in the types of this package.
func local64(reply any) any {
	switch r := reply.(type) {
	case int64:
		return int(r)
	case []any:
		list := make([]any, len(r))
		for i := range r {
			list[i] = local64(r[i])
		}
		return list
	}
	return reply
}

// failedAt is a task's message without the end of it that a failed turn appends, which has a time
// in binary.
func failedAt(msg string) string {
	before, _, failed := strings.Cut(msg, errFault.Error())
	if !failed {
		return msg
	}
	return before[:strings.LastIndex(before, "read the history of")-1]
}

var number = regexp.MustCompile(`[0-9]{9,19}`)

// timeless is a reply without times and ages, which differ from run to run.
func timeless(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "nil"
	case error:
		return "an error"
	case status:
		return fmt.Sprintf("%q", string(r))
	case string:
		return number.ReplaceAllString(fmt.Sprintf("%q", r), "T")
	case int:
		return number.ReplaceAllString(fmt.Sprint(r), "T")
	case []any:
		words := make([]string, len(r))
		for i := range r {
			words[i] = timeless(r[i])
		}
		switch {
		case len(r) >= 3 && strings.Contains(words[1], "turnstile:message"): // a message and its age
			words[1], words[2] = failedAt(words[1]), "age"
		case len(r) >= 4 && (words[0] == `"next"` || words[0] == `"following"`) && strings.Contains(words[2], "turnstile:message"):
			words[3] = "age"
		case len(r) == 10 && words[0] == `"turn"`:
			words[9] = "age"
		case len(r) >= 2 && (words[0] == `"held"` || words[1] == `"held"`):
			words[len(r)-1] = "left"
		case len(r) == 2 && words[0] == `"T"`: // TIME
			words[1] = `"T"`
		}
		return "{" + strings.Join(words, " ") + "}"
	}
	return fmt.Sprint(reply)
}

// sameKeys compares the two databases at the end.
func (s *Search) sameKeys(ctx context.Context, db *snapshot, rdb *redis.Client) error {
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, key := range keys {
		there[key] = true
	}
	for _, v := range db.keys {
		if !there[v.key] && v.kind != "stream" && !strings.Contains(v.key, "timer:") {
			return fmt.Errorf("%w: %s is not there", errDiffers, v.key)
		}
		delete(there, v.key)
		if v.kind == "hash" {
			fields, err := rdb.HGetAll(ctx, v.key).Result()
			if err != nil {
				return err
			}
			for i := 0; i < len(v.text); i += 2 {
				here, other := timeless(v.text[i+1]), timeless(fields[v.text[i]])
				if here != other && v.text[i] != "msg" { // it has times in binary
					return fmt.Errorf("%w: %s %s is %s here and %s there", errDiffers, v.key, v.text[i], here, other)
				}
			}
			if len(fields) != len(v.text)/2 {
				return fmt.Errorf("%w: %s has %d fields here and %d there", errDiffers, v.key, len(v.text)/2, len(fields))
			}
		}
	}
	for key := range there {
		return fmt.Errorf("%w: %s is there only", errDiffers, key)
	}
	return nil
}

// ReplayTwice makes the steps of a schedule with this package's way to run a script, and with the
// embedded server's own. An error says where the two differ.
func (s *Search) ReplayTwice(schedule string) error {
	one, err := s.Replay(schedule, nil)
	if err != nil {
		return err
	}
	s.db.eval = true
	two, err := s.Replay(schedule, nil)
	s.db.eval = false
	if err != nil {
		return err
	}
	for i := range one.Trace {
		if one.Trace[i] != two.Trace[i] {
			return fmt.Errorf("%w: %s\nand %s", errDiffers, one.Trace[i], two.Trace[i])
		}
	}
	if s.digestOf(one.node) != s.digestOf(two.node) {
		return fmt.Errorf("%w in what they leave", errDiffers)
	}
	return nil
}
