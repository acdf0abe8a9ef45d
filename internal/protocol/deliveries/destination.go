package deliveries

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Finding is a deliverer's finding about a destination. Without Disabled and Pause, the destination
// works.
type Finding struct {
	Destination string
	Disabled    bool          // it rejects all deliveries
	Pause       time.Duration // it fails: time until the next attempt, at least 1 ms
	Why         string
}

// Store stores the finding for all deliverers. It returns false, and changes nothing, if an
// operator or a response 410 has disabled the destination. lua/pause.lua.
func (f Finding) Store(ctx context.Context, rdb script.Client) (stored bool, err error) {
	r, err := scripts.Pause.Run(ctx, rdb, []string{rediskey.Destinations}, scripts.PauseArgs{To: f.Destination, Disabled: f.Disabled, Wait: f.Pause.Milliseconds(), Why: f.Why})
	return r.Stored, err
}

// DestinationState says why deliverers send nothing to a destination. The zero value is a destination
// that gets its deliveries.
type DestinationState struct {
	Paused   bool   `json:"paused,omitempty"`   // its deliveries wait
	Disabled bool   `json:"disabled,omitempty"` // its receiver rejects all: they wait until an operator enables it
	Why      string `json:"why,omitempty"`

	// At is a time in ms since 1970. If Paused, deliverers try again then; 0: not before an
	// operator enables the destination. If Disabled, it is when that happened.
	At int64 `json:"at,omitempty"`
}

// SetDestination stores the state of a destination; the zero value enables it.
func SetDestination(ctx context.Context, rdb redis.Cmdable, name string, s DestinationState) error {
	if s == (DestinationState{}) {
		return rdb.HDel(ctx, rediskey.Destinations, name).Err()
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return rdb.HSet(ctx, rediskey.Destinations, name, text).Err()
}

// Destinations returns the states of the destinations that are paused or disabled, and the present
// time by Redis' clock, as their times are.
func Destinations(ctx context.Context, rdb redis.Cmdable) (states map[string]DestinationState, now time.Time, err error) {
	var stored *redis.MapStringStringCmd
	var clock *redis.TimeCmd
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock, stored = p.Time(ctx), p.HGetAll(ctx, rediskey.Destinations)
		return nil
	})
	states = make(map[string]DestinationState, len(stored.Val()))
	for name, text := range stored.Val() {
		var s DestinationState
		if json.Unmarshal([]byte(text), &s) != nil {
			s = DestinationState{Disabled: true, Why: "its state cannot be read"}
		}
		states[name] = s
	}
	return states, clock.Val(), err
}
