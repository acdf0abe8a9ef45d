package devredis

// What tests need of this package; they import test/redistest, which imports it.
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
