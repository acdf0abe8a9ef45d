package openai_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"

	"turnstile/docs"
	"turnstile/test/expect"
)

// document checks responses against the OpenAPI document, one at a time.
var document = struct {
	sync.Mutex
	load func() (validator.Validator, error)
}{load: sync.OnceValues(func() (validator.Validator, error) {
	parsed, err := libopenapi.NewDocument(docs.OpenAPI)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(parsed, config.WithoutSecurityValidation())
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return v, nil
})}

// checked validates each JSON response against the document, and what Open Responses has against that.
type checked struct {
	*testing.T
	http.RoundTripper
}

func (c checked) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if isResponseStream(request, response) {
		response.Body = &conformingStream{TB: c, ReadCloser: response.Body}
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response, nil
	}
	data, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(data))
	if err != nil {
		return response, err
	}
	conformsBody(c, data)
	document.Lock()
	defer document.Unlock()
	v, err := document.load()
	expect.OK(c, err)
	_, problems := v.ValidateHttpResponse(request, response)
	for _, p := range problems {
		c.Errorf("%s %s, %s: %s (%s)\n%s", request.Method, request.URL.Path, response.Status, p.Message, p.Reason, data)
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	return response, nil
}

// A response has every field that Open Responses requires, in each state and however it is read.
func TestResponseHasEveryField(t *testing.T) {
	t.Parallel()
	parsed, err := libopenapi.NewDocument(docs.OpenAPI)
	expect.OK(t, err)
	model, err := parsed.BuildV3Model()
	expect.OK(t, err)
	schema := model.Model.Components.Schemas.GetOrZero("Response").Schema()
	parts, err := openResponses()
	expect.OK(t, err)
	for _, field := range parts["response"].Required {
		if !slices.Contains(schema.Required, field) {
			t.Errorf("openapi.yaml does not require %s", field)
		}
	}
	seen := map[string]bool{}
	check := func(how string, response responses.Response) {
		t.Helper()
		_, problems := schema_validation.NewSchemaValidator().ValidateSchemaString(schema, response.RawJSON())
		for _, p := range problems {
			for _, e := range p.SchemaValidationErrors {
				t.Errorf("%s, %s: %s in %s", how, response.Status, e.Reason, response.RawJSON())
			}
		}
		seen[how+" "+string(response.Status)] = true
	}
	r := newRig(t)
	get := func(id string) responses.Response {
		t.Helper()
		got, err := r.sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		expect.OK(t, err)
		return *got
	}
	stream := func(session, text string, on func(responses.Response)) {
		t.Helper()
		s := r.sdk.Responses.NewStreaming(t.Context(), say(session, text))
		for s.Next() {
			if e := s.Current(); e.Response.ID != "" {
				check("streamed", e.Response)
				on(e.Response)
			}
		}
	}
	background := say("s", "usage=7:5 tool=look hello")
	background.Background = sdk.Bool(true)
	waits, err := r.sdk.Responses.New(t.Context(), background)
	expect.OK(t, err)
	check("sent", *waits)
	r.worker()
	for _, text := range []string{"hello", "fail=final x"} {
		ended, err := r.sdk.Responses.New(t.Context(), say("s", text))
		expect.OK(t, err)
		check("sent", *ended)
		check("read", get(ended.ID))
		all := rawStream(t, r.url, ended.ID, 1) // the SDK ends at the event error
		var end struct{ Response responses.Response }
		expect.OK(t, json.Unmarshal([]byte(all[strings.LastIndex(all, "data: ")+len("data: "):]), &end))
		check("streamed", end.Response)
	}
	stream("s", "sleep=1h x", func(now responses.Response) {
		if now.Status == responses.ResponseStatusInProgress {
			check("read", get(now.ID))
			cancelled, err := r.sdk.Responses.Cancel(t.Context(), now.ID)
			expect.OK(t, err)
			check("cancelled", *cancelled)
		}
	})
	stream("s", "sleep=1h x", func(now responses.Response) {
		if now.Status == responses.ResponseStatusInProgress {
			r.post("/v1/sessions/s/messages", `{"text": "now", "mode": "interrupt"}`)
		}
	})
	for _, want := range []string{
		"sent queued", "sent completed", "sent failed", "read completed", "read failed", "read in_progress", "cancelled cancelled",
		"streamed queued", "streamed in_progress", "streamed completed", "streamed failed", "streamed cancelled", "streamed incomplete",
	} {
		if !seen[want] {
			t.Errorf("no response was %s", want)
		}
	}
}
