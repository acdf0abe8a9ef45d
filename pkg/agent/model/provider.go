package model

import (
	"context"
	"encoding/json"
)

// provider speaks the API of a model's server.
type provider interface {
	// ask sends a request, and adds what comes to a run's completion and its events while it comes.
	ask(ctx context.Context, r *run, q request, a *completion) error

	// unfit is the error of a client's request that the API has no place for.
	unfit(q request) error

	// api is the API's name.
	api() string
}

// request is what the model is asked, in no API's form.
type request struct {
	system   string
	messages []message
	stable   int // so many of the messages are the history: the turns after this one have them, too
	tools    []offer

	toolsOver bool // the model has used tools as often as it may in one turn

	demands

	settings
}

// offer is a tool of the agent, or a function of the client's program.
type offer struct {
	name, description string
	parameters        map[string]any // the JSON schema
	strict            *bool
}

func newOffer(name, description string, schema json.RawMessage) offer {
	o := offer{name: name, description: description}
	_ = json.Unmarshal(schema, &o.parameters) // a tool's is checked; a function's that is no object has none
	return o
}

// tokens is the offer's estimated size.
func (o offer) tokens(schema json.RawMessage) int {
	return messageTokens + (len(o.name)+len(o.description)+len(schema))/bytesPerToken
}

// settings are those of the model. A zero value is the server's default.
type settings struct {
	maxTokens   int
	temperature *float64

	// Of a client's request only. The choice of a tool and the format are in the form of Chat Completions.
	choice, format json.RawMessage
	parallel       *bool
	topP           *float64
	stop           []string
}

// prepare fills in the part that all requests share.
func (a *Agent) prepare() {
	a.request = request{system: a.config.SystemPrompt, settings: settings{maxTokens: a.config.MaxTokens, temperature: a.config.Temperature}}
	a.fixed = message{role: roleSystem, text: a.config.SystemPrompt}.tokens()
	for _, t := range a.config.Tools {
		o := newOffer(t.Name, t.Description, t.schema())
		a.request.tools = append(a.request.tools, o)
		a.fixed += o.tokens(t.schema())
	}
}
