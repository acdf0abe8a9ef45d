package devredis

// Exports for tests, which import test/redistest, which imports this package.
const (
	Host = host
	Tick = tick
)

var (
	Accepts = accepts
	Address = address
)

// Child returns the process of a server of KindServer, and its directory.
func (s *Server) Child() (p *Process, dir string) {
	p = s.backend.(*child).server
	return p, p.dir
}
