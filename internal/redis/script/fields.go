package script

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Fields is a list with named elements: the result of a script, or some fields of a hash. A field
// that is missing or of another kind reads as its zero value. The methods panic on an unknown name:
// it is a mistake in the program.
type Fields struct {
	names []string
	list  Result
}

// Named gives names to the elements of a result, in their order.
func (r Result) Named(names ...string) Fields { return Fields{names, r} }

// HashFields returns the fields that an HMGET has read, under the names that it asked for.
func HashFields(read *redis.SliceCmd) Fields {
	args := read.Args()[2:] // after HMGET and the key
	names := make([]string, len(args))
	for i, name := range args {
		names[i], _ = name.(string)
	}
	return Fields{names, read.Val()}
}

func (f Fields) at(name string) int {
	i := slices.Index(f.names, name)
	if i < 0 {
		panic("script: no field " + name)
	}
	return i
}

// Has reports whether there is such a field.
func (f Fields) Has(name string) bool {
	i := f.at(name)
	return i < len(f.list) && f.list[i] != nil
}

// Text is a field as text.
func (f Fields) Text(name string) string { return f.list.Text(f.at(name)) }

// Int is a field as a whole number.
func (f Fields) Int(name string) int64 { return f.list.Int(f.at(name)) }

// Bool reports whether a field is the number 1.
func (f Fields) Bool(name string) bool { return f.list.Bool(f.at(name)) }

// Millis is a field as a duration; Redis has milliseconds.
func (f Fields) Millis(name string) time.Duration { return f.list.Millis(f.at(name)) }

// List is a field as a list.
func (f Fields) List(name string) Result { return f.list.List(f.at(name)) }
