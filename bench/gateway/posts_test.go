package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/pkg/admin"
)

// The cost of a POST in the gateway's process: the handler over a real Redis, without the server's
// work on the connection. BenchmarkSend is the part of it that Client.Send has.

func BenchmarkPost(b *testing.B) {
	handler, _ := served(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/sessions/post-"+strconv.Itoa(i%1000)+"/messages", strings.NewReader(postBody))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		w := &sink{header: http.Header{}}
		if handler.ServeHTTP(w, r); w.status != http.StatusAccepted {
			b.Fatal(w.status)
		}
	}
}

func BenchmarkSend(b *testing.B) {
	_, client := served(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m := turnstile.Message{Text: "hello", Meta: map[string]string{"sender": "local"}}
		if _, err := client.Session("send-"+strconv.Itoa(i%1000)).Send(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServed is BenchmarkPost through the server, on connections of the loopback.
func BenchmarkServed(b *testing.B) {
	handler, _ := served(b)
	server := httptest.NewServer(handler)
	defer server.Close()
	b.ReportAllocs()
	b.SetParallelism(connections / 2)
	b.RunParallel(func(pb *testing.PB) {
		p, err := newPoster(b.Context(), server.Listener.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer p.close()
		for i := 0; pb.Next(); i++ {
			if err := p.post("served-" + strconv.Itoa(i%1000)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func served(b *testing.B) (http.Handler, *turnstile.Client) {
	srv, err := lab.StartServer(b.Context(), lab.None)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Stop)
	rdb := srv.Client()
	b.Cleanup(func() { _ = rdb.Close() })
	client := turnstile.NewClient(rdb)
	return gateway.New(gateway.Config{}, gateway.Deps{
		Client: client, Admin: admin.NewClient(rdb), Store: store.New(rdb), Logger: slog.New(slog.DiscardHandler),
	}), client
}

// sink is a ResponseWriter that keeps the status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return io.Discard.Write(p) }
