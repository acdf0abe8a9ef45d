package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// conversation is a request's messages in the form of the Messages API: users and assistants take turns, and a user begins and
// ends. Breakpoints of the cache are at the end of the history, which the next turn has, too, and at the end of all, which the
// next round has.
func conversation(q request, origin string) (all []sdk.MessageParam) {
	add := func(role sdk.MessageParamRole, blocks ...sdk.ContentBlockParamUnion) {
		switch last := len(all) - 1; {
		case len(blocks) == 0:
		case last >= 0 && all[last].Role == role:
			all[last].Content = append(all[last].Content, blocks...)
		default:
			if len(all) == 0 && role == sdk.MessageParamRoleAssistant {
				all = append(all, sdk.NewUserMessage(sdk.NewTextBlock(leftOut.text)))
			}
			all = append(all, sdk.MessageParam{Role: role, Content: blocks})
		}
	}
	for i, m := range q.messages {
		switch m.role {
		case roleAssistant:
			add(sdk.MessageParamRoleAssistant, replyBlocks(m, origin)...)
		case roleTool:
			add(sdk.MessageParamRoleUser, toolResult(m))
		default:
			add(sdk.MessageParamRoleUser, userBlocks(m)...)
		}
		if i == q.stable-1 {
			breakpoint(all)
		}
	}
	if last := len(all) - 1; last < 0 || all[last].Role == sdk.MessageParamRoleAssistant {
		add(sdk.MessageParamRoleUser, sdk.NewTextBlock(goOn))
	}
	breakpoint(all)
	return all
}

// goOn follows the assistant's last words where the user has none: most models do not continue a reply.
const goOn = "[Go on.]"

// breakpoint has the server cache what comes until here.
func breakpoint(all []sdk.MessageParam) {
	if len(all) == 0 {
		return
	}
	blocks := all[len(all)-1].Content
	if c := blocks[len(blocks)-1].GetCacheControl(); c != nil {
		*c = sdk.NewCacheControlEphemeralParam()
	}
}

// textBlocks is a text's block. The API refuses blank ones.
func textBlocks(text string) []sdk.ContentBlockParamUnion {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []sdk.ContentBlockParamUnion{sdk.NewTextBlock(text)}
}

func userBlocks(m message) []sdk.ContentBlockParamUnion {
	var images []sdk.ContentBlockParamUnion
	for _, i := range m.images {
		if b := picture(i.url); b != nil {
			images = append(images, *b)
		} else {
			m.text += "\n\n" + i.named
		}
	}
	return append(textBlocks(m.text), images...)
}

// picture is an image that the API takes, or nil.
func picture(url string) *sdk.ContentBlockParamUnion {
	if strings.HasPrefix(url, "https:") {
		b := sdk.NewImageBlock(sdk.URLImageSourceParam{URL: url})
		return &b
	}
	data, isData := strings.CutPrefix(url, "data:")
	kind, content, isBase64 := strings.Cut(data, ";base64,")
	kind = strings.Replace(strings.ToLower(kind), "image/jpg", "image/jpeg", 1)
	if !isData || !isBase64 || !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, kind) {
		return nil
	}
	b := sdk.NewImageBlockBase64(kind, content)
	return &b
}

func toolResult(m message) sdk.ContentBlockParamUnion {
	b := sdk.ToolResultBlockParam{ToolUseID: fittingID(m.callID)}
	if strings.TrimSpace(m.text) != "" {
		b.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: m.text}}}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &b}
}

// replyBlocks is an assistant's message: as it was sent, if that is known and still fits, else its text and then its calls.
func replyBlocks(m message, origin string) (blocks []sdk.ContentBlockParamUnion) {
	var pieces []piece
	if m.from == origin {
		_ = json.Unmarshal(m.fields[piecesField], &pieces) // nil, if there are none
	}
	text, calls := m.text, m.calls
	for _, p := range pieces {
		switch {
		case p.Type == pieceThought:
			blocks = append(blocks, sdk.NewThinkingBlock(p.Signature, p.Thought))
		case p.Type == pieceRedacted:
			blocks = append(blocks, sdk.NewRedactedThinkingBlock(p.Data))
		case p.Type == pieceText && p.Size <= len(text):
			blocks = append(blocks, textBlocks(text[:p.Size])...)
			text = text[p.Size:]
		case p.Type == pieceCall && len(calls) > 0:
			blocks = append(blocks, called(calls[0]))
			calls = calls[1:]
		}
	}
	if pieces != nil && (text != "" || len(calls) > 0) {
		return replyBlocks(m, "")
	}
	blocks = append(blocks, textBlocks(text)...)
	for _, c := range calls {
		blocks = append(blocks, called(c))
	}
	return blocks
}

func called(c toolCall) sdk.ContentBlockParamUnion {
	return sdk.NewToolUseBlock(fittingID(c.id), json.RawMessage(c.args), fittingName(c.name))
}

var goodID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// fittingID is a call's ID, or one in its place that the API takes.
func fittingID(id string) string {
	if goodID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}
