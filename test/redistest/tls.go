package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TLS is a redis-server that serves only TLS clients with a certificate of its authority. It
// belongs to one test.
type TLS struct {
	*Server // without TLS, for the test itself
	*Authority

	Host string // host:port with TLS

	// Cert and Key are files of a client's certificate.
	Cert, Key string
}

// StartTLS starts a server with a certificate for 127.0.0.1 that is valid until then.
func StartTLS(t testing.TB, until time.Time) *TLS {
	t.Helper()
	needBinary(t)
	s := &TLS{Authority: NewAuthority(t)}
	cert, key := s.Issue(t, until, "127.0.0.1")
	s.Cert, s.Key = s.Issue(t, time.Now().Add(time.Hour))
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	s.Host = loopback(port)
	s.Server = StartServer(t, "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", s.CA)
	return s
}

// URL is its rediss:// URL with parameters: pairs of a name and a value.
func (s *TLS) URL(parameters ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		query.Set(parameters[i], parameters[i+1])
	}
	return (&url.URL{Scheme: "rediss", Host: s.Host, Path: "/0", RawQuery: query.Encode()}).String()
}

// Authority issues certificates.
type Authority struct {
	CA string // the file of its certificate

	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	number := serial(t)
	a.cert = &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "authority " + number.String()},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.CA, _, a.key = a.sign(t, a.cert)
	return a
}

// Issue makes a certificate for hosts, or with none for a client, and returns its files.
func (a *Authority) Issue(t testing.TB, until time.Time, hosts ...string) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "of a test"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, key, _ = a.sign(t, template)
	return cert, key
}

// sign makes a key and its certificate. The authority signs its own certificate.
func (a *Authority) sign(t testing.TB, template *x509.Certificate) (certFile, keyFile string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		path := filepath.Join(a.dir, template.SerialNumber.String()+"-"+kind[:4]+".pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("CERTIFICATE", der), write("PRIVATE KEY", secret), key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
