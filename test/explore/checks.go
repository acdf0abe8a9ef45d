package explore

import (
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/protocol/rediskey"
)

// The checks. A finding begins with the name of its check, so that a configuration can leave one
// out.
const (
	checkHolder   = "holder"   // an owner that lost its turn writes nothing
	checkFence    = "fence"    // fences rise
	checkError    = "error"    // a script fails
	checkSpecial  = "special"  // run.special is set where the fast path must not be taken
	checkOnce     = "once"     // a message has one entry in the transcripts
	checkOrder    = "order"    // entries stand in the order of enqueueing
	checkLost     = "lost"     // an accepted message is not lost
	checkIndex    = "index"    // a waiting message's session is in an index
	checkLeftover = "leftover" // a forgotten session leaves no key
	checkFollowup = "followup" // no follow-up entry names a message that does not wait
	checkLine     = "line"     // the lists and the tasks' states agree
)

func keysOf(key string) rediskey.Session { return rediskey.For(key) }

func sentinelOf(key string) string { return rediskey.For(key).Sentinel() }

// broken checks one command: the state before it, and the database after it.
func (s *Search) broken(n node, after *snapshot, cmd []string, reply any) string {
	if err, failed := reply.(error); failed && !strings.HasPrefix(err.Error(), "NOT FOUND") {
		if text := err.Error(); strings.HasPrefix(text, "ERR ") && !s.leftOut(checkError) {
			return fmt.Sprintf("%s: %s", checkError, text)
		}
	}
	if !s.leftOut(checkHolder) && after != n.db && strings.EqualFold(cmd[0], "evalsha") {
		if sentinel, run, token, fence, ok := s.db.scripts.owner(cmd); ok && !current(n.db, sentinel, run, token, fence) {
			return fmt.Sprintf("%s: %s under token %s and fence %s has written, which are not the turn's",
				checkHolder, s.db.scripts.name(cmd[1]), token, fence)
		}
	}
	if what := s.journals(n.db, after, cmd); what != "" {
		return what
	}
	if what := s.ttl(n.db, after); what != "" || s.leftOut(checkFence) {
		return what
	}
	for _, key := range s.Config.Sessions {
		run := keysOf(key).Run()
		was, is := n.db.get(run), after.get(run)
		if was == nil || is == nil || was == is {
			continue
		}
		from, to := whole(n.db.field(run, "fence")), whole(after.field(run, "fence"))
		before, token := n.db.field(run, "token"), after.field(run, "token")
		switch {
		case to < from:
			return fmt.Sprintf("%s: it falls from %d to %d", checkFence, from, to)
		case to == from && token != "" && (token != before || first(after.field(run, "ids")) != first(n.db.field(run, "ids"))):
			return fmt.Sprintf("%s: %d is a second turn's", checkFence, to)
		}
	}
	return ""
}

// first is the first id of a turn's messages, as JSON. Others may join the turn.
func first(ids string) string {
	id, _, _ := strings.Cut(strings.TrimSuffix(ids, "]"), ",")
	return id
}

// owner returns the identity that an owner's script presents. ok is false for other scripts, and
// for those for several sessions at once.
func (s *scripts) owner(cmd []string) (sentinel, run, token, fence string, ok bool) {
	n := int(whole(cmd[2]))
	keys, argv, name := cmd[3:3+n], cmd[3+n:], s.name(cmd[1])
	switch name {
	case "promote", "renew", "emit", "journal", "store_state", "ask", "steer", "dismiss", "finish", "finish" + lua.FastSuffix, "mark", "park":
	default:
		return "", "", "", "", false
	}
	move, err := lua.Compose(name)
	if err != nil || n != len(move.Keys) {
		return "", "", "", "", false
	}
	if fence = move.Word(argv, "fence"); name == "renew" {
		fence = "" // it holds for whatever turn runs
	}
	return move.Key(keys, "sentinel"), move.Key(keys, "run"), move.Word(argv, "token"), fence, true
}

// current reports whether a turn is the running one.
func current(db *snapshot, sentinel, run, token, fence string) bool {
	return db.str(sentinel) == token && db.field(run, "token") == token && (fence == "" || db.field(run, "fence") == fence)
}

