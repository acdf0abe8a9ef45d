package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/http/gateway"
	"turnstile/internal/program/config"
	"turnstile/internal/protocol/agents"
	"turnstile/pkg/admin"
)

const agentsHelp = `agents lists the agents of TURNSTILE_AGENTS_FILE and of the living workers. WORKERS is how
many workers run an agent: a session of an agent with none waits. If the workers' default
agents differ, KIND of default has them all, and a line on stderr says so. Without the file, or
if an agent is not in it, KIND and SESSIONS are "-".

With --json it prints one array, and errors as plain text on stderr:
  {"agent","kind","sessions":[],"workers"}`

const agentsCheckHelp = `check reads TURNSTILE_AGENTS_FILE as a worker does at its start, and checks that the
programs, files and directories that it names are there. Each mistake is a line on
stderr, and the exit code is 2. It warns if several agents share a key.`

func (p *Program) agentsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "agents", Short: "List the agents by name, or check their file", Long: agentsHelp, Args: noWord,
		RunE: func(c *cobra.Command, _ []string) error { return p.agents(c.Context(), flagged(c), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	addSettings(c, "REDIS_URL", "TURNSTILE_AGENTS_FILE")
	check := &cobra.Command{
		Use: "check", Short: "Check TURNSTILE_AGENTS_FILE", Long: agentsCheckHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.checkAgents(flagged(c)) },
	}
	addSettings(check, "TURNSTILE_AGENTS_FILE", "TURNSTILE_AGENTS")
	c.AddCommand(check)
	return c
}

// checkAgents checks the file as a worker does that starts.
func (p *Program) checkAgents(flags map[string]string) error {
	s, err := p.served(flags, nil)
	if err != nil {
		return err
	}
	if s.AgentsFile == "" {
		return fmt.Errorf("%w TURNSTILE_AGENTS_FILE is not set: name the file to check", config.ErrInvalid)
	}
	s.Agent = "" // the environment's agent is not in the file
	if err := p.CheckAgents(s); err != nil {
		return err
	}
	names := make([]string, len(s.Agents))
	for i, n := range s.Agents {
		names[i] = n.Name
	}
	for _, line := range sharedKeys(s, p.Environ) {
		p.Complain(line)
	}
	return p.say("%s is right. Its agents: %s", s.AgentsFile, strings.Join(names, ", "))
}

// vendorKeys are the variables in which the programs of agents look for their keys.
var vendorKeys = map[config.AgentKind][]string{
	config.AgentClaude: {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"},
	config.AgentCodex:  {"CODEX_API_KEY", "OPENAI_API_KEY"},
	config.AgentGemini: {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
}

// sharedKeys warns of keys in the worker's environment that several agents' programs get.
func sharedKeys(s config.Worker, environ []string) (warnings []string) {
	for _, kind := range slices.Sorted(maps.Keys(vendorKeys)) {
		for _, key := range vendorKeys[kind] {
			isKey := func(variable string) bool { return strings.HasPrefix(variable, key+"=") }
			var who []string
			for _, n := range s.Agents {
				if n.Agent == kind && !slices.ContainsFunc(n.Set, isKey) {
					who = append(who, n.Name)
				}
			}
			if len(who) > 1 && slices.ContainsFunc(environ, isKey) && !slices.Contains(s.AgentsOwn, key) {
				warnings = append(warnings, fmt.Sprintf(`the agents %s share the key %s of the worker's environment: give each its own with "env": {%q: {"from": "VARIABLE"}}`,
					strings.Join(who, ", "), key, key))
			}
		}
	}
	return warnings
}

// agentRow is one agent in the list.
type agentRow struct {
	Agent    string   `json:"agent"`
	Kind     string   `json:"kind"`
	Sessions []string `json:"sessions"`
	Workers  int      `json:"workers"`
}

func (p *Program) agents(ctx context.Context, flags map[string]string, asJSON bool) error {
	named, err := p.agentsInFile(flags)
	if err != nil {
		return err
	}
	rows := map[string]agentRow{}
	for _, n := range named {
		rows[n.Name] = agentRow{Kind: string(n.Agent), Sessions: n.Sessions}
	}
	refused := ""
	var differ []string
	err = p.withAdmin(ctx, flags, func(client *admin.Client, rdb redis.UniversalClient) error {
		workers, err := client.Workers(ctx)
		if len(workers) == 0 {
			_, refused = hasNoWorker(ctx, rdb)
		}
		differ = gateway.DefaultAgents(workers)
		for _, w := range workers {
			for _, name := range w.Agents {
				row := rows[name]
				if row.Workers++; name == agents.Default && row.Kind == "" {
					row.Kind = cmp.Or(strings.Join(differ, ", "), w.Agent)
				}
				rows[name] = row
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	list := []agentRow{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		row.Agent, row.Sessions = name, append([]string{}, row.Sessions...)
		list = append(list, row)
	}
	if refused != "" {
		p.Complain(refused)
	}
	if len(differ) > 0 {
		p.Complain("workers have different default agents, so it is chance which one runs a turn: give each worker the same one, or each agent a name (TURNSTILE_AGENTS_FILE)")
	}
	switch {
	case asJSON:
		return p.printJSON(list)
	case len(list) == 0 && refused != "":
		return nil
	case len(list) == 0:
		return p.say("There is no agent: TURNSTILE_AGENTS_FILE is not set, and no worker is running.")
	}
	t := p.table()
	t.row("AGENT", "KIND", "SESSIONS", "WORKERS")
	for _, row := range list {
		t.row(row.Agent, orDash(row.Kind), orDash(strings.Join(row.Sessions, " ")), row.Workers)
	}
	return t.end()
}
