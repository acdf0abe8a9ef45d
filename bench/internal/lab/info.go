package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisTime is how many microseconds Redis worked for the counted commands since CONFIG RESETSTAT.
// A script's time includes the commands that it calls. Those also have separate entries in
// commandstats, so every other command counts with its mean time, as often as it was sent.
func RedisTime(ctx context.Context, admin redis.UniversalClient, sent map[string]int) (usec float64, err error) {
	stats, err := CommandStats(ctx, admin)
	for name, n := range sent {
		if s := stats[name]; s.Calls > 0 {
			usec += s.Usec / s.Calls * float64(n)
		}
	}
	return usec, err
}

// Stat has Redis' counts of a command since CONFIG RESETSTAT, with the calls in scripts.
type Stat struct{ Calls, Usec float64 }

// CommandStats reads them by the commands' names.
func CommandStats(ctx context.Context, admin redis.UniversalClient) (map[string]Stat, error) {
	info, err := admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	stats := map[string]Stat{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		var s Stat
		if _, err := fmt.Sscanf(rest, "%f,usec=%f", &s.Calls, &s.Usec); err == nil {
			stats[name] = s
		}
	}
	return stats, nil
}

// RedisMemory is Redis' allocated memory in bytes.
func RedisMemory(ctx context.Context, admin redis.UniversalClient) (bytes float64, err error) {
	return number(ctx, admin, "memory", "used_memory")
}

// RedisReceived is how many bytes Redis received since CONFIG RESETSTAT.
func RedisReceived(ctx context.Context, admin redis.UniversalClient) (bytes float64, err error) {
	return number(ctx, admin, "stats", "total_net_input_bytes")
}

// RedisProcessor is the processor time that Redis has used, with that of its child processes.
func RedisProcessor(ctx context.Context, admin redis.UniversalClient) (time.Duration, error) {
	var all float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys", "used_cpu_user_children", "used_cpu_sys_children"} {
		seconds, err := number(ctx, admin, "cpu", name)
		if err != nil {
			return 0, err
		}
		all += seconds
	}
	return time.Duration(all * float64(time.Second)), nil
}

func number(ctx context.Context, admin redis.UniversalClient, section, name string) (float64, error) {
	info, err := admin.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, fmt.Errorf("INFO %s names no %s", section, name)
}

// Connections counts the connections of clients that were opened under a name.
func Connections(ctx context.Context, admin redis.UniversalClient, name string) (int, error) {
	list, err := admin.Do(ctx, "CLIENT", "LIST").Text()
	if err != nil {
		return 0, err
	}
	return strings.Count(list, " name="+name+" "), nil
}
