package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The canonical form of a state makes two states equal that differ only in randomly drawn names and
// in absolute times.

// form is one or several texts, without their random names and times.
type form struct {
	skeleton [16]byte
	refs     []ref // each once, in the order of appearance
}

// ref is a drawn name, or a time in ms.
type ref struct {
	name string
	ms   int64
}

// digest is a canonical form, hashed.
type digest [16]byte

// former makes a form.
type former struct {
	hash hash.Hash
	form form
	seen map[ref]int
}

func newFormer() *former { return &former{hash: sha256.New(), seen: map[ref]int{}} }

// from continues at another form's end.
func (f *former) from(before *form) *former {
	f.hash.Write(before.skeleton[:])
	f.form.refs = slices.Clip(before.refs)
	for i, r := range before.refs {
		f.seen[r] = i
	}
	return f
}

func (f *former) end() *form {
	copy(f.form.skeleton[:], f.hash.Sum(nil))
	return &f.form
}

func (f *former) ref(kind byte, r ref) {
	i, ok := f.seen[r]
	if !ok {
		i = len(f.form.refs)
		f.seen[r] = i
		f.form.refs = append(f.form.refs, r)
	}
	f.hash.Write([]byte{0, kind, byte(i), byte(i >> 8)})
}

func (f *former) literal(text string) {
	if text != "" {
		f.hash.Write([]byte(text))
	}
}

// epoch is where all clocks begin, in seconds: that of a synctest bubble. A number with this many
// digits close to it is a time or a fence.
const (
	epoch    = 946684800
	nameMark = "ZQ"
	nameLen  = 10 // of a drawn name, with its mark
)

// text adds one text.
func (f *former) text(text string) {
	begin := 0
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '2' && i+len(stamp) <= len(text) && text[i+10] == 'T' && text[i+len(stamp)-1] == 'Z' && stampOf(text[i:]) != 0:
			f.literal(text[begin:i])
			f.ref(4, ref{ms: stampOf(text[i:])})
			i += len(stamp)
			begin = i
		case c >= '0' && c <= '9':
			end := i + 1
			for end < len(text) && text[end] >= '0' && text[end] <= '9' {
				end++
			}
			if ms, kind := timeOf(text[i:end]); kind != 0 {
				f.literal(text[begin:i])
				f.ref(kind, ref{ms: ms})
				begin = end
			}
			i = end
		case (c == 'Z' || c == 'z') && i+nameLen <= len(text) && strings.EqualFold(text[i:i+2], nameMark):
			f.literal(text[begin:i])
			f.ref(c, ref{name: strings.ToUpper(text[i : i+nameLen])})
			i += nameLen
			begin = i
		default:
			i++
		}
	}
	f.literal(text[begin:])
	f.hash.Write([]byte{0, 0})
}

// stamp is a time in the texts of deliveries.
const stamp = "2006-01-02T15:04:05.000Z"

// stampOf returns the time in ms at the beginning of a text, 0 if there is none.
func stampOf(text string) int64 {
	at, err := time.Parse(stamp, text[:len(stamp)])
	if err != nil {
		return 0
	}
	return at.UnixMilli()
}

func timeOf(digits string) (ms int64, kind byte) {
	if digits[0] != '9' {
		return 0, 0
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, 0
	}
	switch {
	case len(digits) == 9 && n >= epoch:
		return n * 1000, 1
	case len(digits) == 12 && n >= epoch*1000:
		return n, 2
	case len(digits) == 18 && n >= epoch*1_000_000_000:
		return n / 1_000_000, 3
	}
	return 0, 0
}

// canonical is a value's form. Many states share a value, so its form is made once.
func (v *value) canonical() *form {
	if v.form != nil {
		return v.form
	}
	f := newFormer()
	f.text(v.key)
	f.text(v.kind)
	if !uncounted(v) {
		for _, t := range v.text {
			f.text(t)
		}
		if endless(v) || distant(v) {
			f.text(bucket(v))
		} else {
			f.text(strconv.FormatInt(v.expires, 10))
		}
	}
	v.form = f.end()
	return v.form
}

// uncounted reports whether only the existence of a value counts. No move reads the audit.
func uncounted(v *value) bool {
	return v.kind == "stream" || strings.HasSuffix(v.key, "}:audit") || strings.Contains(v.key, ":processed") || strings.Contains(v.key, ":failed")
}

// endless reports whether a value expires later than any search looks, as a message's ID does after
// a day. Counting the time until then would make a new state of each step of the clock.
func endless(v *value) bool { return strings.Contains(v.key, ":idem:") }

// distant reports whether a value may outlive a forgotten session: a transcript, which expires after a
// month. No search looks so far ahead.
func distant(v *value) bool { return strings.Contains(v.key, ":transcript:") }

// bucket replaces a TTL that ends later than any search looks. Only two facts count: whether there is
// one, and whether it is at least half of its setting.
func bucket(v *value) string {
	switch {
	case v.expires == 0:
		return "none"
	case v.expires < epoch*1000+settingOf(v.key).Milliseconds()/2:
		return "short"
	}
	return "long"
}

// canon makes the digests of a search.
type canon struct {
	horizon int64 // ms
	hash    hash.Hash
	times   []int64
	names   map[string]int
}

// digest hashes forms together. extra has further differences between states.
func (c *canon) digest(now int64, forms []*form, extra string) (d digest) {
	if c.hash == nil {
		c.hash, c.names = sha256.New(), map[string]int{}
	}
	c.hash.Reset()
	clear(c.names)
	c.times = c.times[:0]
	for _, f := range forms {
		for _, r := range f.refs {
			if r.name == "" && r.ms <= now-c.horizon {
				c.times = append(c.times, r.ms)
			}
		}
	}
	slices.Sort(c.times)
	c.times = slices.Compact(c.times)
	var b [9]byte
	for _, f := range forms {
		c.hash.Write(f.skeleton[:])
		for _, r := range f.refs {
			switch {
			case r.name != "":
				n, ok := c.names[r.name]
				if !ok {
					n = len(c.names)
					c.names[r.name] = n
				}
				b[0] = 'n'
				binary.LittleEndian.PutUint64(b[1:], uint64(n))
			case r.ms > now-c.horizon:
				b[0] = 'f'
				binary.LittleEndian.PutUint64(b[1:], uint64(r.ms-now))
			default:
				rank, _ := slices.BinarySearch(c.times, r.ms)
				b[0] = 'p'
				binary.LittleEndian.PutUint64(b[1:], uint64(rank))
			}
			c.hash.Write(b[:])
		}
	}
	c.hash.Write([]byte(extra))
	sum := c.hash.Sum(nil)
	copy(d[:], sum)
	return d
}
