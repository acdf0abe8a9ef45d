// Package script runs Turnstile's Lua scripts by their hashes. If Redis does not know a script,
// it replies NOSCRIPT, and the call is sent again with the script's text. Only this package deals
// with that.
//
//   - [Script.Run] sends one call.
//   - [Pipeline] sends many calls in one round trip, together with other commands.
//   - [Batcher] lets the calls of many goroutines share round trips, and calls of some
//     scripts share a command.
//   - [Repeat] repeats a function that failed with an error that may pass.
//   - [Fields] are results, and fields of hashes, by name.
//
// Errors are Redis' and go-redis' own. A call with an error that may pass, such as a lost reply, is
// repeated up to three times, so every script must be safe to run twice. go-redis would do that as
// well, but it hides that an attempt before the last may have been carried out: see [Call.Unsure].
package script
