// Package browser gives tests a real browser: the test's own headless Chromium.
//
// Without a Chromium on PATH the test is skipped, with a line on stderr. With CI=true a missing
// Chromium is a failure.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"turnstile/test/expect"
)

// patience bounds each wait for a page. The machine may be busy.
const patience = expect.Patience

// names are those under which systems install Chromium.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Page is the tab of a test's browser. Its methods fail the test when they fail.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu   sync.Mutex
	said []string
}

// Open starts a browser, which ends with the test. At its end the test fails if a page's script
// threw, or a page violated its Content-Security-Policy.
func Open(t testing.TB) *Page {
	t.Helper()
	path := binary(t)
	p := &Page{t: t}
	ctx, end := chromedp.NewContext(context.Background(), chromedp.WithListener(p.listen), chromedp.WithAllocatorOptions(
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, // tests may run as root
			chromedp.WindowSize(1100, 800), chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-dev-shm-usage", true))...))
	p.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range p.said {
			t.Errorf("the page: %s", text)
		}
	})
	p.do("start Chromium")
	return p
}

func binary(t testing.TB) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const reason = "browser: needs Chromium, and none is on PATH"
	if inCI, _ := strconv.ParseBool(os.Getenv("CI")); inCI {
		t.Fatal(reason)
	}
	fmt.Fprintf(os.Stderr, "%s: SKIPPED %s\n", reason, t.Name())
	t.Skip(reason)
	return ""
}

// listen records errors and policy violations of a page.
func (p *Page) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity {
			text = e.Entry.Text
		}
	}
	if text != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, text)
	}
}

// Refused returns the number of policy violations since the last call.
func (p *Page) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.said)
	p.said = nil
	return n
}

func (p *Page) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx := p.ctx
	if len(actions) > 0 { // the browser lives as long as the context of its start
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(p.ctx, patience)
		defer cancel()
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("browser: %s: %v", what, err)
	}
}

// Goto opens a page and waits until it is loaded.
func (p *Page) Goto(url string) {
	p.t.Helper()
	p.do("open "+url, chromedp.Navigate(url))
}

// Reload loads the page again.
func (p *Page) Reload() {
	p.t.Helper()
	p.do("reload", chromedp.Reload())
}

// Eval returns the value of a JavaScript expression, as text.
func (p *Page) Eval(expression string) string {
	p.t.Helper()
	value, err := p.eval(expression)
	if err != nil {
		p.t.Fatalf("browser: %s: %v", expression, err)
	}
	return value
}

func (p *Page) eval(expression string) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
}

// Text returns an element's text.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return p.Eval("document.querySelector(" + strconv.Quote(selector) + ").textContent")
}

// Has reports whether there is such an element.
func (p *Page) Has(selector string) bool {
	p.t.Helper()
	return p.Eval("document.querySelector("+strconv.Quote(selector)+") !== null") == "true"
}

// Await waits until a JavaScript expression is true, on this page or a later one.
func (p *Page) Await(expression string) {
	p.t.Helper()
	var value string
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if value, err = p.eval("Boolean(" + expression + ")"); err == nil && value == "true" {
			return
		}
	}
	body, _ := p.eval("document.body.innerText")
	p.t.Fatalf("browser: not yet %s: %s, %v\nat %s\n%s", expression, value, err, p.Eval("location.href"), body)
}

// AwaitText waits until an element has a text in it.
func (p *Page) AwaitText(selector, part string) {
	p.t.Helper()
	p.Await(fmt.Sprintf("(document.querySelector(%q)?.textContent ?? '').includes(%q)", selector, part))
}

// Click clicks on an element with the mouse.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Type types a text into a field, as Press does.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.do("focus "+selector, chromedp.Focus(chromedp.CSS(selector)))
	p.Press(text)
}

// Press presses keys, one after the other, wherever the focus is: characters, and "\r" for Enter. As
// with a keyboard, a key that a script handles writes nothing.
func (p *Page) Press(keys string) {
	p.t.Helper()
	for _, key := range keys {
		down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: string(key), Text: string(key)}
		if key == '\r' {
			down.Key, down.WindowsVirtualKeyCode = "Enter", 13
		}
		up := down
		up.Type, up.Text = input.DispatchKeyEventTypeKeyUp, ""
		for _, event := range []input.DispatchKeyEventParams{down, up} {
			if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event); err != nil {
				p.t.Fatalf("browser: press %q: %v", key, err)
			}
		}
	}
}

// Size sets the size of the window.
func (p *Page) Size(width, height int) {
	p.t.Helper()
	p.do("set the size", chromedp.EmulateViewport(int64(width), int64(height)))
}

// Dark sets the preferred colours.
func (p *Page) Dark(on bool) {
	p.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.t.Fatalf("browser: set the colours: %v", err)
	}
}

// Shoot writes a picture of the window to a PNG file.
func (p *Page) Shoot(path string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		p.t.Fatalf("browser: take a picture: %v", err)
	}
}
