package traffic

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"turnstile/test/history"
)

// Follow follows the stream of a session at the gateways, from its beginning, until ctx ends. It
// breaks its connection from time to time, and continues at the other gateway after the last ID.
func (t *Traffic) Follow(ctx context.Context, key string, seed uint64) {
	name := fnv.New64a()
	_, _ = name.Write([]byte(key))
	rng := rand.New(rand.NewPCG(seed, name.Sum64()))
	t.log.Add(history.Record{Kind: history.Stream, Session: key})
	last := ""
	for try := 0; ctx.Err() == nil; try++ {
		life, cancel := context.WithTimeout(ctx, time.Duration(500+rng.IntN(8000))*time.Millisecond)
		err := t.events(life, t.gateway(try), key, last, func(id, kind, data string) {
			t.log.Add(history.Record{Kind: history.Followed, Session: key, ID: id, Name: kind, Text: data})
			if kind != "gap" && kind != "reset" {
				last = id
			}
		})
		cancel()
		if err != nil {
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// events reads one connection's server-sent events.
func (t *Traffic) events(ctx context.Context, gateway, key, after string, see func(id, kind, data string)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+"/v1/sessions/"+key+"/events", nil)
	if err != nil {
		return err
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	return t.serverSent(req, func(id, data string) {
		var e struct{ Type string }
		if json.Unmarshal([]byte(data), &e) == nil {
			see(id, e.Type, data)
		}
	})
}

// serverSent sends a request and reads its events.
func (t *Traffic) serverSent(req *http.Request, see func(id, data string)) error {
	res, err := t.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return readEvents(res.Body, see)
}

// readEvents reads server-sent events. An event without its end does not count.
func readEvents(body io.Reader, see func(id, data string)) error {
	in := bufio.NewReaderSize(body, 1<<16)
	id, data := "", ""
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		switch name, value, _ := strings.Cut(line, ":"); {
		case line == "":
			if data != "" {
				see(id, data)
			}
			id, data = "", ""
		case name == "id":
			id = strings.TrimPrefix(value, " ")
		case name == "data":
			data += strings.TrimPrefix(value, " ")
		}
	}
}
