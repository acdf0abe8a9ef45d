package main

import (
	"testing"
	"time"
)

func TestProgressInWords(t *testing.T) {
	t.Parallel()
	half := "[===============               ]  50% "
	for _, c := range []struct {
		p    *progress
		took time.Duration
		want string
	}{
		{&progress{size: 100, read: 50, in: 7}, time.Second, half + "7 sent"},
		{&progress{size: 100, read: 50, in: 7, waits: true, results: 2}, 10 * time.Second, "7 sent, 2 results"},
		{&progress{size: 100, read: 50, in: 7}, 10 * time.Second, half + "7 sent, about 10s left"},
		{&progress{size: -1, read: 50, in: 7}, time.Hour, "7 sent"},
		{&progress{size: 0, waits: true}, 0, "0 sent, 0 results"},
		{&progress{size: 100, read: 150, in: 7}, time.Minute, "[==============================] 100% 7 sent"},
		{&progress{size: 100, read: 100, in: 7, whole: true, waits: true, waited: 4, results: 2}, 0, half + "2 of 4 results"},
		{&progress{whole: true, waits: true, waited: 4, results: 1, left: 1}, time.Minute, half + "1 of 4 results, 1 without one, about 1m0s left"},
		{&progress{whole: true, waits: true, waited: 1000, results: 999}, time.Minute, "[============================= ]  99% 999 of 1000 results, about 1s left"},
		{&progress{size: 9, whole: true, waits: true}, time.Minute, "0 of 0 results"},
	} {
		if got := c.p.text(c.took); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
