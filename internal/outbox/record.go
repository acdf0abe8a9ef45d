package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"turnstile/internal/protocol"
)

// refuses returns why the destination must not get a record, "" if it may. last is the highest sequence
// that a script has given: a receiver ignores everything below the highest that it has seen, so a forged
// one would silence the session. The record's session and sequence are those of the keys that it was
// stored under. Its text is not believed: a program with a Redis user of its own may have written it, and
// it would be signed.
func (d *Destination) refuses(r protocol.Delivery, last int64) string {
	if !d.Admits(r.Session) {
		return fmt.Sprintf(`the destination admits no outcomes of this session: see "from" of %s`, d.Name)
	}
	if r.Sequence > last {
		return fmt.Sprintf("forged: its sequence %d is above the session's last one", r.Sequence)
	}
	var of string
	record, err := fields(r.Body)
	if err == nil {
		record, err = fields(record.value("data"))
	}
	if err == nil {
		err = json.Unmarshal(record.value("session"), &of)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("forged: its text cannot be read: %.100s", err)
	case of != r.Session:
		return fmt.Sprintf("forged: it names the session %.100q", of)
	}
	return ""
}

// object is the fields of a JSON object, in their order.
type object []field

type field struct {
	name  string
	value json.RawMessage
}

func (o object) value(name string) json.RawMessage {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// fields reads an object. It refuses what programs read differently: a name that is there twice, in
// whatever case.
func fields(text []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	var o object
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := field{name: name.(string)}
		folded := strings.ToLower(strings.ToUpper(f.name))
		if seen[folded] {
			return nil, fmt.Errorf("%.100q is there twice", f.name)
		}
		seen[folded] = true
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		o = append(o, f)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return o, nil
}

// body is what the destination gets of a record that it admits: the details of a failure only if it
// asks for them. It is the same in every attempt.
func (d *Destination) body(r protocol.Delivery) []byte {
	if d.Detail || !bytes.Contains(r.Body, []byte(`"detail":`)) {
		return r.Body
	}
	return without(r.Body, "data", "outcome", "detail")
}

// without removes the field at a path from the text of an object.
func without(text []byte, path ...string) []byte {
	o, err := fields(text)
	if err != nil {
		return text
	}
	var b bytes.Buffer
	for _, f := range o {
		switch {
		case f.name != path[0]:
		case len(path) == 1:
			continue
		default:
			f.value = without(f.value, path[1:]...)
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(f.name) //nolint:errchkjson // a string
		b.Write(name)
		b.WriteByte(':')
		b.Write(f.value)
	}
	return fmt.Appendf(nil, "{%s}", b.Bytes())
}
