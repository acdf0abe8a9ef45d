// Package redisconn opens the Redis that a URL names: one server, a unix socket, a failover group
// behind Redis Sentinel, or a cluster. It also checks that this Redis is fit for use, and
// explains errors of Redis in one line.
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]
//	rediss://[USER:PASSWORD@]HOST[:PORT][/DB]                      with TLS
//	redis-socket://[USER:PASSWORD@]/PATH[?db=DB]
//	redis-sentinel://[USER:PASSWORD@]HOST[:PORT],...[/DB]?master=NAME
//	redis-cluster://[USER:PASSWORD@]HOST[:PORT],...
//
// With redis-sentinel:// user and password are those of the data servers; those of the sentinels
// go into sentinel_username= and sentinel_password=. For redis-sentinel:// and redis-cluster://
// tls=true turns on TLS, 1.2 or newer. The characters / ? # @ : % in a user or password must be
// percent-encoded.
//
// Further parameters with TLS:
//
//	tls_ca=FILE            the roots that servers are checked against. Defaults to the
//	                       system's (on Unix SSL_CERT_FILE names others)
//	tls_cert=FILE          the client's certificate, with those of its issuers, and
//	tls_key=FILE           its key; read anew for each connection
//	tls_server_name=NAME   the name that servers' certificates must have. Defaults to
//	                       the host that is connected to
//
// No error and no text of this package contains a password. Errors about a URL repeat only its
// scheme and the names of those files.
package redisconn
