package config

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Gateway has the gateway's settings. The worker's other settings may be set too.
type Gateway struct {
	RedisURL string `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" unit:"URL" secret:"true" file:"true" help:"The Redis that the workers use."`

	Addr       string        `env:"TURNSTILE_GATEWAY_ADDR" envDefault:"127.0.0.1:8081" unit:"HOST:PORT" help:"Where the gateway serves. Any address but loopback needs TURNSTILE_GATEWAY_TOKENS_FILE."`
	TokensFile string        `env:"TURNSTILE_GATEWAY_TOKENS_FILE" unit:"path" help:"A JSON file with the tokens and their permissions, as in docs/http.md. Gateways reload it on SIGHUP. Empty: everybody who reaches the address may do everything, unless a worker's agent runs programs; see TURNSTILE_GATEWAY_OPEN. A worker only checks that approvers have tokens."`
	Open       bool          `env:"TURNSTILE_GATEWAY_OPEN" envDefault:"false" unit:"true, false" help:"Whether a gateway without tokens serves while a worker's agent runs programs, which could reach it and do everything in every session."`
	Hosts      Hosts         `env:"TURNSTILE_GATEWAY_HOSTS" unit:"names" help:"The host names by which requests may call the gateway, separated by commas and without ports. Empty: any name with tokens, and only this machine's without."`
	Origins    Origins       `env:"TURNSTILE_GATEWAY_ORIGINS" unit:"origins" help:"The origins of web pages that may use the API, separated by commas, such as https://chat.example. Pages that a proxy serves under the gateway's own origin need no entry."`
	Approve    ApproveRule   `env:"TURNSTILE_GATEWAY_APPROVE" envDefault:"sender" unit:"sender, anyone" agree:"value" help:"Who may decide an agent's question. sender: a sender of the running turn, or a token that may control. anyone: every token that may send to the session."`
	Rate       int           `env:"TURNSTILE_GATEWAY_RATE" envDefault:"1000" unit:"requests/s" help:"How many requests one token may send per second to one gateway. 0: any number."`
	Drain      time.Duration `env:"TURNSTILE_GATEWAY_DRAIN_TIMEOUT" envDefault:"10s" unit:"duration" help:"How long a draining gateway lets requests finish. Streams and waits end at once, and their clients continue elsewhere."`

	Stored

	Deliver          bool   `env:"TURNSTILE_DELIVER" envDefault:"false" unit:"true, false" help:"Whether this process delivers replies to the destinations of webhooks. Needs TURNSTILE_GATEWAY_DESTINATIONS_FILE."`
	DestinationsFile string `env:"TURNSTILE_GATEWAY_DESTINATIONS_FILE" unit:"path" agree:"given" help:"A JSON file with the destinations of webhooks and their secrets. docs/webhooks.md has its form. Workers and gateways reload it within 2 s of a change. Gateways share its names and patterns, and refuse a reply_to that is not in it."`

	AsynqmonURL string `env:"TURNSTILE_GATEWAY_ASYNQMON_URL" unit:"URL" help:"Where asynqmon is served, such as https://queues.example/asynqmon. The board's pages link to it, for tokens that see every session."`

	LogLevel  slog.Level `env:"TURNSTILE_LOG_LEVEL" envDefault:"info" unit:"debug, info, warn, error" help:"The lowest level that is logged, to stderr. debug has a line for each request."`
	LogFormat LogFormat  `env:"TURNSTILE_LOG_FORMAT" envDefault:"text" unit:"text, json" help:"The format of the log."`
}

// Hosts lists host names, in lower case.
type Hosts []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hosts) UnmarshalText(text []byte) error {
	*h = words(strings.ToLower(string(text)))
	if slices.ContainsFunc(*h, func(name string) bool {
		return strings.ContainsAny(name, "/ ") || net.ParseIP(name) == nil && strings.Contains(name, ":")
	}) {
		return errors.New("is not a list of host names: write it as chat.example,10.0.0.7 without ports")
	}
	return nil
}

// Origins lists the origins of web pages.
type Origins []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Origins) UnmarshalText(text []byte) error {
	*o = words(string(text))
	for _, origin := range *o {
		if http.NewCrossOriginProtection().AddTrustedOrigin(origin) != nil {
			return errors.New("is not a list of origins: write it as https://chat.example,http://localhost:3000")
		}
	}
	return nil
}

// words splits a list at its commas.
func words(text string) (list []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// ApproveRule says who may decide an agent's question.
type ApproveRule string

// The rules.
const (
	ApproveSender ApproveRule = "sender"
	ApproveAnyone ApproveRule = "anyone"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *ApproveRule) UnmarshalText(text []byte) error {
	return oneOf(r, text, ApproveSender, ApproveAnyone)
}

func (p *problems) judgeGateway(g Gateway) {
	p.judgeRedisURL(g.RedisURL)
	p.judgeStored(g.Stored)
	atLeast(p, "TURNSTILE_GATEWAY_RATE", g.Rate, 0)
	atLeast(p, "TURNSTILE_GATEWAY_DRAIN_TIMEOUT", g.Drain, 0)
	p.judgeDeliver(g.Deliver, g.DestinationsFile)
	loopback, err := Loopback(g.Addr)
	switch {
	case err != nil:
		p.add("TURNSTILE_GATEWAY_ADDR", "cannot be used: %v", err)
	case !loopback && g.TokensFile == "":
		p.add("TURNSTILE_GATEWAY_ADDR", "can be reached from other machines: set TURNSTILE_GATEWAY_TOKENS_FILE, or listen on 127.0.0.1")
	}
}