func (s *Search) leftOut(check string) bool { return slices.Contains(s.Config.Without, check) }

// wrong checks a state.
func (s *Search) wrong(was, n node) string {
	v := View{n.db, n.told}
	for _, key := range s.Config.Sessions {
		k := keysOf(key)
		if was.db != n.db || was.told != n.told {
			for _, check := range []func(View, string, rediskey.Session, *told) string{s.special, s.transcripts, s.lost, s.inLine} {
				if what := check(v, key, k, n.told); what != "" {
					return what
				}
			}
		}
		if s.resting(n) {
			if what := s.unfound(v, key); what != "" {
				return what
			}
			if what := s.followups(v, key, k); what != "" {
				return what
			}
		}
	}
	if check := s.Config.Check; check != nil && (was.db != n.db || was.told != n.told) {
		return check(v)
	}
	return ""
}

// resting reports whether no process is in the middle of a life.
func (s *Search) resting(n node) bool {
	for i, l := range n.at {
		if l != nil && !l.atStart() && (l.next.cmds[0][0] != pause || s.can(n, i)) {
			return false
		}
	}
	return true
}

// followups checks that an idle session lists no follow-up as waiting or running. The entry of a
// message that an operator removed stays.
func (s *Search) followups(v View, key string, k rediskey.Session) string {
	if s.leftOut(checkFollowup) || v.Has(k.Sentinel()) || slices.ContainsFunc(line(k), v.Has) {
		return ""
	}
	if f := v.get(k.Followups()); f != nil {
		for i := 0; i < len(f.text); i += 2 {
			task := k.Task(rediskey.TaskID(key, f.text[i]))
			if state := v.Field(task, "state"); state == "pending" || state == "active" {
				return fmt.Sprintf("%s: %s is said to wait, and nothing does", checkFollowup, f.text[i])
			}
		}
	}
	return ""
}

func (s *Search) special(v View, _ string, k rediskey.Session, _ *told) string {
	if s.leftOut(checkSpecial) || !v.Has(k.Run()) || v.Field(k.Run(), "special") != "" {
		return ""
	}
	for _, key := range []string{k.Resume(), k.Journal(), k.Lease()} {
		if v.Has(key) {
			return fmt.Sprintf("%s: %s is there, and run does not say that something is special", checkSpecial, key)
		}
	}
	return ""
}

// transcripts checks entries: each message has one, and they are in order.
func (s *Search) transcripts(v View, key string, k rediskey.Session, t *told) string {
	seen := map[string]bool{}
	first := v.prefix(k.TranscriptPrefix())
	for _, transcript := range first {
		last := -1
		for _, line := range transcript.text {
			id := messageOf(line)
			if id == "" {
				continue
			}
			if seen[id] && !s.leftOut(checkOnce) {
				return fmt.Sprintf("%s: message %s has two entries", checkOnce, id)
			}
			seen[id] = true
			at := slices.Index(t.order, rediskey.TaskID(key, id))
			if at < 0 || s.leftOut(checkOrder) {
				continue
			}
			if at < last {
				return fmt.Sprintf("%s: %s stands behind one that was enqueued later", checkOrder, id)
			}
			last = at
		}
	}
	return ""
}

