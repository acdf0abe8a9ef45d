package protocol_test

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
)

// variantsOf returns a move's script and its fast path, if it has one.
func variantsOf(name string) []*redis.Script {
	if plain, ok := protocol.Scripts[name+"_fast"]; ok {
		return []*redis.Script{protocol.Scripts[name], plain}
	}
	if protocol.Scripts[name] == nil {
		panic("no script " + name)
	}
	return []*redis.Script{protocol.Scripts[name]}
}
