package gateway_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"go.yaml.in/yaml/v3"

	"turnstile/docs"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/openai"
	"turnstile/test/expect"
)

// contract checks requests and responses against the OpenAPI document, one at a time.
var contract = struct {
	sync.Mutex
	load func() (validator.Validator, error)
}{load: sync.OnceValues(func() (validator.Validator, error) {
	document, err := libopenapi.NewDocument(docs.OpenAPI)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(document, config.WithoutSecurityValidation(), config.WithFormatAssertions())
	if len(errs) > 0 {
		return nil, errs[0]
	}
	if ok, problems := v.ValidateDocument(); !ok {
		return nil, fmt.Errorf("the document is invalid: %s", problems[0].Message)
	}
	return v, nil
})}

// checkContract fails the test if the document lacks the response. Unless the response is a
// problem, the document must also have the request.
func checkContract(t *testing.T, request *http.Request, response *http.Response) {
	t.Helper()
	contract.Lock()
	defer contract.Unlock()
	v, err := contract.load()
	expect.OK(t, err)
	pattern := routeOf(request.Method, request.URL.Path)
	if pattern == "" || response.StatusCode == http.StatusMethodNotAllowed {
		return // the document has routes only
	}
	ok, problems := v.ValidateHttpResponse(request, response)
	if ok && response.StatusCode < 300 {
		_, problems = v.ValidateHttpRequestSync(request)
	}
	for _, p := range problems {
		t.Errorf("%s %s, %s: %s (%s)", request.Method, request.URL.Path, response.Status, p.Message, p.Reason)
		for _, detail := range p.SchemaValidationErrors {
			t.Errorf("  %s: %s", detail.FieldPath, detail.Reason)
		}
	}
}

// operations are the methods and paths of the document.
var operations = sync.OnceValue(func() []string {
	var document struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal(docs.OpenAPI, &document); err != nil {
		panic(err)
	}
	var all []string
	for path, methods := range document.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(all)
	return all
})

// routeOf is the operation of a request, "" if there is none.
func routeOf(method, path string) string {
	for _, o := range operations() {
		m, pattern, _ := strings.Cut(o, " ")
		if m == method && fits(pattern, path) {
			return o
		}
	}
	return ""
}

func fits(pattern, path string) bool {
	parts, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(parts) != len(given) {
		return false
	}
	for i, part := range parts {
		if part != given[i] && !strings.HasPrefix(part, "{") {
			return false
		}
	}
	return true
}

// The document has the routes of the gateway, and no other.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	g := gateway.New(gateway.Config{}, gateway.Deps{})
	g.Drain()
	openai.New(nil, nil, nil).Mount(g)
	patterns := slices.Sorted(slices.Values(g.Patterns()))
	expect.List(t, "routes", patterns, operations()...)
}

// The document has the codes of the gateway, and no other.
func TestDocumentHasTheCodes(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct {
			Schemas struct {
				Code struct{ Enum []string } `yaml:"Code"`
			}
		}
	}
	expect.OK(t, yaml.Unmarshal(docs.OpenAPI, &document))
	var codes []string
	for code := range maps.Keys(gateway.Meanings()) {
		codes = append(codes, string(code))
	}
	slices.Sort(codes)
	expect.List(t, "codes", slices.Sorted(slices.Values(document.Components.Schemas.Code.Enum)), codes...)
}
