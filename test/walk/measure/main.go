// Command measure counts the functions that one message passes, and checks that the walk of
// docs/architecture.md is among them. It takes two folders of coverage data, written by
// test/walk/one, and the page.
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
	"path"
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
	if len(args) != 2 {
		return errors.New("usage: measure COVERAGE PAGE")
	}
	idle, err := covered(path.Join(args[0], "idle"))
	if err != nil {
		return err
	}
	all, err := covered(path.Join(args[0], "message"))
	if err != nil {
		return err
	}
	hops, err := walk.Read(args[1])
	if err != nil {
		return err
	}
	type count struct{ functions, hops int }
	counts := map[string]*count{}
	at := func(h walk.Hop) *count {
		if counts[h.Package()] == nil {
			counts[h.Package()] = &count{}
		}
		return counts[h.Package()]
	}
	for h := range all {
		if !idle[h] {
			at(h).functions++
		}
	}
	var failed error
	for _, h := range hops {
		if strings.HasPrefix(h.File, "cmd/") {
			at(h).hops++ // another process, see test/walk/one
			continue
		}
		if !all[h] {
			failed = errors.Join(failed, fmt.Errorf("no message came through %s", h))
		}
		at(h).hops++
	}
	var functions int
	fmt.Printf("%-24s %9s %5s\n", "package", "functions", "hops")
	for _, p := range slices.Sorted(maps.Keys(counts)) {
		c := counts[p]
		functions += c.functions
		fmt.Printf("%-24s %9d %5d\n", p, c.functions, c.hops)
	}
	fmt.Printf("%-24s %9d %5d\n", "all", functions, len(hops))
	return failed
}

// funcLine is a line of `go tool covdata func`: file:line:, function, per cent.
var funcLine = regexp.MustCompile(`^turnstile/(\S+\.go):[0-9]+:\s+(\S+)\s+([0-9.]+)%$`)

// covered are the functions that have run, by a folder's counters.
func covered(dir string) (map[walk.Hop]bool, error) {
	out, err := exec.CommandContext(context.Background(), "go", "tool", "covdata", "func", "-i", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("read the coverage in %s: %w", dir, err)
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
