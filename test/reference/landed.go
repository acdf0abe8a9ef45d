package reference

// Landed names what the scripts do otherwise than is intended, as far as it is known.
// Each field is a hole of issue 10 that the model has to share until it is mended: set
// it to false together with the mending. With all of them false the model is what is
// intended, and this type can go.
type Landed struct {
	// FollowUpsStay (14): what is told of a follow-up stays when an operator has
	// deleted, archived or run its message.
	FollowUpsStay bool
}

// AsLanded is what main has now.
var AsLanded = Landed{
	FollowUpsStay: true,
}
