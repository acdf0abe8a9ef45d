package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

const noPermission = "Redis does not permit this user a command or key that Turnstile needs: see docs/security.md for its ACL"

// advice maps a word in an error of Redis to its meaning and the remedy. The word may be anywhere
// in the text, because asynq wraps Redis' errors.
var advice = []struct{ word, text string }{
	{"WRONGPASS ", "Redis refuses the user or password: correct them in REDIS_URL"},
	{"NOAUTH ", "Redis wants a password: put it into REDIS_URL as redis://:PASSWORD@HOST:PORT/DB"},
	{"without any password configured", "Redis has no password set but REDIS_URL has one: leave it out"},
	{"NOPERM ", noPermission},
	{"The user executing the script can't", noPermission}, // in a script, 7.0
	{"ACL failure in script", noPermission},               // in a script, 8.0
	{"DENIED Redis is running in protected mode", "Redis is in protected mode and takes no remote clients: set a password or bind it"},
	{"READONLY ", "Redis is a read-only replica: point REDIS_URL at the master, or use redis-sentinel://"},
	{"OOM ", "Redis is out of memory (maxmemory) and stores nothing more: raise maxmemory or free some"},
	{"LOADING ", "Redis is still loading its data: try again in a moment"},
	{"CLUSTERDOWN ", "the Redis cluster is down: some slots have no master; see CLUSTER INFO"},
	{"MASTERDOWN ", "Redis lost its master: see INFO replication"},
	{"NOREPLICAS ", "Redis has fewer replicas in sync than min-replicas-to-write asks for, and takes no writes"},
	{"MISCONF ", "Redis cannot save its data to disk and takes no writes: see its log for why (disk full?)"},
	{"max number of clients reached", "Redis has no connection left: raise its maxclients or run fewer workers"},
	{"DB index is out of range", "Redis has no database of that number: use a lower one in REDIS_URL or raise its setting databases"},
	{"cluster support disabled", "Redis is no cluster: use redis:// in REDIS_URL"},
	{"SELECT is not allowed in cluster mode", "Redis is a cluster: use redis-cluster:// in REDIS_URL"},
	{"MOVED ", "Redis is a cluster: use redis-cluster:// in REDIS_URL"},
	{"tls: certificate required", "Redis wants a client certificate: add tls_cert= and tls_key= to REDIS_URL"},
	{"remote error: tls: expired certificate", "the client certificate has expired: renew what tls_cert= in REDIS_URL names"},
	{"remote error: tls: ", "Redis does not accept this client's TLS or its client certificate: see tls_cert= in REDIS_URL, and Redis' own tls-ca-cert-file"},
	{"all sentinels specified in configuration are unreachable", "no Redis Sentinel responds, or none knows the master of that name: check hosts and master= in REDIS_URL"},
}

// Explain describes an error of a Redis client and its remedy in one line. For an unknown error it
// returns the error's text, on one line.
func Explain(err error) string {
	if err == nil {
		return ""
	}
	text := oneLine(err.Error())
	if errors.Is(err, ErrURL) || errors.Is(err, ErrTooOld) ||
		errors.Is(err, ErrReplica) || errors.Is(err, ErrScheme) || errors.Is(err, ErrRights) {
		return text
	}
	for _, a := range advice {
		if strings.Contains(text, a.word) {
			return a.text + " (" + text + ")"
		}
	}
	if meaning := network(err); meaning != "" {
		return fmt.Sprintf("%s (%.300s)", meaning, text) // another service's answer may be long
	}
	return text
}

// network explains errors of the connection.
func network(err error) string {
	var (
		expired x509.CertificateInvalidError
		dns     *net.DNSError
		op      *net.OpError
		timeout net.Error
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid *tls.CertificateVerificationError
	)
	where := "Redis"
	if errors.As(err, &op) && op.Addr != nil {
		where = "Redis at " + op.Addr.String()
	}
	switch {
	case errors.Is(err, errUnresolved):
		return "the name of the Redis host was not resolved in time: check this machine's name server"
	case errors.As(err, &dns) && !dns.IsNotFound:
		return "the name of the Redis host " + dns.Name + " cannot be resolved: check this machine's name server"
	case errors.As(err, &dns):
		return "the Redis host " + dns.Name + " is not found: check REDIS_URL"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "no file descriptor is left for Redis: raise the process's limit (ulimit -n, LimitNOFILE=)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return where + " refuses the connection: is it running, and is REDIS_URL right?"
	case errors.Is(err, os.ErrNotExist):
		return where + " has no socket there: is it running, and is REDIS_URL right?"
	case errors.Is(err, os.ErrPermission):
		return where + " may not be opened by this user: see the socket's permissions"
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		return "the certificate of Redis has expired, or is not valid yet: renew it, or set this machine's clock"
	case errors.As(err, &name):
		return "the certificate of Redis is for another host: tls_server_name= in REDIS_URL says which name it is to have"
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return "the certificate of Redis is not accepted: tls_ca= in REDIS_URL, or SSL_CERT_FILE, names the roots to trust"
	case errors.Is(err, redis.ErrPoolTimeout):
		return "no connection to Redis got free in time: it is slow or its client's pool too small"
	case errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return where + " does not respond in time: is it overloaded, stopped or behind a firewall (with rediss://: does it speak TLS)?"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return where + " closed the connection: did it end, or does it want TLS (rediss://) or a client certificate (tls_cert= in REDIS_URL)?"
	case op != nil:
		return where + " is unreachable: is it running, and is REDIS_URL right?"
	case foreign(err):
		return "another service replies in Redis' place: does REDIS_URL name a proxy or another service, or TLS (rediss://) where there is none?"
	}
	return ""
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
