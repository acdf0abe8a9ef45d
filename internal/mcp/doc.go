// Package mcp reads the file of MCP servers that all agents share, and is the client of those servers for the agent
// model: other agents are clients themselves.
//
// Servers are the servers of an agent, and a Set those of one session. A set's programs run under a guardian and the
// agent's isolation, as tools do: they end with the set, with the session's lease while a turn runs, and with this
// process. A server that cannot be started, hangs, dies, or writes too much fails its own calls only. The next call, or
// the next turn, starts it again.
//
// Errors have neither headers, nor values that came from variables, nor the query of a URL.
package mcp
