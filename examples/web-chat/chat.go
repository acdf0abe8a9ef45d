package main

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

//go:embed index.html
var page []byte

// chat serves the page, and forwards its requests to the gateway.
type chat struct {
	gateway string // its URL, for this server and for browsers
	token   string // "" for a gateway without tokens
	http    *http.Client
}

// newChat returns the server's handler. Requests of other sites' pages are refused.
func newChat(gateway, token string) http.Handler {
	c := &chat{gateway: strings.TrimSuffix(gateway, "/"), token: token, http: &http.Client{Timeout: 30 * time.Second}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.index)
	mux.HandleFunc("GET /chat", c.pass(http.MethodGet, ""))
	mux.HandleFunc("GET /chat/transcript", c.pass(http.MethodGet, "/transcript"))
	mux.HandleFunc("POST /chat/messages", c.pass(http.MethodPost, "/messages"))
	mux.HandleFunc("GET /chat/messages/{id}", func(w http.ResponseWriter, r *http.Request) {
		c.pass(http.MethodGet, "/messages/"+url.PathEscape(r.PathValue("id"))+"?text=true")(w, r)
	})
	mux.HandleFunc("POST /chat/stop", c.pass(http.MethodPost, "/stop"))
	mux.HandleFunc("POST /chat/approve", c.pass(http.MethodPost, "/approve"))
	mux.HandleFunc("POST /chat/deny", c.pass(http.MethodPost, "/deny"))
	mux.HandleFunc("POST /chat/tickets", c.ticket)
	mux.HandleFunc("POST /markdown", render)
	return http.NewCrossOriginProtection().Handler(mux)
}

// visitorCookie has a visitor's secret name, which no other visitor can guess.
const visitorCookie = "web_chat"

// sessionOf returns the session of a visitor, "" for one without a cookie.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(visitorCookie)
	if err != nil || len(cookie.Value) != len(rand.Text()) {
		return ""
	}
	return "web:" + strings.ToLower(cookie.Value)
}

func (c *chat) index(w http.ResponseWriter, r *http.Request) {
	if sessionOf(r) == "" {
		http.SetCookie(w, &http.Cookie{
			Name: visitorCookie, Value: rand.Text(), Path: "/", MaxAge: 30 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page)
}

// pass passes a request on to a route of the visitor's own session.
func (c *chat) pass(method, route string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := sessionOf(r)
		if key == "" {
			http.Error(w, "open / first", http.StatusForbidden)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			http.Error(w, "the message is longer than 64 KiB", http.StatusRequestEntityTooLarge)
			return
		}
		c.call(w, r, method, "/v1/sessions/"+url.PathEscape(key)+route, bytes.NewReader(body))
	}
}

// ticket fetches a ticket for the visitor's stream. The page adds the ticket to the stream's URL.
func (c *chat) ticket(w http.ResponseWriter, r *http.Request) {
	key := sessionOf(r)
	if key == "" {
		http.Error(w, "open / first", http.StatusForbidden)
		return
	}
	body, err := json.Marshal(map[string]string{"session": key})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Web-Chat-Stream", c.gateway+"/v1/sessions/"+url.PathEscape(key)+"/events")
	c.call(w, r, http.MethodPost, "/v1/tickets", bytes.NewReader(body))
}

// call calls the gateway and forwards its response.
func (c *chat) call(w http.ResponseWriter, r *http.Request, method, path string, body io.Reader) {
	request, err := http.NewRequestWithContext(r.Context(), method, c.gateway+path, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" { // the page may send a message again
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		http.Error(w, "the gateway is away", http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}
