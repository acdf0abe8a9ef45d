package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

const twoSides = `[
  {"name": "web", "sha256": "SUM", "sessions": ["web:*"], "may": ["send", "read"]},
  {"name": "tg", "sha256": "SUM", "sessions": ["tg:*", "both"], "may": ["send", "read"]},
  {"name": "all", "sha256": "SUM", "sessions": ["*"], "may": ["read", "operate"]},
  {"name": "mute", "sha256": "SUM", "sessions": ["*"], "may": ["send"]}
]`

// all opens the stream of all sessions that a token sees.
func (r *rig) all(token, after string) *stream {
	r.Helper()
	s, a := r.as(token).open(r.url+"/v1/events", header("Last-Event-ID", after))
	if s == nil {
		r.Fatalf("stream: %s", a.Status)
	}
	e := s.next()
	expect.Equal(r, "first event", string(e.Type)+e.Session, string(session.EventPlace))
	return s
}

// ends reads until that many turns ended, and returns all events by session: "web:1 1-0.0
// text".
func (s *stream) ends(n int) (all []event) {
	s.t.Helper()
	for n > 0 {
		e := s.next()
		if e.id == "" {
			s.t.Errorf("%+v has no id", e)
		}
		if all = append(all, e); e.Type == session.EventTurnEnded {
			n--
		}
	}
	return all
}

// stored are the events of a session's stream.
func (r *rig) stored(key string) (ids []string) {
	r.Helper()
	s := r.as("all").stream(key, "")
	for {
		e := s.next()
		if ids = append(ids, e.id); e.Type == session.EventTurnEnded {
			return ids
		}
	}
}

func idsOf(all []event, key string) (ids []string) {
	for _, e := range all {
		if e.Session == key {
			ids = append(ids, e.EventID)
		}
	}
	return ids
}

// Each of two tokens gets the events of its sessions, those that begin later, too, and nothing of the
// other's.
func TestStreamOfAllSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, twoSides))
	r.worker()
	r.as("web").say("web:0", "before") // over before the streams are open
	web, tg, all := r.all("web", ""), r.all("tg", ""), r.all("all", "now")
	r.as("web").say("web:1", "tool=look stream=3 hello")
	r.as("tg").say("tg:1", "hi")
	r.as("web").say("web:2", "hi")
	for _, one := range []struct {
		token string
		s     *stream
		keys  string
	}{{"web", web, "web:1 web:2"}, {"tg", tg, "tg:1"}, {"all", all, "web:1 tg:1 web:2"}} {
		keys := strings.Fields(one.keys)
		got := one.s.ends(len(keys))
		count := 0
		for _, key := range keys {
			expect.List(t, one.token+" of "+key, idsOf(got, key), r.stored(key)...)
			count += len(idsOf(got, key))
		}
		expect.Equal(t, one.token+": events of others", len(got)-count, 0)
	}
	r.as("mute").call("GET", "/v1/events", nil).problem(403, gateway.Forbidden)
	r.call("GET", "/v1/events", nil).problem(401, gateway.Unauthorized)
	r.as("all").call("GET", "/v1/events?ticket=x", nil).problem(400, gateway.InvalidRequest)
	r.as("all").call("GET", "/v1/events?after=1-1", nil).problem(400, gateway.InvalidRequest)
}

// A client that comes back gets all events since, of old and new sessions. Some come twice: after
// dropping the repetitions it has each once, in order.
func TestStreamOfAllSessionsGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, twoSides))
	r.worker()
	s := r.all("web", "")
	r.as("web").say("web:1", "one")
	got := s.ends(1)
	s.close()
	last := got[len(got)-1].id
	r.as("web").say("web:1", "two")
	r.as("web").say("web:2", "stream=4 three")
	s = r.all("web", last)
	r.as("web").say("web:3", "four")
	seen := map[string]string{}
	for _, e := range got {
		seen[e.Session] = e.EventID
	}
	replies := map[string]bool{}
	for len(replies) < 4 {
		e := s.next()
		if e.EventID <= seen[e.Session] { // ids of one length
			continue
		}
		if e.Type == session.EventGap || e.Type == session.EventReset {
			t.Errorf("a gap: %+v", e)
		}
		seen[e.Session] = e.EventID
		got = append(got, e)
		for _, e := range got {
			if e.Type == session.EventTurnEnded {
				replies[e.Session+" "+e.Reply] = true
			}
		}
	}
	for _, want := range []string{"web:1 echo: one", "web:1 echo: two", "web:2 echo: three", "web:3 echo: four"} {
		if !replies[want] {
			t.Errorf("no %s in %v", want, replies)
		}
	}
	for _, key := range []string{"web:2", "web:3"} {
		expect.List(t, key, idsOf(got, key), r.stored(key)...)
	}

	// Trimmed events are reported as a gap.
	s.close()
	now, err := r.redis.Time(t.Context()).Result()
	expect.OK(t, err)
	r.as("web").say("web:1", "five")
	expect.OK(t, r.redis.XTrimMaxLen(t.Context(), rediskey.For("web:1").Events(), 1).Err())
	s = r.all("web", fmt.Sprint(now.UnixMilli()))
	for {
		e := s.next()
		if e.Session != "web:1" {
			continue
		}
		expect.Equal(t, "before what is left", e.Type, session.EventGap)
		break
	}
}

// A changed token ends its stream. A drain ends every stream.
func TestStreamOfAllSessionsEnds(t *testing.T) {
	t.Parallel()
	path := tokensFile(t, twoSides)
	tokens, err := gateway.LoadTokens(path)
	expect.OK(t, err)
	r := newRig(t, func(c *gateway.Config) { c.Tokens = tokens })
	web, tg := r.all("web", ""), r.all("tg", "")
	head := r.as("web").call(http.MethodHead, "/v1/events", nil)
	expect.Equal(t, "HEAD", fmt.Sprint(head.StatusCode, head.Header.Get("Content-Type")), "200text/event-stream")
	writeTokens(t, path, strings.Replace(twoSides, `"web:*"`, `"web:1*"`, 1))
	expect.OK(t, r.gateway.Reload())
	<-web.done
	select {
	case <-tg.done:
		t.Error("a stream was ended whose token is the same")
	default:
	}
	r.gateway.Drain()
	for e := tg.next(); e.retry == ""; e = tg.next() {
	}
	<-tg.done
}
