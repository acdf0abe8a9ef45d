package sdks

import "testing"

// Redocly's linter finds nothing in the gateway's OpenAPI document. Its rules are the recommended ones.
func TestContractLints(t *testing.T) {
	p := newPrograms(t)
	lint := p.node("lint.mjs", "", "../../../docs/openapi.yaml")
	if code, out := lint.ExitCode(), lint.Output.String(); code != 0 || out != "0 found\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
