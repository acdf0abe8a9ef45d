package explore

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Database is an embedded Redis without a network: it carries out one command on a snapshot and
// returns the next snapshot.
type Database struct {
	redis  *miniredis.Miniredis
	server *server.Server
	wire   bytes.Buffer
	in     *bufio.Reader
	out    *bufio.Writer
	peer   *server.Peer

	loaded  *snapshot
	touched []string // keys that the command may have changed

	scripts *scripts
	eval    bool // scripts go through the embedded server's own EVAL
}

// status is a reply like OK.
type status string

// NewDatabase makes an empty database.
func NewDatabase() (*Database, error) {
	m := miniredis.NewMiniRedis()
	conn, err := m.Dial() // starts it without a listener
	if err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	_ = conn.Close()
	d := &Database{redis: m, server: m.Server(), loaded: &snapshot{}}
	d.in, d.out = bufio.NewReader(&d.wire), bufio.NewWriter(&d.wire)
	d.peer = server.NewPeer(d.out)
	d.scripts = newScripts(d)
	return d, nil
}

// Close frees the database.
func (d *Database) Close() {
	d.scripts.close()
	d.redis.Close()
}

// Replace replaces scripts, by the SHA-1 of the originals, until the next call: it makes mutations.
func (d *Database) Replace(sources map[string]string) {
	for hash := range d.scripts.replaced {
		delete(d.scripts.compiled, hash)
	}
	for hash := range sources {
		delete(d.scripts.compiled, hash)
	}
	d.scripts.replaced = sources
}

// do carries out a command on s. An error is a reply, too.
func (d *Database) do(s *snapshot, cmd []string) (*snapshot, any) {
	d.load(s)
	d.touched = d.touched[:0]
	reply := d.command(cmd)
	return d.save(s), reply
}

// command carries out a program's command; those of a script go through dispatch.
func (d *Database) command(cmd []string) any {
	if strings.EqualFold(cmd[0], "evalsha") {
		if d.eval {
			return d.evalThere(cmd)
		}
		return d.scripts.run(cmd)
	}
	return d.dispatch(cmd)
}

// evalThere runs a script with the embedded server's own EVAL, to compare.
func (d *Database) evalThere(cmd []string) any {
	source, ok := d.scripts.source(cmd[1])
	if !ok {
		return errNoScript
	}
	for _, a := range cmd[2:] {
		d.note(a)
	}
	for _, e := range d.loaded.keys {
		d.note(e.key) // a script may write keys that it does not declare
	}
	before := d.redis.Keys()
	reply := d.send(append([]string{"eval", source}, cmd[2:]...))
	for _, key := range d.redis.Keys() {
		if _, found := slices.BinarySearch(before, key); !found {
			d.note(key)
		}
	}
	return reply
}

func (d *Database) note(key string) {
	if strings.HasPrefix(key, "turnstile:") || strings.HasPrefix(key, "asynq:") {
		d.touched = append(d.touched, key)
	}
}

// dispatch carries out one command that is not a script.
func (d *Database) dispatch(cmd []string) any {
	switch name := strings.ToUpper(cmd[0]); name {
	case "PUBLISH":
		return 0
	case "XADD":
		// Only the existence of a stream counts.
		if d.redis.Exists(cmd[1]) {
			return "0-1"
		}
		d.note(cmd[1])
	default:
		if !d.server.IsReadOnlyCommand(name) {
			for _, a := range cmd[1:] {
				d.note(a)
			}
		}
	}
	return d.send(cmd)
}

func (d *Database) send(cmd []string) any {
	d.server.Dispatch(d.peer, cmd)
	d.peer.Flush()
	reply, err := server.ParseReply(d.in)
	if err != nil {
		return err
	}
	return plain(reply)
}

// plain is a reply in the types that programs receive.
func plain(reply any) any {
	switch r := reply.(type) {
	case server.Simple:
		return status(r)
	case []any:
		for i := range r {
			r[i] = plain(r[i])
		}
		return r
	}
	return reply
}

