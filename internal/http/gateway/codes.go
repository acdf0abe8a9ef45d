package gateway

import "net/http"

// Code is the reason of a failed request. Codes are stable, because programs decide by them. This
// file has all codes; docs/http.md and docs/openapi.yaml list the same ones.
type Code string

// The codes, by status.
const (
	InvalidJSON    Code = "invalid_json"    // the body is not one JSON value of the right types
	UnknownFields  Code = "unknown_fields"  // the body has fields that this route does not know
	InvalidRequest Code = "invalid_request" // a value breaks a rule

	Unauthorized Code = "unauthorized" // no token, a wrong one, or a spent ticket
	Forbidden    Code = "forbidden"    // the token may see the session, but not do this
	WrongHost    Code = "wrong_host"   // the Host header names another server
	CrossOrigin  Code = "cross_origin" // a web page of another origin sent the request

	NotFound       Code = "not_found"       // there is no such route
	UnknownSession Code = "unknown_session" // there is no such session, or the token may not see it
	UnknownMessage Code = "unknown_message" // the message is not stored

	UnknownDestination Code = "unknown_destination" // the file of destinations does not have it

	MethodNotAllowed Code = "method_not_allowed"
	RequestTimeout   Code = "request_timeout" // the body arrived too slowly

	Busy                Code = "busy"                 // a turn is running in the session
	Running             Code = "running"              // the message is in a running turn
	Undelivered         Code = "undelivered"          // outcomes of the session are undelivered or still to come
	IdempotencyConflict Code = "idempotency_conflict" // the key belongs to another message
	OtherAgent          Code = "other_agent"          // the session has another agent
	NoTurn              Code = "no_turn"              // the transcript has no turn to undo
	LastFailed          Code = "last_failed"          // the last message failed or was stopped, and has no turn to undo
	NoQuestion          Code = "no_question"          // no question is open
	OtherQuestion       Code = "other_question"       // another question is open
	QuestionDecided     Code = "question_decided"     // the question was decided before
	NoWait              Code = "no_wait"              // no turn waits for this value
	ValueGiven          Code = "value_given"          // another value was given before

	ResultExpired Code = "result_expired" // the message was accepted before, and its result is no longer stored

	BodyTooLarge    Code = "body_too_large"    // more bytes than any message may have
	MessageTooLarge Code = "message_too_large" // the message exceeds a limit

	UnsupportedMediaType Code = "unsupported_media_type" // the body is not application/json

	FollowupsFull  Code = "followups_full"   // too many messages wait for the running turn
	LineFull       Code = "line_full"        // too many messages wait in the session
	MessagesFull   Code = "messages_full"    // too many messages wait in all sessions
	OutboxFull     Code = "outbox_full"      // too many outcomes of the session are not delivered yet
	RateLimited    Code = "rate_limited"     // too many requests with this token
	TooManyStreams Code = "too_many_streams" // too many open streams with this token

	InternalError    Code = "internal_error"
	RedisUnavailable Code = "redis_unavailable" // Redis is unreachable, starting or failing over, or another service has its address
	RedisRefused     Code = "redis_refused"     // Redis refused a command, for example because it is full
	MessageLost      Code = "message_lost"      // Redis has lost the message while its sender waited
	Overloaded       Code = "overloaded"        // bodies being read are too large together, or too many connections open
	NoWorker         Code = "no_worker"         // the request depends on what workers run, and the gateway has seen none yet
	Draining         Code = "draining"          // the gateway ends; another one takes the request
)

// meanings has the HTTP status and the title of each code.
var meanings = map[Code]struct {
	status int
	title  string
}{
	InvalidJSON:          {http.StatusBadRequest, "The body is not JSON that this request takes"},
	UnknownFields:        {http.StatusBadRequest, "The body has unknown fields"},
	InvalidRequest:       {http.StatusBadRequest, "A value of the request breaks a rule"},
	Unauthorized:         {http.StatusUnauthorized, "The request has no valid token"},
	Forbidden:            {http.StatusForbidden, "The token may not do this"},
	WrongHost:            {http.StatusForbidden, "The Host header names another server"},
	CrossOrigin:          {http.StatusForbidden, "The request comes from a page of another origin"},
	NotFound:             {http.StatusNotFound, "There is no such route"},
	UnknownSession:       {http.StatusNotFound, "There is no such session"},
	UnknownMessage:       {http.StatusNotFound, "The message is not stored"},
	UnknownDestination:   {http.StatusNotFound, "The destination is unknown"},
	MethodNotAllowed:     {http.StatusMethodNotAllowed, "The route does not have this method"},
	RequestTimeout:       {http.StatusRequestTimeout, "The body arrived too slowly"},
	Busy:                 {http.StatusConflict, "A turn is running in the session"},
	Running:              {http.StatusConflict, "The message is part of a running turn"},
	Undelivered:          {http.StatusConflict, "Outcomes of the session are owed or not delivered"},
	IdempotencyConflict:  {http.StatusConflict, "The idempotency key belongs to another message"},
	OtherAgent:           {http.StatusConflict, "The session has another agent"},
	NoTurn:               {http.StatusConflict, "The conversation has no turn"},
	LastFailed:           {http.StatusConflict, "The last message failed or was stopped"},
	NoQuestion:           {http.StatusConflict, "No question is open"},
	OtherQuestion:        {http.StatusConflict, "Another question is open"},
	QuestionDecided:      {http.StatusConflict, "The question was decided before"},
	NoWait:               {http.StatusConflict, "No turn waits for this value"},
	ValueGiven:           {http.StatusConflict, "Another value was given before"},
	ResultExpired:        {http.StatusGone, "The message was accepted before, and its result is no longer kept"},
	BodyTooLarge:         {http.StatusRequestEntityTooLarge, "The body is too large"},
	MessageTooLarge:      {http.StatusRequestEntityTooLarge, "The message exceeds a limit"},
	UnsupportedMediaType: {http.StatusUnsupportedMediaType, "The body is not application/json"},
	FollowupsFull:        {http.StatusTooManyRequests, "Too many messages wait for the running turn"},
	LineFull:             {http.StatusTooManyRequests, "Too many messages wait in the session"},
	MessagesFull:         {http.StatusTooManyRequests, "Too many messages wait in all sessions"},
	OutboxFull:           {http.StatusTooManyRequests, "Too many outcomes of the session are not delivered yet"},
	RateLimited:          {http.StatusTooManyRequests, "Too many requests"},
	TooManyStreams:       {http.StatusTooManyRequests, "Too many open streams"},
	InternalError:        {http.StatusInternalServerError, "The request failed"},
	RedisUnavailable:     {http.StatusServiceUnavailable, "Redis cannot be reached"},
	RedisRefused:         {http.StatusServiceUnavailable, "Redis refused the request"},
	MessageLost:          {http.StatusServiceUnavailable, "Redis has lost the message"},
	Overloaded:           {http.StatusServiceUnavailable, "Too many requests at once"},
	NoWorker:             {http.StatusServiceUnavailable, "No worker has been seen yet"},
	Draining:             {http.StatusServiceUnavailable, "The gateway is shutting down"},
}
