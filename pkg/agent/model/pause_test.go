package model

import (
	"net/http"
	"testing"
	"time"
)

// The forms in which servers say when to ask again.
func TestPauses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		headers map[string]string
		body    string
		want    time.Duration
	}{
		{nil, "", 0},
		{map[string]string{"Retry-After": "7"}, "", 7 * time.Second},
		{map[string]string{"Retry-After": "0.5"}, "", 500 * time.Millisecond},
		{map[string]string{"Retry-After": "Sat, 21 Nov 2026 10:05:00 GMT"}, "", 5 * time.Minute},
		{map[string]string{"Retry-After": "Sat, 21 Nov 2026 09:05:00 GMT"}, "", 0},
		{map[string]string{"Retry-After": "-3"}, "", 0},
		{map[string]string{"Retry-After": "soon"}, "", 0},
		{map[string]string{"Retry-After": "NaN"}, "", 0},
		{map[string]string{"Retry-After": "1e400"}, "", longest},
		{map[string]string{"Retry-After-Ms": "1500", "Retry-After": "7"}, "", 1500 * time.Millisecond},
		{map[string]string{"X-Ratelimit-Reset-Requests": "12s"}, "", 12 * time.Second},
		{map[string]string{"X-Ratelimit-Reset-Tokens": "2m59.56s", "X-Ratelimit-Reset-Requests": "12ms"}, "", 179560 * time.Millisecond},
		{map[string]string{"X-Ratelimit-Reset-Tokens": "6m0s", "X-Ratelimit-Remaining-Tokens": "100", "X-Ratelimit-Reset-Requests": "8s", "X-Ratelimit-Remaining-Requests": "0"}, "", 8 * time.Second},
		{map[string]string{"X-Ratelimit-Reset": "1795255500000", "X-Ratelimit-Remaining": "0"}, "", 5 * time.Minute}, // OpenRouter, ms
		{map[string]string{"X-Ratelimit-Reset": "1795255230"}, "", 30 * time.Second},
		{map[string]string{"X-Ratelimit-Reset": "30"}, "", 30 * time.Second},
		{map[string]string{"Anthropic-Ratelimit-Input-Tokens-Reset": "2026-11-21T10:01:00Z", "Anthropic-Ratelimit-Input-Tokens-Remaining": "0"}, "", time.Minute},
		{map[string]string{"Anthropic-Ratelimit-Requests-Reset": "2026-11-21T10:01:00Z", "Anthropic-Ratelimit-Requests-Remaining": "9"}, "", 0},
		{nil, `[{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay": "6.5s"}]}}]`, 6500 * time.Millisecond},
		{nil, `{"error":{"message":"Rate limit reached. Please try again in 7.66s. Visit ..."}}`, 7660 * time.Millisecond},
		{nil, `{"error":{"message":"Please try again in 1m30s."}}`, 90 * time.Second},
		{nil, `{"error":{"message":"please Try again in 250ms"}}`, 250 * time.Millisecond},
		{nil, `{"error":{"message":"Please retry after 9 seconds."}}`, 9 * time.Second},
		{nil, `{"error":{"message":"try again in 5 minutes"}}`, 5 * time.Minute},
		{nil, `{"error":{"message":"try again in 20 milliseconds"}}`, 20 * time.Millisecond},
		{nil, `{"error":{"message":"Please wait 1 minute 30 seconds before the next request"}}`, 90 * time.Second},
		{nil, `{"error":{"message":"Please retry in 33.5s."}}`, 33500 * time.Millisecond},
		{nil, `{"error":{"message":"retry 2 more times"}}`, 0},
		{nil, `{"error":{"metadata":{"raw":"{\"retryDelay\": \"33s\"}"}}}`, 33 * time.Second},              // OpenRouter's, of Gemini
		{nil, `{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1795255500000"}}}}`, 5 * time.Minute}, // OpenRouter's
		{nil, `{"error":{"message":"no","retry_after": 20}}`, 20 * time.Second},
		{nil, `{"error":{"message":"no","retry_after":"2026-11-21T10:05:00Z"}}`, 5 * time.Minute},
		{nil, `{"retry-after":"Sat, 21 Nov 2026 10:05:00 GMT"}`, 5 * time.Minute},
		{nil, `{"retry-after":"1m30s","x":"7"}`, 90 * time.Second},
		{nil, `{"retry_after":"1 minute"}`, time.Minute},
		{nil, `{"retry_after":1.5e1}`, 15 * time.Second},
		{nil, `{"raw":"{\"retry_after\":\"20ms\"}"}`, 20 * time.Millisecond},
		{nil, `{"retry_after":"7 or so"}`, 0},
		{nil, `{"retry_after":null,"x":7}`, 0},
		{map[string]string{"Ratelimit-Reset": "40", "Ratelimit-Remaining": "0"}, "", 40 * time.Second},
		{map[string]string{"X-Ratelimit-Reset": "40"}, `{"error":{"message":"try again in 1.2.3s"}}`, 40 * time.Second},
		{nil, `{"error":{"message":"try again in some time"}}`, 0},
		{nil, `{"error":{"message":"try again in 1.2.3s"}}`, 0},
	} {
		header := http.Header{}
		for name, value := range c.headers {
			header.Set(name, value)
		}
		if got := newStatusError(http.StatusTooManyRequests, header, []byte(c.body)).pause(now); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.headers, c.body, got, c.want)
		}
	}
}
