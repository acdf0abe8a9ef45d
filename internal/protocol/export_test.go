package protocol

import (
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/script"
)

// of is a script for tests that call it by hand.
func of(s *script.Script) *redis.Script { return redis.NewScript(s.Text().Source) }

// Scripts are the package's scripts by name, for tests that break their calls.
var Scripts = map[string]*redis.Script{
	"ring": of(ringScript), "stop": of(stopScript), "rotate": of(rotateScript), "claim": of(claimScript), "claim plain": of(claimPlainScript), "finish plain": of(finishPlainScript), "promote": of(promoteScript), "unclaim": of(unclaimScript),
	"renew": of(renewScript), "emit": of(emitScript), "finish": of(finishScript), "requeue": of(requeueScript), "look": of(lookScript),
	"purge": of(purgeScript), "forget": of(forgetScript), "fail": of(failScript), "mark": of(markScript), "checkpoint": of(checkpointScript),
	"steer": of(steerScript), "dismiss": of(dismissScript), "title": of(titleScript), "configure": of(configureScript),
	"undo": of(undoScript), "rerun": of(rerunScript), "erase": of(eraseScript), "discard": of(discardScript),
	"keep": of(keepScript), "ask": of(askScript), "answer": of(answerScript), "past": of(pastScript),
	"events page": of(eventsPageScript), "trim": of(trimScript), "admit": of(admitScript), "look after": of(lookAfterScript),
}

// KeysOf are the KEYS of every script of a session.
func KeysOf(session, sessionID string) []string { return Keys(session, sessionID, time.Now()) }

// Waiting is how many moves wait to be sent together.
func (c *Consumer) Waiting() int { return c.moves.Waiting() }

// Unheard counts the claims that are to be taken back.
func Unheard(c *Consumer) int {
	c.unheardMu.Lock()
	defer c.unheardMu.Unlock()
	return len(c.unheard)
}

// HeardNothing leaves a claim to TakeBack whose sentinel has ended long ago.
func HeardNothing(c *Consumer, session string) {
	c.heardNothing(&Claim{consumer: c, session: session, keys: Keys(session, "", time.Now())})
}

// SetEnqueuesPerClient changes after how many messages a client has another
// asynq.Client.
func SetEnqueuesPerClient(e *Enqueuer, n int) { e.most = n }

// QueuesKnown is how many queues a client's asynq.Client remembers.
func QueuesKnown(e *Enqueuer) (n int) {
	names := reflect.ValueOf(e.client).Elem().FieldByName("broker").Elem().Elem().FieldByName("queuesPublished")
	(*sync.Map)(names.Addr().UnsafePointer()).Range(func(any, any) bool { n++; return true })
	return n
}
