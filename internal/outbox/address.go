package outbox

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errAddress is wrapped by every refusal to connect to an address.
var errAddress = errors.New("the address is not allowed")

// nat64 translates addresses of IPv4, which are their last 4 bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// global6 has all public addresses of IPv6. The others are loopback, link-local, unique local,
// multicast, IPv4-compatible or reserved.
var global6 = netip.MustParsePrefix("2000::/3")

// private are addresses of an operator's network.
var private = prefixes(
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
	"100.64.0.0/10", // carrier-grade NAT
	"::1/128", "fc00::/7",
)

// reserved are addresses that no receiver has, not even in an operator's network.
var reserved = prefixes(
	"0.0.0.0/8",
	"169.254.0.0/16", // link-local, with the clouds' metadata
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", // Teredo, documentation, 6to4
	"fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200/32", "168.63.129.16/32", // clouds' metadata elsewhere
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func within(addr netip.Addr, all []netip.Prefix) bool {
	for _, p := range all {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// judgeAddress returns an error unless deliveries may go to addr.
func judgeAddress(addr netip.Addr, privateToo bool) error {
	given := addr
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case within(addr, reserved):
		return fmt.Errorf("%w: %s is reserved", errAddress, given)
	case within(addr, private):
		if privateToo {
			return nil
		}
		return fmt.Errorf("%w: %s is private; set private to true in the destination if it is yours", errAddress, given)
	case addr.Is6() && !global6.Contains(addr):
		return fmt.Errorf("%w: %s is not public", errAddress, given)
	}
	return nil
}

// checkAddress is the Control of a net.Dialer. It checks the address of the connection, after DNS: a
// name cannot resolve to one address for the check and to another for the connection.
func checkAddress(privateToo bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", errAddress, err)
		}
		return judgeAddress(ap.Addr(), privateToo)
	}
}
