package acp

import (
	"maps"
	"slices"

	acpsdk "github.com/coder/acp-go-sdk"
)

// mcpServers are the servers that the agent starts or connects to for its session. All agents start programs, HTTP is an
// ability.
func (p *process) mcpServers() []acpsdk.McpServer {
	list := []acpsdk.McpServer{}
	if p.servers == nil {
		return list
	}
	for _, s := range p.servers.Servers {
		headers, env := []acpsdk.HttpHeader{}, []acpsdk.EnvVariable{}
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			headers = append(headers, acpsdk.HttpHeader{Name: name, Value: s.Headers[name]})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			env = append(env, acpsdk.EnvVariable{Name: name, Value: s.Env[name]})
		}
		switch {
		case s.Command != "":
			list = append(list, acpsdk.McpServer{Stdio: &acpsdk.McpServerStdio{Name: s.Name, Command: s.Command, Args: append([]string{}, s.Args...), Env: env}})
		case s.SSE && p.can.sse:
			list = append(list, acpsdk.McpServer{Sse: &acpsdk.McpServerSseInline{Type: "sse", Name: s.Name, Url: s.URL, Headers: headers}})
		case !s.SSE && p.can.http:
			list = append(list, acpsdk.McpServer{Http: &acpsdk.McpServerHttpInline{Type: "http", Name: s.Name, Url: s.URL, Headers: headers}})
		default:
			p.logger.Warn("the agent cannot reach a server of TURNSTILE_MCP_FILE by HTTP: it works without", "server", s.Name)
		}
	}
	return list
}
