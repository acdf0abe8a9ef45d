package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func TestMayPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err              error
		mayPass, refused bool
	}{
		{nil, false, false},
		{errors.New("of the program"), false, false},
		{context.Canceled, false, false},
		{context.DeadlineExceeded, true, false}, // go-redis returns it for its own timeouts
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true, false},
		{fmt.Errorf("claim a: %w", io.EOF), true, false},
		{redis.ErrPoolTimeout, true, false},
		{&tls.CertificateVerificationError{Err: errors.New("x509: certificate has expired")}, true, false},
		{redistest.ReplyError("LOADING Redis is loading the dataset in memory"), true, false},
		{fmt.Errorf("claim a: %w", redistest.ReplyError("READONLY You can't write against a read only replica.")), true, false},
		{redistest.ReplyError("BUSY Redis is busy running a script."), true, false},
		{redistest.ReplyError("BUSYGROUP Consumer Group name already exists"), false, true},
		{redistest.ReplyError("ERR max number of clients reached"), true, false},
		{redistest.ReplyError("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"), true, false},
		{redistest.ReplyError("ERR Script attempted to access a non local key in a cluster node"), true, false},
		{redistest.ReplyError("WRONGTYPE Operation against a key"), false, true},
		{fmt.Errorf("finish a: %w", redistest.ReplyError("OOM command not allowed")), false, true},
		{redistest.ReplyError("NOAUTH Authentication required."), false, true},
	} {
		if got := MayPass(c.err); got != c.mayPass {
			t.Errorf("MayPass(%v) = %v", c.err, got)
		}
		if got := Refused(c.err); got != c.refused {
			t.Errorf("Refused(%v) = %v", c.err, got)
		}
	}
}

// Another service replies at Redis' address, to the first request of a connection or to a later one. It counts as a
// Redis that is away, and its reply is in the explanation.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, explained string }{
		"HTTP":               {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "another service replies in Redis' place"},
		"a page":             {"<html>\n", `"<html>\n"`},
		"a long line":        {strings.Repeat("x", 100_000) + "\n", `invalid reply: "xxxx`},
		"a TLS alert":        {"\x15\x03\x01\x00\x02\x02\x16", "want TLS"},
		"TLS and a line":     {"\x15\x03\x01\x00\x02\x02\r\n", `\x15\x03\x01\x00`},
		"SSH":                {"SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0"},
		"SMTP":               {"220 mail.example ESMTP\r\n", "220 mail.example"},
		"IMAP":               {"* OK IMAP4rev1 ready\r\n", "invalid syntax"},
		"POP3":               {"+OK ready\r\n", "another service replies"},
		"a database":         {"J\x00\x00\x00\n8.0.36\r\n", `J\x00`},
		"nothing":            {"", "closed the connection"},
		"half a text":        {"$5\r\nab", ""},
		"half a list":        {"*2\r\n:1\r\n", "closed the connection"},
		"a list in a map":    {"%1\r\n*0\r\n:1\r\n", "another service replies"},
		"a number":           {":1\r\n", "another service replies"},
		"no number":          {":1x\r\n", "another service replies"},
		"too long a number":  {":99999999999999999999\r\n", "another service replies"},
		"a negative length":  {"$-7\r\n", `"$-7"`},
		"an empty line":      {"\r\n", "another service replies"},
		"neither yes nor no": {"#x\r\n", `"#x"`},
	} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", later: ", later), func(t *testing.T) {
				t.Parallel()
				_, err := open(t, "redis://"+redistest.Stranger(t, c.answer, later)).Do(t.Context(), "EVALSHA", "x", "0").Slice()
				if text := Explain(err); err == nil || !MayPass(err) || Refused(err) || Unchanged(err) || !strings.Contains(text, c.explained) || len(text) > 600 {
					t.Errorf("%.200v: may pass %v, refused %v, unchanged %v: %.600s", err, MayPass(err), Refused(err), Unchanged(err), text)
				}
			})
		}
	}
	err := open(t, "rediss://"+redistest.Stranger(t, "HTTP/1.1 400 Bad Request\r\n\r\n", false)).Ping(t.Context()).Err()
	if !MayPass(err) || !strings.Contains(Explain(err), "TLS (rediss://) where there is none") {
		t.Errorf("%v, explained as %s", err, Explain(err))
	}
}
