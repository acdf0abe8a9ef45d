package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	begin = "<!-- peers: begin. `make bench-peers` with PEERS=-write replaces what is between these marks. -->\n"
	end   = "<!-- peers: end -->"
)

// replace puts text between the marks of a page.
func replace(page, text string) (string, error) {
	before, rest, begun := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return "", fmt.Errorf("the page lacks %q or %q", strings.TrimSpace(begin), end)
	}
	return before + begin + text + end + after, nil
}

// write puts the results into docs: the tables into the page, the pictures next to it.
func write(docs, text string, all results, chosen []peer) error {
	path := filepath.Join(docs, "benchmarks.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := replace(string(page), text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name, content := range map[string][]byte{
		"benchmarks.md":       []byte(changed),
		"peers-rate.svg":      ratePicture(all, chosen).SVG(),
		"peers-processor.svg": processorPicture(all, chosen).SVG(),
	} {
		if err := os.WriteFile(filepath.Join(docs, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