// load brings the server to a snapshot. It writes only the differences.
func (d *Database) load(s *snapshot) {
	was := d.loaded
	if was == s {
		return
	}
	d.loaded = s
	d.redis.SetTime(time.UnixMilli(s.now))
	for i, j := 0, 0; i < len(was.keys) || j < len(s.keys); {
		switch {
		case j == len(s.keys) || i < len(was.keys) && was.keys[i].key < s.keys[j].key:
			d.redis.Del(was.keys[i].key)
			i++
		case i == len(was.keys) || was.keys[i].key > s.keys[j].key:
			d.put(s.keys[j], s.now)
			j++
		default:
			switch now := s.keys[j]; {
			case was.keys[i] != now:
				d.redis.Del(now.key)
				d.put(now, s.now)
			case now.expires != 0 && was.now != s.now:
				d.redis.SetTTL(now.key, time.Duration(now.expires-s.now)*time.Millisecond)
			}
			i++
			j++
		}
	}
}

func (d *Database) put(v *value, now int64) {
	m := d.redis
	switch v.kind {
	case "string":
		_ = m.Set(v.key, v.text[0])
	case "hash":
		m.HSet(v.key, v.text...)
	case "list":
		_, _ = m.Push(v.key, v.text...)
	case "set":
		_, _ = m.SetAdd(v.key, v.text...)
	case "zset":
		for i := 0; i < len(v.text); i += 2 {
			score, _ := strconv.ParseFloat(v.text[i+1], 64) // this package formatted it
			_, _ = m.ZAdd(v.key, score, v.text[i])
		}
	case "stream":
		for i := 0; i < len(v.text); i += 3 {
			_, _ = m.XAdd(v.key, v.text[i], v.text[i+1:i+3])
		}
	}
	if v.expires != 0 {
		m.SetTTL(v.key, time.Duration(v.expires-now)*time.Millisecond)
	}
}

// save is the loaded snapshot with the present values of the touched keys.
func (d *Database) save(s *snapshot) *snapshot {
	slices.Sort(d.touched)
	next := s
	for _, key := range slices.Compact(d.touched) {
		v, at := d.get(key, s.now), next.find(key)
		var old *value
		if at < len(next.keys) && next.keys[at].key == key {
			old = next.keys[at]
		}
		if v.same(old) || d.age(v, old, s.now) {
			continue
		}
		if next == s {
			next = &snapshot{s.now, slices.Clone(s.keys)}
		}
		switch {
		case v == nil:
			next.keys = slices.Delete(next.keys, at, at+1)
		case old == nil:
			next.keys = slices.Insert(next.keys, at, v)
		default:
			next.keys[at] = v
		}
	}
	d.loaded = next
	return next
}

// age makes a long TTL one hundredth shorter with each write of its key: a write that does not renew it leaves less
// than one that does, although the clock stands still. It reports whether the key is as it was then.
func (d *Database) age(v, old *value, now int64) (same bool) {
	if v == nil || v.expires == 0 || settingOf(v.key) < time.Hour || old != nil && keeps(old, v) {
		return false
	}
	v.expires -= aged(v.key).Milliseconds()
	d.redis.SetTTL(v.key, time.Duration(v.expires-now)*time.Millisecond)
	return v.same(old)
}

// get reads a key. Nil: there is none.
func (d *Database) get(key string, now int64) *value {
	m := d.redis
	v := &value{key: key, kind: m.Type(key)}
	switch v.kind {
	case "string":
		text, _ := m.Get(key)
		v.text = []string{text}
	case "hash":
		fields, _ := m.HKeys(key)
		for _, f := range fields {
			v.text = append(v.text, f, m.HGet(key, f))
		}
	case "list":
		list, _ := m.List(key)
		v.text = slices.Clone(list)
	case "set":
		v.text, _ = m.SMembers(key)
	case "zset":
		members, _ := m.ZMembers(key)
		for _, member := range members {
			score, _ := m.ZScore(key, member)
			v.text = append(v.text, member, strconv.FormatFloat(score, 'f', -1, 64))
		}
	case "stream":
		entries, _ := m.Stream(key)
		for _, e := range entries {
			v.text = append(v.text, e.ID, e.Values[0], e.Values[1])
		}
	default:
		return nil
	}
	if ttl := m.TTL(key); ttl != 0 {
		v.expires = now + ttl.Milliseconds()
	}
	return v
}
