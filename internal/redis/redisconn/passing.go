package redisconn

import (
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
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

// foreignWords are in the errors of go-redis and of TLS about an answer that no Redis gives.
var foreignWords = []string{
	"redis: can't parse ", "redis: invalid reply: ", "redis: unexpected type=", "redis: got ", "redis: RESP3 map key ", "tls: ",
}

// foreign reports whether what answered is not a Redis, for example a proxy with an HTTP error.
func foreign(err error) bool {
	var answer redis.Error
	if err == nil || errors.As(err, &answer) {
		return false
	}
	return errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) || // of a length
		slices.ContainsFunc(foreignWords, func(word string) bool { return strings.Contains(err.Error(), word) })
}

// MayPass reports whether an error may go away by itself: one of the network, of the client's
// pool, of a Redis that is temporarily unavailable, or of another service in its place.
// Otherwise Redis refused the request and would refuse it again.
func MayPass(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, errUnresolved) || foreign(err) {
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

// RefusesWrites reports whether Redis responds and can be read, but stores nothing: its memory or its disk is full,
// it lacks replicas, or it is one itself. With a full disk it refuses PING, too.
func RefusesWrites(err error) bool {
	return slices.ContainsFunc([]string{"OOM ", "MISCONF ", "NOREPLICAS ", "READONLY "}, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// WrongType reports whether a command met a key of another type than its own.
func WrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// Failure returns the first error of a pipeline that concerns more than the key of its command: it leaves out
// missing keys and fields, and keys of a wrong type. A broken session must not hide the others.
func Failure(cmds []redis.Cmder, err error) error {
	if len(cmds) == 0 {
		return err
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) && !WrongType(err) {
			return err
		}
	}
	return nil
}

// ErrUnsure is wrapped by the error of a command if an earlier attempt may have been carried out,
// even if the last one was not.
var ErrUnsure = errors.New("an earlier attempt may have been carried out")

// refusals are the prefixes of Redis' errors that precede any change: a script fails with one of
// them before its first write.
var refusals = []string{
	"READONLY ", "NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ",
	"NOREPLICAS ", "MISCONF ", "DENIED ", "ERR max number of clients reached",
	"BUSY ", "NOSCRIPT ", "MOVED ", "ASK ", "TRYAGAIN ",
}

// Unchanged reports whether a command with this error changed nothing: Redis refused it, or no
// connection could be opened to send it. It searches the text, because asynq passes on only the
// text of Redis' error, after its own.
func Unchanged(err error) bool {
	if err == nil || errors.Is(err, ErrUnsure) {
		return false
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errUnresolved) {
		return true
	}
	text := ": " + err.Error()
	return slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(text, ": "+r) })
}
