package redisconn

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func TestTLSWithCertificates(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, time.Now().Add(time.Hour))
	whole := s.URL("tls_ca", s.CA, "tls_cert", s.Cert, "tls_key", s.Key)
	roundTrip(t, open(t, whole))

	soon := time.Now().Add(time.Hour)
	other := redistest.NewAuthority(t)
	foreignCert, foreignKey := other.Issue(t, soon)
	old := redistest.StartTLS(t, time.Now().Add(-time.Hour))
	for what, c := range map[string]struct{ url, says string }{
		"no CA":                    {s.URL("tls_cert", s.Cert, "tls_key", s.Key), "tls_ca="},
		"another CA":               {s.URL("tls_ca", other.CA, "tls_cert", s.Cert, "tls_key", s.Key), "tls_ca="},
		"no client certificate":    {s.URL("tls_ca", s.CA), "client certificate"},
		"a foreign one":            {s.URL("tls_ca", s.CA, "tls_cert", foreignCert, "tls_key", foreignKey), "client certificate"},
		"another name":             {s.URL("tls_ca", s.CA, "tls_cert", s.Cert, "tls_key", s.Key, "tls_server_name", "redis.example"), "tls_server_name="},
		"an expired server":        {old.URL("tls_ca", old.CA, "tls_cert", old.Cert, "tls_key", old.Key), "certificate of Redis has expired"},
		"no TLS where there is":    {"redis://" + s.Host, "TLS (rediss://)"},
		"no TLS by sentinel's URL": {"redis-sentinel://" + s.Host + "?master=m", "no Redis Sentinel responds"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			wantError(t, c.url, c.says)
		})
	}
}

// A renewed certificate is used for the next connection.
func TestRenewedClientCertificate(t *testing.T) {
	t.Parallel()
	s := redistest.StartTLS(t, time.Now().Add(time.Hour))
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	install := func(fromCert, fromKey string) {
		t.Helper()
		for from, to := range map[string]string{fromCert: cert, fromKey: key} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	install(redistest.NewAuthority(t).Issue(t, time.Now().Add(time.Hour)))
	client := open(t, s.URL("tls_ca", s.CA, "tls_cert", cert, "tls_key", key))
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a foreign certificate is accepted")
	}
	install(s.Cert, s.Key)
	roundTrip(t, client)
}

// Problems with certificates are reported before any connection, in one line that names the file.
func TestCertificatesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	cert, key := a.Issue(t, time.Now().Add(time.Hour))
	_, otherKey := a.Issue(t, time.Now().Add(time.Hour))
	expired, expiredKey := a.Issue(t, time.Now().Add(-time.Hour))
	gone := filepath.Join(t.TempDir(), "gone")
	pair := func(cert, key string) string { return "?tls_cert=" + cert + "&tls_key=" + key }
	for raw, says := range map[string]string{
		"rediss://h?tls_ca=" + gone:                           gone + ", which cannot be read",
		"rediss://h?tls_ca=" + key:                            "no certificate",
		"rediss://h?tls_ca=":                                  "tls_ca= is empty",
		"rediss://h?tls_ca=" + a.CA + "&tls_ca=x":             "twice",
		"rediss://h?tls_cert=" + cert:                         "needs tls_cert= and tls_key=",
		"rediss://h?tls_key=" + key:                           "needs tls_cert= and tls_key=",
		"rediss://h" + pair(gone, key):                        gone,
		"rediss://h" + pair(cert, gone):                       gone,
		"rediss://h" + pair(cert, otherKey):                   "no pair",
		"rediss://h" + pair(expired, expiredKey):              "expired on",
		"redis://h?tls_ca=" + a.CA:                            "write it as rediss://",
		"redis-sentinel://h?master=m&tls_ca=" + a.CA:          "add tls=true",
		"redis-cluster://h?tls=false&tls_server_name=x":       "add tls=true",
		"redis-socket:///run/redis.sock?tls_ca=" + a.CA:       "does not know",
		"redis-cluster://:hunter2@h?tls=true&tls_ca=" + gone:  gone,
		"redis-sentinel://:hunter2@h?master=m&tls_ca=/hunter": "tls=true",
	} {
		_, err := Open(raw)
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), says) || strings.Contains(Explain(err), "\n") {
			t.Errorf("%s: %v, want one line with %q", raw, err, says)
		}
		if ValidateURL(raw) == nil {
			t.Errorf("%s is valid", raw)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in %v", raw, err)
		}
	}
}

// Every connection uses the certificates, to sentinels and nodes as well.
func TestCertificatesOfEveryScheme(t *testing.T) {
	t.Parallel()
	a := redistest.NewAuthority(t)
	cert, key := a.Issue(t, time.Now().Add(time.Hour))
	query := "tls_ca=" + a.CA + "&tls_cert=" + cert + "&tls_key=" + key + "&tls_server_name=redis.example"
	check := func(scheme string, c *tls.Config) {
		t.Helper()
		if c == nil || c.RootCAs == nil || c.GetClientCertificate == nil || c.ServerName != "redis.example" || c.MinVersion != tls.VersionTLS12 || c.InsecureSkipVerify {
			t.Errorf("%s: %+v", scheme, c)
		}
	}
	for _, raw := range []string{"rediss://h?" + query, "redis-sentinel://h?master=m&tls=true&" + query, "redis-cluster://h?tls=true&" + query} {
		switch c := open(t, raw).(type) {
		case *redis.Client:
			check(raw, c.Options().TLSConfig)
		case *redis.ClusterClient:
			check(raw, c.Options().TLSConfig)
		}
	}
	target, err := read("redis-sentinel://h?master=m&tls=true&" + query)
	if err != nil {
		t.Fatal(err)
	}
	check("to sentinels", target.config)
	if text := Redacted("rediss://:secret@h?tls_ca=/ca.pem"); text != "rediss://:***@h:6379/0?tls_ca=%2Fca.pem" {
		t.Error(text)
	}
}
