package examples

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"turnstile/test/expect"
)

const telegramToken = "42:fake"

// telegramMessage is a message that the bot has sent.
type telegramMessage struct {
	ID      int
	Chat    int64
	Text    string // the last one
	ReplyTo int
	Buttons []string // their data
	Rich    []string // what its entities say of parts of the text
	Texts   []string // all its texts, in order
	At      []time.Time
}

// telegramCall has the common fields of the bot's calls.
type telegramCall struct {
	Offset, Timeout int
	FileID          string `json:"file_id"`
	ChatID          int64  `json:"chat_id"`
	MessageID       int    `json:"message_id"`
	Text            string `json:"text"`
	ParseMode       string `json:"parse_mode"`
	QueryID         string `json:"callback_query_id"`
	Entities        []telegramEntity
	Reply           struct {
		MessageID int `json:"message_id"`
	} `json:"reply_parameters"`
	Markup struct {
		Rows [][]struct {
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	} `json:"reply_markup"`
}

// telegramEntity says how a part of a text is shown. Places are in UTF-16 code units.
type telegramEntity struct {
	Type, URL, Language string
	Offset, Length      int
}

// rich returns what a call's entities say of its text.
func (a *telegramAPI) rich(call telegramCall) (list []string) {
	text := utf16.Encode([]rune(call.Text))
	for _, e := range call.Entities {
		if e.Length < 1 || e.Offset < 0 || e.Offset+e.Length > len(text) {
			a.Errorf("an entity outside of the text %q: %+v", call.Text, e)
			continue
		}
		list = append(list, strings.TrimSpace(e.Type+" "+e.Language+e.URL)+": "+string(utf16.Decode(text[e.Offset:e.Offset+e.Length])))
	}
	return list
}

// telegramAPI is the part of Telegram's Bot API that the bot uses, with Telegram's limits.
type telegramAPI struct {
	*testing.T
	url string

	mu       sync.Mutex
	changed  chan struct{} // closed at each change
	updates  []map[string]any
	last     int // the ID of the last update or message
	messages []*telegramMessage
	pressed  map[string]string // the responses to presses of buttons, by the query's ID
	polls    int               // calls of getUpdates that wait
	sends    int               // calls of sendMessage
	limited  []int             // those that get 429, from 1
	swallow  bool              // the next send is carried out and gets no response
	refused  map[int64]bool    // the chats that have blocked the bot
	files    map[string]string // the bytes of files, by their IDs
}

func newTelegramAPI(t *testing.T) *telegramAPI {
	a := &telegramAPI{T: t, changed: make(chan struct{}), last: 700, pressed: map[string]string{}, refused: map[int64]bool{}, files: map[string]string{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	a.url = server.URL
	return a
}

// change changes the state and wakes the waiting requests.
func (a *telegramAPI) change(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
	close(a.changed)
	a.changed = make(chan struct{})
}

// says puts in an update with a message of a user in his chat and returns the message's ID.
func (a *telegramAPI) says(chat int64, text string) (id int) {
	return a.posts(chat, map[string]any{"text": text})
}

// posts is says with a message of any kind.
func (a *telegramAPI) posts(chat int64, message map[string]any) (id int) {
	a.change(func() {
		a.last++
		id = a.last
		message["message_id"], message["chat"] = id, map[string]any{"id": chat, "type": "private"}
		message["from"] = map[string]any{"id": chat, "first_name": "Ann"}
		a.updates = append(a.updates, map[string]any{"update_id": id, "message": message})
	})
	return id
}

// sizeOf is a size of a picture in an update. Its file is kept under that ID.
func (a *telegramAPI) sizeOf(id string, width, bytes int, data string) map[string]any {
	a.change(func() { a.files[id] = data })
	return map[string]any{"file_id": id, "width": width, "height": width, "file_size": bytes}
}

// file serves a file, as Telegram does from another path with the token.
func (a *telegramAPI) file(w http.ResponseWriter, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = w.Write([]byte(a.files[id])) // the bot may have died
}

// presses presses a button of a message, as that user, and returns the response.
func (a *telegramAPI) presses(user int64, m telegramMessage, data string) string {
	a.Helper()
	var query string
	a.change(func() {
		a.last++
		query = "q" + m.Text + data
		a.updates = append(a.updates, map[string]any{"update_id": a.last, "callback_query": map[string]any{
			"id": query, "from": map[string]any{"id": user, "first_name": "Ann"}, "data": data,
			"message": map[string]any{"message_id": m.ID, "chat": map[string]any{"id": m.Chat, "type": "private"}},
		}})
	})
	var told string
	expect.Soon(a, "a response to a button", func() (ok bool) {
		a.change(func() {
			told, ok = a.pressed[query]
			delete(a.pressed, query)
		})
		return ok
	})
	return told
}

// in returns the messages of a chat.
func (a *telegramAPI) in(chat int64) (list []telegramMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.messages {
		if m.Chat == chat {
			list = append(list, *m)
		}
	}
	return list
}

// texts returns the texts of a chat's messages.
func (a *telegramAPI) texts(chat int64) (list []string) {
	for _, m := range a.in(chat) {
		list = append(list, m.Text)
	}
	return list
}

// await waits for a chat's n-th message to have a text that begins so, and returns the message.
func (a *telegramAPI) await(chat int64, n int, text string) (m telegramMessage) {
	a.Helper()
	expect.Soon(a, "the message "+text, func() bool {
		list := a.in(chat)
		if len(list) >= n {
			m = list[n-1]
		}
		return strings.HasPrefix(m.Text, text) && m.Text != ""
	})
	return m
}

func (a *telegramAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+telegramToken+"/photos/"); ok {
		a.file(w, id)
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+telegramToken+"/")
	var call telegramCall
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil || !ok {
		a.fail(w, 404, "Not Found", 0)
		return
	}
	if call.ParseMode != "" {
		a.Errorf("%s has the parse_mode %s: a text is data", method, call.ParseMode)
	}
	switch method {
	case "getMe":
		a.respond(w, map[string]any{"id": 42, "username": "turnstile_bot"})
	case "getUpdates":
		a.respond(w, a.poll(r, call))
	case "getFile":
		a.mu.Lock()
		_, known := a.files[call.FileID]
		a.mu.Unlock()
		if !known {
			a.fail(w, 400, "Bad Request: file is temporarily unavailable", 0)
			return
		}
		a.respond(w, map[string]any{"file_id": call.FileID, "file_path": "photos/" + call.FileID})
	case "sendMessage":
		a.send(w, r, call)
	case "editMessageText":
		a.edit(w, call)
	case "answerCallbackQuery":
		a.change(func() { a.pressed[call.QueryID] = call.Text })
		a.respond(w, true)
	case "setMyCommands":
		a.respond(w, true)
	default:
		a.fail(w, 404, "Not Found: method "+method, 0)
	}
}

func (a *telegramAPI) respond(w http.ResponseWriter, result any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result}) // the bot may have died
}

