package mcp

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 10

// client is a client for the server's URL.
func (s *server) client() *http.Client {
	s.http = &http.Transport{Proxy: http.ProxyFromEnvironment}
	// A program may have replaced the default transport with another type.
	if usual, ok := http.DefaultTransport.(*http.Transport); ok {
		s.http = usual.Clone()
	}
	own, _ := url.Parse(s.URL) // checked before
	return &http.Client{
		Transport: withHeaders{s},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case req.URL.Scheme != own.Scheme || !strings.EqualFold(req.URL.Host, own.Host):
				return errors.New("it redirects to another server, which must not get the headers")
			case len(via) >= maxRedirects:
				return errors.New("it redirects again and again")
			}
			return nil
		},
	}
}

// withHeaders sends a server's headers with each request, and limits each response.
type withHeaders struct{ *server }

func (t withHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, value := range t.Headers {
		req.Header.Set(name, value)
	}
	resp, err := t.http.RoundTrip(req)
	if err == nil {
		resp.Body = &limited{resp.Body, maxOutput}
		if resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" {
			t.gone.Store(true)
		}
	}
	return resp, err
}

// limited is a body that fails when it is too long.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(to []byte) (int, error) {
	n, err := l.ReadCloser.Read(to)
	if l.left -= n; l.left < 0 {
		return 0, errFlood
	}
	return n, err
}
