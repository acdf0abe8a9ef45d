package acp

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// prompt is a turn as session/prompt takes it: one text, the pictures that are data URLs, and links to
// the other attachments. An agent that goes on has all but the text.
func (w *warm) prompt(at *agent.Turn) []acpsdk.ContentBlock {
	if text := w.goOn; text != "" {
		w.logger.Info("the agent's session has the turn's message, and goes on with it", "agent_session", w.state.ID)
		w.goOn = ""
		return []acpsdk.ContentBlock{acpsdk.TextBlock(w.users().Prompt(text))}
	}
	text, before := at.Text(), at.RecapEnded(recapSize)
	if w.state.Recap {
		before = at.Recap(recapSize)
	}
	if before != "" {
		text = before + "\n\n" + text
	}
	blocks, who := []acpsdk.ContentBlock{acpsdk.TextBlock(w.users().Prompt(text))}, at.Speakers()
	for _, m := range at.Messages {
		for _, a := range m.Attachments {
			blocks = append(blocks, w.attached(a, who))
		}
	}
	return blocks
}

func (w *warm) users() command.Users { return command.Users{Commands: w.config.Commands} }

// attached is an attachment in a prompt. An agent that takes no pictures gets the name of one: it
// would read the data of a link as text.
func (w *warm) attached(a session.Attachment, who *agent.Speakers) acpsdk.ContentBlock {
	mime, data, ok := picture(a)
	switch {
	case !ok:
		return link(a, who)
	case !w.can.images:
		return acpsdk.TextBlock(who.Quote(fmt.Sprintf("[The user has attached the picture %s (%s), which you cannot see: this agent takes no pictures. Say so.]", a.Name, mime)))
	}
	return acpsdk.ImageBlock(data, mime)
}

// oneLine replaces control characters and Unicode's line breaks.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// picture returns the type and the data, in base64, of an attachment that is a picture in a data URL.
func picture(a session.Attachment) (mime, data string, ok bool) {
	about, data, _ := strings.Cut(a.URL, ",")
	about, encoded := strings.CutSuffix(about, ";base64")
	if len(about) < len("data:") || !strings.EqualFold(about[:len("data:")], "data:") {
		return "", "", false
	}
	mime, _, _ = strings.Cut(strings.ToLower(about[len("data:"):]), ";")
	return mime, data, encoded && strings.HasPrefix(mime, "image/")
}

// link is an attachment that the agent may open. A name has no line breaks: its second line could look like a
// line about a sender.
func link(a session.Attachment, who *agent.Speakers) acpsdk.ContentBlock {
	uri := a.URL
	if uri == "" {
		uri = (&url.URL{Scheme: "file", Path: a.Path}).String()
	}
	block := acpsdk.ResourceLinkBlock(who.Quote(oneLine(a.Name)), oneLine(uri))
	if a.Mime != "" {
		block.ResourceLink.MimeType = &a.Mime
	}
	if size := int(a.Size); size > 0 {
		block.ResourceLink.Size = &size
	}
	return block
}
