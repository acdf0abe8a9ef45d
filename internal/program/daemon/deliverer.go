package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/outbox"
	"turnstile/internal/program/metrics"
)

// deliveryStop is how long POSTs in progress may take after everything else has stopped. Another
// deliverer repeats a cancelled one.
const deliveryStop = 3 * time.Second

// StartDeliverer delivers to the destinations of a file until the returned function is called.
func StartDeliverer(ctx context.Context, rdb redis.UniversalClient, file *outbox.File, m *metrics.Metrics, traces outbox.TraceFunc, log *slog.Logger) (stop func(hurry context.Context), _ error) {
	d, err := outbox.New(rdb, outbox.Options{Destinations: file.Current, Observer: m.Deliveries(), Trace: traces, Logger: log})
	if err != nil {
		return nil, err
	}
	m.WatchDeliveries(d)
	d.Start(ctx)
	log.Info("delivering", "destinations", file.Current().Names())
	return func(hurry context.Context) {
		ctx, cancel := context.WithTimeout(hurry, deliveryStop)
		defer cancel()
		d.Stop(ctx)
	}, nil
}
