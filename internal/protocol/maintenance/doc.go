// Package maintenance does the work that may run late: it deletes old data, archives messages
// over a cap, keeps asynqmon's list of queues short, and shows the worker on asynqmon's Servers
// page.
package maintenance
