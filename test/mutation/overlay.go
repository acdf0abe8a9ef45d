package mutation

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing/fstest"

	"turnstile/internal/protocol/lua"
)

// Overlay writes the files that mutations of "file:" change, and a file for go build's -overlay into dir.
// It returns that file's path. Each mutation's files are below its root, which may be a tree or GOROOT.
// Several may change one file, one after the other. added are further files: path to text. A change of
// the protocol's Lua also changes the files that are generated from it.
func Overlay(dir string, roots map[string][]Mutation, added map[string]string) (path string, err error) {
	texts := map[string]string{}
	for file, text := range added {
		texts[file] = text
	}
	for root, all := range roots {
		root, err := filepath.Abs(root)
		if err != nil {
			return "", err
		}
		for _, m := range all {
			file := filepath.Join(root, m.Head["file"])
			text, seen := texts[file]
			if !seen {
				original, err := os.ReadFile(file)
				if err != nil {
					return "", err
				}
				text = string(original)
			}
			if texts[file], err = m.Edit(text); err != nil {
				return "", err
			}
		}
		if err := generate(filepath.Join(root, "internal/protocol"), texts); err != nil {
			return "", err
		}
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range texts {
		copied := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+"-"+filepath.Base(file))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[file] = copied
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// generate adds the generated files of the protocol that change with its Lua files in texts.
func generate(protocol string, texts map[string]string) error {
	changed, all := filepath.Join(protocol, "lua")+"/", fstest.MapFS{}
	for file, text := range texts {
		if name, ours := strings.CutPrefix(file, changed); ours {
			all[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	if len(all) == 0 {
		return nil
	}
	sources := os.DirFS(changed)
	for _, pattern := range []string{"*.lua", "lib/*.lua"} {
		names, err := fs.Glob(sources, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if all[name] != nil {
				continue
			}
			text, err := fs.ReadFile(sources, name)
			if err != nil {
				return err
			}
			all[name] = &fstest.MapFile{Data: text}
		}
	}
	made, err := lua.Sources(all)
	for name, script := range made {
		file := filepath.Join(protocol, "scripts", name+".lua")
		if was, err := os.ReadFile(file); err != nil {
			return err
		} else if string(was) != script.Source {
			texts[file] = script.Source
		}
	}
	return err
}
