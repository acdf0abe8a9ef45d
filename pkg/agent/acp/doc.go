// Package acp runs any agent that speaks the Agent Client Protocol, version 1, over
// stdio: JSON-RPC, one message a line.
//
// The agent's process is kept between the turns of its session. It is started and
// told of the session by Warm, and Run is one session/prompt. Where the process has
// gone meanwhile, or another worker runs the turn, the next one resumes the agent's
// own session (session/resume, else session/load) by the id that was kept with
// agent.EventState; where it cannot, it is given the conversation in words.
//
// What the agent may ask of Turnstile:
//
//   - permissions: answered as Config.Permissions says;
//   - files (fs/*), with Config.Files: within the session's directory only;
//   - terminals (terminal/*), with Config.Terminal: commands that end with the turn.
//
// These confine what Turnstile does for the agent. They do not confine the agent: its
// process may do what the worker's user may.
//
// How a turn ends:
//
//   - end_turn, max_tokens (with a notice): done, if the agent said something or used
//     a tool;
//   - max_turn_requests, refusal, cancelled without a cause of ours, an error for an
//     answer: a final error;
//   - the process dies, or breaks the protocol: an error, marked agent.Retryable if
//     nothing had come out of the turn;
//   - the turn's context ends: session/cancel, and SIGKILL to the process group if the
//     agent has not answered within Config.Grace.
//
// The process runs under a guardian, see package exec: main must call exec.Init first
// thing.
package acp
