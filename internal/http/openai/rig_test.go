package openai_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/openai"
	"turnstile/internal/http/store"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// rig is a gateway with OpenAI's API, and its official client.
type rig struct {
	*testing.T
	redis  redis.UniversalClient
	client *turnstile.Client
	url    string
	sdk    sdk.Client

	// For the gateways that are started next.
	destinations *outbox.File
	lookAfter    time.Duration // how often a request looks whether its turn is parked; 0: the default
	eraseAfter   time.Duration // how long a temporary session is kept; 0: as long as the test
	hook         redis.Hook    // of their Redis client; may be nil
	fresh        bool          // they have seen no worker yet
}

func newRig(t *testing.T, change ...func(*gateway.Config)) *rig {
	t.Helper()
	r := &rig{T: t, redis: redistest.New(t)}
	r.client = turnstile.NewClient(r.redis)
	_, r.url = r.gateway(change...)
	r.sdk = r.at(r.url)
	return r
}

// gateway starts another gateway on the same Redis.
func (r *rig) gateway(change ...func(*gateway.Config)) (*gateway.Gateway, string) {
	r.Helper()
	var c gateway.Config
	for _, f := range change {
		f(&c)
	}
	rdb := acl.Client(r.T, acl.Gateway)
	if r.hook != nil {
		rdb.AddHook(r.hook)
	}
	client, operator := turnstile.NewClient(rdb, turnstile.ClientConfig{Limits: c.Limits, DefaultReplyTo: r.destinations.Default}), admin.NewClient(rdb)
	g := gateway.New(c, gateway.Deps{Client: client, Admin: operator, Store: store.New(rdb), Destinations: r.destinations, Logger: slog.New(slog.DiscardHandler)})
	api := openai.New(client, operator, protocol.NewBodies(rdb))
	life := cmp.Or(r.eraseAfter, time.Hour)
	api.EraseAfter(life, life/10)
	if r.lookAfter > 0 {
		api.LookAfter(r.lookAfter)
	}
	if !r.fresh {
		api.SeesWorker()
	}
	api.Mount(g)
	server := httptest.NewServer(g)
	r.Cleanup(func() {
		_ = g.Stop(context.Background())
		server.CloseClientConnections()
		server.Close()
	})
	return g, server.URL
}

// at is the official client, changed only in its base URL and its key.
func (r *rig) at(url string, opts ...option.RequestOption) sdk.Client {
	return sdk.NewClient(append([]option.RequestOption{
		option.WithBaseURL(url + "/v1/"), option.WithAPIKey("secret"), option.WithHTTPClient(&http.Client{Transport: transport(r.T)}),
	}, opts...)...)
}

// transport closes its connections at the end of the test.
func transport(t *testing.T) http.RoundTripper {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return checked{t, tr}
}

// worker runs echo's turns.
func (r *rig) worker() {
	r.Helper()
	r.workerOf(echo.New())
}

func (r *rig) workerOf(a agent.Agent) {
	r.Helper()
	r.workerKeeping(a, time.Hour)
}

// workerKeeping is a worker that keeps results for some time.
func (r *rig) workerKeeping(a agent.Agent, retention time.Duration) {
	r.Helper()
	w, err := worker.New(acl.Client(r.T, acl.Worker), a, worker.Config{
		AgentName: "echo", Keep: worker.Keep{Results: retention}, Logger: slog.New(slog.DiscardHandler),
	})
	expect.OK(r, err)
	expect.OK(r, w.Start(context.Background()))
	r.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	expect.Soon(r, "the worker's heartbeat names its agents", func() bool {
		all, err := admin.NewClient(r.redis).Workers(r.Context())
		return err == nil && slices.ContainsFunc(all, func(of admin.Worker) bool { return of.Name == w.Name() && !of.Started.IsZero() })
	})
}

// say are the parameters of a response.
func say(conversation, text string) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: "echo", Input: responses.ResponseNewParamsInputUnion{OfString: sdk.String(text)}}
	if conversation != "" {
		p.Conversation = responses.ResponseNewParamsConversationUnion{OfString: sdk.String(conversation)}
	}
	return p
}

// refused fails the test unless an error is the SDK's, with a status and a code.
func (r *rig) refused(err error, status int, code, part string) {
	r.Helper()
	failed, ok := err.(*sdk.Error) //nolint:errorlint // the SDK returns it as it is
	if !ok {
		r.Fatalf("%v is no error of the API", err)
	}
	if failed.StatusCode != status || failed.Code != code || !strings.Contains(failed.Message, part) || failed.Type == "" {
		r.Errorf("%d %s %s, want %d %s %s", failed.StatusCode, failed.Code, failed.RawJSON(), status, code, part)
	}
}

// post sends a request without the SDK.
func (r *rig) post(path, body string, headers ...string) (int, map[string]any) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	expect.OK(r, err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{Transport: transport(r.T)}).Do(request)
	expect.OK(r, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	expect.OK(r, err)
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		r.Fatalf("%s: %v", data, err)
	}
	return response.StatusCode, v
}
