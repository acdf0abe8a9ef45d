package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"turnstile/internal/mcp"
)

// codexServers gives Codex servers by its option -c, one table of TOML each. All users of the machine can read options:
// headers, and values that came from variables, are in Codex's environment, and the option has their names.
func codexServers(f *mcp.File) (options, env []string, err error) {
	given := map[string]string{}
	for _, s := range f.Servers {
		var fields []string
		if s.Command != "" {
			fields = append(fields, "command="+toml(s.Command), "args="+toml(append([]string{}, s.Args...)))
			var plain []string
			for _, key := range slices.Sorted(maps.Keys(s.Env)) {
				if !slices.Contains(s.Referring, key) {
					plain = append(plain, toml(key)+"="+toml(s.Env[key]))
				}
			}
			fields = append(fields, "env={"+strings.Join(plain, ",")+"}", "env_vars="+toml(append([]string{}, s.Referring...)))
			for _, key := range s.Referring {
				if strings.HasPrefix(key, "OPENAI_") || strings.HasPrefix(key, "CODEX_") || key == "PATH" || key == "HOME" {
					return nil, nil, fmt.Errorf("server %s: Codex itself would get this value of %s: give the server its variable under another name, or without a ${NAME}", s.Name, key)
				}
				if other, twice := given[key]; twice && other != s.Env[key] {
					return nil, nil, fmt.Errorf("server %s: another server has another value of %s, and Codex gives all servers the same", s.Name, key)
				}
				given[key] = s.Env[key]
			}
		} else {
			switch {
			case s.SSE:
				return nil, nil, fmt.Errorf("server %s: Codex does not know the type sse", s.Name)
			case s.Refers:
				return nil, nil, fmt.Errorf("server %s: its url has a ${NAME}, which all users of the machine could read in Codex's options: use a header", s.Name)
			}
			var headers []string
			for i, key := range slices.Sorted(maps.Keys(s.Headers)) {
				name := fmt.Sprintf("MCP_HEADER_%s_%d", strings.ReplaceAll(s.Name, "-", "_"), i)
				if _, twice := given[name]; twice {
					return nil, nil, errors.New("the names of two servers differ only by - and _")
				}
				given[name] = s.Headers[key]
				headers = append(headers, toml(key)+"="+toml(name))
			}
			fields = append(fields, "url="+toml(s.URL), "env_http_headers={"+strings.Join(headers, ",")+"}")
		}
		if s.Trust { // it cannot ask, so it would refuse every tool that is not marked as reading only
			fields = append(fields, `default_tools_approval_mode="approve"`)
		}
		options = append(options, "-c", "mcp_servers."+s.Name+"={"+strings.Join(fields, ",")+"}")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		env = append(env, name+"="+given[name])
	}
	return options, env, nil
}

// toml is a text or a list of texts in TOML, which has JSON's form for them.
func toml(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts can be encoded
	}
	return string(text)
}
