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
// redis-sentinel:// and redis-cluster:// tls=true turns TLS on, 1.2 or newer. A
// user or password with one of / ? # @ : % in it must be percent-encoded.
//
// With TLS these may follow the ? as well:
//
//	tls_ca=FILE            the roots that servers are checked against. Defaults to the
//	                       system's (on Unix SSL_CERT_FILE names others)
//	tls_cert=FILE          the client's certificate, with those of its issuers, and
//	tls_key=FILE           its key; read anew for each connection
//	tls_server_name=NAME   the name that servers' certificates must have. Defaults to
//	                       the host that is connected to
//
// No error and no text of this package contains a password: errors about a URL
// repeat nothing of it but its scheme and the names of such files.
package redisconn
