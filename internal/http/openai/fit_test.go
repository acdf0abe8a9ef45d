package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// shown is a data URL of a picture of so many bytes. It begins with its name.
func shown(name string, bytes int) string {
	const prefix = "data:image/png;base64,"
	return prefix + name + strings.Repeat("A", (bytes-len(prefix)-len(name))/4*4)
}

// A client that keeps its conversation sends old pictures again. They make room for the new ones, also for an agent that
// takes no history but one text. The user's latest pictures never do.
func TestOldPicturesMakeRoom(t *testing.T) {
	t.Parallel()
	const most, mark = 64 << 10, "[A picture sent earlier is left out here: it does not fit.]"
	messages := func(body string) string { return `{"messages":` + body + `}` }
	for name, c := range map[string]struct {
		path, user string
		instruct   bool
		body       func(string) string
		heard      string
	}{
		"a chat": {"chat/completions", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"%s"}},{"type":"text","text":"%s"}]}`, true, messages,
			"system: Be kind.\nuser: one\n\n" + mark + "\nassistant: I see.\nuser: two\n"},
		"a chat as a text": {"chat/completions", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"%s"}},{"type":"text","text":"%s"}]}`, false, messages,
			"system: Be kind.\nuser: User: one\n\n" + mark + "\n\nAssistant: I see.\n\nUser: two\n"},
		"a response": {"responses", `{"role":"user","content":[{"type":"input_image","image_url":"%s"},{"type":"input_text","text":"%s"}]}`, true,
			func(body string) string { return `{"store":false,"input":` + body + `}` },
			"system: Be kind.\nuser: one\n\n" + mark + "\nassistant: I see.\nuser: two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *gateway.Config) { c.Limits.MessageBytes = most })
			server := modelserver.New(t, modelserver.Reply("I see."), modelserver.Reply("I see it."))
			r.modelWorker(server, c.instruct)
			send := func(body string) (leftOut string, err error) {
				var response *http.Response
				err = r.sdk.Post(t.Context(), c.path, strings.NewReader(c.body(body)), nil, option.WithResponseInto(&response), option.WithHeader("Content-Type", "application/json"))
				return response.Header.Get("X-Turnstile-Left-Out"), err
			}
			one, two := fmt.Sprintf(c.user, shown("one0", most/2), "one"), fmt.Sprintf(c.user, shown("two0", most*3/4), "two")
			gone, err := send("[" + one + "]")
			expect.OK(t, err)
			expect.Equal(t, "left out of the first", gone, "")
			gone, err = send("[" + one + `,{"role":"assistant","content":"I see."},` + two + "]")
			expect.OK(t, err)
			expect.Equal(t, "left out of the second", gone, "1")
			all, _ := heard(server, 2)
			expect.Equal(t, "what the model reads", all, c.heard)
			var images []string
			for _, m := range server.Requests()[1].Messages {
				images = append(images, m.Images()...)
			}
			expect.List(t, "what it sees", images, shown("two0", most*3/4))

			_, err = send("[" + one + `,{"role":"assistant","content":"I see."},` + fmt.Sprintf(c.user, shown("two0", most), "two") + "]")
			r.refused(err, 413, "message_too_large", fmt.Sprintf("at most %d are allowed: send smaller pictures and files, or their http URLs.", most))
		})
	}
}

// Pictures that functions returned make room, the oldest first and no more than needed, and what the user has said last
// does not, although the assistant has called a function since.
func TestWhichPicturesMakeRoom(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	r := newRig(t, func(c *gateway.Config) { c.Limits.MessageBytes = most })
	server := modelserver.New(t, modelserver.Reply("Done."))
	r.modelWorker(server, true)
	image := func(name string) string {
		return fmt.Sprintf(`[{"type":"input_image","image_url":"%s"},{"type":"input_text","text":"%s"}]`, shown(name, most/4), name)
	}
	call := func(id, output string) string {
		return fmt.Sprintf(`,{"type":"function_call","call_id":"%[1]s","name":"look","arguments":"{}"},{"type":"function_call_output","call_id":"%[1]s","output":%[2]s}`, id, output)
	}
	status, got := r.post("/v1/responses", `{"store":false,"input":[{"role":"user","content":`+image("user")+`}`+call("c1", image("res1"))+call("c2", image("res2"))+call("c3", image("res3"))+`]}`)
	expect.Equal(t, "status", fmt.Sprint(status, got["error"]), "200 <nil>")
	all, _ := heard(server, 1)
	expect.Equal(t, "the mark", strings.Count(all, "[A picture sent earlier is left out here: it does not fit.]"), 1)
	expect.Equal(t, "its place", strings.Contains(all, "tool: res1\n\n[A picture"), true)
	var images []string
	for _, m := range server.Requests()[0].Messages {
		images = append(images, m.Images()...)
	}
	expect.List(t, "what it sees", images, shown("user", most/4), shown("res2", most/4), shown("res3", most/4))
}

// In a session the request's message is what is new. It has no history that could make room.
func TestNewPicturesThatDoNotFit(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	r := newRig(t, func(c *gateway.Config) { c.Limits.MessageBytes = most })
	p := say("s", "")
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{{OfInputImage: &responses.ResponseInputImageParam{
			Detail: responses.ResponseInputImageDetailAuto, ImageURL: sdk.String(shown("one0", most)),
		}}}, responses.EasyInputMessageRoleUser),
	}}
	_, err := r.sdk.Responses.New(t.Context(), p)
	r.refused(err, 413, "message_too_large", "The message exceeds a limit. What is new")
	_, err = r.sdk.Responses.New(t.Context(), say("s", strings.Repeat("\x00", most/4)))
	r.refused(err, 413, "message_too_large", "invalid message: it has")
	if strings.Contains(err.Error(), "enqueue message") {
		t.Errorf("%v names what its reader does not know", err)
	}
}
