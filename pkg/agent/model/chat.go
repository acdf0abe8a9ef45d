package model

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
)

// chat is the provider of servers with Chat Completions.
type chat struct {
	*Agent
	endpoint string
}

// endpoint is the URL of the requests. The base's path stays as it is written: some proxies have a
// whole URL in it, which JoinPath would change.
func endpoint(base url.URL) string {
	base.ForceQuery = false
	return strings.TrimSuffix(base.String(), "/") + "/chat/completions"
}

// unfit implements provider.
func (chat) unfit(request) error { return nil }

// api implements provider.
func (chat) api() string { return "Chat Completions" }

// ask implements provider.
func (c chat) ask(ctx context.Context, r *run, q request, a *completion) error {
	data, err := encode(c.wire(q))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json") // as OpenAI's own clients do for streams
	if r.turn.TraceParent != "" {
		req.Header.Set("Traceparent", r.turn.TraceParent)
	}
	if c.config.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.config.Key)
	}
	resp, err := c.do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a.heard(r)
	for chunk, err := range chunks(resp.Body) {
		if err == nil {
			err = r.chunk(a, chunk)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
