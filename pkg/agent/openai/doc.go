// Package openai is an agent that asks a model on any server with OpenAI's Chat
// Completions: OpenAI itself, vLLM, Ollama, llama.cpp and others. The answer is
// streamed. The model may be given tools, which are commands; see Tool.
//
// What the model is told, in this order: the system prompt, the history as far as it
// fits (see Config.ContextTokens), the turn's note as a system message, and the
// messages of the turn. An answer with tool calls is a round: the tools run one after
// the other, and the model is asked again with their results. Steers are taken in
// between two rounds, and when the model has finished: the turn then goes on. (Not
// between the tools of one answer, for the protocol wants the results to follow the
// calls.)
//
// How the turn ends:
//
//   - the model's answer has no tool call: done;
//   - the server is busy (429), fails (5xx) or cannot be reached: tried again within
//     the turn, see Config.MaxRetries. If it stays so, an error, which is marked
//     agent.Retryable if the turn had neither said anything nor used a tool;
//   - the server breaks off in the middle of a text: a final error;
//   - it refuses the request, the key, the model, or the conversation is too long for
//     the model; the content filter; more rounds than allowed: a final error.
//
// Nothing is read from OPENAI_* in the environment. Errors never contain the key.
// Redirects to another server are refused. One event of a stream may have 32 MiB, one
// answer 16 MiB.
//
// Tools run under a guardian, as the commands of pkg/agent/exec do, so main must call
// Init first thing if there are any.
package openai
