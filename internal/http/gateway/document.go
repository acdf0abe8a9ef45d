package gateway

import (
	"net/http"

	"turnstile/docs"
)

// serveDocument serves the contract.
func serveDocument(w http.ResponseWriter, _ *Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	allowWrite(w)
	_, _ = w.Write(docs.OpenAPI) // it fails only if the client went away
	return nil
}
