package admin_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"turnstile"

	"turnstile/pkg/admin"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A list for a user who may see some sessions names no others, neither in a page nor in its cursor,
// and ends.
func TestListOnly(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 1500 {
		expect.OK(t, b.Client.Session(fmt.Sprintf("others:%04d", i)).SetTitle(b.Ctx, "x"))
	}
	var mine []string
	for i := range 5 {
		key := fmt.Sprintf("others:%04d:mine", i*300)
		expect.OK(t, b.Client.Session(key).SetTitle(b.Ctx, "x"))
		mine = append(mine, key)
	}
	_, err := b.Client.Session(mine[4]).Send(b.Ctx, turnstile.Message{Text: "x"})
	expect.OK(t, err)
	only := func(key string) bool { return strings.HasSuffix(key, ":mine") }
	for _, q := range []admin.Query{{}, {Limit: 2}, {Limit: 1, Prefix: "others:"}, {State: admin.StateIdle, Limit: 3}, {State: admin.StateWaiting}, {Prefix: "none"}} {
		q.Only = only
		var got []string
		for {
			page, err := b.Client.Page(b.Ctx, q)
			expect.OK(t, err)
			for _, s := range page.Sessions {
				got = append(got, s.Session)
			}
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
			text, err := base64.RawURLEncoding.DecodeString(page.Next)
			expect.OK(t, err)
			if !only(string(text)) {
				t.Errorf("the cursor is %s", text)
			}
		}
		want := map[string][]string{"": mine, "idle": mine[:4], "waiting": mine[4:]}[string(q.State)]
		if q.Prefix == "none" {
			want = nil
		}
		expect.List(t, fmt.Sprintf("%+v", q.State), got, want...)
	}
}
