package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a proxy between one process and Redis.
type Proxy struct {
	proxy *toxiproxy.Proxy
	n     int
}

// newProxy starts a proxy on a free port.
func newProxy(name, upstream string) (*Proxy, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)}
	return p, p.proxy.Start()
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Point changes the proxy's target. Its connections end.
func (p *Proxy) Point(upstream string) error {
	return p.proxy.Update(&toxiproxy.Proxy{Listen: p.proxy.Listen, Upstream: upstream, Enabled: true})
}

// Toxic is a fault of a proxy's connections, in toxiproxy's terms.
type Toxic struct {
	Type     string         `json:"type"`
	Upstream bool           `json:"-"` // it acts on requests, not on responses
	Set      map[string]any `json:"attributes"`
}

// Poison adds a toxic, also to connections that are open. cure removes it.
func (p *Proxy) Poison(t Toxic) (cure func(), err error) {
	p.n++
	name := fmt.Sprint("toxic", p.n)
	stream := "downstream"
	if t.Upstream {
		stream = "upstream"
	}
	text, err := json.Marshal(map[string]any{"name": name, "type": t.Type, "stream": stream, "toxicity": 1, "attributes": t.Set})
	if err != nil {
		return nil, err
	}
	if _, err := p.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	return func() { _ = p.proxy.Toxics.RemoveToxic(context.Background(), name) }, nil
}
