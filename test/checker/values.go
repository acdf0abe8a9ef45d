package checker

import "turnstile/test/history"

// values: a wait ends in all runs of its turn as its program saw. Its secret names it.
func (r *run) values() {
	given, waited := map[string]bool{}, map[string]*history.Record{}
	for _, rec := range r.records {
		if rec.Kind == history.Given {
			given[rec.Sum] = true
		}
	}
	for i := range r.records {
		rec := &r.records[i]
		if rec.Kind != history.Waited {
			continue
		}
		before := waited[rec.Sum]
		switch waited[rec.Sum] = rec; {
		case before != nil && before.Done != rec.Done:
			r.find(Values, rec.Session, rec.ID, "a wait ended with a value: %t, and again in turn %s: %t", before.Done, rec.Turn, rec.Done)
		case rec.Done && rec.Text != string(history.ValueOf(rec.Sum)):
			r.find(Values, rec.Session, rec.ID, "turn %s got another value: %s", rec.Turn, rec.Text)
		case given[rec.Sum] && !rec.Done:
			r.find(Values, rec.Session, rec.ID, "a value was given, and turn %s got none", rec.Turn)
		}
	}
}
