package model

import (
	"bytes"
	"cmp"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// pause is the wait that a refusal asks for; 0: it asks for none. Servers say it in a header of their own, in
// Retry-After, in Google's RetryInfo, in words, or only as the time at which a limit that is used up begins again.
func (e *statusError) pause(now time.Time) time.Duration {
	if d := number(e.header.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	if d := moment(e.header.Get("Retry-After"), now); d > 0 {
		return d
	}
	for _, form := range saidPauses {
		if m := form.FindSubmatch(e.body); m != nil {
			said := string(bytes.Join(m[1:], nil))
			if d := cmp.Or(moment(said, now), moment(units.Replace(strings.ToLower(said)), now)); d > 0 {
				return d
			}
		}
	}
	return untilReset(e.header, now)
}

// saidPauses find a wait in the body of a refusal: "retryDelay": "6s" of Google, which OpenRouter quotes, "try again in 7.5s"
// of OpenAI and Groq, and headers that a proxy has put into the body.
var saidPauses = []*regexp.Regexp{
	regexp.MustCompile(`retryDelay\\*"\s*:\s*\\*"([0-9.]+s)`),
	regexp.MustCompile(`(?i)(?:try again|retry|wait)(?: in| after| for)? ((?:[0-9.]+ ?(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h) ?)+)\b`),
	regexp.MustCompile(`(?i)"(?:retry[-_]after(?:_seconds)?|x-ratelimit-reset)\\*"\s*:\s*(?:\\*"([^"\\]*)|([0-9.eE+-]+))`),
}

var units = strings.NewReplacer(" ", "", "milliseconds", "ms", "millisecond", "ms", "seconds", "s", "second", "s", "secs", "s", "sec", "s",
	"minutes", "m", "minute", "m", "mins", "m", "min", "m", "hours", "h", "hour", "h")

// resets are what comes before and after the name of a limit in the headers that say when it begins again.
var resets = regexp.MustCompile(`(?i)^((?:x-|anthropic-)?ratelimit-)(?:(.+)-)?reset(?:-(.+))?$`)

// untilReset is the longest time until a limit begins again. One that has something left is not what refused.
func untilReset(header http.Header, now time.Time) (longest time.Duration) {
	for name := range header {
		m := resets.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		left := header.Get(m[1] + "remaining-" + m[3])
		switch {
		case m[2] != "": // anthropic-ratelimit-tokens-reset
			left = header.Get(m[1] + m[2] + "-remaining")
		case m[3] == "":
			left = header.Get(m[1] + "remaining")
		}
		if n, err := strconv.ParseFloat(left, 64); err == nil && n > 0 {
			continue
		}
		longest = max(longest, moment(header.Get(name), now))
	}
	return longest
}

// moment is how long it is until a time, which is written as seconds, a duration, a date, or seconds or milliseconds
// since 1970. 0: it is none of these, or over.
func moment(text string, now time.Time) time.Duration {
	const since1970 = 1e9 // as seconds, the year 2001
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= since1970 && n < 1e14 {
		if n >= 1e12 {
			n /= 1000
		}
		return max(time.UnixMilli(int64(n*1000)).Sub(now), 0)
	}
	if d := number(text, time.Second); d > 0 {
		return d
	}
	if d, err := time.ParseDuration(text); err == nil {
		return max(d, 0)
	}
	for _, parse := range []func(string) (time.Time, error){http.ParseTime, func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }} {
		if at, err := parse(text); err == nil {
			return max(at.Sub(now), 0)
		}
	}
	return 0
}

// longest bounds a server's wait.
const longest = 1000 * time.Hour

func number(text string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && n == 0 || !(n > 0) {
		return 0
	}
	return time.Duration(min(n*float64(unit), float64(longest)))
}
