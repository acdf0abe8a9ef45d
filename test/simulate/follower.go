package simulate

import (
	"context"
	"encoding/json"
	"time"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/history"
)

// follow follows the session's events until ctx ends, and continues at the same place after each
// error.
func (c *chat) follow(ctx context.Context) {
	log, last := c.life.log, ""
	log.Add(history.Record{Kind: history.Stream, Session: c.key})
	for ctx.Err() == nil {
		var failed error
		for e, err := range c.client.Session(c.key).Events(ctx, turnstile.EventsAfter(last), turnstile.EventsStored()) {
			if failed = err; err != nil {
				break
			}
			text, err := json.Marshal(e)
			if failed = err; err != nil {
				break
			}
			log.Add(history.Record{Kind: history.Followed, Session: c.key, ID: e.ID, Name: string(e.Type), Text: string(text)})
			if e.Type != session.EventGap && e.Type != session.EventReset {
				last = e.ID
			}
		}
		if ctx.Err() == nil {
			log.Note("%s does not follow any more: %v", c.key, failed)
			sleep(ctx, time.Second)
		}
	}
}
