package protocol

import (
	"context"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// TranscriptPage reads a page of a transcript, of about so many bytes, from its end towards its
// beginning. left limits it to so many of the oldest entries; -1 is all. It returns how many older
// entries are left, and the stored entries of the page, newest first. lua/transcript_page.lua.
func TranscriptPage(ctx context.Context, rdb script.Client, sessionKey, transcriptID string, left int64, bytes int) (older int64, entries []string, err error) {
	call := pageOf(sessionKey, transcriptID, left, bytes)
	call.Run(ctx, rdb)
	if call.Err != nil {
		return 0, nil, call.Err
	}
	page := scripts.TranscriptPage.Result(call)
	for i := range page.Entries {
		entries = append(entries, page.Entries.Text(i))
	}
	return page.Left, entries, nil
}

// pageOf returns the call that reads a page of a transcript. oldest is how many of the oldest
// entries it may read, -1 for all.
func pageOf(sessionKey, transcriptID string, oldest int64, bytes int) *script.Call {
	return scripts.TranscriptPage.Call([]string{rediskey.For(sessionKey).Transcript(transcriptID)},
		scripts.TranscriptPageArgs{Oldest: oldest, Room: int64(bytes)})
}
