// Package acp runs any agent that speaks the Agent Client Protocol, version 1, over stdio:
// JSON-RPC, one message a line.
//
// The agent's process stays between the turns of its session. Warm starts it and opens the session,
// and Run is one session/prompt. When the process is gone, or another worker runs the turn, the
// next process resumes the agent's own session (session/resume, else session/load) by the ID that
// was stored with session.EventState. If that is not possible, it receives the history as text.
//
// The agent may request of Turnstile:
//
//   - permissions: decided as Config.Permissions says;
//   - files (fs/*), with Config.Files: only in the session's directory;
//   - terminals (terminal/*), with Config.Terminal: commands that end with the turn.
//
// These settings confine Turnstile, not the agent: its process has all rights of the worker's user.
//
// How a turn ends:
//
//   - end_turn, max_tokens (with a notice): done, if there was text or a tool;
//   - max_turn_requests, refusal, cancelled without a cause of Turnstile's, or an error as the
//     response: a final error;
//   - the process dies, or breaks the protocol: an error, marked agent.Retryable if the turn had
//     not produced anything;
//   - the turn's context ends: session/cancel, and SIGKILL to the process group if the agent has
//     not responded within Config.Grace.
//
// The process runs under a guardian, see package exec: main must call exec.Init first.
package acp
