package trace

import "go.opentelemetry.io/otel/attribute"

// The names of attributes: OpenTelemetry's semantic-conventions-genai v0.1.0 (all in development), its stable
// ones for HTTP and errors, and Turnstile's own, for what these have no name for.
const (
	genaiOperation    = attribute.Key("gen_ai.operation.name")
	genaiAgent        = attribute.Key("gen_ai.agent.name")
	genaiConversation = attribute.Key("gen_ai.conversation.id")
	genaiModel        = attribute.Key("gen_ai.response.model")
	genaiInput        = attribute.Key("gen_ai.usage.input_tokens")
	genaiCached       = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	genaiOutput       = attribute.Key("gen_ai.usage.output_tokens")
	genaiTool         = attribute.Key("gen_ai.tool.name")
	genaiToolCall     = attribute.Key("gen_ai.tool.call.id")

	// Texts, only with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.
	genaiInputMessages  = attribute.Key("gen_ai.input.messages")
	genaiOutputMessages = attribute.Key("gen_ai.output.messages")
	genaiToolArguments  = attribute.Key("gen_ai.tool.call.arguments")
	genaiToolResult     = attribute.Key("gen_ai.tool.call.result")

	errorType  = attribute.Key("error.type")
	httpMethod = attribute.Key("http.request.method")
	httpRoute  = attribute.Key("http.route")
	httpStatus = attribute.Key("http.response.status_code")

	ownSession     = attribute.Key("turnstile.session")
	ownMessage     = attribute.Key("turnstile.message")
	ownTurn        = attribute.Key("turnstile.turn")
	ownStatus      = attribute.Key("turnstile.status")
	ownAttempt     = attribute.Key("turnstile.attempt")
	ownCost        = attribute.Key("turnstile.cost_usd")
	ownRequest     = attribute.Key("turnstile.request")
	ownDestination = attribute.Key("turnstile.destination")
	ownDelivery    = attribute.Key("turnstile.delivery")
)

// The operations, and the beginnings of their spans' names.
const (
	invokeAgent = "invoke_agent"
	executeTool = "execute_tool"
)
