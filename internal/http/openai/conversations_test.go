package openai_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A conversation is there from its making on, takes responses at once, and is gone with everything after its deletion.
func TestConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "bot send read", "root send read operate"))
	bot, root := r.at(r.url, option.WithAPIKey("bot")), r.at(r.url, option.WithAPIKey("root"))
	made, err := bot.Conversations.New(t.Context(), conversations.ConversationNewParams{})
	expect.OK(t, err)
	got, err := bot.Conversations.Get(t.Context(), made.ID)
	expect.OK(t, err)
	expect.Equal(t, "read", got.RawJSON(), made.RawJSON())
	empty, err := bot.Conversations.Items.List(t.Context(), made.ID, conversations.ItemListParams{})
	expect.OK(t, err)
	expect.Equal(t, "items", len(empty.Data), 0)

	id, key := background(t, bot, made.ID, "hello")
	expect.Equal(t, "the response's conversation", key, made.ID)
	r.refused(deleteConversation(t, &bot, made.ID), 403, "forbidden", "operate")
	r.worker()
	_, _ = streamed(t, bot.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	after, err := bot.Conversations.Get(t.Context(), made.ID)
	expect.OK(t, err)
	expect.Equal(t, "after a turn", after.RawJSON(), made.RawJSON())
	expect.Soon(t, "it is deleted", func() bool { return deleteConversation(t, &root, made.ID) == nil }) // its owner lets go after the end
	r.refused(deleteConversation(t, &root, made.ID), 404, "unknown_session", made.ID)
	_, err = bot.Conversations.Get(t.Context(), made.ID)
	r.refused(err, 404, "unknown_session", made.ID)
	_, err = bot.Conversations.Items.List(t.Context(), made.ID, conversations.ItemListParams{})
	r.refused(err, 404, "unknown_session", made.ID)
	_, err = bot.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	r.refused(err, 404, "unknown_message", id)
}

func deleteConversation(t *testing.T, client *sdk.Client, id string) error {
	t.Helper()
	got, err := client.Conversations.Delete(t.Context(), id)
	if err == nil {
		expect.Equal(t, "deleted", got.ID+" "+string(got.Object)+" "+fmt.Sprint(got.Deleted), id+" conversation.deleted true")
	}
	return err
}

// What a session has no place for is refused with a sentence. A key has one conversation for its token.
func TestConversationsThatAreNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "ann send read control", "bob send read"))
	ann, bob := r.at(r.url, option.WithAPIKey("ann")), r.at(r.url, option.WithAPIKey("bob"))
	item := []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage("hello", "user")}
	_, err := ann.Conversations.New(t.Context(), conversations.ConversationNewParams{Items: item})
	r.refused(err, 400, "invalid_request", "input of one")
	_, err = ann.Conversations.New(t.Context(), conversations.ConversationNewParams{Metadata: shared.Metadata{"a": "b"}})
	r.refused(err, 400, "invalid_request", "no metadata")
	keyed := option.WithHeader("Idempotency-Key", "k")
	made := func(client *sdk.Client, opts ...option.RequestOption) string {
		t.Helper()
		got, err := client.Conversations.New(t.Context(), conversations.ConversationNewParams{Metadata: shared.Metadata{}}, opts...)
		expect.OK(t, err)
		return got.ID
	}
	first := made(&ann, keyed)
	before, err := r.client.Session(first).Info(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "the key again", made(&ann, keyed), first)
	again, err := r.client.Session(first).Info(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "its transcript", again.TranscriptID, before.TranscriptID)
	expect.Equal(t, "another token's", made(&bob, keyed) != first, true)
	other := made(&ann)
	expect.Equal(t, "without a key", made(&ann) != other, true)
	id, session := background(t, ann, "", "hi", keyed)
	expect.Equal(t, "a response's with this key", id != "" && session != first, true)

	_, err = ann.Conversations.Update(t.Context(), first, conversations.ConversationUpdateParams{Metadata: shared.Metadata{"a": "b"}})
	r.refused(err, 400, "invalid_request", "no metadata")
	_, err = ann.Conversations.Items.New(t.Context(), first, conversations.ItemNewParams{Items: item})
	r.refused(err, 400, "invalid_request", "input of one")
	_, err = ann.Conversations.Items.Delete(t.Context(), first, "msg_in_x")
	r.refused(err, 400, "invalid_request", "undo")
	_, err = ann.Conversations.Items.Get(t.Context(), first, "msg_in_x", conversations.ItemGetParams{})
	r.refused(err, 404, "unknown_message", "msg_in_x")
}

