package reference_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/test/reference"
)

// A life is a configuration and operations. It is decoded from bytes: a header, and then some bytes
// for each operation. All bytes are valid.
const (
	header  = 5
	opBytes = 4
	mostOps = 120
)

// operation is an encoded operation: its kind, and three bytes of parameters.
type operation [opBytes]byte

func decode(data []byte) (head [header]byte, ops []operation) {
	data = data[copy(head[:], data):]
	for len(data) >= opBytes && len(ops) < mostOps {
		ops = append(ops, operation(data))
		data = data[opBytes:]
	}
	return head, ops
}

func encode(head [header]byte, ops []operation) []byte {
	data := slices.Clone(head[:])
	for _, o := range ops {
		data = append(data, o[:]...)
	}
	return data
}

// randomLife is a life of n operations.
func randomLife(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 10))
	data := make([]byte, header+n*opBytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// configured reads a life's configuration.
func configured(head [header]byte) reference.Config {
	a, b, c, d, e := int(head[0]), int(head[1]), int(head[2]), int(head[3]), int(head[4])
	modes := []string{reference.Queue, reference.Queue, reference.Collect, reference.Steer, reference.Interrupt, reference.Rollback}
	drops := []string{reference.DropNew, reference.DropOld, reference.Summarize}
	return reference.Config{
		Immediate: a%4 == 0, CrashSuspends: a/4%4 == 0, Keeps: a/16%8 > 0, StuckLimit: 1 + b%3, TranscriptCap: 4 + b/4%16,
		TTL: time.Minute.Milliseconds(), TurnMessages: []int{500, 2}[a/128], LineCap: []int{100, 7, 5, 3}[b/64], LargeEntries: largeEntries, OutboxCap: []int{1000, 6, 3}[e/2%3],
		Agent: []string{agents.Default, agents.Default, "support"}[e/8%3],
		Workers: [2]reference.Settings{
			{Mode: modes[c%len(modes)], Cap: 2 + c/8%4, Drop: drops[c/32%len(drops)], Debounce: 90_000},
			{Mode: modes[d%len(modes)], Cap: 1 + d/8%5, Drop: drops[d/32%len(drops)], Debounce: 45_000},
		},
	}
}

// pair is a claim on both sides.
type pair struct {
	model  *reference.Claim
	actual *sq.Claim
}

// life is a running life.
type life struct {
	model  *reference.Session
	actual *actual
	claims [2]*pair // each worker's last claim in which it believes
	said   int      // texts so far
	routed bool     // its messages may have routes
	taken  [2]taken // by each deliverer
}

// step is an operation as text, with its results on both sides.
type step struct {
	name          string
	model, actual func() string
}

// difference is where the two sides differ.
type difference struct {
	steps []string // the last one differs
	what  []string
}

func (d *difference) String() string {
	var out strings.Builder
	for i, s := range d.steps {
		fmt.Fprintf(&out, "%4d  %s\n", i+1, s)
	}
	fmt.Fprintf(&out, "after which they differ:\n  %s", strings.Join(d.what, "\n  "))
	return out.String()
}

// live runs a life and returns where the model and the real thing differ. Nil: nowhere.
func (r *redisOf) live(data []byte) *difference {
	r.Helper()
	head, ops := decode(data)
	now := time.Now().UnixMilli()
	config := configured(head)
	l := &life{model: reference.New(config, now), actual: r.begin(config, now), routed: head[4]%2 == 1}
	defer l.actual.end()
	d := &difference{}
	for _, o := range ops {
		if l.step(d, o) {
			return d
		}
	}
	if d := l.drain(d); d != nil || !l.routed {
		return d
	}
	return l.deliverAll(d)
}

// drain runs all waiting messages to their ends, which must be possible in every state.
func (l *life) drain(d *difference) *difference {
	for range 4 * (len(l.model.Messages) + 1) {
		k := kind(claim)
		switch {
		case l.model.Owner == 0 && len(l.model.Line) == 0 && l.model.Run.Phase == reference.Idle:
			return nil
		case l.model.Paused:
			k = unpause
		case l.model.Owner == 0:
			if l.step(d, opOf(minutes, 5)) { // whatever it waits for
				return d
			}
		case l.holder(0) == nil || !l.model.Owns(l.holder(0).model):
			k = die
		case l.model.Run.Phase == reference.Starting && l.model.Asked() == "" && !l.model.Run.NoStart:
			k = promote
		default:
			k = finish
		}
		if l.step(d, opOf(k)) {
			return d
		}
	}
	d.what = append(d.what, fmt.Sprintf("after all this %v still wait, and %v run", l.model.Line, l.model.Run.IDs))
	return d
}

// step carries an operation out on both sides. It returns true if they differ.
func (l *life) step(d *difference, o operation) bool {
	l.pass(time.Second)
	return l.make(d, l.resolve(o))
}

// make carries out a step on both sides.
func (l *life) make(d *difference, s step) bool {
	got := s.actual()
	want := s.model()
	l.actual.faults.Clear()
	d.steps = append(d.steps, s.name+": "+want)
	if got != want {
		d.what = append(d.what, fmt.Sprintf("answer: model %q, real %q", want, got))
	}
	model, actual := l.model.Picture(), l.actual.picture()
	for _, what := range slices.Sorted(sorted(model, actual)) {
		if model[what] != actual[what] {
			d.what = append(d.what, fmt.Sprintf("%s:\n    model %s\n    real  %s", what, model[what], actual[what]))
		}
	}
	return len(d.what) > 0
}

func sorted(a, b reference.Picture) func(yield func(string) bool) {
	all := map[string]bool{}
	for what := range a {
		all[what] = true
	}
	for what := range b {
		all[what] = true
	}
	return func(yield func(string) bool) {
		for what := range all {
			if !yield(what) {
				return
			}
		}
	}
}

// pass lets time pass on both sides.
func (l *life) pass(d time.Duration) {
	l.model.Step(d.Milliseconds())
	l.actual.setTime(l.model.Now)
}

// shrink drops operations while the life still fails.
func (r *redisOf) shrink(data []byte) ([]byte, *difference) {
	head, ops := decode(data)
	failure := r.live(data)
	if failure == nil {
		return data, nil
	}
	ops = ops[:min(len(ops), len(failure.steps))]
	for size := len(ops) / 2; size > 0; {
		dropped := false
		for i := 0; i+size <= len(ops); {
			fewer := slices.Concat(ops[:i], ops[i+size:])
			if f := r.live(encode(head, fewer)); f != nil {
				failure, ops, dropped = f, fewer, true
			} else {
				i += size
			}
		}
		if !dropped || size > 1 {
			size /= 2
		}
	}
	return encode(head, ops), failure
}

// existing are the existing messages, in the order of their names.
func (l *life) existing() []string {
	var ids []string
	for id := range l.model.Messages {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// archived are the dead letters.
func (l *life) archived() []string {
	return slices.DeleteFunc(l.existing(), func(id string) bool { return l.model.Messages[id].State != reference.Archived })
}

// die is the death of an owner: its sentinel expires.
func (l *life) die() {
	l.actual.must(l.actual.rdb.Del(l.actual.ctx, l.actual.k.Sentinel()).Err())
	l.pass(time.Duration(l.model.Config.TTL)*time.Millisecond + time.Second)
}