func (a *telegramAPI) fail(w http.ResponseWriter, status int, why string, retryAfter int) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"ok": false, "error_code": status, "description": why, "parameters": map[string]any{"retry_after": retryAfter},
	})
}

// poll forgets the updates before the offset and waits for others.
func (a *telegramAPI) poll(r *http.Request, call telegramCall) []map[string]any {
	end := time.NewTimer(time.Duration(call.Timeout) * time.Second)
	defer end.Stop()
	a.change(func() { a.polls++ })
	defer a.change(func() { a.polls-- })
	for {
		a.mu.Lock()
		a.updates = slices.DeleteFunc(a.updates, func(u map[string]any) bool { return u["update_id"].(int) < call.Offset })
		updates, changed := slices.Clone(a.updates), a.changed
		a.mu.Unlock()
		if len(updates) > 0 {
			return updates
		}
		select {
		case <-changed:
		case <-end.C:
			return []map[string]any{}
		case <-r.Context().Done():
			return nil
		}
	}
}

// wrong returns Telegram's error about a text, or "".
func wrong(text string) string {
	switch {
	case strings.TrimSpace(text) == "":
		return "Bad Request: message text is empty"
	case len(utf16.Encode([]rune(text))) > 4096:
		return "Bad Request: message is too long"
	}
	return ""
}

func (a *telegramAPI) send(w http.ResponseWriter, r *http.Request, call telegramCall) {
	var m *telegramMessage
	status, why, retryAfter, swallowed := 0, wrong(call.Text), 0, false
	a.change(func() {
		a.sends++
		switch {
		case slices.Contains(a.limited, a.sends):
			status, why, retryAfter = 429, "Too Many Requests: retry after 2", 2
		case a.refused[call.ChatID]:
			status, why = 403, "Forbidden: bot was blocked by the user"
		case why != "":
			status = 400
		default:
			a.last++
			m = &telegramMessage{ID: a.last, Chat: call.ChatID, Text: call.Text, ReplyTo: call.Reply.MessageID, Texts: []string{call.Text}, At: []time.Time{time.Now()}, Rich: a.rich(call)}
			for _, row := range call.Markup.Rows {
				for _, button := range row {
					m.Buttons = append(m.Buttons, button.Data)
				}
			}
			a.messages = append(a.messages, m)
			swallowed, a.swallow = a.swallow, false
		}
	})
	switch {
	case swallowed:
		<-r.Context().Done() // until the bot dies
	case m == nil:
		a.fail(w, status, why, retryAfter)
	default:
		a.respond(w, map[string]any{"message_id": m.ID})
	}
}

func (a *telegramAPI) edit(w http.ResponseWriter, call telegramCall) {
	why := wrong(call.Text)
	a.change(func() {
		i := slices.IndexFunc(a.messages, func(m *telegramMessage) bool { return m.ID == call.MessageID && m.Chat == call.ChatID })
		switch {
		case i < 0:
			why = cmp.Or(why, "Bad Request: message to edit not found")
		case why != "":
		case a.messages[i].Text == call.Text && a.messages[i].Buttons == nil:
			why = "Bad Request: message is not modified"
		default:
			m := a.messages[i]
			m.Text, m.Buttons, m.Rich = call.Text, nil, a.rich(call)
			m.Texts, m.At = append(slices.Clone(m.Texts), call.Text), append(slices.Clone(m.At), time.Now())
		}
	})
	if why != "" {
		a.fail(w, 400, why, 0)
		return
	}
	a.respond(w, true)
}
