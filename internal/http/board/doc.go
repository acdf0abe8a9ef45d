// Package board serves pages for people: the sessions, one session with its transcript and the
// reply as it comes, and the commands of users and operators as buttons.
//
// It shows the sessions that the visitor's token may see, with buttons for the actions that it may
// do. A cookie represents the token. Texts of users, agents and tools are data everywhere:
// html/template escapes them, control characters and the invisible controls of text direction are
// replaced, and the pages allow no script and no style but the board's own files.
//
// The board stores nothing. It needs no other files and no build.
package board
