// Command gateway serves sessions over HTTP.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/httpd"
	"turnstile/internal/text/printable"
	"turnstile/internal/version"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// The exit codes, as those of worker.
const (
	exitOK    = 0 // also after a drain
	exitOther = 1
	exitUsage = 2 // invalid settings, flags or arguments
)

// healthTimeout is below those of container health checks.
const healthTimeout = 4 * time.Second

// run is the whole program and returns the exit code. Cancelling ctx acts like SIGTERM.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	called := false
	out := daemon.NewOutput(stderr)
	said := printable.NewWriter(out)
	complain := func(text string) { fmt.Fprintln(said, "gateway: "+printable.Line(text)) }
	settings := func(c *cobra.Command) (config.Gateway, error) {
		called = true
		given := config.Flagged(c.Flags(), config.GatewaySettings())
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if warning := config.SecretFlag(config.FlagName(name), name, given[name]); warning != "" {
				complain(warning)
			}
		}
		return config.LoadGateway(environ, config.Options{Overrides: given})
	}
	root := command(
		func(c *cobra.Command) error {
			s, err := settings(c)
			if err != nil {
				return err
			}
			return serve(c.Context(), s, out)
		},
		func(c *cobra.Command) error {
			s, err := settings(c)
			if err != nil {
				return err
			}
			limited, cancel := context.WithTimeout(c.Context(), healthTimeout)
			defer cancel()
			return httpd.HealthCheck(limited, s.Addr)
		})
	root.SetArgs(append([]string{}, args...)) // nil would mean the process's own arguments
	root.SetOut(printable.NewWriter(stdout))
	root.SetErr(said)
	err := root.ExecuteContext(ctx)
	defer daemon.Flush(daemon.LastWords, out)
	if err != nil {
		daemon.Flush(daemon.LastWords, out) // makes room for the error
	}
	switch {
	case err == nil:
		return exitOK
	case !called:
		complain(err.Error() + "; see gateway --help")
	case errors.Is(err, config.ErrInvalid):
		for line := range strings.Lines(err.Error()) {
			complain(strings.TrimSpace(line))
		}
	default:
		complain(strings.Join(strings.Fields(err.Error()), " "))
		return exitOther
	}
	return exitUsage
}

// command makes the program's commands.
func command(serve, health func(*cobra.Command) error) *cobra.Command {
	root := &cobra.Command{
		Use: "gateway [settings as flags]", Short: "Serve sessions over HTTP", Long: helpText, Version: version.String(),
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(c *cobra.Command, _ []string) error { return serve(c) },
	}
	for _, name := range config.AddFlags(root.Flags(), config.GatewaySettings()) {
		_ = root.Flags().MarkHidden(name) // they exist, but the help lists them as settings
	}
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		if c == root {
			fmt.Fprint(c.OutOrStdout(), "\nSettings, each also a flag: --addr for TURNSTILE_GATEWAY_ADDR, --redis for REDIS_URL\n")
			_ = config.WriteHelp(c.OutOrStdout(), config.GatewaySettings())
		}
	})
	check := &cobra.Command{
		Use: "health", Short: "Check the health of a gateway", Long: healthHelp, Args: cobra.NoArgs, DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, _ []string) error { return health(c) },
	}
	config.AddFlags(check.Flags(), config.GatewaySettings(), "TURNSTILE_GATEWAY_ADDR")
	root.AddCommand(check)
	return root
}

const helpText = `gateway serves the sessions of one Redis over HTTP: messages in, replies and events
out, and the commands of users and operators. It runs no turns: workers do. Any number
of gateways may serve the same Redis: they store nothing themselves. With TURNSTILE_DELIVER it
also posts replies to webhooks.

  GET /openapi.yaml    the API
  GET /healthz         200 while the process works
  GET /readyz          200 while Redis responds, somebody reads the log, and the
                       gateway does not drain
  GET /metrics         for tokens that may operate
  GET /scale           the load, for tokens that may operate

Signals
  SIGTERM or SIGINT: the gateway drains. It takes no new connections, ends event
  streams and waits, so that their clients continue at another gateway, and lets other
  requests finish for TURNSTILE_GATEWAY_DRAIN_TIMEOUT. A second signal ends it at once.
  SIGHUP: the gateway reloads the files of tokens and destinations.

Exit codes
  0    a signal ended it
  1    Redis cannot be reached or is unfit, or an address is taken
  2    invalid settings, tokens, flags or arguments; each problem is a line on stderr`

const healthHelp = `health requests /healthz of the gateway on TURNSTILE_GATEWAY_ADDR. Exit code 0: it
is healthy; 1: it is not, or does not respond. A gateway that drains, or waits for
Redis to come back, is healthy.`
