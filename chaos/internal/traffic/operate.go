package traffic

import (
	"math/rand/v2"
	"time"

	"turnstile/test/harvest"
	"turnstile/test/history"
)

// operate makes a call of asynq's Inspector, which are the buttons of asynqmon, on a session at a
// random moment of its turns.
func (t *Traffic) operate(rng *rand.Rand, key string) func() {
	which, pick, lasts := rng.IntN(12), rng.Int(), time.Duration(200+rng.IntN(2000))*time.Millisecond
	queue := "session:" + key
	return func() {
		t.mu.Lock()
		ids := t.open[key]
		id := ""
		if n := min(len(ids), 5); n > 0 { // the newest: they probably wait or run
			id = ids[len(ids)-1-pick%n]
		}
		t.mu.Unlock()
		task := harvest.TaskID(key, id)
		call := func(name, id string, f func() error) {
			rec := history.Record{Kind: history.Operator, Session: key, ID: id, Name: name, Since: time.Now().UnixNano()}
			if err := f(); err != nil {
				rec.Error = err.Error()
			}
			t.log.Add(rec)
		}
		all := func(f func(string) (int, error)) func() error {
			return func() error { _, err := f(queue); return err }
		}
		i := t.inspector
		switch {
		case which == 0:
			call("pause", "", func() error { return i.PauseQueue(queue) })
			time.Sleep(lasts)
			for range 50 { // Redis may be unreachable, and a paused session would wait forever
				err := i.UnpauseQueue(queue)
				call("unpause", "", func() error { return err })
				if err == nil || !t.paused(queue) {
					return
				}
				time.Sleep(time.Second)
			}
		case which == 1:
			call("archive all", "", all(i.ArchiveAllPendingTasks))
		case which == 2:
			call("run all", "", all(i.RunAllArchivedTasks))
		case which == 3:
			call("delete all archived", "", all(i.DeleteAllArchivedTasks))
		case which == 4:
			call("run scheduled", "", all(i.RunAllScheduledTasks))
		case id == "":
		case which <= 6:
			call("archive", id, func() error { return i.ArchiveTask(queue, task) })
		case which <= 8:
			call("run", id, func() error { return i.RunTask(queue, task) })
		case which <= 9:
			call("delete", id, func() error { return i.DeleteTask(queue, task) })
		default:
			call("cancel", id, func() error { return i.CancelProcessing(task) })
		}
	}
}

func (t *Traffic) paused(queue string) bool {
	info, err := t.inspector.GetQueueInfo(queue)
	return err != nil || info.Paused
}
