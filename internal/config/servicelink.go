package config

import "regexp"

// Kubernetes tells every container of every service in its namespace, by
// variables that begin with the service's name: of one called turnstile, or
// turnstile-redis, they have our prefix. They are told from typing errors by
// their endings, and the one whose ending a setting might have by its value too.
var (
	serviceLink  = regexp.MustCompile(`^TURNSTILE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort  = regexp.MustCompile(`^TURNSTILE_([A-Z0-9_]+_)?PORT$`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isServiceLink tells that a variable was set by Kubernetes, not by a user.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || servicePort.MatchString(name) && serviceValue.MatchString(value)
}
