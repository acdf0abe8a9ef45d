// Package gateway serves sessions over HTTP: messages in, outcomes and events out, and the commands
// of users and operators. docs/http.md is its manual, docs/openapi.yaml its contract.
//
// A gateway stores nothing itself: all of it is in Redis, accessed through turnstile.Client and
// admin.Client. So any number of gateways serve the same sessions, and a client may use another one
// with each request.
//
// It guarantees:
//
//   - A message that was answered with 202 or 200 is stored.
//   - A request with an idempotency key can be repeated: it is carried out once.
//   - A client that goes away cancels nothing.
//   - A stream that is reopened with the ID of its last event continues after it.
//
// It does not guarantee that a request that failed with 503 was not carried out: the problem says
// so if it was not.
//
// Other packages add routes with Gateway.Handle and get the same tokens, limits and problems.
package gateway
