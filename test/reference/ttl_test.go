package reference_test

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/reference"
)

// Redis' own clock cannot be set, so a life does not wait for a key to expire. It compares the
// setting by which each key expires, and the transcripts that an operation renews.
const (
	transcriptTTL = 30 * 24 * time.Hour

	// aged is the TTL of a transcript that no operation has renewed since the last picture.
	aged = transcriptTTL - 24*time.Hour
)

// ttls are the TTLs of a session's keys, while they are read.
type ttls struct {
	most map[string]time.Duration // by key; 0: it must not expire
	left map[string]*redis.DurationCmd
}

func (b *actual) readTTLs(p redis.Pipeliner) ttls {
	t := ttls{map[string]time.Duration{}, map[string]*redis.DurationCmd{}}
	k := b.k
	t.most[k.Sentinel()] = b.workers[0].Config().SentinelTTL
	for _, key := range []string{k.Journal(), k.State()} {
		t.most[key] = transcriptTTL
	}
	for i := range messages {
		t.most[k.Idem(id(i))], t.most[k.Task(rediskey.TaskID(key, id(i)))] = sq.DefaultIdempotencyTTL, 0
	}
	for _, key := range []string{
		k.Run(), k.Record(), k.Followups(), k.Resume(), k.Events(), k.Stopped(), k.Owed(), k.Outbox(), k.Deliveries(), k.Undelivered(),
		k.Pending(), k.Active(), k.Lease(), k.Paused(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(),
		rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions,
	} {
		t.most[key] = 0
	}
	for key := range t.most {
		t.left[key] = p.PTTL(b.ctx, key)
	}
	return t
}

// picture adds each key with a wrong TTL. The model has none.
func (t ttls) picture(p reference.Picture) {
	for key, left := range t.left {
		if wrong := wrongTTL(left.Val(), t.most[key]); wrong != "" {
			p["TTL of "+key] = wrong
		}
	}
}

// slack is longer than a life takes by the real clock.
const slack = 30 * time.Second

// wrongTTL compares the rest of a TTL with the setting.
func wrongTTL(left, most time.Duration) string {
	const missing, never = -2, -1
	switch {
	case left == missing, left == never && most == 0, left > most-slack && left > 0 && left <= most:
		return ""
	case left == never:
		return fmt.Sprintf("it never expires, want within %s", most)
	}
	return fmt.Sprintf("it expires in %s, want %s", left, most)
}

// renewed is the part of the picture about transcripts that the last operation renewed.
func renewed(left time.Duration) string {
	const setting, kept = transcriptTTL - slack, aged - slack
	switch {
	case left < 0:
		return ", never expires"
	case left > setting && left <= transcriptTTL:
		return reference.Renewed
	case left <= kept || left > aged:
		return fmt.Sprintf(", expires in %s", left)
	}
	return ""
}
