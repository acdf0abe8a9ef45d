package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"turnstile/bench/internal/lab"
)

// boardRows is how many sessions the board's first page has.
const boardRows = 50

// measureBoard measures the board's first page with many sessions that had a turn each: from the
// request to the last byte of the page, so the server's time is a little less.
func measureBoard(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	rdb := srv.Client()
	defer rdb.Close()
	n := lab.Quick(*sessions, 2000)
	if err := lab.Known(ctx, rdb, "board", n); err != nil {
		return err
	}
	lab.Progress("%d sessions had a turn", n)
	child, addr, err := start(ctx, srv)
	if err != nil {
		return err
	}
	defer child.End()
	client := &http.Client{}
	var all []time.Duration
	for range lab.Quick(*samples, 100) {
		took, err := firstPage(ctx, client, addr)
		if err != nil {
			return err
		}
		all = append(all, took)
	}
	figure := fmt.Sprintf("the board's first page with %d sessions", n)
	report.Reach(figure, lab.Quantile(all, 0.99) <= 100*time.Millisecond, "<= 100ms", "%s", lab.Spread(all))
	report.Add("  the first request to a new gateway", "%s", lab.Short(all[0]))
	return nil
}

// firstPage reads the board's first page, and returns how long that took.
func firstPage(ctx context.Context, client *http.Client, addr string) (time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/board/", http.NoBody)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	took := time.Since(began)
	if rows := bytes.Count(page, []byte("data-row=")); err == nil && rows != boardRows {
		err = fmt.Errorf("the board: %s with %d sessions, want %d", response.Status, rows, boardRows)
	}
	return took, err
}
