// Package examples has no code: its tests run agents under a real worker, those of the folder
// examples and commands that are bad examples.
package examples
