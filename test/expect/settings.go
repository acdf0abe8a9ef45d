package expect

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// Patience is how long an event may take before the test fails. It is long: only a test
// that fails waits for it.
const Patience = 4 * time.Minute

// Proof reports whether tests try all of their cases, as `make cases` and `make proof` ask them to
// with TURNSTILE_PROOF=true. Otherwise they try some of each kind.
func Proof() bool { return os.Getenv("TURNSTILE_PROOF") == "true" }

// Sampled reports whether a test tries its case with this number: one in every, spread over all of
// them, or all for Proof.
func Sampled(number, every int) bool { return Proof() || number%every == 0 }

// Unraced skips a test under the race detector, which makes it several times slower and cannot find
// more: the test computes much in one goroutine, or repeats other tests. `.ci/cases.sh unraced` runs it in the gate,
// `make cases` with all of its cases.
func Unraced(t testing.TB) {
	t.Helper()
	NotQuick(t)
	if raced() {
		t.Skip("runs without -race, in .ci/cases.sh")
	}
}

// NotQuick skips a test under -short, as `make quick` has it: it starts programs, or computes for long.
func NotQuick(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs without -short, in make test")
	}
}

// raced reports whether the test binary was built with -race.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// AtOnce lets n tests of a package run in parallel, unless -parallel says otherwise. By default the
// number is that of the cores, which stay idle while tests wait. Call it in TestMain.
func AtOnce(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Lacks skips a test for something that this machine lacks. In CI it fails the test.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if on, _ := strconv.ParseBool(os.Getenv("CI")); on {
		t.Fatal("NOT TESTED: CI LACKS ", what)
	}
	fmt.Fprintf(os.Stderr, "NOT TESTED, FOR THIS MACHINE LACKS %s: SKIPPED %s\n", what, t.Name())
	t.Skip("this machine lacks ", what)
}
