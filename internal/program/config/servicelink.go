package config

import "regexp"

// Kubernetes sets variables for every service of a namespace in each of its containers. Their
// names begin with the service's: those of a service called turnstile or turnstile-redis have our
// prefix. Their endings distinguish them from misspelt settings. A setting could also end in
// _PORT, so there the value decides, too.
var (
	serviceLink  = regexp.MustCompile(`^TURNSTILE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort  = regexp.MustCompile(`^TURNSTILE_([A-Z0-9_]+_)?PORT$`)
	serviceValue = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isServiceLink reports whether Kubernetes set a variable, and not a user.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || servicePort.MatchString(name) && serviceValue.MatchString(value)
}
