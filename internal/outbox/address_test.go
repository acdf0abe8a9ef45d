package outbox

import (
	"net/netip"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// yes: anywhere. own: with private set to true. no: never.
		"93.184.215.14": "yes", "2606:2800:21f:cb07:6820:80da:af6b:8b2c": "yes",
		"127.0.0.1": "own", "127.9.9.9": "own", "10.1.2.3": "own", "172.16.0.1": "own", "172.31.255.255": "own", "192.168.1.1": "own",
		"100.64.0.1": "own", "::1": "own", "fc00::1": "own", "fdff::1": "own",
		"172.32.0.1": "yes", "100.128.0.1": "yes",
		"0.0.0.0": "no", "0.1.2.3": "no", "169.254.169.254": "no", "168.63.129.16": "no", "100.100.100.200": "no", "fd00:ec2::254": "no",
		"224.0.0.1": "no", "239.1.1.1": "no", "240.0.0.1": "no", "255.255.255.255": "no", "192.0.2.1": "no", "198.18.0.1": "no",
		"::": "no", "fe80::1": "no", "fe80::1%eth0": "no", "ff02::1": "no", "2001:db8::1": "no", "2001::1": "no", "2002:7f00:1::": "no", "fec0::1": "no",
		// An address of IPv4 in one of IPv6.
		"::ffff:127.0.0.1": "own", "::ffff:10.0.0.1": "own", "::ffff:169.254.169.254": "no", "::ffff:93.184.215.14": "yes",
		"64:ff9b::7f00:1": "own", "64:ff9b::a9fe:a9fe": "no", "64:ff9b::5db8:d70e": "yes", "64:ff9b:1::1": "no", "::7f00:1": "no",
	} {
		addr := netip.MustParseAddr(text)
		got := "no"
		switch {
		case judgeAddress(addr, false) == nil:
			got = "yes"
		case judgeAddress(addr, true) == nil:
			got = "own"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if got == "yes" && judgeAddress(addr, true) != nil {
			t.Errorf("%s is refused to a private destination", text)
		}
	}
}
