package session

// NoLimit as a number or a duration of a Config means that there is no limit, where the field allows it.
const NoLimit = -1
