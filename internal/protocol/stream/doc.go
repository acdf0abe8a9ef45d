// Package stream reads a session's event stream: pages of it, places in it, and notices of new events.
package stream
