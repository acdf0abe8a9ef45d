package openai_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"turnstile/pkg/agent/model"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// picture is a PNG of noise, which does not compress.
func picture(t *testing.T, seed uint64) []byte {
	t.Helper()
	noise := rand.New(rand.NewPCG(seed, 0))
	img := image.NewNRGBA(image.Rect(0, 0, 256, 256))
	for i := range 256 * 256 {
		img.SetNRGBA(i%256, i/256, color.NRGBA{uint8(noise.Uint32()), uint8(noise.Uint32()), uint8(noise.Uint32()), 255})
	}
	var b bytes.Buffer
	expect.OK(t, png.Encode(&b, img))
	return b.Bytes()
}

// The model's server gets from the worker the picture that OpenAI's client gave to the gateway, byte for
// byte, with or without a text, and again in the next turn.
func TestPicturesReachTheModel(t *testing.T) {
	t.Parallel()
	const prefix = "data:image/png;base64,"
	for name, send := range map[string]func(r *rig, text, url string) error{
		"responses": func(r *rig, text, url string) error {
			parts := responses.ResponseInputMessageContentListParam{{OfInputImage: &responses.ResponseInputImageParam{
				Detail: responses.ResponseInputImageDetailAuto, ImageURL: sdk.String(url),
			}}}
			if text != "" {
				parts = append(parts, responses.ResponseInputContentParamOfInputText(text))
			}
			p := say("s", "")
			p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
				responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser),
			}}
			_, err := r.sdk.Responses.New(r.Context(), p)
			return err
		},
		"chat": func(r *rig, text, url string) error {
			parts := []sdk.ChatCompletionContentPartUnionParam{sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url})}
			if text != "" {
				parts = append(parts, sdk.TextContentPart(text))
			}
			_, err := r.sdk.Chat.Completions.New(r.Context(), sdk.ChatCompletionNewParams{
				Model: shared.ChatModel("echo"), Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(parts)},
			}, option.WithHeader("X-Turnstile-Session", "s"))
			return err
		},
		"sessions": func(r *rig, text, url string) error {
			body := map[string]any{"text": text, "attachments": []map[string]any{{"name": "p.png", "mime": "image/png", "url": url}}}
			return r.sdk.Post(r.Context(), "sessions/s/messages", body, nil, option.WithHeader("Prefer", "wait=60"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			server := modelserver.New(t, modelserver.Reply("I see"), modelserver.Reply("I see both"))
			agent, err := model.New(model.Config{URL: server.URL(), Model: "m"})
			expect.OK(t, err)
			r.workerOf(agent)
			sent := [][]byte{picture(t, 1), picture(t, 2)}
			for i, text := range []string{"what is this?", ""} {
				expect.OK(t, send(r, text, prefix+base64.StdEncoding.EncodeToString(sent[i])))
			}
			requests := server.Requests()
			expect.Equal(t, "requests", len(requests), 2)
			for turn, request := range requests {
				var got []string
				for _, m := range request.Messages {
					got = append(got, m.Images()...)
				}
				expect.Equal(t, "pictures of a request", len(got), turn+1)
				for i, url := range got {
					data, err := base64.StdEncoding.DecodeString(url[min(len(prefix), len(url)):])
					expect.OK(t, err)
					if !bytes.Equal(data, sent[i]) || url[:len(prefix)] != prefix {
						t.Errorf("turn %d: picture %d has %d bytes, sent were %d: %.60s", turn, i, len(data), len(sent[i]), url)
					}
				}
			}
			expect.Equal(t, "the text beside it", requests[0].Last(), "what is this?")
		})
	}
}
