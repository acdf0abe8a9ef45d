package acl_test

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	_ "turnstile/internal/protocol"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler)) // go-redis logs messages about sentinels
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// command matches a command in a script's text.
var command = regexp.MustCompile(`call\(\s*'([A-Z]+)'(?:, '([A-Z]+)')?`)

// parents are the commands with a subcommand in their rules.
var parents = []string{"MEMORY"}

// who lists the users that call each script. A user may run every command in a script's text, also
// those for a rare case that no test happens to run.
var who = map[string][]string{
	acl.Sender:   {"accept", "stop", "cancel", "once", "rotate", "title", "configure", "undo", "rerun", "decide", "transcript_page", "events_page", "events_after", "admit"},
	acl.Operator: {"redrive", "erase", "discard", "rerun", "look", "transcript_page", "texts"},
}

func TestEveryScriptsCommandsAreAllowed(t *testing.T) {
	t.Parallel()
	rules := acl.Rules(t)
	for _, s := range script.All() {
		users := []string{}
		for user, names := range who {
			if slices.Contains(names, s.Name) {
				users = append(users, user)
			}
		}
		if len(users) > 0 {
			users = append(users, acl.Gateway) // the gateway makes the calls of both
		}
		if len(users) == 0 || slices.Contains([]string{"title", "transcript_page", "look"}, s.Name) {
			users = append(users, acl.Worker)
		}
		for _, user := range users {
			for _, match := range command.FindAllStringSubmatch(s.Source, -1) {
				word := "+" + strings.ToLower(match[1])
				if slices.Contains(parents, match[1]) {
					word += "|" + strings.ToLower(match[2])
				}
				if !slices.Contains(rules[user], word) {
					t.Errorf("%s calls %s, whose rules have no %s", user, s.Name, word)
				}
			}
		}
	}
}

// A sender's rights on the counts of all senders are those that its calls need, and no more.
func TestSendersCommandsOnTheCounts(t *testing.T) {
	t.Parallel()
	want := []string{"+eval", "+evalsha"}
	for _, s := range script.All() {
		if s.Name == "admit" {
			for _, match := range command.FindAllStringSubmatch(s.Source, -1) {
				if name := "+" + strings.ToLower(match[1]); name != "+time" { // it has no key
					want = append(want, name)
				}
			}
		}
	}
	slices.Sort(want)
	for _, user := range []string{acl.Sender, acl.TenantSender, acl.Gateway} {
		rules := acl.Rules(t)[user]
		i := slices.IndexFunc(rules, func(word string) bool { return strings.HasPrefix(word, "(~turnstile:waiting ") })
		if i < 0 {
			t.Errorf("%s has no rule for the counts: %q", user, rules)
			continue
		}
		got := strings.Fields(strings.Trim(rules[i], "()"))[1:]
		slices.Sort(got)
		expect.List(t, user, got, slices.Compact(want)...)
	}
}

// A tenant's sender has a sender's rules, except for the keys of its sessions.
func TestTenantsRules(t *testing.T) {
	t.Parallel()
	rules := acl.Rules(t)
	var want []string
	for _, word := range rules[acl.Sender] {
		if strings.HasPrefix(word, ">") {
			word = ">ACME-PASSWORD"
		}
		want = append(want, strings.ReplaceAll(word, "{session:*}", "{session:"+acl.Tenant+"*}"))
	}
	if got := rules[acl.TenantSender]; !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}
