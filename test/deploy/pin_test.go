package deploy

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// registry is the part of an image registry that `make pin` uses: its manifests are public, but
// need a token.
type registry struct {
	*httptest.Server

	mu    sync.Mutex
	gone  string // a name and tag that do not exist
	asked []string
}

func startRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /token", func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, `{"token":"for %s of %s"}`, q.FormValue("scope"), q.FormValue("service"))
	})
	mux.HandleFunc("GET /v2/{space}/{name}/manifests/{tag}", func(w http.ResponseWriter, q *http.Request) {
		repository := q.PathValue("space") + "/" + q.PathValue("name")
		scope := "repository:" + repository + ":pull"
		if q.Header.Get("Authorization") != "Bearer for "+scope+" of the registry" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="the registry",scope="%s"`, r.URL, scope))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		image := repository + ":" + q.PathValue("tag")
		r.asked = append(r.asked, image)
		if image == r.gone || !strings.Contains(q.Header.Get("Accept"), "image.index") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Docker-Content-Digest", "sha256:not-what-was-sent")
		fmt.Fprint(w, manifest(image))
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

// expects forgets the earlier requests, and removes an image.
func (r *registry) expects(gone string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone, r.asked = gone, nil
}

func (r *registry) wasAsked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

func manifest(image string) string { return `{"schemaVersion":2,"of":"` + image + `"}` }

// pin runs make pin's script on copies of the two files.
func pin(t *testing.T, r *registry, files ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), root+"/.ci/pin.sh", files...)
	cmd.Env = append(os.Environ(), "PIN_REGISTRY="+r.URL)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestPin(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"curl", "jq", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	r := startRegistry(t)
	dir := t.TempDir()
	var files []string
	before := map[string]string{}
	for _, name := range []string{"docker-compose.yml", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		files, before[file] = append(files, file), string(text)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	image := regexp.MustCompile(`(?m)^(?:FROM|\s+image:) (\S+:\S+)`)

	r.expects("library/" + image.FindStringSubmatch(before[files[1]])[1])
	if out, err := pin(t, r, files...); err == nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("with an unknown image: %v, %s", err, out)
	}
	for _, file := range files {
		if read(file) != before[file] {
			t.Errorf("%s was changed nevertheless", file)
		}
	}
	r.expects("")
	// The second time the digests are there.
	for range 2 {
		r.expects("")
		if out, err := pin(t, r, files...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		found := 0
		for _, file := range files {
			after := read(file)
			for _, match := range image.FindAllStringSubmatch(before[file], -1) {
				found++
				wantPinned(t, match[1])
				digest := fmt.Sprintf("@sha256:%x", sha256.Sum256([]byte(manifest("library/"+match[1]))))
				if !strings.Contains(after, match[1]+digest) {
					t.Errorf("%s: %s has not the digest %s:\n%s", file, match[1], digest, after)
				}
				after = strings.ReplaceAll(after, digest, "")
			}
			if after != before[file] {
				t.Errorf("%s differs in more than digests:\n%s", file, after)
			}
		}
		asked := r.wasAsked()
		if found < 3 || len(asked) != found || slices.Contains(asked, "library/turnstile:latest") {
			t.Errorf("%d images, asked for %q", found, asked)
		}
	}
}
