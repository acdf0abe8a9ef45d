package operator

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/program/config"
	"turnstile/internal/protocol/tenants"
	"turnstile/pkg/admin"
)

const tenantsHelp = `tenants lists the entries of the table by which workers share their slots: tenants, and agents
with a limit. CAP is how many of its sessions may run at once, RUNNING how many do, and HELD
how many wait for one of them to end. NAME * is each one without an entry; those are not
counted in its row.

tenants apply FILE stores a table, or a changed one. Workers use it within 5 s, and their
turns go on. Each mistake is a line on stderr, with exit code 2, and nothing is stored.
docs/tenants.md has its form. tenants check FILE only checks it. tenants remove removes the
table: sessions run first come, first served, without limits.

With --json it prints one array, and errors as plain text on stderr:
  {"kind":"tenant|agent","name","weight","cap","running","held"}`

func (p *Program) tenantsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "tenants", Short: "List, apply or remove the table of tenants", Long: tenantsHelp, Args: noWord,
		RunE: func(c *cobra.Command, _ []string) error { return p.tenants(c.Context(), flagged(c), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	file := func(name, short string, run func(context.Context, map[string]string, string) error) {
		one := &cobra.Command{
			Use: name + " FILE", Short: short, Long: tenantsHelp,
			Args: func(c *cobra.Command, args []string) error {
				if len(args) != 1 {
					return fmt.Errorf("tenants %s takes one FILE, but got %d", c.Name(), len(args))
				}
				return nil
			},
			RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), flagged(c), args[0]) },
		}
		if name == "apply" {
			addSettings(one, "REDIS_URL")
		}
		c.AddCommand(one)
	}
	file("apply", "Store a table of tenants for all workers", p.applyTenants)
	file("check", "Check a table of tenants", func(_ context.Context, _ map[string]string, path string) error {
		if _, err := readTenants(path); err != nil {
			return err
		}
		return p.say("%s is right.", path)
	})
	remove := &cobra.Command{
		Use: "remove", Short: "Remove the table of tenants", Long: tenantsHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := p.withAdmin(c.Context(), flagged(c), func(client *admin.Client, _ redis.UniversalClient) error {
				return client.RemoveTenants(c.Context())
			})
			if err != nil {
				return err
			}
			return p.say("There are no tenants any more: sessions run first come, first served.")
		},
	}
	addSettings(c, "REDIS_URL")
	addSettings(remove, "REDIS_URL")
	c.AddCommand(remove)
	return c
}

// readTenants reads a file and checks it.
func readTenants(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w tenants: %w", config.ErrInvalid, config.FileProblem(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, tenants.MostBytes+1))
	if err == nil {
		_, err = tenants.Parse(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%w tenants: %w", config.ErrInvalid, err)
	}
	return data, nil
}

func (p *Program) applyTenants(ctx context.Context, flags map[string]string, path string) error {
	data, err := readTenants(path)
	if err != nil {
		return err
	}
	err = p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) error { return client.ApplyTenants(ctx, data) })
	if err != nil {
		return err
	}
	return p.say("The tenants of %s apply: workers use them within 5 s.", path)
}

// limitRow is one entry in the list.
type limitRow struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Weight  int    `json:"weight"`
	Cap     int    `json:"cap"`
	Running int    `json:"running"`
	Held    int    `json:"held"`
}

func (p *Program) tenants(ctx context.Context, flags map[string]string, asJSON bool) error {
	rows := []limitRow{}
	there := false
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) (err error) {
		var list []admin.Limit
		list, there, err = client.Limits(ctx)
		for _, l := range list {
			rows = append(rows, limitRow(l))
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return p.printJSON(rows)
	case !there:
		return p.say("There are no tenants: sessions run first come, first served. Apply a table with: %s tenants apply FILE", p.Name)
	case len(rows) == 0:
		return p.say("The table has no entries: each beginning of sessions' keys up to the first colon is a tenant with weight 1.")
	}
	orDashNumber := func(n int) any {
		if n == 0 {
			return "-"
		}
		return n
	}
	t := p.table()
	t.row("KIND", "NAME", "WEIGHT", "CAP", "RUNNING", "HELD")
	for _, row := range rows {
		t.row(row.Kind, row.Name, orDashNumber(row.Weight), orDashNumber(row.Cap), row.Running, row.Held)
	}
	return t.end()
}
