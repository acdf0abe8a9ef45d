// Package sick tests workers that cannot start their agent: nothing that waits is lost or spent, and others take over.
// The worker is the built program and runs as an unprivileged user, because root may start everything.
package sick
