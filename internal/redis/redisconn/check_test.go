package redisconn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func open(t *testing.T, url string, opts ...Option) redis.UniversalClient {
	t.Helper()
	client, err := Open(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func roundTrip(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Fatalf("read back %q, %v", got, err)
	}
}

// wantError checks that Check fails, the text of Explain, and that the error is one of kinds.
func wantError(t *testing.T, url, explained string, kinds ...error) {
	t.Helper()
	_, err := Check(t.Context(), open(t, url))
	if text := Explain(err); err == nil || !strings.Contains(text, explained) || strings.Contains(text, "hunter2") {
		t.Fatalf("%s: %v, explained as %q; want %q in it", Redacted(url), err, text, explained)
	}
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", Redacted(url), err, kind)
		}
	}
}

func TestCheckOneServer(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--appendonly", "yes", "--databases", "4")
	client := open(t, s.URL())
	roundTrip(t, client)

	config := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(hints ...string) {
		t.Helper()
		warnings, err := Check(t.Context(), client)
		if err != nil || len(warnings) != len(hints) {
			t.Fatalf("warnings %q, %v; want %q", warnings, err, hints)
		}
		for i, hint := range hints {
			if !strings.Contains(warnings[i], hint) {
				t.Errorf("warning %q, want %q in it", warnings[i], hint)
			}
		}
	}
	want()
	config("maxmemory-policy", "allkeys-lru")
	want("noeviction")
	config("appendonly", "no")
	config("save", "3600 1")
	want("noeviction")
	config("save", "")
	want("noeviction", "appendonly yes")

	wantError(t, "redis://"+s.Addr()+"/4", "no database of that number")
}

