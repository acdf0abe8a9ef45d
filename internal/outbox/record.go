package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"turnstile/internal/protocol/deliveries"
)

// refuses returns why a record must not be sent to the destination, "" if it may. last is the highest
// sequence that a script has given. A receiver ignores sequences below the highest that it has seen, so
// a forged high one would silence the session. The record's session and sequence are those of its keys.
// Its text may be forged by a program with another Redis user, and a signature would make it credible.
func (d *Destination) refuses(r deliveries.Delivery, last int64) string {
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

// object has the fields of a JSON object, in their order.
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

// fields reads an object. It refuses a name that occurs twice, in any case: programs differ in which of
// them they read.
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

// body returns the body of a delivery, which is the same in every attempt. It has the details of a
// failure only if the destination asks for them.
func (d *Destination) body(r deliveries.Delivery) []byte {
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
