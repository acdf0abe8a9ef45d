package protocol

import (
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Scripts are the package's scripts by name, for tests that break their calls.
var Scripts = map[string]*redis.Script{
	"ring": ringScript(), "stop": stopScript(), "rotate": rotateScript(), "claim": claimScript(), "claim plain": claimPlainScript(), "finish plain": finishPlainScript(), "promote": promoteScript(), "unclaim": unclaimScript(),
	"renew": renewScript(), "emit": emitScript(), "finish": finishScript(), "requeue": requeueScript(), "look": lookScript(),
	"purge": purgeScript(), "forget": forgetScript(), "fail": failScript(), "mark": markScript(), "checkpoint": checkpointScript(),
	"steer": steerScript(), "dismiss": dismissScript(), "title": titleScript(), "configure": configureScript(),
	"undo": undoScript(), "rerun": rerunScript(), "erase": eraseScript(), "discard": discardScript(),
	"keep": keepScript(), "ask": askScript(), "answer": answerScript(), "past": pastScript(),
	"events page": eventsPageScript(), "trim": trimScript(), "admit": admitScript(), "look after": lookAfterScript(),
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
