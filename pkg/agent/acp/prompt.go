package acp

import (
	"net/url"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// prompt is a turn as session/prompt takes it: one text, and links to the attachments.
func (w *warm) prompt(at agent.Turn) []acpsdk.ContentBlock {
	text := at.Text()
	if w.state.Recap {
		if before := agent.Recap(at.History, recapSize); before != "" {
			text = before + "\n\n" + text
		}
	}
	blocks := []acpsdk.ContentBlock{acpsdk.TextBlock(text)}
	for _, m := range at.Messages {
		for _, a := range m.Attachments {
			blocks = append(blocks, link(a))
		}
	}
	return blocks
}

func link(a session.Attachment) acpsdk.ContentBlock {
	uri := a.URL
	if uri == "" {
		uri = (&url.URL{Scheme: "file", Path: a.Path}).String()
	}
	block := acpsdk.ResourceLinkBlock(a.Name, uri)
	if a.Mime != "" {
		block.ResourceLink.MimeType = &a.Mime
	}
	if size := int(a.Size); size > 0 {
		block.ResourceLink.Size = &size
	}
	return block
}
