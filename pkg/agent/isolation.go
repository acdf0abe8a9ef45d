package agent

// IsolationLevel is how far an agent's programs are kept from the worker and from other sessions.
type IsolationLevel string

// The levels. docs/security.md has a table of what each stops.
const (
	IsolationNone     IsolationLevel = "none"     // the programs may do whatever the worker's user may
	IsolationConfined IsolationLevel = "confined" // the kernel's Landlock limits each program
	IsolationWrapper  IsolationLevel = "wrapper"  // a command, such as bwrap, starts each program
)

// Isolation keeps an agent's programs from the worker and from other sessions. At any level but
// IsolationNone a program works in its session's directory, and has a home of its session and agent
// beside it. A confined one has it as HOME, and a TMPDIR. The zero value is IsolationNone.
type Isolation struct {
	Level IsolationLevel

	// Agent is the agent's name. Two agents of one session do not share a HOME. Defaults to
	// "default".
	Agent string

	// Workspace has a directory for each session, made when it is needed. Adapters with a Workspace
	// of their own use that one. Required, except for IsolationNone.
	Workspace      string
	WorkspaceGroup *int

	// Read are further files and directories that a confined program may read and execute. The
	// system's programs and libraries and the files that the agent's command names are always
	// readable.
	Read []string

	// Ports are the TCP ports to which a confined program may connect, on any host.
	Ports []int

	// Listen are the TCP ports on which a confined program may listen.
	Listen []int

	// Wrapper is a command that gets the program and its arguments as its last arguments. The
	// program must end with it, unless Kill ends it.
	Wrapper []string

	// Kill is a command that runs after the wrapper's end, also when the session's lease is lost or
	// the worker died. It must succeed if there is nothing to end.
	Kill []string
}
