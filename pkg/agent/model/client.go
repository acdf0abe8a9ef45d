package model

import (
	"bytes"
	"errors"
	"io"
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
	a.http = &http.Client{CheckRedirect: a.redirect}
	// A program may have replaced the default transport with another type.
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.ResponseHeaderTimeout = headerTimeout
		a.http.Transport = transport
	}
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

// do sends a request and returns the response, if it is one of success. Every other one is an error.
func (a *Agent) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "turnstile")
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // no context would end the reading from it
		resp.Body.Close()
		return nil, newStatusError(resp.StatusCode, resp.Header, nil)
	}
	if resp.StatusCode < 300 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{paced.New(resp.Body, req.Context().Done()), resp.Body}
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part of it is enough
	if key := a.config.Key; key != "" {
		text = bytes.ReplaceAll(text, []byte(key), []byte(noKey)) // before it is truncated, perhaps within the key
	}
	return nil, newStatusError(resp.StatusCode, resp.Header, text)
}
