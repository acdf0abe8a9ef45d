package command

import (
	"errors"
	"testing"
)

func TestPassing(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]bool{
		"API Error: 400 messages.3: tool_use ids were found without tool_result blocks":    false,
		"unexpected status 400 Bad Request: No tool output found for function call call_1": false,
		"Request too large (max 32MB)":                             false,
		"Prompt is too long":                                       false,
		"the agent ended without a reply":                          false,
		"API Error: 413 request_too_large":                         false,
		"API Error: 529 Overloaded":                                true,
		"API Error: 500 Internal server error":                     true,
		"exceeded retry limit, last status: 429 Too Many Requests": true,
		"Invalid API key. Please run /login":                       true,
		"You've hit your usage limit":                              true,
		"Credit balance is too low":                                true,
		"stream disconnected before completion":                    true,
		"API Error: Connection error.":                             true,
		"the request timed out":                                    true,
		"OAuth authentication is currently not supported: 401":     true,
	} {
		if got := Passing(errors.New(said)); got != want {
			t.Errorf("%s: %v", said, got)
		}
	}
}
