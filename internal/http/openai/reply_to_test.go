package openai_test

import (
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
)

// The patterns of the gateway's destinations apply to conversations. A temporary session has no
// destination.
func TestDestinationsOfConversations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "destinations.json")
	entry := `[{"name": "hook", "url": "https://hook.example", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["*"]}]`
	expect.OK(t, os.WriteFile(path, []byte(entry), 0o600))
	file, err := outbox.OpenFile(path)
	expect.OK(t, err)
	r := newRig(t)
	r.destinations = file
	_, url := r.gateway()
	client := r.at(url)
	r.worker()
	_, err = client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hello")), option.WithHeader("X-Turnstile-Session", "s"))
	expect.OK(t, err)
	expect.Equal(t, "stored for the session", r.redis.ZCard(t.Context(), rediskey.For("s").Outbox()).Val(), 1)
	_, err = client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hello")))
	expect.OK(t, err)
	expect.Equal(t, "sessions with deliveries", len(r.redis.Keys(t.Context(), "turnstile:*:outbox").Val()), 1)
}
