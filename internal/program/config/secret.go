package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"turnstile/internal/redis/redisconn"
)

// maxSecretLen bounds how much of a wrong file is read.
const maxSecretLen = 64 << 10

// fileName returns the variable that names a file with a setting's value, as Docker and
// Kubernetes mount secrets.
func fileName(setting string) string { return setting + "_FILE" }

// readFiles reads the values that are in files into vars. A flag overrides both of a setting's
// variables.
func (p *problems) readFiles(vars, flags map[string]string) {
	for _, s := range p.settings {
		name := fileName(s.Name)
		path := vars[name]
		if !s.File || path == "" || flags[s.Name] != "" {
			continue
		}
		var value string
		var err error
		if vars[s.Name] != "" {
			err = fmt.Errorf("is set, and %s too: unset one of them", s.Name)
		} else {
			value, err = readSecret(path)
		}
		if err != nil {
			p.add(name, "%v", err)
			p.failed[s.Name] = true // one problem is enough
			continue
		}
		vars[s.Name] = value
	}
}

// readSecret reads a file without its last line break. The error's text continues a sentence that
// begins with the variable's name.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be used: %w", FileProblem(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretLen+1))
	if err != nil {
		return "", fmt.Errorf("cannot be used: %w", FileProblem(err))
	}
	value := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(data) > maxSecretLen:
		return "", fmt.Errorf("cannot be used: %s has more than %d bytes: is it the right file?", path, maxSecretLen)
	case value == "":
		return "", fmt.Errorf("cannot be used: %s is empty: write the value into it", path)
	case strings.ContainsAny(value, "\r\n\x00"):
		return "", errors.New("cannot be used: " + path + " has more than one line: write the value alone into it")
	}
	return value, nil
}

// SecretFlag returns a warning, in one line, if a flag's value is a secret, or "". Every user of
// a machine can read the command lines of its processes. setting is the variable that the flag
// replaces.
func SecretFlag(flag, setting, value string) string {
	secret := slices.ContainsFunc(WorkerSettings(), func(s Setting) bool { return s.Name == setting && s.File })
	instead := fmt.Sprintf("set %s or %s instead", setting, fileName(setting))
	switch {
	case !secret || value == "":
		return ""
	case setting != "REDIS_URL":
		return fmt.Sprintf("--%s can be read by other users of this machine, and the next version does not have it: %s", flag, instead)
	case redisconn.ValidateURL(value) == nil && redisconn.HasPassword(value): // a malformed one is refused anyway
		return fmt.Sprintf("--%s has a password that other users of this machine can read, and the next version refuses that: %s", flag, instead)
	}
	return ""
}
