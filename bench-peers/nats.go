package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream  = "sessions"
	subject = "session."
	deliver = "deliver"
)

// natsClient has one stream, and a consumer for each session that delivers the next message when the one
// before is acknowledged. The sender of a session's first message creates its consumer. All consumers
// deliver to one subscription.
type natsClient struct {
	conn  *nats.Conn
	js    jetstream.JetStream
	known []atomic.Bool
	store jetstream.StorageType
	slots int
}

func openNATS(ctx context.Context, j job) (client, error) {
	conn, err := nats.Connect(j.Address)
	if err != nil {
		return nil, err
	}
	c := &natsClient{conn: conn, known: make([]atomic.Bool, j.Shape.Sessions), store: jetstream.MemoryStorage, slots: j.Slots}
	if j.Durable {
		c.store = jetstream.FileStorage
	}
	if c.js, err = jetstream.New(conn); err == nil {
		_, err = c.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{subject + "*"}, Storage: c.store, MaxConsumers: len(c.known), // the server's own limit is lower
		})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *natsClient) send(ctx context.Context, session int, text []byte) error {
	if !c.known[session].Swap(true) {
		_, err := c.js.CreatePushConsumer(ctx, stream, jetstream.ConsumerConfig{
			Durable: name(session), FilterSubject: subject + name(session), DeliverSubject: deliver,
			AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1, MemoryStorage: c.store == jetstream.MemoryStorage,
		})
		if err != nil {
			return fmt.Errorf("create a consumer: %w", err)
		}
	}
	_, err := c.js.Publish(ctx, subject+name(session), text)
	return err
}

func (c *natsClient) work(_ context.Context, handle func([]byte) error) (func(), error) {
	delivered := make(chan *nats.Msg, len(c.known)) // one of each session at most
	sub, err := c.conn.ChanSubscribe(deliver, delivered)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	var handlers sync.WaitGroup
	for range c.slots {
		handlers.Go(func() {
			for {
				select {
				case <-over:
					return
				case m := <-delivered:
					if handle(m.Data) == nil {
						_ = m.Ack() // without it, the message is delivered again
					}
				}
			}
		})
	}
	return func() {
		_ = sub.Unsubscribe()
		close(over)
		handlers.Wait()
	}, nil
}

func (c *natsClient) close() { c.conn.Close() }
