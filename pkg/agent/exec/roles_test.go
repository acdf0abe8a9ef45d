package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"turnstile/internal/text/strictjson"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// roles are the programs as which the test binary can run.
var roles map[string]func(args []string) int

func init() {
	roles = map[string]func([]string) int{
		"tree":   treeRole,
		"branch": branchRole,
		"worker": workerRole,
		"steers": steersRole,
	}
}

func roleCommand(role string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, "test-role", role}, args...)
}

// treeRole is an agent with every kind of descendant. All of them ignore signals and hold its
// stdout open. It writes their pids, its guardian's first. With the argument "exit" it then ends
// without them.
func treeRole(args []string) int {
	deaf()
	pids := []int{os.Getppid(), os.Getpid()}
	for _, kind := range []string{"plain", "group", "session", "orphan", "orphan-session"} {
		pid, err := startBranch(kind)
		if err != nil {
			fmt.Fprintln(os.Stderr, kind, err)
			return 1
		}
		pids = append(pids, pid)
	}
	fmt.Println(strings.Trim(fmt.Sprint(pids), "[]"))
	if len(args) > 0 && args[0] == "exit" {
		return 0
	}
	return forever()
}

func deaf() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// startBranch starts a descendant that stays, and returns its pid.
func startBranch(kind string) (int, error) {
	argv := roleCommand("branch", kind)
	cmd := osexec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	switch kind {
	case "group":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	case "session", "orphan-session":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.ExtraFiles = []*os.File{os.Stdout}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	if strings.HasPrefix(kind, "orphan") {
		_ = cmd.Wait() // its parent ended, so init adopts it
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

func branchRole(args []string) int {
	deaf()
	if strings.HasPrefix(args[0], "orphan") {
		argv := roleCommand("branch", "stay")
		cmd := osexec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "agent's stdout")}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	fmt.Println(os.Getpid())
	_ = os.Stdout.Close()
	return forever()
}

// forever waits to be killed. The runtime would report an empty select as a deadlock.
func forever() int {
	for {
		time.Sleep(time.Hour)
	}
}

// steersRole is a jsonl agent that carries out args one after the other: a line to print, or one of
// the words below. To wait is to read the fifo that the turn's message names.
func steersRole(args []string) int {
	in := bufio.NewReader(os.Stdin)
	var turn agent.Turn
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &turn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the turn:", err)
		return 9
	}
	say := func(of session.EventType, key, value string) {
		data, _ := json.Marshal(map[string]string{"type": string(of), key: value})
		fmt.Println(string(data))
	}
	var steer steerLine
	for _, arg := range args {
		switch arg {
		case "deaf":
			deaf()
		case "announce":
			fmt.Println(`{"type":"ready","steers":true}`)
		case "read": // one steer, and report it
			line, err := in.ReadBytes('\n')
			if err == nil {
				err = strictjson.Decode(line, &steer)
			}
			if err != nil || steer.Type != "steer" {
				fmt.Fprintf(os.Stderr, "read a steer: %.80q: %v\n", line, err)
				return 9
			}
			say(session.EventText, "text", steer.Message.Text)
		case "ack":
			say("steered", "id", steer.Message.ID)
		case "wait": // for the test
			data, err := os.ReadFile(turn.Messages[0].Text)
			if err != nil || len(data) > 0 {
				fmt.Fprintln(os.Stderr, "wait:", err)
				return 9
			}
		case "rest": // stdin must end without another line
			if rest, _ := io.ReadAll(in); len(rest) > 0 {
				fmt.Fprintf(os.Stderr, "unasked for: %.80q\n", rest)
				return 8
			}
		case "drain":
			_, _ = io.Copy(io.Discard, in)
		case "hang":
			time.Sleep(time.Hour)
		default:
			fmt.Println(arg)
		}
	}
	return 0
}

// workerRole runs one turn of the tree agent under a lease of args[1] that it renews, and copies
// the agent's output. Tests kill it.
func workerRole(args []string) int {
	ttl, err := time.ParseDuration(args[1])
	if err != nil {
		return 2
	}
	a, err := New(Config{Command: roleCommand("tree")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = a.Run(context.Background(), &agent.Turn{ID: args[0], Host: agent.Host{
		Emit: func(e agent.Event) { fmt.Println(e.Text) }, Lease: renewed(context.Background(), ttl),
	}})
	fmt.Println("end:", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
