package mutation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
)

// Overlay writes the files that mutations of "file:" change, and a file for go build's -overlay into dir.
// It returns that file's path. Each mutation's files are below its root, which may be a tree or GOROOT.
// Several may change one file, one after the other. added are further files: path to text.
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
