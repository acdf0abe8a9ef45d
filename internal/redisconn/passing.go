package redisconn

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// passes are the errors of a Redis that starts, fails over, migrates a slot, has reached its
// limit of clients or refuses writes for a while.
var passes = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ", "BUSY ", "MISCONF", "NOREPLICAS",
	"UNBLOCKED",                     // to a blocked read, when the server becomes a replica
	"max number of clients reached", // after ERR, which HasErrorPrefix removes
}

// MayPass reports whether an error may go away by itself: one of the network, of the client's
// pool, or of a Redis that is temporarily unavailable. Otherwise Redis refused the request and
// would refuse it again.
func MayPass(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) {
		return true
	}
	if slices.ContainsFunc(passes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }) {
		return true
	}
	// A script touched a key of a slot that had just moved.
	return err != nil && strings.Contains(err.Error(), "non local key")
}

// Refused reports whether Redis itself refused the request and would refuse it again.
func Refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !MayPass(err)
}
