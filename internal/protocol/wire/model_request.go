package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"turnstile/pkg/session"
)

// The most functions, results of calls and texts of stop in a request for the model.
const (
	maxFunctions = 128
	maxStops     = 4
)

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// validRequest checks what a program brings for the model.
func validRequest(r session.ModelRequest) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w request: "+format, append([]any{session.ErrInvalid}, args...)...)
	}
	switch {
	case len(r.Functions) > maxFunctions, len(r.Results) > maxFunctions:
		return invalid("at most %d functions and %d results are allowed", maxFunctions, maxFunctions)
	case len(r.Stop) > maxStops:
		return invalid("at most %d texts of stop are allowed", maxStops)
	case r.Temperature != nil && !(*r.Temperature >= 0 && *r.Temperature <= 2):
		return invalid("the temperature is not between 0 and 2")
	case r.TopP != nil && !(*r.TopP >= 0 && *r.TopP <= 1):
		return invalid("top_p is not between 0 and 1")
	case r.MaxTokens < 0:
		return invalid("the most tokens are a negative number")
	}
	raw := []json.RawMessage{r.ToolChoice, r.Format}
	known := map[string]bool{}
	for _, f := range r.Functions {
		switch {
		case !functionName.MatchString(f.Name):
			return invalid("the function's name %.100q is not made of 1 to 64 letters, digits, _ and -", f.Name)
		case known[f.Name]:
			return invalid("two functions have the name %s", f.Name)
		case !isObject(f.Parameters):
			return invalid("the parameters of function %s are no JSON schema object", f.Name)
		}
		known[f.Name], raw = true, append(raw, f.Parameters)
	}
	for _, one := range r.Results {
		if one.CallID == "" {
			return invalid("a result has no call_id")
		}
		if len(one.Attachments) > maxAttachments {
			return invalid("a result has %d attachments, at most %d are allowed", len(one.Attachments), maxAttachments)
		}
		if err := validAttachments(one.Attachments); err != nil {
			return err
		}
	}
	for i, e := range r.Past {
		if e.Tool != nil {
			raw = append(raw, e.Tool.Input, e.Tool.Output)
		}
		if e.Brought != nil || (e.Role == session.RoleTool) != (e.Tool != nil) || e.Role != session.RoleUser && e.Role != session.RoleAssistant && e.Role != session.RoleTool {
			return invalid("entry %d of what was said before is neither a user's, an assistant's nor a tool's", i+1)
		}
	}
	if slices.ContainsFunc(raw, func(part json.RawMessage) bool { return !utf8.Valid(part) }) {
		return invalid("its JSON is not valid UTF-8")
	}
	return nil
}

// isObject reports whether JSON is an object, or there is none.
func isObject(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null" || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}
