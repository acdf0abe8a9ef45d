// Package approval shows that a turn waits for its user's decision through a deploy, deaths and a restart of Redis.
package approval
