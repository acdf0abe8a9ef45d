package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
)

// recapSize is how many bytes of the history a new session of the agent receives.
const recapSize = 64 << 10

// closeTime is how long an agent may take to close its session before its process is ended.
const closeTime = time.Second

// warm is a session's agent: a process, and in it a session of the protocol.
type warm struct {
	*process
	session string // its key
	dir     string

	sessionID string // the transcript that the agent's session knows
	state     state

	turn   atomic.Pointer[turn]   // nil: none runs
	used   bool                   // it has run a turn
	known  bool                   // its session has had a turn before
	mute   bool                   // the agent does not respond to methods that it does not know
	replay atomic.Pointer[replay] // while the agent loads a session to go on with its turn
	fresh  bool                   // the session replaces one that failed each time
	goOn   string                 // the text of the next prompt; "": that of its turn

	stop time.Time // when an interrupt's grace ends; zero: there was none
}

// state is stored for the session's next turns: see session.EventState.
type state struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`             // of the agent's session
	Name  string `json:"name,omitempty"` // of the agent; another one does not know the ID

	// Recap: no turn that gave the session a recap has succeeded yet. The ID is stored before the
	// agent has read anything, so a turn that resumes the session must then give the recap again.
	Recap bool `json:"recap,omitempty"`

	// Failures is how many turns in a row this session may have made fail.
	Failures int `json:"failures,omitempty"`

	// Cost is the cost of the agent's session so far, in USD. An agent that resumes the session
	// continues this count.
	Cost float64 `json:"cost,omitempty"`
}

// anID reports whether an ID may be the agent's. A sender's Redis user can write the record, and the agent may make
// a file's name of the ID.
func anID(id string) bool {
	return id != "" && len(id) <= 400 && !strings.ContainsAny(id, `/\`) && !strings.HasPrefix(id, ".") && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Warm starts the agent and opens a session with it.
func (a *Agent) Warm(ctx context.Context, turn *agent.Turn) (agent.Warm, error) {
	if ctx.Err() != nil {
		return nil, command.Interrupted(ctx)
	}
	dir, err := a.directory(turn.Session)
	if err != nil {
		return nil, err
	}
	w := &warm{session: turn.Session, dir: dir}
	if w.process, err = a.start(turn, dir, w, a.config.Logger.With("session", turn.Session)); err != nil {
		return nil, err
	}
	if err = w.initialize(ctx); err == nil {
		err = w.open(ctx, turn)
	}
	if err != nil {
		_ = w.quit(ctx) // err says more
		return nil, w.LastWords(err)
	}
	return w, nil
}

// open opens the agent's session for a transcript: its own, if it still exists, else a new one,
// which receives a recap.
func (w *warm) open(ctx context.Context, turn *agent.Turn) error {
	w.sessionID, w.goOn, w.fresh, w.known = turn.TranscriptID, "", false, false
	var stored state
	switch err := json.Unmarshal(turn.State, &stored); {
	case err != nil || stored.Agent != "acp" || !anID(stored.ID) || stored.Name != w.name:
	case stored.Failures >= command.MostFailures:
		w.fresh = true
	default:
		var again json.RawMessage
		found, err := w.reopen(ctx, stored.ID, turn, &again)
		if err != nil {
			return err
		}
		if found {
			w.state, w.known = stored, true
			o := openedBy(again)
			if o.Options == nil && o.Models == nil && o.Modes == nil {
				return nil // it need not repeat what it offered when the session was new, and was configured
			}
			return w.configure(ctx, o)
		}
	}
	var made opened
	request := acpsdk.NewSessionRequest{Cwd: w.dir, McpServers: w.mcpServers()}
	if err := w.call(ctx, acpsdk.AgentMethodSessionNew, request, &made); err != nil {
		return w.refused(acpsdk.AgentMethodSessionNew, err)
	}
	if made.SessionID == "" {
		return errors.New("the agent opened a session without an id: its response to session/new has no sessionId")
	}
	w.state = state{Agent: "acp", ID: made.SessionID, Name: w.name, Recap: len(turn.History) > 0}
	return w.configure(ctx, made)
}

// reopen tries to resume a session of the agent. The agent replays it while no turn runs; that is ignored, unless
// it may go on with an interrupted turn.
func (w *warm) reopen(ctx context.Context, id string, turn *agent.Turn, result *json.RawMessage) (bool, error) {
	again := turn.Redelivered && w.can.load && goOn[w.name]
	shown := &replay{ended: map[string]bool{}}
	if again {
		w.replay.Store(shown)
		defer w.replay.Store(nil)
	}
	var method string
	var request any
	switch {
	case w.can.resume && !again:
		method, request = acpsdk.AgentMethodSessionResume, acpsdk.ResumeSessionRequest{SessionId: acpsdk.SessionId(id), Cwd: w.dir, McpServers: w.mcpServers()}
	case w.can.load:
		method, request = acpsdk.AgentMethodSessionLoad, acpsdk.LoadSessionRequest{SessionId: acpsdk.SessionId(id), Cwd: w.dir, McpServers: w.mcpServers()}
	default:
		return false, nil
	}
	err := w.call(ctx, method, request, result)
	var refused *acpsdk.RequestError
	if errors.As(err, &refused) {
		w.logger.Debug("the agent has not kept its session, so it opens a new one", "method", method, "id", id, "error", errorOf(refused))
		return false, nil
	}
	if again && err == nil {
		w.goOn = shown.goOn(turn)
	}
	return err == nil, err
}

// Run runs one turn.
func (w *warm) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	if !w.EndRest() || w.ended() {
		return agent.Result{}, agent.Retryable(fmt.Errorf("the agent ended between two turns: %w", w.died(ctx)))
	}
	w.Lend(turn.Host.Lease)
	if w.sessionID != turn.TranscriptID {
		if w.can.close {
			w.request(acpsdk.AgentMethodSessionClose, acpsdk.CloseSessionRequest{SessionId: acpsdk.SessionId(w.state.ID)}, func(response) {})
		}
		if err := w.open(ctx, turn); err != nil {
			w.interrupted(ctx)
			return agent.Result{}, err
		}
	} else if w.used {
		w.settle(ctx)
	}
	t := w.newTurn(ctx, turn)
	w.used = true
	w.turn.Store(t)
	err := t.run(ctx, turn)
	w.turn.Store(nil)
	w.known = true
	t.finish(ctx, err)
	if err != nil {
		return agent.Result{}, err
	}
	w.ForgetStderr()
	w.Lend(nil)
	w.Rest(w.talked)
	return agent.Result{}, nil
}

// settleTime is how long an agent may take to respond to a method that it does not know.
const settleTime = time.Second

// settle waits until the agent has written what it still had to write about earlier prompts: an update does not name
// its prompt, and one that comes later would be taken for the next one's. The agent's response, an error mostly,
// comes after that.
func (w *warm) settle(ctx context.Context) {
	if w.mute {
		return
	}
	settled := make(chan struct{})
	w.request("_turnstile/settled", struct{}{}, func(response) { close(settled) })
	select {
	case <-settled:
	case <-ctx.Done():
	case <-w.closed:
	case <-time.After(settleTime):
		w.mute = true
	}
}

// talked ends an agent that writes too much while it has no turn.
func (w *warm) talked() {
	w.logger.Warn("the agent wrote too much between two turns and is ended: the session's next turn starts another",
		"most_mib", command.MaxResting>>20)
	w.fail(command.ErrTalked)
	w.Interrupt(w.config.Grace)
}

// Ended reports whether the agent can run no further turn.
func (w *warm) Ended() bool { return w.ended() }

// interrupted begins the grace of a turn if its context is done.
func (w *warm) interrupted(ctx context.Context) {
	if ctx.Err() == nil {
		return
	}
	w.stop = time.Now().Add(w.config.Grace)
	if errors.Is(context.Cause(ctx), agent.ErrLeaseLost) {
		w.stop = time.Now()
	}
	if !time.Now().Before(w.stop) {
		w.Kill()
	}
}

// Close ends the process, within the rest of an interrupt's grace.
func (w *warm) Close() error {
	grace := w.config.Grace
	if !w.stop.IsZero() {
		grace = max(time.Until(w.stop), 0)
	}
	if w.can.close && grace > 0 && !w.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), min(grace/4, closeTime))
		_ = w.callFor(ctx, acpsdk.AgentMethodSessionClose, acpsdk.CloseSessionRequest{SessionId: acpsdk.SessionId(w.state.ID)}, nil)
		cancel()
	}
	w.shut(grace)
	return nil
}

// piece takes a line that is a piece of the running turn's text.
func (w *warm) piece(line []byte) bool {
	if !bytes.Contains(line, []byte("_chunk")) {
		return false
	}
	t := w.turn.Load()
	return t != nil && t.piece(line)
}

// notified takes a notification of the agent.
func (w *warm) notified(method string, params json.RawMessage) {
	t := w.turn.Load()
	r := w.replay.Load()
	switch {
	case t == nil && r != nil && method == acpsdk.ClientMethodSessionUpdate:
		r.take(params)
	case t == nil:
	case method == acpsdk.ClientMethodSessionUpdate:
		t.updated(params)
	case method == "$/cancel_request":
		t.withdraw(params)
	default:
		w.logger.Debug("an unknown notification of the agent was ignored", "method", method)
	}
}

// asked takes a request of the agent.
func (w *warm) requested(id json.RawMessage, method string, params json.RawMessage) {
	if t := w.turn.Load(); t != nil {
		t.requested(id, method, params)
		return
	}
	w.turnDown(id, method, "no turn is running")
}

// turnDown refuses a request that cannot be served.
func (w *warm) turnDown(id json.RawMessage, method, why string) {
	switch method {
	case acpsdk.ClientMethodSessionRequestPermission:
		w.reply(id, cancelled(), nil)
		return
	case acpsdk.ClientMethodElicitationCreate:
		w.reply(id, elicited{Action: cancel}, nil)
		return
	}
	w.reply(id, nil, &acpsdk.RequestError{Code: codeInvalid, Message: why})
}
