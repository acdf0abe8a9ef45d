package gateway

import "time"

// Meanings has the status of each code.
func Meanings() map[Code]int {
	all := map[Code]int{}
	for code, m := range meanings {
		all[code] = m.status
	}
	return all
}

// Matches is the rule of a token's patterns.
var Matches = matches

// OpenStreams is how many streams are open.
func (g *Gateway) OpenStreams() int {
	g.streams.mu.Lock()
	defer g.streams.mu.Unlock()
	return len(g.streams.open)
}

// SetHeartbeat sets how often an idle stream gets a comment. Call it before the first stream.
func (g *Gateway) SetHeartbeat(pause time.Duration) { g.heartbeat = pause }
