package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// defaultMaxTokens is the longest reply without a setting. The API wants one.
const defaultMaxTokens = 32_000

// The values of Config.Thinking.
const (
	thinkAdaptive = "adaptive"
	thinkDisabled = "disabled"
)

// leastThinking is the least budget that the API takes.
const leastThinking = 1024

// params is a request in the form of the Messages API. Everything in it has one order, so that equal requests are equal bytes.
func (p anthropic) params(q request) sdk.MessageNewParams {
	w := sdk.MessageNewParams{
		Model: p.config.Model, MaxTokens: int64(cmp.Or(q.maxTokens, defaultMaxTokens)), Messages: conversation(q, p.origin()),
		Tools: toolParams(q), ToolChoice: toolChoice(q), StopSequences: q.stop,
		OutputConfig: sdk.OutputConfigParam{Format: sdk.JSONOutputFormatParam{Schema: schemaOf(q.format)}},
	}
	if q.system != "" {
		w.System = []sdk.TextBlockParam{{Text: q.system, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	} else if n := len(w.Tools); n > 0 {
		w.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	forced := w.ToolChoice.OfAny != nil || w.ToolChoice.OfTool != nil
	switch budget := int64(p.config.ThinkingTokens); {
	case p.config.Thinking == thinkDisabled:
		w.Thinking.OfDisabled = &sdk.ThinkingConfigDisabledParam{}
	case forced: // the API refuses the two together
	case p.config.Thinking == thinkAdaptive:
		w.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
	case budget > 0 && budget < w.MaxTokens: // a client may have asked for less
		w.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
	}
	if w.Thinking.OfAdaptive == nil && w.Thinking.OfEnabled == nil { // else the API refuses other settings
		w.Temperature, w.TopP = optional(q.temperature), optional(q.topP)
	}
	return w
}

func optional[T comparable](v *T) (o param.Opt[T]) {
	if v != nil {
		o = param.NewOpt(*v)
	}
	return o
}

// toolParams are those on offer, and if there are none, those that the messages have calls of: the API wants each to be described.
func toolParams(q request) (all []sdk.ToolUnionParam) {
	offers := q.tools
	if len(offers) == 0 {
		known := map[string]bool{}
		for _, m := range q.messages {
			for _, c := range m.calls {
				if name := fittingName(c.name); !known[name] {
					known[name] = true
					offers = append(offers, offer{name: name})
				}
			}
		}
	}
	for _, o := range offers {
		if o.parameters == nil {
			o.parameters = map[string]any{"type": "object"}
		}
		// The SDK's own type writes other fields than its three in any order.
		t := sdk.ToolParam{Name: o.name, InputSchema: param.Override[sdk.ToolInputSchemaParam](o.parameters), Strict: optional(o.strict)}
		if o.description != "" {
			t.Description = param.NewOpt(o.description)
		}
		all = append(all, sdk.ToolUnionParam{OfTool: &t})
	}
	return all
}

// toolChoice is the choice of a tool, of which the request has Chat Completions' form.
func toolChoice(q request) (c sdk.ToolChoiceUnionParam) {
	var mode string
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(q.choice, &mode)
	_ = json.Unmarshal(q.choice, &named)
	var single param.Opt[bool]
	if q.parallel != nil && !*q.parallel {
		single = param.NewOpt(true)
	}
	switch {
	case len(q.tools) == 0 && !slices.ContainsFunc(q.messages, func(m message) bool { return len(m.calls) > 0 }):
	case len(q.tools) == 0 || q.toolsOver || mode == "none":
		c.OfNone = &sdk.ToolChoiceNoneParam{}
	case mode == "required":
		c.OfAny = &sdk.ToolChoiceAnyParam{DisableParallelToolUse: single}
	case named.Function.Name != "":
		c.OfTool = &sdk.ToolChoiceToolParam{Name: named.Function.Name, DisableParallelToolUse: single}
	case single.Valid():
		c.OfAuto = &sdk.ToolChoiceAutoParam{DisableParallelToolUse: single}
	}
	return c
}

// schemaOf is the schema of a response_format, or nil.
func schemaOf(format json.RawMessage) map[string]any {
	var f struct {
		Schema struct {
			Schema map[string]any `json:"schema"`
		} `json:"json_schema"`
	}
	_ = json.Unmarshal(format, &f)
	return f.Schema.Schema
}

// unfit implements provider.
func (anthropic) unfit(q request) error {
	var f struct {
		Type string `json:"type"`
	}
	if _ = json.Unmarshal(q.format, &f); f.Type == "json_object" {
		return errors.New("the model's API has no response_format of the type json_object: use json_schema")
	}
	return nil
}
