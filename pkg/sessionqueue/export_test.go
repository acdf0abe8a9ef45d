package sessionqueue

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Scripts are the package's scripts by name, for tests that break their calls.
var Scripts = map[string]*redis.Script{
	"ring": ringScript, "stop": stopScript, "rotate": rotateScript, "claim": claimScript, "promote": promoteScript,
	"renew": renewScript, "emit": emitScript, "finish": finishScript, "requeue": requeueScript, "look": lookScript,
	"purge": purgeScript, "forget": forgetScript, "fail": failScript, "mark": markScript, "checkpoint": checkpointScript,
	"steer": steerScript, "dismiss": dismissScript, "title": titleScript, "configure": configureScript,
	"undo": undoScript, "rerun": rerunScript, "erase": eraseScript,
	"keep": keepScript, "ask": askScript, "answer": answerScript,
}

// KeysOf are the KEYS of every script of a session.
func KeysOf(session, sessionID string) []string { return keys(session, sessionID, time.Now()) }

// DecodeEvents reads one entry of a session's stream.
var DecodeEvents = decodeEvents
