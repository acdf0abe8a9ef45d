package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/text/printable"
	"turnstile/internal/version"
)

// The headers of a delivery in addition to those of Standard Webhooks.
const (
	HeaderSequence  = "Turnstile-Sequence"
	HeaderAttempt   = "Turnstile-Attempt"
	HeaderDuplicate = "Turnstile-Possible-Duplicate"
)

// Limits of reading an answer.
const (
	maxAnswerHeader = 64 << 10
	maxAnswerBody   = 64 << 10
	maxAnswerShown  = 200 // bytes of it in an error
)

// A connection of HTTP/2 that is silent for pingAfter must respond to a ping within pingTimeout.
const pingAfter, pingTimeout = 5 * time.Second, 5 * time.Second

// answerTime bounds the reading of an answer's body, once its status is known.
const answerTime = 2 * time.Second

// overdue is how long post waits for an attempt after its deadline. Then it abandons the attempt.
const overdue = time.Second

// errSwitched is the error of an answer 101. No HTTP client owns the connection after it, and no
// deadline would end a read.
var errSwitched = errors.New("it answered 101 and wants another protocol: no destination may")

// answer is the result of an attempt.
type answer struct {
	status     int           // 0: there was no answer
	retryAfter time.Duration // 0: none was sent
	err        error         // why there is no status
	sent       bool          // the request may have reached the receiver
	text       string        // the beginning of the body of an answer other than 2xx
}

// poster sends attempts.
type poster struct {
	public, private *http.Client
	clock           func() time.Time // of signatures
}

func newPoster(perHost int, dial dialFunc) *poster {
	return &poster{public: newHTTPClient(false, perHost, dial), private: newHTTPClient(true, perHost, dial), clock: time.Now}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newHTTPClient makes a client without proxies, which would choose addresses themselves, and without
// redirects. It connects by dial; nil: by TCP, with a check of each address.
func newHTTPClient(privateToo bool, perHost int, dial dialFunc) *http.Client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, Control: checkAddress(privateToo)}).DialContext
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dial,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // a small answer must not grow
			MaxConnsPerHost:        perHost,
			MaxIdleConnsPerHost:    perHost,
			IdleConnTimeout:        30 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: maxAnswerHeader,
			// All POSTs share one connection of HTTP/2. One that is dead must not live until TCP gives up.
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		},
	}
}

// close ends idle connections.
func (p *poster) close() {
	p.public.CloseIdleConnections()
	p.private.CloseIdleConnections()
}

// post sends an attempt and waits for its answer until ctx ends. Even if the HTTP client hangs, the slot
// is free overdue later.
func (p *poster) post(ctx context.Context, d *Destination, r deliveries.Delivery) answer {
	got := make(chan answer, 1)
	go func() { got <- p.send(ctx, d, r) }()
	select {
	case a := <-got:
		return a
	case <-ctx.Done():
	}
	patience := time.NewTimer(overdue)
	defer patience.Stop()
	select {
	case a := <-got:
		return a
	case <-patience.C:
		return answer{err: ctx.Err(), sent: true}
	}
}

// send makes the attempt.
func (p *poster) send(ctx context.Context, d *Destination, r deliveries.Delivery) answer {
	var sent atomic.Bool
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}))
	defer cancel()
	req, err := p.request(ctx, d, r)
	if err != nil {
		return answer{err: err}
	}
	client := p.public
	if d.Private {
		client = p.private
	}
	resp, err := client.Do(req)
	if err != nil {
		var of *url.Error // its text has the address, which may be a secret
		if errors.As(err, &of) {
			err = of.Err
		}
		return answer{err: err, sent: sent.Load()}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return answer{err: errSwitched, sent: true}
	}
	a := answer{status: resp.StatusCode, sent: true, retryAfter: retryAfter(resp.Header, p.clock())}
	// The status decides. The connection can be used again if the body ends soon.
	defer time.AfterFunc(answerTime, cancel).Stop()
	var body bytes.Buffer
	_, _ = io.Copy(&body, io.LimitReader(resp.Body, maxAnswerBody))
	if resp.StatusCode/100 != 2 {
		a.text = printable.Line(strings.ToValidUTF8(string(body.Next(maxAnswerShown)), ""))
	}
	return a
}

// request makes a signed request.
func (p *poster) request(ctx context.Context, d *Destination, r deliveries.Delivery) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	now := p.clock()
	signatures := make([]string, len(d.signers))
	for i, signer := range d.signers {
		if signatures[i], err = signer.Sign(r.ID, now, r.Body); err != nil {
			return nil, fmt.Errorf("sign a delivery: %w", err)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", fmt.Sprintf("turnstile/%s", version.String()))
	req.Header.Set(standardwebhooks.HeaderWebhookID, r.ID)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	req.Header.Set(HeaderSequence, strconv.FormatInt(r.Sequence, 10))
	req.Header.Set(HeaderAttempt, strconv.Itoa(r.Attempt))
	if r.TraceParent != "" {
		req.Header.Set("Traceparent", r.TraceParent)
	}
	if r.Unsure {
		req.Header.Set(HeaderDuplicate, "true")
	}
	return req, nil
}

// retryAfter reads the header of that name: seconds or a date. A date is compared with the answer's
// Date header if there is one, because the receiver's clock may be wrong.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}

// why returns the failure in one line.
func (a answer) why() string {
	if a.status == 0 {
		var timeout net.Error
		if errors.As(a.err, &timeout) && timeout.Timeout() {
			return "no answer in time"
		}
		return printable.Line(a.err.Error())
	}
	text := strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
	if a.text != "" {
		text += ": " + a.text
	}
	return text
}
