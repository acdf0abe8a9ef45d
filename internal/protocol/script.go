package protocol

import (
	"strings"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/script"
)

// The moves. The header of each file in lua declares KEYS, ARGV and results by name.
var (
	acceptFast    = named("accept" + lua.FastSuffix)
	acceptMove    = named("accept")
	stopMove      = named("stop")
	rotateMove    = named("rotate")
	titleMove     = named("title")
	configureMove = named("configure")
	undoMove      = named("undo")
	rerunMove     = named("rerun")
	discardMove   = named("discard")
	eraseMove     = named("erase")
	decideMove    = named("decide")
	cancelMove    = named("cancel")
	onceMove      = named("once")

	claimFast  = named("claim" + lua.FastSuffix)
	claimMove  = named("claim")
	finishFast = named("finish" + lua.FastSuffix)
	finishMove = named("finish")

	unclaimMove    = named("unclaim")
	surviveMove    = named("survive")
	promoteMove    = named("promote")
	renewMove      = named("renew")
	emitMove       = named("emit")
	checkpointMove = named("checkpoint")
	storeStateMove = named("store_state")
	askMove        = named("ask")
	steerMove      = named("steer")
	dismissMove    = named("dismiss")
	markMove       = named("mark")
	requeueMove    = named("requeue")

	trimMove   = named("trim")
	lookMove   = named("look")
	purgeMove  = named("purge")
	forgetMove = named("forget")

	takeMove      = named("take")
	ackMove       = named("ack")
	redriveMove   = named("redrive")
	outboxDueMove = named("outbox_due")
	owingMove     = named("owing")
	pauseMove     = named("pause")

	admitMove          = named("admit")
	transcriptPageMove = named("transcript_page")
	eventsPageMove     = named("events_page")
	eventsAfterMove    = named("events_after")
	indexDueMove       = named("index_due")
	rescoreMove        = named("rescore")
	indexOwnedMove     = named("index_owned")
)

// ScriptName returns the move of a script's SHA-1, which MONITOR and SLOWLOG show: "claim",
// "finish". It returns "" for a script of another program.
func ScriptName(sha string) string {
	s, _ := script.BySHA(sha)
	return strings.TrimSuffix(s.Name, lua.FastSuffix)
}