// A Redis that skipped a part of its append-only file, because its default user lacks rights, says so only in its log.
func TestCheckOfASkippedReplay(t *testing.T) {
	t.Parallel()
	for rights, want := range map[string]int{"": 1, "~* &* +@all": 0} {
		file := filepath.Join(t.TempDir(), "users.acl")
		if err := os.WriteFile(file, []byte("user default reset off "+rights+"\nuser w on >w ~* &* +@all\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := redistest.StartServerAs(t, url.UserPassword("w", "w"), "--aclfile", file, "--appendonly", "yes", "--appendfsync", "always")
		client := open(t, s.URL())
		if err := client.Eval(t.Context(), "redis.call('SET', KEYS[1], 1) redis.call('INCR', KEYS[1])", []string{"k"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		s.Kill()
		s.Start()
		warnings, err := Check(t.Context(), client)
		if err != nil || len(warnings) != want || want > 0 && !strings.Contains(warnings[0], "skipped 2 commands of its append-only file") {
			t.Errorf("default user %q: warnings %q, %v", rights, warnings, err)
		}
	}
}

func TestCheckPassword(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--requirepass", "right", "--appendonly", "yes")
	host := s.Addr()
	wantError(t, "redis://"+host, "wants a password")
	wantError(t, "redis://:hunter2@"+host, "refuses the user or password")
	wantError(t, "redis://somebody:hunter2@"+host, "refuses the user or password")
	client := open(t, "redis://:right@"+host)
	roundTrip(t, client)

	ctx := t.Context()
	if err := client.Do(ctx, "ACL", "SETUSER", "limited", "on", ">right", "~*", "&*", "+@all", "-info", "-get").Err(); err != nil {
		t.Fatal(err)
	}
	limited := open(t, "redis://limited:right@"+host)
	warnings, err := Check(ctx, limited)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "INFO") {
		t.Errorf("without INFO: %q, %v", warnings, err)
	}
	if text := Explain(limited.Get(ctx, "k").Err()); !strings.Contains(text, "docs/security.md") {
		t.Errorf("NOPERM is explained as %q", text)
	}
	if text := Explain(limited.Eval(ctx, "return redis.call('GET', 'k')", nil).Err()); !strings.Contains(text, "docs/security.md") {
		t.Errorf("NOPERM in a script is explained as %q", text)
	}
	if err := client.Do(ctx, "ACL", "SETUSER", "limited", "+info", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(ctx, "appendonly", "no").Err(); err != nil {
		t.Fatal(err)
	}
	warnings, err = Check(ctx, limited)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "does not reveal") {
		t.Errorf("without CONFIG: %q, %v", warnings, err)
	}
}

func TestCheckRefusesReplica(t *testing.T) {
	t.Parallel()
	master := redistest.StartServer(t)
	host, port, _ := net.SplitHostPort(master.Addr())
	replica := redistest.StartServer(t, "--replicaof", host+" "+port)
	wantError(t, replica.URL(), master.Addr(), ErrReplica)
	err := open(t, replica.URL()).Set(t.Context(), "k", "v", 0).Err()
	if text := Explain(err); !strings.Contains(text, "read-only replica") {
		t.Errorf("a write to it is explained as %q", text)
	}
}

func TestCheckRefusesOldServer(t *testing.T) {
	t.Parallel()
	wantError(t, "redis://"+listenAs(t, "redis_version:6.2.14\r\nredis_mode:standalone\r\n"), "6.2.14, use 7.0 or newer", ErrTooOld)
}

// Valkey 8 has another name for its mode.
func TestCheckReadsValkeysMode(t *testing.T) {
	t.Parallel()
	wantError(t, "redis://"+listenAs(t, "redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nserver_mode:cluster\r\n"), "redis-cluster://", ErrScheme)
}

// listenAs returns the address of a fake server. It replies to PING and INFO like a server with
// this section.
func listenAs(t *testing.T, section string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go reply(conn, "# Server\r\n"+section)
		}
	}()
	return l.Addr().String()
}

func reply(conn net.Conn, section string) {
	defer conn.Close()
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n"
		switch request := strings.ToLower(string(buf[:n])); {
		case strings.Contains(request, "ping"):
			reply = "+PONG\r\n"
		case strings.Contains(request, "info"):
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(section), section)
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func TestCheckEmbeddedIsExempt(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	client := open(t, "redis://"+s.Addr())
	roundTrip(t, client)
	if warnings, err := Check(t.Context(), client); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	// A socket's path has at most 107 bytes; t.TempDir may be longer.
	dir, err := os.MkdirTemp("", "turnstile") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "redis.sock")
	redistest.StartServer(t, "--unixsocket", path, "--unixsocketperm", "700")
	client := open(t, "redis-socket://"+path+"?db=3")
	roundTrip(t, client)
	if name, err := client.Do(t.Context(), "CLIENT", "INFO").Text(); err != nil || !strings.Contains(name, " db=3 ") {
		t.Errorf("CLIENT INFO %q, %v", name, err)
	}
	wantError(t, "redis-socket://"+path+"x", "no socket")
}

func TestFailover(t *testing.T) {
	t.Parallel()
	f := redistest.StartFailover(t)
	client := open(t, f.URL())
	roundTrip(t, client)
	if _, err := Check(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	f.Failover()
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := Check(deadline, client)
		if err == nil {
			break
		}
		if deadline.Err() != nil {
			t.Fatalf("after the failover: %v", err)
		}
	}
	roundTrip(t, client)

	wantError(t, "redis-sentinel://"+f.SentinelAddr()+"?master=nobody", "master=")
	wantError(t, "redis://"+f.SentinelAddr(), "redis-sentinel://", ErrScheme)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	client := open(t, c.URL())
	roundTrip(t, client)
	warnings, err := Check(t.Context(), client)
	if err != nil || len(warnings) != 3 {
		t.Fatalf("%q, %v; want each master's lack of persistence", warnings, err)
	}
	hosts, _, _ := strings.Cut(strings.TrimPrefix(c.URL(), "redis-cluster://"), ",")
	wantError(t, "redis://"+hosts, "redis-cluster://", ErrScheme)
	single := redistest.StartServer(t)
	wantError(t, "redis-cluster://"+single.Addr(), "no cluster")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := selfSigned(t, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	plain := redistest.StartServer(t, "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"),
		"--tls-ca-cert-file", filepath.Join(dir, "cert.pem"))

	roundTrip(t, open(t, "rediss://"+addr, func(o *redis.UniversalOptions) { o.TLSConfig.RootCAs = pool }))
	wantError(t, "rediss://"+addr, "certificate")
	// A port without TLS waits for more bytes of a command.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if text := Explain(open(t, "rediss://"+plain.Addr()).Ping(ctx).Err()); !strings.Contains(text, "speak TLS") {
		t.Error(text)
	}
	wantError(t, "redis://"+addr, "rediss://")
}

// selfSigned writes cert.pem and key.pem for 127.0.0.1.
func selfSigned(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "turnstile test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}
