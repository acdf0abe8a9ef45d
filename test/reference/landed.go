package reference

// Landed names what the scripts do otherwise than is intended, as far as it is known.
// Each field is a hole of issue 10 that the model has to share until it is mended: set
// it to false together with the mending. With all of them false the model is what is
// intended, and this type can go.
type Landed struct {
	// NotesOutlive (5): what a full line has dropped is told to the next turn also
	// after /stop, /new and a suspension, and however much it is.
	NotesOutlive bool

	// FollowUpsStay (14): what is told of a follow-up stays when an operator has
	// deleted, archived or run its message.
	FollowUpsStay bool
}

// AsLanded is what main has now.
var AsLanded = Landed{
	NotesOutlive:  true,
	FollowUpsStay: true,
}
