package preset

import (
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"turnstile/internal/guardian"
)

var roles = map[string]func(args []string) int{
	"models": func(args []string) int {
		m := &models{}
		h := m.handler()
		fmt.Fprintln(os.Stderr, http.ListenAndServe(args[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(os.Stderr, r.Method, r.URL, r.ContentLength)
			h.ServeHTTP(w, r)
			if s := m.seen(); len(s) > 0 {
				fmt.Fprintf(os.Stderr, "   %+v\n", s[len(s)-1])
			}
		})))
		return 1
	},
}

func TestMain(m *testing.M) {
	guardian.Init()
	if len(os.Args) > 2 && os.Args[1] == "test-role" {
		syscall.Exit(roles[os.Args[2]](os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}
