package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"

	"turnstile/bench/internal/lab"
)

// browser is a headless Chromium. It is controlled over two pipes: each message is JSON with a zero
// byte after it.
type browser struct {
	cmd     *exec.Cmd
	dir     string
	in      *os.File
	out     *bufio.Reader
	pipe    io.Closer
	last    int
	session string // of the tab
}

// startBrowser starts a browser with one tab.
func startBrowser(ctx context.Context, path string) (*browser, error) {
	toIt, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromIt, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dashboard")
	if err != nil {
		return nil, err
	}
	b := &browser{in: in, out: bufio.NewReader(out), pipe: out, dir: dir}
	b.cmd = exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+dir, "--remote-debugging-pipe")
	b.cmd.ExtraFiles = []*os.File{toIt, fromIt} // 3 and 4
	err = b.cmd.Start()
	_, _ = toIt.Close(), fromIt.Close()
	if err != nil {
		b.close()
		return nil, err
	}
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	err = b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	if err == nil {
		err = b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	b.session = attached.SessionID
	return b, nil
}

func (b *browser) close() {
	_, _ = b.in.Close(), b.pipe.Close()
	if b.cmd.Process != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	}
	_ = os.RemoveAll(b.dir)
}

// call sends a command to the browser and waits for the response. It ignores events.
func (b *browser) call(method string, params, into any) error {
	b.last++
	command := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	ask, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(ask, 0)); err != nil {
		return err
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("the browser has ended: %w", err)
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(bytes.TrimRight(text, "\x00"), &answer); err != nil {
			return err
		}
		switch {
		case answer.ID != b.last:
		case answer.Error != nil:
			return errors.New(answer.Error.Message)
		default:
			return json.Unmarshal(answer.Result, into)
		}
	}
}

// look is the cost of a person's first look at the page of queues.
type look struct {
	rows int
	took time.Duration
	heap float64 // of the page's scripts
}

func (l look) String() string {
	return fmt.Sprintf("%d rows after %s, %.0f MB of heap", l.rows, lab.Short(l.took), l.heap/1e6)
}

// look opens the page and waits for its first rows. It starts a browser for that.
func (m monitor) look(ctx context.Context, path string) (l look, err error) {
	server := httptest.NewUnstartedServer(m)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the browser leaves in mid-request
	server.Start()
	defer server.Close()
	b, err := startBrowser(ctx, path)
	if err != nil {
		return l, err
	}
	defer b.close()
	asked := time.Now()
	var nothing struct{}
	if err := b.call("Page.navigate", map[string]any{"url": server.URL}, &nothing); err != nil {
		return l, err
	}
	err = lab.Until(ctx, "the page's rows", 20*time.Millisecond, func() (bool, error) {
		var rows struct{ Result struct{ Value int } }
		err := b.call("Runtime.evaluate", map[string]any{"expression": "document.querySelectorAll('tbody tr').length"}, &rows)
		l.rows = rows.Result.Value
		return l.rows > 0, err
	})
	if err != nil {
		return l, err
	}
	l.took = time.Since(asked)
	var heap struct{ UsedSize float64 }
	err = b.call("Runtime.getHeapUsage", nothing, &heap)
	l.heap = heap.UsedSize
	return l, err
}
