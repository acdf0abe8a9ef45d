package operator

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"turnstile/internal/chat/slash"
	"turnstile/internal/program/config"
	"turnstile/internal/version"
)

// Command is the program with its commands.
func (p *Program) Command() *cobra.Command {
	var dev bool
	root := &cobra.Command{
		Use:                   p.Name + " [--dev] [settings as flags]",
		Short:                 "Run an agent for the messages of sessions",
		Long:                  p.Help,
		Version:               version.String(),
		Args:                  noWord,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
		CompletionOptions:     cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE:     p.begin,
		RunE:                  func(c *cobra.Command, _ []string) error { return p.Work(c.Context(), flagged(c), dev) },
	}
	root.Flags().BoolVar(&dev, "dev", false, "try things out: needs nothing else, keeps nothing")
	for _, name := range config.AddFlags(root.Flags(), p.Settings) {
		_ = root.Flags().MarkHidden(name) // they exist, but the help lists them as settings
	}
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		if c == root {
			fmt.Fprint(c.OutOrStdout(), "\n"+settingsHeading)
			_ = config.WriteHelp(c.OutOrStdout(), p.Settings)
		}
	})
	root.SetHelpCommand(helpCommand(root))
	root.AddCommand(p.psCommand(), p.lsCommand(), p.showCommand(), p.auditCommand(), p.deadCommand(), p.outboxCommand(), p.exportCommand(), p.forgetCommand(), p.dashboardCommand(), p.healthCommand(), p.tenantsCommand())
	if p.CheckAgents != nil {
		root.AddCommand(p.agentsCommand())
	}
	return root
}

// begin runs before every command.
func (p *Program) begin(c *cobra.Command, _ []string) error {
	if f := c.Flags().Lookup("redis"); f != nil && f.Changed && f.Value.String() == "" {
		return errors.New("--redis is empty: give it a URL, or leave it out for REDIS_URL")
	}
	p.called = true
	given := flagged(c)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if warning := config.SecretFlag(config.FlagName(name), name, given[name]); warning != "" {
			p.Complain(warning)
		}
	}
	return nil
}

// noWord refuses words after a command that takes only commands, with a suggestion.
func noWord(c *cobra.Command, words []string) error {
	if len(words) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", words[0], c.CommandPath())
	for _, known := range c.Commands() {
		if slash.Mistyped(words[0], known.Name()) {
			text += fmt.Sprintf(": did you mean %q?", known.Name())
			break
		}
	}
	return errors.New(text)
}

// helpCommand is cobra's, except that it refuses words that are not a command.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about a command", DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = noWord(c, rest)
			}
			return err
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, _, err := root.Find(args)
			if err != nil {
				return err
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}

func (p *Program) psCommand() *cobra.Command {
	var asJSON, workers bool
	c := &cobra.Command{
		Use: "ps", Short: "List the sessions with running turns or waiting messages, or the workers", Long: psHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if workers {
				return p.workers(c.Context(), flagged(c), asJSON)
			}
			return p.ps(c.Context(), flagged(c), asJSON)
		},
	}
	c.Flags().BoolVar(&workers, "workers", false, "list the running workers instead")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	addSettings(c, "REDIS_URL")
	return c
}

func (p *Program) showCommand() *cobra.Command {
	var asJSON, follow bool
	c := &cobra.Command{
		Use: "show SESSION", Short: "Show one session with its transcript and its running turn", Long: showHelp, Args: oneSession,
		RunE: func(c *cobra.Command, args []string) error {
			return p.show(c.Context(), flagged(c), args[0], asJSON, follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "then print the running turn as it runs, until its end or Ctrl-C")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	addSettings(c, "REDIS_URL")
	return c
}

func oneSession(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one SESSION, but got %d", c.Name(), len(args))
	}
	return nil
}

func (p *Program) dashboardCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "dashboard", Short: "Serve asynqmon and nothing else", Long: dashboardHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.dashboard(c.Context(), flagged(c)) },
	}
	addSettings(c, "REDIS_URL", "TURNSTILE_HTTP_ADDR", "TURNSTILE_HTTP_TOKEN", "TURNSTILE_DASHBOARD_WRITE", "TURNSTILE_LOG_LEVEL", "TURNSTILE_LOG_FORMAT")
	return c
}

func (p *Program) healthCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "Check the health of a worker or dashboard", Long: healthHelp, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.health(c.Context(), flagged(c)) },
	}
	addSettings(c, "TURNSTILE_HTTP_ADDR")
	return c
}

// addSettings gives a command a flag for each of the named settings.
func addSettings(c *cobra.Command, names ...string) {
	config.AddFlags(c.Flags(), config.WorkerSettings(), names...)
}

// flagged are the settings that were given as flags.
func flagged(c *cobra.Command) map[string]string {
	return config.Flagged(c.Flags(), config.WorkerSettings())
}
