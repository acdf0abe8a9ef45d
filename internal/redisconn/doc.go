// Package redisconn opens the Redis that one URL names, whatever its shape: one
// server, a unix socket, a failover group behind Redis Sentinel, or a cluster.
// It also judges whether that Redis is fit for use and puts Redis' errors into
// one clear line.
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	rediss://[USER:PASSWORD@]HOST[:PORT][/DB]                      with TLS
//	redis-socket://[USER:PASSWORD@]/PATH[?db=DB]
//	redis-sentinel://[USER:PASSWORD@]HOST[:PORT],...[/DB]?master=NAME
//	redis-cluster://[USER:PASSWORD@]HOST[:PORT],...
//
// With redis-sentinel:// user and password are those of the data servers; the
// sentinels' own go into sentinel_username= and sentinel_password=. For
// redis-sentinel:// and redis-cluster:// tls=true turns TLS on. Certificates are
// checked against the system's roots (on Unix SSL_CERT_FILE names others). A
// user or password with one of / ? # @ : % in it must be percent-encoded.
//
// No error and no text of this package contains a password: errors about a URL
// repeat nothing of it but its scheme.
package redisconn
