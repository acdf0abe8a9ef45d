package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"turnstile/internal/program/config"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/operator"
	"turnstile/internal/redis/devredis"
	"turnstile/internal/text/printable"
)

const (
	redisPort = 6379 // of config's default REDIS_URL, which enqueue uses too
	httpPort  = "8080"
)

// welcome is the text that --dev prints first.
func (d *devMode) welcome(s config.Worker, server *httpd.Server) string {
	var b strings.Builder
	row := func(name, text string, notes ...string) {
		fmt.Fprintf(&b, "  %s %s\n", d.style.Faint(fmt.Sprintf("%-10s", name)), text)
		for _, note := range notes {
			fmt.Fprintf(&b, "  %-10s %s\n", "", note)
		}
	}
	title := "Turnstile, for trying things out."
	if d.redis != nil {
		title += " Nothing is kept when it ends."
	}
	fmt.Fprintf(&b, "\n%s\n\n", d.style.Strong(title))
	row("Redis", d.redisRow(), d.takenNote(d.redis != nil && d.redis.Port() != redisPort, fmt.Sprint(redisPort))...)
	switch s.Agent {
	case config.AgentEcho:
		row("agent", "echo: it replies with the message; try sleep=3s hello")
	case config.AgentModel:
		row("agent", printable.Line("model: "+s.Model+" on "+s.ModelURL))
	default:
		name := string(s.Agent)
		if len(s.Command) > 0 {
			name += ": " + s.Command[0]
		}
		row("agent", printable.Line(name))
	}
	if server != nil {
		_, port, _ := net.SplitHostPort(server.Addr())
		notes := d.takenNote(d.any && port != httpPort, httpPort)
		if d.token != "" {
			notes = append(notes, d.style.Faint("Both ask for the password in that address, since the agent's programs reach them too."))
		}
		row("board", "http://"+server.Addr()+"/board/")
		row("dashboard", operator.AsynqmonURL(server, d.token), notes...)
	}

	// enqueue finds a Redis on the usual port by itself. A second --dev starts its Redis on another
	// port.
	sender, second, where := "", "", "In another terminal:"
	switch {
	case d.redis == nil:
		where = "In another terminal, with the same REDIS_URL:"
	case d.redis.Port() != redisPort:
		sender = "REDIS_URL=" + d.redis.URL() + " "
		second = sender
	default:
		second = "REDIS_URL=" + d.redis.URL() + " "
	}
	fmt.Fprintf(&b, "\n%s\n\n", where)
	row("a message", d.style.Strong(sender+printable.Line(command("enqueue"))+" -s demo --wait hello"))
	row("a worker", second+printable.Line(command("worker"))+" --dev")
	if d.in != nil {
		fmt.Fprintf(&b, "\nOr type a message here; its session is %s. /help lists commands. Ctrl-C or Ctrl-D ends all.\n", consoleSession)
	}
	return b.String()
}

func (d *devMode) redisRow() string {
	switch {
	case d.redis == nil:
		return "the one of REDIS_URL"
	case d.redis.Kind() == devredis.KindServer:
		return d.redis.URL() + ", a redis-server of its own"
	}
	return d.redis.URL() + ", embedded in this program"
}

func (d *devMode) takenNote(taken bool, port string) []string {
	if !taken {
		return nil
	}
	return []string{d.style.Alert("not the usual port: " + port + " is taken by another program")}
}

// command is the command line for one of these programs, in the way that this one was called.
func command(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	// go run puts this program alone into a temporary directory.
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), "enqueue")); err != nil {
		if _, err := os.Stat(filepath.Join("cmd", name, "main.go")); err == nil {
			return "go run ./cmd/" + name
		}
		return name
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if found, err := exec.LookPath(name); err == nil && same(found, beside) {
		return name
	}
	if dir, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(dir, beside); err == nil && !strings.HasPrefix(short, "..") {
			return "." + string(filepath.Separator) + short
		}
	}
	return beside
}

func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
