// Package slash has the slash commands that a user may write into a chat, and their texts.
package slash
