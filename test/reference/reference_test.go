package reference_test

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"testing"

	"turnstile/test/reference"
)

// TestLives lives random lives on the model and on the real thing.
func TestLives(t *testing.T) {
	r := newRedis(t, nil)
	for seed := range lives() {
		data := randomLife(seed, 60)
		if r.live(data, reference.AsLanded) != nil {
			report(t, r, data, fmt.Sprint("seed ", seed))
		}
	}
}

// TestLanded keeps the list of what has landed true: each of its fields makes a
// difference.
func TestLanded(t *testing.T) {
	r := newRedis(t, nil)
	v := reflect.ValueOf(reference.AsLanded)
	for i := range v.NumField() {
		if !v.Field(i).Bool() {
			continue // mended
		}
		landed := reference.AsLanded
		reflect.ValueOf(&landed).Elem().Field(i).SetBool(false)
		name := v.Type().Field(i).Name
		if _, d := r.first(landed, 400); d == nil {
			t.Errorf("%s is as intended: set it to false", name)
		} else if testing.Verbose() {
			t.Logf("%s:\n%s", name, d)
		}
	}
}

// first is the first of so many lives where the sides part, shrunk.
func (r *redisOf) first(landed reference.Landed, most uint64) ([]byte, *difference) {
	for seed := range most {
		if data := randomLife(seed, 60); r.live(data, landed) != nil {
			return r.shrink(data, landed)
		}
	}
	return nil, nil
}

// report shrinks a life that fails and prints what is left of it.
func report(t *testing.T, r *redisOf, data []byte, name string) {
	t.Helper()
	small, d := r.shrink(data, reference.AsLanded)
	if d == nil {
		t.Errorf("%s: fails, but not when it is repeated: %x", name, data)
		return
	}
	t.Fatalf("%s, shrunk to %x:\n%s", name, small, d)
}

func lives() uint64 {
	n, err := strconv.ParseUint(os.Getenv("REFERENCE_LIVES"), 10, 32)
	if err != nil {
		return 400
	}
	return n
}
