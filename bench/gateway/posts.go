package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
)

// connections is how many POSTs, or Sends, are in flight at once.
const connections = 8

// doorbell is the echo agent that reports when a turn begins and when it ends.
type doorbell struct {
	*echo.Agent
	began, ended chan time.Time
}

func (d doorbell) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	d.began <- time.Now()
	r, err := d.Agent.Run(ctx, turn)
	d.ended <- time.Now()
	return r, err
}

// post sends a message over HTTP.
func post(ctx context.Context, client *http.Client, addr, sessionKey string) error {
	body := []byte(`{"text":"hello"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/sessions/"+sessionKey+"/messages", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("POST: %s: %s", response.Status, text)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// measureStarts measures from a POST to the agent's start on an idle worker, a new session each time.
func measureStarts(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	child, addr, err := start(ctx, srv)
	if err != nil {
		return err
	}
	defer child.End()
	rdb := srv.Client()
	defer rdb.Close()
	n := lab.Quick(*samples, 200)
	bell := doorbell{echo.New(), make(chan time.Time, 1), make(chan time.Time, 1)}
	w, err := lab.Work(ctx, rdb, bell, lab.Production(10))
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	client, all := &http.Client{}, make([]time.Duration, 0, n)
	for i := range n + n/10 { // the first ones pay for connections, scripts and pages
		time.Sleep(2 * time.Millisecond)
		sent := time.Now()
		if err := post(ctx, client, addr, fmt.Sprint("start-", i)); err != nil {
			return err
		}
		began, err := lab.Next(ctx, bell.began)
		if err != nil {
			return err
		}
		if _, err := lab.Next(ctx, bell.ended); err != nil {
			return err
		}
		if i >= n/10 {
			all = append(all, began.Sub(sent))
		}
	}
	met := lab.Median(all) <= 1500*time.Microsecond && lab.Quantile(all, 0.99) <= 5*time.Millisecond
	report.Reach("POST to the agent's start, new session, idle worker", met, "p50 <= 1.5ms, p99 <= 5ms", "%s", lab.Spread(all))
	return nil
}

// measurePosts compares the rate of POSTs with that of Client.Send, on as many connections, in short
// alternating rounds, so that other work of the machine slows both. No worker runs.
func measurePosts(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	child, addr, err := start(ctx, srv)
	if err != nil {
		return err
	}
	defer child.End()
	rdb := srv.Client()
	defer rdb.Close()
	n, sender := lab.Quick(*posts, 500), turnstile.NewClient(rdb)
	web := make([]*poster, connections)
	for i := range web {
		if web[i], err = newPoster(ctx, addr); err != nil {
			return err
		}
		defer web[i].close()
	}
	rate := func(send func(connection, i int) error) (float64, error) {
		began := time.Now()
		err := lab.Parallel(connections, func(c int) error {
			for i := c; i < n; i += connections {
				if err := send(c, i); err != nil {
					return err
				}
			}
			return nil
		})
		return float64(n) / time.Since(began).Seconds(), err
	}
	var ratios, sends, costs []float64
	for round := range lab.Quick(*rounds, 5) + 1 {
		sent, err := rate(func(_, i int) error {
			_, err := sender.Session(fmt.Sprintf("send-%d-%d", round, i%1000)).Send(ctx, turnstile.Message{Text: "hello"})
			return err
		})
		if err != nil {
			return err
		}
		var before, after usage
		if err := child.Call("usage", &before); err != nil {
			return err
		}
		posted, err := rate(func(c, i int) error { return web[c].post(fmt.Sprintf("post-%d-%d", round, i%1000)) })
		if err != nil {
			return err
		}
		if err := child.Call("usage", &after); err != nil {
			return err
		}
		if err := srv.Clear(ctx); err != nil {
			return err
		}
		if round == 0 {
			continue // it pays for connections and scripts
		}
		lab.Progress("round %d: %.0f POSTs/s, %.0f Sends/s", round, posted, sent)
		ratios, sends = append(ratios, posted/sent), append(sends, sent)
		costs = append(costs, float64((after.CPU-before.CPU)/time.Duration(n))/float64(time.Microsecond))
	}
	ratio := lab.Median(ratios)
	report.Reach(fmt.Sprintf("POSTs on %d connections against Client.Send", connections), ratio >= 0.6, ">= 0.6", "%.2f x (%.2f to %.2f; Send: %.0f/s)",
		ratio, slices.Min(ratios), slices.Max(ratios), lab.Median(sends))
	report.Add("  CPU of the gateway's process for a POST", "%.0fµs", lab.Median(costs))
	return nil
}
