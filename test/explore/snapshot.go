package explore

import (
	"slices"
	"sort"
	"strconv"
)

// snapshot is the state of a database. It does not change.
type snapshot struct {
	now  int64    // Redis's clock, ms
	keys []*value // by name
}

// value is the value of a key. It does not change.
type value struct {
	key, kind string
	text      []string // pairs for a hash and a zset, triples for a stream
	expires   int64    // ms, 0: never

	form *form // canonical, made on first use
}

func (v *value) same(w *value) bool {
	if v == nil || w == nil {
		return v == w
	}
	return v.kind == w.kind && v.expires == w.expires && slices.Equal(v.text, w.text)
}

// field is a field of a hash, or "".
func (v *value) field(name string) string {
	for i := 0; i+1 < len(v.text); i += 2 {
		if v.text[i] == name {
			return v.text[i+1]
		}
	}
	return ""
}

func (s *snapshot) find(key string) int {
	return sort.Search(len(s.keys), func(i int) bool { return s.keys[i].key >= key })
}

func (s *snapshot) get(key string) *value {
	if i := s.find(key); i < len(s.keys) && s.keys[i].key == key {
		return s.keys[i]
	}
	return nil
}

func (s *snapshot) has(key string) bool { return s.get(key) != nil }

func (s *snapshot) str(key string) string {
	if v := s.get(key); v != nil && v.kind == "string" {
		return v.text[0]
	}
	return ""
}

// field is a field of a hash, "" if there is none.
func (s *snapshot) field(key, field string) string {
	if v := s.get(key); v != nil && v.kind == "hash" {
		return v.field(field)
	}
	return ""
}

// fields are the fields of a hash.
func (s *snapshot) fields(key string) map[string]string {
	all, v := map[string]string{}, s.get(key)
	for i := 0; v != nil && v.kind == "hash" && i < len(v.text); i += 2 {
		all[v.text[i]] = v.text[i+1]
	}
	return all
}

// members are the elements of a list, a set or a zset.
func (s *snapshot) members(key string) []string {
	v := s.get(key)
	if v == nil {
		return nil
	}
	if v.kind != "zset" {
		return v.text
	}
	var list []string
	for i := 0; i < len(v.text); i += 2 {
		list = append(list, v.text[i])
	}
	return list
}

// score is the score of a zset's member. ok is false if there is none.
func (s *snapshot) score(key, member string) (score int64, ok bool) {
	v := s.get(key)
	for i := 0; v != nil && v.kind == "zset" && i < len(v.text); i += 2 {
		if v.text[i] == member {
			return whole(v.text[i+1]), true
		}
	}
	return 0, false
}

// scores are the scores of a zset, in its order.
func (s *snapshot) scores(key string) []int64 {
	v := s.get(key)
	var list []int64
	for i := 1; v != nil && v.kind == "zset" && i < len(v.text); i += 2 {
		list = append(list, whole(v.text[i]))
	}
	return list
}

func whole(text string) int64 {
	n, _ := strconv.ParseFloat(text, 64)
	return int64(n)
}

// at is the snapshot at a later time, without expired keys.
func (s *snapshot) at(now int64) *snapshot {
	next := &snapshot{now: now, keys: make([]*value, 0, len(s.keys))}
	for _, v := range s.keys {
		if v.expires == 0 || v.expires > now {
			next.keys = append(next.keys, v)
		}
	}
	return next
}

// without is the snapshot without a key.
func (s *snapshot) without(key string) *snapshot {
	i := s.find(key)
	return &snapshot{s.now, slices.Concat(s.keys[:i], s.keys[i+1:])}
}