// The items of a conversation are the inputs and outputs of its responses, in both orders and in pages
// of any size, also where turns are longer than a page of the transcript.
func TestItemsOfAConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workerOf(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		for i := range 60 {
			call := fmt.Sprint(i)
			turn.Emit(agent.Event{Type: session.EventText, Text: "text " + call})
			turn.Emit(agent.Event{Type: session.EventToolStart, Name: "look", CallID: call})
			turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: call})
		}
		turn.Emit(agent.Event{Type: session.EventText, Text: "done"})
		return agent.Result{}, nil
	}))
	var all []string
	for _, text := range []string{"one", "two", "three"} {
		got, err := r.sdk.Responses.New(t.Context(), say("s", text))
		expect.OK(t, err)
		input, err := r.sdk.Responses.InputItems.List(t.Context(), got.ID, responses.InputItemListParams{})
		expect.OK(t, err)
		turn, _, _ := strings.Cut(strings.TrimPrefix(got.Output[0].ID, "msg_"), "_")
		listed := strings.Replace(input.Data[0].RawJSON(), "msg_in_", "msg_in_"+turn+"_", 1)
		all = append(all, listed)
		one, err := r.sdk.Conversations.Items.Get(t.Context(), "s", input.Data[0].ID, conversations.ItemGetParams{})
		expect.OK(t, err)
		expect.Equal(t, "by its ID in the response", one.RawJSON(), listed)
		for _, item := range got.Output {
			all = append(all, item.RawJSON())
		}
	}
	expect.Equal(t, "items of three responses", len(all), 3*(1+121))
	for _, limit := range []int64{1, 7, 100} {
		if limit == 1 && testing.Short() {
			continue
		}
		for _, order := range []conversations.ItemListParamsOrder{"asc", "desc"} {
			var got []string
			pages := r.sdk.Conversations.Items.ListAutoPaging(t.Context(), "s", conversations.ItemListParams{Order: order, Limit: sdk.Int(limit)})
			for pages.Next() {
				got = append(got, pages.Current().RawJSON())
			}
			expect.OK(t, pages.Err())
			if order == "desc" {
				slices.Reverse(got)
			}
			expect.List(t, fmt.Sprintf("items, %s by %d", order, limit), got, all...)
		}
	}
	page, err := r.sdk.Conversations.Items.List(t.Context(), "s", conversations.ItemListParams{})
	expect.OK(t, err)
	expect.Equal(t, "a page", len(page.Data), 20)
	expect.Equal(t, "its first item", page.Data[0].RawJSON(), all[len(all)-1])
	for _, item := range page.Data {
		one, err := r.sdk.Conversations.Items.Get(t.Context(), "s", item.ID, conversations.ItemGetParams{})
		expect.OK(t, err)
		expect.Equal(t, "an item", one.RawJSON(), item.RawJSON())
	}
	_, err = r.sdk.Conversations.Items.List(t.Context(), "s", conversations.ItemListParams{After: sdk.String("msg_none")})
	r.refused(err, 400, "invalid_request", "has no item")
}

