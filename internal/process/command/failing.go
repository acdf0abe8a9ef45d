package command

import "regexp"

// MostFailures is how often in a row the turns of a program's session may fail before a new session begins: a vendor
// may refuse what the session has by now, and then refuses it each time.
const MostFailures = 2

// FreshSession is the notice of a session that begins for that reason.
const FreshSession = "The agent's own session failed several times. A new one begins, and is given what was said before."

// Passing reports whether an error is of a kind that its session does not cause: no login, no credit, no network, too
// many requests.
func Passing(err error) bool { return passing.MatchString(err.Error()) }

var passing = regexp.MustCompile(`(?i)\b(401|402|403|404|408|429|5\d\d)\b|rate.?limit|usage.?limit|overload|unavailable|quota|credit|billing|authen|api.?key|log(ged)? ?in|timed? ?out|connect|network`)
