package worker_test

import (
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// The text that an agent reads in a turn.

func TestB31_TheNoteStandsAboveTheText(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(r *rig){
		"drained": func(r *rig) { r.interruptTurn("m1", worker.ReasonRestart, "half") },
		"dead":    func(r *rig) { r.dies("half") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			const words = " what\n\nnow?\n"
			r.say("m1", words)
			cut(r)
			s := newStage()
			r.worker(s)
			a := s.next(t, "m1")
			if !strings.HasPrefix(a.Note, "[System note:") || strings.Count(a.Text(), "[System note:") != 1 {
				t.Errorf("note %q", a.Note)
			}
			expect.Equal(t, "what the agent reads", a.Text(), a.Note+"\n\n"+words)
			a.reply("ok")
			r.ends("m1", session.StatusDone)
		})
	}
}

func TestB35_NothingToResume(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"blanks": " hi\r\n\t", "own note": "[System note: mine]\n\n", "odd characters": "\x01\u2028ä\U0001F600</x>\\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := newStage()
			r.worker(s)
			for _, id := range []string{"first", "after-a-reply", "once-interrupted"} {
				if id == "once-interrupted" { // its mark is gone, but the count is not
					expect.OK(t, r.rdb.HSet(r.ctx, r.k.Resume(), "interruptions", 2, "fence", 7, "reason", "crash").Err())
				}
				r.say(id, text)
				a := s.next(t, id)
				expect.Equal(t, "note "+id, a.Note, "")
				expect.Equal(t, "what the agent reads "+id, a.Text(), text)
				a.reply("ok")
				r.ends(id, session.StatusDone)
			}
		})
	}
}
