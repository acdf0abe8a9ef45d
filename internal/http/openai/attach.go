package openai

import (
	"encoding/base64"
	"mime"
	"path"
	"strings"

	"turnstile/pkg/session"
)

// attach adds a file or an image by its URL: of http, or a data URL. The gateway stores no files. An
// image is given an image type: without it an agent would only read its name.
func attach(files []session.Attachment, param, url, name, kind string) ([]session.Attachment, error) {
	a := session.Attachment{Name: name, URL: url}
	switch scheme, rest, _ := strings.Cut(url, ":"); strings.ToLower(scheme) {
	case "http", "https":
		at, _, _ := strings.Cut(rest, "?")
		if strings.Trim(at, "/") == "" {
			return nil, refuse(param, "The URL %.100q has no host.", url)
		}
		base := path.Base(at)
		a.Mime = typeOf(path.Ext(base))
		if a.Name == "" && (kind == "file" || path.Ext(base) != "") {
			a.Name = base
		}
	case "data":
		about, data, ok := strings.Cut(rest, ",")
		about, encoded := strings.CutSuffix(about, ";base64")
		decoded, err := base64.StdEncoding.DecodeString(data)
		if a.Mime, _, _ = mime.ParseMediaType(about); !ok || !encoded || err != nil || a.Mime == "" {
			return nil, refuse(param, "A data URL is data:TYPE;base64,DATA, with a type such as image/png.")
		}
		if kind == "image" && !strings.HasPrefix(a.Mime, "image/") {
			return nil, refuse(param, "The data URL of an image has the type %.100q, which is none of an image: send it as a file.", a.Mime)
		}
		a.Size = int64(len(decoded))
	default:
		return nil, refuse(param, "A file or image needs an http, https or data URL: the gateway stores no files.")
	}
	if kind == "image" && !strings.HasPrefix(a.Mime, "image/") {
		a.Mime = "image/*"
	}
	if a.Name == "" {
		a.Name = kind
	}
	return append(files, a), nil
}

// typeOf is the media type of a file's extension, "" if it is unknown.
func typeOf(extension string) string {
	kind, _, _ := strings.Cut(mime.TypeByExtension(strings.ToLower(extension)), ";")
	return kind
}
