// Command measure counts the functions that one message passes, and compares them with the walk of
// docs/internals/architecture.md. .ci/walk.sh calls it with the page and with folders of coverage data, separated
// by commas: of the worker and of enqueue without the message, and with it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"turnstile/test/walk"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: measure IDLE MESSAGE PAGE")
	}
	idle, err := covered(args[0])
	if err != nil {
		return err
	}
	passed, err := covered(args[1])
	if err != nil {
		return err
	}
	page, err := walk.Read(args[2])
	if err != nil {
		return err
	}
	var failed error
	for _, h := range page.Hops {
		if !passed[h] {
			failed = errors.Join(failed, fmt.Errorf("the message did not pass %s", h))
		}
	}
	// Some hops also run without a message: a loop that waits for one.
	maps.DeleteFunc(passed, func(h walk.Hop, _ bool) bool { return idle[h] && !slices.Contains(page.Hops, h) })
	var total walk.Totals
	functions, hops := perPackage(slices.Collect(maps.Keys(passed))), perPackage(page.Hops)
	fmt.Printf("%-28s %9s %5s\n", "package", "functions", "hops")
	for _, p := range slices.Sorted(maps.Keys(functions)) {
		total.Functions += functions[p]
		total.Packages++
		fmt.Printf("%-28s %9d %5d\n", p, functions[p], hops[p])
	}
	fmt.Printf("%-28s %9d %5d\n", "all", total.Functions, len(page.Hops))
	return errors.Join(failed, page.Compare(total))
}

func perPackage(hops []walk.Hop) map[string]int {
	counts := map[string]int{}
	for _, h := range hops {
		counts[h.Package()]++
	}
	return counts
}

// funcLine is a line of `go tool covdata func`: file:line:, function, per cent.
var funcLine = regexp.MustCompile(`^turnstile/(\S+\.go):[0-9]+:\s+(\S+)\s+([0-9.]+)%$`)

// covered are the functions that have run, by the counters of some folders.
func covered(dirs string) (map[walk.Hop]bool, error) {
	out, err := exec.CommandContext(context.Background(), "go", "tool", "covdata", "func", "-i="+dirs).Output()
	if err != nil {
		return nil, fmt.Errorf("read the coverage in %s: %w", dirs, err)
	}
	found := map[walk.Hop]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		m := funcLine.FindStringSubmatch(lines.Text())
		if m == nil || m[3] == "0.0" || strings.HasPrefix(m[1], "test/") {
			continue
		}
		found[walk.Hop{File: m[1], Func: strings.TrimPrefix(m[2], "*")}] = true
	}
	return found, nil
}
