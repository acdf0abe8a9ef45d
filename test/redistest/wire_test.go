package redistest_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

// One attempt of go-redis is one write on the wire.
func onWire(t *testing.T) (redis.UniversalClient, *redistest.Wire) {
	t.Helper()
	wire := &redistest.Wire{}
	client := wire.Client(t, redistest.New(t))
	client.(*redis.Client).Options().MaxRetries = 0
	return client, wire
}

func TestWireLosesAReply(t *testing.T) {
	t.Parallel()
	client, wire := onWire(t)
	ctx := t.Context()
	wire.LoseReply(redistest.Named("incr"), redistest.Loading)
	if err := client.Incr(ctx, "n").Err(); !errors.Is(err, io.EOF) {
		t.Errorf("the lost reply is %v", err)
	}
	if err := client.Incr(ctx, "n").Err(); !redis.HasErrorPrefix(err, "LOADING") {
		t.Errorf("the next one is %v", err)
	}
	if n, err := client.Get(ctx, "n").Int(); n != 1 || err != nil {
		t.Errorf("n is %d, %v: the first one was carried out, and the second was not", n, err)
	}
	if n := wire.Heal(); n != 1 {
		t.Errorf("%d reached the server", n)
	}
	if n, err := client.Incr(ctx, "n").Result(); n != 2 || err != nil {
		t.Errorf("healed: %d, %v", n, err)
	}
}

// A pipeline is one write, and a script that the server does not know was not carried out.
func TestWireOfAPipeline(t *testing.T) {
	t.Parallel()
	client, wire := onWire(t)
	ctx := t.Context()
	both := func() error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "n")
			p.Incr(ctx, "m")
			return nil
		})
		return err
	}
	wire.LoseReply(redistest.Named("incr"), redistest.Cut)
	for _, what := range []string{"lost", "cut"} {
		if err := both(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wire.Meet(redistest.Named("incr"), redistest.NoServer)
	var dial *net.OpError
	if err := both(); !errors.As(err, &dial) || dial.Op != "dial" {
		t.Errorf("no server: %v", err)
	}
	wire.Heal()
	if n, m := client.Get(ctx, "n").Val(), client.Get(ctx, "m").Val(); n != "1" || m != "1" {
		t.Errorf("n and m are %s and %s", n, m)
	}
	script := redis.NewScript(`return redis.call('INCR', KEYS[1]) -- ` + t.Name())
	wire.LoseReply(redistest.Script(script.Hash()), redistest.CarriedOut)
	if err := script.Run(ctx, client, []string{"n"}).Err(); !errors.Is(err, io.EOF) {
		t.Errorf("a script that was sent in full: %v", err)
	}
	if n := client.Get(ctx, "n").Val(); n != "2" {
		t.Errorf("n is %s", n)
	}
}
