package sessionqueue_test

// unbounded are the situations in which a script still does more the more there is,
// each with its number in issue 10. Whoever mends one takes it out.
var unbounded = map[string]string{}
