package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"

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

// checked compares each response in JSON with the document.
type checked struct {
	*testing.T
	http.RoundTripper
}

func (c checked) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(request)
	if err != nil || strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response, err
	}
	data, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(data))
	if err != nil {
		return response, err
	}
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
