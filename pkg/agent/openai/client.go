package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"turnstile/internal/process/paced"
)

// headerTimeout is how long a server may take until it responds at all.
const headerTimeout = 10 * time.Minute

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10

// maxRedirects is how many redirects one request follows.
const maxRedirects = 10

// connect makes the client.
func (a *Agent) connect() {
	a.endpoint = endpoint(*a.base)
	a.http = &http.Client{CheckRedirect: a.redirect}
	// A program may have replaced the default transport with another type.
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.ResponseHeaderTimeout = headerTimeout
		a.http.Transport = transport
	}
}

// endpoint is the URL of the requests. The base's path stays as it is written: some proxies have a
// whole URL in it, which JoinPath would change.
func endpoint(base url.URL) string {
	base.ForceQuery = false
	return strings.TrimSuffix(base.String(), "/") + "/chat/completions"
}

// redirect refuses to send the messages to a server other than the base URL's.
func (a *Agent) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case !sameServer(req.URL, a.base):
		return errors.New("it redirects to another server")
	case len(via) >= maxRedirects:
		return errors.New("it redirects again and again")
	}
	return nil
}

// sameServer reports whether two URLs have the same scheme, host and port.
func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// post sends a request and returns the stream of the response. Every other response is an error.
func (a *Agent) post(ctx context.Context, trace string, body request) (io.ReadCloser, error) {
	data, err := encode(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json") // as OpenAI's own clients do for streams
	req.Header.Set("User-Agent", "turnstile")
	if trace != "" {
		req.Header.Set("Traceparent", trace)
	}
	if a.config.Key != "" {
		req.Header.Set("Authorization", "Bearer "+a.config.Key)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // no context would end the reading from it
		resp.Body.Close()
		return nil, newStatusError(resp.StatusCode, resp.Header, nil)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 300 && kind != "application/json" && kind != "text/html" {
		return struct {
			io.Reader
			io.Closer
		}{paced.New(resp.Body, ctx.Done()), resp.Body}, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part of it is enough
	return nil, newStatusError(resp.StatusCode, resp.Header, text)
}
