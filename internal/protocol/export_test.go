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
func KeysOf(session, sessionID string) []string { return keys(session, sessionID, time.Now()) }

// DecodeEvents reads one entry of a session's stream.
var DecodeEvents = decodeEvents

// Watched is how many bytes of text whoever follows a turn sees in entries of the
// stream.
func Watched(turn string, entries []redis.XMessage) (n int) {
	w := &watch{turns: map[string]bool{turn: true}, see: func(e Event) { n += len(e.Text) }}
	for _, m := range entries {
		w.hear(m)
	}
	return n
}

// Waiting is how many moves wait to be sent together.
func (c *Consumer) Waiting() int { return c.moves.Waiting() }

// SetEnqueuesPerClient changes after how many messages a client has another
// asynq.Client.
func SetEnqueuesPerClient(c *Client, n int) { c.tasks.most = n }

// QueuesKnown is how many queues a client's asynq.Client remembers.
func QueuesKnown(c *Client) (n int) {
	names := reflect.ValueOf(c.tasks.client).Elem().FieldByName("broker").Elem().Elem().FieldByName("queuesPublished")
	(*sync.Map)(names.Addr().UnsafePointer()).Range(func(any, any) bool { n++; return true })
	return n
}

// Unheard counts the claims that are to be taken back.
func Unheard(c *Consumer) int {
	c.unheardMu.Lock()
	defer c.unheardMu.Unlock()
	return len(c.unheard)
}

// HeardNothing leaves a claim to TakeBack whose sentinel has ended long ago.
func HeardNothing(c *Consumer, session string) {
	c.heardNothing(&Hold{consumer: c, session: session, keys: keys(session, "", time.Now())})
}
