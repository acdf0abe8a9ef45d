package expect

import (
	"flag"
	"testing"
)

// withRace is set in a build with the race detector.
var withRace bool

func (w *witness) Skip(...any) { w.said = "skipped" }

func TestUnraced(t *testing.T) {
	t.Parallel()
	w := &witness{}
	Unraced(w)
	Equal(t, "skipped", w.said == "skipped", withRace)
}

// -parallel on the command line overrides a package's own number.
func TestAtOnce(t *testing.T) { //nolint:paralleltest // it changes -parallel
	was := flag.Lookup("test.parallel").Value.String()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	AtOnce(7)
	got := flag.Lookup("test.parallel").Value.String()
	Equal(t, "tests at once", got, map[bool]string{true: was, false: "7"}[chosen])
	AtOnce(9) // -parallel is chosen now
	Equal(t, "tests at once", flag.Lookup("test.parallel").Value.String(), got)
}
