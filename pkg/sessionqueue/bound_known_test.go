package sessionqueue_test

// unbounded are the situations in which a script still does more the more there is,
// each with its number in issue 10. Whoever mends one takes it out.
var unbounded = map[string]string{
	"ring/dropping the oldest (a long line)": "1: drops all over the cap, LREM from the wrong end",
	"ring/dropping the oldest (large texts)": "1",
	"ring/drops the oldest of a long line":   "1",
	"ring/drops the oldest of large texts":   "1",
	"ring/summarizes a long line":            "1",
	"ring/summarizes with a long note":       "5",
	"ring/again, of the oldest":              "not named: LPOS from the newest for a repetition",
	"claim/with a long note":                 "5",
	"claim/with a long note, not plain":      "5",
	"finish/told of a long note":             "5",
}
