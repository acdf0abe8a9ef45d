package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"time"
)

// tlsParameters are a URL's parameters about certificates.
var tlsParameters = []string{"tls_ca", "tls_cert", "tls_key", "tls_server_name"}

// tlsFiles are the values of tlsParameters.
type tlsFiles struct {
	ca, cert, key string // files in PEM
	serverName    string
}

func (f *tlsFiles) set(name, value string) error {
	if value == "" {
		return malformed("%s= is empty; leave it out", name)
	}
	switch name {
	case "tls_ca":
		f.ca = value
	case "tls_cert":
		f.cert = value
	case "tls_key":
		f.key = value
	case "tls_server_name":
		f.serverName = value
	}
	return nil
}

// addTo adds the files' names to a query: a path is not a secret.
func (f *tlsFiles) addTo(query url.Values) {
	for name, value := range map[string]string{"tls_ca": f.ca, "tls_cert": f.cert, "tls_key": f.key, "tls_server_name": f.serverName} {
		if value != "" {
			query.Set(name, value)
		}
	}
}

// checkTLS checks the parameters against each other.
func (t *target) checkTLS() error {
	switch {
	case !t.tls && t.files != tlsFiles{}:
		return malformed("it names certificates but no TLS; add tls=true")
	case (t.files.cert == "") != (t.files.key == ""):
		return malformed("a client certificate needs tls_cert= and tls_key=")
	}
	return nil
}

// config reads the files. The error names the file and wraps ErrURL.
func (f *tlsFiles) config() (*tls.Config, error) {
	// An empty ServerName makes each dial fill in its own host.
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, malformed("tls_ca= names %s, which cannot be read: %v", f.ca, reason(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, malformed("tls_ca= names %s, which has no certificate in PEM", f.ca)
		}
	}
	if f.cert == "" {
		return c, nil
	}
	own, err := f.certificate()
	if err != nil {
		return nil, err
	}
	if end := own.Leaf.NotAfter; time.Now().After(end) {
		return nil, malformed("tls_cert= names %s, which expired on %s: renew it", f.cert, end.UTC().Format(time.DateOnly))
	}
	// The files are read for each connection, so that a renewed certificate needs no restart.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.certificate() }
	return c, nil
}

func (f *tlsFiles) certificate() (*tls.Certificate, error) {
	for name, file := range map[string]string{"tls_cert": f.cert, "tls_key": f.key} {
		if _, err := os.ReadFile(file); err != nil {
			return nil, malformed("%s= names %s, which cannot be read: %v", name, file, reason(err))
		}
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, malformed("tls_cert= and tls_key= name %s and %s, which are no pair in PEM: %v", f.cert, f.key, err)
	}
	return &pair, nil
}

// reason returns a file's error without its path.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
