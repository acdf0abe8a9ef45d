// Package model is an agent that asks a model on any server with OpenAI's Chat Completions (OpenAI
// itself, vLLM, Ollama, llama.cpp and others) or with Anthropic's Messages API; see Config.Provider. The
// reply is streamed. The model may be given tools, which are commands; see Tool.
//
// A request has, in this order: the system prompt, as much history as fits (see
// Config.ContextTokens), and the turn's messages, which begin with its note. Neighbours of one role are one message. If the model
// calls tools, they run one after the other, and the next request has their results. Such an
// exchange is a round. Steers are taken between two rounds, and when the model has finished; the
// turn then continues. They are not taken between the tools of one round, because the protocol
// wants the results to follow the calls.
//
// With agent.Host's StartStep each reply and each call is a step: "response:1" has the calls "call:1.1",
// "call:1.2". A turn that was interrupted then goes on where its last step ended: no reply is paid for twice,
// no tool runs twice, and the next request is the same, byte for byte. A tool that was interrupted itself
// runs again by its settings only, see Tool.Unknown.
//
// How the turn ends:
//
//   - the model's reply has no tool call: done;
//   - the server is busy (429): the request is retried once within the turn, see Config.MaxWait. If it is refused again,
//     the error is marked agent.Throttled;
//   - the server fails (5xx) or cannot be reached: the request is retried within the
//     turn, see Config.MaxRetries. If it still fails, or the connection breaks in the middle of a text,
//     the error is marked agent.Retryable if there are steps to go on from, or if the turn has neither
//     emitted text nor used a tool. Otherwise it is final;
//   - the server refuses the request, the key or the model, the history is too long for the model, also after
//     half of it was left out, the content filter stops the reply, the reply is empty twice, or there are too
//     many rounds: a final error.
//
// A reply that ends with an unknown reason, has an error or cannot be read has failed, and none of its calls runs.
//
// The agent reads no OPENAI_* or ANTHROPIC_* variables from the environment. Errors never contain the key.
// Redirects to another server are refused. One event of a stream may have 32 MiB, one reply 16 MiB.
//
// Tools run under a guardian, as the commands of pkg/agent/exec do, so main must call exec.Init first
// if there are any.
package model
