package gateway

import (
	"encoding/json"
	"net/http"

	"turnstile"
)

// given is the body of a program's value for a turn that waits for it.
type given struct {
	Value  json.RawMessage `json:"value"`
	Secret string          `json:"secret"`
}

// postValue gives a value to the turn that waits for it under the path's key. A token that may control needs no
// secret.
func (g *Gateway) postValue(w http.ResponseWriter, r *Request) error {
	if !r.Token.May(Send) && !r.Token.May(Control) {
		return Fail(Forbidden, "The token %s may neither send nor control.", r.Token.Name)
	}
	var body given
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	switch {
	case len(body.Value) == 0:
		return Fail(InvalidRequest, "The body needs a value.")
	case body.Secret == "" && !r.Token.May(Control):
		return Fail(Forbidden, "The token %s may not control, so it needs the secret of the wait.", r.Token.Name)
	}
	key := r.PathValue("key")
	if err := r.chat().Give(r.Work(), turnstile.Value{Key: key, JSON: body.Value, Secret: body.Secret}); err != nil {
		return err
	}
	r.did = r.route.Pattern
	return Respond(w, http.StatusOK, struct {
		Key string `json:"key"`
	}{key})
}
