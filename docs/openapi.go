// Package docs embeds the pages that programs serve.
package docs

import _ "embed"

// OpenAPI is the contract of the gateway, openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
