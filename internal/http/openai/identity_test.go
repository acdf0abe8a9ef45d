package openai_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
)

// tokens are a gateway's tokens. Each name is followed by its permissions and is also its secret.
// Each sees every session.
func tokens(t *testing.T, list ...string) func(*gateway.Config) {
	t.Helper()
	var entries []string
	for _, one := range list {
		name, may, _ := strings.Cut(one, " ")
		sum := sha256.Sum256([]byte(name))
		entries = append(entries, fmt.Sprintf(`{"name": %q, "sha256": %q, "sessions": ["*"], "new": "new:", "may": ["%s"]}`,
			name, hex.EncodeToString(sum[:]), strings.ReplaceAll(may, " ", `", "`)))
	}
	path := filepath.Join(t.TempDir(), "tokens.json")
	expect.OK(t, os.WriteFile(path, []byte("["+strings.Join(entries, ",")+"]"), 0o600))
	loaded, err := gateway.LoadTokens(path)
	expect.OK(t, err)
	return func(c *gateway.Config) { c.Tokens = loaded }
}

// retry is the header with which OpenAI's SDKs repeat a request.
var retry = option.WithHeader("X-Stainless-Retry-Count", "1")

// background stores a message and returns its response's ID and its conversation.
func background(t *testing.T, client sdk.Client, conversation, text string, opts ...option.RequestOption) (id, session string) {
	t.Helper()
	p := say(conversation, text)
	p.Background = sdk.Bool(true)
	got, err := client.Responses.New(t.Context(), p, opts...)
	expect.OK(t, err)
	return got.ID, got.Conversation.ID
}

// Requests that name no conversation never share one, whatever their texts, and also if they say that
// they are repeated: users of one token write the same words.
func TestNoTwoUsersInOneConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "bot send read"))
	r.worker()
	client := r.at(r.url, option.WithAPIKey("bot"))
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var opts []option.RequestOption
			if i%2 == 1 {
				opts = append(opts, retry)
			}
			got, err := client.Responses.New(t.Context(), say("", "hi"), opts...)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hi")), opts...)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[got.Conversation.ID] = true
		})
	}
	all.Wait()
	expect.Equal(t, "conversations of 20 users", len(seen), 20)
	sessions, _ := r.temporary()
	expect.Equal(t, "sessions of 20 chats", len(sessions), 20)
}

// In a conversation the same words are another message, also while the first one waits, unless a key
// or the SDK marks a repetition. A repetition finds the last such message, never another token's.
func TestEqualMessagesOfAConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "ann send read", "bob send read"))
	ann, bob := r.at(r.url, option.WithAPIKey("ann")), r.at(r.url, option.WithAPIKey("bob"))
	send := func(client sdk.Client, opts ...option.RequestOption) string {
		t.Helper()
		id, _ := background(t, client, "s", "yes", opts...)
		return id
	}
	first := send(ann)
	expect.Equal(t, "a retry", send(ann, retry), first)
	second := send(ann)
	expect.Equal(t, "the same words again are another message", second != first, true)
	expect.Equal(t, "a retry of the second", send(ann, retry), second)
	third := send(ann)
	expect.Equal(t, "a third time", third != first && third != second, true)
	expect.Equal(t, "a retry of the third", send(ann, retry), third)
	others := send(bob, retry)
	expect.Equal(t, "another token's retry is his own message", others != first && others != second && others != third, true)
	expect.Equal(t, "which is found again", send(bob, retry), others)
	expect.Equal(t, "and leaves the first token's as it is", send(ann, retry), third)

	keyed := option.WithHeader("Idempotency-Key", "k")
	named := send(ann, keyed)
	expect.Equal(t, "the key again", send(ann, keyed), named)
	p := say("s", "yes")
	p.Background = sdk.Bool(true)
	_, err := bob.Responses.New(t.Context(), p, keyed)
	r.refused(err, 400, "idempotency_conflict", "")
}

// Without a conversation, a key names one for its token and its route.
func TestKeysWithoutAConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "ann send read", "bob send read"))
	r.worker()
	ann, bob := r.at(r.url, option.WithAPIKey("ann")), r.at(r.url, option.WithAPIKey("bob"))
	keyed := option.WithHeader("Idempotency-Key", "k")
	id, session := background(t, ann, "", "hi", keyed)
	again, _ := background(t, ann, "", "hi", keyed)
	expect.Equal(t, "again", again, id)
	_, other := background(t, bob, "", "hi", keyed)
	expect.Equal(t, "another token has its own", other != session, true)
	_, err := ann.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("hi")), keyed)
	expect.OK(t, err)
	sessions, _ := r.temporary()
	expect.Equal(t, "temporary sessions", len(sessions), 1)
	for _, s := range sessions {
		expect.Equal(t, "the chat has its own", s != session && s != other, true)
	}
}

// commands counts a gateway's Redis commands.
type commands struct{ n atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// A message costs the same, however often the same words were sent.
func TestEqualMessagesCost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	counted := &commands{}
	r.hook = counted
	_, url := r.gateway()
	client := r.at(url)
	for _, conversation := range []string{"s", ""} {
		cost := func() int64 {
			before := counted.n.Load()
			background(t, client, conversation, "hi")
			return counted.n.Load() - before
		}
		cost() // scripts are loaded
		cost()
		second := cost()
		for range 20 {
			cost()
		}
		if last := cost(); last > second+2 { // commands of a renewal by the gateway
			t.Errorf("in %q the third message takes %d commands, the 24th %d", conversation, second, last)
		}
	}
}
