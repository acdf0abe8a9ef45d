package redisconn

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// passes are the answers of a Redis that starts, fails over, migrates a slot, is at
// its limit of clients or takes nothing for a while.
var passes = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ", "BUSY ", "MISCONF", "NOREPLICAS",
	"max number of clients reached", // behind ERR, which HasErrorPrefix takes off
}

// MayPass reports whether an error may go away by itself: one of the network, of the
// client's pool, or of a Redis that cannot answer now. False: Redis has refused what
// it was asked, and will again.
func MayPass(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) {
		return true
	}
	if slices.ContainsFunc(passes, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }) {
		return true
	}
	// A script that met a key of a slot which was just moved.
	return err != nil && strings.Contains(err.Error(), "non local key")
}

// Refused reports whether Redis itself has said no, and will again.
func Refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !MayPass(err)
}
