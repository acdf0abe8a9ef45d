"""What the bot remembers, in a SQLite file, so that a restarted bot goes on where the last one ended."""

import sqlite3
import threading
import time

FORGET = 7 * 24 * 3600  # seconds after which a starting bot forgets a message that never ended
DELIVERIES = 1000  # of a session that are remembered: Turnstile keeps as many to be redriven

TABLES = """
CREATE TABLE IF NOT EXISTS taken (update_id INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS messages (session TEXT, id TEXT, chat INTEGER, sender TEXT, reply_to INTEGER,
  draft INTEGER, ended INTEGER DEFAULT 0, at REAL, PRIMARY KEY (session, id));
CREATE TABLE IF NOT EXISTS places (session TEXT PRIMARY KEY, event TEXT);
CREATE TABLE IF NOT EXISTS handled (session TEXT PRIMARY KEY, sequence INTEGER, turn TEXT);
CREATE TABLE IF NOT EXISTS deliveries (session TEXT, id TEXT, parts INTEGER DEFAULT 0, done INTEGER DEFAULT 0, PRIMARY KEY (session, id));
CREATE TABLE IF NOT EXISTS questions (session TEXT, number INTEGER, chat INTEGER, message INTEGER, text TEXT,
  senders TEXT, PRIMARY KEY (session, number));
"""


class Store:
    """The messages without a delivery yet, each with its draft: the message in the chat that shows the
    reply as it comes. And what was done of each session's deliveries. Safe for threads; session(key)
    keeps two of them from writing to one chat."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.lock = threading.RLock()
        self.sessions = {}
        self.db.executescript("PRAGMA journal_mode = WAL;" + TABLES)
        self.run("DELETE FROM messages WHERE at < ?", time.time() - FORGET)

    def run(self, sql, *values):
        with self.lock:
            return self.db.execute(sql, values).fetchall()

    def session(self, key):
        """The lock of a session."""
        with self.lock:
            return self.sessions.setdefault(key, threading.RLock())

    # Updates of Telegram.

    def taken(self, update):
        return bool(self.run("SELECT 1 FROM taken WHERE update_id = ?", update))

    def take(self, update):
        self.run("INSERT OR IGNORE INTO taken VALUES (?)", update)

    def confirmed(self, offset):
        """Forgets the updates that Telegram has forgotten."""
        self.run("DELETE FROM taken WHERE update_id < ?", offset)

    # Messages.

    def add(self, session, id, chat, sender, reply_to):
        """Reports whether the message is new."""
        return bool(self.run("INSERT OR IGNORE INTO messages (session, id, chat, sender, reply_to, at) VALUES (?, ?, ?, ?, ?, ?) RETURNING 1",
                             session, id, chat, sender, reply_to, time.time()))  # fmt: skip

    def remove(self, session, id):
        self.run("DELETE FROM messages WHERE session = ? AND id = ?", session, id)

    def of(self, session, ids):
        """The rows (id, chat, sender, reply_to, draft) of those of the messages that have no delivery yet."""
        rows = self.run("SELECT id, chat, sender, reply_to, draft FROM messages WHERE session = ?", session)
        return [row for row in rows if row[0] in ids]

    def draft(self, session, id, message):
        self.run("UPDATE messages SET draft = ? WHERE session = ? AND id = ?", message, session, id)

    def ended(self, session, ids):
        """Nothing more of these messages is in the event stream."""
        for id in ids:
            self.run("UPDATE messages SET ended = 1 WHERE session = ? AND id = ?", session, id)

    def waiting(self, session=None):
        """The sessions with messages that have not ended."""
        rows = self.run("SELECT DISTINCT session FROM messages WHERE ended = 0 AND ? IN (session, '')", session or "")
        return [row[0] for row in rows]

    def place(self, session):
        """The event from behind which the session's running turn can be read."""
        rows = self.run("SELECT event FROM places WHERE session = ?", session)
        return rows[0][0] if rows else None

    def move(self, session, event):
        self.run("INSERT OR REPLACE INTO places VALUES (?, ?)", session, event)

    # Deliveries.

    def handled(self, session):
        """The sequence of the session's last delivery, and the last turn whose end was sent."""
        rows = self.run("SELECT sequence, turn FROM handled WHERE session = ?", session)
        return rows[0] if rows else (-1, None)

    def done(self, session, delivery):
        return bool(self.run("SELECT 1 FROM deliveries WHERE session = ? AND id = ? AND done = 1", session, delivery))

    def begin(self, session, delivery):
        """Returns how many messages of a delivery were sent, or None if it begins now."""
        rows = self.run("SELECT parts FROM deliveries WHERE session = ? AND id = ?", session, delivery)
        if rows:
            return rows[0][0]
        self.run("INSERT INTO deliveries (session, id) VALUES (?, ?)", session, delivery)
        return None

    def sent(self, session, delivery, parts):
        self.run("UPDATE deliveries SET parts = ? WHERE session = ? AND id = ?", parts, session, delivery)

    def finish(self, session, delivery, sequence, turn, ids):
        """The delivery is done: for these messages nothing is sent any more."""
        with self.lock:
            self.db.execute("BEGIN")
            self.db.execute("INSERT INTO deliveries (session, id, done) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET done = 1", (session, delivery))
            self.db.execute("DELETE FROM deliveries WHERE session = ? AND rowid NOT IN (SELECT rowid FROM deliveries WHERE session = ? ORDER BY rowid DESC LIMIT ?)",
                            (session, session, DELIVERIES))  # fmt: skip
            self.db.execute("INSERT OR REPLACE INTO handled VALUES (?, ?, coalesce(?, (SELECT turn FROM handled WHERE session = ?)))",
                            (session, sequence, turn, session))  # fmt: skip
            for id in ids:
                self.db.execute("DELETE FROM messages WHERE session = ? AND id = ?", (session, id))
            self.db.execute("COMMIT")

    # Questions.

    def ask(self, session, number, chat, message, text, senders):
        self.run("INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?, ?)", session, number, chat, message, text, " ".join(senders))

    def question(self, session, number):
        """The row (chat, message, text, senders) of an open question, or None."""
        rows = self.run("SELECT chat, message, text, senders FROM questions WHERE session = ? AND number = ?", session, number)
        return rows[0] if rows else None

    def close(self, session, number):
        self.run("DELETE FROM questions WHERE session = ? AND number = ?", session, number)
