package world

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The users of docs/security.md, and the administrator, as whom the harness looks and strikes. The default user is off, as
// in production.
const (
	Admin  = "turnstile-admin"
	Sender = "turnstile-sender"

	worker  = "turnstile-worker"
	gateway = "turnstile-gateway"
)

// Password is everybody's.
const Password = "chaos"

// onACluster is what each user needs there in addition.
const onACluster = " +cluster|slots +cluster|info +command"

func (w *World) users() string { return filepath.Join(w.Dir, "users.acl") }

// writeUsers writes the servers' file of users, by docs/redis-users.sh.
func (w *World) writeUsers(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "sh", filepath.Join(w.Programs.Root, "docs/redis-users.sh"), "--file", w.users())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, role := range []string{"ADMIN", "WORKER", "SENDER", "GATEWAY"} {
		cmd.Env = append(cmd.Env, role+"_PASSWORD="+Password)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docs/redis-users.sh: %w: %s", err, out)
	}
	if w.Topology != Cluster {
		return nil
	}
	text, err := os.ReadFile(w.users())
	if err != nil {
		return err
	}
	return os.WriteFile(w.users(), []byte(strings.ReplaceAll(string(text), " +ping ", onACluster+" +ping ")), 0o600)
}