// messageOf is the message of a user's entry, "" for other entries.
func messageOf(line string) string {
	if !strings.Contains(line, `"role":"user"`) {
		return ""
	}
	_, rest, _ := strings.Cut(line, `"message":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// prefix are the values of the keys with this prefix.
func (v View) prefix(prefix string) []*value {
	i := v.find(prefix)
	j := i
	for j < len(v.keys) && strings.HasPrefix(v.keys[j].key, prefix) {
		j++
	}
	return v.keys[i:j]
}

// lost finds accepted messages that are nowhere.
func (s *Search) lost(v View, key string, k rediskey.Session, t *told) string {
	if s.leftOut(checkLost) {
		return ""
	}
	for _, f := range t.facts {
		id, ok := strings.CutPrefix(f, "accepted "+key+" ")
		if !ok || slices.Contains(s.Config.Removed, id) || t.has("ended "+key+" "+id) || ended(v, key, k, id) {
			continue
		}
		task := rediskey.TaskID(key, id)
		if !slices.ContainsFunc(line(k), func(list string) bool { return slices.Contains(v.Members(list), task) }) || !v.Has(k.Task(task)) {
			return fmt.Sprintf("%s: message %s was accepted and is nowhere", checkLost, id)
		}
	}
	return ""
}

// ended reports whether a message is a result, a dead letter or an entry.
func ended(v View, key string, k rediskey.Session, id string) bool {
	task := rediskey.TaskID(key, id)
	if slices.Contains(v.Members(k.Completed()), task) || slices.Contains(v.Members(k.Archived()), task) {
		return true
	}
	return slices.ContainsFunc(v.prefix(k.TranscriptPrefix()), func(transcript *value) bool {
		return slices.ContainsFunc(transcript.text, func(line string) bool { return messageOf(line) == id })
	})
}

// inLine checks that lists and tasks agree, and that nothing is in two places.
func (s *Search) inLine(v View, _ string, k rediskey.Session, _ *told) string {
	if s.leftOut(checkLine) {
		return ""
	}
	seen := map[string]bool{}
	for _, l := range []struct{ key, state string }{
		{k.Pending(), "pending"}, {k.Active(), "active"}, {k.Scheduled(), "scheduled"}, {k.Retry(), "retry"},
		{k.Stopped(), "pending"}, {k.Completed(), "completed"}, {k.Archived(), "archived"},
	} {
		for _, id := range v.Members(l.key) {
			if seen[id] {
				return fmt.Sprintf("%s: %s is in two places", checkLine, id)
			}
			seen[id] = true
			if state := v.Field(k.Task(id), "state"); state != l.state && v.Has(k.Task(id)) {
				return fmt.Sprintf("%s: %s is %s by its task and %s by its list", checkLine, id, state, l.state)
			}
		}
	}
	for _, task := range v.prefix(k.TaskPrefix()) {
		if id := strings.TrimPrefix(task.key, k.TaskPrefix()); !seen[id] {
			return fmt.Sprintf("%s: there is a task %s, and it is in no list", checkLine, id)
		}
	}
	return ""
}

// unfound checks, when all processes rest, that the session of a waiting message is in an index
// that leads to it.
func (s *Search) unfound(v View, key string) string {
	if s.leftOut(checkIndex) || v.idle(key) {
		return ""
	}
	for _, index := range []string{rediskey.Ready, rediskey.Sorted, rediskey.Due, rediskey.Owned, rediskey.Sessions} {
		if _, ok := v.score(index, key); ok {
			return ""
		}
	}
	if slices.Contains(v.Members(rediskey.AllQueues), rediskey.Queue(key)) {
		return ""
	}
	return fmt.Sprintf("%s: a message of %s waits, and no index has the session", checkIndex, key)
}

// final checks a state in which nothing changes any more.
func (s *Search) final(n node) string {
	if !s.Config.Cleans || s.leftOut(checkLeftover) {
		return ""
	}
	d := s.digestOf(n)
	for _, a := range s.actions(n) {
		if to, _ := s.take(n, a); s.digestOf(to) != d {
			return ""
		}
	}
	for _, e := range n.db.keys {
		if !s.passes(e) {
			return fmt.Sprintf("%s: %s, of a session that nobody uses", checkLeftover, e.key)
		}
	}
	return ""
}

// passes reports whether a key may be left when nothing else is: timers, the place of the search
// for forgotten sessions, the IDs of messages, and a day's counters of asynq's, if they expire.
func (s *Search) passes(v *value) bool {
	if v.expires == 0 {
		return false
	}
	return strings.HasPrefix(v.key, rediskey.Timer("")) || v.key == rediskey.Scan || endless(v) ||
		slices.ContainsFunc(s.Config.Sessions, func(session string) bool {
			k := keysOf(session)
			return strings.HasPrefix(v.key, k.Processed()+":") || strings.HasPrefix(v.key, k.Failed()+":")
		})
}

// name is a script's name.
func (s *scripts) name(hash string) string {
	if name, ok := s.names[hash]; ok {
		return name
	}
	return "asynq-" + hash[:6]
}