// A page with long items has fewer of them, at least one, and they come in the same order.
func TestPagesOfLongItems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	var want []string
	for i := range 2 {
		_, err := r.client.Session("s").Send(t.Context(), turnstile.Message{ID: fmt.Sprint(i), Text: fmt.Sprint(i, " ") + strings.Repeat("x", 900_000)})
		expect.OK(t, err)
		_, err = r.client.Session("s").Wait(t.Context(), fmt.Sprint(i))
		expect.OK(t, err)
		want = append(want, "user "+fmt.Sprint(i), "assistant echo: "+fmt.Sprint(i))
	}
	for _, order := range []conversations.ItemListParamsOrder{"asc", "desc"} {
		var got []string
		pages, after := 0, ""
		for more := true; more; pages++ {
			page, err := r.sdk.Conversations.Items.List(t.Context(), "s", conversations.ItemListParams{Order: order, After: sdk.String(after)})
			expect.OK(t, err)
			if len(page.RawJSON()) > 3<<20 {
				t.Errorf("a page has %d bytes", len(page.RawJSON()))
			}
			for _, item := range page.Data {
				text, _, _ := strings.Cut(item.Content.OfMessageContentArray[0].Text, " x")
				got = append(got, item.Role+" "+text)
			}
			more, after = page.HasMore, page.LastID
		}
		if order == "desc" {
			slices.Reverse(got)
		}
		expect.List(t, "items, "+string(order), got, want...)
		expect.Equal(t, "pages", pages, 2)
	}
}

// An item is found without reading the conversation, and what is no item's id is refused without reading it.
func TestItemsAreFoundByTheirTurn(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	redistest.Real(t)
	r := &rig{T: t, redis: redistest.New(t)}
	r.client = turnstile.NewClient(r.redis)
	replies := &redistest.Replies{}
	r.hook = replies
	_, r.url = r.gateway()
	r.sdk = r.at(r.url)
	r.worker()
	const turns = 12 // of 1.8 MB
	for i := range turns {
		_, err := r.client.Session("s").Send(t.Context(), turnstile.Message{ID: fmt.Sprint(i), Text: fmt.Sprint(i, " ") + strings.Repeat("x", 900_000)})
		expect.OK(t, err)
		_, err = r.client.Session("s").Wait(t.Context(), fmt.Sprint(i))
		expect.OK(t, err)
	}
	var ids []string
	for after := ""; ; after = ids[len(ids)-1] {
		page, err := r.sdk.Conversations.Items.List(t.Context(), "s", conversations.ItemListParams{Order: "asc", After: sdk.String(after)})
		expect.OK(t, err)
		for _, item := range page.Data {
			ids = append(ids, item.ID)
		}
		if !page.HasMore {
			break
		}
	}
	expect.Equal(t, "items", len(ids), 2*turns)
	reads := func(what string, most int) {
		t.Helper()
		if total, largest := replies.Take(); total > most || largest > 3<<20 {
			t.Errorf("%s: %d bytes were read, at most %d at a time", what, total, largest)
		}
	}
	replies.Take()
	for _, id := range []string{ids[0], ids[turns], ids[2*turns-1]} {
		got, err := r.sdk.Conversations.Items.Get(t.Context(), "s", id, conversations.ItemGetParams{})
		expect.OK(t, err)
		expect.Equal(t, "item", got.ID, id)
		reads("an item", 10<<20) // of 22 MB: its turn, the one before it, and five entries
	}
	turn, _, _ := strings.Cut(strings.TrimPrefix(ids[1], "msg_"), "_")
	for _, id := range []string{"nope", "msg_in_nope", "msg_" + turn, "msg_" + turn + "_x", "resp_x", "msg_in_" + strings.Repeat("1", 200)} {
		_, err := r.sdk.Conversations.Items.Get(t.Context(), "s", id, conversations.ItemGetParams{})
		r.refused(err, 404, "unknown_message", "no item")
		reads(id, 2<<20)
		_, err = r.sdk.Conversations.Items.List(t.Context(), "s", conversations.ItemListParams{After: sdk.String(id)})
		r.refused(err, 400, "invalid_request", "has no item")
		reads("after "+id, 2<<20)
	}
	for _, id := range []string{"msg_0123abcd-1_0", "msg_0123abcd-9999999999999999_0", "msg_" + turn + "_7"} {
		_, err := r.sdk.Conversations.Items.Get(t.Context(), "s", id, conversations.ItemGetParams{})
		r.refused(err, 404, "unknown_message", "no item")
		reads(id, 10<<20)
	}
	for _, order := range []conversations.ItemListParamsOrder{"asc", "desc"} {
		_, err := r.sdk.Conversations.Items.List(t.Context(), "s", conversations.ItemListParams{Order: order, Limit: sdk.Int(1)})
		expect.OK(t, err)
		reads("one item, "+string(order), 8<<20)
	}
}
