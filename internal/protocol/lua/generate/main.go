// Command generate writes the files of package scripts into the current directory, and removes
// those without a move. go generate calls it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"turnstile/internal/protocol/lua"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate scripts:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := lua.Generate(lua.Files())
	if err != nil {
		return err
	}
	present, err := filepath.Glob("*")
	if err != nil {
		return err
	}
	for _, name := range present {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if _, wanted := files[name]; !wanted && lua.Generated(string(text)) {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
