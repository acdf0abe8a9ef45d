package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// Agreed returns the settings of a program that must be the same everywhere, by name: those tagged agree,
// as they are now. Others can read them in Redis, so the tag says how: value; hash, of a text that may
// have a secret; file, a hash of the file's text; given, the same unless there is no file.
func Agreed(settings any) map[string]string {
	all, v := map[string]string{}, reflect.ValueOf(settings)
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, value := field.Tag.Get("env"), strings.Trim(fmt.Sprint(v.FieldByIndex(field.Index)), "[]")
		switch as := field.Tag.Get("agree"); as {
		case "value":
			all[name] = value
		case "hash":
			all[name] = digest(value)
		case "file", "given":
			if info, err := os.Stat(value); as == "given" && value == "" || err == nil && !info.Mode().IsRegular() {
				continue // a pipe can be read once
			}
			text, _ := os.ReadFile(value)
			all[name] = digest(string(text))
		}
	}
	return all
}

// digest is two bytes of a text's hash: they tell two texts apart, and say next to nothing about a secret.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("#%x", sum[:2])
}
