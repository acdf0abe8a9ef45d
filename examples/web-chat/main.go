// Command web-chat is a chat on a web page. It serves the page, and is a proxy between the page and
// the gateway. It holds the token, so the browser never has it, and gives each visitor a separate
// session. The page gets the reply directly from the gateway, with a ticket. See README.md.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	addr := cmp.Or(os.Getenv("WEB_CHAT_ADDR"), "127.0.0.1:8090")
	chat := newChat(cmp.Or(os.Getenv("TURNSTILE_URL"), "http://127.0.0.1:8081"), os.Getenv("TURNSTILE_TOKEN"))
	fmt.Fprintln(os.Stderr, "web-chat: http://"+addr)
	server := &http.Server{Addr: addr, Handler: chat, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "web-chat:", err)
		os.Exit(1)
	}
}
