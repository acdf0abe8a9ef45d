package explore

import (
	"encoding"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// wireWord is an argument as go-redis writes it.
func wireWord(a any) (string, error) {
	switch a := a.(type) {
	case nil:
		return "", nil
	case string:
		return a, nil
	case []byte:
		return string(a), nil
	case int:
		return strconv.Itoa(a), nil
	case int64:
		return strconv.FormatInt(a, 10), nil
	case uint64:
		return strconv.FormatUint(a, 10), nil
	case float64:
		return strconv.FormatFloat(a, 'f', -1, 64), nil
	case bool:
		if a {
			return "1", nil
		}
		return "0", nil
	case time.Duration:
		return strconv.FormatInt(a.Nanoseconds(), 10), nil
	case encoding.BinaryMarshaler:
		b, err := a.MarshalBinary()
		return string(b), err
	}
	return "", fmt.Errorf("explore: an argument of type %T", a)
}

// redisError is an error reply of Redis.
type redisError string

func (e redisError) Error() string { return string(e) }
func (e redisError) RedisError()   {}

// respond gives cmd its reply, as go-redis reads it from the connection.
func respond(cmd redis.Cmder, reply any) error {
	if err, failed := reply.(error); failed {
		return redisError(err.Error())
	}
	switch c := cmd.(type) {
	case interface{ SetVal(any) }: // of a script
		v := generic(reply)
		if v == nil {
			return redis.Nil
		}
		c.SetVal(v)
		return nil
	case *redis.SliceCmd:
		if reply == nil {
			return redis.Nil
		}
		list, _ := generic(reply).([]any)
		c.SetVal(list)
		return nil
	case *redis.FloatSliceCmd:
		var scores []float64
		for _, s := range items(reply) {
			scores = append(scores, float(s))
		}
		c.SetVal(scores)
		return nil
	case *redis.BoolSliceCmd:
		var flags []bool
		for _, f := range items(reply) {
			flags = append(flags, f == 1)
		}
		c.SetVal(flags)
		return nil
	case *redis.ZSliceCmd:
		c.SetVal(pairs(reply))
		return nil
	case *redis.MapStringStringCmd:
		m, list := map[string]string{}, items(reply)
		for i := 0; i+1 < len(list); i += 2 {
			m[word(list[i])] = word(list[i+1])
		}
		c.SetVal(m)
		return nil
	case *redis.ScanCmd:
		list := items(reply)
		cursor, _ := strconv.ParseUint(word(list[0]), 10, 64)
		c.SetVal(words(list[1]), cursor)
		return nil
	case *redis.StringSliceCmd:
		c.SetVal(words(reply))
		return nil
	}
	if reply == nil {
		return redis.Nil
	}
	switch c := cmd.(type) {
	case *redis.StatusCmd:
		c.SetVal(word(reply))
	case *redis.StringCmd:
		c.SetVal(word(reply))
	case *redis.IntCmd:
		n, _ := reply.(int)
		c.SetVal(int64(n))
	case *redis.BoolCmd:
		c.SetVal(reply == 1 || reply == status("OK"))
	case *redis.DurationCmd: // of PTTL, the only one in use
		n, _ := reply.(int)
		d := time.Duration(n) * time.Millisecond
		if n < 0 {
			d = time.Duration(n)
		}
		c.SetVal(d)
	case *redis.TimeCmd:
		list := items(reply)
		seconds, _ := strconv.ParseInt(word(list[0]), 10, 64)
		micros, _ := strconv.ParseInt(word(list[1]), 10, 64)
		c.SetVal(time.Unix(seconds, micros*1000))
	default:
		return fmt.Errorf("explore: a reply of type %T", cmd)
	}
	return nil
}

// generic is a reply in the types of Cmd.
func generic(reply any) any {
	switch r := reply.(type) {
	case int:
		return int64(r)
	case status:
		return string(r)
	case []any:
		list := make([]any, len(r))
		for i := range r {
			list[i] = generic(r[i])
		}
		return list
	}
	return reply
}

func items(reply any) []any {
	list, _ := reply.([]any)
	return list
}

func word(reply any) string {
	switch r := reply.(type) {
	case string:
		return r
	case status:
		return string(r)
	case int:
		return strconv.Itoa(r)
	}
	return ""
}

func words(reply any) []string {
	list := items(reply)
	all := make([]string, len(list))
	for i := range list {
		all[i] = word(list[i])
	}
	return all
}

func float(reply any) float64 {
	f, _ := strconv.ParseFloat(word(reply), 64)
	return f
}

func pairs(reply any) (all []redis.Z) {
	list := items(reply)
	for i := 0; i+1 < len(list); i += 2 {
		all = append(all, redis.Z{Member: word(list[i]), Score: float(list[i+1])})
	}
	return all
}
