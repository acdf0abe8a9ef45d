// Package sdks has no code: its tests run client libraries of npm against a gateway and a worker.
// `make sdks` installs them, and runs the tests.
package sdks
