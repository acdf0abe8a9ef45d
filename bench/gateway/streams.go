package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent/echo"
)

// arrival is when a stream has received the end of a turn.
type arrival struct {
	stream int
	at     time.Time
}

// follower opens the event stream of a session, and reports the ends of turns until ctx ends.
func follow(ctx context.Context, addr string, stream int, ended chan<- arrival) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/sessions/stream-%d/events HTTP/1.1\r\nHost: %s\r\n\r\n", stream, addr); err != nil {
		return err
	}
	r := bufio.NewReaderSize(conn, 1024)
	status, err := r.ReadString('\n')
	if err != nil || !bytes.Contains([]byte(status), []byte(" 200 ")) {
		return fmt.Errorf("open stream %d: %s %w", stream, status, err)
	}
	go func() {
		defer conn.Close()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		for {
			line, err := r.ReadSlice('\n')
			if err != nil && err != bufio.ErrBufferFull {
				return // the benchmark is over
			}
			if bytes.Contains(line, []byte(`"turn_ended"`)) {
				ended <- arrival{stream, time.Now()}
			}
		}
	}()
	return nil
}

// measureStreams opens many streams. It measures their cost, and how soon an event reaches its
// stream after the return of the agent's Run.
func measureStreams(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	child, addr, err := start(ctx, srv)
	if err != nil {
		return err
	}
	defer child.End()
	rdb := srv.Client()
	defer rdb.Close()
	n := lab.Quick(*streams, 500)
	bell := doorbell{echo.New(), make(chan time.Time, 1), make(chan time.Time, 1)}
	w, err := lab.Work(ctx, rdb, bell, lab.Production(10))
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)

	var before, after usage
	if err := child.Call("memory", &before); err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan arrival, n)
	for i := range n {
		if err := follow(following, addr, i, ended); err != nil {
			return err
		}
	}
	time.Sleep(lab.Quick(20*time.Second, 3*time.Second)) // idle: rounds of the poller, requests for notices
	if err := child.Call("memory", &after); err != nil {
		return err
	}
	open, err := lab.Connections(ctx, rdb, "gateway")
	if err != nil {
		return err
	}
	each := float64(after.Resident-before.Resident) / float64(n) / 1024
	report.Reach(fmt.Sprintf("an idle stream of %d: memory of the gateway's process", n), each <= 32, "<= 32 KiB", "%.1f KiB", each)
	report.Add("  connections to Redis", "%d", open)
	report.Add("  goroutines a stream", "%.1f", float64(after.Goroutines-before.Goroutines)/float64(n))

	sender, all := turnstile.NewClient(rdb), make([]time.Duration, 0, *samples)
	for i := range lab.Quick(*samples, 100) {
		stream := i * 7919 % n
		if _, err := sender.Session(fmt.Sprint("stream-", stream)).Send(ctx, turnstile.Message{Text: "hello"}); err != nil {
			return err
		}
		if _, err := lab.Next(ctx, bell.began); err != nil {
			return err
		}
		returned, err := lab.Next(ctx, bell.ended)
		if err != nil {
			return err
		}
		for {
			got, err := lab.Next(ctx, ended)
			if err != nil {
				return err
			}
			if got.stream == stream {
				all = append(all, got.at.Sub(returned))
				break
			}
		}
	}
	met := lab.Median(all) <= 10*time.Millisecond && lab.Quantile(all, 0.99) <= 50*time.Millisecond
	report.Reach("  the agent's return to its event on the stream", met, "p50 <= 10ms, p99 <= 50ms", "%s", lab.Spread(all))
	return nil
}
